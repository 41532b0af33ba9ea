"""Values exchanged between the stations of one tensor, and the actions that this costs.

An exchange runs between a *child* (a Memory that is not the tensor's outermost holder, or the Compute) and its
*parent* (the next Memory outward), through the Tolls between. Going up, the spatial loops that spread the
lower station and not the next upper one are merged where the tensor may be reused: the upper station
counts one copy for each group of lanes.

Notation, all in values summed over the run: `T` fills (= write-backs of an output) seen at a station,
`S` the part of the fills that brings no result yet (first touches).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from einmap.arch.component import Compute, Memory, Toll
from einmap.einsum.einsum import TensorAccess
from einmap.einsum.projection import Relevance
from einmap.model.hull import Hull, User
from einmap.model.path import EinsumPath, Station
from einmap.model.reuse import Takes, TensorCounts, VariableTiles
from einmap.model.semantics import Semantics
from einmap.model.tiles import Count, Take, larger

type Fixed = Mapping[int, Take]
"""Spatial loops (by index) whose lane is fixed."""

EVERY: Fixed = {}


@dataclass(frozen=True)
class Exchange:
    """One child, its parent and the stations between them, from the child outward (child and parent included)."""

    chain: tuple[Station, ...]

    @property
    def child(self) -> Station:
        """Who is filled and who writes back."""
        return self.chain[0]

    @property
    def parent(self) -> Station:
        """Who is read and written by the child's exchange."""
        return self.chain[-1]


def exchanges(stations: tuple[Station, ...], compute: Station) -> tuple[Exchange, ...]:
    """All exchanges of one tensor, from the Compute outward. The outermost station is a Memory."""
    found: list[Exchange] = []
    chain = [compute]
    for station in reversed(stations):
        chain.append(station)
        if isinstance(station.component, Memory):
            found.append(Exchange(tuple(chain)))
            chain = [station]
    return tuple(found)


@dataclass(frozen=True)
class Flow:
    """Values at one station for one exchange: down (fills) and up (write-backs).

    `live`: fills that bring results; `initial`: fills of elements that have none yet.
    """

    live: Count
    initial: Count
    up: Count


@dataclass(frozen=True)
class Charge:
    """What differs for one Einsum when the child of an exchange is a buffer that several Einsums share.

    `fills`: whether this Einsum pays its own fills. `hull`: the common tile where users have different ones; it is
    what the first user fills (`hull_fills`), what the producer writes back, and, less the tile of `hull_without`,
    what the first consumer after a producer fills.
    """

    fills: bool = True
    hull: Hull | None = None
    hull_fills: bool = False
    hull_without: User | None = None


_FULL = Charge()


@dataclass
class TensorTraffic:
    """All exchanges of one tensor on one Einsum's path."""

    path: EinsumPath
    access: TensorAccess
    semantics: Semantics
    counts: TensorCounts
    charges: Mapping[tuple[str, int], Charge]
    stations: tuple[Station, ...] = field(init=False)
    exchanges: tuple[Exchange, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.stations = self.path.stations[self.access.tensor]
        self.exchanges = exchanges(self.stations, self.path.compute)
        self._parent_of = {id(e.child): e for e in self.exchanges}
        self._takes: dict[object, Takes] = {}
        self._flows: dict[object, Flow] = {}

    def charge(self, exchange: Exchange) -> Charge:
        """What this Einsum pays of an exchange."""
        return self.charges.get((self.access.tensor, exchange.child.position), _FULL)

    # which iterations count

    def takes(self, child: Station, at: Station, fixed: Fixed) -> Takes:
        """Iterations for visits of `child` as seen at `at`, a station at or above it.

        Lanes merged on the way up to `at` count once; `fixed` lanes as they say.
        """
        key = (child.position, child.level, at.level, tuple(fixed.items()))
        known = self._takes.get(key)
        if known is None:
            known = self._takes[key] = self._count_takes(child, at, fixed)
        return known

    def _count_takes(self, child: Station, at: Station, fixed: Fixed) -> Takes:
        found: list[Take] = []
        for index, loop in enumerate(self.path.loops):
            if loop.level is None:
                found.append(Take.ALL if loop.position < child.position else Take.SKIP)
            elif loop.level > child.level:
                found.append(Take.SKIP)
            elif index in fixed:
                found.append(fixed[index])
            elif loop.level > at.level and self.counts.merges(loop):
                found.append(Take.FIRST)
            else:
                found.append(Take.ALL)
        return tuple(found)

    def between(self, inner: Station, outer: Station) -> Iterator[int]:
        """Irrelevant spatial loops that spread `inner` and not `outer`."""
        for index in self.path.spatial_loops:
            level = self.path.loops[index].level
            assert level is not None
            if outer.level < level <= inner.level and self.counts.relevance_of(index) is Relevance.NONE:
                yield index

    # first touches, one lane starts from the parent's values

    def fresh(self, holder: Station, child: Station, fixed: Fixed) -> Count:
        """How often elements start without a result at `holder`, of those that `child` covers, in fixed lanes.

        `child` is a station below it. At the outermost holder each element starts so once.
        """
        exchange = self._parent_of.get(id(holder))
        if exchange is None:
            skip = tuple(Take.SKIP for _ in self.path.loops)
            return self.counts.distinct(skip, self._coverage(child, fixed))
        first = self._is_first(holder, exchange.parent, fixed)
        if first is None:
            # all lanes together: those that are not the first of their group start anew at every visit
            visits = self.counts.distinct(self._relevant_takes(holder, fixed), self._coverage(child, fixed))
            everyone = self.counts.repeats(self.takes(holder, holder, fixed))
            groups = self.counts.repeats(self.takes(holder, exchange.parent, fixed))
            again = visits * (everyone - groups) if not _same(everyone, groups) else 0
            return again + self.fresh(exchange.parent, child, fixed)
        if first:
            return self.initial(exchange, child, fixed)
        visits = self.counts.distinct(self._relevant_takes(holder, fixed), self._coverage(child, fixed))
        return visits * self.counts.repeats(self.takes(holder, holder, fixed))

    def initial(self, exchange: Exchange, child: Station, fixed: Fixed) -> Count:
        """Fills of elements without a result in this exchange (restricted to what `child` covers)."""
        holder, parent = exchange.child, exchange.parent
        if any(fixed.get(i) is Take.SECOND for i in self.between(holder, parent)):
            return 0
        return self.fresh(parent, child, fixed)

    def _is_first(self, holder: Station, parent: Station, fixed: Fixed) -> bool | None:
        """Whether fixed lanes are the first of their merged group; None when no such lane is fixed."""
        merged = [i for i in self.between(holder, parent) if self.counts.merges(self.path.loops[i])]
        if not merged or not any(i in fixed for i in merged):
            return None if merged or not fixed else True
        return all(fixed.get(i) is not Take.SECOND for i in merged)

    def _relevant_takes(self, holder: Station, fixed: Fixed) -> Takes:
        return self.takes(holder, holder, fixed)

    def _coverage(self, child: Station, fixed: Fixed) -> Takes:
        return self.takes(child, child, fixed)

    # first touches, every lane

    def first_touches(self, exchange: Exchange, at: Station, fixed: Fixed) -> Count:
        """`S` as seen at `at` when every lane touches its elements first by itself."""
        child = exchange.child
        takes = list(self.takes(child, at, fixed))
        for index, loop in enumerate(self.path.loops):
            relevance = self.counts.relevance_of(index)
            if loop.is_spatial or takes[index] is Take.SKIP or relevance is Relevance.FULL:
                continue
            if relevance is Relevance.NONE or self.semantics.partial_first_touch == "one position":
                takes[index] = Take.FIRST
        if self.semantics.partial_first_touch == "distinct elements":
            skip = tuple(Take.SKIP for _ in takes)
            return self.counts.distinct(skip, tuple(takes)) * self.counts.repeats(tuple(takes))
        return self.counts.values(tuple(takes))

    # flows

    def flow(self, exchange: Exchange, at: Station, fixed: Fixed = EVERY) -> Flow:
        """What passes `at` (a station of the exchange's chain) in this exchange, in fixed lanes of `at`."""
        key = (id(exchange), id(at), tuple(fixed.items()))
        known = self._flows.get(key)
        if known is None:
            known = self._flows[key] = self._flow(exchange, at, fixed)
        return known

    def _flow(self, exchange: Exchange, at: Station, fixed: Fixed) -> Flow:
        child = exchange.child
        charge = self.charge(exchange)
        total = self.counts.values(self.takes(child, at, fixed))
        if not self.access.output:
            return Flow(self._consumed(charge, total, self.takes(child, at, fixed)), 0, 0)
        flow = self._produced(exchange, at, fixed, total)
        up = total if charge.hull is None else charge.hull.values(self.path, self.takes(child, at, fixed))
        return Flow(flow.live, flow.initial, up) if charge.fills else Flow(0, 0, up)

    def _consumed(self, charge: Charge, total: Count, takes: Takes) -> Count:
        if charge.hull is not None and charge.hull_fills:
            return charge.hull.values(self.path, takes)
        if charge.hull is not None and charge.hull_without is not None:
            own = _matching(charge.hull_without, self.path, takes)
            return charge.hull.values(self.path, takes) - Hull((charge.hull_without,)).values(*own)
        return total if charge.fills else 0

    def _produced(self, exchange: Exchange, at: Station, fixed: Fixed, total: Count) -> Flow:
        child, parent = exchange.child, exchange.parent
        if self.semantics.lane_first_touch == "every lane":
            initial = self.first_touches(exchange, at, fixed)
            return Flow(total - initial, initial, total)
        merged_above = [i for i in self.between(at, parent) if self.counts.merges(self.path.loops[i])]
        if any(fixed.get(i) is Take.SECOND for i in merged_above):
            return Flow(0, 0, total)
        initial = 0
        if not any(fixed.get(i) is Take.SECOND for i in self.between(at, parent)):
            initial = self.fresh(parent, child, fixed)
        filled = self.counts.values(self.takes(child, parent, fixed))
        return Flow(filled - initial, initial, total)

    def pays_initial(self, exchange: Exchange, at: Station) -> bool:
        """Whether `at` is charged for fills that bring no result yet."""
        child, parent = exchange.child.component, exchange.parent.component
        child_skips = isinstance(child, Memory | Compute) and child.skip_initial_output_write
        both_skip = child_skips and isinstance(parent, Memory) and parent.skip_initial_output_write
        if self.semantics.initial_exchange == "both sides" or at is exchange.parent:
            return not both_skip
        return not child_skips


@dataclass(frozen=True, slots=True)
class Actions:
    """Actions of one tensor at one station: reads and writes, scales of the component not applied."""

    read: Count
    write: Count

    def __add__(self, other: Actions) -> Actions:
        return Actions(self.read + other.read, self.write + other.write)

    def most(self, other: Actions) -> Actions:
        """The larger number of each action."""
        return Actions(larger(self.read, other.read), larger(self.write, other.write))


def _matching(user: User, path: EinsumPath, takes: Takes) -> tuple[EinsumPath, Takes]:
    """The same iterations for the loops of another Einsum's path."""
    taken = {loop.address: take for loop, take in zip(path.loops, takes, strict=True)}
    return user.path, tuple(taken.get(loop.address, Take.SKIP) for loop in user.path.loops)


def _same(a: Count, b: Count) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a == b


class EinsumTraffic:
    """Traffic of all tensors of one Einsum, as totals and for the busiest instance."""

    def __init__(self, path: EinsumPath, semantics: Semantics, charges: Mapping[tuple[str, int], Charge] | None = None):
        """`charges`: by tensor and position of the child, what differs from paying everything."""
        self.path = path
        self.semantics = semantics
        tiles = VariableTiles(path)
        self.tensors = [
            TensorTraffic(path, access, semantics, TensorCounts(path, access, tiles), charges or {})
            for access in path.einsum.accesses
        ]
        self.tiles = tiles

    def totals(self) -> dict[tuple[str, str], Actions]:
        """Actions of all instances, by component and tensor."""
        found: dict[tuple[str, str], Actions] = {}
        for tensor in self.tensors:
            for exchange in tensor.exchanges:
                for at in exchange.chain:
                    if not isinstance(at.component, Compute):
                        key = (at.component.name, tensor.access.tensor)
                        found[key] = found.get(key, _NOTHING) + self._charged(tensor, exchange, at, EVERY)
        return found

    def busiest(self) -> dict[str, Actions]:
        """Actions of the instance that has most of them, for each component and for each action by itself."""
        visits: dict[str, list[tuple[TensorTraffic, Exchange, Station]]] = {}
        for tensor in self.tensors:
            for exchange in tensor.exchanges:
                for at in exchange.chain:
                    if not isinstance(at.component, Compute):
                        visits.setdefault(at.component.name, []).append((tensor, exchange, at))
        best: dict[str, Actions] = {}
        for component, parts in visits.items():
            most: Actions | None = None
            for fixed in self._lanes(parts):
                total = _NOTHING
                for tensor, exchange, at in parts:
                    total = total + self._charged(tensor, exchange, at, fixed)
                most = total if most is None else most.most(total)
            best[component] = most or _NOTHING
        return best

    def _lanes(self, parts: list[tuple[TensorTraffic, Exchange, Station]]) -> Iterator[Fixed]:
        """Lanes of one component that can be the busiest: the first, or the second where first touches differ."""
        level = parts[0][2].level
        outputs = [tensor.counts for tensor, _, _ in parts if tensor.access.output]
        own = [i for i in self.path.spatial_loops if (self.path.loops[i].level or 0) <= level]
        choices = []
        for index in own:
            differs = self.semantics.lane_first_touch == "one lane" and any(
                counts.relevance_of(index) is Relevance.NONE for counts in outputs
            )
            choices.append((Take.FIRST, Take.SECOND) if differs else (Take.FIRST,))
        for lane in product(*choices):
            yield dict(zip(own, lane, strict=True))

    def _charged(self, tensor: TensorTraffic, exchange: Exchange, at: Station, fixed: Fixed) -> Actions:
        return _charged(tensor, exchange, at, tensor.flow(exchange, at, fixed))

    def operations(self) -> tuple[Count, Count]:
        """Operations of all instances and of the busiest one; 0 for a copy."""
        if self.path.einsum.is_copy:
            return 0, 0
        total: Count = 1
        busiest: Count = 1
        everything = tuple(Take.ALL for _ in self.path.loops)
        one = tuple(Take.FIRST if loop.is_spatial else Take.ALL for loop in self.path.loops)
        for variable in self.path.einsum.rank_variables:
            total = total * _sum_counts(self.tiles.of(variable, everything))
            busiest = busiest * _sum_counts(self.tiles.of(variable, one))
        return total, busiest


_NOTHING = Actions(0, 0)


def _sum_counts(tiles: list[tuple[Count, Count]]) -> Count:
    total: Count = 0
    for extent, count in tiles:
        total = total + extent * count
    return total


def _charged(tensor: TensorTraffic, exchange: Exchange, at: Station, flow: Flow) -> Actions:
    """Values into actions (cost-model reference, section 6)."""
    component = at.component
    name = tensor.access.tensor
    down = flow.live + (flow.initial if tensor.pays_initial(exchange, at) else 0)
    up = flow.up
    assert not isinstance(component, Compute)
    read = component.action("read").actions_per_value[name]
    if isinstance(component, Toll):
        direction = component.directions[name]
        passing = (down if direction != "up" else 0) + (up if direction != "down" else 0)
        return Actions(passing * read, 0)
    write = component.action("write").actions_per_value[name]
    if at is exchange.child:
        return Actions(up * read, down * write)
    return Actions(down * read, up * write)
