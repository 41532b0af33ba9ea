"""docs/bad-inputs.md and the tests have the same rows, and say the same of each."""

import re
from collections import defaultdict
from pathlib import Path

from tests.catalogue.rows import ROWS

TABLE = Path(__file__).parents[2] / "docs" / "bad-inputs.md"
OUTCOMES = {"error", "warning", "legal"}


def documented():
    """Number and outcomes of each row, in written order; what says nothing is an error."""
    text = re.sub(r"\n +", " ", TABLE.read_text(encoding="utf-8"))  # lines of one row
    rows = re.findall(r"^(\d+)\. .*?(?: \(\*\*(.*)\*\*\))?$", text, re.MULTILINE)
    return [(int(number), set((outcomes or "error").split(", "))) for number, outcomes in rows]


def test_the_table_has_each_row_once():
    assert [number for number, _ in documented()] == list(range(1, len(documented()) + 1))
    assert all(outcomes and outcomes <= OUTCOMES for _, outcomes in documented())


def test_the_tests_have_each_row_and_no_other():
    assert sorted({case.row for case in ROWS}) == [number for number, _ in documented()]


def test_no_two_cases_have_one_name():
    names = [(str(case), case.run) for case in ROWS]
    assert len(set(names)) == len(names)


def test_the_table_says_of_each_row_what_the_tests_check():
    tested = defaultdict(set)
    for case in ROWS:
        tested[case.row].add(case.outcome)
    assert [(number, outcomes, tested[number]) for number, outcomes in documented() if outcomes != tested[number]] == []
