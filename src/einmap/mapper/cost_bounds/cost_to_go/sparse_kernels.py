"""The compiled part of making cost-to-go tables that have rows only for points worth it. Kernels are generic."""

# Kept machine code has `objectives` in it, and is told by this file: who changes that function touches this one, too.

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.compiled import inner, kernel, maker, stable_order
from einmap.mapper.objective.objective_kernels import beaten, exceeds_cutoff, objectives

NO_ROOM = -1
"""Instead of a number of rows: the pool is full."""
COUNTED = 16
"""Rows are counted rather than sorted where there are at most so many times as many places for groups."""


@maker
def grouped(points: Any, layout: Any, mask: Any) -> tuple[Any, Any, Any]:
    """Rows of a table by where they are beside the axes of `mask`: (rows in this order, start of each group, place).

    `place`: of each row in a dense array over the axes of `mask`, the first axis fastest. `points`: of the rows.

    `points`: int64 (rows,); `layout`: see `mapspace.layout.layout_of`; `mask`: bool (axes,). Gives int64 (rows,), int64
    (groups + 1,), int32 (rows,).
    """
    strides, radices = layout[2], layout[3]
    n = len(points)
    beside, place = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int32)
    n_bases, size = 1, 1
    for axis in range(len(strides)):
        for row in range(n):
            position = points[row] // strides[axis] % radices[axis]
            if mask[axis]:
                place[row] += position * size
            else:
                beside[row] += position * n_bases
        if mask[axis]:
            size *= radices[axis]
        else:
            n_bases *= radices[axis]
    if n_bases <= COUNTED * n:
        count = np.zeros(n_bases + 1, dtype=np.int64)
        for row in range(n):
            count[beside[row] + 1] += 1
        groups = 0
        for base in range(n_bases):
            groups += count[base + 1] > 0
            count[base + 1] += count[base]
        starts = np.zeros(groups + 1, dtype=np.int64)
        group = 0
        for base in range(n_bases):
            if count[base + 1] > count[base]:
                group += 1
                starts[group] = count[base + 1]
        order = np.empty(n, dtype=np.int64)
        for row in range(n):
            order[count[beside[row]]] = row
            count[beside[row]] += 1
        return order, starts, place
    order = stable_order(beside, n)
    groups, ends = 0, np.zeros(n + 1, dtype=np.int64)
    for i in range(1, n + 1):
        if i == n or beside[order[i]] != beside[order[i - 1]]:
            groups += 1
            ends[groups] = i
    return order, ends[: groups + 1], place


@inner
def promises(costs: Any, limit: Any, full: Any, values: Any) -> bool:
    """Whether costs to go leave room for something better than what was found; `full`, `values`: scratch.

    `costs`: float64 (columns of the tables,); `limit`: see `SparseTables.kernel_limit`; `full`: float64 (all columns,);
    `values`: float64 (objectives,).
    """
    archive, n, slack, remainder, most, codes, leak, capacity, occupied, columns, kept, _ = limit
    if n == 0 and len(remainder) == 0:
        return True
    for i in range(len(columns)):
        full[columns[i]] = costs[i]
    objectives(full, leak, occupied, capacity, kept, codes, values)
    return not beaten(values, archive, n, slack, remainder.shape[1]) and not exceeds_cutoff(values, remainder, most)


@inner
def _values(layout: Any, tensor: int, place: Any) -> float:
    """As `point_kernels.value_at`, for positions on the axes: `place`, int64 (axes,)."""
    sizes, offsets, _, _, _, index_start, term_start, term_axis, term_scale = layout
    values = 1.0
    for index in range(index_start[tensor], index_start[tensor + 1]):
        length = 1.0
        for term in range(term_start[index], term_start[index + 1]):
            axis = term_axis[term]
            length += term_scale[term] * (sizes[offsets[axis] + place[axis]] - 1.0)
        values *= length
    return values


@inner
def fits(layout: Any, place: Any, tensors: Any, bits: Any, size: float) -> bool:
    """Whether tiles of some tensors fit into a memory together.

    `place`: positions on the axes, int64 (axes,); `tensors`: int64 (tensors,); `bits` of a value: float64 (tensors,).
    """
    needed = 0.0
    for i in range(len(tensors)):
        needed += _values(layout, tensors[i], place) * bits[i]
    return needed <= size


@inner
def keeps(layout: Any, place: Any, limits: Any) -> bool:
    """Whether tile shapes at positions `place`, int64 (axes,), keep `limits`: see `tile_limits.limit_rows`."""
    rows, axes, values = limits
    sizes, offsets = layout[0], layout[1]
    for i in range(len(rows)):
        begin, end, operator, product, first, last = rows[i]
        total = 1.0
        for j in range(begin, end):
            shape = sizes[offsets[axes[j]] + place[axes[j]]]
            total = total * shape if product else shape
            if not product and not _compares(shape, operator, values, first, last):
                return False
        if product and end > begin and not _compares(total, operator, values, first, last):
            return False
    return True


@inner
def _compares(number: float, operator: int, values: Any, first: int, last: int) -> bool:
    """`number` operator the value at `first`: ==, <=, >=, <, >, multiple of; or, 6, it is one of those up to `last`.

    `values`: float64 (values of all limits,).
    """
    if operator == 6:
        found = False
        for i in range(first, last):
            found |= number == values[i]
        return found
    value: float = values[first]
    if operator == 5:
        return number % value == 0
    if operator == 0:
        return number == value
    if operator == 1:
        return number <= value
    if operator == 2:
        return number >= value
    if operator == 3:
        return number < value
    return number > value


@inner
def _add_node(inside: Any, node: Any, filled: float, tiles: float, out: Any) -> None:
    """Costs to go `inside` of a node, and what it costs itself: of each value that fills it, fixed, of each visit.

    Float64: `inside`, `out` and the first two of `node` (columns,), changed is `out`; the third is (2 * columns,)
    or empty.
    """
    rate, fixed, per_visit = node
    for column in range(len(out)):
        # in the order in which the search adds up, so that equal costs stay equal
        out[column] = inside[column] + rate[column] * filled + fixed[column]
        if len(per_visit):
            out[column] += per_visit[column] * tiles + per_visit[len(out) + column] * (filled / tiles)


@kernel
def rows_above_gap(
    pool: Any, points: Any, begin: int, end: int, out: int, layout: Any, plane: Any, lowered: Any, node: Any,
    rate: Any, fixed: Any, per_visit: Any, limit: Any,
) -> int:  # fmt: skip
    """The table of a node, from that in rows `begin` to `end` below a gap: rows of it, written from `out` on.

    `plane`: axes of the gap as flags, then for all their tile shapes together (the first axis fastest) what they add to
    a point, whether they may stand there, and pairs (outer, inner) that one loop leads from and to, inner ones first.
    `lowered`: tensors, bits and size of the memory that must have room after the loops; `node`: number of the tensor,
    then the same and limits for the tile of the node.

    Float64: `pool` (rows, columns), changed; `rate`, `fixed` (columns,); `per_visit` (2 * columns,) or empty. `points`:
    int64 (rows,), changed. Of `plane`: bool (axes,), int64 (shapes,), bool (shapes,), int32 (moves, 2). `layout`: see
    `mapspace.layout.layout_of`; `limit`: `SparseTables.kernel_limit`. Gives the number of rows, or NO_ROOM.
    """
    mask, offset, allowed, moves = plane
    tensor, tensors, bits, size, limits = node
    strides, radices, counts, offsets = layout[2], layout[3], layout[4], layout[1]
    k, n_axes = pool.shape[1], len(strides)
    order, starts, places = grouped(points[begin:end], layout, mask)
    table = np.full((len(offset), k), np.inf)
    costs, full, values = np.empty(k), np.zeros(limit[11]), np.empty(len(limit[5]))
    place = np.zeros(n_axes, dtype=np.int64)
    n = out
    for group in range(len(starts) - 1):
        base = points[begin + order[starts[group]]] - offset[places[order[starts[group]]]]
        for axis in range(n_axes):
            place[axis] = base // strides[axis] % radices[axis]
        for i in range(starts[group], starts[group + 1]):
            row = order[i]
            _step_to(place, places[row], mask, radices)
            if fits(layout, place, lowered[0], lowered[1], lowered[2]):
                for column in range(k):
                    table[places[row], column] = pool[begin + row, column]
        _lead_on(table, moves)
        for at in range(len(offset)):
            if table[at, 0] == np.inf:
                continue
            if allowed[at]:
                _step_to(place, at, mask, radices)
                if fits(layout, place, tensors, bits, size) and keeps(layout, place, limits):
                    tiles = 1.0
                    for axis in range(n_axes):
                        tiles *= counts[offsets[axis] + place[axis]]
                    filled = _values(layout, tensor, place) * tiles
                    _add_node(table[at], (rate, fixed, per_visit), filled, tiles, costs)
                    if promises(costs, limit, full, values):
                        if n == len(pool):
                            return NO_ROOM
                        points[n] = base + offset[at]
                        for column in range(k):
                            pool[n, column] = costs[column]
                        n += 1
            for column in range(k):
                table[at, column] = np.inf
    return n - out


@inner
def _lead_on(table: Any, moves: Any) -> None:
    """Let each row be no more than those that moves lead to, in their order.

    `table`: float64 (shapes, columns), changed; `moves`: int32 (moves, 2), from the first row to the second.
    """
    for move in range(len(moves)):
        outer, inner = moves[move, 0], moves[move, 1]
        if table[inner, 0] == np.inf:
            continue
        for column in range(table.shape[1]):
            cost, least = table[inner, column], table[outer, column]
            table[outer, column] = cost if cost < least else least


@inner
def _step_to(place: Any, at: int, mask: Any, radices: Any) -> None:
    """Go to some tile shapes of the axes of `mask` together, the first axis fastest.

    `place`: int64 (axes,), changed; `mask`: bool (axes,); `radices`: int64 (axes,).
    """
    for axis in range(len(place)):
        if mask[axis]:
            place[axis] = at % radices[axis]
            at //= radices[axis]


@kernel
def outer_points(points: Any, begin: int, end: int, layout: Any, rows: Any, multiples: Any, top: Any, out: Any) -> None:
    """For each row of a table the point that some lanes divide to its point, -1 where there is none.

    multiples[rows[axis]]: what the lanes divide to each position; `top`: axes that are at their bounds there.

    Int64: `points` (rows,), `rows` (axes,), `multiples` (distinct, positions), `out` (end - begin,), changed. `top`:
    bool (axes,); `layout`: see `mapspace.layout.layout_of`.
    """
    strides, radices = layout[2], layout[3]
    for i in range(begin, end):
        outer = 0
        for axis in range(len(strides)):
            position = multiples[rows[axis], points[i] // strides[axis] % radices[axis]]
            if position < 0 or (top[axis] and position != radices[axis] - 1):
                outer = -1
                break
            outer += position * strides[axis]
        out[i - begin] = outer


@kernel
def take_least(least: Any, slots: Any, rows: Any, pool: Any) -> None:
    """Let least[slots[i]] be no more than pool[rows[i]], column by column.

    Float64: `least` (points, columns), changed; `pool` (rows, columns). Int64: `slots`, `rows` (pairs,).
    """
    for i in range(len(slots)):
        for column in range(pool.shape[1]):
            cost, before = pool[rows[i], column], least[slots[i], column]
            least[slots[i], column] = cost if cost < before else before
