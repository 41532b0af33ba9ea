"""The tile of each storage node: which indices it covers, as integers of the code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from einmap.arch.component import Memory
from einmap.einsum.spaces.projection import Affine, Lookup
from einmap.emit.language.linear import Linear, named, number
from einmap.emit.language.program import ALWAYS, All, Any, Condition, Definition, Extreme, Is
from einmap.emit.lowering.scope import Applies, Indices, Scope
from einmap.errors import NotSupportedError
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box, box_of, hull, stored_box
from einmap.schedule.place import Place
from einmap.schedule.routes import Hold, Route, Turn
from einmap.schedule.schedule import Schedule
from einmap.schedule.sliding import is_alike

MAX_TILES = 200_000
"""Tiles of one storage node that are compared where Einsums use different parts of it."""

type Range = tuple[Linear, Linear]
"""First index and number of indices."""


@dataclass(frozen=True)
class Tile:
    """The box of a storage node: a range for each rank, what has to be defined first, and where it is not empty."""

    ranges: tuple[Range, ...]
    definitions: tuple[Definition, ...]
    condition: Condition

    @property
    def sizes(self) -> tuple[Linear, ...]:
        """Number of indices of each rank."""
        return tuple(size for _, size in self.ranges)

    @property
    def start(self) -> tuple[Linear, ...]:
        """First index of each rank."""
        return tuple(low for low, _ in self.ranges)


def applies_at(hold: Hold) -> Applies:
    """The loops that cut the tile of a storage node."""

    def applies(turn: Turn) -> bool:
        return turn.position < hold.position if turn.level is None else turn.level <= hold.level

    return applies


def lane_turns(route: Route, level: int) -> tuple[Turn, ...]:
    """The spatial loops that spread a component at `level`."""
    return tuple(t for t in route.lane_turns if t.level is not None and t.level <= level)


@dataclass(frozen=True)
class Boxes:
    """Boxes of storage nodes, seen from the loops of one of their Einsums."""

    indices: Indices

    def tile(self, place: Place, acting: Route, scope: Scope) -> Tile:
        """Tile that all users of the node need together."""
        tiles = [self.part(place, user, acting, scope) for user in place.users]
        first = tiles[0]
        if all(tile.ranges == first.ranges and tile.condition == first.condition for tile in tiles):
            return first
        definitions = tuple(d for tile in tiles for d in tile.definitions)
        ranges = []
        for rank in range(len(first.ranges)):
            parts = [(tile.ranges[rank], tile.condition) for tile in tiles]
            low = self._extreme([(start, c) for (start, _), c in parts], False, place)
            high = self._extreme([(start + size, c) for (start, size), c in parts], True, place)
            definitions += tuple(d for d in (low[1], high[1]) if d is not None)
            ranges.append((low[0], high[0] - low[0]))
        conditions = dict.fromkeys(tile.condition for tile in tiles)
        condition = ALWAYS if ALWAYS in conditions else Any(tuple(conditions))
        return Tile(tuple(ranges), definitions, condition)

    def part(self, place: Place, user: Route, acting: Route, scope: Scope) -> Tile:
        """Tile that one user needs, with the lanes of `acting`."""
        hold = place.holds[user.einsum.name]
        theirs = lane_turns(acting, place.holds[acting.einsum.name].level)
        renaming = {
            mine.address: named(self.indices.index_of[other.address])
            for mine, other in zip(lane_turns(user, hold.level), theirs, strict=True)
        }
        intervals = {
            v: self.indices.interval(user, v, scope, applies_at(hold), renaming) for v in user.einsum.rank_variables
        }
        starts = {v: i.start for v, i in intervals.items()}
        sizes = {v: i.size for v, i in intervals.items()}
        ranges = tuple(range_of(index, starts, sizes) for index in indices_at(place, user))
        guards = dict.fromkeys(g for i in intervals.values() for g in i.guards)
        condition = All(tuple(Is(g, "positive") for g in guards))
        return Tile(ranges, tuple(let for i in intervals.values() for let in i.lets), condition)

    def _extreme(
        self, options: list[tuple[Linear, Condition]], largest: bool, place: Place
    ) -> tuple[Linear, Definition | None]:
        first = options[0][0]
        distances = [value - first for value, _ in options]
        if all(d.is_number for d in distances) and all(c == ALWAYS for _, c in options):
            pick = max if largest else min
            return first.plus(pick(d.constant for d in distances)), None
        kept = tuple(dict.fromkeys(options))
        wish = f"{place.hold.component.name}_{place.hold.tensor}_{'end' if largest else 'begin'}"
        name = self.indices.extreme(kept, largest, wish)
        return named(name), Extreme(name, largest, kept)


def is_table(place: Place, user: Route) -> bool:
    """Whether a user looks rows up in a storage node: the tensor lies there as it is, further in rows by position."""
    return place.is_backing() and bool(user.einsum.by_tensor[place.hold.tensor].gathered)


def indices_at(place: Place, user: Route) -> tuple[Affine | Lookup, ...]:
    """The index of each rank of what a storage node holds."""
    tensor = place.hold.tensor
    if not is_table(place, user):
        return user.indices[tensor]
    written = dict(user.einsum.by_tensor[tensor].written)
    return tuple(written[rank] for rank in user.ranks[tensor])


def place_of_indices(schedule: Schedule, route: Route, tensor: str) -> Place:
    """Where the values of an index tensor are when a route looks rows up: where its writer has left them."""
    places = [schedule.places[hold.address, tensor] for hold in memories(route, tensor)]
    written = [p for p in places if p.producer is not None and not p.producer.einsum.is_copy]
    return (written or places[:1])[-1]


def range_of(index: Affine | Lookup, starts: Mapping[str, Linear], sizes: Mapping[str, Linear]) -> Range:
    """The indices that a projection goes through; all of a rank that is looked up."""
    if isinstance(index, Lookup):
        return number(0), number(index.size)
    low, size = number(index.constant), number(1)
    for v, a in index.terms:
        low += starts[v].times(a)
        size += sizes[v].plus(-1).times(abs(a))
        if a < 0:
            low += sizes[v].plus(-1).times(a)
    return low, size


def point_of(index: Affine, starts: Mapping[str, Linear]) -> Linear:
    """The index of one point."""
    return sum((starts[v].times(a) for v, a in index.terms), number(index.constant))


# numbers of the tiles, from the loops as they run


def largest_shape(place: Place) -> tuple[int, ...]:
    """For each rank the most indices of a tile. Raises NotSupportedError where too many tiles have to be compared."""
    if _is_alike(place):
        return _largest_of(place, place.users[0])
    shapes = [tuple(high - low for low, high in hull(list(boxes.values()))) for boxes in visits_of(place)]
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True)) if shapes and shapes[0] else ()


def _is_alike(place: Place) -> bool:
    if len(place.users) > 1 and any(is_table(place, user) for user in place.users):
        return False  # what is looked up is all of a rank, whatever the others have of it
    return is_alike(place)


def _largest_of(place: Place, user: Route) -> tuple[int, ...]:
    hold = place.holds[user.einsum.name]
    sizes = {}
    for variable, extent in user.einsum.bounds:
        largest = extent
        for turn in user.turns:
            if turn.variable == variable and user.iterations[turn.address] > 1 and applies_at(hold)(turn):
                largest = max(min(turn.first, largest), min(turn.shape, max(largest - turn.first, 0)))
        sizes[variable] = largest
    indices = indices_at(place, user)
    return tuple(index.size if isinstance(index, Lookup) else index.extent(sizes) for index in indices)


def leaves_some(place: Place) -> bool:
    """Whether a tile has elements that the producer below the node does not touch in that visit."""
    producer = place.producer
    if producer is None or _is_alike(place):
        return False
    for boxes in visits_of(place):
        produced = boxes.get(producer.einsum.name)
        if produced != hull(list(boxes.values())):
            return True
    return False


def visits_of(place: Place) -> tuple[dict[str, Box], ...]:
    """The parts of all Einsums in every tile of a node."""
    loops = _loops(place)
    if math.prod(loops.values()) > MAX_TILES:
        raise NotSupportedError(
            f"{place.hold.tensor!r} in {place.hold.component.name!r} is used by Einsums that cut it in different ways "
            f"into more than {MAX_TILES:,} tiles; code for that cannot be emitted yet",
            hint="reduce the rank sizes",
        )
    return tuple(_visits(place, loops))


def _loops(place: Place) -> dict[Address, int]:
    """The loops that cut the tiles, and the lanes of the first user."""
    iterations: dict[Address, int] = {}
    for user in place.users:
        hold = place.holds[user.einsum.name]
        for turn in user.turns:
            if turn.level is None and turn.position < hold.position and user.iterations[turn.address] > 1:
                iterations[turn.address] = user.iterations[turn.address]
    first = place.users[0]
    for turn in lane_turns(first, place.hold.level):
        iterations[turn.address] = first.iterations[turn.address]
    return iterations


def _visits(place: Place, loops: Mapping[Address, int]) -> Iterator[dict[str, Box]]:
    first = place.users[0]
    lanes = [t.address for t in lane_turns(first, place.hold.level)]
    for chosen in product(*(range(n) for n in loops.values())):
        clock = dict(zip(loops, chosen, strict=True))
        lane = tuple(clock[address] for address in lanes)
        boxes = {}
        for user in place.users:
            hold = place.holds[user.einsum.name]
            intervals = user.intervals(clock, lane, hold.level, hold.position)
            if intervals is not None:
                box = stored_box if is_table(place, user) else box_of
                boxes[user.einsum.name] = box(user, place.hold.tensor, intervals)
        if boxes:
            yield boxes


def memories(route: Route, tensor: str) -> tuple[Hold, ...]:
    """The memories that hold a tensor, outermost first."""
    return tuple(h for h in route.holds[tensor] if isinstance(h.component, Memory))
