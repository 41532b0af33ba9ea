"""Rows of the cost of one Einsum: actions, leakage, the time that components are busy, and lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from einmap.arch.component import Component, Network
from einmap.einsum.isomorphism import Renaming
from einmap.errors import At, SpecError
from einmap.model.checks.invariants import check_traffic
from einmap.model.cost import BALANCE, ROUNDING, ActionRow, EinsumLatencyRow, LatencyRow, SpatialUsageRow
from einmap.model.counting.path import EinsumPath
from einmap.model.counting.spatial import lanes_used, spatial_usage
from einmap.model.sparsity.rows import action_rows, sparse_numbers
from einmap.model.timing.buffering import serial_latency
from einmap.model.timing.latency import busy_time, memory_time, network_time, seconds_of
from einmap.model.timing.stalls import stalled_latency
from einmap.model.timing.systolic import skew_seconds
from einmap.model.timing.ways import Way
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.copies import copy_busiest, copy_totals
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.mesh_crossing import NetworkUse
from einmap.model.traffic.networks_crossed import network_use
from einmap.sparse.savings import Sparsity


@dataclass(frozen=True)
class Rows:
    """The rows of one Einsum, all its instances. `longer`: its latency if that is more than its busiest component's."""

    actions: tuple[ActionRow, ...]
    latencies: tuple[LatencyRow, ...]
    spatial: tuple[SpatialUsageRow, ...]
    longer: EinsumLatencyRow | None = None

    @property
    def latency(self) -> float:
        """Seconds until the Einsum is done."""
        if self.longer is not None:
            return self.longer.latency
        return max([row.latency for row in self.latencies], default=0.0)

    def renamed(self, names: Renaming) -> Rows:
        """The rows of an Einsum that is equal but for names."""
        einsum, tensors = names.new.name, names.tensors
        return Rows(
            tuple([replace(row, einsum=einsum, tensor=row.tensor and tensors[row.tensor]) for row in self.actions]),
            tuple([replace(row, einsum=einsum) for row in self.latencies]),
            tuple([replace(row, einsum=einsum) for row in self.spatial]),
            self.longer and replace(self.longer, einsum=einsum),
        )


def rows_of(
    traffic: EinsumTraffic, instances: int, where: Callable[[str], At], way: Way, sparsity: Sparsity | None = None
) -> Rows:
    """Count what an Einsum does; `where`: the place of a component; `way`: how long values are on their way.

    Raises SpecError when an action that is used has no throughput, and when a `total_latency` is not a number >= 0.
    """
    path = traffic.path
    zeros = None
    if sparsity is not None and sparsity.saves:
        zeros = sparse_numbers(traffic, sparsity)
        check_traffic(traffic)
        numbers = _Numbers({}, zeros.busiest, 0, zeros.busiest_operations, network_use(traffic))
    else:
        numbers = _numbers(traffic)
    times = _times(traffic, numbers, where)
    used = lanes_used(path)
    busiest = max(times.values(), default=0.0)
    latency = max(busiest, *_slower(traffic, times, where), way.turns) + way.waits
    longer = None
    if latency > busiest:
        limiting = tuple(_limiting(traffic, times, where, way, latency))
        longer = EinsumLatencyRow(path.einsum.name, latency * instances, limiting)
    if zeros is not None and sparsity is not None:
        actions = list(action_rows(path.einsum.name, zeros, sparsity, path.arch.components, instances))
    else:
        actions = _action_rows(path, numbers, instances)
    return Rows(
        (*actions, *_power_rows(path, latency, used, instances)),
        tuple(LatencyRow(path.einsum.name, c, seconds * instances) for c, seconds in times.items()),
        tuple(SpatialUsageRow(path.einsum.name, c, d, u) for (c, d), u in spatial_usage(path, used).items()),
        longer,
    )


def _limiting(
    traffic: EinsumTraffic, times: Mapping[str, float], where: Callable[[str], At], way: Way, latency: float
) -> Iterator[str]:
    """Components that would make one instance of an Einsum take longer than its latency if they were slower.

    As much slower as a component may be less busy that is in balance with the busiest one.
    """
    ways = {name: (turns, waits) for name, turns, waits in way.late}
    for name in times:
        slower = {**times, name: times[name] / BALANCE}
        turns, waits = ways.get(name, (way.turns, way.waits))
        if max(slower[name], *_slower(traffic, slower, where, name), turns) + waits > latency * (1 + ROUNDING):
            yield name


def _slower(
    traffic: EinsumTraffic, times: Mapping[str, float], where: Callable[[str], At], late: str | None = None
) -> tuple[float, float]:
    """Seconds of one instance where memories and what is below them take turns, and where they stall turn by turn.

    0 where none do. `late`: a component that is slower than it is (see `_limiting`), as it is in `times`.
    """
    path = traffic.path

    def busy(name: str, done: Actions | NetworkUse) -> Any:
        seconds = _seconds(name, partial(seconds_of, path.arch.components[name], done, path.einsum.name), where)
        return seconds / BALANCE if name == late else seconds

    computing = times.get(path.compute.component.name, 0.0)
    return float(serial_latency(path, traffic, computing, busy)), stalled_latency(path, traffic, computing, busy)


@dataclass(frozen=True)
class _Numbers:
    """One Einsum's numbers before instance factors."""

    totals: Mapping[tuple[str, str], Actions]
    busiest: Mapping[str, Actions]
    operations: float
    busiest_operations: float
    networks: Mapping[str, NetworkUse]


def _numbers(traffic: EinsumTraffic) -> _Numbers:
    path = traffic.path
    if path.einsum.is_copy:
        return _Numbers(copy_totals(path), copy_busiest(path), 0, 0, network_use(traffic))
    check_traffic(traffic)
    total, busiest = traffic.operations()
    return _Numbers(traffic.totals(), traffic.busiest(), total, busiest, network_use(traffic))


def _action_rows(path: EinsumPath, numbers: _Numbers, instances: int) -> list[ActionRow]:
    rows = []
    name, components = path.einsum.name, path.arch.components
    for (component, tensor), actions in numbers.totals.items():
        for action, count in (("read", actions.read), ("write", actions.write)):
            if count:
                rows.append(_action_row(name, components[component], tensor, action, count * instances))
    for network, use in numbers.networks.items():
        unit = components[network]
        rows += [_action_row(name, unit, t, "hop", hops * instances) for t, hops in use.hops.items() if hops]
    if numbers.operations:
        rows.append(_action_row(name, path.compute.component, None, "compute", numbers.operations * instances))
    return rows


def _action_row(einsum: str, unit: Component, tensor: str | None, action: str, count: float) -> ActionRow:
    count = count * unit.actions_scale
    return ActionRow(einsum, unit.name, tensor, action, count, count * unit.action(action).energy)


def _times(traffic: EinsumTraffic, numbers: _Numbers, where: Callable[[str], At]) -> dict[str, float]:
    """Seconds of each component that data pass through, for one instance of the Einsum."""
    path = traffic.path
    components = path.arch.components
    held = {s.component.name for stations in path.stations.values() for s in stations}
    times: dict[str, float] = {}
    for leaf in path.leaves:
        if leaf.name in held:
            done = numbers.busiest.get(leaf.name, Actions(0, 0))
            times[leaf.name] = float(
                _seconds(leaf.name, partial(memory_time, components[leaf.name], done, path.einsum.name), where)
            )
    unit = path.compute.component
    if not path.einsum.is_copy:
        calls = {"compute": numbers.busiest_operations * unit.actions_scale}
        times[unit.name] = float(_seconds(unit.name, partial(busy_time, unit, calls, path.einsum.name), where))
        times[unit.name] += float(skew_seconds(path, traffic))
    for name, use in numbers.networks.items():
        network = components[name]
        assert isinstance(network, Network)
        times[name] = float(_seconds(name, partial(network_time, network, use, path.einsum.name), where))
    return times


def _seconds(name: str, compute: Callable[[], Any], where: Callable[[str], At]) -> Any:
    """The busy time of a component; a problem without a place stands at the component."""
    try:
        return compute()
    except SpecError as problem:
        problem.at = problem.at or where(name)
        raise


def _power_rows(
    path: EinsumPath, latency: float, used: Mapping[tuple[str, str], float], instances: int
) -> list[ActionRow]:
    return [
        ActionRow(path.einsum.name, component, None, name, None, watts * latency * instances)
        for component, name, watts in path.arch.drawn(path.compute.component.name, used)
        if watts
    ]
