"""Some values of a workload against the same values of whole tensors."""

import random

import numpy as np
import pytest
from tests.distribute.drawn_plans import draw_spec

from einmap import Spec
from einmap.einsum.numeric import random_inputs, rank_sizes, run
from einmap.einsum.slices import evaluate_slices, is_product, needed_for


def wanted_of(rng, workload):
    wanted = {}
    for tensor in workload.producers:
        if not workload.consumers[tensor] or rng.random() < 0.2:
            sizes = rank_sizes(workload)[tensor]
            wanted[tensor] = {
                rank: np.sort(rng.sample(range(size), rng.randint(1, size))).astype(np.int64)
                for rank, size in sizes.items()
            }
    return wanted


def check(workload, wanted):
    inputs = random_inputs(workload, 3)
    needed = needed_for(workload, wanted)
    found, whole = evaluate_slices(needed, inputs), run(workload, inputs)
    for tensor, ranks in needed.tensors.items():
        if tensor in workload.producers:
            expected = whole[tensor][np.ix_(*ranks.values())]
            assert found[tensor].shape == expected.shape
            # of a product of coordinates that is wanted every value is right
            if tensor in wanted and all(np.array_equal(ranks[rank], wanted[tensor][rank]) for rank in ranks):
                np.testing.assert_allclose(found[tensor], expected, rtol=1e-10)
    return needed


def test_slices_of_drawn_workloads_are_those_of_whole_tensors():
    for seed in range(120):
        rng = random.Random(seed)
        workload = draw_spec(rng).workload
        check(workload, wanted_of(rng, workload))


def test_one_row_needs_one_row_and_all_weights():
    einsums = ["T[m, k] = A[m, j] * B[j, k]", "Z[m, n] = relu(T[m, k]) * C[k, n]"]
    sizes = {"M": 100, "J": 5, "K": 7, "N": 9}
    spec = Spec.from_dict(workload={"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums})
    needed = check(spec.workload, {"Z": {"M": np.array([42]), "N": np.array([0, 8])}})
    assert (needed.values("A"), needed.values("B"), needed.values("T"), needed.values("C")) == (5, 35, 7, 14)
    assert (needed.points("T"), needed.points("Z")) == (35, 14)
    assert [is_product(einsum) for einsum in spec.workload.einsums] == [True, False]


def test_a_product_is_taken_in_pieces(monkeypatch):
    from einmap.einsum import slices

    monkeypatch.setattr(slices, "CHUNK_VALUES", 20)
    einsums = ["T[m, k] = A[m, j] * B[j, k]", "Z[m] = T[m, k] * C[k] / 2", "Y[m, k] = T[m, k] * 3 * C[k]"]
    sizes = {"M": 11, "J": 6, "K": 7}
    spec = Spec.from_dict(workload={"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums})
    rows = np.array([0, 4, 10])
    check(spec.workload, {"Z": {"M": rows}, "Y": {"M": rows, "K": np.arange(7)}})


@pytest.mark.parametrize(
    "text", ["Z[m, n] = A[k]", "Z[m] = A[m, M2: m]", "Z[P: p + r] = A[p] * B[r]", "Z[Q: 2*m] = A[m]"]
)
def test_unusual_indices(text):
    spec = Spec.from_dict(
        workload={
            "rank_sizes": {
                rank: 4
                for rank in "MNKRAP"
                if (rank.lower() in text and rank != "P") or ("p +" in text and rank in "RP")
            },
            "bits_per_value": {"All": 8},
            "einsums": [text],
        }
    )
    workload = spec.workload
    check(workload, {"Z": {rank: np.arange(0, size, 2) for rank, size in rank_sizes(workload)["Z"].items()}})


def test_points_that_are_cut_off_take_no_part():
    einsum = {"einsum": "Z[p] = A[p, m] * B[m]", "iteration_space_shape": ["m <= p"]}
    spec = Spec.from_dict(workload={"rank_sizes": {"P": 6, "M": 6}, "bits_per_value": {"All": 8}, "einsums": [einsum]})
    check(spec.workload, {"Z": {"P": np.array([1, 5])}})
