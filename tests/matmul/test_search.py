"""The joint plan is the best of all; the level-by-level plan is never better; times are those of a walk over blocks."""

import random
from functools import partial

import pytest
from tests.amounts import some
from tests.matmul.machines import Walker, random_machine, random_plan

from einmap.errors import SpecError
from einmap.matmul.algorithms import block_seconds
from einmap.matmul.blocks.innermost import innermost_seconds
from einmap.matmul.blocks.space import options_of
from einmap.matmul.plan import plan_matmul
from einmap.progress import Progress


def small_case(seed):
    """A machine of two levels and a product so small that all choices can be tried."""
    rng = random.Random(seed)
    while True:
        machine = random_machine(rng, n_levels=rng.choice([1, 2, 2]), grain=(1, 1, 2))
        sizes = [rng.choice([2, 3, 3, 4]) for _ in range(3)]
        rules = {
            "accumulate": rng.choice(["owned", "atomic"]),
            "double_buffer": rng.random() < 0.4,
            "accumulator": rng.choice([None, "int16"]),
        }
        try:
            return plan_matmul(*sizes, machine, dtype="int8", **rules), machine, sizes, rules
        except SpecError as error:
            assert "holds" in str(error)


@pytest.mark.parametrize("tens", some(4, range(10)))
def test_the_joint_plan_equals_brute_force_on_a_hundred_random_machines(tens):
    for seed in range(10 * tens, 10 * tens + 10):
        plan, machine, sizes, rules = small_case(seed)
        assert plan.optimal
        assert plan.seconds == pytest.approx(Walker(plan).best(), rel=1e-9)
        alone = plan_matmul(*sizes, machine, dtype="int8", method="level by level", **rules)
        assert plan.seconds <= alone.seconds * (1 + 1e-12)


def test_the_time_of_a_plan_is_that_of_a_walk_over_its_blocks():
    rng = random.Random(3)
    for _ in range(20):
        plan = random_plan(rng, sizes=(3, 16), resident=None)
        chain = tuple((choice.algorithm.value, choice.block) for choice in plan.choices)
        size = plan.product.size
        assert plan.seconds == pytest.approx(Walker(plan).walk(size, size, chain), rel=1e-12)
        shares = [row.seconds for row in plan.levels] + [plan.compute_seconds]
        assert sum(shares) == pytest.approx(plan.seconds, rel=1e-12)


def test_the_joint_plan_is_never_worse_than_level_by_level():
    rng = random.Random(5)
    better = 0
    for _ in range(10):
        plan = random_plan(rng, sizes=(3, 14), method="joint")
        rules = plan.rules
        alone = plan_matmul(
            *plan.product.size,
            plan.machine,
            dtype="int8",
            accumulator=plan.product.types[2].name,
            method="level by level",
            accumulate=rules.accumulate,
            double_buffer=rules.double_buffer,
            resident=dict(rules.resident),
        )
        assert plan.seconds <= alone.seconds * (1 + 1e-12)
        better += plan.seconds < alone.seconds * (1 - 1e-9)
    assert better > 2


def test_the_arrays_of_the_innermost_level_hold_what_the_definition_gives():
    rng = random.Random(11)
    for _ in range(15):
        plan = random_plan(rng)
        stage, unit = plan.stages[-1], plan.machine.compute
        parent = plan.choices[-2].block if len(plan.choices) > 1 else plan.product.size
        size = tuple(rng.randint(1, s) for s in parent)
        options = options_of(stage, parent)
        grain, rate = plan.rules.grain, plan.machine.rate("int8")
        many = innermost_seconds(stage, options, size, partial(unit.seconds_of_many, rate=rate, grain=grain))
        rows = rng.sample(range(len(options)), min(20, len(options)))
        for row in rows:
            one = block_seconds(stage, options.choice(row), size, partial(unit.seconds, rate=rate, grain=grain))
            assert many[row] == pytest.approx(float(one), rel=1e-12)


def test_a_stopped_search_gives_the_plan_of_level_by_level_at_least():
    progress = Progress()
    progress.stop()
    plan = plan_matmul(2048, 2048, 2048, "cpu_core", dtype="fp32", progress=progress)
    alone = plan_matmul(2048, 2048, 2048, "cpu_core", dtype="fp32", method="level by level")
    assert not plan.optimal
    assert plan.seconds == alone.seconds


def test_no_time_at_all_gives_a_plan_that_is_not_proven():
    plan = plan_matmul(1000, 1003, 777, "cpu_core", dtype="fp32", time_limit_s=0.0)
    assert plan.method == "joint"
    assert not plan.optimal


def test_the_same_input_gives_the_same_plan():
    first, second = (plan_matmul(1000, 900, 700, "chiplet_256", dtype="fp8", double_buffer=True) for _ in range(2))
    assert first == second
