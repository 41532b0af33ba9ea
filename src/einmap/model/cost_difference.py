"""How two specifications and their costs differ: in structure, in totals, and in the rows that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from einmap.mapping.difference import NodeChange, tree_changes
from einmap.mapping.nodes import format_address
from einmap.model.cost import Cost
from einmap.spec.forms.spec_difference import FieldChange, field_changes
from einmap.spec.raw import to_python
from einmap.spec.spec import TOP_LEVEL, Spec

SCHEMA = 1
"""Version of `Difference.to_dict()`."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One number of two costs. `kind`: total, energy (J), actions, latency (s), usage (of a capacity or fanout)."""

    kind: str
    name: tuple[str, ...]
    before: float
    after: float

    @property
    def difference(self) -> float:
        """How much more there is after."""
        return self.after - self.before

    @property
    def ratio(self) -> float | None:
        """After by before; None where there was nothing before."""
        return self.after / self.before if self.before else None


def total_changes(before: Cost, after: Cost) -> tuple[Changed, ...]:
    """Energy, latency, EDP and area, equal or not; area only where both have one."""
    rows = [(name, getattr(before, name), getattr(after, name)) for name in ("energy", "latency", "edp", "area")]
    return tuple(Changed("total", (name,), a, b) for name, a, b in rows if a is not None and b is not None)


def row_changes(before: Cost, after: Cost) -> tuple[Changed, ...]:
    """Every row that is not the same: each kind by itself, the largest difference first."""
    changes: list[Changed] = []
    for kind, old, new in _kinds(before, after):
        rows = [Changed(kind, key, old.get(key, 0.0), new.get(key, 0.0)) for key in dict.fromkeys((*old, *new))]
        changes += sorted((row for row in rows if row.difference), key=lambda row: -abs(row.difference))
    return tuple(changes)


type _Rows = Mapping[tuple[str, ...], float]


def _kinds(before: Cost, after: Cost) -> Iterator[tuple[str, _Rows, _Rows]]:
    yield "energy", _energies(before), _energies(after)
    yield "actions", _actions(before), _actions(after)
    yield "latency", _latencies(before), _latencies(after)
    yield "usage", _usages(before), _usages(after)


def _energies(cost: Cost) -> _Rows:
    energies = cost.energy_by("component", "tensor", "action")
    return {tuple(part for part in key if part): energy for key, energy in energies.items()}


def _actions(cost: Cost) -> _Rows:
    counts: dict[tuple[str, ...], float] = {}
    for row in cost.actions:
        if row.count is not None:
            key = (row.einsum, row.component, *((row.tensor,) if row.tensor else ()), row.action)
            counts[key] = counts.get(key, 0.0) + row.count
    return counts


def _latencies(cost: Cost) -> _Rows:
    return {(row.einsum, row.component): row.latency for row in cost.latencies}


def _usages(cost: Cost) -> _Rows:
    memories: dict[tuple[str, ...], float] = {(row.component,): row.usage for row in cost.memory_usage}
    fanouts = {(row.einsum, f"{row.component}.{row.dimension}"): row.usage for row in cost.spatial_usage}
    return memories | fanouts


@dataclass(frozen=True)
class Difference:
    """Two specifications side by side. `costs` is None where one of them cannot be evaluated."""

    fields: tuple[FieldChange, ...]
    nodes: tuple[NodeChange, ...]
    costs: tuple[Cost, Cost] | None

    @property
    def totals(self) -> tuple[Changed, ...]:
        """Energy, latency, EDP, area of both."""
        return total_changes(*self.costs) if self.costs else ()

    @property
    def rows(self) -> tuple[Changed, ...]:
        """Rows of the costs that are not the same."""
        return row_changes(*self.costs) if self.costs else ()

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON."""
        return {
            "schema": SCHEMA,
            "fields": [asdict(change) for change in self.fields],
            "nodes": [
                {
                    **asdict(change),
                    "before_at": None if change.before_at is None else format_address(change.before_at),
                    "after_at": None if change.after_at is None else format_address(change.after_at),
                }
                for change in self.nodes
            ],
            "totals": [_plain(row) for row in self.totals],
            "rows": [_plain(row) for row in self.rows],
        }


def _plain(row: Changed) -> dict[str, Any]:
    return {**asdict(row), "difference": row.difference, "ratio": row.ratio}


def compare_specs(before: Spec, after: Spec, costs: tuple[Cost, Cost] | None) -> Difference:
    """Differences: LoopTrees node by node, everything else field by field."""
    fields: list[FieldChange] = []
    for key in TOP_LEVEL:
        if key != "mapping":
            fields += field_changes(before.raw.get(key), after.raw.get(key), (key,))
    old, new = before.mapping, after.mapping
    nodes = tree_changes(old, new) if old is not None and new is not None else ()
    for side, other in ((old, new), (new, old)):
        if side is not None and other is None:
            raw = (before if side is old else after).raw.get("mapping")
            plain = None if raw is None else to_python(raw)
            gone = side is old
            fields.append(FieldChange("mapping", plain if gone else None, None if gone else plain, not gone, gone))
    return Difference(tuple(fields), nodes, costs)
