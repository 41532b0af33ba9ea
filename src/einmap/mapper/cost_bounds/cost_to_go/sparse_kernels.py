"""The compiled part of making cost-to-go tables that have rows only for points worth it. Kernels are generic."""

# Kept machine code has `objectives` in it, and is told by this file: who changes that function touches this one, too.

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.compiled import inner, kernel, maker, stable_order
from einmap.mapper.objective.objective_kernels import beaten, exceeds_cutoff, objectives

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
def promises(costs: Any, outside: Any, limit: Any, full: Any, values: Any) -> bool:
    """Whether costs to go leave room for something better than what was found; `full`, `values`: scratch.

    `costs`: float64 (columns of the tables,); `outside`: what stands further out costs at least, float64 (all
    columns,); `limit`: see `SparseTables.kernel_limit`; `full`: float64 (all columns,); `values`: float64
    (objectives,).
    """
    archive, n, slack, remainder, most, codes, leak, capacity, occupied, columns, kept = limit
    if n == 0 and len(remainder) == 0:
        return True
    for column in range(len(full)):
        full[column] = outside[column]
    for i in range(len(columns)):
        full[columns[i]] += costs[i]
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
def _tiles(layout: Any, place: Any) -> float:
    """As `point_kernels.tiles_at`, for positions on the axes: `place`, int64 (axes,)."""
    tiles = 1.0
    for axis in range(len(place)):
        tiles *= layout[4][layout[1][axis] + place[axis]]
    return tiles


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
def _add_node(inside: Any, node: Any, layout: Any, place: Any, tensor: int, out: Any) -> None:
    """Costs to go `inside` of a node, and what it costs itself: of each value that fills it, fixed, of each visit.

    Float64: `inside`, `out` and the first two of `node` (columns,), changed is `out`; the third is (2 * columns,)
    or empty. `place`: positions of its tile of `tensor` on the axes, int64 (axes,).
    """
    tiles = _tiles(layout, place)
    filled = _values(layout, tensor, place) * tiles
    rate, fixed, per_visit = node
    for column in range(len(out)):
        # in the order in which the search adds up, so that equal costs stay equal
        out[column] = inside[column] + rate[column] * filled + fixed[column]
        if len(per_visit):
            out[column] += per_visit[column] * tiles + per_visit[len(out) + column] * (filled / tiles)


@kernel
def rows_above_gap(
    pool: Any, points: Any, below: Any, ends: Any, layout: Any, plane: Any, lowered: Any, node: Any,
    rates: Any, fixed: Any, per_visit: Any, pins: Any, outside: Any, limit: Any,
) -> bool:  # fmt: skip
    """The tables of a node, each from the one below a gap that has rows below[i, 0] to below[i, 1].

    Rows are written one table after the other from ends[0] on; the first one of table i is ends[i] then, and ends[i +
    1] the one behind it. Gives whether there was room for them.

    `plane`: axes of the gap as flags, then for all their tile shapes together (the first axis fastest) what they add to
    a point, where the list of those begins that one loop leads to, and these. `pins`: where each axis must
    be, -1 where that is open. `lowered`: tensors, bits and size of the memory that must have room after the loops;
    `node`: number of the tensor, then the same and limits for the tile of the node. `outside`: what stands further out
    costs at least.

    Float64: `pool` (rows, columns), changed; `rates`, `fixed` (tables, columns); `per_visit` (tables, 2 * columns) or
    (tables, 0); `outside` (tables, all columns). Int64: `points` (rows,), changed; `below` (tables, 2); `ends` (tables
    + 1,), changed; `pins` (tables, axes). Of `plane`: bool (axes,), int64 (shapes,), int64 (shapes
    + 1,), int32 (moves,). `layout`: see `mapspace.layout.layout_of`; `limit`: `SparseTables.kernel_limit`.
    """
    mask, offset, starts_inside, inside = plane
    tensor, tensors, bits, size, limits = node
    strides, radices = layout[2], layout[3]
    k, n_axes = pool.shape[1], len(strides)
    table, reached = np.full((len(offset), k), np.inf), np.empty(len(offset), dtype=np.int64)
    costs, full, values = np.empty(k), np.zeros(outside.shape[1]), np.empty(len(limit[5]))
    place = np.zeros(n_axes, dtype=np.int64)
    for i in range(len(below)):
        begin, n = below[i, 0], ends[i]
        order, starts, places = grouped(points[begin : below[i, 1]], layout, mask)
        for group in range(len(starts) - 1):
            base = points[begin + order[starts[group]]] - offset[places[order[starts[group]]]]
            for axis in range(n_axes):
                place[axis] = base // strides[axis] % radices[axis]
            rows = order[starts[group] : starts[group + 1]]
            count = _put(table, pool[begin:], rows, places, reached, place, (layout, mask, lowered))
            at = _step_to(place, 0, mask, radices) if count else -1
            while at >= 0:
                is_new, is_room = table[at, 0] == np.inf, True
                _take_inner(table, at, inside[starts_inside[at] : starts_inside[at + 1]])
                if table[at, 0] != np.inf:
                    if is_new:
                        reached[count] = at
                        count += 1
                    # what holds a tile that does not fit does not fit either
                    is_room = fits(layout, place, tensors, bits, size)
                    if is_room and _is_pinned(place, pins[i]) and keeps(layout, place, limits):
                        _add_node(table[at], (rates[i], fixed[i], per_visit[i]), layout, place, tensor, costs)
                        if promises(costs, outside[i], limit, full, values):
                            if n == len(pool):
                                return False
                            points[n], pool[n] = base + offset[at], costs
                            n += 1
                at = _next(place, at, mask, radices, is_room)
            for j in range(count):
                table[reached[j]] = np.inf
        ends[i + 1] = n
        _sort(points[ends[i] : n], pool[ends[i] : n])
    return True


@inner
def _put(table: Any, costs: Any, rows: Any, places: Any, reached: Any, place: Any, gap: Any) -> int:
    """Put `rows` of `costs` that fit after the loops to their `places` in `table`; how many, and in `reached` which."""
    layout, mask, lowered = gap
    count = 0
    for row in rows:
        _step_to(place, places[row], mask, layout[3])
        if fits(layout, place, lowered[0], lowered[1], lowered[2]):
            for column in range(table.shape[1]):
                table[places[row], column] = costs[row, column]
            reached[count] = places[row]
            count += 1
    return count


@inner
def _take_inner(table: Any, at: int, inside: Any) -> None:
    """Let a row be no more than some others: of float64 `table` (shapes, columns), changed, those of int32 `inside`."""
    for number in inside:
        if table[number, 0] != np.inf:
            for column in range(table.shape[1]):
                cost, least = table[number, column], table[at, column]
                table[at, column] = cost if cost < least else least


@inner
def _next(place: Any, at: int, mask: Any, radices: Any, is_room: bool) -> int:
    """Go to the next tile shapes of the axes of `mask` together, the first axis fastest; their number, -1 at the end.

    Without room, to the next ones that do not hold those of before. `place`: int64 (axes,), changed; `mask`: bool
    (axes,); `radices`: int64 (axes,).
    """
    stride, is_held = 1, not is_room
    for axis in range(len(place)):
        if mask[axis]:
            here = place[axis]
            # whatever is further along this axis holds it, too, as long as those before are at their first one
            if not is_held and here + 1 < radices[axis]:
                place[axis] = here + 1
                return at + stride
            is_held = is_held and here == 0
            place[axis] = 0
            at -= here * stride
            stride *= radices[axis]
    return -1


@inner
def _is_pinned(place: Any, pins: Any) -> bool:
    """Whether positions on the axes are what they must be; both int64 (axes,), -1 where one may be anything."""
    differ = 0
    for axis in range(len(pins)):
        differ += pins[axis] != -1 and place[axis] != pins[axis]
    return differ == 0


@maker
def _sort(points: Any, costs: Any) -> None:
    """Sort rows by their points; int64 (rows,) and float64 (rows, columns), both changed."""
    order = stable_order(points, len(points))
    at, rows = points.copy(), costs.copy()
    for i in range(len(order)):
        points[i] = at[order[i]]
        for column in range(rows.shape[1]):
            costs[i, column] = rows[order[i], column]


@inner
def _step_to(place: Any, at: int, mask: Any, radices: Any) -> int:
    """Go to some tile shapes of the axes of `mask` together, the first axis fastest; gives their number.

    `place`: int64 (axes,), changed; `mask`: bool (axes,); `radices`: int64 (axes,).
    """
    rest = at
    for axis in range(len(place)):
        if mask[axis]:
            place[axis] = rest % radices[axis]
            rest //= radices[axis]
    return at


@kernel
def outer_points(
    points: Any, begin: int, end: int, layout: Any, rows: Any, multiples: Any, pins: Any, out: Any
) -> None:
    """For each row of a table the point that some lanes divide to its point, -1 where there is none.

    multiples[rows[axis]]: what the lanes divide to each position; `pins`: where each axis must be there, -1 where that
    is open.

    Int64: `points` (rows,), `rows` (axes,), `multiples` (distinct, positions), `out` (end - begin,), changed;
    `pins` (axes,). `layout`: see `mapspace.layout.layout_of`.
    """
    strides, radices = layout[2], layout[3]
    for i in range(begin, end):
        outer = 0
        for axis in range(len(strides)):
            position = multiples[rows[axis], points[i] // strides[axis] % radices[axis]]
            if position < 0 or (pins[axis] != -1 and position != pins[axis]):
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
