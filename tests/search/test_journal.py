"""The journal of an experiment survives a kill, and nothing unreadable is lost."""

import json

import pytest

from einmap.errors import SpecError
from einmap.search.experiment import Run
from einmap.search.journal import open_journal
from einmap.search.summary import Quartiles, bootstrap_median, gap, summarised

EXPERIMENT = {"specification": "abc", "evaluations": 10}
RUNS = [
    Run("random", seed, 10, 0.5, 9, ((1, 0.1, 8.0), (4, 0.2, 2.0 + seed)), ((2.0 + seed, (7, (0, 3))),))
    for seed in range(3)
]


@pytest.fixture
def path(tmp_path):
    journal = open_journal(tmp_path / "runs", EXPERIMENT)
    for run in RUNS:
        journal.append(run)
    return tmp_path / "runs"


def test_runs_come_back(path):
    assert open_journal(path, EXPERIMENT).runs == tuple(RUNS)


def test_a_line_that_was_cut_off_is_kept_aside_and_the_others_go_on(path):
    cut = path.read_text()[:-20]
    path.write_text(cut)
    journal = open_journal(path, EXPERIMENT)
    assert journal.runs == tuple(RUNS[:2])
    assert journal.set_aside.read_text() == cut
    journal.append(RUNS[2])
    again = open_journal(path, EXPERIMENT)
    assert (again.runs, again.set_aside) == (tuple(RUNS), None)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe nothing\n", b'{"other": 1}\n'])
def test_a_file_that_is_no_journal_is_kept_aside_unchanged(path, content):
    path.write_bytes(content)
    journal = open_journal(path, EXPERIMENT)
    assert journal.runs == ()
    assert journal.set_aside.read_bytes() == content


def test_the_journal_of_another_experiment_is_refused_and_left_alone(path):
    before = path.read_text()
    with pytest.raises(SpecError, match="another experiment") as error:
        open_journal(path, {**EXPERIMENT, "evaluations": 20})
    assert "evaluations" in error.value.hint
    assert path.read_text() == before
    assert json.loads(before.splitlines()[0])["evaluations"] == 10


def test_summaries_are_quartiles_over_seeds():
    (summary,) = summarised(RUNS, 2.0, 10)
    # bests are 2, 3 and 4; the optimum is 2
    assert summary.final == Quartiles(0.0, 0.5, 1.0)
    assert dict(summary.by_evaluations)[2.0].median == 3.0
    ten_percent = summary.reached[0]
    assert (ten_percent.seeds, ten_percent.evaluations.low, ten_percent.evaluations.median) == (1, 4, float("inf"))


def test_gaps_and_intervals():
    assert gap(1.0 + 1e-12, 1.0) == 0.0
    assert gap(3.0, 2.0) == 0.5
    assert bootstrap_median([1.0] * 5) == (1.0, 1.0)
    low, high = bootstrap_median([0.0, 1.0, 2.0, 3.0, 4.0])
    assert 0 <= low <= 2 <= high <= 4
