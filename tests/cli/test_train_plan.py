"""`einmap train-plan`: the best plan of a step of training, its files, and what it refuses."""

import csv
import json
import re

import pytest

SMALL = ("feed_forward", "-D", "BITS=16", "--mesh", "x=4", "--batch", "8", "--ranks", "M", "--layers", "4")


def test_it_shows_the_best_plan_what_a_step_is_spent_on_and_the_best_of_each_kind(run):
    done = run("train-plan", *SMALL)
    assert done.status == 0
    for words in ("A step takes", "best: proven", "What a device holds", "The best plan of each way", "data x tensor"):
        assert words in done.out


def test_a_plan_that_was_written_is_read_again_and_costs_the_same(run, tmp_path):
    plan, table, picture = tmp_path / "plan.yaml", tmp_path / "kinds.csv", tmp_path / "plan.svg"
    words = ("-o", str(plan), "--svg", str(picture), "--csv", str(table), "--table", "kinds", "--json")
    first = json.loads(run("train-plan", *SMALL, *words).out)
    again = json.loads(run("train-plan", *SMALL, "--fix", str(plan), "--json").out)
    assert again["seconds"] == first["seconds"]
    assert again["plan"] == first["plan"]
    assert again["plans"] == 1
    assert picture.read_text().startswith("<svg")
    assert re.search(r"at most [0-9.]+ [KM]iB of activations held", picture.read_text())
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["parallel"] for row in rows} == {kind["parallel"] for kind in first["kinds"]}


def test_sub_meshes_of_different_sizes_are_fixed_shown_written_and_read(run, tmp_path):
    plan = tmp_path / "plan.yaml"
    words = ("--fix", "meshes=1x1+2x1+1x1", "--fix", "zero=0")
    done = run("train-plan", *SMALL, *words, "-o", str(plan))
    assert "stages with dp x tp of 1x1 + 2x1 + 1x1" in done.out
    assert "pipeline on unequal" in " ".join(done.out.split())
    assert "meshes: [[1, 1], [2, 1], [1, 1]]" in plan.read_text()
    first, again = (json.loads(run("train-plan", *SMALL, *fix, "--json").out) for fix in (words, ("--fix", str(plan))))
    assert (again["plan"], again["seconds"]) == (first["plan"], first["seconds"])


def test_fields_are_fixed_to_one_value_or_several(run):
    done = json.loads(run("train-plan", *SMALL, "--fix", "tp=2", "--fix", "zero=1|3", "--fix", "dp=2", "--json").out)
    assert done["plan"]["tp"] == 2
    assert done["plan"]["zero"] in (1, 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fix", "tq=2"), "no field 'tq'"),
        (("--fix", "tp=two"), "tp is 'two'; expected a whole number"),
        (("--fix", "tp"), "'=' is missing"),
        (("--fix", "schedule=1f2b"), "no schedule has the name"),
        (("--fix", "dp=3"), "no plan divides 4 devices"),
        (("--memory", "1KiB"), "no plan keeps to 1 KiB"),
        (("--bytes", "2"), "two numbers"),
        (("--fix", "dp=4,zero=1"), "has more than one field"),
        (("--fix", "stages=1+x"), "stages is [1, 'x']; expected layers of each stage"),
        (("--fix", "meshes=2x1+1x1"), "the stages have 3 devices, the machine 4"),
        (("--fix", "meshes=2x1+2"), "expected dp and tp of each sub-mesh"),
        (("--fix", "meshes=2+2"), "expected dp and tp of each sub-mesh"),
        (("--fix", "meshes=2xa+2x1"), "expected dp and tp of each sub-mesh"),
        (("--fix", "meshes="), "expected dp and tp of each sub-mesh"),
        (("--cluster", "tpu_v4i"), "it has no key 'cluster'"),
        (("--cluster", "a100_nodes", "--mesh", "z=4"), "no links along mesh axis 'z'"),
    ],
)
def test_what_is_wrong_is_said_with_exit_status_2(run, words, said):
    done = run("train-plan", *SMALL, *words)
    assert done.status == 2
    assert said in " ".join(done.err.split())


def test_stages_and_what_overlaps_are_fixed_by_words(run):
    words = ("--fix", "pp=2", "--fix", "stages=1+3", "--fix", "overlap=data+tensor", "--fix", "chunks=1")
    plan = json.loads(run("train-plan", *SMALL, *words, "--json").out)["plan"]
    assert plan["stages"] == [1, 3]
    assert plan["overlap"] == ["data", "tensor"]


@pytest.mark.parametrize("ranks", ["", ",M", "M,M", "M,D,S,C"])
def test_ranks_are_one_to_three_different_ones(run, ranks):
    done = run("train-plan", "feed_forward", "--mesh", "x=4", "--batch", "8", "--ranks", ranks)
    assert done.status == 2
    assert "one to three different ranks" in done.err


def test_an_unknown_rank_of_samples_is_refused(run):
    done = run("train-plan", "feed_forward", "--mesh", "x=4", "--batch", "8", "--ranks", "Q")
    assert done.status == 2
    assert "no rank 'Q'" in done.err


def test_a_file_without_a_plan_is_refused_with_its_place(run, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("training:\n  tp: 2\n  zero: 7\n")
    done = run("train-plan", *SMALL, "--fix", str(file))
    assert done.status == 2
    assert "plan.yaml:3" in done.err


def test_too_few_layers_for_the_stages_are_told(run):
    done = run("train-plan", *SMALL[:-1], "1", "--fix", "pp=4")
    assert done.status == 2
    assert "4 stages of a pipeline, but the model has 1 layer " in " ".join(done.err.split()) + " "
