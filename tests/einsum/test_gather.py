"""Rows that are looked up by values of other tensors: how they are written, and what they are."""

import re

import numpy as np
import pytest

import einmap
from einmap.einsum.notation.parse import parse_einsum
from einmap.einsum.notation.pretty import pretty_einsums
from einmap.einsum.numeric import random_inputs, run
from einmap.errors import EinmapError, NotSupportedError

SIZES = {"V": 10, "D": 4, "T": 6, "B": 2, "S": 3, "J": 5, "N": 3, "W": 4, "E": 3}


def spec_of(*einsums, **more):
    return einmap.Spec.from_dict({
        "workload": {"rank_sizes": SIZES, "bits_per_value": {"All": 8}, "einsums": [*einsums], **more}
    })  # fmt: skip


def outcome(einsum, **given):
    """The result of one Einsum, with random values where none are given, and its inputs."""
    workload = spec_of(einsum).workload
    inputs = {**random_inputs(workload, 0), **{name: np.array(values) for name, values in given.items()}}
    (result,) = run(workload, inputs).values()
    return result, {name: values.astype(int) for name, values in inputs.items()}


def test_a_row_is_the_one_of_its_index():
    rows, at = outcome("Y[t, d] = Table[V: Ids[t], d]", Ids=[3, 3, 0, 9, -1, 1])
    assert (rows[[0, 1, 2, 3, 5]] == at["Table"][[3, 3, 0, 9, 1]]).all()
    assert (rows[4] == 0).all()


def test_several_ranks_and_places_are_looked_up():
    rows, at = outcome("Y[b, s, d] = Table[B: b, V: Ids[b, s], d]")
    assert (rows == at["Table"][np.arange(2)[:, None], at["Ids"]]).all()
    rows, at = outcome("Y[n, d] = X[V: First[n], d, W: Second[n]]")
    assert (rows == at["X"][at["First"], :, at["Second"]]).all()
    rows, at = outcome("Y[n, j] = X[V: P[n, j], J: j] + P[n, j]")
    assert (rows == np.take_along_axis(at["X"], at["P"], 0) + at["P"]).all()
    rows, at = outcome("Y[s, d] = Table[V: Ids[T: s + e + 1], d] * F[e]")
    windows = at["Table"][at["Ids"]][np.arange(3)[:, None] + np.arange(1, 4)]
    assert (rows == (windows * at["F"][:, None]).sum(axis=1)).all()


def test_both_forms_say_the_same_and_read_back():
    short = spec_of("Y[t, d] = Table[V: Ids[t], d]")
    long = spec_of({
        "name": "Y",
        "tensor_accesses": [
            {"name": "Table", "projection": {"V": "Ids[t]", "D": "d"}},
            {"name": "Y", "projection": ["t", "d"], "output": True},
        ],
    })  # fmt: skip
    assert short.workload.einsums[0].accesses == long.workload.einsums[0].accesses
    assert str(short.workload.einsums[0].operation) == str(long.workload.einsums[0].operation) == "Table"
    assert einmap.loads(einmap.dump(long)) == long
    assert pretty_einsums(short.workload).endswith("Y[t, d] = Table[V: Ids[t], d]")
    assert short.workload.tensor_shape("Table") == {"V": 10, "D": 4}


def test_a_written_table_needs_no_size_of_its_rank():
    sizes = {rank: n for rank, n in SIZES.items() if rank != "V"}
    shape = {"v": "0 <= v < 7"}
    written = spec_of("X[v, d] = A[v, d]", "Y[t, d] = X[V: Ids[t], d]", rank_sizes=sizes, iteration_space_shape=shape)
    assert written.workload.tensor_shape("X") == {"V": 7, "D": 4}
    with pytest.raises(EinmapError, match=r"einsums\[0\].*rank V of tensor 'Table', which Einsum 'Y' looks up"):
        spec_of("Y[t, d] = Table[V: Ids[t], d]", rank_sizes=sizes).workload  # noqa: B018


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Y[t, d] = Table[Ids[t], d]", "write RANK: Ids"),
        ("Y[t, d] = Table[V: Ids[t] + 1, d]", "is not an index of tensor 'Table'.*Einsum of its own"),
        ("Y[t, d] = Table[V: Ids[V: P[t]], d]", "is not an index"),
        ("Y[V: Ids[t], d] = A[t, d]", "a scatter is not supported"),
        ("Y[t, d] = Table[V: Table[t], d]", "looked up in itself"),
        ("Y[t, d] = Table[V: Y[t], d]", "both input and output"),
        ("Y[t, d] = Table[V: Ids[t], D: t + d]", "'t' is in two different indices"),
        ("Y[t, d] = Table[V: Ids[t], d] * Table[V: Jds[t], d]", "'Table', which is gathered, by different"),
        ("Y[t, s, d] = Table[V: Ids[t], d] * Ids[T: s]", "'Ids', which is an index, by different"),
    ],
)
def test_what_is_not_a_gather_is_named(text, message):
    with pytest.raises(EinmapError, match=r"einsums\[0\]") as refused:
        spec_of(text).workload  # noqa: B018
    assert re.search(message, str(refused.value), re.DOTALL)


def test_a_scatter_in_the_long_form_is_refused():
    accesses = [{"name": "A", "projection": ["t"]}, {"name": "Y", "projection": {"V": "Ids[t]"}, "output": True}]
    with pytest.raises(EinmapError, match="a scatter is not supported"):
        spec_of({"name": "Y", "tensor_accesses": accesses}).workload  # noqa: B018


def test_tokens_go_to_experts_by_capacity():
    sizes = {"TOKENS": 12, "EXPERTS": 4, "CHOICES": 2, "CAPACITY": 4, "D_MODEL": 3, "D_FF": 5}
    workload = einmap.load("mixture_of_experts_top_k", define=sizes).workload
    inputs = random_inputs(workload, 0)
    rng = np.random.default_rng(0)
    chosen = np.array([rng.permutation(4)[:2] for _ in range(12)])
    slot, place, taken = np.full((4, 4), -1), np.full((12, 2), -1), [0] * 4
    for token, k in np.ndindex(12, 2):
        expert = chosen[token, k]
        if taken[expert] < 4:
            slot[expert, taken[expert]], place[token, k] = token, taken[expert]
            taken[expert] += 1
    assert (place == -1).any()
    found = run(workload, inputs | {"Slot": slot, "Expert": chosen, "Place": place})["Y"]
    x, gate = inputs["X"], inputs["Gate"]
    for token in range(12):
        asked = [
            gate[token, k] * (np.maximum(x[token] @ inputs["W1"][e], 0) @ inputs["W2"][e])
            for k, e in enumerate(chosen[token])
            if place[token, k] >= 0
        ]
        assert np.allclose(found[token], np.sum(asked, axis=0) if asked else 0)


@pytest.mark.parametrize("text", ["Z[s, k] = top_k(A[s, e])", "Z[s, k] = 2 * TopK (A[s, e])"])
def test_top_k_is_refused_by_name(text):
    with pytest.raises(EinmapError, match=r"einsums\[0\].*top_k is not an operation of an Einsum"):
        spec_of(text).workload  # noqa: B018


@pytest.mark.parametrize("value", [10, -2, 0.5])
def test_a_value_that_is_no_index_is_an_error_with_its_place(value):
    with pytest.raises(einmap.SpecError, match=rf"'Ids' has the value {value} at \[2\], .* rank V of 'Table'") as error:
        outcome("Y[t, d] = Table[V: Ids[t], d]", Ids=[1, 2, value, 0, 0, 0])
    assert "from 0 to 9, and -1" in error.value.hint


def test_long_texts_with_many_brackets_are_read_quickly():
    with pytest.raises(EinmapError):
        parse_einsum("Y[t] = " + "A[" * 20_000)


def test_partitioning_distribution_code_and_exports_refuse_gathers():
    spec = einmap.loads(einmap.dump(spec_of("Y[t, d] = Table[V: Ids[t], d]")))
    for refused in (
        lambda: einmap.split(spec.workload, "T", 2),
        lambda: einmap.flatten(spec.workload, ("T", "D")),
        lambda: einmap.distribute_workload(spec.workload, einmap.Mesh((("x", 2),))),
    ):
        with pytest.raises(NotSupportedError, match=r"'Y' looks up rows of 'Table' in 'Ids'"):
            refused()
