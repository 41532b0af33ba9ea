"""Tables of simulations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from einmap.report.frames.frame import Row, Table

if TYPE_CHECKING:
    from einmap.distribute.backends.check import OutputCheck
    from einmap.execute.results.result import Execution
    from einmap.report.executions.comparison import Comparison, OutputError

table = Table.written
_COUNTS = "text einsum | component | tensor | action"


def _instances(execution: Execution) -> Iterable[Row]:
    for key, counts in execution.per_instance.items():
        for instance, count in counts.items():
            yield (*key, " ".join(map(str, instance)), count)


def _compared(comparison: Comparison) -> Iterable[Row]:
    for r in comparison.rows:
        yield r.einsum or None, r.component, r.tensor, r.action, r.model, r.simulated, r.difference, r.agrees


def output_rows(outputs: Iterable[OutputError | OutputCheck]) -> Iterable[Row]:
    """How far each tensor is from what it should be."""
    return ((r.tensor, r.max_abs_error, r.max_relative_error, r.agrees) for r in outputs)


OUTPUTS = "text tensor; number max error | relative error; truth agrees"
TABLES: dict[str, tuple[Table, ...]] = {
    "Comparison": (
        table("counts", f"{_COUNTS}; number model | simulated | difference; truth agrees", _compared),
        table("outputs", OUTPUTS, lambda comparison: output_rows(comparison.outputs)),
    ),
    "Execution": (
        table(
            "actions",
            f"{_COUNTS}; number actions",
            lambda e: ((r.einsum, r.component, r.tensor, r.action, r.count) for r in e.actions),
        ),
        table("instances", f"{_COUNTS}; text instance; number actions", _instances),
        table(
            "occupancy",
            "integer step; text component; number held [bits]",
            lambda e: ((r.step, r.component, r.bits) for r in e.occupancy),
        ),
        table("memories", "text component; number usage", lambda e: e.usage.items()),
        table("steps", "text einsum; integer steps", lambda e: e.steps.items()),
    ),
}
