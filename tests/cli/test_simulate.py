"""`einmap simulate`: the report, the JSON document, the exit status, files."""

import csv
import importlib
import json
import sys
from dataclasses import replace

import pytest

from einmap.execute import execute as execution

SMALL = ("simple", "matmul", "simple_matmul", "-D", "M=16", "-D", "K=8", "-D", "N=16")


@pytest.fixture
def meddle(monkeypatch):
    """Call it with a function that changes what every execution returns."""
    real = execution.execute

    def change(how):
        monkeypatch.setattr(execution, "execute", lambda spec, **options: how(real(spec, **options)))

    return change


def test_the_report_tells_outputs_counts_usage_and_occupancy(run):
    done = run("simulate", *SMALL)
    assert (done.status, done.err) == (0, "")
    assert "Z: equal to the plain einsum, max error 0\n" in done.out
    assert "model and execution agree in all 13 numbers\n" in done.out
    assert "Memories: bits in use at most\n" in done.out
    assert "Occupancy over 2,048 operations" in done.out
    assert [line for line in done.out.splitlines() if line != line.rstrip() or len(line) > 80] == []


def test_json_is_one_document_with_the_numbers_of_both_sides(run):
    done = run("simulate", *SMALL, "--json")
    found = json.loads(done.out)
    assert (done.status, found["mismatches"], found["max_relative_error"], found["agrees"]) == (0, [], 0, True)
    compute = [row for row in found["actions"] if row["action"] == "compute"]
    assert [(row["model"], row["simulated"]) for row in compute] == [(2048, 2048)]
    assert found["steps"] == {"Z": {"model": 2048, "simulated": 2048}}


def test_the_preset_is_exact_whatever_the_specification_says(run, tmp_path):
    (tmp_path / "model.yaml").write_text("model: {semantics: accelforge}\n")
    done = run("simulate", "simple", "matmul_chain", "simple_matmul_chain_fused", tmp_path / "model.yaml", "--json")
    assert (done.status, json.loads(done.out)["mismatches"]) == (0, [])


def test_a_mismatch_gives_status_1(run, meddle):
    meddle(lambda done: replace(done, actions=(replace(done.actions[0], count=1.0), *done.actions[1:])))
    done = run("simulate", *SMALL)
    assert (done.status, "differ in 1 of 13 numbers" in done.out) == (1, True)
    done = run("simulate", *SMALL, "--json")
    assert (done.status, [row["simulated"] for row in json.loads(done.out)["mismatches"]]) == (1, [1])


def test_a_wrong_output_gives_status_1(run, meddle):
    meddle(lambda done: replace(done, tensors={"Z": done.tensors["Z"] + 1}))
    done = run("simulate", *SMALL, "--json")
    found = json.loads(done.out)
    assert (done.status, found["mismatches"], found["max_abs_error"], found["agrees"]) == (1, [], 1, False)


def test_the_seed_chooses_the_values_of_the_inputs(run, meddle):
    seen = []
    meddle(lambda done: seen.append(done.inputs["A"]) or done)
    for seed in (0, 0, 1):
        assert run("simulate", *SMALL, "--seed", seed).status == 0
    assert (seen[0] == seen[1]).all()
    assert (seen[0] != seen[2]).any()


def test_what_could_be_better_is_no_note_of_a_simulation(run):
    assert "note: " in run("evaluate", "simple", "matmul", "simple_matmul").err
    assert run("simulate", "simple", "matmul", "simple_matmul").err == ""


# files


def test_the_picture_is_a_png(run, tmp_path):
    done = run("simulate", *SMALL, "--plot", tmp_path / "out.png")
    assert (done.status, done.err) == (0, f"einmap: wrote {tmp_path}/out.png\n")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_the_trace_holds_the_events_of_the_chosen_components(run, tmp_path):
    done = run("simulate", *SMALL, "--trace", tmp_path / "out.csv", "--component", "MainMemory")
    assert done.status == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert {row["component"] for row in rows} == {"MainMemory"}
    assert sum(int(row["count"]) for row in rows if (row["tensor"], row["action"]) == ("Z", "write")) == 256


def test_the_trace_names_the_tile_of_each_event(run, tmp_path):
    run("simulate", *SMALL, "--trace", tmp_path / "out.csv", "--component", "MainMemory")
    rows = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    assert {row["tile"] for row in rows if row["tensor"] == "Z"} == {"0..15 0..15"}


def test_without_names_all_memories_are_traced(run, tmp_path):
    assert run("simulate", *SMALL, "--trace", tmp_path / "out.csv").status == 0
    rows = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    assert {row["component"] for row in rows} == {"MainMemory", "GlobalBuffer"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--plot", "out.pdf"), "name it out.png"),
        (("--plot", "gone/out.png"), "gone does not exist"),
        (("--trace", "out.txt"), "events are written as .csv or .parquet, not '.txt'\n  hint: name the file out.csv"),
        (("--trace", "gone/out.csv"), "gone does not exist"),
        (("--component", "MAC"), "it chooses the events that --trace FILE"),
        (("--trace", "out.csv", "--component", "MainMemry"), "did you mean 'MainMemory'?"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_the_run(run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(execution, "execute", pytest.fail)
    done = run("simulate", *SMALL, *words)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("library", "words", "extra"),
    [("matplotlib", ("--plot", "out.png"), "plots"), ("pyarrow", ("--trace", "out.parquet"), "trace")],
)
def test_a_missing_library_is_an_error_with_a_hint(run, tmp_path, monkeypatch, library, words, extra):
    real = importlib.import_module

    def without(name):
        if name.partition(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {library!r}")
        return real(name)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib, "import_module", without)
    monkeypatch.setattr(execution, "execute", pytest.fail)
    done = run("simulate", *SMALL, *words)
    assert (done.status, done.out) == (2, "")
    assert f"this needs {library}, which is not installed\n  hint: pip install 'einmap[{extra}]'" in done.err


def test_the_result_is_printed_even_if_a_file_could_not_be_written(run, tmp_path, monkeypatch, meddle):
    folder = tmp_path / "folder"
    folder.mkdir()
    meddle(lambda done: folder.rmdir() or done)
    done = run("simulate", *SMALL, "--trace", folder / "out.csv", "--json")
    assert done.status == 2
    assert json.loads(done.out)["mismatches"] == []
    assert "does not exist" in done.err


# bad input


def test_a_specification_without_a_mapping_is_refused(run):
    done = run("simulate", "simple", "matmul")
    assert (done.status, done.out) == (2, "")
    assert "no mapping given" in done.err


def test_a_mapping_that_overflows_a_memory_is_refused(run):
    done = run("simulate", "simple", "matmul", "simple_matmul", "-D", "K=1000000")
    assert (done.status, done.out) == (2, "")
    assert "memory 'GlobalBuffer' needs" in done.err


def test_too_large_a_problem_is_refused_with_an_estimate_unless_forced(run, monkeypatch, meddle):
    monkeypatch.setattr(execution, "MAX_OPERATIONS", 100)
    done = run("simulate", *SMALL)
    assert (done.status, done.out) == (2, "")
    assert "too large to execute" in done.err
    assert "--force" in done.err
    assert run("simulate", *SMALL, "--force").status == 0


def test_other_commands_do_not_import_the_simulator():
    assert "einmap.execute.execute" in sys.modules  # by this test
    source = importlib.import_module("einmap.cli.commands.simulate")
    assert not hasattr(source, "execute")
