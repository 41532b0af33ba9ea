"""Stalls tile by tile: how long an Einsum takes where the next tiles come in while those before are used, turn by turn.

A *turn* of a memory is one iteration of the temporal loops above its innermost storage node. Before each turn the tiles
of the nodes that it visits anew come in, after it those that are visited no more go out. Tiles of a turn come in while
the turn before works, and go out while the turn after does. So n turns have n + 2 slots, of which slot s takes

    max(work of turn s - 1,  the busiest component's time to load for turn s and to store after turn s - 2)

and the first and the last turn stall for what nothing hides. What is inside of the memory takes as long in all as its
busiest component, operations included; each turn takes a part of it in proportion to its operations.

The links of a network are components, too, and the last value of a slot is on its way for the hops of the longest route
that tiles take in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from einmap.arch.component import Compute, Leaf, Memory
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import NotSupportedError
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import PlacedNode
from einmap.model.counting.path import EinsumPath, Station, applies
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.tiles import ALL, FIRST, Count, Take
from einmap.model.timing.buffering import Busy, is_expressed, moved_by, turns
from einmap.model.traffic.actions import Actions, charged
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.mesh_crossing import Link, NetworkUse
from einmap.model.traffic.networks_crossed import crossings_of
from einmap.model.traffic.tensor_traffic import Exchange, Fixed, Flow, TensorTraffic

MOST_TURNS = 100_000
"""Turns of a memory that are gone through one by one, about a second."""


def stalling(leaves: tuple[Leaf, ...]) -> list[int]:
    """Levels of the memories whose stalls are counted tile by tile."""
    return [i for i, leaf in enumerate(leaves) if isinstance(leaf, Memory) and leaf.stalls == "tile_by_tile"]


def winding_up(arch: Architecture) -> Architecture:
    """The machine whose memories wind up in place of stalling: no mapping takes longer there if its tiles are alike.

    The first slot holds the first turn's loads, the last one the last turn's stores, those between all the work.
    """
    for leaf in arch.leaves.values():
        if isinstance(leaf, Memory) and stalling((leaf,)):
            arch = arch.with_leaf(replace(leaf, stalls="average", wind_up=True))
    return arch


def refuse_fused(placed: tuple[PlacedNode, ...], path: EinsumPath) -> None:
    """Raise NotSupportedError where an Einsum shares loops with others and stalls are counted tile by tile."""
    splits = [i for i, node in enumerate(placed) if isinstance(node.node, tree.Sequential | tree.Pipeline)]
    above = [loop for loop in path.loops if splits and loop.position < splits[-1] and not loop.absent]
    if above and stalling(path.leaves):
        raise _refusal(path.leaves, stalling(path.leaves)[0], f"of the fused Einsum {path.einsum.name!r}")


def stalled_latency(path: EinsumPath, traffic: EinsumTraffic, operations: Any, busy: Busy) -> Any:
    """Seconds of an Einsum whose memory stalls turn by turn; 0 where none does, and for a copy.

    `operations`: seconds of the compute in all. Raises NotSupportedError, by name, for what cannot be told turn by turn
    yet.
    """
    levels = stalling(path.leaves)
    if not levels or path.einsum.is_copy:
        return 0.0
    level = levels[0]
    _check(path, traffic, level)
    moved = [
        _Moved(traffic, tensor, exchange, busy)
        for tensor in traffic.tensors
        for exchange in tensor.exchanges
        if exchange.child.level == level
    ]
    if not moved:
        return 0.0
    position = max(one.exchange.child.position for one in moved)
    even = _even_turns(path, position)
    every = [] if even is not None else list(_turns(path, position))
    inside = moved_by(traffic, lambda exchange: exchange.child.level > level)
    work = max([float(operations), *(float(busy(name, done)) for name, done in inside.items())])
    # turns that are all alike work equally long
    done = np.ones(math.prod(n for _, n in even)) if even is not None else _each_operations(traffic, every)
    slots = _Slots(len(done) + 2)
    for one in moved:
        if even is not None:
            one.schedule_evenly(even, slots)
        else:
            one.schedule(every, slots)
    return float(slots.seconds(np.concatenate([[0.0], done * (work / done.sum()), [0.0]]), busy).sum())


type Turn = tuple[tuple[int, Take], ...]
"""For each temporal loop above (by its index) the iteration, and one of the same tile shape that stands for it."""


@dataclass(frozen=True)
class _Tiles:
    """Cost of one load or store: actions of each component, those on each link by network, and seconds of hops."""

    actions: Mapping[str, Actions]
    links: Mapping[tuple[str, Link], Count]
    hops: float


@dataclass
class _Slots:
    """Loads and stores in each of `n` slots; `hops`: seconds of the longest route."""

    n: int
    reads: dict[str, Floats] = field(default_factory=dict)
    writes: dict[str, Floats] = field(default_factory=dict)
    links: dict[tuple[str, Link], Floats] = field(default_factory=dict)
    hops: Floats | float = 0.0

    def add(self, at: int | Floats, tiles: _Tiles) -> None:
        """Add a load or store to one slot, or to each of which `at` is True."""
        for name, actions in tiles.actions.items():
            for counts, amount in ((self.reads, actions.read), (self.writes, actions.write)):
                counts.setdefault(name, np.zeros(self.n))[at] += float(amount)
        for link, amount in tiles.links.items():
            self.links.setdefault(link, np.zeros(self.n))[at] += float(amount)
        if tiles.hops:
            waits = np.zeros(self.n)
            waits[at] = tiles.hops
            self.hops = np.maximum(self.hops, waits)

    def seconds(self, work: Floats, busy: Busy) -> Floats:
        """How long each slot takes; `work`: of the turn that runs in it."""
        waiting = np.zeros(self.n)
        for name, read in self.reads.items():
            waiting = np.maximum(waiting, busy(name, Actions(read, self.writes[name])))
        for (network, _), passing in self.links.items():
            waiting = np.maximum(waiting, busy(network, NetworkUse(max_link_traffic=passing)))
        longest: Floats = np.maximum(work, waiting + self.hops)
        return longest


@dataclass(frozen=True)
class _Moved:
    """Movements of one exchange in each turn."""

    traffic: EinsumTraffic
    tensor: TensorTraffic
    exchange: Exchange
    busy: Busy

    def schedule(self, every: list[tuple[Turn, Turn]], slots: _Slots) -> None:
        """Add loads and stores to the slots."""
        above = [i for i, loop in enumerate(self.traffic.path.loops) if applies(loop, self.exchange.child)]
        again = [i for i in above if self.tensor.counts.relevance_of(i) is Relevance.NONE]
        visits = [tuple((i, n) for i, n in turn if i in above) for turn, _ in every]
        known: dict[tuple[Turn, bool, str], _Tiles] = {}
        for s, (turn, alike) in enumerate(every):
            tile = tuple((i, n) for i, n in alike if i in above)
            live = any(n > 0 for i, n in turn if i in again)
            parts = []
            if s == 0 or visits[s] != visits[s - 1]:
                parts.append((s, "in"))
            if self.tensor.access.output and (s + 1 == len(every) or visits[s] != visits[s + 1]):
                parts.append((s + 2, "out"))
            for slot, way in parts:
                key = tile, live, way
                if key not in known:
                    known[key] = self._tiles(dict(tile), live=live, way=way)
                slots.add(slot, known[key])

    def schedule_evenly(self, even: list[tuple[int, int]], slots: _Slots) -> None:
        """As `schedule`, where tiles of all turns are alike. `even`: temporal loops above, with their iterations."""
        n = slots.n - 2
        above = [i for i, _ in even if applies(self.traffic.path.loops[i], self.exchange.child)]
        again = {i for i in above if self.tensor.counts.relevance_of(i) is Relevance.NONE}
        turns, period = np.arange(n), math.prod(iterations for i, iterations in even if i not in above)
        live, inside = np.zeros(n, dtype=bool), n
        for i, iterations in even:
            inside //= iterations
            if i in again:
                live |= turns // inside % iterations > 0
        first, last = turns % period == 0, (turns + 1) % period == 0
        tile: dict[int, Take] = dict.fromkeys(above, 0)
        ways = [(0, first & live, True, "in"), (0, first & ~live, False, "in")]
        ways += [(2, last, True, "out")] if self.tensor.access.output else []
        for later, at, is_live, way in ways:
            if at.any():
                slots.add(np.pad(at, (later, 2 - later)), self._tiles(tile, live=is_live, way=way))

    def _tiles(self, iterations: dict[int, Take], *, live: bool, way: str) -> _Tiles:
        """One fill or write-back, at the first lane of each station. What has no results takes no hops."""
        tensor, exchange, path = self.tensor, self.exchange, self.traffic.path
        if way == "in" and not tensor.charge(exchange).fills:
            return _Tiles({}, {}, 0.0)

        def flow(tensor: TensorTraffic, exchange: Exchange, at: Station, lanes: Fixed) -> Flow:
            takes = tensor.takes(exchange.child, at, lanes)
            values = tensor.counts.values(
                tuple(iterations.get(i, take) if take == ALL else take for i, take in enumerate(takes))
            )
            if way == "out":
                return Flow(0, 0, values)
            return Flow(0, values, 0) if tensor.access.output and not live else Flow(values, 0, 0)

        actions = {}
        for at in exchange.chain:
            if not isinstance(at.component, Compute):
                lanes = {i: FIRST for i in path.spatial_loops if (path.loops[i].level or 0) <= at.level}
                actions[at.component.name] = charged(tensor, exchange, at, flow(tensor, exchange, at, lanes))
        links: dict[tuple[str, Link], Count] = {}
        hops = 0.0
        for network, crossing in crossings_of(self.traffic, lambda one: one is exchange, flow):
            use, passing = NetworkUse(), dict[Link, Count]()
            crossing.add_to(use, passing)
            links.update(((network.name, link), n) for link, n in passing.items())
            hops += float(self.busy(network.name, NetworkUse(max_hops=use.max_hops)))
        return _Tiles(actions, links, hops)


def _even_turns(path: EinsumPath, position: int) -> list[tuple[int, int]] | None:
    """The temporal loops above a place with their iterations, outermost first, where all their tiles are alike.

    None where some are not, or where there are too many turns, which `_turns` tells.
    """
    extents, found = dict(path.einsum.bounds), []
    for i, loop in enumerate(path.loops):
        if loop.absent or not (loop.position < position or loop.is_spatial):
            continue
        if extents[loop.variable] % loop.shape or loop.initial not in (None, loop.shape):
            return None
        if not loop.is_spatial:
            found.append((i, extents[loop.variable] // loop.shape))
        extents[loop.variable] = loop.shape
    return found if math.prod(n for _, n in found) <= MOST_TURNS else None


def _turns(path: EinsumPath, position: int) -> Iterator[tuple[Turn, Turn]]:
    """The iterations of the temporal loops above a place, one after the other, in the first lane."""
    above = [
        (i, loop)
        for i, loop in enumerate(path.loops)
        if not loop.absent and (loop.position < position or loop.is_spatial)
    ]
    most = math.prod(loop.iterations for _, loop in above if not loop.is_spatial)
    if most > MOST_TURNS:
        raise NotSupportedError(
            f"Einsum {path.einsum.name!r} has {most:,} turns, more than the {MOST_TURNS:,} of which stalls are counted "
            "tile by tile",
            hint="leave out stalls: tile_by_tile",
            about=path.leaves[stalling(path.leaves)[0]].name,
        )

    def walk(n: int, extents: dict[str, int], turn: Turn, alike: Turn) -> Iterator[tuple[Turn, Turn]]:
        if n == len(above):
            yield turn, alike
            return
        index, loop = above[n]
        extent = extents[loop.variable]
        first = min(extent, loop.shape if loop.initial is None else loop.initial)
        if loop.is_spatial:
            yield from walk(n + 1, {**extents, loop.variable: min(loop.shape, extent)}, turn, alike)
            return
        begin, size, number = 0, first, 0
        while begin < extent:
            same = 0 if size == first else number
            inside = {**extents, loop.variable: size}
            yield from walk(n + 1, inside, (*turn, (index, number)), (*alike, (index, same)))
            begin, number = begin + size, number + 1
            size = min(loop.shape, extent - begin)

    yield from walk(0, dict(path.einsum.bounds), (), ())


def _each_operations(traffic: EinsumTraffic, every: list[tuple[Turn, Turn]]) -> Floats:
    """Operations of the first lane in each turn."""
    return np.array([_operations(traffic, turn) for turn in every], dtype=np.float64)


def _operations(traffic: EinsumTraffic, turn: tuple[Turn, Turn]) -> float:
    """Operations of the first lane in a turn."""
    iterations = dict(turn[1])
    takes = tuple(FIRST if loop.is_spatial else iterations.get(i, ALL) for i, loop in enumerate(traffic.path.loops))
    total = 1.0
    for variable in traffic.path.einsum.rank_variables:
        total *= sum(float(extent) * float(count) for extent, count in traffic.tiles.of(variable, takes))
    return total


def check_stalls(leaves: tuple[Leaf, ...], rules: Semantics) -> None:
    """Raise NotSupportedError for a machine and rules with which no stalls can be told turn by turn yet.

    `leaves`: a path of the architecture.
    """
    levels = stalling(leaves)
    if not levels:
        return
    memories = [leaf for leaf in leaves if isinstance(leaf, Memory)]
    reasons = (
        (len(levels) > 1, "of several memories on one path"),
        (rules.lane_first_touch != "one lane", f"with the preset {rules.name!r}"),
        (bool(turns(leaves)), "beside a memory that is single or winds up"),
        (any(map(is_expressed, leaves)), "beside a network's total_latency"),
        (any(memory.is_spread for memory in memories), "beside a memory that is several units of an array"),
        (any(memory.starts for memory in memories), "beside a startup"),
        (any(memory.layout for memory in memories), "beside a layout"),
    )
    for refused, what in reasons:
        if refused:
            raise _refusal(leaves, levels[0], what)


def _check(path: EinsumPath, traffic: EinsumTraffic, level: int) -> None:
    """Raise NotSupportedError for what cannot be told turn by turn yet."""
    check_stalls(path.leaves, traffic.semantics)
    if any(tensor.slides for tensor in traffic.tensors):
        raise _refusal(path.leaves, level, "with sliding windows")
    for tensor in traffic.tensors:
        for exchange in tensor.exchanges:
            if exchange.child.level != level:
                continue
            above = [i for i, loop in enumerate(path.loops) if applies(loop, exchange.child) and not loop.absent]
            lanes = any(tensor.counts.relevance_of(i) is not Relevance.FULL for i in above if path.loops[i].is_spatial)
            partial = any(tensor.counts.relevance_of(i) is Relevance.PARTIAL for i in above)
            if tensor.charge(exchange).hull is not None:
                raise _refusal(path.leaves, level, f"where Einsums use different parts of {tensor.access.tensor!r}")
            if tensor.access.output and (lanes or partial):
                what = "lanes reduce" if lanes else "tiles overlap of"
                raise _refusal(path.leaves, level, f"where {what} {tensor.access.tensor!r}")


def _refusal(leaves: tuple[Leaf, ...], level: int, what: str) -> NotSupportedError:
    return NotSupportedError(
        f"stalls tile by tile of {leaves[level].name!r} {what} are not counted yet",
        hint="leave out stalls: tile_by_tile",
        about=leaves[level].name,
    )
