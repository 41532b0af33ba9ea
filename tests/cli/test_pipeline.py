"""`einmap pipeline`: schedules compared, searched, written and drawn; what it refuses."""

import json
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline-schedules.md").read_text()
TIMES = ("--devices", "4", "--micro-batches", "8", "--times", "10,12,8")


def test_all_schedules_are_compared_as_the_page_shows(run):
    done = run("pipeline", *TIMES)
    assert done.status == 0
    shown = re.search(r"^\$ einmap pipeline --devices 4 .*?\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)[1]
    assert [line.split() for line in done.out.splitlines()] == [line.split() for line in shown.splitlines()]


def test_the_program_of_the_page_runs():
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {})


def test_the_best_one_is_proven_written_and_drawn(run, tmp_path):
    table, picture = tmp_path / "s.csv", tmp_path / "s.svg"
    options = ("--chunks", "1", "--memory", "8", "-o", table, "--svg", picture, "--json")
    done = run("pipeline", "--schedule", "best", *TIMES, *options)
    document = json.loads(done.out)
    (row,) = document["schedules"]
    assert (row["makespan"], document["proven"], document["gap"]) == (270, True, 0)
    again = json.loads(run("pipeline", "--schedule", table, *TIMES[-2:], "--json").out)["schedules"][0]
    assert {**again, "schedule": "best"} == row
    drawn = picture.read_text()
    assert drawn.count("backward for weights of micro-batch") == 32
    assert "bubble of device 3, 30 s" in drawn


def test_what_is_not_proven_has_a_bound(run):
    done = run("pipeline", "--schedule", "best", *TIMES, "--chunks", "1", "--runs", "2000")
    assert done.out.startswith("best: 282 s, bubble 15%")
    assert "not proven; none takes less than 270 s, so at most 4% are to be gained" in done.out


def test_schedules_that_cannot_be_made_are_left_out_with_a_word(run):
    done = run("pipeline", "--micro-batches", "9")
    assert done.status == 0
    assert "left out: interleaved: 9 micro-batches on 4 devices" in done.err
    assert "zb-v" in done.out


def test_bad_input_is_refused_with_its_place(run, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("0F0,0B0\n1F0,1Q0\n")
    for words, message in [
        (("--times", "1,2"), "three numbers, joined by commas"),
        (("--schedule", "zb-3p"), "no schedule has the name 'zb-3p'"),
        (("--schedule", bad), "bad.csv:2:2: '1Q0' is not an action"),
        (("--schedule", "none.csv"), "none.csv"),
        (("--schedule", "1f1b", "-o", "a.csv", "--csv", "a.csv", "--force"), "two outputs name the same file 'a.csv'"),
        (("--svg", tmp_path / "a.svg"), "says which schedule is written or drawn"),
        (("--times", "nan,1,1"), "finite and not negative"),
        (("--times", "1e308,1,1"), "at most 1e+300"),
        (("--schedule", "1f1b", "--memory", "2"), "only --schedule best has it"),
        (("--runs", "2"), "only --schedule best has it"),
        (("--devices", "1000", "--micro-batches", "1000"), "more than 200,000 actions"),
        (("--schedule", "best", "--devices", "100", "--micro-batches", "100"), "is not searched"),
        (("--schedule", "best", "--memory", "0.5"), "one micro-batch needs 2"),
    ]:
        done = run("pipeline", *words)
        assert done.status == 2, words
        assert message in " ".join(done.err.replace("│", " ").split()), (words, done.err)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--schedule", "1f1b", "--chunks", "3"), "1f1b has its own number of stages a device"),
        (("--schedule", "zb-v", "--chunks", "2"), "zb-v has its own number of stages a device"),
        (("--schedule", "1f1b", "--overlapped", "0.8"), "only passes of dual-pipe-v overlap"),
        (("--schedule", "best", "--overlapped", "0.8"), "only passes of dual-pipe-v overlap"),
        (("--overlapped", "3"), "less than or equal to 1"),
        (("--schedule", "FILE", "--devices", "8"), "--devices: the file has all actions of all devices"),
        (("--schedule", "FILE", "--micro-batches", "8"), "--micro-batches: the file has all actions"),
        (("--schedule", "FILE", "--chunks", "1"), "--chunks: the file has all actions"),
        (("--schedule", "FILE", "--overlapped", "0.8"), "--overlapped: no actions of the file overlap"),
    ],
)
def test_options_that_would_do_nothing_or_are_out_of_range_are_refused(run, tmp_path, words, said):
    table = tmp_path / "one.csv"
    table.write_text("0F0,0B0\n")
    done = run("pipeline", *(table if word == "FILE" else word for word in words))
    assert done.status == 2
    assert said in " ".join(done.err.split())
