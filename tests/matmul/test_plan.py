"""Plans by hand: the worked table, one level of each algorithm, workers, double buffers, resident operands, layouts."""

import math

import pytest

from einmap import ComputeUnit, Level, Machine, SpecError, machine_from_dict, plan_matmul
from einmap.matmul.algorithms import Algorithm, Choice, block_seconds, overlapped, stages_of
from einmap.matmul.blocks.space import even_sizes
from einmap.matmul.problem import product_of, rules_of
from einmap.report.matmul.matmul import plan_report

KIB, MIB = 2**10, 2**20


def table(plan):
    return [
        (
            row.stage.level.name,
            row.number,
            int(row.stage.level.size_bits) // 8,
            row.stage.level.workers,
            row.choice.algorithm.value,
            *row.choice.block,
            *(bits // 8 for bits in row.bits),
        )
        for row in plan.levels
    ]


def test_the_worked_table_is_reproduced_with_fit_resident():
    plan = plan_matmul(4096, 4096, 16384, "chiplet_256", dtype="fp8", fit="resident")
    assert plan.machine.instances(2) == 256
    assert table(plan) == [
        ("SLC", 4, 128 * MIB, 1, 1, 4096, 2048, 16384, 8 * MIB, 32 * MIB, 64 * MIB),
        ("LCC", 3, 16 * MIB, 8, 2, 4096, 2048, 1024, 8 * MIB, 2 * MIB, 4 * MIB),
        ("L2", 2, 2 * MIB, 32, 3, 128, 2048, 1024, 256 * KIB, 2 * MIB, 128 * KIB),
    ]


def test_the_overflow_of_the_worked_table_is_said_in_words():
    plan = plan_matmul(4096, 4096, 16384, "chiplet_256", dtype="fp8", fit="resident")
    assert not plan.feasible
    assert [str(note) for note in plan.notes] == [
        "L2 overflows: the blocks need 2,490,368 bytes, 393,216 more than the 2,097,152 of one worker; "
        "the resident block of B alone takes 2,097,152"
    ]


@pytest.mark.parametrize("method", ["joint", "level by level"])
def test_fit_all_gives_a_plan_that_fits(method):
    plan = plan_matmul(4096, 4096, 16384, "chiplet_256", dtype="fp8", method=method)
    assert plan.feasible
    assert plan.notes == ()
    assert all(row.used <= 1 for row in plan.levels)


def test_the_rule_takes_square_blocks_where_no_matrix_fits():
    machine = Machine("two", (Level.of("L1", 100 * 8, 8.0),), ComputeUnit.of({"int8": 1e9}))
    (choice,) = plan_matmul(60, 60, 60, machine, dtype="int8", fit="resident").choices
    assert (choice.algorithm.value, choice.block) == (1, (10, 1, 10))


M, K, N = 12, 8, 20
RHO, SIGMA, PHI, ALPHA = 1 / 2, 1 / 4, 1.0, 1 / 8
GAMMA = 1 / 100


def one_level(workers=1, **more):
    level = Level.of(
        "L1",
        1e6,
        8 / RHO,
        workers=workers,
        store_bandwidth=8 / SIGMA,
        accumulate_bandwidth=8 / PHI,
        zero_bandwidth=8 / ALPHA,
        **more,
    )
    return Machine("one", (level,), ComputeUnit.of({"int8": 1 / GAMMA}))


def seconds(machine, algorithm, block, size=(M, K, N), **rules):
    product = product_of(*size, "int8")
    (stage,) = stages_of(machine, product, rules_of(machine, product, **rules))
    choice = Choice.of(algorithm, block, size, stage.level.workers)
    return float(block_seconds(stage, choice, size, lambda b: 2 * math.prod(b) * GAMMA))


def test_sequential_costs_are_the_formulas_of_the_article():
    m, k, n = 4, 2, 5
    mkn = M * K * N
    expected = {
        Algorithm.C_RESIDENT: M * N * (RHO + SIGMA) + mkn * (RHO / n + RHO / m + 2 * GAMMA),
        Algorithm.A_RESIDENT: M * K * RHO + mkn * ((RHO + SIGMA) / k + RHO / m + 2 * GAMMA),
        Algorithm.B_RESIDENT: K * N * RHO + mkn * ((RHO + SIGMA) / k + RHO / n + 2 * GAMMA),
    }
    for algorithm, value in expected.items():
        assert seconds(one_level(), algorithm, (m, k, n)) == pytest.approx(value)


def test_costs_with_atomic_workers_are_the_formulas_of_the_article():
    m, k, n, w = 3, 2, 5, 2
    flops = 2 * M * K * N
    private = ALPHA + PHI
    expected = {
        Algorithm.C_RESIDENT: private / (2 * K) + (RHO / (2 * n) + RHO / (2 * m) + GAMMA) / w,
        Algorithm.A_RESIDENT: RHO / (2 * N) + (private / (2 * k) + RHO / (2 * m) + GAMMA) / w,
        Algorithm.B_RESIDENT: RHO / (2 * M) + (private / (2 * k) + RHO / (2 * n) + GAMMA) / w,
    }
    for algorithm, gamma in expected.items():
        found = seconds(one_level(w), algorithm, (m, k, n), (M, K, N), accumulate="atomic")
        assert found == pytest.approx(flops * gamma)


def test_owned_blocks_of_c_are_loaded_and_stored_by_their_worker_and_sums_of_several_are_atomic():
    m, k, n, w = 4, 2, 5, 2
    flops = 2 * M * K * N
    owned = RHO / (2 * N) + ((RHO + SIGMA) / (2 * k) + RHO / (2 * m) + GAMMA) / w
    assert seconds(one_level(w), Algorithm.A_RESIDENT, (m, k, n)) == pytest.approx(flops * owned)
    atomic = seconds(one_level(w), Algorithm.C_RESIDENT, (m, k, n), accumulate="atomic")
    assert seconds(one_level(w), Algorithm.C_RESIDENT, (m, k, n)) == atomic


def test_a_last_block_that_is_smaller_costs_what_it_has():
    # k = 3 in blocks of 2 and 1: C once, A and B once each
    (m, k, n), size = (2, 2, 2), (2, 3, 2)
    expected = 4 * (RHO + SIGMA) + 12 * RHO + 2 * 12 * GAMMA
    assert seconds(one_level(), Algorithm.C_RESIDENT, (m, k, n), size) == pytest.approx(expected)


def test_every_transfer_costs_its_start_up_and_moves_whole_lines():
    # one block: A 2x2, B 2x2, C 2x2 forth and back; 4 bytes in lines of 64 take what 64 bytes take
    machine = one_level(startup=10.0, line_bits=512)
    expected = 4 * 10.0 + 64 * (3 * RHO + SIGMA) + 2 * 8 * GAMMA
    assert seconds(machine, Algorithm.C_RESIDENT, (2, 2, 2), (2, 2, 2)) == pytest.approx(expected)


def test_double_buffers_hide_all_but_the_first_load_and_the_last_store():
    assert overlapped([((2.0, 5.0, 0.0), 4)]) == 2 + 4 * 5
    assert overlapped([((2.0, 1.0, 0.0), 4)]) == 4 * 2 + 1
    assert overlapped([((2.0, 3.0, 1.0), 3)]) == 2 + 3 + 3 + 3 + 1
    assert overlapped([((2.0, 1.0, 1.0), 3)]) == 2 + 2 + 3 + 1 + 1
    # 4 full steps, then one of half the size
    assert overlapped([((2.0, 3.0, 2.0), 4), ((1.0, 1.5, 1.0), 1)]) == 2 + (3 + 4 + 4 + 3) + 2 + 1
    assert overlapped([((2.0, 3.0, 1.0), 1)]) == 2 + 3 + 1


def test_double_buffers_take_twice_the_space_of_streamed_blocks():
    plan = plan_matmul(64, 64, 64, one_level(), dtype="int8", double_buffer=True)
    (row,), (choice,) = plan.levels, plan.choices
    resident = row.bits["ABC".index(choice.algorithm.resident)]
    assert row.needed_bits == resident + 2 * (sum(row.bits) - resident)


def test_a_resident_operand_is_never_moved_and_takes_its_whole_size():
    plan = plan_matmul(4096, 4096, 16384, "chiplet_256", dtype="fp8", resident={"A": "SLC"})
    slc, lcc, _ = plan.levels
    assert slc.traffic.of("A").values == 0
    assert lcc.traffic.of("A").values > 0
    assert slc.needed_bits == 8 * 4096 * 4096 + slc.bits[1] + slc.bits[2]
    assert slc.bits[0] == 0
    assert plan.seconds < plan_matmul(4096, 4096, 16384, "chiplet_256", dtype="fp8").seconds


def test_sums_in_a_wider_type_are_wider_everywhere():
    plan = plan_matmul(256, 256, 256, "chiplet_256", dtype="fp8", accumulator="fp32", method="level by level")
    for row in plan.levels:
        m, k, n = row.choice.block
        assert row.bits == (8 * m * k, 8 * k * n, 32 * m * n)


def test_grains_may_differ_by_dimension():
    plan = plan_matmul(2048, 2048, 2048, "cpu_core", dtype="fp32", grain=(4, 64, 32), method="level by level")
    for choice in plan.choices:
        assert [b % g for b, g in zip(choice.block, (4, 64, 32), strict=True)] == [0, 0, 0]


def test_efficiency_and_padding_slow_computing_only():
    slow = ComputeUnit.of({"int8": 1.0}, pads=True, efficiency={"n": {1: 0.5, 16: 1.0}})
    assert slow.seconds((5, 8, 8), 1.0, (4, 8, 8)) == 2 * 8 * 8 * 8 / 0.5
    assert slow.seconds((8, 8, 16), 1.0, (8, 8, 8)) == 2 * 8 * 8 * 16


def test_even_sizes_are_those_of_each_number_of_parts():
    assert even_sizes(12, 1, None) == (12, 6, 4, 3, 2, 1)
    assert even_sizes(100, 32) == (100, 64, 32)
    for size in (1, 7, 96, 1000, 4099):
        expected = sorted({-(-size // parts) for parts in range(1, size + 1)}, reverse=True)
        assert even_sizes(size, 1, None) == tuple(expected)
        few = even_sizes(size, 1, 5)
        assert len(few) <= 5
        assert {few[0], few[-1]} == {size, 1}


# layouts


def orders(plan):
    return {layout.tensor: {cost.order: cost for cost in layout.costs} for layout in plan.layouts}


def test_full_lines_and_one_run_where_a_block_is_as_wide_as_the_matrix():
    plan = plan_matmul(4096, 4096, 16384, "chiplet_256", dtype="fp8", fit="resident")
    a, b, c = (orders(plan)[tensor] for tensor in "ABC")
    # A in blocks of 4096 x 2048: half rows by rows, whole columns by columns; B in whole rows; C in one block
    assert (a["row"].runs, a["row"].run_bits, a["row"].full) == (2 * 4096, 8 * 2048, 1.0)
    assert (a["column"].runs, a["column"].run_bits) == (2, 8 * 4096 * 2048)
    assert [layout.best.order for layout in plan.layouts] == ["column", "row", "row"]
    assert b["column"].seconds > b["row"].seconds == b["blocked"].seconds
    assert c["row"].seconds == c["column"].seconds


def test_lines_are_counted_as_a_walk_over_all_runs_finds_them():
    machine = Machine("one", (Level.of("L1", 60 * 8, 8.0, line_bits=64),), ComputeUnit.of({"int8": 1e9}))
    for size in ((10, 13, 11), (9, 7, 30), (8, 16, 8)):
        plan = plan_matmul(*size, machine, dtype="int8")
        (choice,) = plan.choices
        for layout in plan.layouts:
            rows, columns = {"A": (0, 1), "B": (1, 2), "C": (0, 2)}[layout.tensor]
            shape, block = (size[rows], size[columns]), (choice.block[rows], choice.block[columns])
            for cost in layout.costs:
                lines = walked_lines(shape, block, cost.order)
                assert cost.full == pytest.approx(shape[0] * shape[1] / (8 * lines))


def walked_lines(shape, block, order):
    """Lines of 8 values that the transfers of all blocks touch, run by run."""
    if order == "column":
        shape, block = shape[::-1], block[::-1]
    lines = 0
    for top in range(0, shape[0], block[0]):
        for left in range(0, shape[1], block[1]):
            height, width = min(block[0], shape[0] - top), min(block[1], shape[1] - left)
            if order == "blocked":
                lines += -(-height * width // 8)
                continue
            addresses = [[(top + i) * shape[1] + left + j for j in range(width)] for i in range(height)]
            runs = [[a for row in addresses for a in row]] if width == shape[1] else addresses
            lines += sum(len({address // 8 for address in run}) for run in runs)
    return lines


# bad input


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((0, 4, 4), {}, "M must be a whole number from 1 to 2**40, found 0"),
        ((4, -1, 4), {}, "K must be a whole number"),
        ((4, 4, 2.5), {}, "N must be a whole number"),
        ((64, 4096, 4096), {}, "the grain of m is 128, larger than M = 64"),
        ((4096,) * 3, {"grain": 0}, "whole numbers > 0"),
        ((4096,) * 3, {"grain": 2048}, "level 'L2' holds 2,097,152 bytes, the smallest blocks"),
        ((4096,) * 3, {"dtype": "fp9"}, "did you mean 'fp8'?"),
        ((4096,) * 3, {"dtype": "fp64"}, "gives no flops for fp64"),
        ((4096,) * 3, {"accumulator": "fp4"}, "fp4 is narrower than fp8"),
        ((4096,) * 3, {"resident": {"A": "SLX"}}, "did you mean 'SLC'?"),
        ((4096,) * 3, {"resident": {"Z": "SLC"}}, "no operand 'Z'"),
        ((4096,) * 3, {"resident": {"C": "L2"}}, "256 private memories"),
        ((2**20,) * 3, {"resident": {"A": "SLC"}}, "the operands that lie there need"),
        ((4096,) * 3, {"fit": "some"}, "fit: no rule 'some'"),
        ((4096,) * 3, {"method": "jiont"}, "did you mean 'joint'?"),
        ((4096,) * 3, {"fit": "resident", "method": "joint"}, "nothing to optimise jointly"),
        ((4096,) * 3, {"candidates": 1}, "candidates must be"),
    ],
    ids=str,
)
def test_bad_input_is_said_clearly(sizes, options, message):
    with pytest.raises(SpecError) as error:
        plan_matmul(*sizes, "chiplet_256", **({"dtype": "fp8"} | options))
    assert message in str(error.value)


def test_a_machine_that_is_none_is_said_clearly():
    level = Level.of("L1", 800, 8.0)
    unit = ComputeUnit.of({"int8": 1.0})
    for make, message in (
        (lambda: Machine("x", (), unit), "1 to 8 levels, found 0"),
        (lambda: Machine("x", (level, level), unit), "two parts of the machine are called 'L1'"),
        (lambda: Machine("x", (level,), unit, (0, 1, 1)), "the grain of m must be a whole number > 0"),
        (lambda: Level.of("L1", -1, 8.0, workers=0), "2 problems found"),
        (lambda: ComputeUnit.of({"int9": 1.0}), "no data type 'int9'"),
        (lambda: ComputeUnit.of({}), "no data type has a rate"),
        (lambda: ComputeUnit.of({"int8": 1.0}, efficiency={"n": {1: 1.5}}), "in (0, 1], found 1.5"),
        (lambda: machine_from_dict({"levels": []}), "needs the field 'compute'"),
    ):
        with pytest.raises(SpecError) as error:
            make()
        assert message in f"{error.value.message} {error.value}"


def test_where_nothing_takes_time_the_first_plan_is_the_best():
    level = {"name": "L1", "size": 262144, "load_bandwidth": math.inf}
    boundless = machine_from_dict({"levels": [level], "compute": {"name": "fma", "flops": {"fp32": "inf"}}})
    plan = plan_matmul(64, 64, 64, boundless, dtype="fp32")
    assert (plan.seconds, plan.flops_per_s) == (0, math.inf)
    assert plan.optimal
    plan_report(plan)
