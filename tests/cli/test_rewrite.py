"""`einmap rewrite`: the steps, the report, the file, what is refused."""

import json
import re

import pytest

from einmap import evaluate, load
from einmap.mapping.rewrite.loops import split
from einmap.mapping.rewrite.storage import sink

SIMPLE = ("simple", "matmul", "simple_matmul")


def test_rewrites_are_done_in_order_and_the_mapping_is_written(run, tmp_path):
    file = tmp_path / "mapping.yaml"
    done = run("rewrite", *SIMPLE, "--do", "split k 8", "--do", "sink B@GlobalBuffer below k#1", "-o", file)
    assert (done.status, f"wrote the mapping to {file}" in done.err.replace("\n", "")) == (0, True)
    spec = load(*SIMPLE)
    expected = sink(split(spec.mapping, "k", 8), spec.workload, "B@GlobalBuffer", below="k#1")
    again = load("simple", "matmul", file)
    assert again.mapping == expected
    assert evaluate(again).energy == pytest.approx(evaluate(spec).energy)
    assert file.read_text().startswith(
        "# Rewritten by: einmap rewrite simple matmul simple_matmul --do 'split k 8' --do"
    )


def test_json_has_both_costs_and_the_mapping(run):
    done = run("rewrite", *SIMPLE, "--do", "bypass A@GlobalBuffer", "--json")
    found = json.loads(done.out)
    assert found["rewrites"] == ["bypass A@GlobalBuffer"]
    assert found["after"]["energy"] > found["before"]["energy"]
    assert load(*SIMPLE).set("mapping", found["mapping"]).mapping != load(*SIMPLE).mapping


def test_the_report_shows_the_change(run):
    out = run("rewrite", *SIMPLE, "--do", "bypass A@GlobalBuffer").out
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert rows["latency"].endswith("equal") or "x as much" in rows["latency"] or "%" in rows["latency"]
    assert "+" in rows["energy"] or "x as much" in rows["energy"]
    assert "-44%" in next(line for line in out.splitlines() if "in GlobalBuffer" in line)


def test_a_step_that_does_not_apply_is_named_and_nothing_is_written(run, tmp_path):
    file = tmp_path / "mapping.yaml"
    done = run("rewrite", *SIMPLE, "--do", "split k 8", "--do", "sink A@GlobalBufer", "-o", file)
    assert (done.status, done.out, file.exists()) == (2, "", False)
    assert "--do 'sink A@GlobalBufer'" in done.err
    assert "addresses are those after 1 rewrite" in done.err
    assert "did you mean 'GlobalBuffer'?" in done.err


def test_what_the_hardware_does_not_take_is_refused(run, tmp_path):
    file = tmp_path / "mapping.yaml"
    done = run("rewrite", *SIMPLE, "--do", "split k 128", "-o", file)
    assert (done.status, file.exists()) == (2, False)
    assert "tile shape 128 of 'k' exceeds the extent 64" in done.err


def test_a_mapping_that_does_not_fit_can_be_mended(run, tmp_path):
    small = tmp_path / "mapping.yaml"
    small.write_text(
        "mapping: {nodes: [!Storage {component: MainMemory, tensors: [A, B, Z]}, !Storage {component: GlobalBuffer, "
        "tensors: [A, B, Z]}, !Temporal {rank_variable: m, tile_shape: 1}, !Temporal {rank_variable: n, tile_shape: 1}, "
        "!Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: Z, component: MAC}]}"
    )
    size = ("-D", "M=1024")
    assert run("evaluate", "simple", "matmul", small, *size).status == 2
    done = run("rewrite", "simple", "matmul", small, *size, "--do", "sink A,Z@GlobalBuffer below m")
    assert done.status == 0
    assert "the mapping before has no cost: memory 'GlobalBuffer' needs" in done.err
    assert re.search(r"energy +[0-9.]+ µJ\n", done.out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*SIMPLE,), "--do"),
        ((*SIMPLE, "--do", "merge"), "the mapping has no splits"),
        (("simple", "matmul", "--do", "merge"), "no mapping given"),
    ],
)
def test_wrong_use(run, words, said):
    done = run("rewrite", *words)
    assert (done.status, said in done.err) == (2, True)


def test_the_output_does_not_replace_an_input(run, tmp_path):
    file = tmp_path / "mapping.yaml"
    text = "mapping: {nodes: [!Compute {einsum: Z, component: MAC}]}"
    file.write_text(text)
    done = run("rewrite", "simple", "matmul", file, "--do", "merge", "-o", file)
    assert (done.status, file.read_text()) == (2, text)


def test_the_copies_that_a_mapping_is_made_for_are_written_with_it(run, tmp_path):
    workload, mapping, new = (tmp_path / f"{name}.yaml" for name in ("workload", "mapping", "new"))
    einsums = "einsums: ['Z[m] = A[m]', 'Y[m] = A[m]']"
    workload.write_text(f"workload: {{rank_sizes: {{M: 8}}, bits_per_value: {{All: 8}}, {einsums}}}\n")
    loops = "!Temporal {rank_variable: m, tile_shape: 1}, !Compute {component: MAC, einsum"
    branches = ", ".join(f"!Nested {{nodes: [{loops}: {name}}}]}}" for name in ("S", "Z", "Y"))
    mapping.write_text(
        "mapping:\n  shared_inputs: {A: S}\n  nodes:\n  - !Storage {component: MainMemory, tensors: [A, Y, Z]}\n"
        f"  - !Storage {{component: GlobalBuffer, tensors: [S]}}\n  - !Sequential {{nodes: [{branches}]}}\n"
    )
    words = ("simple", workload)
    assert run("evaluate", *words, mapping).status == 0
    done = run("rewrite", *words, mapping, "--do", "split m#1 2", "-o", new)
    assert done.status == 0, done.err
    assert "shared_inputs: {A: S}" in new.read_text()
    assert run("evaluate", *words, new).status == 0
    document = json.loads(run("rewrite", *words, mapping, "--do", "split m#1 2", "--json").out)
    assert document["mapping"]["shared_inputs"] == {"A": "S"}


def test_a_cascade_is_rewritten_and_written(run, tmp_path):
    file = tmp_path / "one_pass.yaml"
    done = run("rewrite", "attention_core", "--do", "online_softmax P=16", "-o", file)
    assert done.status == 0
    assert "GM_factor[p1, b, h, m] = exp(GM_before[p1, b, h, m] - GM[T: p1 + 1, b, h, m])" in done.out
    assert load(file).workload.recurrences[0].variable == "p1"
    assert file.read_text().startswith("# Rewritten by: einmap rewrite attention_core --do 'online_softmax P=16'")
    assert json.loads(run("rewrite", "attention_core", "--do", "split_softmax P=16", "--json").out)["rewrites"]


def test_rewrites_of_a_cascade_and_of_a_mapping_do_not_go_together(run):
    done = run("rewrite", "simple", "attention_core", "--do", "online_softmax P=16", "--do", "fuse m")
    assert (done.status, done.out) == (2, "")
    assert "'fuse m' is not a change of a cascade" in done.err
    done = run("rewrite", "matmul", "--do", "online_softmax K=16")
    assert (done.status, done.out) == (2, "")
    assert "there is no softmax over rank K" in done.err
