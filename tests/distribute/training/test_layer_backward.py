"""A layer with its backward pass: the Einsums of `einmap.gradient`, in an order and with parts as a plan needs them."""

import numpy as np
import pytest
from tests.distribute.training.models import RESIDUAL, workload

from einmap.distribute.training.backward import updated, with_backward
from einmap.distribute.training.model import TrainingModel
from einmap.einsum.gradients.gradient import gradient
from einmap.einsum.numeric import rank_sizes, run
from einmap.errors import SpecError

SIZES = {"B": 2, "M": 3, "P": 3, "H": 2, "E": 2, "F": 2, "D": 4, "S": 5}
SOFTMAX = [
    {"einsum": "G[b, m] = S[b, m, p]", "reduction": "max"},
    "N[b, m, p] = exp(S[b, m, p] - G[b, m])",
    "D[b, m] = N[b, m, p]",
    "A[b, m, p] = N[b, m, p] / D[b, m]",
]


def values_of(workload, tensors, seed=1):
    rng, sizes = np.random.default_rng(seed), rank_sizes(workload)
    return {tensor: rng.uniform(-1, 1, tuple(sizes[tensor].values())) for tensor in tensors}


def test_it_computes_the_gradients_of_einmap_gradient():
    forward = workload(RESIDUAL, bits=64, **SIZES)
    given = [tensor for tensor in forward.tensors if tensor not in forward.producers]
    ours, theirs = with_backward(forward, ("X",)), gradient(forward, "O", given)
    inputs = values_of(theirs.workload, [*given, theirs.seed])
    found = run(ours.workload, inputs | {ours.gradients["O"]: inputs[theirs.seed]})
    expected = run(theirs.workload, inputs)
    for tensor in given:
        assert found[ours.gradients[tensor]] == pytest.approx(expected[theirs.gradients[tensor]])


def test_sums_that_may_be_partial_are_joined_before_what_is_whole():
    einsums = {e.name: e for e in with_backward(workload(RESIDUAL, **SIZES), ("X",)).workload.einsums}
    # the residual sum comes first in time, the three products are added to it together
    total = einsums["d_X"]
    (joined,) = (tensor for tensor in total.inputs if tensor.endswith("_sums"))
    assert len(total.inputs) == 2
    assert len(einsums[joined].inputs) == 3


def test_what_the_layer_before_waits_for_is_told_from_gradients_of_weights():
    einsums = with_backward(workload(["Z[b, f] = X[b, d] * W[d, f]"], B=2, D=3, F=4), ("X",)).workload.einsums
    assert [(einsum.name, einsum.part) for einsum in einsums] == [
        ("Z", "forward"),
        ("d_X", "input"),
        ("d_W", "weight"),
    ]


def test_no_gradient_flows_through_what_a_softmax_subtracts_but_through_a_largest_value_that_is_used():
    sizes = {"B": 2, "M": 3, "P": 4}
    softmax = with_backward(workload(SOFTMAX, **sizes), ("S",)).workload
    assert not any("ties" in name for name in softmax.einsum_names)
    pooled = [SOFTMAX[0], "Z[b, m] = G[b, m] * W[m]"]
    assert "G_ties" in with_backward(workload(pooled, **sizes), ("S",)).workload.einsum_names
    scaled = [SOFTMAX[0], "Z[b, m, p] = S[b, m, p] * G[b, m]"]
    assert "G_ties" in with_backward(workload(scaled, **sizes), ("S",)).workload.einsum_names


def test_a_largest_value_found_in_two_steps_is_subtracted_as_well():
    einsums = [
        {"einsum": "L[b, p1] = S[b, p1, p0]", "reduction": "max"},
        {"einsum": "G[b] = L[b, p1]", "reduction": "max"},
        "N[b, p1, p0] = exp(S[b, p1, p0] - G[b])",
    ]
    found = with_backward(workload(einsums, B=2, P1=2, P0=2), ("S",)).workload
    assert not any("ties" in name for name in found.einsum_names)


def test_several_results_each_bring_a_gradient_of_their_own():
    einsums = ["Y[b, f] = X[b, d] * W[d, f]", "Z[b, e] = X[b, d] * V[d, e]"]
    made = with_backward(workload(einsums, B=2, D=3, F=4, E=5), ("X",))
    assert set(made.gradients) == {"X", "W", "V", "Y", "Z"}


@pytest.mark.parametrize(
    ("optimizer", "bits", "state", "moved"),
    [("adam", 16, 12, 2 * 12 + 2), ("adam", 32, 12, 2 * 12 + 4), ("adam", 64, 24, 2 * 24 + 8), ("sgd", 16, 0, 2 + 2)],
)
def test_an_update_reads_and_writes_its_state_once_and_adam_writes_the_weight_sgd_reads_it_too(
    optimizer, bits, state, moved
):
    found = updated(optimizer, bits)
    assert (found.state, found.moved) == (state, moved)


def test_a_state_that_is_given_is_read_and_written_in_place_of_the_optimisers():
    layer = TrainingModel.of(workload(["Z[b, m] = X[b, m] * W[m]"], B=2, M=3), 2, state_bytes=6)
    assert layer.updated(16).moved == 2 * 6 + 2


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(SpecError, match="unknown optimizer 'adan'"):
        TrainingModel.of(workload(["Z[b, m] = X[b, m] * W[m]"], B=2, M=3), 2, optimizer="adan")
