"""Every row of the catalogue of bad inputs ends as the catalogue says, with a message that helps.

A message names its cause, the file and the line, the path of the field, and what to do. Rows that are
no single text (a file that is missing, a search that takes too long) are functions below the table.
"""

import pytest
from tests.catalogue.cases import notes_of, problems_of, shortcomings, written
from tests.catalogue.rows import ROWS

from einmap.errors import EinmapError


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_a_row_ends_as_the_catalogue_says(case, tmp_path, monkeypatch):
    files = written(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    try:
        found = list(notes_of(case, files))
        outcome = "warning" if case.outcome == "warning" else "legal"
    except EinmapError as problem:
        found, outcome = problems_of(problem), "error"
    assert outcome == case.outcome, [str(one) for one in found]
    if case.outcome == "legal":
        assert [str(note) for note in found] == []
        return
    lacking = [(str(one), shortcomings(case, one)) for one in found]
    assert any(not problems for _, problems in lacking), lacking
