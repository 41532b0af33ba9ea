"""Exchanges over a network of an array whose memories are several units: values begin where they lie.

A unit stands at the first of its lanes. From there a value goes along the loops' dimensions, outermost loop first, to
the lanes that need it, as from the entrance of any other network; what comes from a memory outside of the array enters
at the first lane. Along a loop that indexes the tensor, or of a tensor that is replicated, the lanes are in the unit
that has the value. Along any other loop, units share the values that its lanes need: those whose unit is in the part
`p` of the loop go from there to the lanes on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, reduce
from itertools import product
from math import prod

from einmap.model.counting.tiles import Count, Take, larger, smaller
from einmap.model.counting.units import LaneLoop, Spread
from einmap.model.traffic.mesh_crossing import Way, is_nothing
from einmap.model.traffic.tensor_traffic import Fixed
from einmap.model.traffic.topologies import LinkedCrossing, Place, Sent, Wire


class UnitCrossing(LinkedCrossing):
    """One exchange of one tensor over the network of an array of several units, link by link."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tensor.semantics.network_traffic == "one delivery":
            self.ways = ("both",)

    @cached_property
    def spread(self) -> Spread | None:
        """Where the values lie; None if they come from a memory that is not spread over the array."""
        return self.tensor.spread(self.exchange.parent)

    def loop(self, index: int) -> LaneLoop:
        """How a loop's lanes are in units: all in one where it is not a loop over the array."""
        if self.spread is not None and index in self.spread.by_index:
            return self.spread.by_index[index]
        lanes = self.path.loops[index].iterations
        return LaneLoop(index, lanes, self.stride(index), lanes, True, False)

    def follows(self, index: int) -> bool:
        """Whether values lie in the unit of the lane that needs them."""
        return self.loop(index).indexes or (self.spread is not None and self.spread.replicated)

    def sent(self) -> Iterator[Sent]:
        """Values sent along each loop, for all places along the outer loops, and for all units along the inner ones."""
        for way in self.ways:
            for number, index in enumerate(self.loops):
                outer, inner = self.loops[:number], self.loops[number + 1 :]
                for fixed in self.every_lane([*self.above, *outer]):
                    for parts in product(*(range(self.loop(i).parts) for i in inner)):
                        yield from self._along(index, way, fixed, dict(zip(inner, parts, strict=True)))

    def _along(self, index: int, way: Way, fixed: dict[int, Take], parts: dict[int, int]) -> Iterator[Sent]:
        """Values sent along one loop: lanes outside of it, and the parts of the inner loops in which the values lie."""
        loop, beside = self.loop(index), {i: part * self.loop(i).block for i, part in parts.items()}

        def at(lane: int) -> Place:
            return self.at({**fixed, **beside, index: lane})

        for part in range(loop.parts):
            home = part * loop.block
            own = range(home, min(home + loop.block, loop.lanes)) if self.follows(index) else range(loop.lanes)
            own_parts = {**parts, index: part}

            def going(lane: int, own_parts: dict[int, int] = own_parts) -> Count:
                outer = {i: lane for i, lane in fixed.items() if i in self.loops}
                some, whole = self._share({**outer, index: lane}, own_parts, way)
                lanes = self.alike({**fixed, index: lane})
                found = self.passing(index, lanes.pop(index), lanes, way) * some
                return found if isinstance(whole, int) and whole == 1 else found / whole

            if self.network.topology == "all_to_all":
                yield from self._direct(index, way, fixed, (home, own), at(home), going)
                continue
            if not self.shares(index, way):
                routes = [(self.wires(at(home), at(lane)), going(lane)) for lane in own if lane != home]
            else:
                routes = [(self.wires(at(lane - 1), at(lane)), going(lane)) for lane in own if lane > home]
                # lanes on the near side are reached from the other end, the first of them last
                routes += [(self.wires(at(lane + 1), at(lane)), going(0)) for lane in own if lane < home]
            for wires, values in routes:
                if not is_nothing(values):
                    yield (index,), way, fixed, len(wires), wires, values

    def _direct(
        self, index: int, way: Way, fixed: Fixed, lanes: tuple[int, range], place: Place, going: object
    ) -> Iterator[Sent]:
        """One step to each lane but the unit's own; the unit sends what lanes share once."""
        assert callable(going)
        home, own = lanes
        each = [going(lane) for lane in own if lane != home]
        for values in each:
            if not is_nothing(values):
                yield (index,), way, fixed, 1, (), values
        sent: Count = reduce(larger, each, 0) if self.shares(index, way) else sum(each)
        if not is_nothing(sent):
            yield (index,), way, fixed, 0, (("port", self.dimension(index), place),), sent

    def _share(self, at: Mapping[int, int], parts: Mapping[int, int], way: Way) -> tuple[Count, Count]:
        """Of the values that pass, those that lie in some units: so many of so many.

        `at`: lanes of the loops that values have gone along, the last of them being on its way; `parts`: of this loop
        and of those further in the parts where the values lie.
        """
        if self.spread is None:
            return 1, 1
        inner = [self.loop(i) for i in self.loops if i not in at]
        some: Count = 0
        whole: Count = 1 if self.spread.replicated else self.spread.of_class
        own: list[range] = []
        for loop in inner:
            begin = parts[loop.index] * loop.block
            lanes = range(begin, min(begin + loop.block, loop.lanes))
            if loop.indexes or (self.spread.replicated and not self.shares(loop.index, way)):
                own.append(lanes)
                whole = whole * loop.lanes
            else:
                own.append(range(1))
        if not self.spread.sharing or self.spread.replicated:
            # all of a class lies in one part
            return prod(map(len, own)) * (1 if self.spread.replicated else self.spread.of_class), whole
        for lanes_of in product(*own):
            here = {**at, **{loop.index: lane for loop, lane in zip(inner, lanes_of, strict=True)}}
            some = some + self.spread.dealt(self._classes(here), parts)
        return some, whole

    def _classes(self, at: Mapping[int, int]) -> int:
        """How many classes come before that of some lanes, of those that the same units share."""
        assert self.spread is not None
        number = 0
        for loop in self.spread.loops:
            if loop.indexes:
                part = at[loop.index] // loop.block
                here = min((part + 1) * loop.block, loop.lanes) - part * loop.block
                number = number * here + at[loop.index] - part * loop.block
        return number

    def wires(self, begin: Place, end: Place) -> tuple[Wire, ...]:
        """The links from one place to another one along the same fanout."""
        (along,) = (i for i, (a, b) in enumerate(zip(begin, end, strict=True)) if a != b)
        rest = begin[:along] + begin[along + 1 :]
        low, high = sorted((begin[along], end[along]))
        return tuple((along, rest, position) for position in range(low, high))

    def longest(self) -> Count:
        """The longest way of any value from its unit to a lane, and the step into the first lane of each loop on it."""
        longest: Count = 0
        for lanes, parts, values in self._places():
            steps = sum(self._steps(index, self._apart(index, lanes, parts)) for index in self.loops)
            longest = larger(longest, steps * smaller(values, 1))
        return longest

    def _places(self) -> Iterator[tuple[dict[int, int], dict[int, int], Count]]:
        """Where values lie, and how many of them.

        Lanes of a class along loops that index the tensor, and a unit as parts of the loops whose lanes share it.
        """
        if self.spread is None or self.spread.replicated:
            yield {}, {}, 1
            return
        indexing = [loop for loop in self.spread.loops if loop.indexes]
        sharing = [loop.index for loop in self.spread.sharing]
        for chosen in product(*(range(loop.lanes) for loop in indexing)):
            lanes = {loop.index: lane for loop, lane in zip(indexing, chosen, strict=True)}
            for parts, values in self.spread.by_unit(self._classes(lanes)):
                yield lanes, dict(zip(sharing, parts, strict=True)), values

    def _apart(self, index: int, lanes: Mapping[int, int], parts: Mapping[int, int]) -> int:
        """Lanes of a loop from the unit of a value to the farthest one that needs it."""
        loop = self.loop(index)
        if index in lanes:
            return lanes[index] % loop.block
        if self.follows(index):
            # the unit of the first part has most lanes beside it
            return loop.fullest - 1
        home = parts.get(index, 0) * loop.block
        return max(home, loop.lanes - 1 - home)

    def _steps(self, index: int, apart: int) -> int:
        if self.network.topology == "all_to_all" or not apart:
            return min(apart, 1)
        return (apart + 1) * self.stride(index)
