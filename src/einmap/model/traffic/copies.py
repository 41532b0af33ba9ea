"""Copy Einsums: the source is read once, each destination elsewhere is written once.

Levels between source and destination are charged only where the mapping holds the tensor there; a copy
inside one memory is free (`docs/decisions.md`, 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from einmap.arch.component import Memory, Toll
from einmap.einsum.einsum import TensorAccess
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath, Station
from einmap.model.counting.reuse import TensorCounts, VariableTiles
from einmap.model.counting.tiles import ALL, FIRST, Count
from einmap.model.traffic.actions import Actions

type Values = Callable[[TensorAccess, Station], Count]


def copy_totals(path: EinsumPath) -> dict[tuple[str, str], Actions]:
    """Actions of all instances, by component and tensor."""
    tiles = VariableTiles(path)
    everything = tuple(ALL for _ in path.loops)
    return _actions(path, lambda access, _: TensorCounts(path, access, tiles).relevant(everything))


def copy_busiest(path: EinsumPath) -> dict[str, Actions]:
    """Actions of the busiest instance of each component."""
    tiles = VariableTiles(path)

    def values(access: TensorAccess, at: Station) -> Count:
        takes = tuple(FIRST if loop.level is not None and loop.level <= at.level else ALL for loop in path.loops)
        return TensorCounts(path, access, tiles).relevant(takes)

    busiest: dict[str, Actions] = {}
    for (component, _), actions in _actions(path, values).items():
        busiest[component] = busiest.get(component, Actions(0, 0)) + actions
    return busiest


def stations_used(path: EinsumPath) -> set[tuple[str, int]]:
    """(tensor, position) of the holders that values are in or pass: others need no space."""
    source = next(a for a in path.einsum.accesses if not a.output)
    begin = path.stations[source.tensor][0]
    used = {(source.tensor, begin.position)}
    for target in (a for a in path.einsum.accesses if a.output):
        end = path.stations[target.tensor][0]
        used.add((target.tensor, end.position))
        if end.component.name != begin.component.name:
            used |= {(a.tensor, s.position) for a, s in _between(path, source, target, begin, end)}
    return used


def aliases(paths: Iterable[EinsumPath]) -> dict[tuple[str, str], str]:
    """For (memory, tensor) that a copy leaves in the memory of its source: the source, as the common name."""
    names: dict[tuple[str, str], str] = {}
    for path in paths:
        if not path.einsum.is_copy:
            continue
        source = next(a.tensor for a in path.einsum.accesses if not a.output)
        memory = path.stations[source][0].component.name
        for target in sorted(path.einsum.outputs):
            if path.stations[target][0].component.name == memory:
                names[memory, target] = names.get((memory, source), source)
    return names


def copy_flows(path: EinsumPath) -> Iterator[tuple[TensorAccess, Station, str]]:
    """Where a copy pays for its values: which tensor at which station, and the action."""
    paid: set[tuple[str, int, str]] = set()
    for access, at, action in _flows(path):
        if (access.tensor, at.position, action) not in paid:
            paid.add((access.tensor, at.position, action))
            yield access, at, action


def _flows(path: EinsumPath) -> Iterator[tuple[TensorAccess, Station, str]]:
    source = next(a for a in path.einsum.accesses if not a.output)
    begin = path.stations[source.tensor][0]
    for target in (a for a in path.einsum.accesses if a.output):
        end = path.stations[target.tensor][0]
        if end.component.name == begin.component.name:
            continue
        yield source, begin, "read"
        yield target, end, "write"
        for access, station in _between(path, source, target, begin, end):
            if isinstance(station.component, Memory):
                yield access, station, "write"
                yield access, station, "read"
            elif isinstance(station.component, Toll):
                way = "down" if end.level > begin.level else "up"
                if station.component.directions[access.tensor] in (way, "up_and_down"):
                    yield access, station, "read"


def _actions(path: EinsumPath, values: Values) -> dict[tuple[str, str], Actions]:
    """Actions by component and tensor. Raises NotSupportedError where accesses move lines."""
    totals: dict[tuple[str, str], Actions] = {}
    for access, at, action in copy_flows(path):
        unit = at.component
        if isinstance(unit, Memory) and (access.tensor in unit.layouts or unit.interleaved):
            raise NotSupportedError(
                f"a copy that moves lines of {access.tensor!r} in {at.component.name!r} is not supported yet",
                hint=f"leave {access.tensor} out of the layout of {at.component.name}",
                about=at.component.name,
            )
        amount = values(access, at) * at.component.action(action).actions_per_value[access.tensor]
        key = (at.component.name, access.tensor)
        paid_here = Actions(amount, 0) if action == "read" else Actions(0, amount)
        totals[key] = totals.get(key, Actions(0, 0)) + paid_here
    return totals


def _between(
    path: EinsumPath, source: TensorAccess, target: TensorAccess, begin: Station, end: Station
) -> Iterator[tuple[TensorAccess, Station]]:
    """Stations that the values pass on their way, each component once."""
    low, high = sorted((begin.level, end.level))
    seen: set[str] = set()
    for access in (source, target):
        for station in path.stations[access.tensor]:
            if low < station.level < high and station.component.name not in seen:
                seen.add(station.component.name)
                yield access, station
