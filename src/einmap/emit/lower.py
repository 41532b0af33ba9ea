"""A mapping becomes a program: walk the LoopTree, open buffers, move tiles, compute.

Lanes run in lockstep, as the semantics of LoopTrees say: each move and each innermost nest is repeated for the lanes
of its memory, inside the temporal loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from einmap.einsum.einsum import TensorAccess
from einmap.einsum.projection import Relevance
from einmap.emit.declare import Declared
from einmap.emit.linear import Linear, named, number
from einmap.emit.liveness import Link, Liveness, both, either, link_of, tiles_overlap
from einmap.emit.program import (
    ALWAYS,
    Action,
    Charge,
    Clear,
    Condition,
    Copy,
    Counter,
    Definition,
    Is,
    Loop,
    Move,
    Operate,
    Region,
    Result,
    Statement,
    TakeLive,
    Tiles,
    When,
)
from einmap.emit.scope import Bound, Indices, Scope, everywhere, guarded, new_lets, opened
from einmap.emit.tile_boxes import Boxes, Tile, applies_at, lane_turns, leaves_some, memories, point_of
from einmap.mapping import nodes as tree
from einmap.mapping.nodes import Address
from einmap.schedule.place import NodeTensor, Place
from einmap.schedule.routes import Hold, Route, Turn
from einmap.schedule.schedule import Schedule

type _Make = Callable[[Place, Route, Tile, Scope], tuple[Statement, ...]]


@dataclass
class Lowering:
    """Turns a schedule into statements."""

    schedule: Schedule
    declared: Declared
    indices: Indices
    boxes: Boxes = field(init=False)
    pending: dict[NodeTensor, Place] = field(default_factory=dict)
    """Open buffers of which a consumer still has to fetch what its producer does not make."""

    def __post_init__(self) -> None:
        self.boxes = Boxes(self.indices)

    # the walk

    def run(self) -> tuple[Statement, ...]:
        """The whole tree."""
        return self._walk(self.schedule.mapping.nodes, (), 0, Scope())

    def _walk(self, nodes: tuple[tree.Node, ...], prefix: Address, index: int, scope: Scope) -> tuple[Statement, ...]:
        for i in range(index, len(nodes)):
            node, address = nodes[i], (*prefix, i)
            match node:
                case tree.Temporal():
                    return self._loop(nodes, prefix, i, scope)
                case tree.Storage():
                    return self._storage(nodes, prefix, i, node, scope)
                case tree.Sequential(branches=branches):
                    found: list[Statement] = []
                    for b, inner in enumerate(branches):
                        found += self._rest((*address, b), scope)
                        found += self._walk(inner, (*address, b), 0, scope)
                    return tuple(found)
                case tree.Compute(einsum=einsum):
                    return self._leaf(self.schedule.routes[einsum], scope)
                case _:
                    continue
        return ()

    def _loop(self, nodes: tuple[tree.Node, ...], prefix: Address, i: int, scope: Scope) -> tuple[Statement, ...]:
        address = (*prefix, i)
        routes = self.schedule.below(address)
        turn = _turn_at(routes[0], address)
        if len(routes) == 1 and turn.position > routes[0].leaf_start:
            return self._leaf(routes[0], scope)
        count = max(r.iterations[address] for r in routes)
        if count == 1:
            return self._walk(nodes, prefix, i + 1, scope)
        lets, inside, bounds = self._loop_bounds(routes, address, scope)
        if len(bounds) == 1:
            tiles = Tiles(*bounds[0])
        else:
            tiles = Tiles(number(count), 1, 1)
            bounds = [b for b in bounds if Tiles(*b).count == count]
        inside = inside.in_loop(address, bounds)
        sizes, inside = self._sizes_in_loop(routes, address, inside)
        body = (*sizes, *self._walk(nodes, prefix, i + 1, inside))
        return (*lets, Loop(self.indices.index_of[address], tiles, body))

    def _loop_bounds(
        self, routes: list[Route], address: Address, scope: Scope
    ) -> tuple[tuple[Statement, ...], Scope, list[Bound]]:
        """What a temporal loop goes over: one thing, or several by Einsum."""
        found: dict[Bound, None] = {}
        lets: tuple[Statement, ...] = ()
        for route in routes:
            turn = _turn_at(route, address)
            # the loop is common to all lanes; the first lane has the most iterations
            first_lane = {t.address: number(0) for t in route.lane_turns}
            before = self.indices.interval(
                route, turn.variable, scope, lambda t, last=turn: t.position < last.position, first_lane  # type: ignore[misc]
            )  # fmt: skip
            more, scope = new_lets(before.lets, scope)
            lets = (*lets, *more)
            found[before.size, turn.first, turn.shape] = None
        return lets, scope, list(found)

    def _sizes_in_loop(
        self, routes: list[Route], address: Address, scope: Scope
    ) -> tuple[tuple[Statement, ...], Scope]:
        """Sizes that do not depend on lanes are defined where their loop begins."""
        sizes: tuple[Statement, ...] = ()
        for route in routes:
            turn = _turn_at(route, address)
            spread = [t for t in route.lane_turns if t.variable == turn.variable and t.position < turn.position]
            if spread:
                continue
            after = self.indices.interval(
                route, turn.variable, scope, lambda t, last=turn: t.position <= last.position  # type: ignore[misc]
            )  # fmt: skip
            more, scope = new_lets(after.lets, scope)
            sizes = (*sizes, *more)
        return sizes, scope

    def _storage(
        self, nodes: tuple[tree.Node, ...], prefix: Address, i: int, node: tree.Storage, scope: Scope
    ) -> tuple[Statement, ...]:
        address = (*prefix, i)
        places = [self.schedule.places[address, t] for t in node.tensors if (address, t) in self.schedule.places]
        places = [place for place in places if self.declared.is_buffer(place)]
        body: list[Statement] = []
        for place in places:
            body += self._open(place, scope)
        body += self._walk(nodes, prefix, i + 1, scope)
        for place in reversed(places):
            self.pending.pop(place.key, None)
            body += self._close(place, scope)
        return tuple(body)

    # moves of tiles

    def _open(self, place: Place, scope: Scope) -> tuple[Statement, ...]:
        buffer, producer = self.declared.buffer(place), place.producer
        if place.is_backing():
            if buffer.whole or producer is None or producer.einsum.is_copy:
                return ()
            return self._per_lane(place, producer, scope, self._cleared)
        if producer is not None and not producer.einsum.is_copy:
            if leaves_some(place):
                self.pending[place.key] = place
            return self._per_lane(place, producer, scope, self._fill_output)
        maker = self.declared.producer(place.hold.tensor)
        if maker is not None and self._is_below(maker, place.hold.address):
            self.pending[place.key] = place  # a copy below writes past this buffer first
            return ()
        readers = [r for r in place.users if not r.einsum.is_copy]
        return self._per_lane(place, readers[0], scope, self._fill_input) if readers else ()

    def _rest(self, branch: Address, scope: Scope) -> list[Statement]:
        """Where the branch of the first consumer begins, fetch what the producer has not made."""
        found: list[Statement] = []
        for key, place in list(self.pending.items()):
            producer = self.declared.producer(place.hold.tensor)
            assert producer is not None
            consumers = [r for r in place.consumers if not r.einsum.is_copy and self._is_below(r, branch)]
            if consumers and not self._is_below(producer, branch):
                del self.pending[key]
                found += self._per_lane(place, consumers[0], scope, self._fill_input)
        return found

    def _is_below(self, route: Route, branch: Address) -> bool:
        path = self.schedule.mapping.path_of[route.einsum.name]
        return any(placed.address[: len(branch)] == branch for placed in path)

    def _close(self, place: Place, scope: Scope) -> tuple[Statement, ...]:
        producer = place.producer
        if producer is None or place.is_backing() or producer.einsum.is_copy:
            return ()
        return self._per_lane(place, producer, scope, self._write_back)

    def _per_lane(self, place: Place, acting: Route, scope: Scope, make: _Make) -> tuple[Statement, ...]:
        """The statements of `make` for each instance that has a tile."""
        hold = place.holds[acting.einsum.name]
        opening = opened(self.indices, acting, lane_turns(acting, hold.level), scope, applies_at(hold))
        tile = self.boxes.tile(place, acting, opening.scope)
        definitions, inside = new_lets(tile.definitions, opening.scope)
        made = make(place, acting, tile, inside)
        body = made if tile.condition == ALWAYS else (When(tile.condition, made),) if made else ()
        return opening.around((*definitions, *body) if body else ())

    def _fill_input(self, place: Place, acting: Route, tile: Tile, scope: Scope) -> tuple[Statement, ...]:
        link = link_of(acting, place.hold.tensor, place.holds[acting.einsum.name])
        definitions, inner, outer = self._ends(place, acting, tile, link, scope)
        charges = self._charges(acting, link, place.hold.tensor, inward=True)
        hole = None
        if place.producer is not None and not place.producer.einsum.is_copy:
            own = self.boxes.part(place, place.producer, acting, scope)
            self.declared.refuse_partial_visits(place, own.condition)
            more, _ = new_lets(own.definitions, scope)
            definitions = (*definitions, *more)
            hole = tuple((low - begin, size) for (low, size), (begin, _) in zip(own.ranges, tile.ranges, strict=True))
        reduction = self.declared.reduction_of(place.hold.tensor)
        move = Move("fill", inner, outer, tile.sizes, reduction, charges, tile.ranges, hole)
        return (*definitions, move)

    def _fill_output(self, place: Place, acting: Route, tile: Tile, scope: Scope) -> tuple[Statement, ...]:
        tensor = place.hold.tensor
        link = link_of(acting, tensor, place.holds[acting.einsum.name])
        part, live = self._live(acting, link, tensor)
        own = self.boxes.part(place, acting, acting, scope)
        if own.condition != tile.condition:
            self.declared.refuse_partial_visits(place, own.condition)
        if self.declared.has_flags(tensor):
            # in its own box only, consumers fetch the rest
            definitions, inner, outer = self._ends(place, acting, own, link, scope)
            lets, _ = new_lets(own.definitions, scope)
            charges = self._charges(acting, link, tensor, inward=True, lane=False)
            reduction = self.declared.reduction_of(tensor)
            take = TakeLive(
                inner, outer, own.sizes, reduction, charges, own.ranges, not self.liveness(acting).skips(link)
            )
            return (*self._cleared(place, acting, tile, scope), *definitions, *lets, *_when(part, (take,)))
        definitions, inner, outer = self._ends(place, acting, tile, link, scope)
        charges = self._charges(acting, link, tensor, inward=True, lane=False)
        kind = "fill" if self.declared.is_simple(tensor) else "take"
        reduction = self.declared.reduction_of(tensor)
        move = Move(kind, inner, outer, tile.sizes, reduction, charges, tile.ranges)  # type: ignore[arg-type]
        cleared = self._cleared(place, acting, tile, scope)
        condition = both(part, live) if self.liveness(acting).skips(link) else part
        return _when(condition, (*definitions, move), cleared)

    def _live(self, acting: Route, link: Link, tensor: str) -> tuple[Condition, Condition]:
        liveness = self.liveness(acting)
        return liveness.first_lane(link), liveness.at_start(tensor, link)

    def _cleared(self, place: Place, acting: Route, tile: Tile, _scope: Scope) -> tuple[Statement, ...]:
        if not self.declared.needs_clearing(place):
            return ()
        region = Region(self.declared.buffer(place), self._lane(place, acting), (number(0),) * len(tile.ranges))
        return (Clear(region, tile.sizes, self.declared.reduction_of(place.hold.tensor)),)

    def _write_back(self, place: Place, acting: Route, tile: Tile, scope: Scope) -> tuple[Statement, ...]:
        tensor = place.hold.tensor
        link = link_of(acting, tensor, place.holds[acting.einsum.name])
        definitions, inner, outer = self._ends(place, acting, tile, link, scope)
        charges = self._charges(acting, link, tensor, inward=False)
        reduction, flags = self.declared.reduction_of(tensor), self.declared.has_flags(tensor)
        part = self.liveness(acting).first_lane(link)
        if leaves_some(place):
            return (*definitions, *self._write_back_in_parts(place, acting, tile, scope, inner, outer, charges))
        reduce = Move("reduce", inner, outer, tile.sizes, reduction, charges, tile.ranges, mark=flags)
        if not self.declared.is_simple(tensor):
            return (*definitions, reduce)
        store = Move("store", inner, outer, tile.sizes, reduction, charges, tile.ranges)
        return (*definitions, *_when(part, (store,), (reduce,)))

    def _write_back_in_parts(
        self, place: Place, acting: Route, tile: Tile, scope: Scope, inner: Region, outer: Region,
        charges: tuple[Charge, ...],
    ) -> tuple[Statement, ...]:  # fmt: skip
        """What a consumer has fetched goes back as it is; what the producer has made is reduced."""
        own = self.boxes.part(place, acting, acting, scope)
        lets, _ = new_lets(own.definitions, scope)
        hole = tuple((low - begin, size) for (low, size), (begin, _) in zip(own.ranges, tile.ranges, strict=True))
        reduction = self.declared.reduction_of(place.hold.tensor)
        rest = Move("store", inner, outer, tile.sizes, reduction, charges, tile.ranges, hole, mark=True)
        shift = tuple(low for low, _ in hole)
        made = Move(
            "reduce", _shifted(inner, shift), _shifted(outer, shift), own.sizes, reduction, charges, own.ranges,
            mark=True,
        )  # fmt: skip
        return (*lets, rest, made)

    def _ends(
        self, place: Place, acting: Route, tile: Tile, link: Link, scope: Scope
    ) -> tuple[tuple[Definition, ...], Region, Region]:
        """Where a tile is in a buffer, and where in the next one outward."""
        outer_place = self.schedule.places[link.outer.address, place.hold.tensor]
        definitions, origin = self._origin(outer_place, acting, scope)
        mine, own_origin = self._origin(place, acting, scope)
        inner = Region(
            self.declared.buffer(place),
            self._lane(place, acting),
            tuple(low - begin for low, begin in zip(tile.start, own_origin, strict=True)),
        )
        outer = Region(
            self.declared.buffer(outer_place),
            self._lane(outer_place, acting),
            tuple(low - begin for low, begin in zip(tile.start, origin, strict=True)),
        )
        return (*mine, *definitions), inner, outer

    def _origin(self, place: Place, acting: Route, scope: Scope) -> tuple[tuple[Definition, ...], tuple[Linear, ...]]:
        """The first index of what a buffer holds."""
        if self.declared.buffer(place).whole:
            return (), (number(0),) * len(self.declared.buffer(place).shape)
        tile = self.boxes.tile(place, acting, scope)
        return new_lets(tile.definitions, scope)[0], tile.start

    def _lane(self, place: Place, acting: Route) -> tuple[Linear, ...]:
        if self.declared.buffer(place).whole:
            return ()
        level = place.holds[acting.einsum.name].level
        return tuple(named(self.indices.index_of[t.address]) for t in lane_turns(acting, level))

    def _charges(
        self, acting: Route, link: Link, tensor: str, *, inward: bool, lane: bool = True
    ) -> tuple[Charge, ...]:
        """The two sides of an exchange; the outer one counts merged lanes once."""
        assert link.inner is not None
        here: Action = "write" if inward else "read"
        there: Action = "read" if inward else "write"
        part = self.liveness(acting).first_lane(link) if lane else ALWAYS
        return (
            Charge(self._counter(link.inner, tensor, here)),
            Charge(self._counter(link.outer, tensor, there), part),
        )

    def _counter(self, hold: Hold, tensor: str, action: Action) -> Counter:
        return self.declared.counter(hold.component.name, tensor, action)

    def liveness(self, route: Route) -> Liveness:
        """Conditions of an Einsum."""
        return Liveness(route, self.indices.index_of)

    # operations

    def _leaf(self, route: Route, scope: Scope) -> tuple[Statement, ...]:
        start = route.leaf_start
        turns = [
            t
            for t in route.turns
            if route.iterations[t.address] > 1 and (t.level is not None or t.position > start)
        ]  # fmt: skip
        parallel = self._first_independent(route, turns)
        opening = opened(self.indices, route, turns, scope, everywhere, parallel)
        intervals = {v: self.indices.interval(route, v, opening.scope, everywhere) for v in route.einsum.rank_variables}
        starts = {v: i.start for v, i in intervals.items()}
        lets = [let for i in intervals.values() for let in i.lets]
        definitions, inside = new_lets(lets, opening.scope)
        guards = [g for i in intervals.values() for g in i.guards]
        make = self._copy if route.einsum.is_copy else self._operation
        return opening.around((*definitions, *guarded(guards, make(route, starts, inside))))

    def _first_independent(self, route: Route, turns: list[Turn]) -> Turn | None:
        """The outermost spatial loop whose lanes write to different elements."""
        if route.einsum.is_copy:
            return None
        for turn in turns:
            if turn.level is None:
                continue
            apart = all(
                memories(route, a.tensor)[-1].level >= turn.level or (a.relevance(turn.variable) is Relevance.FULL
                and not tiles_overlap(a))
                for a in route.einsum.accesses
                if a.output
            )  # fmt: skip
            if apart:
                return turn
        return None

    def _region(
        self, route: Route, hold: Hold, starts: dict[str, Linear], scope: Scope
    ) -> tuple[tuple[Statement, ...], Region]:
        """Where the element of a point is in a buffer."""
        place = self.schedule.places[hold.address, hold.tensor]
        definitions, origin = self._origin(place, route, scope)
        point = tuple(point_of(index, starts) for index in route.indices[hold.tensor])
        at = tuple(p - o for p, o in zip(point, origin, strict=True))
        return definitions, Region(self.declared.buffer(place), self._lane(place, route), at)

    def _operation(self, route: Route, starts: dict[str, Linear], scope: Scope) -> tuple[Statement, ...]:
        einsum = route.einsum
        definitions: list[Statement] = []
        operands, results, charges = [], [], list[Charge]()
        for access in einsum.accesses:
            link = link_of(route, access.tensor, None)
            part = self.liveness(route).first_lane(link)
            more, region = self._region(route, link.outer, starts, scope)
            definitions += [d for d in more if d not in definitions]
            if not access.output:
                operands.append((access.tensor, region))
                charges.append(Charge(self._counter(link.outer, access.tensor, "read"), part))
                continue
            charges.append(Charge(self._counter(link.outer, access.tensor, "write"), part))
            results.append(self._result(route, access, link, region, charges))
        assert einsum.operation.map is not None
        once = all(self.declared.is_written_once(a.tensor) for a in einsum.accesses if a.output)
        return (
            *definitions,
            Operate(
                einsum.name, einsum.operation.map, tuple(operands), tuple(results), einsum.operation.reduction,
                tuple(charges),
                once,
            ),
        )  # fmt: skip

    def _result(self, route: Route, access: TensorAccess, link: Link, region: Region, charges: list[Charge]) -> Result:
        """Reads of what is there already; a first read is free where both sides skip it."""
        liveness = self.liveness(route)
        part, live = self._live(route, link, access.tensor)
        counter = self._counter(link.outer, access.tensor, "read")
        if self.declared.has_flags(access.tensor):
            charge = (Charge(counter, part),)
            return Result(region, charge, () if liveness.skips(link) else charge)
        where = both(part, live) if liveness.skips(link) else part
        if where != either():
            charges.append(Charge(counter, where))
        return Result(region)

    def _copy(self, route: Route, starts: dict[str, Linear], scope: Scope) -> tuple[Statement, ...]:
        (source,) = route.einsum.inputs
        begin = memories(route, source)[0]
        definitions, region = self._region(route, begin, starts, scope)
        targets, charges = [], list[Charge]()
        for target in (a.tensor for a in route.einsum.accesses if a.output):
            end = memories(route, target)[0]
            more, at = self._region(route, end, starts, scope)
            definitions = (*definitions, *(d for d in more if d not in definitions))
            targets.append(at)
            if end.component.name != begin.component.name:
                self._passes(route, begin, end, charges)
        copy = Copy(route.einsum.name, region, tuple(targets), tuple(dict.fromkeys(charges)))
        return (*definitions, copy)

    def _passes(self, route: Route, begin: Hold, end: Hold, charges: list[Charge]) -> None:
        """Each element is charged when it passes for the first time."""
        source, target = begin.tensor, end.tensor
        charges.append(Charge(self._counter(begin, source, "read"), self._first_time(route, source)))
        charges.append(Charge(self._counter(end, target, "write"), self._first_time(route, target)))
        low, high = sorted((begin.level, end.level))
        passed: set[str] = set()
        for tensor in (source, target):
            for hold in memories(route, tensor):
                if low < hold.level < high and hold.component.name not in passed:
                    passed.add(hold.component.name)
                    first = self._first_time(route, tensor)
                    charges.append(Charge(self._counter(hold, tensor, "write"), first))
                    charges.append(Charge(self._counter(hold, tensor, "read"), first))

    def _first_time(self, route: Route, tensor: str) -> Condition:
        access = route.einsum.by_tensor[tensor]
        self.declared.refuse_overlap_of_copy(route.einsum, access)
        return both(
            *(
                Is(named(self.indices.index_of[t.address]), "zero")
                for t in route.turns
                if route.iterations[t.address] > 1 and access.relevance(t.variable) is Relevance.NONE
            )
        )


def _turn_at(route: Route, address: Address) -> Turn:
    return next(t for t in route.turns if t.address == address)


def _when(
    condition: Condition, body: tuple[Statement, ...], otherwise: tuple[Statement, ...] = ()
) -> tuple[Statement, ...]:
    if condition == ALWAYS:
        return body
    if condition == either():
        return otherwise
    return (When(condition, body, otherwise),) if body or otherwise else ()


def _shifted(region: Region, shift: tuple[Linear, ...]) -> Region:
    return Region(region.buffer, region.lane, tuple(a + b for a, b in zip(region.start, shift, strict=True)))
