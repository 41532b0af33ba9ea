"""The kernel carries out plans: its result is NumPy's for ragged sizes, all algorithms, both data types."""

import itertools
import random

import numpy as np
import pytest

from einmap.errors import NotSupportedError, SpecError
from einmap.matmul.algorithms import Algorithm, Choice
from einmap.matmul.machine.machine import ComputeUnit, Level, Machine
from einmap.matmul.measured.kernel import DTYPES, ROWS, grain_of, multiply
from einmap.matmul.measured.measure import error_of
from einmap.matmul.measured.plain_loops import PLAIN_LOOPS
from einmap.matmul.plan import plan_matmul
from einmap.matmul.problem import product_of, rules_of
from einmap.matmul.result import MatmulPlan
from einmap.progress import Progress

LARGE = 8 * 2**30


def hand_made(size, dtype, *choices, workers=1):
    """A plan with these choices, (algorithm, block) from the outermost level in, whatever they cost."""
    levels = tuple(Level.of(f"L{i}", LARGE, 1e9, workers=workers) for i in range(len(choices)))
    machine = Machine("any", levels, ComputeUnit.of({"fp32": 1e9, "fp64": 1e9}))
    product = product_of(*size, dtype, None)
    rules = rules_of(
        machine,
        product,
        fit="all",
        accumulate="owned",
        double_buffer=False,
        resident=None,
        grain=None,
        candidates=None,
    )
    parents = [size, *(block for _, block in choices)]
    made = [
        Choice.of(Algorithm(a), block, parent, workers)
        for (a, block), parent in zip(choices, parents[:-1], strict=True)
    ]
    return MatmulPlan(machine, product, rules, tuple(made), "level by level")


def operands(size, dtype, seed=0):
    m, k, n = size
    rng = np.random.default_rng(seed)
    return tuple((rng.random(shape) - 0.5).astype(DTYPES[dtype]) for shape in ((m, k), (k, n), (m, n)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("outer", "inner"), list(itertools.product((1, 2, 3), repeat=2)))
def test_ragged_blocks_give_the_product_of_numpy(dtype, outer, inner):
    size = 77, 53, 151
    rows, _, columns = grain_of(dtype)
    plan = hand_made(size, dtype, (outer, (41, 29, 75)), (inner, (2 * rows, 7, columns)))
    a, b, _ = operands(size, dtype)
    assert error_of(multiply(plan, a, b), a, b) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_any_three_levels_of_whole_tiles_add_to_c(seed):
    rng = random.Random(seed)
    dtype = rng.choice(list(DTYPES))
    size = tuple(rng.randint(1, 130) for _ in range(3))
    tile = grain_of(dtype, 1)
    choices, parent = [], size
    for _ in range(3):
        parent = tuple(min(p, rng.randint(1, 1 + p // t) * t) for p, t in zip(parent, tile, strict=True))
        choices.append((rng.randint(1, 3), parent))
    a, b, c = operands(size, dtype, seed)
    expected = c.astype(float) + a.astype(float) @ b.astype(float)
    found = multiply(hand_made(size, dtype, *choices, workers=rng.choice([1, 3])), a, b, c)
    assert found is c
    np.testing.assert_allclose(found, expected, atol=1e-4 if dtype == "fp32" else 1e-12)


def test_plans_of_the_planner_run_also_on_operands_that_lie_by_columns():
    size = 100, 90, 130
    levels = (Level.of("L2", 64 * 2**13, 1e10), Level.of("L1", 24 * 2**13, 1e11))
    machine = Machine("small", levels, ComputeUnit.of({"fp32": 1e11}), grain_of("fp32", 8))
    plan = plan_matmul(*size, machine, dtype="fp32", candidates=4)
    a, b, _ = operands(size, "fp32")
    assert error_of(multiply(plan, np.asfortranarray(a), np.asfortranarray(b)), a, b) <= 1


def test_an_error_above_rounding_is_seen():
    a, b, _ = operands((20, 30, 40), "fp32")
    wrong = a @ b
    wrong[7, 11] += 1e-3
    assert error_of(a @ b, a, b) <= 1 < error_of(wrong, a, b)


def test_a_stopped_product_ends_between_blocks():
    size = 16, 16, 64
    plan = hand_made(size, "fp32", (1, (ROWS, 16, 64)))
    progress = Progress()
    progress.callback = lambda report: progress.stop() if report.done else None
    a, b, _ = operands(size, "fp32")
    found = multiply(plan, a, b, progress=progress)
    assert np.abs(found[:ROWS]).min() > 0
    assert not found[2 * ROWS :].any()


@pytest.mark.parametrize("order", PLAIN_LOOPS)
def test_plain_loops_give_the_product_too(order):
    a, b, _ = operands((9, 11, 13), "fp32")
    c = np.zeros((9, 13), np.float32)
    PLAIN_LOOPS[order](a, b, c)
    assert error_of(c, a, b) <= 1


def test_other_shapes_and_types_are_refused():
    plan = hand_made((16, 16, 64), "fp32", (1, (16, 16, 64)))
    a, b, c = operands((16, 16, 64), "fp32")
    with pytest.raises(SpecError, match="the plan's A is 16 x 16 of float32, found 16 x 64 of float32"):
        multiply(plan, b, a)
    with pytest.raises(SpecError, match="found 16 x 64 of float64"):
        multiply(plan, a, b.astype(float))
    with pytest.raises(SpecError, match="must be writeable and lie row by row"):
        multiply(plan, a, b, np.asfortranarray(c))


def test_blocks_that_are_no_whole_tiles_are_refused():
    plan = hand_made((96, 96, 96), "fp32", (1, (96, 96, 96)), (1, (5, 96, 96)))
    with pytest.raises(SpecError, match="a block of m 5 in one of 96 is not a whole number of tiles"):
        multiply(plan, *operands((96, 96, 96), "fp32"))


def test_other_data_types_are_refused():
    machine = Machine("any", (Level.of("L1", LARGE, 1e9),), ComputeUnit.of({"fp8": 1e9}))
    plan = plan_matmul(8, 8, 8, machine, dtype="fp8")
    with pytest.raises(NotSupportedError, match="fp32 or fp64"):
        multiply(plan, np.zeros((8, 8)), np.zeros((8, 8)))
