"""Hops and link traffic: what the exchanges of an Einsum's tensors cost on the networks that they cross.

A network carries an exchange whose parent stands above it on the architecture path and whose child stands below. The
spatial loops over the network itself or what is below it, as far as the child, are the lanes that it reaches: the
lane of an iteration stands `stride` steps along its dimension, `stride` being the lanes that loops further in use
there. Values enter at the first lane and go along the loops' dimensions, outermost loop first; what is multicast
along a loop goes from lane to lane once, anything else goes to each lane by itself. Results come back the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product

from einmap.arch.component import Network
from einmap.einsum.projection import Relevance
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath, applies
from einmap.model.counting.tiles import ALL, FIRST, Count, Take, larger
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.tensor_traffic import Exchange, Fixed, TensorTraffic

type Dimension = tuple[int, str]
"""A fanout: level on the architecture path and name."""
type Link = tuple[tuple[Take, ...], Dimension, tuple[tuple[Dimension, int], ...]]
"""The first link along a fanout: lanes above the network, the fanout, the place along the others."""


@dataclass
class NetworkUse:
    """What one Einsum does to one network, in actions; scales of the component are not applied.

    `hops`: of each tensor, all instances together. `busiest_hops`: of the instance that has most. `max_hops`: steps of
    the longest route. `max_link_traffic`: actions that pass the busiest link over the whole Einsum.
    """

    hops: dict[str, Count] = field(default_factory=dict)
    busiest_hops: Count = 0
    max_hops: int = 0
    max_link_traffic: Count = 0


def networks_of(path: EinsumPath) -> tuple[tuple[int, Network], ...]:
    """The networks on an Einsum's architecture path, with their levels."""
    return tuple((level, leaf) for level, leaf in enumerate(path.leaves) if isinstance(leaf, Network))


def network_use(traffic: EinsumTraffic) -> dict[str, NetworkUse]:
    """What the Einsum does to each network that its tensors cross; networks that nothing crosses are left out."""
    uses: dict[str, NetworkUse] = {}
    for level, network in networks_of(traffic.path):
        if traffic.path.einsum.is_copy:
            _refuse_copies(traffic.path, level, network)
            continue
        use = NetworkUse()
        links: dict[Link, Count] = {}
        for crossing in _crossings(traffic, level, network):
            crossing.add_to(use, links)
        if use.hops:
            use.max_link_traffic = reduce(larger, links.values(), 0)
            uses[network.name] = use
    return uses


def crossings_of(traffic: EinsumTraffic) -> Iterator[tuple[Network, Crossing]]:
    """Every exchange that crosses a network, network by network."""
    for level, network in networks_of(traffic.path):
        for crossing in _crossings(traffic, level, network):
            yield network, crossing


def _crossings(traffic: EinsumTraffic, level: int, network: Network) -> Iterator[Crossing]:
    outputs = [tensor.counts for tensor in traffic.tensors if tensor.access.output]
    lanes = {i: traffic.differing_lanes(i, outputs) for i in traffic.path.spatial_loops}
    for tensor in traffic.tensors:
        for exchange in tensor.exchanges:
            if exchange.parent.level < level < exchange.child.level and _carries(tensor, exchange, level):
                yield Crossing(tensor, exchange, level, network, lanes)


def _carries(tensor: TensorTraffic, exchange: Exchange, level: int) -> bool:
    """Whether the network at `level`, that an exchange crosses, carries it; of several perhaps the outermost only."""
    if tensor.semantics.network_traffic == "all":
        return True
    return not any(exchange.parent.level < other < level for other, _ in networks_of(tensor.path))


def _refuse_copies(path: EinsumPath, level: int, network: Network) -> None:
    lanes = [loop for loop in path.loops if loop.level is not None and loop.level >= level and not loop.absent]
    levels = [stations[0].level for stations in path.stations.values()]
    if lanes and min(levels) < level < max(levels):
        raise NotSupportedError(
            f"the copy Einsum {path.einsum.name!r} crosses the network {network.name!r} to several lanes; "
            "that is not supported yet"
        )


@dataclass
class Crossing:
    """One exchange of one tensor that crosses a network."""

    tensor: TensorTraffic
    exchange: Exchange
    level: int
    network: Network
    lanes: Mapping[int, range]
    """Lanes of each spatial loop whose traffic differs."""

    def __post_init__(self) -> None:
        self.path = self.tensor.path
        self.loops = [i for i in self.path.spatial_loops if self._is_routed(i)]
        self.above = {i: FIRST for i in self.path.spatial_loops if (self.path.loops[i].level or 0) < self.level}

        self._refuse_mixed_lanes()

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
        if isinstance(total, int | float) and not total:
            return  # no lanes, or another Einsum pays for the buffer that both use
        use.busiest_hops = use.busiest_hops + self.hops(self.above) * rate
        mesh = self.network.topology == "mesh"
        route = sum(self.path.loops[i].iterations * self.stride(i) if mesh else 1 for i in self.loops)
        use.max_hops = max(use.max_hops, route)
        for index in self.loops:
            for fixed in self.entrances(index):
                above = tuple(fixed[i] for i in self.above)
                key = above, self.dimension(index), self.place(index, fixed)
                links[key] = links.get(key, 0) + self.link(index, fixed) * rate

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

    def hops_along(self, index: int, fixed: Fixed) -> Count:
        """Hops of values along one of the loops."""
        multicast = self.tensor.counts.merges(self.path.loops[index])
        total: Count = 0
        for lane in range(1, self.path.loops[index].iterations):
            steps = self.stride(index) * (1 if multicast else lane) if self.network.topology == "mesh" else 1
            total = total + steps * self.passing(index, lane, fixed)
        return total

    def link(self, index: int, fixed: Fixed) -> Count:
        """Values that pass the first link along a loop, next to where they enter, over all visits."""
        multicast = self.tensor.counts.merges(self.path.loops[index])
        lanes = range(1, 2 if multicast else self.path.loops[index].iterations)
        total: Count = 0
        for lane in lanes:
            total = total + self.passing(index, lane, fixed)
        return total

    def passing(self, index: int, lane: Take, fixed: Fixed) -> Count:
        """Values for one lane of a loop and all that is further in, down and up; multicast counts once."""
        inner = self.loops[self.loops.index(index) + 1 :]
        once = {i: FIRST for i in inner if self.tensor.counts.merges(self.path.loops[i])}
        lanes = {**fixed, **once, index: lane}
        child = self.exchange.child
        if self.tensor.semantics.network_traffic == "one delivery":
            return self._delivered(index, lanes)
        flow = self.tensor.flow(self.exchange, child, lanes)
        down = flow.live + (flow.initial if self.tensor.pays_initial(self.exchange, child) else 0)
        return down + flow.up

    def _delivered(self, index: int, lanes: Mapping[int, Take]) -> Count:
        """What one lane of a spatial loop needs at a time, each value once, for every iteration of the loops above it.

        At a time: within the temporal loops that are written below the spatial loop and above the child.
        """
        child, parent = self.exchange.child, self.exchange.parent
        takes = list(self.tensor.takes(child, child, lanes))
        for below, loop in enumerate(self.path.loops[index + 1 :], index + 1):
            irrelevant = self.tensor.counts.relevance_of(below) is Relevance.NONE
            if takes[below] == ALL and irrelevant and not loop.is_spatial and not applies(loop, parent):
                takes[below] = FIRST
        return self.tensor.counts.values(tuple(takes))
