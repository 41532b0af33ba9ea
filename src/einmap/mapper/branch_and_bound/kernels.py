"""The compiled part of the search: the depth-first search that cost-to-go tables guide, and what it is made of.

Kernels are generic: a dataplacement comes as arrays of integers, nothing is compiled for one mapping. All state of a
search lies in arrays of the caller, so that it can return after so many nodes and go on later.
"""

# Kept machine code has `objectives` in it, and is told by this file: who changes that function touches this one, too.

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.compiled import inner, kernel, stable_order
from einmap.mapper.mapspace.point_kernels import has_fewer_rows, leads_to, place_of, row_of, tiles_at, value_at
from einmap.mapper.objective.objective_kernels import beaten, exceeds_cutoff, objectives

GAP, PLACE = 0, 1
DONE, PAUSED, FULL, LEAF = range(4)
"""How a call ends: all done, budget used up, archive full, a mapping whose cost the caller must find."""


@inner
def _bound(done: Any, least: Any, columns: Any, out: Any) -> None:
    """Costs so far, and what the rest costs at least in the columns of the tables."""
    for column in range(len(done)):
        out[column] = done[column]
    for i in range(len(columns)):
        out[columns[i]] += least[i]


@kernel
def take(values: Any, path: Any, prefix: int, plan: int, archive: Any, paths: Any, n: int) -> int:
    """Put a point into the archive in place of those that it beats; the new number of points, -1 when it is full."""
    kept = 0
    for row in range(n):
        beats = True
        for i in range(len(values)):
            if values[i] > archive[row, i]:
                beats = False
                break
        if not beats:
            for i in range(archive.shape[1]):
                archive[kept, i] = archive[row, i]
            for i in range(paths.shape[1]):
                paths[kept, i] = paths[row, i]
            kept += 1
    if kept == len(archive):
        return -1
    for i in range(len(values)):
        archive[kept, i] = values[i]
    paths[kept, 0] = plan
    paths[kept, 1] = prefix
    for i in range(len(path)):
        paths[kept, 2 + i] = path[i]
    return kept + 1


@inner
def _reorder(values: Any, order: Any, spare: Any) -> None:
    """Put the first values into another order; `spare`: room for them."""
    for i in range(len(order)):
        spare[i] = values[order[i]]
    for i in range(len(order)):
        values[i] = spare[i]


@kernel
def search(  # noqa: PLR0912, PLR0915 - one loop over explicit stacks, so that it can pause anywhere
    # the lattice: see `Lattice.layout`
    layout: Any, below: Any, starts: Any, quotients: Any,
    # levels of the plan
    kind: Any, mask: Any, tables: Any, lowered: Any, node: Any, rates: Any, fixed: Any, per_visit: Any,
    line_set: Any, lines: Any, bits: Any, lowered_bits: Any,
    # lanes: children of each prefix, rows of `quotients`
    child_start: Any, children: Any, divides: Any, constants: Any, leak: Any,
    # cost-to-go, memories, goals
    pool: Any, columns: Any, remainder: Any, most: float, capacity: Any, kept: Any, codes: Any,
    slack: float, plan: int, exact: bool,
    # archive
    archive: Any, paths: Any, n_found: int,
    # state: (level, the outermost one that is searched), acc, occupied, point and prefix at each level, candidates
    state: Any, acc: Any, occupied: Any, point_at: Any, prefix_at: Any, cand: Any, cand_point: Any, cand_prefix: Any,
    cand_n: Any, cand_next: Any, budget: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Depth-first search of one plan from the outside in; (how it ended, points in the archive, nodes, work).

    Arguments come one by one: as named tuples of arrays each call takes so much longer to unpack that a GPT-3 layer
    (thousands of short calls) is searched in 10 % more time.

    Work is what the budget counts: choices looked at. `exact`: the columns are the cost itself; else they are a lower
    bound of it, and each mapping that may be good is given back: `point_at[1:]` and `prefix_at[depth]` say which.

    `tables`: see `row_of`: rows of `pool` with least costs (of some `columns`) from a level on once its choice is made.
    `lowered`: for each level tensor and memory of the node whose space is reserved after the loops of the gap, or -1.
    `node`: tensor, memory (or -1), first row of `rates` of the storage node after the level (tensor -1: the compute,
    -2: none). `lines`: of some kinds, for each point; `line_set`: the ones of a row of `per_visit`.
    `budget`: the call ends before the node at which it is used up; in the middle of a list of choices where it is
    negative (then it stands for its absolute value, and there is no going on).
    """
    offsets, strides, radices = layout[1], layout[2], layout[3]
    at_once = budget < 0
    budget = abs(budget)
    n_levels = len(kind)
    k = acc.shape[1]
    n_axes = len(strides)
    coord = np.zeros(n_axes, dtype=np.int64)
    bound = np.empty(k)
    goal = np.empty(len(codes))
    odometer = np.zeros(n_axes, dtype=np.int64)
    room = np.empty(occupied.shape[1])
    nodes = 0
    work = 0
    level, outermost = state[0], state[1]
    eased = remainder.shape[1]
    while level >= outermost:
        if work >= budget:
            state[0] = level
            return PAUSED, n_found, nodes, work
        work += 1
        if cand_n[level] < 0:
            # open: list what may be chosen here, best first
            here, prefix = point_at[level], prefix_at[level]
            for axis in range(n_axes):
                coord[axis] = here // strides[axis] % radices[axis]
            count = 0
            for m in range(occupied.shape[1]):
                room[m] = occupied[level, m]
            # rather all points of the table than all that loops can come to
            by_row = kind[level] == GAP and has_fewer_rows(tables, level, prefix, mask[level], coord, offsets, starts)
            if by_row:
                first, end = tables[2][tables[0][level] + prefix], tables[4][tables[0][level] + prefix]
            elif kind[level] == GAP:
                first, end = 0, 1
                for axis in range(n_axes):
                    odometer[axis] = 0
                    if mask[level, axis]:
                        end *= starts[offsets[axis] + coord[axis] + 1] - starts[offsets[axis] + coord[axis]]
            else:
                first, end = child_start[prefix], child_start[prefix + 1]
            for choice in range(first, end):
                child, target, row = prefix, here, choice
                if by_row:
                    target = tables[5][choice]
                    if not leads_to(layout, below, starts, mask[level], coord, target):
                        continue
                elif kind[level] == GAP:
                    turns = True
                    for axis in range(n_axes):
                        if mask[level, axis]:
                            begin = starts[offsets[axis] + coord[axis]]
                            target += (below[begin + odometer[axis]] - coord[axis]) * strides[axis]
                            if turns:
                                odometer[axis] += 1
                                turns = begin + odometer[axis] == starts[offsets[axis] + coord[axis] + 1]
                                if turns:
                                    odometer[axis] = 0
                    row = row_of(tables, level, prefix, target)
                else:
                    child, target = children[choice], 0
                    for axis in range(n_axes):
                        position = quotients[divides[child, axis], coord[axis]]
                        if position < 0:
                            target = -1
                            break
                        target += position * strides[axis]
                    row = row_of(tables, level, child, target) if target >= 0 else -1
                if at_once and work >= budget:
                    state[0] = level
                    return PAUSED, n_found, nodes, work
                work += 1
                if row < 0 or pool[row, 0] == np.inf:
                    continue
                _bound(acc[level], pool[row], columns, bound)
                objectives(bound, leak[child], room, capacity, kept, codes, goal)
                if not beaten(goal, archive, n_found, slack, eased) and not exceeds_cutoff(goal, remainder, most):
                    cand[level, count] = goal[0]
                    cand_point[level, count] = target
                    cand_prefix[level, count] = child
                    count += 1
            order, spare = stable_order(cand[level], count), np.empty(count, np.int64)
            _reorder(cand_point[level], order, spare)
            if kind[level] == PLACE:
                _reorder(cand_prefix[level], order, spare)
            cand_n[level] = count
            cand_next[level] = 0
            nodes += 1
        if cand_next[level] == cand_n[level]:
            cand_n[level] = -1
            level -= 1
            continue
        at = cand_next[level]
        cand_next[level] += 1
        target = cand_point[level, at]
        prefix = cand_prefix[level, at] if kind[level] == PLACE else prefix_at[level]
        # what was found since the list was made may rule the choice out
        _bound(acc[level], pool[row_of(tables, level, prefix, target)], columns, bound)
        for m in range(occupied.shape[1]):
            room[m] = occupied[level, m]
        objectives(bound, leak[prefix], room, capacity, kept, codes, goal)
        if beaten(goal, archive, n_found, slack, eased):
            if len(codes) == 1:
                cand_next[level] = cand_n[level]
            continue
        # the node of this step
        fits = True
        t = lowered[level, 0]
        if t >= 0:
            # relevant loops that follow a node are passed, and the best of the partially relevant ones
            base = point_at[level]
            passed = base
            for axis in range(n_axes):
                if lowered[level, 2 + axis] == 2:
                    passed += (
                        place_of(target, axis, layout) * strides[axis] - place_of(base, axis, layout) * strides[axis]
                    )
                elif lowered[level, 2 + axis] >= 3:
                    # a tile shape that is given: loops further in are not passed
                    passed += (lowered[level, 2 + axis] - 3 - place_of(base, axis, layout)) * strides[axis]
            least = value_at(layout, t, passed)
            for axis in range(n_axes):
                if lowered[level, 2 + axis] == 1:
                    other = passed + (place_of(target, axis, layout) - place_of(base, axis, layout)) * strides[axis]
                    least = min(least, value_at(layout, t, other))
            m = lowered[level, 1]
            room[m] += least * lowered_bits[level]
            if room[m] > capacity[m]:
                fits = False
        t, m = node[level, 0], node[level, 1]
        if fits and m >= 0:
            room[m] += value_at(layout, t, target) * bits[level]
            if room[m] > capacity[m]:
                fits = False
        if not fits:
            continue
        point_at[level + 1] = target
        prefix_at[level + 1] = prefix
        for m in range(occupied.shape[1]):
            occupied[level + 1, m] = room[m]
        if t >= 0:
            row = node[level, 2] + prefix
            tiles = tiles_at(layout, target)
            value = value_at(layout, t, target)
            filled = value * tiles
            for column in range(k):
                acc[level + 1, column] = acc[level, column] + rates[row, column] * filled + fixed[row, column]
                if per_visit.shape[1]:
                    acc[level + 1, column] += per_visit[row, column] * tiles + per_visit[row, k + column] * value
                    for number in range(2, per_visit.shape[1] // k):
                        weight = lines[line_set[row], number - 2, target]
                        acc[level + 1, column] += per_visit[row, number * k + column] * weight
        elif t == -1:
            for column in range(k):
                acc[level + 1, column] = acc[level, column] + constants[node[level, 2] + prefix, column]
        else:
            for column in range(k):
                acc[level + 1, column] = acc[level, column]
        if level + 1 < n_levels:
            level += 1
            cand_n[level] = -1
            continue
        objectives(acc[level + 1], leak[prefix], occupied[level + 1], capacity, kept, codes, goal)
        if not beaten(goal, archive, n_found, slack, eased):
            if not exact:
                state[0] = level
                return LEAF, n_found, nodes, work
            n = take(goal, point_at[1:], prefix, plan, archive, paths, n_found)
            if n < 0:
                # come back to this choice when there is more room
                cand_next[level] -= 1
                state[0] = level
                return FULL, n_found, nodes, work
            n_found = n
    state[0] = level
    return DONE, n_found, nodes, work
