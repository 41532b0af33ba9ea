"""Tables of distribution plans and their collectives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from einmap.distribute.backends.compare import Match, matches
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.distribute.placements.mesh import Group
from einmap.distribute.plans.plan import BYTES, Plan
from einmap.report.frames.executions import OUTPUTS, output_rows
from einmap.report.frames.frame import Row, Table
from einmap.report.text.formatting import shape_text

if TYPE_CHECKING:
    from einmap.distribute.costs.cost import PlanCost
    from einmap.distribute.plans.collectives import Traffic
    from einmap.report.mesh.distribution import PlanRun

_COLLECTIVE = "text collective | tensor | axes; integer groups | PEs of a group"


def _groups(groups: Sequence[Group]) -> tuple[int, int]:
    return len(groups), len(groups[0]) if groups else 0


def _traffic(rows: Iterable[Traffic]) -> Iterable[Row]:
    for traffic in rows:
        names = traffic.kind, traffic.tensor, ", ".join(traffic.axes)
        sizes = traffic.operand_bytes, traffic.result_bytes, traffic.sent_bytes, traffic.total_sent_bytes
        yield (*names, traffic.groups.count, traffic.groups.size, traffic.count, *sizes)


def _matches(rows: Iterable[Match]) -> Iterable[Row]:
    for match in rows:
        row = match.collective
        names = row.kind, ", ".join(match.tensors) or None, ", ".join(match.axes) or None
        numbers = row.operand_bytes, row.result_bytes, match.predicted, match.lowered
        yield (*names, *_groups(row.groups), *numbers, match.agrees)


def _buffers(plan: Plan) -> Iterable[Row]:
    for buffer in plan.buffers:
        whole, n = [size for _, size in buffer.sizes], math.prod(buffer.shape)
        shapes = shape_text(whole), str(buffer.placement), shape_text(buffer.shape)
        yield buffer.name, buffer.tensor, *shapes, n * BYTES[plan.dtype], n / math.prod(whole)


def _plan_cost(cost: PlanCost) -> Iterable[Row]:
    seconds = cost.communication_seconds, cost.computation_seconds, cost.latency, cost.overlapped_latency
    return [(cost.sent_bytes, cost.points, cost.mean_points, cost.buffer_bytes, *seconds)]


def _executed(run: PlanRun) -> Iterable[Row]:
    """Nothing where nothing really moved."""
    if run.run is None or run.run.lowered is None:
        return ()
    return _matches(matches(communication(run.plan), run.run.lowered))


table = Table.written
_TRAFFIC = f"{_COLLECTIVE} | times | operand [bytes] | result [bytes]; number sent [bytes] | sent in all [bytes]"
_MATCHES = f"{_COLLECTIVE} | operand [bytes] | result [bytes] | predicted | executed; truth agrees"
_PLAN_COST = (
    "number sent [bytes]; integer points; number mean points; integer buffers [bytes]; "
    "number communication [s] | computation [s] | latency [s] | overlapped latency [s]"
)
_BUFFERS = "text buffer | tensor | whole shape | placement | shape; integer size [bytes]; number share"

TABLES: dict[str, tuple[Table, ...]] = {
    "Plan": (
        table("collectives", _TRAFFIC, lambda plan: _traffic(communication(plan))),
        table("buffers", _BUFFERS, _buffers),
        table("cost", _PLAN_COST, lambda plan: _plan_cost(plan_cost(plan))),
    ),
    "PlanRun": (
        table("collectives", _TRAFFIC, lambda run: _traffic(communication(run.plan))),
        table("executed", _MATCHES, _executed),
        table("outputs", OUTPUTS, lambda run: output_rows(run.checks)),
        table("buffers", _BUFFERS, lambda run: _buffers(run.plan)),
        table("cost", _PLAN_COST, lambda run: _plan_cost(plan_cost(run.plan))),
    ),
    "PlanCost": (table("cost", _PLAN_COST, _plan_cost),),
    "Traffic": (table("collectives", _TRAFFIC, _traffic),),
    "Match": (table("executed", _MATCHES, _matches),),
}
