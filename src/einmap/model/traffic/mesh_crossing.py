"""One exchange of one tensor over a network: hops, link traffic and the longest route on a mesh, or all to all.

The spatial loops over the network itself or what is below it, as far as the child, are the lanes that it reaches: the
lane of an iteration stands `stride` steps along its dimension, `stride` being the lanes that loops further in use
there. Values enter at the first lane and go along the loops' dimensions, outermost loop first; what is multicast
along a loop goes from lane to lane once, anything else goes to each lane by itself. Results come back the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from einmap.arch.component import Network
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import NotSupportedError
from einmap.model.counting.path import Station, applies
from einmap.model.counting.tiles import ALL, FIRST, Count, Take, larger
from einmap.model.traffic.tensor_traffic import Exchange, Fixed, Flow, TensorTraffic

type Way = Literal["down", "up", "both"]
type Dimension = tuple[int, str]
"""A fanout: level on the architecture path and name."""
type Link = tuple[object, ...]
"""Lanes above the network, what tells the link from others there, and the tensor where each has links of its own."""
type FlowOf = Callable[[TensorTraffic, Exchange, Station, Fixed], Flow]
"""Flow past a station of an exchange of a tensor, in fixed lanes of it."""


@dataclass
class NetworkUse:
    """Use of one network by one Einsum, in actions; scales of the component are not applied.

    `hops`: of each tensor, all instances together. `busiest_hops`: of the instance that has most. `max_hops`: steps of
    the longest route. `max_link_traffic`: actions that pass the busiest link over the whole Einsum.
    """

    hops: dict[str, Count] = field(default_factory=dict)
    busiest_hops: Count = 0
    max_hops: Count = 0
    max_link_traffic: Count = 0


@dataclass
class Crossing:
    """One exchange of one tensor that crosses a network."""

    tensor: TensorTraffic
    exchange: Exchange
    level: int
    network: Network
    lanes: Mapping[int, range]
    """Lanes of each spatial loop whose traffic differs."""
    flow: FlowOf = TensorTraffic.flow
    """Flow past the child in some lanes of it: in all of its visits by default."""

    def __post_init__(self) -> None:
        self.path = self.tensor.path
        self.loops = [i for i in self.path.spatial_loops if self._is_routed(i)]
        self.above = {i: FIRST for i in self.path.spatial_loops if (self.path.loops[i].level or 0) < self.level}
        alike = self.network.multicast and self.network.adds_on_the_way
        self.ways: tuple[Way, ...] = ("both",) if alike else ("down", "up")
        self._refuse_mixed_lanes()

    def shares(self, index: int, way: Way) -> bool:
        """Whether lanes of a loop are passed one copy, or pass on one sum."""
        able = self.network.adds_on_the_way if way == "up" else self.network.multicast
        return able and self.tensor.counts.merges(self.path.loops[index])

    def _refuse_mixed_lanes(self) -> None:
        """A common tile that is one for the lanes of this Einsum and another in each lane of the next."""
        hull = self.tensor.charge(self.exchange).hull
        merged = {self.path.loops[i].address for i in self.loops if self.tensor.counts.merges(self.path.loops[i])}
        for user in () if hull is None else hull.users:
            for loop in user.path.loops:
                if loop.address in merged and user.access.relevance(loop.variable) is not Relevance.NONE:
                    raise NotSupportedError(
                        f"{user.access.tensor!r} crosses the network {self.network.name!r} to lanes that share it in "
                        f"Einsum {self.path.einsum.name!r} but not in {user.path.einsum.name!r}; that is not supported "
                        "yet",
                        hint="hold the tensor in each branch instead",
                    )

    def _is_routed(self, index: int) -> bool:
        loop = self.path.loops[index]
        assert loop.level is not None
        return not loop.absent and self.level <= loop.level <= self.exchange.child.level

    def add_to(self, use: NetworkUse, links: dict[Link, Count]) -> None:
        """Add hops, link traffic and the longest route."""
        name = self.tensor.access.tensor
        rate = self.network.action("hop").actions_per_value[name]
        total = self.hops({})
        use.hops[name] = use.hops.get(name, 0) + total * rate
        if is_nothing(total):
            return  # no lanes, or another Einsum pays for the buffer that both use
        use.busiest_hops = use.busiest_hops + self.hops(self.above) * rate
        use.max_hops = larger(use.max_hops, self.longest())
        for index in self.loops:
            for fixed in self.entrances(index):
                above = tuple(fixed[i] for i in self.above)
                key = above, self.dimension(index), self.place(index, fixed), self.own
                links[key] = links.get(key, 0) + self.link(index, fixed) * rate

    def longest(self) -> Count:
        """Steps of the longest route: to the farthest lane of each loop, and the one into its first lane."""
        mesh = self.network.topology == "mesh"
        return sum(self.path.loops[i].iterations * self.stride(i) if mesh else 1 for i in self.loops)

    @property
    def own(self) -> str:
        """The tensor where each one has links of its own."""
        return self.tensor.access.tensor if self.network.links == "per_tensor" else ""

    def parts(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Count]]:
        """Hops of all instances: the loops that values go along, those of them whose lanes pass them on, hops."""
        for index in self.loops:
            for way in self.ways:
                hops = self.hops_along(index, {}, (way,))
                if way == "both" or hops:
                    yield (index,), (index,) if self.shares(index, way) else (), hops

    def entrances(self, index: int) -> Iterator[dict[int, Take]]:
        """Where the lanes of a loop may begin whose first link has most: lanes of the loops outside it."""
        outer = self.loops[: self.loops.index(index)]
        along = [i for i in outer if self.dimension(i) == self.dimension(index)]
        others = [*self.above, *(i for i in outer if i not in along)]
        for chosen in product(*(self.lanes[i] for i in others)):
            yield {**dict.fromkeys(along, FIRST), **dict(zip(others, chosen, strict=True))}

    def place(self, index: int, fixed: Fixed) -> tuple[tuple[Dimension, int], ...]:
        """Steps from the first lane along each fanout to where the lanes of a loop begin; zeros left out."""
        steps: dict[Dimension, int] = {}
        for outer in self.loops[: self.loops.index(index)]:
            steps[self.dimension(outer)] = steps.get(self.dimension(outer), 0) + fixed[outer] * self.stride(outer)
        return tuple(sorted((dimension, n) for dimension, n in steps.items() if n))

    def dimension(self, index: int) -> Dimension:
        """The fanout that a loop goes along."""
        loop = self.path.loops[index]
        assert loop.level is not None
        assert loop.dimension is not None
        return loop.level, loop.dimension.name

    def stride(self, index: int) -> int:
        """Steps from one lane of a loop to the next."""
        steps = 1
        for inner in self.loops[self.loops.index(index) + 1 :]:
            if self.dimension(inner) == self.dimension(index):
                steps *= self.path.loops[inner].iterations
        return steps

    def hops(self, fixed: Fixed) -> Count:
        """Values times steps, over all visits; `fixed` lanes above the network."""
        total: Count = 0
        for index in self.loops:
            total = total + self.hops_along(index, fixed)
        return total

    def hops_along(self, index: int, fixed: Fixed, ways: tuple[Way, ...] | None = None) -> Count:
        """Hops of values along one of the loops, in some directions, by default in all."""
        total: Count = 0
        for way in ways or self.ways:
            shared = self.shares(index, way)
            for lane in range(1, self.path.loops[index].iterations):
                steps = self.stride(index) * (1 if shared else lane) if self.network.topology == "mesh" else 1
                total = total + steps * self.passing(index, lane, fixed, way)
        return total

    def link(self, index: int, fixed: Fixed) -> Count:
        """Values that pass the first link along a loop, next to where they enter, over all visits."""
        total: Count = 0
        for way in self.ways:
            for lane in range(1, 2 if self.shares(index, way) else self.path.loops[index].iterations):
                total = total + self.passing(index, lane, fixed, way)
        return total

    def passing(self, index: int, lane: Take, fixed: Fixed, way: Way) -> Count:
        """Values for one lane of a loop and all that is further in; what lanes share counts once."""
        inner = self.loops[self.loops.index(index) + 1 :]
        once = {i: FIRST for i in inner if self.shares(i, way)}
        lanes = {**fixed, **once, index: lane}
        if self.tensor.semantics.network_traffic == "one delivery":
            return self._delivered(index, lanes)
        return self.flowing(lanes, way)

    def flowing(self, lanes: Fixed, way: Way) -> Count:
        """Values that go down to some lanes of the child, come up from them, or both."""
        child = self.exchange.child
        flow = self.flow(self.tensor, self.exchange, child, lanes)
        down = flow.live + (flow.initial if self.tensor.pays_initial(self.exchange, child) else 0)
        return down if way == "down" else flow.up if way == "up" else down + flow.up

    def _delivered(self, index: int, lanes: Mapping[int, Take]) -> Count:
        """Values that one lane of a spatial loop needs at a time, each once, for every iteration of the loops above it.

        At a time: within the temporal loops that are written below the spatial loop and above the child.
        """
        child, parent = self.exchange.child, self.exchange.parent
        takes = list(self.tensor.takes(child, child, lanes))
        for below, loop in enumerate(self.path.loops[index + 1 :], index + 1):
            irrelevant = self.tensor.counts.relevance_of(below) is Relevance.NONE
            if takes[below] == ALL and irrelevant and not loop.is_spatial and not applies(loop, parent):
                takes[below] = FIRST
        return self.tensor.counts.values(tuple(takes))


def is_nothing(count: Count) -> bool:
    """Whether a count is 0; an array of counts is something."""
    return isinstance(count, int | float) and not count
