"""The worked example of docs/mapper.md is true."""

import re
from pathlib import Path

import einmap
from einmap import load, map_workload

PAGE = (Path(__file__).parents[2] / "docs" / "mapper.md").read_text()
SECTION = PAGE.split("## A partly given mapping\n")[1].split("\n## ")[0]


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL)


def test_the_given_mapping_of_the_page_has_the_result_of_the_page(tmp_path):
    given, result = blocks("yaml")
    (tmp_path / "partial.yaml").write_text(given)
    spec = load("tpu_v4i", "matmul", define={"M": 512, "K": 512, "N": 512})
    found = map_workload(spec, given=tmp_path / "partial.yaml")
    assert found.optimal
    assert found.mapping == einmap.loads(result).mapping
    assert f"{found.cost.edp * 1e12:.0f} pJ*s" in SECTION
    assert f"{map_workload(spec).cost.edp * 1e12:.0f} pJ*s" in SECTION


def test_the_program_of_the_page_runs():
    (program,) = blocks("python")
    exec(compile(program, "docs/mapper.md", "exec"), {})
