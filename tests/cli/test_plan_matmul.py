"""`einmap plan-matmul`: the report, JSON, files of machines, written plans, and errors."""

import json

import pytest
from tests.cli.conftest import without

from einmap.matmul.machine.read_machine import machine_paths

PRODUCT = ("plan-matmul", 4096, 4096, 16384, "--machine", "chiplet_256", "--dtype", "fp8")
MACHINE = """\
machine:
  grain: {m: 2, k: 1, n: 4}
  levels:
  - {name: L1, size: 4 * 1024 * 8, load_bandwidth: 8e9}
  compute:
    flops: {int8: 1e9}
"""


def test_the_report_shows_the_worked_table_and_the_overflow(run):
    done = run(*PRODUCT, "--fit", "resident")
    assert done.status == 0
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "main A 16 MiB, B 64 MiB, C 64 MiB" in lines
    assert "SLC 4 1 1 C 1 4,096 2,048 16,384 1 2 1" in lines
    assert "LCC 3 8 8 A 2 4,096 2,048 1,024 1 1 16" in lines
    assert "L2 2 32 32 B 3 128 2,048 1,024 32 1 1" in lines
    assert "spatial-for m by 128 on L2.workers" in lines
    assert "note: L2 overflows: the blocks need 2,490,368 bytes" in done.err


def test_json_is_one_document(run):
    done = run(*PRODUCT, "--json")
    document = json.loads(done.out)
    assert document["optimal"]
    assert document["feasible"]
    assert [level["name"] for level in document["levels"]] == ["SLC", "LCC", "L2"]
    shares = sum(level["seconds"] for level in document["levels"]) + document["compute_seconds"]
    assert shares == pytest.approx(document["seconds"])


def test_a_written_plan_evaluates_to_its_traffic(run, tmp_path):
    file = tmp_path / "plan.yaml"
    document = json.loads(run(*PRODUCT, "--level-by-level", "--json", "-o", file).out)
    cost = json.loads(run("evaluate", file, "--json").out)
    main = sum(row["count"] for row in cost["actions"] if row["component"] == "main")
    assert main == document["levels"][0]["traffic_bits"]


def test_a_machine_of_a_file(run, tmp_path):
    (tmp_path / "mine.yaml").write_text(MACHINE)
    done = run("plan-matmul", 100, 50, 80, "--machine", tmp_path / "mine.yaml", "--dtype", "int8", "--json")
    document = json.loads(done.out)
    assert document["machine"] == "mine"
    assert document["rules"]["grain"] == {"m": 2, "k": 1, "n": 4}
    (level,) = document["levels"]
    assert level["needed_bits"] <= 4 * 1024 * 8


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size: 4 * 1024 * 8", "size: -8", 'mine.yaml:4:22: machine.levels[0] "L1".size: size must be >= 0, found -8'),
        ("size: 4 * 1024 * 8", "size: 0", "size must be > 0, found 0"),
        ("size:", "sizzle:", "unknown field 'sizzle'"),
        ("load_bandwidth: 8e9", "load_bandwidth: fast", "name 'fast' is not defined"),
        ("int8: 1e9", "int9: 1e9", "mine.yaml:6:"),
        ("int8: 1e9", "int9: 1e9", "did you mean 'int8'?"),
        ("m: 2", "q: 2", "no dimension 'q'"),
        ("m: 2", "m: 1.5", "mine.yaml:2:"),
        ("machine:", "machin:", "did you mean 'machin'?"),
        ("name: L1", "name: 3 L", "'3 L' is not a name"),
    ],
)
def test_a_bad_machine_file_is_refused_with_its_place(run, tmp_path, monkeypatch, old, new, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(MACHINE.replace(old, new))
    done = run("plan-matmul", 100, 50, 80, "--machine", "mine.yaml", "--dtype", "int8")
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert "mine.yaml" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--machine", "chiplet_25"), "did you mean 'chiplet_256'?"),
        (("--dtype", "f8"), "did you mean 'fp8'?"),
        (("--resident", "A"), "write OPERAND@LEVEL"),
        (("--resident", "A@SLX"), "did you mean 'SLC'?"),
        (("--grain", "8,8"), "write one whole number, or three"),
        (("--fit", "resident", "--joint"), "nothing to optimise jointly"),
        (("--accumulate", "own"), "did you mean 'owned'?"),
    ],
    ids=str,
)
def test_bad_words_end_with_status_2(run, words, message):
    done = run(*without(PRODUCT, words), *words)
    assert (done.status, done.out) == (2, "")
    assert message in " ".join(done.err.split())


def test_nothing_is_written_for_bad_input(run, tmp_path):
    file = tmp_path / "plan.yaml"
    assert run("plan-matmul", 0, 1, 1, "--machine", "chiplet_256", "--dtype", "fp8", "-o", file).status == 2
    assert not file.exists()


@pytest.mark.parametrize("name", sorted(machine_paths()))
def test_shipped_machines_are_listed_and_plan(run, name):
    assert f"  {name}  " in run("examples").out
    done = run("plan-matmul", 1024, 1024, 1024, "--machine", name, "--dtype", "fp32", "--level-by-level")
    assert done.status == 0
