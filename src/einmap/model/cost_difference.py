"""How two costs differ: totals, and the rows that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from einmap.model.cost import Cost


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
