"""The compiled part of the listing of outer nests: a depth-first search over points, lanes and orders of loops.

All state lies in arrays of the caller, so that a call can end after so many outer nests and go on later.
"""

# Kept machine code has `objectives` in it, and is told by this file: who changes that function touches this one, too.

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.compiled import inner, kernel
from einmap.mapper.fusion.fronts.nests.gap_kernels import (
    ALIVE,
    ARRANGE,
    ARRIVED,
    AT,
    BEGIN,
    BITS,
    CHILD,
    END,
    FETCHED,
    FIRST,
    GAP,
    GAP_LOOPS,
    INNER,
    KIND,
    LAST,
    LEVEL,
    LOOPS,
    LOWERED,
    LOWERED_BITS,
    LOWERED_PLACE,
    MEMORY,
    NEXT,
    OPEN,
    OPENING,
    OUTER,
    OUTER_SIZE,
    OVER,
    PASSED,
    PICKED,
    PLACE,
    POINT,
    PREFIX,
    ROW,
    SEGMENT,
    SHARED,
    STAGE,
    STATE,
    STEPS,
    STEPS_OVER,
    STEPS_TIMES,
    TARGET,
    TENSOR,
    TIMES,
    VARIABLE,
    Nest,
    State,
    gap_loops,
    list_gap,
    list_lanes,
    lowered,
    number_of,
    pick,
)
from einmap.mapper.mapspace.point_kernels import tiles_at, value_at
from einmap.mapper.objective.objective_kernels import exceeds_cutoff, keep_least, objectives

DONE, PAUSED, NARROW = range(3)
"""How a call ends: all done, rows or budget used up, no room for the choices of a level."""


@inner
def node_cost(coefficients: Any, row: int, t: int, point: int, layout: Any, cost: Any) -> None:
    """Costs of the node of a tensor at a point, by column."""
    rates, fixed, per_visit, line_set, lines = coefficients
    tiles, value, k = tiles_at(layout, point), value_at(layout, t, point), len(cost)
    for column in range(k):
        cost[column] = rates[row, column] * (value * tiles) + fixed[row, column]
        if per_visit.shape[1]:
            cost[column] += per_visit[row, column] * tiles + per_visit[row, k + column] * value
            for number in range(2, per_visit.shape[1] // k):
                cost[column] += per_visit[row, number * k + column] * lines[line_set[row], number - 2, point]


@inner
def arrive(i: int, nest: Any, state: Any, capacity: Any, coefficients: Any) -> bool:
    """Go down to the node below a gap whose loops stand; whether that may stand there."""
    of_level, numbers, layout, levels, loops = nest.of_level, nest.numbers, nest.layout, state.levels, state.loops
    acc, occupied, bits, steps = state.acc, state.occupied, state.bits, nest.limits[STEPS]
    opening, t = of_level[i, OPENING], of_level[i, TENSOR]
    before, n_loops, m = levels[opening, LOOPS], levels[i + 1, LOOPS], nest.met_of[t]
    if of_level[i, SHARED] and m >= 0 and not nest.ends[state.keys[m, n_loops]]:
        return False
    has_steps = steps >= 0 and state.sizes_now[2, steps] > 0
    if of_level[i, STATE] and has_steps and loops[n_loops - 1, VARIABLE] != steps:
        return False
    for memory in range(occupied.shape[1]):
        occupied[i + 1, memory] = occupied[i, memory]
    if of_level[opening, LOWERED] >= 0:
        above, at, passed = of_level[opening, LOWERED], levels[opening, POINT], 0
        for number in range(before, n_loops):
            kind, axis = loops[number, KIND], nest.axis_of[loops[number, VARIABLE]]
            relevance = nest.relevance[above, axis]
            if kind != 0 and nest.kinds[kind, 1] == of_level[opening, MEMORY]:
                continue
            if relevance == 0 or kind != 0:
                break
            at = lowered(axis, at, loops[number, OUTER] // loops[number, INNER], layout)
            passed += 1
            if relevance == 1:
                break
        levels[i, PASSED] = passed
        place = of_level[opening, LOWERED_PLACE]
        bits[i, 1] = value_at(layout, above, at) * numbers[opening, LOWERED_BITS]
        occupied[i + 1, place] += bits[i, 1]
        if occupied[i + 1, place] > capacity[place]:
            return False
    point, prefix, place = levels[i + 1, POINT], levels[i + 1, PREFIX], of_level[i, PLACE]
    bits[i, 0] = value_at(layout, t, point) * numbers[i, BITS]
    if of_level[i, SHARED]:
        by_steps = of_level[i, STATE] and has_steps
        times = numbers[i, STEPS_TIMES if by_steps else TIMES]
        bits[i, 0] = bits[i, 0] * times / numbers[i, STEPS_OVER if by_steps else OVER]
    if place >= 0:
        occupied[i + 1, place] += bits[i, 0]
        if occupied[i + 1, place] > capacity[place]:
            return False
    node_cost(coefficients, of_level[i, ROW] + prefix, t, point, layout, state.costs[i])
    for column in range(acc.shape[1]):
        acc[i + 1, column] = acc[i, column] + state.costs[i, column]
    if of_level[i, SHARED]:
        state.backed[t] = n_loops
    return True


@inner
def write(n: int, nest: Any, state: Any, rest: Any, columns: Any, whole: Any, numbers: Any) -> bool:
    """Write down an outer nest as row `n`, unless rows of a table would be fetched before their indices are made.

    `whole`: prefix, loops; for each level its point, the loops above its node, and those that the node above passes;
    the loops. `numbers`: costs, space, costs of what works ahead, least costs of the rest; for each level the bits of
    its node, and of the lowered one.
    """
    of_level, levels, loops, backed, bits = nest.of_level, state.levels, state.loops, state.backed, state.bits
    acc, occupied, costs = state.acc, state.occupied, state.costs
    depth, k, memories = len(of_level), acc.shape[1], occupied.shape[1]
    n_loops, fused = levels[depth, LOOPS], 0
    for t in range(len(backed)):
        fused = max(fused, backed[t])
    for i in range(depth):
        if of_level[i, FETCHED] and levels[i + 1, LOOPS] < fused:
            return False
    whole[n, 0], whole[n, 1] = levels[depth, PREFIX], n_loops
    at = 2
    for i in range(depth):
        whole[n, at], whole[n, at + depth] = levels[i + 1, POINT], levels[i + 1, LOOPS]
        whole[n, at + 2 * depth] = levels[i, PASSED]
        at += 1
    at += 2 * depth
    for number in range((whole.shape[1] - at) // 5):
        for j in range(5):
            whole[n, at] = loops[number, j] if number < n_loops else 0
            at += 1
    for column in range(k):
        numbers[n, column] = acc[depth, column]
        numbers[n, k + memories + column] = 0.0
        numbers[n, 2 * k + memories + column] = 0.0
    for memory in range(memories):
        numbers[n, k + memory] = occupied[depth, memory]
    for i in range(depth):
        works_ahead = False
        for number in range(levels[i + 1, LOOPS], fused):
            works_ahead = works_ahead or loops[number, KIND] == 0
        if of_level[i, LAST] and works_ahead:
            for column in range(k):
                numbers[n, k + memories + column] += costs[i, column]
        numbers[n, 3 * k + memories + i], numbers[n, 3 * k + memories + depth + i] = bits[i, 0], bits[i, 1]
    for at in range(len(columns)):
        # the table holds the cost of the last node too
        numbers[n, 2 * k + memories + columns[at]] = rest[at] - costs[depth - 1, columns[at]]
    return True


@kernel
def outer_nests(  # noqa: PLR0912, PLR0915 - one loop over explicit stacks, so that it can pause anywhere
    # the lattice, variables, tile shapes and lanes: see `NestRules`
    layout: Any, variables: Any, of_sizes: Any, lanes: Any,
    # the dataplacement: see `OuterNests`; tables, coefficients
    of_level: Any, numbers: Any, masks: Any, tables: Any, pool: Any, columns: Any, coefficients: Any,
    # rules and limits
    hidden: Any, outside: Any, met: Any, limits: Any, leak: Any, capacity: Any, codes: Any, remainder: Any, most: float,
    pruned: Any, n_pruned: int,
    # state, and where outer nests go
    where: Any, levels: Any, arena: Any, gap: Any, loops: Any, used: Any, sizes_now: Any, backed: Any, keys: Any,
    acc: Any, occupied: Any, costs: Any, bits: Any, whole: Any, rows: Any, budget: int,
) -> tuple[int, int, int]:  # fmt: skip
    """List outer nests of a dataplacement, so many as there are rows; how that ended, how many, and rows of `pruned`.

    `where`: the level. `tables`: see `row_of`. `met`: for each tensor its tree
    of keys or -1; edges of nodes from start to start with codes and children; nodes at which keys end; roots; tile
    shapes that some key has by tree; how many ranks there are. `sizes_now`: tile shape, its number, and loops by
    variable. `budget`: choices that are looked at.
    """
    nest = Nest(
        layout, variables[0], variables[1], variables[2], variables[3], variables[4], of_sizes[0], of_sizes[1],
        of_sizes[2], of_sizes[3], lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], of_level, numbers, masks,
        hidden, outside, limits, met[0], met[1], met[2], met[3], met[4], met[6], met[7],
    )  # fmt: skip
    state = State(levels, arena, gap, loops, used, sizes_now, backed, keys, acc, occupied, costs, bits)
    firsts, slot_rows, begins, slots = tables
    depth, n, work, i = len(of_level), 0, 0, where[0]
    bound, goal = np.empty(acc.shape[1]), np.empty((1, len(codes)))
    while i >= 0:
        if levels[i, STAGE] == OPEN:
            if work >= budget:
                where[0] = i
                return PAUSED, n, n_pruned
            if of_level[i, GAP]:
                first, end = list_gap(i, nest, state)
            else:
                first, end = list_lanes(i, nest, state)
            if first < 0:
                where[0] = i
                return NARROW, n, n_pruned
            work += end - levels[i, BEGIN] + 1
            for choice in range(first, end):
                if not arena[choice, ALIVE]:
                    continue
                arena[choice, ALIVE] = 0
                slot, child = slots[slot_rows[i], arena[choice, TARGET]], arena[choice, CHILD]
                if slot < 0:
                    continue
                row = begins[firsts[i] + child] + slot
                if pool[row, 0] == np.inf:
                    continue
                for column in range(len(bound)):
                    bound[column] = acc[i, column]
                for at in range(len(columns)):
                    bound[columns[at]] += pool[row, at]
                objectives(bound, leak[child], occupied[i], capacity, leak[:0], codes, goal[0])
                if exceeds_cutoff(goal[0], remainder, most):
                    n_pruned = keep_least(pruned, n_pruned, goal)
                    continue
                arena[choice, ALIVE] = 1
            levels[i, STAGE], levels[i, AT], levels[i, END] = NEXT, first, end
        if levels[i, STAGE] == NEXT:
            choice = levels[i, AT]
            while choice < levels[i, END] and not arena[choice, ALIVE]:
                choice += 1
            levels[i, AT] = choice + 1
            if choice == levels[i, END]:
                i -= 1
                continue
            opening = of_level[i, OPENING]
            levels[i, GAP_LOOPS] = levels[i, FIRST] if opening == i else levels[i - 1, GAP_LOOPS]
            end = gap_loops(i, choice, nest, state)
            if end < 0:
                continue
            levels[i, GAP_LOOPS] = end
            levels[i + 1, POINT], levels[i + 1, PREFIX] = arena[choice, TARGET], arena[choice, CHILD]
            levels[i + 1, BEGIN] = levels[i, END]
            if not of_level[i, LAST]:
                levels[i + 1, FIRST], levels[i + 1, LOOPS] = levels[i, FIRST], levels[i, LOOPS]
                levels[i + 1, SEGMENT], levels[i + 1, STAGE] = levels[i, SEGMENT], OPEN
                for column in range(acc.shape[1]):
                    acc[i + 1, column] = acc[i, column]
                for memory in range(occupied.shape[1]):
                    occupied[i + 1, memory] = occupied[i, memory]
                i += 1
                continue
            levels[i, STAGE], levels[i, ARRIVED] = ARRANGE, 0
            levels[i + 1, LOOPS] = levels[i, LOOPS]
            start = 0
        else:
            start = -1
        # the loops of the gap in every order; `start`: the first of them that is tried, -1 where the last one goes
        while True:
            position, size = levels[i + 1, LOOPS] - levels[i, LOOPS], levels[i, GAP_LOOPS] - levels[i, FIRST]
            if position == size and not levels[i, ARRIVED]:
                if i == depth - 1 and n == len(whole):
                    where[0] = i
                    return PAUSED, n, n_pruned
                levels[i, ARRIVED] = 1
                if arrive(i, nest, state, capacity, coefficients):
                    if i < depth - 1:
                        levels[i + 1, FIRST], levels[i + 1, SEGMENT] = levels[i, GAP_LOOPS], levels[i, LOOPS]
                        levels[i + 1, STAGE] = OPEN
                        i += 1
                        break
                    row = begins[firsts[i] + levels[depth, PREFIX]] + slots[slot_rows[i], levels[depth, POINT]]
                    if write(n, nest, state, pool[row], columns, whole, rows):
                        n += 1
                start = -1
            if start < 0:
                # away with the last loop
                if levels[i, ARRIVED]:
                    levels[i, ARRIVED] = 0
                    if of_level[i, SHARED]:
                        backed[of_level[i, TENSOR]] = -1
                if position == 0:
                    levels[i, STAGE] = NEXT
                    break
                position -= 1
                at = levels[i, LOOPS] + position
                v = loops[at, VARIABLE]
                sizes_now[0, v], sizes_now[1, v] = loops[at, OUTER], loops[at, OUTER_SIZE]
                sizes_now[2, v] -= 1
                used[loops[at, PICKED]] = False
                levels[i + 1, LOOPS] -= 1
                start = loops[at, PICKED] + 1
            number = pick(i, start, position, nest, state)
            start = -1
            if number >= 0:
                at, v = levels[i, LOOPS] + position, gap[number, 1]
                loops[at, KIND], loops[at, VARIABLE], loops[at, OUTER] = gap[number, 0], v, sizes_now[0, v]
                loops[at, INNER], loops[at, LEVEL] = sizes_now[0, v] // gap[number, 2], i
                loops[at, PICKED], loops[at, OUTER_SIZE] = number, sizes_now[1, v]
                sizes_now[0, v] = loops[at, INNER]
                sizes_now[1, v] = number_of(loops[at, INNER], v, nest)
                sizes_now[2, v] += 1
                used[number] = True
                levels[i + 1, LOOPS] += 1
                start = 0
    where[0] = i
    return DONE, n, n_pruned


@kernel
def judged(
    rows: Any, whole: Any, k: int, memories: int, floor: Any, leak: Any, capacity: Any, codes: Any, remainder: Any,
    most: float, pruned: Any, n_pruned: int, least: Any, good: Any,
) -> int:  # fmt: skip
    """Objectives that no completion of outer nests is below, and which may be good; rows of `pruned`.

    `rows`, `whole`: as `write` has them, with so many columns of cost; `floor`: objectives that nothing is below.
    """
    bound = np.empty(k)
    for n in range(len(rows)):
        for column in range(k):
            bound[column] = rows[n, column] + rows[n, 2 * k + memories + column]
        objectives(bound, leak[whole[n, 0]], rows[n, k : k + memories], capacity, leak[:0], codes, least[n])
        good[n] = True
        for i in range(len(codes)):
            good[n] = good[n] and np.isfinite(least[n, i])
            least[n, i] = max(least[n, i], floor[i])
        if good[n] and exceeds_cutoff(least[n], remainder, most):
            n_pruned = keep_least(pruned, n_pruned, least[n : n + 1])
            good[n] = False
    return n_pruned


@kernel
def undominated(rows: Any, starts: Any) -> Any:
    """Which rows no other of their group makes needless, of equal ones the first. Groups stand from start to start."""
    kept = np.ones(len(rows), dtype=np.bool_)
    for group in range(len(starts) - 1):
        for i in range(starts[group], starts[group + 1]):
            for j in range(starts[group], starts[group + 1]):
                if i == j:
                    continue
                better, less = True, j < i
                for column in range(rows.shape[1]):
                    if rows[j, column] > rows[i, column]:
                        better = False
                        break
                    less = less or rows[j, column] < rows[i, column]
                if better and less:
                    kept[i] = False
                    break
    return kept
