"""Exchanges over a torus, a ring, a systolic array, a tree or a bus: each value's links are listed.

On a torus, a ring and a systolic array values go loop by loop as on a mesh (`crossing`). On a torus they go the shorter
way round each fanout, forward where both are as long; a ring joins the lanes of all fanouts, those of the last fanout
being neighbours. A systolic array has a port at each place of an edge: of a tensor that some lanes share, those lanes
hand it on, and along other fanouts it comes in where it is needed; any other tensor is handed on along the last fanout
that it is spread over.

In a tree every lane is a leaf, numbered as on a ring, of a binary tree whose root is the entrance: a value passes the
links to all leaves that it is for once, if the network multicasts, and results as many if it reduces. On a bus a value
takes one step, whoever it is for, and every lane sends its own results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import chain, combinations, product
from math import prod

from einmap.arch.component import Topology
from einmap.model.counting.tiles import FIRST, Count, Take, larger
from einmap.model.traffic.mesh_crossing import Crossing, Dimension, Link, NetworkUse, Way, is_nothing
from einmap.model.traffic.tensor_traffic import Fixed

type Place = tuple[int, ...]
"""Position along each fanout below the network."""
type Wire = tuple[object, ...]
"""Key of a link in one instance of the network."""
type Sent = tuple[tuple[int, ...], Way, Fixed, int, tuple[Wire, ...], Count]
"""Loops that are gone along, direction, lanes, steps, links, values."""


class LinkedCrossing(Crossing):
    """One exchange of one tensor that crosses a network whose links are looked at one by one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ways = ("down", "up") if self.tensor.access.output else ("down",)

    def sent(self) -> Iterator[Sent]:
        """Values that take the same links, in fixed lanes above the network."""
        raise NotImplementedError

    def add_to(self, use: NetworkUse, links: dict[Link, Count]) -> None:
        """Add hops, link traffic and the longest route."""
        name = self.tensor.access.tensor
        rate = self.network.action("hop").actions_per_value[name]
        hops: dict[tuple[Take, ...], Count] = {}
        for _, _, lanes, steps, wires, values in self.sent():
            above = tuple(lanes[i] for i in self.above)
            hops[above] = hops.get(above, 0) + steps * values
            for wire in wires:
                key = above, wire, self.own
                links[key] = links.get(key, 0) + values * rate
        use.hops[name] = use.hops.get(name, 0) + sum(hops.values()) * rate
        if hops:
            use.busiest_hops = use.busiest_hops + reduce(larger, hops.values()) * rate
            use.max_hops = larger(use.max_hops, self.longest())

    def parts(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Count]]:
        """Hops of all instances: the loops that values go along, those of them whose lanes share them, hops."""
        hops: dict[tuple[tuple[int, ...], tuple[int, ...]], Count] = {}
        for loops, way, _, steps, _, values in self.sent():
            key = loops, tuple(i for i in loops if self.shares(i, way))
            hops[key] = hops.get(key, 0) + steps * values
        for (loops, shared), total in hops.items():
            yield loops, shared, total

    def every_lane(self, loops: Iterator[int] | list[int]) -> Iterator[dict[int, Take]]:
        """All lanes of some loops together."""
        chosen = list(loops)
        for lanes in product(*(range(self.path.loops[i].iterations) for i in chosen)):
            yield dict(zip(chosen, lanes, strict=True))

    def alike(self, lanes: Fixed) -> dict[int, Take]:
        """The first lanes that have as much traffic as these: where all tiles are alike only first touches differ."""
        if not self._is_even:
            return dict(lanes)
        return {i: min(lane, len(self.lanes[i]) - 1) for i, lane in lanes.items()}

    @cached_property
    def _is_even(self) -> bool:
        extents = dict(self.path.einsum.extents)
        for loop in self.path.loops:
            if loop.divides:
                continue
            shape = min(loop.shape, extents[loop.variable])
            if loop.initial is not None or extents[loop.variable] % shape:
                return False
            extents[loop.variable] = shape
        return self.tensor.charge(self.exchange).hull is None

    @cached_property
    def fanouts(self) -> Mapping[Dimension, int]:
        """The fanouts of the network and of what is below it, with their sizes."""
        leaves = enumerate(self.path.leaves)
        return {(at, d.name): d.fanout for at, leaf in leaves if at >= self.level for d in leaf.spatial}

    def at(self, lanes: Fixed) -> Place:
        """Where a lane stands; loops that are not named count as 0."""
        steps = dict.fromkeys(self.fanouts, 0)
        for index in self.loops:
            steps[self.dimension(index)] += lanes.get(index, FIRST) * self.stride(index)
        return tuple(steps.values())

    def number(self, place: Place) -> int:
        """The number of a place, those along the last fanout following each other."""
        number = 0
        for position, size in zip(place, self.fanouts.values(), strict=True):
            number = number * size + position
        return number


class _Along(LinkedCrossing):
    """Values go along one loop after another."""

    def sent(self) -> Iterator[Sent]:
        """Lane by lane where each has its own values, from lane to lane where they share them."""
        for way in self.ways:
            for index in self.walked(way):
                outer = self.loops[: self.loops.index(index)]
                for fixed in self.every_lane([*self.above, *outer]):
                    for lane in range(1, self.path.loops[index].iterations):
                        begin = lane - 1 if self.shares(index, way) else 0
                        wires = self.between(self.at({**fixed, index: begin}), self.at({**fixed, index: lane}))
                        lanes = self.alike({**fixed, index: lane})
                        values = self.passing(index, lanes.pop(index), lanes, way)
                        if wires and not is_nothing(values):
                            yield (index,), way, fixed, len(wires), wires, values

    def walked(self, way: Way) -> list[int]:
        """The loops that values go along."""
        del way
        return self.loops

    def between(self, begin: Place, end: Place) -> tuple[Wire, ...]:
        """The links from one place to another one along the same fanout."""
        (along,) = (i for i, (a, b) in enumerate(zip(begin, end, strict=True)) if a != b)
        rest = begin[:along] + begin[along + 1 :]
        return _round((along, rest), begin[along], end[along], tuple(self.fanouts.values())[along])

    def longest(self) -> int:
        """The farthest lane of each loop, and the step into its first one."""
        return max(sum(self._farthest(i, way) + self.stride(i) for i in self.walked(way)) for way in self.ways)

    def _farthest(self, index: int, way: Way) -> int:
        lanes = range(1, self.path.loops[index].iterations)
        steps = [
            len(self.between(self.at({index: lane - 1 if self.shares(index, way) else 0}), self.at({index: lane})))
            for lane in lanes
        ]
        return sum(steps) if self.shares(index, way) else max(steps)


class _Torus(_Along):
    """Each fanout is a ring."""


class _Ring(_Along):
    """All lanes are one ring."""

    def between(self, begin: Place, end: Place) -> tuple[Wire, ...]:
        """The links from one place to another."""
        return _round((), self.number(begin), self.number(end), prod(self.fanouts.values()))


class _Systolic(_Along):
    """Lanes hand on what they share; the rest comes in by the edge."""

    def walked(self, way: Way) -> list[int]:
        """The loops along whose fanouts values are handed on."""
        sharing = [self.dimension(i) for i in self.loops if self.shares(i, way)]
        along = sharing or [self.dimension(i) for i in self.loops[-1:]]
        return [i for i in self.loops if self.dimension(i) in along]

    def between(self, begin: Place, end: Place) -> tuple[Wire, ...]:
        """The links from one place to another one along the same fanout."""
        (along,) = (i for i, (a, b) in enumerate(zip(begin, end, strict=True)) if a != b)
        rest = begin[:along] + begin[along + 1 :]
        return tuple((along, rest, position) for position in range(begin[along], end[along]))


class _Spread(LinkedCrossing):
    """Values go to all lanes that they are for at once."""

    def sent(self) -> Iterator[Sent]:
        """For each group of lanes that share values the links to all of them."""
        for way in self.ways:
            sharing = [i for i in self.loops if self.shares(i, way)]
            alone = [i for i in self.loops if i not in sharing]
            # of lanes that reduce the first one alone is filled
            reached = [] if way == "down" and self.tensor.access.output else sharing
            for fixed in self.every_lane([*self.above, *alone]):
                first = {**self.alike(fixed), **dict.fromkeys(sharing, FIRST)}
                behind: dict[Wire, list[dict[int, Take]]] = {}
                for lanes in self.every_lane(reached):
                    for wire in self.to(self.at({**fixed, **lanes})):
                        behind.setdefault(wire, []).append(lanes)
                if self._is_even:
                    carried = [(tuple(behind), self.flowing(first, way))]
                else:
                    carried = [((wire,), self._for_any(first, lanes, way)) for wire, lanes in behind.items()]
                for wires, values in carried:
                    if not is_nothing(values):
                        yield tuple(self.loops), way, fixed, len(wires), wires, values

    def _for_any(self, first: Fixed, lanes: Sequence[dict[int, Take]], way: Way) -> Count:
        """Values for one lane or more of a group that shares them, in the order of `every_lane`.

        Ragged tiles leave the last lanes of a loop without work at times. A lane works only when each one does that
        comes no later by any rank variable; two lanes work at one time when the later one by each rank variable does.
        """
        by_variable: dict[str, list[int]] = {}
        for index in lanes[0]:
            by_variable.setdefault(self.path.loops[index].variable, []).append(index)
        order = list(chain.from_iterable(by_variable.values()))
        places = [tuple(tuple(lane[i] for i in same) for same in by_variable.values()) for lane in lanes]
        ahead: list[tuple[tuple[Take, ...], ...]] = []
        for place in places:
            if not any(all(a <= b for a, b in zip(one, place, strict=True)) for one in ahead):
                ahead.append(place)
        total: Count = 0
        for size in range(1, len(ahead) + 1):
            for chosen in combinations(ahead, size):
                latest = [max(parts) for parts in zip(*chosen, strict=True)]
                together = dict(zip(order, chain.from_iterable(latest), strict=True))
                values = self.flowing({**first, **together}, way)
                total = total + values if size % 2 else total - values
        return total

    def to(self, place: Place) -> tuple[Wire, ...]:
        """The links to a place."""
        raise NotImplementedError


class _Tree(_Spread):
    """Lanes are the leaves of a binary tree."""

    @property
    def _depth(self) -> int:
        return (prod(self.fanouts.values()) - 1).bit_length()

    def to(self, place: Place) -> tuple[Wire, ...]:
        """The links from the root to a leaf: the node below each, by its height and number there."""
        leaf = self.number(place)
        return tuple((height, leaf >> height) for height in reversed(range(self._depth)))

    def longest(self) -> int:
        """From the root to a leaf."""
        return self._depth


class _Bus(_Spread):
    """One medium for all lanes."""

    def to(self, place: Place) -> tuple[Wire, ...]:
        """The bus."""
        del place
        return (("bus",),)

    def longest(self) -> int:
        """One step."""
        return 1


def _round(ring: Wire, begin: int, end: int, size: int) -> tuple[Wire, ...]:
    """The links of the shorter way from one place on a ring of so many places to another; forward if it is as short."""
    forward = (end - begin) % size
    first, steps = (begin, forward) if 2 * forward <= size else (end, size - forward)
    return tuple((*ring, (first + step) % size) for step in range(steps))


CROSSINGS: Mapping[Topology, type[Crossing]] = {
    "mesh": Crossing,
    "all_to_all": Crossing,
    "torus": _Torus,
    "ring": _Ring,
    "systolic": _Systolic,
    "tree": _Tree,
    "bus": _Bus,
}
