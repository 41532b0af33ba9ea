"""A mixture of experts: tokens go to their experts and back by all-to-all, as if each token had asked its expert."""

import numpy as np
import pytest
from tests.distribute.shipped import shipped_plan

from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cost import communication, plan_cost

SIZES = {"GROUPS": 8, "TOKENS": 6, "EXPERTS": 16, "CAPACITY": 3, "D_MODEL": 4, "D_FF": 5}
NAMES = ("mixture_of_experts", "mixture_of_experts_all_to_all")


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_places_go_to_their_experts_and_back_and_nothing_else_moves(devices):
    """GShard, Lepikhin et al., ICLR 2021, section 3.3: two all-to-alls of the dispatched tokens, groups x experts x
    capacity x features in all, of which a PE has its share and keeps the part of its own experts.
    """
    plan = shipped_plan(NAMES, SIZES, devices)
    places = 8 // devices * 16 * 3 * 4
    rows = [(row.kind, row.tensor, row.axes, row.count, row.sent_bytes / 8) for row in communication(plan)]
    share = (devices - 1) / devices * places
    assert rows == [("all_to_all", tensor, ("x",), 1, share) for tensor in "IO"]
    assert plan_cost(plan).sent_bytes / 8 == 2 * share


def routed(rng):
    """Each token has one expert and a weight; the first CAPACITY of a group that ask an expert have a place with it."""
    expert = rng.integers(0, 16, (8, 6))
    expert[0] = 7  # more than there are places
    weight = rng.uniform(0.5, 1, (8, 6))
    places = np.zeros((8, 6, 16, 3))
    for group in range(8):
        taken = dict.fromkeys(range(16), 0)
        for token in range(6):
            one = int(expert[group, token])
            if taken[one] < 3:
                places[group, token, one, taken[one]] = 1
            taken[one] += 1
    return expert, weight, places


def asked(inputs, expert, weight, places):
    """Every token that has a place asks its expert alone."""
    out = np.zeros((8, 6, 4))
    for group in range(8):
        for token in range(6):
            if places[group, token].any():
                one = expert[group, token]
                hidden = np.maximum(inputs["X"][group, token] @ inputs["W1"][one], 0)
                out[group, token] = weight[group, token] * (hidden @ inputs["W2"][one])
    return out


@pytest.mark.parametrize("devices", [4, 8])
def test_each_token_gets_what_its_expert_says_and_none_beyond_the_capacity(devices):
    plan = shipped_plan(NAMES, SIZES, devices)
    inputs = sample_inputs(plan.workload, 5)
    inputs["X"] -= 1  # so that relu has something to do
    expert, weight, places = routed(np.random.default_rng(5))
    inputs["R"], inputs["W"] = places, places * weight[:, :, None, None]
    outputs = LocalEngine().run(plan, inputs).outputs
    assert np.allclose(outputs["Y"], asked(inputs, expert, weight, places), rtol=1e-12, atol=1e-15)
    assert all(one.agrees for one in check_outputs(plan.workload, inputs, outputs))
    assert [int(places[0, token].any()) for token in range(6)] == [1, 1, 1, 0, 0, 0]
