"""The scope of emitted code: loop indices, tile sizes, and which tiles may be empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from einmap.emit.language.identifiers import Names
from einmap.emit.language.linear import Linear, named, number
from einmap.emit.language.program import All, Condition, Definition, Is, Let, Loop, Statement, Tiles, When
from einmap.mapping.nodes import Address
from einmap.schedule.routes import Route, Turn

type Bound = tuple[Linear, int, int]
"""Bounds of a loop: extent, first tile, other tiles."""
type Applies = Callable[[Turn], bool]


def everywhere(_turn: Turn) -> bool:
    """All loops apply, at the innermost point."""
    return True


@dataclass(frozen=True)
class Interval:
    """Values of a rank variable: `start`, `size`; `largest`: of all tiles. It is empty unless all `guards` are > 0."""

    start: Linear
    size: Linear
    largest: int
    lets: tuple[Let, ...]
    guards: tuple[Linear, ...]


@dataclass(frozen=True)
class Scope:
    """Names that are defined here, and what the open loops iterate over."""

    defined: frozenset[str] = frozenset()
    bounds: Mapping[Address, frozenset[Bound]] = field(default_factory=dict)
    """Exact bounds of each loop; several where Einsums cut different ranks into equally many tiles."""

    def with_names(self, names: Iterable[str]) -> Scope:
        """This scope with more names."""
        return replace(self, defined=self.defined | frozenset(names))

    def in_loop(self, address: Address, bounds: Iterable[Bound]) -> Scope:
        """Inside a loop that iterates over the tiles of `bounds`."""
        return replace(self, bounds={**self.bounds, address: frozenset(bounds)})


@dataclass
class Indices:
    """Names of loop indices and sizes, and the intervals that they make. `index_of`: by address of the loop."""

    names: Names
    index_of: Mapping[Address, str]
    sizes: dict[tuple[Linear, Linear, str | None], str] = field(default_factory=dict)
    extremes: dict[tuple[object, bool], str] = field(default_factory=dict)
    rows: dict[object, str] = field(default_factory=dict)

    def extreme(self, options: object, largest: bool, wish: str) -> str:
        """The name of the smallest or largest of some integers."""
        if (options, largest) not in self.extremes:
            self.extremes[options, largest] = self.names.identifier(wish)
        return self.extremes[options, largest]

    def row(self, key: object, wish: str) -> str:
        """The name of a row that is looked up, or of the index of a loop over such rows."""
        if key not in self.rows:
            self.rows[key] = self.names.identifier(wish)
        return self.rows[key]

    def interval(
        self,
        route: Route,
        variable: str,
        scope: Scope,
        applies: Applies,
        renaming: Mapping[Address, Linear] | None = None,
    ) -> Interval:
        """Values of `variable` where the loops that apply have cut it. `renaming`: other indices for some loops."""
        extent = route.einsum.extents[variable]
        start = number(dict(route.einsum.first_values).get(variable, 0))
        size, largest = number(extent), extent
        lets: list[Let] = []
        guards: list[Linear] = []
        for turn in route.turns:
            if turn.variable != variable or route.iterations[turn.address] == 1 or not applies(turn):
                continue
            index = (renaming or {}).get(turn.address, named(self.index_of[turn.address]))
            offset, most = self._place(turn, index, lets)
            left = size - offset
            same = turn.first == turn.shape
            is_bounded = (size, turn.first, turn.shape) in scope.bounds.get(turn.address, ())
            if not (same and size.is_number and size.constant % turn.shape == 0):
                if not is_bounded:
                    guards.append(left)
                size = self._smaller(turn, index, most, left, lets)
            else:
                size = number(turn.shape)
            start += offset
            largest = max(min(turn.first, largest), min(turn.shape, max(largest - turn.first, 0)))
        return Interval(start, size, largest, tuple(lets), tuple(g for g in guards if not _positive(g)))

    def _place(self, turn: Turn, index: Linear, lets: list[Let]) -> tuple[Linear, Linear]:
        """First value in the tile around, and the most values, of an iteration."""
        if turn.first == turn.shape:
            return index.times(turn.shape), number(turn.shape)
        if index.is_number:
            first = index.constant == 0
            later = (index.constant - 1) * turn.shape + turn.first
            return number(0 if first else later), number(turn.first if first else turn.shape)
        ((name, _),) = index.terms
        later_start = index.times(turn.shape).plus(turn.first - turn.shape)
        start = self._let(f"{name}_at", number(0), later_start, lets, index=name)
        return start, self._let(f"{name}_most", number(turn.first), number(turn.shape), lets, index=name)

    def _smaller(self, turn: Turn, index: Linear, most: Linear, left: Linear, lets: list[Let]) -> Linear:
        if most.is_number and (left.is_number or most.constant == 1):
            # a tile of one value is full wherever there is one
            return number(min(most.constant, left.constant) if left.is_number else 1)
        name = index.terms[0][0] if index.terms else self.index_of[turn.address]
        return self._let(f"{name}_n", most, left, lets)

    def _let(self, wish: str, value: Linear, other: Linear, lets: list[Let], index: str | None = None) -> Linear:
        key = (value, other, index)
        if key not in self.sizes:
            self.sizes[key] = self.names.identifier(wish)
        lets.append(Let(self.sizes[key], value, other, index))
        return named(self.sizes[key])


def _positive(value: Linear) -> bool:
    return value.is_number and value.constant > 0


@dataclass(frozen=True)
class Opening:
    """Loops around a body: each with the sizes that its bound needs. `scope`: inside all of them."""

    layers: tuple[tuple[tuple[Definition, ...], Loop], ...]
    scope: Scope

    def around(self, body: Iterable[Statement]) -> tuple[Statement, ...]:
        """The statements, inside the loops."""
        inside = tuple(body)
        if not inside:
            return ()
        for lets, loop in reversed(self.layers):
            inside = (*lets, replace(loop, body=inside))
        return inside


def opened(
    indices: Indices,
    route: Route,
    turns: Iterable[Turn],
    scope: Scope,
    applies: Applies,
    parallel: Turn | None = None,
) -> Opening:
    """Open the loops `turns` of a route, in written order.

    `applies`: loops that cut what they iterate over; `parallel`: the one whose iterations are independent.
    """
    layers = []
    for turn in turns:
        before = indices.interval(
            route,
            turn.variable,
            scope,
            lambda t, last=turn: applies(t) and t.position < last.position,  # type: ignore[misc]
        )
        lets, scope = new_lets(before.lets, scope)
        bound = (before.size, turn.first, turn.shape)
        layers.append(
            (lets, Loop(indices.index_of[turn.address], Tiles(*bound), (), fanout_of(route, turn), turn is parallel))
        )
        scope = scope.in_loop(turn.address, [bound])
    return Opening(tuple(layers), scope)


def fanout_of(route: Route, turn: Turn) -> str | None:
    """The fanout that a spatial loop is spread over, e.g. `Array.X`; None in time."""
    if turn.level is None or turn.dimension is None:
        return None
    return f"{route.arch.path(route.unit.name)[turn.level].name}.{turn.dimension.name}"


def new_lets(lets: Iterable[Definition], scope: Scope) -> tuple[tuple[Definition, ...], Scope]:
    """The sizes that are not defined yet, and the scope with them."""
    definitions: list[Definition] = []
    for let in lets:
        if let.name not in scope.defined:
            definitions.append(let)
            scope = scope.with_names([let.name])
    return tuple(definitions), scope


def guarded(guards: Iterable[Linear], body: Iterable[Statement]) -> tuple[Statement, ...]:
    """The statements, where no tile is empty."""
    inside = tuple(body)
    parts: tuple[Condition, ...] = tuple(Is(g, "positive") for g in dict.fromkeys(guards))
    return (When(All(parts), inside),) if parts and inside else inside
