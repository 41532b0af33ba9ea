import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.einsum.cascades_to_partition import assert_same_values, checked, without_texts, workload
from tests.random_specs.partitions import draw_steps
from tests.random_specs.workloads import WINDOWS, chance, cut_space, draw_bits, draw_workload

from einmap import Spec, SpecError, dump, load, loads
from einmap.einsum.notation.pretty import pretty_loops
from einmap.einsum.numeric import random_inputs, run
from einmap.einsum.rewrites.steps import Delay, Flatten, Linearise, Split, parse_step, partition

MATVEC = workload("Z[m] = A[k, m] * B[k]", K=10, M=4)


def drawn(rng):
    """A random cascade and steps that it takes."""
    einsums, sizes = draw_workload(rng, WINDOWS if chance(rng, 0.2) else None)
    tensors = tuple(dict.fromkeys(t for e in einsums for t in e.tensors))
    case = {
        "rank_sizes": sizes,
        "bits_per_value": draw_bits(rng, tensors),
        "einsums": [e.written(rng) for e in einsums],
    }
    if bounds := cut_space(rng, einsums):
        case["iteration_space_shape"] = bounds
    spec = Spec.from_dict(workload=case)
    return spec, partition(spec.workload, draw_steps(rng, spec.workload))


@given(st.randoms(use_true_random=False))
@settings(max_examples=70, deadline=None)
def test_partitions_of_random_cascades_compute_the_same_values(rng):
    _, done = drawn(rng)
    operations = " ".join(str(e.operation) for e in done.original.einsums)
    harmless = not any(word in operations for word in ("exp", "/", "sigmoid"))
    assert_same_values(done, seed=rng.randrange(2**30), low=-2 if harmless else 0.5, high=2)


@given(st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_partitions_of_random_cascades_are_specifications(rng):
    spec, done = drawn(rng)
    written = spec.with_workload(done.workload)
    assert without_texts(loads(dump(written)).workload) == without_texts(done.workload)
    assert pretty_loops(written.workload) == pretty_loops(done.workload)


def test_random_steps_are_of_every_kind():
    kinds = {type(step) for seed in range(60) for step in drawn(random.Random(seed))[1].steps}
    assert kinds == {Split, Flatten, Linearise, Delay}


SMALL = {"BATCH": 3, "N_TOKENS": 5, "D_IN": 2, "D_MODEL": 6, "HEADS": 3, "D_HEAD": 4}


ATTENTION = {
    "plain": [
        ["split B/3", "split M,P=2"], ["split H=2", "split G=8,4", "delay G2"], ["split M,P=2", "delay M1"],
    ],
    "safe": [
        ["split B=2"], ["split H/3", "split G=4"], ["split H/3", "split D=4", "delay D1"],
        ["split P=2", "split E=3", "delay E1"],
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("softmax", "steps"), [(softmax, steps) for softmax, all_ in ATTENTION.items() for steps in all_]
)
def test_attention(softmax, steps):
    checked(load("attention", define={**SMALL, "SOFTMAX": softmax}).workload, *steps)


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("softmax", ATTENTION)
def test_attention_with_the_other_softmax_too(softmax):
    other = next(name for name in ATTENTION if name != softmax)
    for steps in ATTENTION[softmax]:
        checked(load("attention", define={**SMALL, "SOFTMAX": other}).workload, *steps)


@pytest.mark.parametrize("steps", [["split B=2", "split M,P=2"], ["split D=4", "delay D1", "split E,F=3", "delay F1"]])
def test_attention_of_a_single_head(steps):
    checked(load("attention_single_head", define={k: v for k, v in SMALL.items() if k != "HEADS"}).workload, *steps)


def test_feed_forward_by_columns_then_rows():
    checked(load("feed_forward", define={"N_TOKENS": 3, "D_MODEL": 4, "D_FF": 6}).workload, "split S/2", "delay S1")


# values


def test_values_are_cut_into_tiles_and_padded():
    done = partition(MATVEC, [Split(("K",), (4,))])
    placed = done.place("B", np.arange(10.0), fill=-1)
    assert placed.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, -1, -1]]
    assert done.recover("B", placed).tolist() == list(range(10))


def test_values_of_several_partitions():
    done = partition(MATVEC, [Split(("K",), (6, 4))])
    placed = done.place("B", np.arange(10.0), fill=-1)
    assert placed.tolist() == [[[0, 1, 2, 3], [4, 5, -1, -1]], [[6, 7, 8, 9], [-1, -1, -1, -1]]]
    assert done.recover("B", placed).tolist() == list(range(10))


def test_values_of_flattened_ranks_that_stand_apart():
    before = workload("Z[m] = A[k, m, j]", K=2, M=3, J=4)
    done = partition(before, [Flatten(("J", "K"))])
    values = np.arange(24.0).reshape(2, 3, 4)
    placed = done.place("A", values)
    assert placed.shape == (3, 8)
    assert placed[1].tolist() == [values[k, 1, j] for j in range(4) for k in range(2)]
    assert (done.recover("A", placed) == values).all()


def test_inputs_and_outputs_are_taken_along():
    done = partition(MATVEC, [Split(("K",), (4,)), Split(("M",), (3,)), Delay("K1")])
    inputs = random_inputs(MATVEC, 0)
    outputs = run(done.workload, done.place_inputs(inputs))
    assert set(outputs) == {"ZT", "Z"}
    found = done.recover_outputs(outputs)
    assert found.keys() == {"Z"}
    assert found["Z"].tolist() == run(MATVEC, inputs)["Z"].tolist()


def test_values_of_another_shape_or_tensor_are_refused():
    done = partition(MATVEC, [Split(("K",), (4,)), Delay("K1")])
    with pytest.raises(SpecError, match=r"tensor 'B' has shape \(10,\), its values have \(12,\)"):
        done.place("B", np.zeros(12))
    with pytest.raises(SpecError, match="no tensor 'C'"):
        done.place("C", np.zeros(12))
    with pytest.raises(SpecError, match="the workload before the steps has no tensor 'ZT'"):
        done.recover("ZT", np.zeros((3, 4)))


def test_no_steps_change_nothing():
    done = partition(MATVEC, [])
    assert done.workload == done.original == MATVEC
    assert done.place("B", np.arange(10)).tolist() == list(range(10))


def test_an_error_names_its_step():
    with pytest.raises(SpecError, match="delay K1: no tensor of the workload has a rank 'K1'"):
        partition(MATVEC, [Split(("M",), (2,)), Delay("K1")])


# text


@pytest.mark.parametrize(
    ("kind", "text", "step"),
    [
        ("split", "K=8", Split(("K",), (8,))),
        ("split", " K = 16, 4 ", Split(("K",), (16, 4))),
        ("split", "M/4", Split(("M",), parts=4)),
        ("split", "M,P=16", Split(("M", "P"), (16,))),
        ("flatten", "K1,K0", Flatten(("K1", "K0"))),
        ("flatten", "G=H,F", Flatten(("H", "F"), "G")),
        ("linearise", "K1K0", Linearise("K1K0")),
        ("linearise", "G=HF", Linearise("HF", "G")),
        ("delay", "K1", Delay("K1")),
        ("delay", "K1@Z", Delay("K1", "Z")),
        ("delay", "Y=K1@Z", Delay("K1", "Z", "Y")),
    ],
)
def test_steps_are_read_and_written(kind, text, step):
    assert parse_step(kind, text) == step
    assert parse_step(*str(step).split(" ", 1)) == step


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("split", text) for text in ("K", "K=", "K=x", "=4", "K/", "K/2/2", "K=4=2", "K,=4", "", "K=1.5")),
        *(("flatten", text) for text in ("", "K1,", "=K1,K0", "1=K1,K0")),
        *(("linearise", text) for text in ("", "A,B", "G=", "=G")),
        *(("delay", text) for text in ("", "K1@", "A,B", "ZT=", "@Z", "=K1")),
    ],
)
def test_text_that_is_no_step(kind, text):
    with pytest.raises(SpecError, match=rf"^{kind} .* cannot be read") as e:
        parse_step(kind, text)
    assert e.value.hint.startswith("write ")
