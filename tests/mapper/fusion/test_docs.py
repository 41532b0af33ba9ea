"""The fused mapping that docs/mapper.md shows is what comes out."""

from pathlib import Path

from einmap.mapper.fusion_saving import unfused_comparison
from einmap.report.costs.cost_report import map_report, to_text

PAGE = (Path(__file__).parents[3] / "docs" / "mapper.md").read_text()


def test_the_fused_mapping_of_the_document_is_found():
    section = PAGE.split("## A fused mapping")[1]
    program = section.split("```python\n")[1].split("```")[0]
    names: dict = {}
    exec(compile(program, "docs/mapper.md", "exec"), names)
    spec, result = names["spec"], names["result"]
    text = to_text(map_report(result, spec, 100, saving=unfused_comparison(spec, result)), 100)
    shown = section.split("prints for it\n\n```\n")[1].split("```")[0]
    assert result.optimal
    before, tree = shown.split("...\n")
    assert before.split("\n\n", 1)[1] in text
    assert text.endswith(tree)
