"""Tables of costs, searches and differences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from einmap.mapper.objective.metrics import METRICS
from einmap.mapping.nodes import format_address
from einmap.report.frames.frame import Cell, Column, Row, Table
from einmap.report.text.formatting import UNITS
from einmap.visible import short

if TYPE_CHECKING:
    from einmap.mapper.result.result import MapResult
    from einmap.model.cost import Cost
    from einmap.model.cost_difference import Changed, Difference
    from einmap.model.fusion import Fusion
    from einmap.spec.cost_sources import CostSource

table = Table.written


def _actions(cost: Cost) -> Iterable[Row]:
    return ((r.einsum, r.component, r.tensor, r.action, r.count, r.energy) for r in cost.actions)


def _stages(cost: Cost) -> Iterable[Row]:
    for pipeline, row in enumerate(cost.pipelines):
        for place, stage in enumerate(row.stages):
            yield pipeline, place, ", ".join(stage.einsums), row.tiles, stage.latency, row.latency


_COST = (
    table("actions", "text einsum | component | tensor | action; number actions | energy [J]", _actions),
    table(
        "totals",
        "number energy [J] | latency [s] | EDP [J*s] | area [m^2] | leak energy [J]; text semantics",
        lambda cost: [(cost.energy, cost.latency, cost.edp, cost.area, cost.leak_energy, cost.semantics)],
    ),
    table(
        "latencies",
        "text einsum | component; number latency [s]",
        lambda cost: ((r.einsum, r.component, r.latency) for r in cost.latencies),
    ),
    table(
        "stages",
        "integer pipeline | stage; text einsums; integer tiles; number latency [s] | pipeline latency [s]",
        _stages,
    ),
    table("memories", "text component; number usage", lambda cost: ((r.component, r.usage) for r in cost.memory_usage)),
    table(
        "tensors",
        "text einsum | component | tensor; number usage",
        lambda cost: ((r.einsum, r.component, r.tensor, r.usage) for r in cost.memory_usage_by_tensor),
    ),
    table(
        "fanouts",
        "text einsum | component | dimension; number usage",
        lambda cost: ((r.einsum, r.component, r.dimension, r.usage) for r in cost.spatial_usage),
    ),
    table(
        "components",
        "text component; integer instances; number area [m^2] | leak power [W]",
        lambda cost: ((r.component, r.instances, r.total_area, r.total_leak_power) for r in cost.components),
    ),
)


def _front(result: MapResult) -> Iterable[Row]:
    for index, solution in enumerate(result.front):
        shared = ", ".join(solution.shared_inputs) or None
        yield (index, *(metric.of_cost(solution.cost) for metric in METRICS.values()), result.optimal, shared)


def _search(result: MapResult) -> Iterable[Row]:
    stats = result.stats
    unit = METRICS[result.metrics[0]].unit if len(result.metrics) == 1 else None
    yield (
        ", ".join(result.metrics), result.optimal, result.lower_bound, unit, result.gap, stats.mapspace_size,
        stats.templates, stats.evaluated, stats.seconds, result.reason,
    )  # fmt: skip


def _costs(result: MapResult) -> Iterable[tuple[Cell, Cost]]:
    return ((index, solution.cost) for index, solution in enumerate(result.front))


_SHORT = 60
"""Characters of a value of a field that is shown whole."""
_METRICS = " | ".join(f"{m.title} [{m.unit}]" if m.unit else m.title for m in METRICS.values())
_MAP_RESULT = (
    table("front", f"integer mapping; number {_METRICS}; truth optimal; text shared inputs", _front),
    table(
        "search",
        "text metrics; truth optimal; number lower bound; text unit; number gap | mapspace size; "
        "integer templates | evaluated; number time [s]; text reason",
        _search,
    ),
    *(part.of_each(Column("mapping", "integer"), _costs) for part in _COST if part.name != "totals"),
)


def _changed(row: Changed) -> Row:
    unit = "part" if row.kind == "usage" else UNITS.get(row.name[0] if row.kind == "total" else row.kind, "")
    return (row.kind, " ".join(row.name), unit, row.before, row.after, row.difference, row.ratio)


_CHANGES = "text kind | name | unit; number before | after | difference | ratio"


def _value(value: Any) -> str:
    """A value of a field; of a dictionary that is not small what it is of."""
    if not isinstance(value, dict):
        return value if isinstance(value, str) and len(value) <= _SHORT else short(value, _SHORT)
    written = ", ".join(f"{key}: {_value(part)}" for key, part in value.items())
    if len(written) <= 40:
        return f"{{{written}}}"
    kind, name = value.get("type") or "a dictionary", value.get("name")
    return f"{kind} {name}" if name else f"{kind} of {len(value)} fields"


def _fields(difference: Difference) -> Iterable[Row]:
    for field in difference.fields:
        before = None if field.added else _value(field.before)
        after = None if field.removed else _value(field.after)
        yield "added" if field.added else "removed" if field.removed else "changed", field.path, before, after
    for node in difference.nodes:
        places = dict.fromkeys(format_address(at) for at in (node.before_at, node.after_at) if at is not None)
        yield node.kind, f"mapping {' -> '.join(places)}", node.before, node.after


def _sources(sources: list[CostSource]) -> Iterable[Row]:
    for cost in sources:
        scaling, factors = ("; ".join(map(str, steps)) or None for steps in (cost.scaling, cost.factors))
        what = cost.component, cost.action, cost.quantity, UNITS[cost.quantity]
        yield *what, cost.value, cost.source, scaling, cost.before, factors, ", ".join(cost.einsums) or None


def _kept(fusion: Fusion) -> Iterable[Row]:
    for kept in fusion.tensors:
        loops = ", ".join("/".join(sorted({v for _, v in loop.variables})) for loop in kept.loops)
        yield kept.tensor, kept.memory, kept.bits, loops or None, ", ".join(kept.einsums), kept.fused


TABLES: dict[str, tuple[Table, ...]] = {
    "Cost": _COST,
    "MapResult": _MAP_RESULT,
    "Saving": (table("totals", _CHANGES, lambda saving: map(_changed, saving.rows)),),
    "Fusion": (
        table("tensors", "text tensor | component; number tile [bits]; text loops | einsums; truth fused", _kept),
    ),
    "Difference": (
        table("costs", _CHANGES, lambda difference: map(_changed, (*difference.totals, *difference.rows))),
        table("structure", "text change | where | before | after", _fields),
    ),
    "CostSource": (
        table(
            "costs",
            "text component | action | quantity | unit; number value; text source | scaling; number before; "
            "text factors | einsums",
            _sources,
        ),
    ),
}
