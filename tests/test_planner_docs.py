"""The programs of docs/planner.md run; what they assert is true."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "planner.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_each_program_of_the_page_runs(number):
    exec(compile(PROGRAMS[number], str(PAGE), "exec"), {})


def test_the_page_has_programs():
    assert PROGRAMS
