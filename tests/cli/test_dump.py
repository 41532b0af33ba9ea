"""`einmap dump` and `einmap schema`."""

import json

from einmap import evaluate, load, loads

FILES = ("tpu_v4i", "matmul", "tpu_v4i_matmul", "-D", "M=512", "-D", "K=512", "-D", "N=512")


def test_dump_prints_what_the_files_say(run):
    done = run("dump", "simple", "matmul", "-D", "M=8")
    assert (done.status, done.err) == (0, "")
    assert loads(done.out) == load("simple", "matmul", define={"M": 8})


def test_dump_writes_the_other_dialect_into_a_file_that_costs_the_same(run, tmp_path):
    path = tmp_path / "newer.yaml"
    done = run("dump", *FILES, "--dialect", "newer", "-o", path)
    assert (done.status, done.out) == (0, "")
    assert "!Fanout" not in path.read_text()
    assert load(path).dialect == "newer"
    assert run("evaluate", path).out == run("evaluate", *FILES).out


def test_what_cannot_be_expressed_is_an_error_and_nothing_is_written(run, tmp_path):
    given, path = tmp_path / "newer.yaml", tmp_path / "older.yaml"
    given.write_text("arch:\n  nodes:\n  - !Memory {name: M, size: 1, actions_scale: 2}\n")
    done = run("dump", given, "--dialect", "older", "-o", path)
    assert (done.status, done.out) == (2, "")
    assert f"error: {given}:3:" in done.err
    assert 'arch.nodes[0] "M".actions_scale: the older dialect cannot express `actions_scale`' in done.err
    assert not path.exists()


def test_an_unknown_dialect_is_answered_with_the_known_ones(run):
    done = run("dump", "simple", "--dialect", "old")
    assert done.status == 2
    assert "unknown dialect 'old'" in done.err
    assert "older" in done.err


def test_the_output_never_replaces_an_input(run, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("arch: {nodes: []}\n")
    assert run("dump", path, "-o", path).status == 2
    assert path.read_text() == "arch: {nodes: []}\n"


def test_schema_prints_one_document(run, tmp_path):
    document = json.loads(run("schema").out)
    assert document["$schema"].startswith("https://json-schema.org/")
    path = tmp_path / "schema.json"
    assert run("schema", "--section", "arch", "-o", path).status == 0
    assert "nodes" in json.dumps(json.loads(path.read_text()))
    assert run("schema", "--section", "archh").status == 2


def test_what_was_dumped_evaluates_the_same(run):
    given = load("simple", "matmul", "simple_matmul")
    assert evaluate(loads(run("dump", "simple", "matmul", "simple_matmul").out)).energy == evaluate(given).energy
