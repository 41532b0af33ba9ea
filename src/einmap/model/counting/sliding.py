"""Sliding windows: which storage nodes keep what the next visit needs again, as a line buffer does.

A node slides over a tensor along the innermost temporal loop of more than one iteration above it, when the loop's
variable is partially relevant to the tensor: consecutive visits then overlap, and only what is new is fetched, only
what leaves is written back. The backing node of an intermediate exchanges nothing; where it slides, consumers may
read what the visit before held: the halo of fused layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.arch.component import Memory
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.model.counting.hull import User
from einmap.model.counting.path import EinsumPath, Loop, Station

type Slides = Mapping[tuple[str, Address], Address]
"""For tensors at storage nodes that slide: the loop."""


@dataclass(frozen=True)
class Windows:
    """Finds the nodes of one mapping that slide. `everywhere`: what nodes do that say nothing themselves."""

    mapping: LoopTree
    workload: Workload
    paths: Mapping[str, EinsumPath]
    order: tuple[str, ...]
    everywhere: bool

    @property
    def asked(self) -> tuple[Address, ...]:
        """The nodes that are to slide where they can."""
        return tuple(address for tensor, address in self._nodes() if tensor not in self.workload.states)

    def slides(self, *, possible: bool = False) -> Slides:
        """The storage nodes that slide, each with its loop; `possible`: as if every node was asked to slide."""
        slides: dict[tuple[str, Address], Address] = {}
        for (tensor, address), users in self._nodes(every=possible).items():
            loop = self._loop_of(tensor, users)
            if loop is not None:
                slides[tensor, address] = loop
        return slides

    def _nodes(self, *, every: bool = False) -> dict[tuple[str, Address], list[User]]:
        users: dict[tuple[str, Address], list[User]] = {}
        for path in (self.paths[name] for name in self.order):
            for tensor, stations in path.stations.items():
                for station in stations:
                    asked = self.everywhere if station.sliding_window is None else station.sliding_window
                    asked = asked or (tensor in self.workload.states and station is stations[0])
                    if isinstance(station.component, Memory) and (asked or every):
                        user = User(path, path.einsum.by_tensor[tensor], station)
                        users.setdefault((tensor, station.address), []).append(user)
        return users

    def _loop_of(self, tensor: str, users: list[User]) -> Address | None:
        loops = [innermost_temporal(user.path, user.station) for user in users]
        if tensor in self.workload.states and any(user.path.stations[tensor][0] is user.station for user in users):
            return self._between_steps(tensor, loops)
        if any(user.path.einsum.is_copy for user in users):
            return None
        if any(user.path.stations[tensor][0] is user.station for user in users):
            return self._halo(tensor, users, loops)
        for user, loop in zip(users, loops, strict=True):
            if loop is None or user.access.relevance(loop.variable) is not Relevance.PARTIAL:
                return None
        assert loops[0] is not None
        address = loops[0].address
        writer = next((user for user in users if user.access.output), None)
        if writer is not None:
            alike = len({user.signature for user in users}) == 1
            keeps = alike and not self._splits(writer, loops[0]) and not takes_turns(writer.path, writer)
            return address if keeps else None
        return address if self._settled(tensor, address) else None

    def _between_steps(self, tensor: str, loops: list[Loop | None]) -> Address | None:
        """The loop over the time of a recurrence, along which the backing node of a state keeps what is read later."""
        over = {lp.address for lp in loops if lp and lp.variable == self.workload.states[tensor].variable}
        return over.pop() if len(over) == 1 else None

    def _halo(self, tensor: str, users: list[User], loops: list[Loop | None]) -> Address | None:
        """The loop along which the backing node of an intermediate keeps what consumers read again."""
        addresses = {loop.address for loop in loops if loop is not None}
        if tensor not in self.workload.intermediates or None in loops or len(addresses) > 1:
            return None
        relevance = [
            (user, user.access.relevance(loop.variable)) for user, loop in zip(users, loops, strict=True) if loop
        ]
        overlap = any(r is Relevance.PARTIAL for user, r in relevance if not user.access.output)
        written = any(r is Relevance.FULL for user, r in relevance if user.access.output)
        (address,) = addresses
        return address if overlap and written else None

    def _splits(self, user: User, loop: Loop) -> bool:
        """Whether a split stands between the loop and the node."""
        between = self.mapping.path_of[user.path.einsum.name][loop.position : user.station.position]
        return any(isinstance(placed.node, tree.Split) for placed in between)

    def _settled(self, tensor: str, loop: Address) -> bool:
        """Whether what is read of the tensor in one iteration of the loop is the same in the next one."""
        producer = self.paths.get(self.workload.producers.get(tensor, ""))
        if producer is None:
            return True
        producer_loop = next((lp for lp in producer.loops if lp.address == loop), None)
        if producer_loop is None:
            return True
        if producer.einsum.is_copy:
            return False
        written = producer.einsum.by_tensor[tensor]
        forward = all(a > 0 for _, index in written.projection for _, a in index.terms)
        return forward and written.relevance(producer_loop.variable) is Relevance.FULL


def innermost_temporal(path: EinsumPath, station: Station) -> Loop | None:
    """The innermost temporal loop of more than one iteration above a station."""
    above = [lp for lp in path.loops if not lp.is_spatial and not lp.absent and lp.position < station.position]
    return above[-1] if above else None


def takes_turns(path: EinsumPath, user: User) -> bool:
    """Whether lanes hand elements of an output on to each other, through the parent, within one time step."""
    stations = [s for s in path.stations[user.access.tensor] if isinstance(s.component, Memory)]
    parent = stations[stations.index(user.station) - 1]
    for loop in path.loops:
        if loop.absent or loop.level is None or not parent.level < loop.level <= user.station.level:
            continue
        relevance = user.access.relevance(loop.variable)
        assert loop.dimension is not None
        merged = relevance is Relevance.NONE and user.access.tensor in loop.dimension.may_reuse
        if relevance is not Relevance.FULL and not merged:
            return True
    return False


def slides_on(path: EinsumPath, slides: Slides) -> dict[str, dict[int, int]]:
    """The nodes that slide on one Einsum's path: by tensor and position the index of the loop."""
    index = {loop.address: i for i, loop in enumerate(path.loops)}
    slid: dict[str, dict[int, int]] = {}
    for tensor, stations in path.stations.items():
        for station in stations:
            loop = slides.get((tensor, station.address))
            if loop is not None:
                slid.setdefault(tensor, {})[station.position] = index[loop]
    return slid
