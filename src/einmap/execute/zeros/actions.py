"""Counts of zeros as actions, by the names that an evaluation gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from einmap.arch.component import Memory
from einmap.execute.results.result import CountRow, ZeroCounts
from einmap.schedule.routes import Instance, Route
from einmap.sparse.savings import SKIPPED, STATES
from einmap.spec.spec import Spec


def zero_rows(spec: Spec, routes: Mapping[str, Route], zeros: ZeroCounts) -> Iterator[CountRow]:
    """Actions that were done, gated and skipped, and those of metadata; instance factors included."""
    sums: dict[tuple[str, str, str | None, str], float] = {}
    for (einsum, name, tensor, action, state), by_instance in zeros.values.items():
        unit = routes[einsum].arch.components[name]
        rate = 1.0 if tensor is None else unit.action(action).actions_per_value[tensor]
        word = action if not state else f"{STATES[state]}_{action}"
        sums[einsum, name, tensor, word] = sum(by_instance.values()) * rate * unit.actions_scale
    for (einsum, name, tensor, action, state), by_instance in zeros.metadata.items():
        unit = routes[einsum].arch.components[name]
        if state == SKIPPED or tensor is None or not isinstance(unit, Memory):
            continue
        is_own = name in spec.sparsity[einsum].own_metadata
        rate = 1.0 if is_own else unit.action(action).actions_per_value[tensor] / unit.bits[tensor]
        key = (einsum, name, tensor, f"metadata_{action}")
        sums[key] = sums.get(key, 0.0) + sum(by_instance.values()) * rate * unit.actions_scale
    for (einsum, name, tensor, word), count in sums.items():
        instances = spec.workload.n_instances * routes[einsum].einsum.n_instances
        yield CountRow(einsum, name, tensor, word, count * instances)


def zero_steps(einsum: str, unit: str, zeros: ZeroCounts) -> int:
    """Operations of the busiest compute that are not skipped."""
    lanes: dict[Instance, float] = {}
    for state in range(SKIPPED):
        for at, n in zeros.values.get((einsum, unit, None, "compute", state), {}).items():
            lanes[at] = lanes.get(at, 0) + n
    return int(max(lanes.values(), default=0))
