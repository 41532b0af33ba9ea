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
from dataclasses import dataclass, field, replace

from einmap.arch.component import Compute, Memory
from einmap.arch.layout import Layout
from einmap.einsum.einsum import TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import NotSupportedError
from einmap.model.counting.first_touch import TouchCounter
from einmap.model.counting.hull import Hull, User
from einmap.model.counting.lines import LineCounts, RoundCounts
from einmap.model.counting.path import EinsumPath, Station, applies
from einmap.model.counting.reuse import Group, Takes, TensorCounts
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.tiles import ALL, FIRST, SKIP, Count, Take
from einmap.model.counting.units import Spread, spread_of

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
    outward: list[Exchange] = []
    chain = [compute]
    for station in reversed(stations):
        chain.append(station)
        if isinstance(station.component, Memory):
            outward.append(Exchange(tuple(chain)))
            chain = [station]
    return tuple(outward)


@dataclass(frozen=True)
class Flow:
    """Values at one station for one exchange: down (fills) and up (write-backs).

    `live`: fills that bring results; `initial`: fills of elements that have none yet. `complete`: write-backs of values
    to which nothing is added any more, counted where partial sums have a width of their own.
    """

    live: Count
    initial: Count
    up: Count
    complete: Count = 0


@dataclass(frozen=True)
class Charge:
    """Charge to one Einsum where the child of an exchange is a buffer that several Einsums share.

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
    freed: bool = False
    """Whether nothing of the tensor outlives a visit of its backing node (intermediates)."""
    slides: Mapping[int, int] = field(default_factory=dict)
    """By position of a station the loop whose consecutive iterations keep what both need."""
    stations: tuple[Station, ...] = field(init=False)
    exchanges: tuple[Exchange, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.stations = self.path.stations[self.access.tensor]
        self.exchanges = exchanges(self.stations, self.path.compute)
        self._parent_of = {e.child.position: e for e in self.exchanges}
        self._takes: dict[object, Takes] = {}
        self._flows: dict[object, Flow] = {}
        self._in_lines: dict[tuple[str, bool], TensorTraffic] = {}
        self._spreads: dict[int, Spread | None] = {}

    def spread(self, station: Station) -> Spread | None:
        """In which units of its memory the tile of a station lies; None in a memory of one unit.

        Raises NotSupportedError where that is not known.
        """
        if not isinstance(station.component, Memory) or not station.component.is_spread:
            return None
        if station.position not in self._spreads:
            self._spreads[station.position] = self._spread(station)
        return self._spreads[station.position]

    def _spread(self, station: Station) -> Spread | None:
        found, name = spread_of(self.path, self.counts, station), station.component.name
        around = [e for e in self.exchanges if station in (e.child, e.parent)]
        if self.semantics.network_traffic != "all" and found is not None and found.holders > 1:
            raise NotSupportedError(
                f"the preset {self.semantics.name} does not know how units of {name!r} share {self.access.tensor!r}",
                hint="evaluate with semantics: exact",
            )
        if any(self.charge(exchange).hull is not None for exchange in around):
            raise NotSupportedError(
                f"Einsums use different parts of {self.access.tensor!r} in the units of {name!r}; that is not yet "
                "supported",
                hint="hold the tensor in each branch instead",
            )
        if station.position in self.slides:
            raise NotSupportedError(
                f"sliding_window in the units of {name!r} is not supported yet", hint="leave it out there"
            )
        inside = self.path.levels[station.component.array] if isinstance(station.component, Memory) else 0
        nested = [s for e in around if e.parent is station for s in e.chain[:-1] if s.level < inside]
        if found is not None and found.copies > 1 and nested:
            raise NotSupportedError(
                f"{self.access.tensor!r} is replicated in {name!r} and passes {nested[0].component.name!r} of the same "
                "array; that is not supported yet",
                hint="leave it out of replicate",
                about=name,
                field="replicate",
            )
        return found

    def charge(self, exchange: Exchange) -> Charge:
        """Charge to this Einsum for an exchange."""
        return self.charges.get((self.access.tensor, exchange.child.position), _FULL)

    def moved(self, child: Station, takes: Takes) -> Count:
        """Values that fills and write-backs of a child move each, over the visits that `takes` counts."""
        return self.counts.values(takes, self.slides.get(child.position))

    # which iterations count

    def takes(self, child: Station, at: Station, fixed: Fixed) -> Takes:
        """Iterations for visits of `child` as seen at `at`, a station at or above it.

        Lanes merged on the way up to `at` count once; `fixed` lanes as they say.
        """
        key = (child.position, child.level, at.level, tuple(fixed.items()))
        takes = self._takes.get(key)
        if takes is None:
            takes = self._takes[key] = self._count_takes(child, at, fixed)
        return takes

    def _count_takes(self, child: Station, at: Station, fixed: Fixed) -> Takes:
        takes: list[Take] = []
        for index, loop in enumerate(self.path.loops):
            if not applies(loop, child):
                takes.append(SKIP)
            elif loop.level is None:
                takes.append(ALL)
            elif index in fixed:
                takes.append(fixed[index])
            elif loop.level > at.level and self.counts.merges(loop):
                takes.append(FIRST)
            else:
                takes.append(ALL)
        return tuple(takes)

    def first_takes(self, child: Station, at: Station, fixed: Fixed) -> Takes:
        """As `takes`, of the first visit alone."""
        takes = self.takes(child, at, fixed)
        return tuple(
            FIRST if take == ALL and not loop.is_spatial else take
            for take, loop in zip(takes, self.path.loops, strict=True)
        )

    def between(self, inner: Station, outer: Station) -> Iterator[int]:
        """Irrelevant spatial loops that spread `inner` and not `outer`."""
        for index in self.path.spatial_loops:
            level = self.path.loops[index].level
            assert level is not None
            if outer.level < level <= inner.level and self.counts.relevance_of(index) is Relevance.NONE:
                yield index

    # first touches, one lane starts from the parent's values

    def fresh(self, holder: Station, child: Station, fixed: Fixed) -> Count:
        """How often elements start without a result at `holder` and are touched so by `child`, in fixed lanes.

        `child` is a station below it. At the outermost holder each element starts so once.
        """
        exchange = self._parent_of.get(holder.position)
        if exchange is None and self.freed:
            # an intermediate starts anew at each visit of its backing node
            return self._touched(holder, child, fixed)
        if exchange is None:
            return self._touched(None, child, fixed)
        merged = [i for i in self.between(holder, exchange.parent) if self.counts.merges(self.path.loops[i])]
        if any(i in fixed for i in merged):
            if all(fixed.get(i, FIRST) == FIRST for i in merged):
                return self.initial(exchange, child, fixed)
            return self._touched(holder, child, fixed) * self.counts.repeats(self.takes(holder, holder, fixed))
        # all lanes together: those that are not the first of their group start anew at every visit
        everyone = self.counts.repeats(self.takes(holder, holder, fixed))
        groups = self.counts.repeats(self.takes(holder, exchange.parent, fixed))
        again = 0 if _same(everyone, groups) else self._touched(holder, child, fixed) * (everyone - groups)
        return again + self.initial(exchange, child, fixed)

    def initial(self, exchange: Exchange, child: Station, fixed: Fixed) -> Count:
        """Fills of elements without a result in this exchange, of those that `child` touches so."""
        holder, parent = exchange.child, exchange.parent
        if any(fixed.get(i, FIRST) != FIRST for i in self.between(holder, parent)):
            return 0
        return self.fresh(parent, child, fixed)

    def _touched(self, start: Station | None, child: Station, fixed: Fixed) -> Count:
        """Elements new at `start` (in each of its relevant visits; None: once) and still new when `child` comes."""
        if all(group.is_plain for group in self.counts.groups):
            return self.counts.relevant(self.takes(child, child, fixed))
        total: Count = 1
        for group in self.counts.groups:
            group_lanes = {i: lane for i, lane in fixed.items() if self.path.loops[i].variable in group.variables}
            if group.is_plain:
                total = total * self.counts.group_sum(group, self.takes(child, child, fixed))
            elif group.is_dense and not group_lanes:
                total = total * self._all_of(group, start, fixed)
            else:
                total = total * self._gone_through(group, start, child, group_lanes)
        return total

    def _all_of(self, group: Group, start: Station | None, fixed: Fixed) -> Count:
        if start is None:
            return self.counts.group_sum(group, _none(self.path))
        takes, slides = self.takes(start, start, fixed), self.slides.get(start.position)
        kept = slides is not None and self.path.loops[slides].variable in group.variables
        total = self.counts.group_sum(group, takes)
        return total - self.counts.group_kept(group, takes, slides) if kept and slides is not None else total

    def _gone_through(self, group: Group, start: Station | None, child: Station, fixed: Fixed) -> int:
        below = [s for s in self.stations if isinstance(s.component, Memory)]
        below = below[1 if start is None else below.index(start) + 1 :]
        chain = [s for s in below if s is not child and s.position < child.position]
        levels = tuple(self._loops_at(station) for station in (*chain, child))
        if not all(isinstance(loop.shape, int) for loop in self.path.loops):
            sums = ", ".join(str(index) for index in group.indices)
            raise NotSupportedError(
                f"the output {self.access.tensor!r} is indexed by sums ({sums}): such an output cannot be mapped yet "
                "where lanes add to it",
                hint="a mapping of it can be evaluated",
            )
        counter = TouchCounter(self.path, group.indices, group.variables, levels)
        if start is None:
            return counter.from_start(fixed)
        return counter.from_visits(self._loops_at(start), fixed, self.slides.get(start.position))

    def _loops_at(self, station: Station) -> tuple[int, ...]:
        return tuple(i for i, loop in enumerate(self.path.loops) if applies(loop, station))

    # first touches, every lane

    def first_touches(self, exchange: Exchange, at: Station, fixed: Fixed) -> Count:
        """`S` as seen at `at` when every lane touches its elements first by itself."""
        child = exchange.child
        takes = list(self.takes(child, at, fixed))
        for index, loop in enumerate(self.path.loops):
            relevance = self.counts.relevance_of(index)
            if loop.is_spatial or takes[index] == SKIP or relevance is Relevance.FULL:
                continue
            if relevance is Relevance.NONE or self.semantics.partial_first_touch == "one position":
                takes[index] = FIRST
        if self.semantics.partial_first_touch == "distinct elements":
            return self._touched(None, child, fixed) * self.counts.repeats(tuple(takes))
        return self.counts.values(tuple(takes))

    # lines

    def moving(self, exchange: Exchange, at: Station, *, rounds: bool = False) -> TensorTraffic:
        """Traffic that sets a station's flow: these values, or the lines of a memory that moves lines of the tensor.

        `rounds`: not all of these, but those that the fullest bank has of each transfer.

        Raises NotSupportedError where lines are moved and nobody has said what that means.
        """
        layout = at.component.layouts.get(self.access.tensor) if isinstance(at.component, Memory) else None
        if layout is None:
            return self
        self._check_lines(exchange, at, layout)
        key = at.component.name, rounds
        if key not in self._in_lines:
            kind = RoundCounts if rounds and layout.banks else LineCounts
            counts = kind(self.path, self.access, self.counts.tiles, layout, at.level)
            self._in_lines[key] = replace(self, counts=counts)
        return self._in_lines[key]

    def _check_lines(self, exchange: Exchange, at: Station, layout: Layout) -> None:
        name = self.access.tensor
        why, hint = "", f"leave {name} out of the layout of {at.component.name}"
        if self.semantics.lane_first_touch == "every lane":
            why, hint = f"under the preset {self.semantics.name!r}", "evaluate with semantics: exact"
        elif self.charge(exchange).hull is not None:
            why = "where Einsums use different parts of it in a common buffer"
        elif exchange.child.position in self.slides:
            why = "where a buffer keeps what the next visit needs again (sliding_window)"
        elif self.access.output and not all(group.is_plain for group in self.counts.groups):
            why = "of an output that is indexed by sums"
        elif self.access.partial_bits is not None:
            why = "whose partial sums have a width of their own"
        elif self.access.output and layout.together and isinstance(exchange.child.component, Compute):
            why = "of an output that lanes of the compute exchange together"
        if why:
            raise NotSupportedError(
                f"lines of {name!r} in {at.component.name!r}, {why}, are not supported yet",
                hint=hint,
                about=at.component.name,
            )

    # flows

    def flow(self, exchange: Exchange, at: Station, fixed: Fixed = EVERY) -> Flow:
        """Flow past `at` (a station of the exchange's chain) in this exchange, in fixed lanes of `at`."""
        key = (exchange.child.position, at.position, tuple(fixed.items()))
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = self._flow(exchange, at, fixed)
        return flow

    def _flow(self, exchange: Exchange, at: Station, fixed: Fixed) -> Flow:
        child = exchange.child
        charge = self.charge(exchange)
        total = self.moved(child, self.takes(child, at, fixed))
        if not self.access.output:
            return Flow(self._consumed(exchange, total, self.takes(child, at, fixed)), 0, 0)
        flow = self._produced(exchange, at, fixed, total)
        up = total if charge.hull is None else charge.hull.values(self.path, self.takes(child, at, fixed))
        complete = self._complete(exchange, at, fixed)
        return Flow(flow.live, flow.initial, up, complete) if charge.fills else Flow(0, 0, up, complete)

    def _complete(self, exchange: Exchange, at: Station, fixed: Fixed) -> Count:
        """Write-backs that bring complete values past `at`: the last one of each element, where lanes are summed."""
        if self.access.partial_bits is None:
            return 0
        if self.charge(exchange).hull is not None:
            raise NotSupportedError(
                f"partial_bits_per_value, where Einsums use different parts of {self.access.tensor!r} in "
                f"{exchange.child.component.name!r}, is not supported yet",
                hint="leave it out for this tensor, or give each Einsum a storage node of its own",
            )
        elements = self._touched(None, exchange.child, fixed)
        for index in self.path.spatial_loops:
            loop = self.path.loops[index]
            assert loop.level is not None
            if loop.level > at.level or loop.absent or self.counts.relevance_of(index) is not Relevance.NONE:
                continue
            # one lane of several has a part of the sum
            alone = self.counts.lanes_at_the_end(index) == 1
            elements = elements * alone * (fixed.get(index, FIRST) == FIRST)
        return elements

    def _consumed(self, exchange: Exchange, total: Count, takes: Takes) -> Count:
        charge = self.charge(exchange)
        if charge.hull is not None and charge.hull_fills:
            slides = self.slides.get(exchange.child.position)
            return charge.hull.values(self.path, takes, None if slides is None else self.path.loops[slides].address)
        if charge.hull is not None and charge.hull_without is not None:
            matched = _matching(charge.hull_without, self.path, takes)
            return charge.hull.values(self.path, takes) - Hull((charge.hull_without,)).values(*matched)
        return total if charge.fills else 0

    def _produced(self, exchange: Exchange, at: Station, fixed: Fixed, total: Count) -> Flow:
        child, parent = exchange.child, exchange.parent
        if self.semantics.lane_first_touch == "every lane":
            initial = self.first_touches(exchange, at, fixed)
            return Flow(total - initial, initial, total)
        merged_above = [i for i in self.between(at, parent) if self.counts.merges(self.path.loops[i])]
        if any(fixed.get(i, FIRST) != FIRST for i in merged_above):
            return Flow(0, 0, total)
        initial = 0
        if all(fixed.get(i, FIRST) == FIRST for i in self.between(at, parent)):
            initial = self.fresh(parent, child, fixed)
        filled = self.moved(child, self.takes(child, parent, fixed))
        return Flow(filled - initial, initial, total)

    def fills_lane(self, exchange: Exchange, at: Station, fixed: Fixed) -> bool:
        """Whether a lane of a station takes part in fills of an output: of merged lanes the first one alone does."""
        if self.semantics.lane_first_touch == "every lane":
            return True
        merged = [i for i in self.between(at, exchange.parent) if self.counts.merges(self.path.loops[i])]
        return all(fixed.get(i, FIRST) == FIRST for i in merged)

    def pays_initial(self, exchange: Exchange, at: Station) -> bool:
        """Whether `at` is charged for fills that bring no result yet."""
        child, parent = exchange.child.component, exchange.parent.component
        child_skips = isinstance(child, Memory | Compute) and child.skip_initial_output_write
        both_skip = child_skips and isinstance(parent, Memory) and parent.skip_initial_output_write
        if self.semantics.initial_exchange == "both sides" or at is exchange.parent:
            return not both_skip
        return not child_skips


def _matching(user: User, path: EinsumPath, takes: Takes) -> tuple[EinsumPath, Takes]:
    """The iterations of `takes` for the loops of another Einsum's path."""
    taken = {loop.address: take for loop, take in zip(path.loops, takes, strict=True)}
    return user.path, tuple(taken.get(loop.address, SKIP) for loop in user.path.loops)


def _none(path: EinsumPath) -> Takes:
    return tuple(SKIP for _ in path.loops)


def _same(a: Count, b: Count) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a == b
