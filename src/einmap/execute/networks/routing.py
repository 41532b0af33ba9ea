"""Networks: every value that crosses one is routed to its lane, link by link.

The lanes of a network are the iterations of the spatial loops over it or what is below it. A lane has a place along
each fanout. Values enter at the place of the first lane and go along the loops' fanouts, outermost loop first; lanes
of a loop that use one copy pass it on from one to the next. Results go the same way back. Over a tree or a bus they go
to all lanes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from einmap.arch.component import Network, is_carrying
from einmap.execute.networks.links import Link, Place, by_bus, by_tree, is_handed_on, links_between
from einmap.execute.results.result import Crossed, Load
from einmap.schedule.routes import Instance, Route, Turn

type Home = Mapping[tuple[str, str], int]
"""The place of a unit along fanouts, each a level on the architecture path and a name."""


@dataclass
class Wires:
    """Counts steps and the load of each link.

    `hops`: steps times values, by (Einsum, network, tensor) and by lanes above the network. `loads`: actions;
    `first`: those of the first fill and the first write-back of each node. `longest`: steps of the longest route;
    `routes`: of each tensor's transfers.
    """

    hops: dict[tuple[str, str, str], dict[Instance, int]] = field(default_factory=dict)
    loads: dict[Crossed, dict[Load, float]] = field(default_factory=dict)
    first: dict[Crossed, dict[Load, float]] = field(default_factory=dict)
    longest: dict[tuple[str, str], int] = field(default_factory=dict)
    routes: dict[tuple[Crossed, str], int] = field(default_factory=dict)

    def carry(
        self,
        route: Route,
        tensor: str,
        levels: tuple[int, int],
        amounts: Mapping[Instance, int],
        *,
        up: bool,
        home: Home | None = None,
        first: bool = False,
    ) -> None:
        """Count values that go between a holder and the lanes of one further in, at these levels; `up`: outward.

        `home`: where the values lie if that is not where the lanes begin. `first`: the first time that they go so.
        """
        (outer, inner), path = levels, route.arch.path(route.unit.name)
        for level, network in enumerate(path):
            if is_carrying(network) and outer < level < inner:
                lanes = _Lanes(route, tensor, network, (level, inner), up, home)
                crossed = route.einsum.name, network.name, path[inner].name
                steps = lanes.longest(amounts)
                self.routes[crossed, tensor] = max(self.routes.get((crossed, tensor), 0), steps)
                if any(amounts.values()):
                    self.longest[crossed[:2]] = max(self.longest.get(crossed[:2], 0), steps)
                    self._route(lanes, amounts, [self.loads, self.first] if first else [self.loads], crossed)

    def _route(
        self,
        lanes: _Lanes,
        amounts: Mapping[Instance, int],
        counted_in: Sequence[dict[Crossed, dict[Load, float]]],
        crossed: Crossed,
    ) -> None:
        network, there = lanes.network, (*crossed[:2], lanes.tensor)
        rate = network.action("hop").actions_per_value[lanes.tensor] * network.actions_scale
        owner = lanes.tensor if network.links == "per_tensor" else ""
        counted = self.hops.setdefault(there, {})
        loads = [of.setdefault(crossed, {}) for of in counted_in]
        for above, steps, links, values in lanes.ways(amounts):
            counted[above] = counted.get(above, 0) + steps * values
            for link in links:
                for of_link in loads:
                    load = above, owner, link
                    of_link[load] = of_link.get(load, 0) + values * rate

    def busiest_link(self, einsum: str, network: str) -> float:
        """Actions on the link that has most."""
        return busiest_link([of_link for at, of_link in self.loads.items() if at[:2] == (einsum, network)])


def busiest_link(loads: Sequence[Mapping[Load, float]]) -> float:
    """Actions on the link that has most, of several children together."""
    total: dict[Load, float] = {}
    for of_link in loads:
        for load, n in of_link.items():
            total[load] = total.get(load, 0) + n
    return max(total.values(), default=0)


type _Way = tuple[Instance, int, Sequence[Link], int]
"""Lanes above the network, steps, links and values."""


class _Lanes:
    """The lanes of one level that a network reaches, for one tensor and direction."""

    def __init__(
        self,
        route: Route,
        tensor: str,
        network: Network,
        levels: tuple[int, int],
        up: bool,
        home: Home | None = None,
    ) -> None:
        level, inner = levels
        self.route = route
        self.tensor = tensor
        self.network = network
        self.able = network.adds_on_the_way if up else network.multicast
        spread = [t for t in route.lane_turns if t.level is not None and t.level <= inner]
        self.turns = [t for t in spread if t.level is not None and t.level >= level]
        self.positions = [spread.index(t) for t in self.turns]
        self.outside = [i for i, t in enumerate(spread) if t not in self.turns]
        leaves = enumerate(route.arch.path(route.unit.name))
        self.sizes = {(str(at), d.name): d.fanout for at, leaf in leaves if at >= level for d in leaf.spatial}
        self.fanouts = list(self.sizes)
        self.is_home = home is not None
        self.begin = self._digits(home or {})

    def _digits(self, home: Home) -> list[int]:
        """The iteration of each loop at which values lie."""
        left, digits = dict(home), []
        for number, turn in enumerate(self.turns):
            digit, left[self._fanout(turn)] = divmod(left.get(self._fanout(turn), 0), self.stride(number))
            digits.append(digit)
        return digits

    def _fanout(self, turn: Turn) -> tuple[str, str]:
        assert turn.dimension is not None
        assert turn.level is not None
        return str(turn.level), turn.dimension.name

    def shares(self, turn: Turn) -> bool:
        """Whether lanes of a loop pass on one copy, or one sum."""
        return self.able and self.route.merges(turn, self.tensor)

    def stride(self, number: int) -> int:
        """Places between two lanes of a loop that follow each other."""
        steps = 1
        for turn in self.turns[number + 1 :]:
            if self._fanout(turn) == self._fanout(self.turns[number]):
                steps *= self.route.iterations[turn.address]
        return steps

    def _links(self, begin: Place, end: Place) -> tuple[Link, ...]:
        return links_between(self.network.topology, tuple(self.sizes.values()), begin, end)

    def longest(self, amounts: Mapping[Instance, int]) -> int:
        """Steps of the longest route, the one into each loop's lanes included."""
        if self.is_home:
            needing = (lane for lane, values in amounts.items() if values)
            return max((sum(self._reach(n, lane) for n in range(len(self.turns))) for lane in needing), default=0)
        match self.network.topology:
            case "all_to_all":
                return len(self.turns)
            case "bus":
                return 1
            case "tree":
                return len(by_tree((0,) * len(self.sizes), tuple(self.sizes.values())))
            case "mesh":
                return sum(self.route.iterations[t.address] * self.stride(n) for n, t in enumerate(self.turns))
        return sum(self._farthest(n) + self.stride(n) for n in range(len(self.turns)) if self._is_walked(n))

    def _reach(self, number: int, lane: Instance) -> int:
        """Steps along a loop from the unit where values lie to a lane, and the one into the loop's first lane."""
        apart = abs(lane[self.positions[number]] - self.begin[number])
        if not apart or self.network.topology == "all_to_all":
            return int(apart > 0)
        return (apart + 1) * self.stride(number)

    def _farthest(self, number: int) -> int:
        """Steps from the first lane of a loop to the one that takes most; from lane to lane where they share."""
        nothing = (0,) * (1 + max(self.positions, default=0))
        places = []
        for lane in range(self.route.iterations[self.turns[number].address]):
            at = list(nothing)
            at[self.positions[number]] = lane
            places.append(self._place(tuple(at)))
        if self.shares(self.turns[number]):
            return sum(len(self._links(a, b)) for a, b in pairwise(places))
        return max(len(self._links(places[0], place)) for place in places)

    def _is_walked(self, number: int) -> bool:
        if self.network.topology != "systolic":
            return True
        shared = [self.shares(turn) for turn in self.turns]
        return is_handed_on(number, shared, [self._fanout(turn) for turn in self.turns])

    def above(self, lane: Instance) -> Instance:
        """The instance of the network that serves a lane."""
        return tuple(lane[i] for i in self.outside)

    def ways(self, amounts: Mapping[Instance, int]) -> Iterator[_Way]:
        """How values go to their lanes, or come from them."""
        if self.network.topology in ("bus", "tree"):
            yield from self._at_once(amounts)
            return
        for number in range(len(self.turns)):
            if self._is_walked(number):
                for entrance, lanes in self._groups(number, amounts):
                    for steps, links, values in self._along(number, entrance, lanes):
                        yield self.above(entrance), steps, links, values

    def _at_once(self, amounts: Mapping[Instance, int]) -> Iterator[_Way]:
        """Over a tree or a bus: once over the links to all lanes that use one copy."""
        groups: dict[Instance, dict[Instance, int]] = {}
        for lane, values in amounts.items():
            data = list(lane)
            for turn, at in zip(self.turns, self.positions, strict=True):
                if self.shares(turn):
                    data[at] = 0
            groups.setdefault(tuple(data), {})[lane] = values
        reach = by_tree if self.network.topology == "tree" else by_bus
        for first, lanes in groups.items():
            links = {
                link
                for lane, values in lanes.items()
                if values
                for link in reach(self._place(lane), tuple(self.sizes.values()))
            }
            yield self.above(first), len(links), sorted(links), max(lanes.values())

    def _groups(
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
                entrance[at] = self.begin[later]
                if self.shares(self.turns[later]):
                    data[at] = 0
            here = groups.setdefault(tuple(entrance), {}).setdefault(lane[self.positions[number]], {})
            here[tuple(data)] = max(here.get(tuple(data), 0), values)
        yield from groups.items()

    def _along(
        self, number: int, entrance: Instance, lanes: Mapping[int, Mapping[Instance, int]]
    ) -> Iterator[tuple[int, Sequence[Link], int]]:
        """How the data of a group go along one loop: steps, links, values."""
        shared = self.shares(self.turns[number])
        if self.network.topology == "all_to_all":
            yield from self._direct(number, entrance, lanes, shared)
            return
        home = self.begin[number]
        for end in range(min(home, *lanes), max(home, *lanes) + 1):
            if end == home:
                continue
            if shared or self.network.topology == "mesh":
                # what passes to lane `end` from the one before it, for all that is behind it
                way = 1 if end > home else -1
                behind = [lane for lane in lanes if (lane - end) * way >= 0]
                begin, data = end - way, [(each, n) for lane in behind for each, n in lanes[lane].items()]
            else:
                begin, data = home, list(lanes.get(end, {}).items())
            values: dict[Instance, int] = {}
            for each, n in data:
                values[each] = max(values.get(each, 0), n)
            places = []
            for lane in (begin, end):
                at = list(entrance)
                at[self.positions[number]] = lane
                places.append(self._place(tuple(at)))
            links = self._links(*places)
            yield len(links), links, sum(values.values())

    def _direct(
        self, number: int, entrance: Instance, lanes: Mapping[int, Mapping[Instance, int]], shared: bool
    ) -> Iterator[tuple[int, Sequence[Link], int]]:
        """One step to each lane but the first; the sender sends what lanes share once."""
        port = "port", self._fanout(self.turns[number]), self._place(entrance)
        sent: dict[Instance, int] = {}
        for lane, data in lanes.items():
            if lane != self.begin[number]:
                yield 1, [], sum(data.values())
                for each, values in data.items():
                    sent[each] = max(sent.get(each, 0), values) if shared else values
        yield 0, [port], sum(sent.values())

    def _place(self, lane: Instance) -> Place:
        place = dict.fromkeys(self.fanouts, 0)
        for number, turn in enumerate(self.turns):
            at = self.positions[number]
            place[self._fanout(turn)] += (lane[at] if at < len(lane) else 0) * self.stride(number)
        return tuple(place.values())
