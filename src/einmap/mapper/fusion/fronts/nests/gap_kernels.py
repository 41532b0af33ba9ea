"""The compiled part of the listing of outer nests that looks at one gap or fanout: its loops and their order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from einmap.compiled import inner, place_in
from einmap.mapper.mapspace.point_kernels import place_of

OPEN, NEXT, ARRANGE = range(3)
"""Tasks at a level: list its choices, take the next one, put the loops of its gap in order."""
STAGE, BEGIN, END, AT, ARRIVED, FIRST, GAP_LOOPS, LOOPS, SEGMENT, POINT, PREFIX, PASSED, WIDTH = range(13)
"""State of a level: its choices in the arena and which is next; whether the node below the gap was reached; the first
loop of the gap in the list of these, and the end of them; loops above, and where those of the gap before begin; point
and prefix; loops that lower the node above.
"""
GAP, LAST, OPENING, TENSOR, PLACE, ROW, SHARED, STATE, LOWERED, LOWERED_PLACE, MEMORY, TOKEN, FETCHED, FIELDS = range(
    14
)
"""Facts of a level: whether it is a gap's; whether a node follows; the level at which its gap opens; tensor, memory (or
-1) and row of coefficients of the node; whether it backs a shared tensor, a state of a recurrence; tensor and memory of
the node above that the gap lowers, and the component that this memory is; whether the node is the token's; whether its
rows wait for indices.
"""
KIND, VARIABLE, OUTER, INNER, LEVEL, PICKED, OUTER_SIZE, CUT = range(8)
"""A loop: see `loops.Loop`; its level and place in the list of its gap, and the number of the tile shape above."""
BITS, TIMES, OVER, STEPS_TIMES, STEPS_OVER, LOWERED_BITS, NUMBERS = range(7)
"""Bits of a node's values, factors of these where other users need more, and bits of the lowered node's values."""
TARGET, PARENT, SIZE, RISES, LENGTH, CHILD, ALIVE, CHOICE = range(8)
"""A choice in the arena: point, choice that it adds a loop to (-1: none), number of the loop's tile shape, whether all
its loops rise, how many it has, prefix, and whether it can be completed.
"""
MOST, PER_AXIS, STEPS, STEPS_LEFT, IN_TURN = range(5)
"""Limits: loops, loops over a variable, the variable of a recurrence's steps (or -1) and the number of its least tile
shape, whether the loops of a gap stand as they are listed.
"""
SIZES = 2**44
"""Tile shapes that a key tells apart."""


class Nest(NamedTuple):
    """All that stays the same while the outer nests of a dataplacement are listed, see `nest_kernels.outer_nests`.

    `met_of`: for each tensor its tree of keys or -1; `edges`: where those of each node begin, with `codes` and
    `nodes` that they lead to; `ends`: nodes at which keys end; `allowed`: tile shapes that some key of a tree has.
    """

    layout: Any
    var_start: Any
    axis_of: Any
    ranks: Any
    kinds: Any
    relevance: Any
    size_start: Any
    sizes: Any
    below_start: Any
    below: Any
    child_start: Any
    children: Any
    divides: Any
    quotients: Any
    lane_start: Any
    lane_loops: Any
    of_level: Any
    numbers: Any
    masks: Any
    hidden: Any
    outside: Any
    limits: Any
    met_of: Any
    edges: Any
    codes: Any
    nodes: Any
    ends: Any
    allowed: Any
    n_ranks: int


class State(NamedTuple):
    """State of a listing: levels, choices, loops of the gap, loops, which of the gap stand, tile shapes by variable.

    `backed`: for each tensor the loops above its outermost node, -1 where it has none yet; `keys`: for each tree its
    node by number of loops; costs and space by level, costs of each level's node, and bits of it and the lowered one.
    """

    levels: Any
    arena: Any
    gap: Any
    loops: Any
    used: Any
    sizes_now: Any
    backed: Any
    keys: Any
    acc: Any
    occupied: Any
    costs: Any
    bits: Any


@inner
def lowered(axis: int, point: int, factor: int, layout: Any) -> Any:
    """The point at which the tile shape of an axis is divided by `factor`; -1 where there is none."""
    sizes, offsets = layout[0], layout[1]
    here = place_of(point, axis, layout)
    wanted = np.int64(sizes[offsets[axis] + here]) // factor
    at = place_in(sizes, offsets[axis], offsets[axis + 1], wanted)
    return -1 if at < 0 else point + (at - offsets[axis] - here) * layout[2][axis]


@inner
def child_of(node: int, kind: int, rank: int, size: int, nest: Any) -> Any:
    """The node of a tree of keys below another one, by a loop; -1 where no key goes on so."""
    code = (kind * nest.n_ranks + rank) * SIZES + size
    at = place_in(nest.codes, nest.edges[node], nest.edges[node + 1], code)
    return -1 if at < 0 else nest.nodes[at]


@inner
def number_of(size: int, variable: int, nest: Any) -> Any:
    """The number of a tile shape of a variable; -1 where it has none."""
    return place_in(nest.sizes, nest.size_start[variable], nest.size_start[variable + 1], size)


@inner
def list_steps(i: int, begin: int, end: int, nest: Any, state: Any) -> int:
    """Add the loop over the steps of a recurrence to choices, behind these; the end of the list, -1 without room."""
    arena, steps, left = state.arena, nest.limits[STEPS], nest.limits[STEPS_LEFT]
    axis, known, prefix = nest.axis_of[steps], end, state.levels[i, PREFIX]
    factor = nest.sizes[nest.size_start[steps + 1] - 1] // nest.sizes[left]
    for choice in range(begin, known if nest.masks[0, i, axis] else begin):
        target = lowered(axis, arena[choice, TARGET], factor, nest.layout)
        if target < 0:
            continue
        if end == len(arena):
            return -1
        arena[end, TARGET], arena[end, PARENT], arena[end, SIZE], arena[end, RISES] = target, choice, left, 0
        arena[end, LENGTH], arena[end, CHILD] = arena[choice, LENGTH] + 1, prefix
        end += 1
    return end


@inner
def may_cut(v: int, waits: Any, nest: Any, state: Any) -> Any:
    """Whether a gap may have a temporal loop over a variable; `waits`: that over steps is still to come."""
    now = state.sizes_now[1, v]
    if now < 0 or nest.sizes[now] <= 1 or state.sizes_now[2, v] >= nest.limits[PER_AXIS]:
        return False
    free = nest.outside[v] or not waits
    for t in range(len(state.backed)):
        free = free and not (nest.hidden[t, v] and state.backed[t] < 0)
    return free


@inner
def list_gap(i: int, nest: Any, state: Any) -> tuple[int, int]:  # noqa: PLR0912 - one loop over all
    """List the temporal loops that a gap may have; the first choice and the end of them, -1 where room is short.

    Each variable has one loop at most.
    """
    levels, loops, sizes_now, backed, arena = state.levels, state.loops, state.sizes_now, state.backed, state.arena
    masks, sizes, below_start, below, limits = nest.masks, nest.sizes, nest.below_start, nest.below, nest.limits
    begin, n_loops, prefix = levels[i, BEGIN], levels[i, LOOPS], levels[i, PREFIX]
    end = begin + 1
    if end > len(arena):
        return -1, -1
    arena[begin, TARGET], arena[begin, PARENT], arena[begin, RISES] = levels[i, POINT], -1, 1
    arena[begin, LENGTH], arena[begin, CHILD] = 0, prefix
    steps = limits[STEPS]
    waits = steps >= 0 and sizes_now[2, steps] == 0
    room = limits[MOST] - n_loops - waits
    any_rising = False
    for axis in range(masks.shape[2]):
        any_rising = any_rising or masks[1, i, axis]
        if not masks[0, i, axis]:
            continue
        for v in range(nest.var_start[axis], nest.var_start[axis + 1]):
            now, rises = sizes_now[1, v], masks[1, i, axis]
            if not may_cut(v, waits, nest, state):
                continue
            for at in range(levels[i, SEGMENT], n_loops):
                rises = rises and not (loops[at, KIND] == 0 and loops[at, VARIABLE] == v)
            known = end
            for choice in range(begin, known):
                if arena[choice, LENGTH] >= room:
                    continue
                for at in range(below_start[now], below_start[now + 1]):
                    size = below[at]
                    free = True
                    for t in range(len(backed)):
                        m = nest.met_of[t]
                        free = free and (m < 0 or backed[t] >= 0 or nest.allowed[m, size])
                    if not free:
                        continue
                    target = lowered(axis, arena[choice, TARGET], sizes[now] // sizes[size], nest.layout)
                    if target < 0:
                        continue
                    if end == len(arena):
                        return -1, -1
                    arena[end, TARGET], arena[end, PARENT], arena[end, SIZE] = target, choice, size
                    arena[end, RISES], arena[end, LENGTH] = rises and arena[choice, RISES], arena[choice, LENGTH] + 1
                    arena[end, CHILD] = prefix
                    end += 1
    first = begin
    if waits and nest.of_level[i, TOKEN]:
        first, end = end, list_steps(i, begin, end, nest, state)
        if end < 0:
            return -1, -1
    for choice in range(first, end):
        drops = nest.of_level[i, LAST] and any_rising and arena[choice, LENGTH] > 0 and arena[choice, RISES]
        arena[choice, ALIVE] = not drops
    return first, end


@inner
def list_lanes(i: int, nest: Any, state: Any) -> tuple[int, int]:
    """List the lanes that a fanout may have; the first choice and the end of them, -1 where room is short."""
    levels, arena, layout = state.levels, state.arena, nest.layout
    point, prefix, begin = levels[i, POINT], levels[i, PREFIX], levels[i, BEGIN]
    end = begin
    for at in range(nest.child_start[prefix], nest.child_start[prefix + 1]):
        child, target = nest.children[at], 0
        for axis in range(len(layout[2])):
            position = nest.quotients[nest.divides[child, axis], place_of(point, axis, layout)]
            if position < 0:
                target = -1
                break
            target += position * layout[2][axis]
        if target < 0:
            continue
        if end == len(arena):
            return -1, -1
        arena[end, TARGET], arena[end, CHILD], arena[end, ALIVE] = target, child, 1
        end += 1
    return begin, end


@inner
def gap_loops(i: int, choice: int, nest: Any, state: Any) -> Any:
    """Put the loops of a choice behind those that its gap has already; the end of them, -1 where there are too many.

    `gap`: kind, variable and factor of each loop.
    """
    levels, arena, gap, sizes_now, layout = state.levels, state.arena, state.gap, state.sizes_now, nest.layout
    end, n_loops = levels[i, GAP_LOOPS], levels[i, LOOPS]
    if nest.of_level[i, GAP]:
        last = end + arena[choice, LENGTH]
        at = last
        while at > end:
            at -= 1
            size = arena[choice, SIZE]
            v = 0
            while nest.size_start[v + 1] <= size:
                v += 1
            gap[at, 0], gap[at, 1], gap[at, 2] = 0, v, sizes_now[0, v] // nest.sizes[size]
            choice = arena[choice, PARENT]
        return last
    child, point = arena[choice, CHILD], levels[i, POINT]
    first, each = end, nest.lane_loops
    for at in range(nest.lane_start[child], nest.lane_start[child + 1]):
        axis = each[at, 1]
        size = np.int64(layout[0][layout[1][axis] + place_of(point, axis, layout)])
        v = nest.var_start[axis]
        for before in range(first, end):
            if gap[before, 1] == v:
                size //= gap[before, 2]
        gap[end, 0], gap[end, 1], gap[end, 2] = each[at, 0], v, size // (size // each[at, 2])
        end += 1
    if n_loops + end - levels[i, FIRST] > nest.limits[MOST]:
        return -1
    for at in range(first, end):
        times = sizes_now[2, gap[at, 1]]
        for other in range(levels[i, FIRST], end):
            times += gap[other, 1] == gap[at, 1]
        if times > nest.limits[PER_AXIS]:
            return -1
    return end


@inner
def pick(i: int, start: int, position: int, nest: Any, state: Any) -> int:
    """Put the next of the loops of a gap that may stand at a position there, from some number on; its number, or -1.

    The loops of a network's fanouts stand as they are listed.
    """
    levels, gap, used, loops, keys = state.levels, state.gap, state.used, state.loops, state.keys
    first, end, opening = levels[i, FIRST], levels[i, GAP_LOOPS], nest.of_level[i, OPENING]
    n_loops, kinds, limits = levels[i, LOOPS] + position, nest.kinds, nest.limits
    for number in range(max(start, first), end):
        if used[number] or (limits[IN_TURN] and number - first != position):
            continue
        kind, v = gap[number, 0], gap[number, 1]
        if v == limits[STEPS] and position < end - first - 1:
            continue
        if position == 0 and kind == 0 and nest.masks[1, opening, nest.axis_of[v]]:
            above = False
            for at in range(levels[opening, SEGMENT], levels[opening, LOOPS]):
                above = above or (loops[at, KIND] == 0 and loops[at, VARIABLE] == v)
            if not above:
                continue
        fits = True
        if kinds[kind, 0]:
            for other in range(first, number):
                fits = fits and (used[other] or not kinds[gap[other, 0], 0])
        if not fits:
            continue
        size = state.sizes_now[0, v] // gap[number, 2]
        for t in range(len(state.backed)):
            m = nest.met_of[t]
            if fits and m >= 0 and state.backed[t] < 0:
                keys[m, n_loops + 1] = child_of(keys[m, n_loops], kind, nest.ranks[t, v], size, nest)
                fits = keys[m, n_loops + 1] >= 0
        if fits:
            return number
    return -1
