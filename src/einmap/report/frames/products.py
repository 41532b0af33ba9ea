"""Tables of plans of one matrix product, and of what they came to where they were run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from einmap.matmul.machine.machine import DIMENSIONS, TENSORS
from einmap.report.frames.frame import Row, Table

if TYPE_CHECKING:
    from einmap.matmul.measured.measure import Measured
    from einmap.matmul.result import MatmulPlan, PlannedLevel

table = Table.written


def traffic_by_tensor(plan: MatmulPlan, row: PlannedLevel) -> list[float]:
    """Bits of each operand that cross the link of a level."""
    return [bits * row.traffic.of(tensor).values for tensor, bits in zip(TENSORS, plan.product.bits, strict=True)]


def _levels(plan: MatmulPlan) -> Iterable[Row]:
    for row in plan.levels:
        level, choice, moved = row.stage.level, row.choice, row.traffic.bits
        yield (
            level.name, row.number, choice.workers, level.workers, choice.algorithm.value, choice.algorithm.resident,
            *choice.block, *row.parts, *row.bits, row.needed_bits, level.size_bits, row.used,
            *traffic_by_tensor(plan, row), moved, row.least, moved / row.least if row.least else None,
            row.seconds, row.seconds / plan.seconds if plan.seconds else 0.0,
        )  # fmt: skip


def _layouts(plan: MatmulPlan) -> Iterable[Row]:
    for operand in plan.layouts:
        for cost in operand.costs:
            yield operand.tensor, cost.order, cost is operand.best, cost.run_bits, cost.runs, cost.full, cost.seconds


def _matmul(plan: MatmulPlan) -> Iterable[Row]:
    yield (
        plan.machine.name, *plan.product.size, plan.method, plan.optimal, plan.feasible, plan.seconds,
        plan.compute_seconds, plan.product.flops, plan.flops_per_s, plan.peak_part,
    )  # fmt: skip


def _measured(measured: Measured) -> Iterable[Row]:
    runs = [*(("plain loops", run) for run in measured.plain), ("plan", measured.planned), ("BLAS", measured.blas)]
    return ((what, run.name, run.seconds, run.rows, run.flops_per_s) for what, run in runs)


def _by_tensor(what: str) -> str:
    return " | ".join(f"{what} of {tensor} [bits]" for tensor in TENSORS)


_BY_DIMENSION = " | ".join(f"block {d} [values]" for d in DIMENSIONS) + "".join(f" | parts {d}" for d in DIMENSIONS)
TABLES: dict[str, tuple[Table, ...]] = {
    "MatmulPlan": (
        table(
            "levels",
            "text level; integer number | workers used | workers | algorithm; text resident; integer "
            f"{_BY_DIMENSION} | {_by_tensor('block')}; number needed [bits] | size [bits] | full [part] | "
            f"{_by_tensor('traffic')} | traffic [bits] | least traffic [bits] | times the least | time [s] | share",
            _levels,
        ),
        table(
            "totals",
            f"text machine; integer {' | '.join(f'size {d} [values]' for d in DIMENSIONS)}; text method; "
            "truth optimal | feasible; number time [s] | compute [s]; integer operations [flop]; "
            "number rate [flop/s] | part of peak",
            _matmul,
        ),
        table(
            "layouts",
            "text tensor | order; truth best; integer run [bits] | runs; number full lines | time [s]",
            _layouts,
        ),
    ),
    "Measured": (table("runs", "text what | name; number time [s]; integer rows; number rate [flop/s]", _measured),),
}
