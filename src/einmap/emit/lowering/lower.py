"""A mapping becomes a program: walk the LoopTree, open buffers, move tiles, compute.

Lanes run in lockstep, as the semantics of LoopTrees say: each move and each innermost nest is repeated for the lanes
of its memory, inside the temporal loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from einmap.einsum.spaces.projection import Affine, Lookup
from einmap.emit.language.dead_definitions import uses
from einmap.emit.language.linear import Linear, named, number
from einmap.emit.language.program import (
    ALWAYS,
    Action,
    Charge,
    Clear,
    Condition,
    Copy,
    Definition,
    Found,
    Gather,
    Loop,
    Move,
    Part,
    Region,
    Statement,
    TakeLive,
    Tiles,
    When,
)
from einmap.emit.lowering.declare import Declared
from einmap.emit.lowering.liveness import Link, both, either, link_of
from einmap.emit.lowering.lower_leaf import LeafLowering
from einmap.emit.lowering.scope import Bound, Indices, Scope, new_lets, opened
from einmap.emit.lowering.tile_boxes import Boxes, Tile, applies_at, is_table, lane_turns, leaves_some
from einmap.mapping import nodes as tree
from einmap.mapping.nodes import Address
from einmap.schedule.place import NodeTensor, Place
from einmap.schedule.routes import Route, Turn
from einmap.schedule.schedule import Schedule

type _Make = Callable[[Place, Route, Tile, Scope], tuple[Statement, ...]]


@dataclass
class Lowering:
    """Turns a schedule into statements."""

    schedule: Schedule
    declared: Declared
    indices: Indices
    boxes: Boxes = field(init=False)
    leaves: LeafLowering = field(init=False)
    pending: dict[NodeTensor, Place] = field(default_factory=dict)
    """Open buffers of which a consumer still has to fetch what its producer does not make, or rows that it looks up."""

    def __post_init__(self) -> None:
        self.boxes = Boxes(self.indices)
        self.leaves = LeafLowering(self.schedule, self.declared, self.indices, self.boxes)

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
                case tree.Split(branches=branches):
                    statements: list[Statement] = []
                    for b, inner in enumerate(branches):
                        statements += self._rest((*address, b), scope)
                        statements += self._walk(inner, (*address, b), 0, scope)
                    return tuple(statements)
                case tree.Compute(einsum=einsum):
                    return self.leaves.lower(self.schedule.routes[einsum], scope)
                case _:
                    continue
        return ()

    def _loop(self, nodes: tuple[tree.Node, ...], prefix: Address, i: int, scope: Scope) -> tuple[Statement, ...]:
        address = (*prefix, i)
        routes = self.schedule.below(address)
        turn = _turn_at(routes[0], address)
        if len(routes) == 1 and turn.position > routes[0].leaf_start:
            return self.leaves.lower(routes[0], scope)
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
        """Bounds of a temporal loop: one, or several where Einsums differ."""
        bounds: dict[Bound, None] = {}
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
            bounds[before.size, turn.first, turn.shape] = None
        return lets, scope, list(bounds)

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
            if buffer.whole or producer is None or (producer.einsum.is_copy and not producer.einsum.cuts):
                return ()
            return self._per_lane(place, producer, scope, self._cleared)
        if producer is not None and not producer.einsum.is_copy:
            if leaves_some(place):
                self.pending[place.key] = place
            return self._per_lane(place, producer, scope, self._fill_output)
        if any(self._is_below(maker, place.hold.address) for maker in self._makers(place)):
            # a copy below writes past this buffer first, or an Einsum below says which rows are looked up
            self.pending[place.key] = place
            return ()
        readers = [r for r in place.users if not r.einsum.is_copy]
        return self._per_lane(place, readers[0], scope, self._fill_input) if readers else ()

    def _rest(self, branch: Address, scope: Scope) -> list[Statement]:
        """Where the branch of the first consumer begins, fetch what the producer has not made."""
        fills: list[Statement] = []
        # rows last: what says which ones may have to be fetched as well
        for key, place in sorted(self.pending.items(), key=lambda item: self._is_rows(item[1])):
            consumers = [r for r in place.consumers if not r.einsum.is_copy and self._is_below(r, branch)]
            if consumers and not any(self._is_below(maker, branch) for maker in self._makers(place)):
                del self.pending[key]
                fills += self._per_lane(place, consumers[0], scope, self._fill_input)
        return fills

    def _makers(self, place: Place) -> list[Route]:
        """Who writes what a buffer is filled with: the tensor, and indices of rows that are looked up for it."""
        tensor = place.hold.tensor
        lookups = [index for r in place.consumers for index in r.einsum.by_tensor[tensor].lookups.values()]
        tensors = dict.fromkeys([tensor, *(index.tensor for index in lookups)])
        return [maker for t in tensors if (maker := self.declared.producer(t)) is not None]

    def _is_rows(self, place: Place) -> bool:
        return any(user.einsum.by_tensor[place.hold.tensor].gathered for user in place.users)

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
        charges = self._charges(acting, link, place.hold.tensor, inward=True)
        source = self.schedule.places[link.outer.address, place.hold.tensor]
        if is_table(source, acting):
            return self._look_up(place, source, acting, tile, scope, charges)
        definitions, inner, outer = self._ends(place, acting, tile, link, scope)
        hole = None
        if place.producer is not None and not place.producer.einsum.is_copy:
            produced = self.boxes.part(place, place.producer, acting, scope)
            self.declared.refuse_partial_visits(place, produced.condition)
            more, _ = new_lets(produced.definitions, scope)
            definitions = (*definitions, *more)
            hole = tuple(
                (low - begin, size) for (low, size), (begin, _) in zip(produced.ranges, tile.ranges, strict=True)
            )
        reduction = self.declared.reduction_of(place.hold.tensor)
        box = self._box(acting, place.hold.tensor, tile)
        move = Move("fill", inner, outer, tile.sizes, reduction, charges, box, hole)
        return (*definitions, move)

    def _look_up(
        self, place: Place, table: Place, acting: Route, tile: Tile, scope: Scope, charges: tuple[Charge, ...]
    ) -> tuple[Statement, ...]:
        """Rows by position come from the table, value by value: a loop along each of their ranks."""
        access, tensor = acting.einsum.by_tensor[place.hold.tensor], place.hold.tensor
        axes = [
            (self.indices.row((tensor, axis), f"{self.declared.variables[tensor]}_{rank}"), size)
            for axis, ((rank, _), size) in enumerate(zip(access.projection, tile.sizes, strict=True))
        ]
        steps = [number(0) if size == number(1) else named(name) for name, size in axes]
        points = {
            _variables(index): low + step
            for (_, index), low, step in zip(access.projection, tile.start, steps, strict=True)
        }

        def point(index: Affine) -> Linear:
            return points[_variables(index)] if index.terms else number(index.constant)

        first, source = self.leaves.found(table, acting, point, scope)
        mine, origin = self.leaves.origin(place, acting, scope)
        buffer, lane = self.declared.buffer(place), self.leaves.lane(place, acting)
        start = tuple(low - begin for low, begin in zip(tile.start, origin, strict=True))
        target = Region(buffer, lane, tuple(low + step for low, step in zip(start, steps, strict=True)))
        body: tuple[Statement, ...] = (Copy(acting.einsum.name, source, (target,), ()),)
        for name, size in (axis for axis, step in zip(reversed(axes), reversed(steps), strict=True) if step.terms):
            inside = tuple(s for s in first if name in uses(s))
            first = tuple(s for s in first if name not in uses(s))
            body = (Loop(name, Tiles(size, 1, 1), (*inside, *body)),)
        inner, box = Region(buffer, lane, start), self._box(acting, tensor, tile)
        return (*mine, Gather((*first, *body), inner, source, tile.sizes, charges, box))

    def _box(self, acting: Route, tensor: str, tile: Tile) -> Part:
        """Part of a tensor in a tile; of a table that is looked up by value, the part of the indices of its rows."""
        access = acting.einsum.by_tensor[tensor]
        if not access.gathered:
            return tile.ranges
        # rank variables are in one index each, which is that of a rank of the rows
        spans = {_variables(index): ends for (_, index), ends in zip(access.projection, tile.ranges, strict=True)}

        def span(index: Affine) -> tuple[Linear, Linear]:
            return spans[_variables(index)] if index.terms else (number(index.constant), number(1))

        def found(index: Lookup) -> Found:
            at = dict(index.projection)
            return Found(index.tensor, tuple(span(at[rank]) for rank in acting.ranks[index.tensor]), index.size)

        written = [dict(access.written)[rank] for rank in acting.ranks[tensor]]
        return tuple(found(index) if isinstance(index, Lookup) else span(index) for index in written)

    def _fill_output(self, place: Place, acting: Route, tile: Tile, scope: Scope) -> tuple[Statement, ...]:
        tensor = place.hold.tensor
        link = link_of(acting, tensor, place.holds[acting.einsum.name])
        part, live = self.leaves.live(acting, link, tensor)
        touched = self.boxes.part(place, acting, acting, scope)
        if touched.condition != tile.condition:
            self.declared.refuse_partial_visits(place, touched.condition)
        if self.declared.has_flags(tensor):
            # in its own box only, consumers fetch the rest
            definitions, inner, outer = self._ends(place, acting, touched, link, scope)
            lets, _ = new_lets(touched.definitions, scope)
            charges = self._charges(acting, link, tensor, inward=True, lane=False)
            reduction = self.declared.reduction_of(tensor)
            take = TakeLive(
                inner,
                outer,
                touched.sizes,
                reduction,
                charges,
                touched.ranges,
                not self.leaves.liveness(acting).skips(link),
            )
            return (*self._cleared(place, acting, tile, scope), *definitions, *lets, *_when(part, (take,)))
        definitions, inner, outer = self._ends(place, acting, tile, link, scope)
        charges = self._charges(acting, link, tensor, inward=True, lane=False)
        kind = "fill" if self.declared.is_simple(tensor) else "take"
        reduction = self.declared.reduction_of(tensor)
        move = Move(kind, inner, outer, tile.sizes, reduction, charges, tile.ranges)  # type: ignore[arg-type]
        cleared = self._cleared(place, acting, tile, scope)
        condition = both(part, live) if self.leaves.liveness(acting).skips(link) else part
        return _when(condition, (*definitions, move), cleared)

    def _cleared(self, place: Place, acting: Route, tile: Tile, _scope: Scope) -> tuple[Statement, ...]:
        if not self.declared.needs_clearing(place):
            return ()
        region = Region(self.declared.buffer(place), self.leaves.lane(place, acting), (number(0),) * len(tile.ranges))
        return (Clear(region, tile.sizes, self.declared.reduction_of(place.hold.tensor)),)

    def _write_back(self, place: Place, acting: Route, tile: Tile, scope: Scope) -> tuple[Statement, ...]:
        tensor = place.hold.tensor
        link = link_of(acting, tensor, place.holds[acting.einsum.name])
        definitions, inner, outer = self._ends(place, acting, tile, link, scope)
        charges = self._charges(acting, link, tensor, inward=False)
        reduction, flags = self.declared.reduction_of(tensor), self.declared.has_flags(tensor)
        part = self.leaves.liveness(acting).first_lane(link)
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
        """Values that a consumer has fetched go back as they are; those that the producer has made are reduced."""
        produced = self.boxes.part(place, acting, acting, scope)
        lets, _ = new_lets(produced.definitions, scope)
        hole = tuple((low - begin, size) for (low, size), (begin, _) in zip(produced.ranges, tile.ranges, strict=True))
        reduction = self.declared.reduction_of(place.hold.tensor)
        rest = Move("store", inner, outer, tile.sizes, reduction, charges, tile.ranges, hole, mark=True)
        shift = tuple(low for low, _ in hole)
        made = Move(
            "reduce", _shifted(inner, shift), _shifted(outer, shift), produced.sizes, reduction, charges,
            produced.ranges, mark=True,
        )  # fmt: skip
        return (*lets, rest, made)

    def _ends(
        self, place: Place, acting: Route, tile: Tile, link: Link, scope: Scope
    ) -> tuple[tuple[Definition, ...], Region, Region]:
        """Where a tile is in a buffer, and where in the next one outward."""
        outer_place = self.schedule.places[link.outer.address, place.hold.tensor]
        definitions, origin = self.leaves.origin(outer_place, acting, scope)
        mine, own_origin = self.leaves.origin(place, acting, scope)
        inner = Region(
            self.declared.buffer(place),
            self.leaves.lane(place, acting),
            tuple(low - begin for low, begin in zip(tile.start, own_origin, strict=True)),
        )
        outer = Region(
            self.declared.buffer(outer_place),
            self.leaves.lane(outer_place, acting),
            tuple(low - begin for low, begin in zip(tile.start, origin, strict=True)),
        )
        return (*mine, *definitions), inner, outer

    def _charges(
        self, acting: Route, link: Link, tensor: str, *, inward: bool, lane: bool = True
    ) -> tuple[Charge, ...]:
        """The two sides of an exchange; the outer one counts merged lanes once."""
        assert link.inner is not None
        here: Action = "write" if inward else "read"
        there: Action = "read" if inward else "write"
        part = self.leaves.liveness(acting).first_lane(link) if lane else ALWAYS
        return (
            Charge(self.leaves.counter(link.inner, tensor, here)),
            Charge(self.leaves.counter(link.outer, tensor, there), part),
        )


def _variables(index: Affine) -> frozenset[str]:
    return frozenset(v for v, _ in index.terms)


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
