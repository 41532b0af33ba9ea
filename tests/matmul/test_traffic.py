"""What plans move: as `einmap evaluate` counts it, never less than the bounds, never less than the mapper reaches."""

import math
import random

import numpy as np
import pytest
from tests.matmul.machines import random_plan

from einmap import ComputeUnit, Level, Machine, evaluate, execute, map_workload, plan_matmul, to_mapping
from einmap.matmul.compulsory_traffic import square_block
from einmap.matmul.machine.machine import TENSORS
from einmap.matmul.to_mapping import specification


def actions_of(plan):
    """What the planner's traffic means for each memory of the equivalent architecture, in bits read and written.

    A load is read above and written here, a store the other way round. An accumulated value is a zero written and read
    here, read and written above. Each multiply-add reads its three values in the innermost memory and writes one.
    """
    actions = {}

    def add(component, tensor, action, bits):
        key = (component, tensor, action)
        actions[key] = actions.get(key, 0) + bits

    multiply_adds = math.prod(plan.product.size)
    for tensor, bits in zip(TENSORS, plan.product.bits, strict=True):
        holder = plan.machine.main
        for row in plan.levels:
            if not row.stage.moved[TENSORS.index(tensor)]:
                continue
            moves, here = row.traffic.of(tensor), row.stage.level.name
            down, up = moves.loads + moves.accumulates, moves.stores + moves.accumulates
            add(holder, tensor, "read", bits * down)
            add(here, tensor, "write", bits * down)
            add(here, tensor, "read", bits * up)
            add(holder, tensor, "write", bits * up)
            holder = here
        add(holder, tensor, "read", bits * multiply_adds)
        if tensor == "C":
            add(holder, tensor, "write", bits * multiply_adds)
    return {key: bits for key, bits in actions.items() if bits}


def counted(plan):
    actions = evaluate(to_mapping(plan)).count_by("component", "tensor", "action")
    return {key: count for key, count in actions.items() if key[1] is not None}


def test_evaluation_of_the_mapping_counts_exactly_what_the_planner_does():
    rng = random.Random(7)
    for _ in range(40):
        plan = random_plan(rng, sizes=(3, 16))
        assert counted(plan) == actions_of(plan)


@pytest.mark.parametrize(
    "rules",
    [
        {"fit": "resident"},
        {"double_buffer": True},
        {"accumulator": "fp32"},
        {"resident": {"A": "SLC"}},
        {"accumulate": "atomic", "method": "level by level"},
    ],
    ids=str,
)
def test_evaluation_counts_the_same_for_a_large_product(rules):
    plan = plan_matmul(4096, 4096, 16384, "chiplet_256", dtype="fp8", **rules)
    assert counted(plan) == actions_of(plan)


def test_execution_of_the_mapping_on_real_values_moves_the_same():
    machine = two_levels(20)
    plan = plan_matmul(5, 7, 6, machine, dtype="int8")
    done = execute(to_mapping(plan), seed=1)
    moved = {(row.component, row.tensor, row.action): row.count for row in done.actions if row.tensor}
    assert moved == actions_of(plan)


def two_levels(values, rate=1e9):
    """Main memory and one memory of so many 8-bit values; computing takes no time to speak of."""
    return Machine("two", (Level.of("L1", values * 8, 8.0),), ComputeUnit.of({"int8": rate}))


def test_no_plan_beats_the_lower_bound():
    rng = random.Random(13)
    for _ in range(60):
        plan = random_plan(rng, method="level by level")
        for row in plan.levels:
            assert row.traffic.bits >= row.least * (1 - 1e-12)
    for fit in ("all", "resident"):
        plan = plan_matmul(4096, 4096, 16384, "chiplet_256", dtype="fp8", fit=fit)
        assert all(row.traffic.bits >= row.least for row in plan.levels)


def test_the_bound_is_approached_where_blocks_are_small_against_the_product():
    plan = plan_matmul(4080, 2**17, 4080, two_levels(256 * 256), dtype="int8", candidates=48)
    (row,) = plan.levels
    assert row.least == 8 * 2 * 4080 * 2**17 * 4080 / 256
    assert row.traffic.bits / row.least < 1.02


@pytest.mark.parametrize(("capacity", "grain"), [(9984, 4), (4096 - 64, 8), (1600 - 1, 1), (12345, 5)])
def test_the_closed_form_agrees_with_a_search_over_all_blocks(capacity, grain):
    best = square_block(capacity, grain)
    largest = int(math.sqrt(capacity))
    m, n = np.meshgrid(np.arange(1, largest * 4), np.arange(1, largest * 4))
    fits = m * n + (m + n) * grain <= capacity
    cost = np.where(fits, 1 / m + 1 / n, np.inf)
    row, column = np.unravel_index(np.argmin(cost), cost.shape)
    assert abs(m[row, column] - best) <= 1.5
    assert abs(n[row, column] - best) <= 1.5
    # no block of whole numbers is better than the real optimum
    assert cost[row, column] >= 2 / best * (1 - 1e-12)


@pytest.mark.parametrize(("capacity", "grain", "side"), [(9984, 4, 96), (4096 - 64, 8, 56), (1600 - 1, 1, 39)])
def test_the_planner_finds_the_closed_form(capacity, grain, side):
    assert square_block(capacity, grain) == side
    plan = plan_matmul(
        side * 20, 6400, side * 20, two_levels(capacity), dtype="int8", grain=(1, grain, 1), candidates=40
    )
    (choice,) = plan.choices
    assert (choice.algorithm.value, choice.block) == (1, (side, grain, side))


@pytest.mark.parametrize("values", [7, 12, 20, 33, 60, 100, 150, 300])
@pytest.mark.parametrize("size", [(12, 12, 12), (4, 12, 6)], ids=str)
def test_the_mapper_never_needs_more_traffic_than_the_planner(size, values):
    # all block sizes of 4, 6 and 12 divide, so the planner's loops are among the mapper's
    machine = two_levels(values)
    plan = plan_matmul(*size, machine, dtype="int8")
    found = map_workload(specification(machine, plan.product), metrics="energy", workers=1)
    assert found.optimal
    main = round(found.cost.energy / 1e-12)
    assert plan.levels[0].traffic.bits >= main
    assert round(evaluate(to_mapping(plan)).energy / 1e-12) == plan.levels[0].traffic.bits
