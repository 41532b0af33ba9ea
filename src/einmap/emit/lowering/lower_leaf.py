"""The innermost nests of a program: operations and copies below the last storage node of each Einsum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from einmap.einsum.einsum import TensorAccess
from einmap.einsum.spaces.projection import Affine, Lookup, Relevance
from einmap.emit.language.linear import Linear, named, number
from einmap.emit.language.program import (
    Action,
    Charge,
    Condition,
    Copy,
    Counter,
    Definition,
    Is,
    Operate,
    Region,
    Result,
    Row,
    Statement,
)
from einmap.emit.lowering.declare import Declared
from einmap.emit.lowering.liveness import Link, Liveness, both, either, link_of, tiles_overlap, within
from einmap.emit.lowering.scope import Indices, Scope, everywhere, guarded, new_lets, opened
from einmap.emit.lowering.tile_boxes import Boxes, is_table, lane_turns, memories, place_of_indices, point_of
from einmap.schedule.place import Place
from einmap.schedule.routes import Hold, Route, Turn
from einmap.schedule.schedule import Schedule


@dataclass(frozen=True)
class LeafLowering:
    """Turns what stands below the last storage node of an Einsum into statements; names buffers and counters."""

    schedule: Schedule
    declared: Declared
    indices: Indices
    boxes: Boxes

    def origin(self, place: Place, acting: Route, scope: Scope) -> tuple[tuple[Definition, ...], tuple[Linear, ...]]:
        """The first index of what a buffer holds."""
        if self.declared.buffer(place).whole:
            return (), tuple(map(number, self.declared.first[place.hold.tensor]))
        tile = self.boxes.tile(place, acting, scope)
        return new_lets(tile.definitions, scope)[0], tile.start

    def lane(self, place: Place, acting: Route) -> tuple[Linear, ...]:
        """The instance of a place's memory, as indices of the lanes."""
        if self.declared.buffer(place).whole:
            return ()
        level = place.holds[acting.einsum.name].level
        return tuple(named(self.indices.index_of[t.address]) for t in lane_turns(acting, level))

    def counter(self, hold: Hold, tensor: str, action: Action) -> Counter:
        """The counter of an action for one tensor."""
        return self.declared.counter(hold.component.name, tensor, action)

    def liveness(self, route: Route) -> Liveness:
        """Conditions of an Einsum."""
        return Liveness(route, self.indices.index_of)

    def live(self, acting: Route, link: Link, tensor: str) -> tuple[Condition, Condition]:
        """Conditions of one exchange: the first of merged lanes, and a value that lives when the visit begins."""
        liveness = self.liveness(acting)
        return liveness.first_lane(link), liveness.at_start(tensor, link)

    def lower(self, route: Route, scope: Scope) -> tuple[Statement, ...]:
        """The innermost nest of an Einsum, below its last storage node."""
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
        if is_table(place, route):
            return self.found(place, route, lambda index: point_of(index, starts), scope)
        definitions, origin = self.origin(place, route, scope)
        point = tuple(point_of(index, starts) for index in route.indices[hold.tensor])
        at = tuple(p - o for p, o in zip(point, origin, strict=True))
        return definitions, Region(self.declared.buffer(place), self.lane(place, route), at)

    def found(
        self, table: Place, route: Route, point: Callable[[Affine], Linear], scope: Scope
    ) -> tuple[tuple[Statement, ...], Region]:
        """The element of a table that a route looks up, after what says in which row; `point`: that of an index."""
        tensor = table.hold.tensor
        written = dict(route.einsum.by_tensor[tensor].written)
        statements, origin = self.origin(table, route, scope)
        start: list[Linear] = []
        rows: list[str] = []
        for rank, begin in zip(route.ranks[tensor], origin, strict=True):
            index = written[rank]
            if isinstance(index, Lookup):
                more, element = self._index(route, index, point, scope)
                key = route.einsum.name, tensor, rank
                rows.append(self.indices.row(key, f"{self.declared.variables[tensor]}_{rank}_row"))
                statements = (*statements, *more, Row(rows[-1], element, index.size))
                start.append(named(rows[-1]) - begin)
            else:
                start.append(point(index) - begin)
        lane = self.lane(table, route)
        return statements, Region(self.declared.buffer(table), lane, tuple(start), tuple(rows))

    def _index(
        self, route: Route, index: Lookup, point: Callable[[Affine], Linear], scope: Scope
    ) -> tuple[tuple[Definition, ...], Region]:
        """Where in an index tensor the number of a row is."""
        place = place_of_indices(self.schedule, route, index.tensor)
        definitions, origin = self.origin(place, route, scope)
        by_rank = dict(index.projection)
        start = [point(by_rank[rank]) - begin for rank, begin in zip(route.ranks[index.tensor], origin, strict=True)]
        return definitions, Region(self.declared.buffer(place), self.lane(place, route), tuple(start))

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
                charges.append(Charge(self.counter(link.outer, access.tensor, "read"), part))
                continue
            charges.append(Charge(self.counter(link.outer, access.tensor, "write"), part))
            results.append(self._result(route, access, link, region, charges))
        assert einsum.operation.map is not None
        once = all(self.declared.is_written_once(a.tensor) for a in einsum.accesses if a.output)
        return (
            *definitions,
            Operate(
                einsum.name, einsum.operation.map, tuple(operands), tuple(results), einsum.operation.reduction,
                tuple(charges),
                once,
                within(einsum, starts),
            ),
        )  # fmt: skip

    def _result(self, route: Route, access: TensorAccess, link: Link, region: Region, charges: list[Charge]) -> Result:
        """Reads of what is there already; a first read is free where both sides skip it."""
        liveness = self.liveness(route)
        part, live = self.live(route, link, access.tensor)
        counter = self.counter(link.outer, access.tensor, "read")
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
        where = within(route.einsum, starts)
        copy = Copy(route.einsum.name, region, tuple(targets), tuple(dict.fromkeys(charges)), where)
        return (*definitions, copy)

    def _passes(self, route: Route, begin: Hold, end: Hold, charges: list[Charge]) -> None:
        """Each element is charged when it passes for the first time."""
        source, target = begin.tensor, end.tensor
        charges.append(Charge(self.counter(begin, source, "read"), self._first_time(route, source)))
        charges.append(Charge(self.counter(end, target, "write"), self._first_time(route, target)))
        low, high = sorted((begin.level, end.level))
        passed: set[str] = set()
        for tensor in (source, target):
            for hold in memories(route, tensor):
                if low < hold.level < high and hold.component.name not in passed:
                    passed.add(hold.component.name)
                    first = self._first_time(route, tensor)
                    charges.append(Charge(self.counter(hold, tensor, "write"), first))
                    charges.append(Charge(self.counter(hold, tensor, "read"), first))

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
