"""What docs/search-lab.md shows is what happens."""

import re
from pathlib import Path

from einmap.search import strategy

PAGE = (Path(__file__).parents[2] / "docs" / "search-lab.md").read_text()


def test_the_program_registers_a_strategy_and_prints_what_is_shown(capsys, monkeypatch):
    monkeypatch.setattr(strategy, "_REGISTERED", {})
    code = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code[1], "search-lab.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == code[2]


def test_the_table_lists_the_strategies():
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)[: len(strategy.BUILT_IN)] == list(strategy.BUILT_IN)
