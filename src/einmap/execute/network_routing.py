"""Networks: every value that crosses one is routed to its lane, link by link.

The lanes of a network are the iterations of the spatial loops over it or what is below it. A lane has a place along
each fanout. Values enter at the place of the first lane and go along the loops' fanouts, outermost loop first; lanes
of a loop that use one copy pass it on from one to the next. Results go the same way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from einmap.arch.component import Network
from einmap.schedule.routes import Instance, Route, Turn

type Link = tuple[str, str, tuple[str, str], Instance, tuple[int, ...], int]
"""Einsum, network, fanout, lanes above the network, place along all fanouts, place of the link's far end."""


@dataclass
class Wires:
    """Counts steps and the load of each link.

    `hops`: steps times values, by (Einsum, network, tensor) and by lanes above the network. `loads`: actions.
    `longest`: steps of the longest route.
    """

    hops: dict[tuple[str, str, str], dict[Instance, int]] = field(default_factory=dict)
    loads: dict[Link, float] = field(default_factory=dict)
    longest: dict[tuple[str, str], int] = field(default_factory=dict)

    def carry(self, route: Route, tensor: str, inner: int, outer: int, amounts: Mapping[Instance, int]) -> None:
        """Count values that go between a holder at level `outer` and the lanes of one at level `inner`."""
        for level, network in enumerate(route.arch.path(route.unit.name)):
            if isinstance(network, Network) and outer < level < inner and any(amounts.values()):
                self._route(_Mesh(route, tensor, network, level, inner), amounts)

    def _route(self, mesh: _Mesh, amounts: Mapping[Instance, int]) -> None:
        name, network = mesh.route.einsum.name, mesh.network.name
        key, there = (name, network), (name, network, mesh.tensor)
        rate = mesh.network.action("hop").actions_per_value[mesh.tensor]
        self.hops.setdefault(there, {})
        self.longest[key] = max(self.longest.get(key, 0), mesh.longest())
        for number in range(len(mesh.turns)):
            for entrance, lanes in mesh.groups(number, amounts):
                for steps, links, values in mesh.ways(number, entrance, lanes):
                    hops = self.hops[there]
                    hops[mesh.above(entrance)] = hops.get(mesh.above(entrance), 0) + steps * values
                    for fanout, place, end in links:
                        link = (name, network, fanout, mesh.above(entrance), place, end)
                        self.loads[link] = self.loads.get(link, 0) + values * rate

    def busiest_link(self, einsum: str, network: str) -> float:
        """Actions on the link that has most."""
        return max((n for link, n in self.loads.items() if link[:2] == (einsum, network)), default=0)


type _Way = tuple[int, list[tuple[tuple[str, str], tuple[int, ...], int]], int]
"""Steps, links (fanout, place, far end) and values."""


class _Mesh:
    """The lanes of one level that a network reaches, for one tensor."""

    def __init__(self, route: Route, tensor: str, network: Network, level: int, inner: int) -> None:
        self.route = route
        self.tensor = tensor
        self.network = network
        spread = [t for t in route.lane_turns if t.level is not None and t.level <= inner]
        self.turns = [t for t in spread if t.level is not None and t.level >= level]
        self.positions = [spread.index(t) for t in self.turns]
        self.outside = [i for i, t in enumerate(spread) if t not in self.turns]
        self.fanouts = list(dict.fromkeys(self._fanout(t) for t in route.lane_turns if (t.level or 0) >= level))

    def _fanout(self, turn: Turn) -> tuple[str, str]:
        assert turn.dimension is not None
        assert turn.level is not None
        return str(turn.level), turn.dimension.name

    def stride(self, number: int) -> int:
        """Places between two lanes of a loop that follow each other."""
        steps = 1
        for turn in self.turns[number + 1 :]:
            if self._fanout(turn) == self._fanout(self.turns[number]):
                steps *= self.route.iterations[turn.address]
        return steps

    def longest(self) -> int:
        """Steps of the longest route, the one into each loop's lanes included."""
        if self.network.topology == "all_to_all":
            return len(self.turns)
        return sum(self.route.iterations[t.address] * self.stride(n) for n, t in enumerate(self.turns))

    def above(self, lane: Instance) -> Instance:
        """The instance of the network that serves a lane."""
        return tuple(lane[i] for i in self.outside)

    def groups(
        self, number: int, amounts: Mapping[Instance, int]
    ) -> Iterator[tuple[Instance, dict[int, dict[Instance, int]]]]:
        """For each place where a loop's lanes begin: by iteration the data for it, each with its values.

        Lanes further in that use one copy of the data count as one.
        """
        groups: dict[Instance, dict[int, dict[Instance, int]]] = {}
        for lane, values in amounts.items():
            entrance, data = list(lane), list(lane)
            for later in range(number, len(self.turns)):
                at = self.positions[later]
                entrance[at] = 0
                if self.route.merges(self.turns[later], self.tensor):
                    data[at] = 0
            here = groups.setdefault(tuple(entrance), {}).setdefault(lane[self.positions[number]], {})
            here[tuple(data)] = max(here.get(tuple(data), 0), values)
        yield from groups.items()

    def ways(self, number: int, entrance: Instance, lanes: Mapping[int, Mapping[Instance, int]]) -> Iterator[_Way]:
        """How the data of a group go along one loop."""
        shared = self.route.merges(self.turns[number], self.tensor)
        if self.network.topology == "all_to_all":
            yield from self._direct(number, entrance, lanes, shared)
            return
        for end in range(1, max(lanes) + 1):
            # what passes from lane `end - 1` to lane `end`
            beyond: dict[Instance, int] = {}
            for lane, data in lanes.items():
                for each, values in data.items():
                    if lane >= end:
                        beyond[each] = max(beyond.get(each, 0), values)
            links = self._links(number, entrance, end)
            yield len(links), links, sum(beyond.values())

    def _direct(
        self, number: int, entrance: Instance, lanes: Mapping[int, Mapping[Instance, int]], shared: bool
    ) -> Iterator[_Way]:
        """One step to each lane but the first; the sender sends what lanes share once."""
        port = (self._fanout(self.turns[number]), self._place(entrance), 0)
        sent: dict[Instance, int] = {}
        for lane, data in lanes.items():
            if lane:
                yield 1, [], sum(data.values())
                for each, values in data.items():
                    sent[each] = max(sent.get(each, 0), values) if shared else values
        yield 0, [port], sum(sent.values())

    def _place(self, lane: Instance) -> tuple[int, ...]:
        place = dict.fromkeys(self.fanouts, 0)
        for number, turn in enumerate(self.turns):
            place[self._fanout(turn)] += lane[self.positions[number]] * self.stride(number)
        return tuple(place.values())

    def _links(self, number: int, entrance: Instance, end: int) -> list[tuple[tuple[str, str], tuple[int, ...], int]]:
        fanout, stride = self._fanout(self.turns[number]), self.stride(number)
        place = list(self._place(entrance))
        at = self.fanouts.index(fanout)
        base, place[at] = place[at], 0
        return [(fanout, tuple(place), base + step) for step in range((end - 1) * stride + 1, end * stride + 1)]
