"""`einmap gradient`: what it prints and writes, that it is read back to the same, and what is refused."""

import json
from pathlib import Path

import pytest

import einmap
from einmap.einsum.gather import index_sizes
from einmap.einsum.notation.pretty import pretty_einsums
from einmap.spec.gradient_roles import with_gradient


def shown(workload):
    bits = {access.tensor: access.bits_per_value for einsum in workload.einsums for access in einsum.accesses}
    return pretty_einsums(workload), [(e.part, e.n_instances, e.is_copy) for e in workload.einsums], bits


FEED_FORWARD = ("gradient", "feed_forward", "--of", "Z", "--by", "W1,W2")


def test_the_einsums_are_printed_and_inputs_named(run):
    done = run(*FEED_FORWARD)
    assert done.out.splitlines()[-4:] == [
        "Z[m, c] = relu(U[m, s]) * W2[s, c]",
        "d_U[m, s] = d_Z[m, c] * W2[s, c] * less(0, U[m, s])",
        "d_W2[s, c] = d_Z[m, c] * relu(U[m, s])",
        "d_W1[d, s] = d_U[m, s] * X[m, d]",
    ]
    assert "d_Z is an input: ones for the gradient of Z" in done.err
    assert "kept from the forward pass: U" in done.err


def test_the_file_is_read_back_to_the_same_and_can_be_mapped(run, tmp_path):
    file = tmp_path / "training.yaml"
    words = ("-D", "N_TOKENS=4", "-D", "D_MODEL=4", "-D", "D_FF=8")
    assert run(*FEED_FORWARD, *words, "--optimizer", "adam", "--recompute", "U", "--out", file).status == 0
    assert file.read_text().startswith("# Made by: einmap gradient feed_forward -D N_TOKENS=4")
    read = einmap.load("simple", file)
    parts = {einsum.name: einsum.part for einsum in read.workload.einsums}
    assert (parts["U"], parts["U_again"], parts["d_W1"], parts["W1_next"]) == ("forward", "input", "weight", "update")
    before = einmap.load("feed_forward", define={"N_TOKENS": 4, "D_MODEL": 4, "D_FF": 8})
    made = einmap.gradient(before.workload, "Z", ["W1", "W2"], optimizer="adam", recompute=["U"])
    assert shown(read.workload) == shown(made.workload)
    assert einmap.map_workload(read, fuse=False, max_evaluations=1).cost.energy > 0


@pytest.mark.parametrize("file", sorted((Path(einmap.__file__).parent / "examples/workloads").glob("*.yaml")))
def test_renames_of_every_shipped_workload_go_on_to_have_meanings(file):
    spec = einmap.load(file)
    of = next(t for t in spec.workload.producers if not spec.workload.consumers[t])
    by = sorted(spec.workload.by_name[spec.workload.producers[of]].inputs - index_sizes(spec.workload.einsums).keys())
    made = einmap.gradient(spec.workload, of, by)
    read = einmap.loads(einmap.dump(with_gradient(spec, made)))
    assert shown(read.workload) == shown(made.workload)


def test_the_gradient_takes_the_free_name():
    spec = einmap.load("matmul")
    made = with_gradient(spec, einmap.gradient(spec.workload, "Z", ["A", "B"], optimizer="sgd"))
    names = {
        einsum: {name: sorted(symbols[name].members) for name in ("input", "weight", "output")}
        for einsum, symbols in made.bound_workload.symbols.items()
    }
    assert names["d_A"] == {"input": ["d_Z"], "weight": ["B"], "output": ["d_A"]}
    assert names["d_B"] == {"input": ["A"], "weight": ["d_Z"], "output": ["d_B"]}
    assert names["A_next"] == {"input": ["A"], "weight": ["d_A", "rate"], "output": ["A_next"]}


def test_refusals_say_where(run, tmp_path):
    file = tmp_path / "work.yaml"
    file.write_text(
        "workload:\n  rank_sizes: {M: 4, K: 4}\n  bits_per_value: {All: 8}\n  einsums:\n"
        "  - einsum: 'Z[m] = A[m] + B[m, k]'\n    iteration_space_shape: [k <= m]\n"
    )
    done = run("gradient", file, "--of", "Z", "--by", "A")
    assert done.status == 2
    assert f"{file}:5:5: workload.einsums[0]: the gradient of Einsum 'Z' by 'A'" in done.err.replace("\n", " ").replace(
        "  ", " "
    )
    done = run("gradient", file, "--of", "Y", "--by", "A")
    assert (done.status, done.out) == (2, "")
    assert "the workload has no tensor 'Y'" in done.err


def test_what_is_differentiated_is_not_a_constant(run):
    done = run("gradient", "feed_forward", "--of", "Z", "--by", "W1", "--constant", "Z")
    assert (done.status, done.out) == (2, "")
    assert "'Z' is constant" in done.err


def test_a_training_step_is_run_and_its_numbers_are_written(run, tmp_path):
    words = ("run", "feed_forward", "-D", "N_TOKENS=8", "-D", "D_MODEL=4", "-D", "D_FF=8", "--of", "Z", "--by", "W1,W2")
    table = tmp_path / "devices.csv"
    done = run(*words, "--batch", "M", "--train", "pp=2,dp=2,micro_batch=2", "--csv", table)
    assert done.status == 0, done.err
    assert "stage 1 on device 1: Z" in done.out
    assert "d_W1, d_W2: equals the unpartitioned step" in " ".join(done.out.split())
    assert len(table.read_text().splitlines()) == 3
    sent = run(*words, "--batch", "M", "--train", "tp=2,micro_batch=2", "--json").out
    assert [row["what"] for row in json.loads(sent)["moves"]] == ["activations all_reduce"]
    for more, words_of_error in (
        (("--check", "whole"), "is always checked"), (("--html", tmp_path / "a.html"), "no page"),
        (("--engine", "gpu"), "there is no engine 'gpu'"),
    ):  # fmt: skip
        done = run(*words, "--batch", "M", "--train", "pp=2", *more)
        assert done.status == 2
        assert words_of_error in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize("words", [("--of", "Z"), ("--batch", "M"), ("--optimizer", "sgd")])
def test_options_of_a_training_step_are_refused_without_one(run, words):
    done = run("run", "matmul", "matmul_reduce_scatter", "--dry-run", *words)
    assert done.status == 2
    assert f"{words[0]}: it is of a training step" in " ".join(done.err.split())


def test_what_is_not_computed_again_since_nothing_reads_it_is_said(run):
    words = ("gradient", "feed_forward", "--of", "Z", "--by", "W1,W2")
    assert "Z is not computed again: the backward pass does not read it" in run(*words, "--recompute", "Z").err
    assert "not computed again" not in run(*words, "--recompute", "U").err
