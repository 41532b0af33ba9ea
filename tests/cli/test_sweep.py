"""`einmap sweep`: runs, what a store tells, and files."""

import csv
import json

import pytest

import einmap
from einmap.sweep.result import PointResult

SMALL = """
sweep:
  specs: [simple, matmul, simple_matmul]
  define: {M: 16, K: 8, N: 16}
  action: evaluate
  axes:
  - {name: buffer, path: arch.GlobalBuffer.size, values: ["<b>", 32768, 65536]}
  - {name: clock, path: arch.MAC.actions.compute.throughput, values: [1e9, 2e9]}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path


def test_a_sweep_is_run_told_of_shown_and_exported(run, folder):
    done = run("sweep", "small.yaml", "--workers", 0, "--csv", "a.csv", "--html", "a.html")
    assert done.status == 0
    assert "small: 6 points, 4 done, 2 failed" in done.out
    assert "6 of 6 points are finished; kept in small.sqlite" in done.err
    rows = list(csv.DictReader((folder / "a.csv").read_text().splitlines()))
    assert [row["status"] for row in rows] == ["failed"] * 2 + ["done"] * 4
    assert [row["on front"] for row in rows] == ["False"] * 3 + ["True", "False", "True"]
    page = (folder / "a.html").read_text()
    assert "Parallel coordinates" in page
    assert "<b>" not in page

    status = run("sweep", "status", "--store", "small.sqlite", "--json")
    assert json.loads(status.out)["sweeps"][0]["counts"] == {"done": 4, "invalid": 2}
    assert "4 done, 2 invalid" in run("sweep", "status", "--store", "small.sqlite").out

    shown = run("sweep", "show", 3, "--store", "small.sqlite", "-o", "point.yaml")
    assert "point 3: done" in shown.out and "!Storage {component: GlobalBuffer" in shown.out
    document = json.loads(run("sweep", "show", 3, "--store", "small.sqlite", "--json").out)
    assert einmap.evaluate(einmap.load("point.yaml")).energy == document["energy"] == float(rows[3]["energy [J]"])
    assert "invalid" in run("sweep", "show", 0, "--store", "small.sqlite").out

    exported = run("sweep", "export", "--store", "small.sqlite", "--csv", "b.csv", "--parquet", "b.parquet")
    assert (exported.status, exported.out) == (0, "")
    assert (folder / "b.csv").read_text() == (folder / "a.csv").read_text()
    again = json.loads(run("sweep", "small.yaml", "--workers", 0, "--json").out)
    assert (again["front"], again["best"]) == ([3, 5], {"energy": 2, "latency": 3})
    assert {effect["axis"] for effect in again["effects"]} == {"clock"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("smal.yaml",), "there is no file 'smal.yaml', and no shipped sweep of that name"),
        (("simple_bufer",), "did you mean 'simple_buffer'?"),
        (("small.yaml", "more.yaml"), "'more.yaml' is too much"),
        (("show", "--store", "s.sqlite"), "write the number of one point"),
        (("show", "x", "--store", "s.sqlite"), "write the number of one point"),
        (("status",), "name the store"),
        (("status", "--store", "none.sqlite"), "there is no such store"),
        (("status", "--store", "small.yaml"), "this is not a store, or it is damaged"),
        (("small.yaml", "--store", "small.yaml"), "this is not a store, or it is damaged"),
        (("export", "--store", "s.sqlite"), "say where to"),
        (("small.yaml", "--csv", "small.yaml", "--force"), "the output would replace a file of the specification"),
        (("small.yaml", "--sample", 0), "should be greater than or equal to 1"),
    ],
)
def test_what_is_wrong_ends_with_status_2_and_changes_nothing(run, folder, words, message):
    done = run("sweep", *words)
    assert done.status == 2
    assert message in " ".join(done.err.replace("│", " ").split())
    assert (folder / "small.yaml").read_text() == SMALL


def test_points_that_are_not_there_are_told(run, folder):
    run("sweep", "small.yaml", "--workers", 0, "--sample", 2, "--store", "s.sqlite")
    done = run("sweep", "show", 99, "--store", "s.sqlite")
    assert (done.status, "has no point 99" in done.err) == (2, True)
    done = run("sweep", "status", "--store", "s.sqlite", "--sweep", "smal")
    assert "did you mean 'small'" in done.err


def test_shipped_sweeps_are_ready_to_run():
    from einmap.sweep.bases import Bases
    from einmap.sweep.definition.read import read_sweep, sweep_paths

    for name in sweep_paths():
        definition = read_sweep(name)
        assert Bases(definition).check(definition.grid.point(0))
    assert isinstance(next(einmap.sweep("simple_buffer", workers=0)), PointResult)


def test_what_is_compiled_first_is_said_in_a_pipe_too(folder, monkeypatch, run, tmp_path):
    from einmap.cli import progress_bar

    run("--version")  # the fixture has set its part
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "none"))
    text = SMALL.replace("[simple, matmul, simple_matmul]", "[simple, matmul]").replace(
        '["<b>", 32768, 65536]', "[65536]"
    )
    (folder / "mapped.yaml").write_text(text.replace("evaluate", "map").replace("[1e9, 2e9]", "[1e9]"))
    said = "the kernels of the search are compiled first"
    assert said in run("sweep", "mapped.yaml", "--workers", 0).err
    assert said not in run("sweep", "small.yaml", "--workers", 0).err  # nothing is searched
    kept = tmp_path / "none" / "branch_and_bound_1"
    kept.mkdir(parents=True)
    (kept / "kernels.search-99.py312.nbi").touch()
    assert said not in run("sweep", "mapped.yaml", "--workers", 0).err
    assert not progress_bar.is_uncompiled()
