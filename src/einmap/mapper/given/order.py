"""The loops of a gap in the given order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.given.alignment import Gap
from einmap.mapper.given.pattern import Free, GivenLoop
from einmap.mapper.given.slots import Slot
from einmap.mapper.mapspace.tile_lattice import Axis
from einmap.mapping import nodes as tree


@dataclass(frozen=True)
class GapLoops:
    """The loops that a gap got, in an order that is good where nothing is given.

    `temporal`: axis, tile shape of the axis above and below its loop; `spatial`: dimension (position in the table),
    axis and the loops. `lowered`: relevance of the axes to the node above where its space is reserved below the loops.
    """

    axes: Sequence[Axis]
    temporal: Sequence[tuple[int, int, int]]
    spatial: Sequence[tuple[int, int, list[tree.Node]]]
    lowered: Sequence[Relevance] | None
    inner: Sequence[int]
    """Tile shape of each axis below all loops and lanes."""
    bounds: Callable[[int, int], int]
    """Lanes of a dimension over an axis."""


def arranged(slot: Slot, loops: GapLoops) -> Iterator[tree.Node]:
    """The loops in the order of the slot's tokens; what is inserted comes at the first free place after which no loop
    over its variable is given.
    """
    now = {a: outer for a, outer, _ in loops.temporal}
    until = {a: inner for a, _, inner in loops.temporal}
    lanes = _lane_places(slot, loops)
    axis_of = {v: a for a, axis in enumerate(loops.axes) for v in axis.variables}
    for i, token in enumerate(slot.tokens):
        if isinstance(token, Free):
            for a, _, inner in loops.temporal:
                full = not token.full_only or (loops.lowered is not None and loops.lowered[a] is Relevance.FULL)
                later = any(_is_temporal(t, loops.axes[a]) for t in slot.tokens[i + 1 :])
                if token.temporal and full and not later and now[a] != inner:
                    yield from temporal_loops(loops.axes[a], now[a], inner)
                    now[a] = inner
        elif token.dimension is None and axis_of[token.variable] in now:
            a = axis_of[token.variable]
            shape = (
                token.shape if token.shape is not None else _next_shape(slot.tokens[i + 1 :], loops.axes[a], until[a])
            )
            if shape != now[a]:
                yield from temporal_loops(loops.axes[a], now[a], shape)
                now[a] = shape
        yield from lanes.get(i, ())


def is_like(tokens: Gap, loops: Sequence[GivenLoop], above: Mapping[str, int]) -> bool:
    """Whether the loops of a gap, in their order, are those that are given, and others at free places.

    `above`: the tile shape of each rank variable above the gap.
    """
    if not tokens:
        return not loops
    token, first = tokens[0], loops[0] if loops else None
    below = above if first is None else {**above, first.variable: first.shape or 1}
    if isinstance(token, Free):
        taken = first is not None and (token.temporal or first.dimension is not None)
        return is_like(tokens[1:], loops, above) or (taken and is_like(tokens, loops[1:], below))
    same = first is not None and (first.variable, first.dimension) == (token.variable, token.dimension)
    if same and first is not None and token.shape in (None, first.shape) and is_like(tokens[1:], loops[1:], below):
        return True
    # a loop of one iteration is absent
    return token.shape in (None, above[token.variable]) and is_like(tokens[1:], loops, above)


def _is_temporal(token: object, axis: Axis) -> bool:
    return isinstance(token, GivenLoop) and token.dimension is None and token.variable in axis.variables


def _next_shape(rest: Sequence[object], axis: Axis, otherwise: int) -> int:
    for token in rest:
        if _is_temporal(token, axis) and isinstance(token, GivenLoop) and token.shape is not None:
            return token.shape
    return otherwise


def _lane_places(slot: Slot, loops: GapLoops) -> dict[int, list[tree.Node]]:
    """For each token the spatial loops that come with it; those over variables that are not given at the last place."""
    loops_at: dict[int, list[tree.Node]] = {}
    rows = dict(slot.lanes.rows)
    free = max((i for i, t in enumerate(slot.tokens) if isinstance(t, Free)), default=len(slot.tokens) - 1)
    for _, a, nodes in loops.spatial:
        if a not in rows:  # in their own order: that of lanes that are places of a network counts
            loops_at.setdefault(free, []).extend(nodes)
    for a in {a: None for _, a, _ in loops.spatial if a in rows}:
        by_dimension = {d: nodes for d, axis, nodes in loops.spatial if axis == a}
        bounds = [loops.bounds(d, a) for d, _ in slot.lanes.dimensions]
        places = next(slot.lanes.orders(rows[a], bounds, loops.inner[a]))
        size = loops.inner[a] * prod(bounds)
        for i, chosen in zip(_token_of_entries(slot, loops.axes[a], rows[a]), places, strict=True):
            for d in chosen:
                size //= loops.bounds(d, a)
                loops_at.setdefault(i, []).extend(_with_shape(node, size) for node in by_dimension[d])
    return loops_at


def _with_shape(node: tree.Node, shape: int) -> tree.Node:
    assert isinstance(node, tree.Spatial)
    return replace(node, tile_shape=tree.PerEinsum(shape))


def _token_of_entries(slot: Slot, axis: Axis, row: Sequence[object]) -> list[int]:
    """The token that each entry of a row of lanes comes from; of free places the last one it may be."""
    positions: list[int] = []
    end = len(slot.tokens)
    for entry in reversed(row):
        for i in reversed(range(end)):
            token = slot.tokens[i]
            is_lanes = isinstance(token, GivenLoop) and token.dimension is not None and token.variable in axis.variables
            if isinstance(token, Free) if entry is None else is_lanes:
                positions.append(i)
                end = i
                break
    return positions[::-1]


def temporal_loops(axis: Axis, outer: int, inner: int) -> Iterator[tree.Node]:
    """Loops of one axis, one for each of its rank variables."""
    for (variable, _), before, after in zip(axis.members, axis.split(outer), axis.split(inner), strict=True):
        if before != after:
            yield tree.Temporal(tree.PerEinsum(variable), tree.PerEinsum(after))
