"""How long one value is on its way, where actions take time until their value is there (`pipeline_latency`).

A value of an input is read from its outermost node, written to and read from each node further in, and then computed
with; a result is written to and read from each node on the way out, and written to the outermost one. A node that
alone holds an output is read as well where partial results are added up. What flows behind it comes without a gap, so
that an Einsum takes as long as its busiest component or as one value needs for the slowest way in, one operation and
the slowest way out, whichever is longer.

Fused Einsums take turns below the loops that they share. In each turn a value passes the innermost node of its tensor
and those that stand below the shared loops. Nodes further out work ahead, or behind: all Einsums of the split wait for
the slowest of these ways once, the first one for those in, the last one for those out. This gives the totals 363 and
804 of AccelForge's repository (tests/test_latency.py at its commit 8e59616).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einmap.arch.component import Component, Compute, Leaf, Memory
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import NotSupportedError
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.model.cost import BALANCE
from einmap.model.counting.path import EinsumPath, Station
from einmap.model.traffic.einsum_traffic import EinsumTraffic


@dataclass(frozen=True, slots=True)
class Way:
    """Seconds of one instance of an Einsum: `turns`, its own ways in all turns; `waits`, those of its splits.

    `late`: (component, turns, waits) if values were on their way through a component for so much longer that it is no
    more in balance with others.
    """

    turns: float = 0.0
    waits: float = 0.0
    late: tuple[tuple[str, float, float], ...] = ()


@dataclass
class _Split:
    """Waits of the Einsums below a split, once in each turn of the loops around it, `times` in all."""

    times: float
    einsums: list[str] = field(default_factory=list)
    inward: float = 0.0
    outward: float = 0.0


def has_ways(components: Iterable[Leaf | Component]) -> bool:
    """Whether some action takes time until its value is there."""
    return any(action.pipeline_latency for unit in components for action in getattr(unit, "actions", ()))


def seconds_at(access: TensorAccess, memory: Memory, *, outermost: bool, adds_up: bool) -> float:
    """Seconds in which one value passes a node; `adds_up`: partial results are read from it as well."""
    read, write = (memory.action(name).pipeline_latency for name in ("read", "write"))
    if not outermost:
        return read + write
    if not access.output:
        return read
    return write + read if adds_up else write


def adds_up(einsum: Einsum, access: TensorAccess) -> bool:
    """Whether partial results of an output are added up: some rank variable does not index it in full."""
    return any(bound > 1 and access.relevance(v) is not Relevance.FULL for v, bound in einsum.bounds)


def alone(path: EinsumPath) -> float:
    """Seconds of the way of one value where an Einsum shares no loop; 0 for a copy."""
    if path.einsum.is_copy or not has_ways(path.leaves):
        return 0.0
    return _turn(path, [(access, seconds) for access, _, seconds in _passes(path)])


def ways_of(
    loop_tree: LoopTree, traffic: Mapping[str, EinsumTraffic], order: Sequence[str], waiting: float | None = None
) -> dict[str, Way]:
    """The ways of each Einsum, in the `order` in which they run; nothing where no action has a pipeline latency.

    `waiting`: what the first Einsum waits for in each run, in place of what splits wait for.
    """
    through = dict.fromkeys(leaf.name for moved in traffic.values() for leaf in moved.path.leaves if has_ways([leaf]))
    if not through:
        return {}
    late = [(name, _ways_of(loop_tree, traffic, order, waiting, name)) for name in through]
    return {
        einsum: replace(way, late=tuple((name, ways[einsum].turns, ways[einsum].waits) for name, ways in late))
        for einsum, way in _ways_of(loop_tree, traffic, order, waiting, None).items()
    }


def _ways_of(
    loop_tree: LoopTree,
    traffic: Mapping[str, EinsumTraffic],
    order: Sequence[str],
    waiting: float | None,
    late: str | None,
) -> dict[str, Way]:
    """The ways of each Einsum if values were late at one component."""
    found: dict[str, Way] = {}
    splits: dict[Address, _Split] = {}
    for name in order:
        path = traffic[name].path
        if path.einsum.is_copy:
            found[name] = Way()
            continue
        if any(isinstance(p.node, tree.Pipeline) for p in loop_tree.path_of[name]):
            raise NotSupportedError(
                f"a pipeline_latency beside the Pipeline of Einsum {name!r} is not supported yet",
                hint="leave out pipeline_latency, or write !Sequential",
                about=next(leaf.name for leaf in path.leaves if has_ways([leaf])),
            )
        above = [(p.address, i) for i, p in enumerate(loop_tree.path_of[name]) if isinstance(p.node, tree.Sequential)]
        passes = [(access, _depth(path, station, above), seconds) for access, station, seconds in _passes(path, late)]
        own = _turn(path, [(access, seconds) for access, depth, seconds in passes if depth == len(above)], late)
        found[name] = Way(own * _times(traffic[name], above, len(above)))
        for depth, (address, _) in enumerate(above):
            here = [(access, seconds) for access, at, seconds in passes if at == depth]
            split = splits.setdefault(address, _Split(_times(traffic[name], above, depth)))
            split.einsums.append(name)
            split.inward = max(split.inward, _slowest(here, output=False))
            split.outward = max(split.outward, _slowest(here, output=True))
    if waiting is not None:
        first = next((name for name in order if not traffic[name].path.einsum.is_copy), None)
        return {name: replace(way, waits=waiting * (name == first)) for name, way in found.items()}
    for split in splits.values():
        for name, seconds in ((split.einsums[0], split.inward), (split.einsums[-1], split.outward)):
            found[name] = replace(found[name], waits=found[name].waits + seconds * split.times)
    return found


def _passes(path: EinsumPath, late: str | None = None) -> Iterator[tuple[TensorAccess, Station, float]]:
    """Each node that a value of a tensor passes, with its seconds. `late`: a component that takes longer."""
    for access in path.einsum.accesses:
        held = [(s, s.component) for s in path.stations[access.tensor] if isinstance(s.component, Memory)]
        for i, (station, memory) in enumerate(held):
            sums = len(held) == 1 and adds_up(path.einsum, access)
            # the innermost node is a part of each turn
            placed = replace(station, position=path.compute.position) if i == len(held) - 1 else station
            seconds = seconds_at(access, memory, outermost=i == 0, adds_up=sums)
            yield access, placed, seconds / BALANCE if memory.name == late else seconds


def _turn(path: EinsumPath, passes: list[tuple[TensorAccess, float]], late: str | None = None) -> float:
    """Seconds of the slowest way in, one operation and the slowest way out. `late`: a component that takes longer."""
    unit = path.compute.component
    assert isinstance(unit, Compute)
    computing = unit.action("compute").pipeline_latency / (BALANCE if unit.name == late else 1)
    return _slowest(passes, output=False) + computing + _slowest(passes, output=True)


def _slowest(passes: list[tuple[TensorAccess, float]], *, output: bool) -> float:
    """The seconds of the tensor of which a value is longest on its way."""
    by_tensor: dict[str, float] = {}
    for access, seconds in passes:
        if access.output == output:
            by_tensor[access.tensor] = by_tensor.get(access.tensor, 0.0) + seconds
    return max(by_tensor.values(), default=0.0)


def _depth(path: EinsumPath, station: Station, splits: list[tuple[Address, int]]) -> int:
    """The first split ahead of which a node works, since a temporal loop stands between; else the number of splits."""
    loops = [loop.position for loop in path.loops if not loop.is_spatial and not loop.absent]
    for depth, (_, split) in enumerate(splits):
        if any(station.position < loop < split for loop in loops):
            return depth
    return len(splits)


def _times(traffic: EinsumTraffic, splits: list[tuple[Address, int]], depth: int) -> float:
    """How often what stands just below the split before a depth is visited: 1 for depth 0."""
    if depth == 0:
        return 1.0
    path = traffic.path
    return float(traffic.visits(replace(path.compute, position=splits[depth - 1][1])))
