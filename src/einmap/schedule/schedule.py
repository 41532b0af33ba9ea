"""The schedule of a mapping: who holds what where, from when to when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from einmap.arch.component import Memory
from einmap.einsum.einsum import Einsum
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError, SpecError
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.mapping.pipelines import PlacedPipeline, pipelines_in
from einmap.schedule.copies import aliases, used_by_copy
from einmap.schedule.place import NodeTensor, Place
from einmap.schedule.routes import Hold, Route
from einmap.schedule.sliding import sliding_loops


@dataclass(frozen=True, eq=False)
class Schedule:
    """A mapping as it runs.

    `routes`: of each Einsum, in written order; `places`: each tensor at each storage node, with all who use it there;
    `sliding`: for each buffer that slides the loop that it slides along.
    """

    mapping: LoopTree
    workload: Workload
    routes: Mapping[str, Route]
    places: Mapping[NodeTensor, Place]
    sliding: Mapping[NodeTensor, Address]

    @cached_property
    def several(self) -> frozenset[str]:
        """Intermediates that have a backing node in each branch: they pass through the memory itself."""
        nodes: dict[str, set[Address]] = {}
        for place in self.places.values():
            if place.is_backing():
                nodes.setdefault(place.hold.tensor, set()).add(place.hold.address)
        return frozenset(t for t, addresses in nodes.items() if len(addresses) > 1)

    @cached_property
    def ending(self) -> Mapping[Address, list[NodeTensor]]:
        """By loop over the time of a recurrence the buffers above it of states that nothing reads but the last step of.

        They keep the steps of one iteration alone.
        """
        found: dict[Address, list[NodeTensor]] = {}
        for key, place in self.places.items():
            if key[1] in self.workload.ending and place.is_backing():
                variable = self.workload.states[key[1]].variable
                turns = ((r, t) for r in place.users for t in r.turns if t.variable == variable)
                for loop in {
                    turn.address: None
                    for route, turn in turns
                    if route.iterations[turn.address] > 1 and turn.position > place.holds[route.einsum.name].position
                    if turn.level is None and route.einsum.name in self.workload.states[key[1]].einsums
                }:
                    found.setdefault(loop, []).append(key)
        return found

    @cached_property
    def pipelines(self) -> Mapping[Address, PlacedPipeline]:
        """The Pipelines by address."""
        return {pipeline.address: pipeline for pipeline in pipelines_in(self.mapping, self.workload)}

    @cached_property
    def aliases(self) -> Mapping[tuple[str, str], str]:
        """(memory, tensor) pairs that a copy keeps in the memory of its source, with a common name."""
        return aliases(self.routes)

    @cached_property
    def lasting(self) -> frozenset[object]:
        """Persistent buffers: they have their space from the first step to the last."""
        return frozenset(self.buffer_of(key) for key, place in self.places.items() if place.hold.persistent)

    @property
    def begins(self) -> Mapping[Address, list[NodeTensor]]:
        """The buffers whose space begins at a node or branch."""
        return self._lifetimes[0]

    @property
    def ends(self) -> Mapping[Address, list[NodeTensor]]:
        """The buffers whose space ends at a node or branch."""
        return self._lifetimes[1]

    @cached_property
    def _lifetimes(self) -> tuple[dict[Address, list[NodeTensor]], dict[Address, list[NodeTensor]]]:
        """Where the space of each buffer begins and ends: at its node, or at a branch of a split below it."""
        begins: dict[Address, list[NodeTensor]] = {}
        ends: dict[Address, list[NodeTensor]] = {}
        for key, place in self.places.items():
            if key in self.sliding:
                continue  # lives while its loop runs
            begins.setdefault(self.edge(place, first=True), []).append(key)
            ends.setdefault(self.edge(place, first=False), []).append(key)
        return begins, ends

    def edge(self, place: Place, *, first: bool) -> Address:
        """Where the space of a buffer begins (`first`) or ends: at its node, or at a branch of a split below it."""
        route = place.users[0 if first else -1]
        at = place.hold.address
        for position, placed in enumerate(self.mapping.path_of[route.einsum.name]):
            if position <= place.holds[route.einsum.name].position:
                continue
            if isinstance(placed.node, tree.Temporal) and route.iterations[placed.address] > 1:
                break
            if isinstance(placed.node, tree.Split):
                at = self.mapping.path_of[route.einsum.name][position + 1].address[: len(placed.address) + 1]
            if isinstance(placed.node, tree.Pipeline):
                break  # as long as a stage works on its tile
        return at

    def below(self, address: Address) -> list[Route]:
        """Routes that pass a node."""
        return [r for r in self.routes.values() if any(t.address == address for t in r.turns)]

    def buffer_of(self, key: NodeTensor) -> object:
        """Identity of the buffer: a tensor that is backed in each of several branches is one buffer."""
        return key[1] if key[1] in self.several and self.places[key].is_backing() else key

    def is_last(self, key: NodeTensor) -> bool:
        """Whether a node is the last of its buffer to run."""
        return self.nodes_of(key)[-1] == key

    def nodes_of(self, key: NodeTensor) -> list[NodeTensor]:
        """All nodes of the one buffer that a node belongs to, in the order in which they run."""
        if self.buffer_of(key) == key:
            return [key]
        return [k for k, p in self.places.items() if k[1] == key[1] and p.is_backing()]


def schedule_of(mapping: LoopTree, workload: Workload, routes: Mapping[str, Route], slides: bool) -> Schedule:
    """The schedule of a mapping that has been validated. `slides`: nodes that do not say so slide where they can.

    Raises SpecError for operations that are not arithmetic; NotSupportedError where one node holds a tensor for Einsums
    that spread it over lanes in different ways.
    """
    for route in routes.values():
        _refuse_unexecutable(route.einsum)
    places = _places(routes)
    return Schedule(mapping, workload, routes, places, sliding_loops(mapping, workload, routes, places, slides))


def _refuse_unexecutable(einsum: Einsum) -> None:
    if einsum.operation.map is None:
        text = f"the operation of Einsum {einsum.name!r} is not arithmetic that einmap can execute"
        raise SpecError(f"{text}: {einsum.operation.text}")


def _places(routes: Mapping[str, Route]) -> dict[NodeTensor, Place]:
    users_holds: dict[NodeTensor, dict[str, Hold]] = {}
    for name, route in routes.items():
        for holds in route.holds.values():
            for hold in holds:
                if isinstance(hold.component, Memory) and (not route.einsum.is_copy or hold in used_by_copy(route)):
                    users_holds.setdefault((hold.address, hold.tensor), {})[name] = hold
    places = {}
    for key, holds_by_name in users_holds.items():
        users = tuple(routes[name] for name in holds_by_name)
        first = next(iter(holds_by_name.values()))
        # counts, not the lanes themselves: there may be a billion of them
        counts = {r.lane_counts(h.level) for r, h in zip(users, holds_by_name.values(), strict=True)}
        if len(counts) > 1:
            raise NotSupportedError(
                f"{key[1]!r} is held once for several Einsums that spread it over lanes in different ways; "
                "that is not supported yet"
            )
        places[key] = Place(first, users, holds_by_name)
    return places
