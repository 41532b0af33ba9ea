"""The compiled part of making cost-to-go tables over the lattice. Kernels are generic, see `kernels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.compiled import kernel


@kernel
def moves_inside(
    points: Any, slots: Any, mask: Any, coord: Any, strides: Any, offsets: Any, covers: Any, starts: Any
) -> Any:
    """Pairs of rows of a table: a point, and one that is next inside of it along an axis of `mask`.

    Axis by axis, inner points first: minima that are taken in this order are those over all points inside. The rows of
    the table belong to `points`, in order; what lies between two of them must be among them.

    Int64: `points` (rows,); `slots` (lattice,), the row of each point or -1; `coord` (lattice, axes); `strides`,
    `offsets` (axes,); `covers`, the positions next inside of each position of each axis, which begin at `starts`
    (positions + 1,). `mask`: bool (axes,). Gives int32 (moves, 2).
    """
    n = 0
    for axis in range(len(strides)):
        for i in range(len(points) if mask[axis] else 0):
            here = offsets[axis] + coord[points[i], axis]
            n += starts[here + 1] - starts[here]
    moves = np.empty((n, 2), dtype=np.int32)
    n = 0
    for axis in range(len(strides)):
        for i in range(len(points) if mask[axis] else 0):
            position = coord[points[i], axis]
            here = offsets[axis] + position
            for c in range(starts[here], starts[here + 1]):
                slot = slots[points[i] + (covers[c] - position) * strides[axis]]
                if slot >= 0:
                    moves[n, 0] = i
                    moves[n, 1] = slot
                    n += 1
    return moves[:n]


@kernel
def lead_out(flags: Any, mask: Any, coord: Any, strides: Any, offsets: Any, covers: Any, starts: Any) -> None:
    """Flag all points from which loops over the axes of `mask` lead to a point with a flag.

    `flags`: bool (lattice,), changed; the rest as in `moves_inside`.
    """
    for axis in range(len(strides)):
        for point in range(len(flags) if mask[axis] else 0):
            if flags[point]:
                continue
            position = coord[point, axis]
            here = offsets[axis] + position
            for c in range(starts[here], starts[here + 1]):
                if flags[point + (covers[c] - position) * strides[axis]]:
                    flags[point] = True
                    break


@kernel
def times_lanes(flags: Any, out: Any, axis: int, coord: Any, stride: int, rows: Any, multiples: Any) -> None:
    """Flag all points that some lanes of an axis divide to a point with a flag.

    multiples[row]: what the lanes of one of the `rows` divide to each position.

    Bool: `flags` (lattice,), `out` (lattice,), changed. Int64: `coord` (lattice, axes), `rows` (uses of the axis,),
    `multiples` (distinct, positions), -1 where nothing is.
    """
    for point in range(len(flags)):
        if not flags[point]:
            continue
        position = coord[point, axis]
        for i in range(len(rows)):
            outer = multiples[rows[i], position]
            if outer >= 0:
                out[point + (outer - position) * stride] = True


@kernel
def with_gap_and_node(
    pool: Any, below: Any, slots_below: Any, out: Any, points: Any, moves: Any, fits: Any, rates: Any, fixed: Any,
    per_visit: Any, fills: Any, tiles: Any, values: Any, lines: Any, allowed: Any,
) -> None:  # fmt: skip
    """Tables that begin at rows `out` of `pool` from those at `below`: a gap, and above it a node with its costs.

    `points`: of the rows of a table; `slots_below`: the row of each point in tables below, -1 where these are infinite;
    `moves`: what the gap may do, see `moves_inside`. `fits`: points at which a node above the inner gap fits that the
    loops of the gap lower; `allowed`: points at which the node above the gap may stand, where it costs
    rates[i] * fills + fixed[i]; and per_visit[i] * (tiles, values, rows of `lines`) where it has columns.

    Float64: `pool` (rows, columns), changed; `rates`, `fixed` (tables, columns); `per_visit` (tables, kinds * columns),
    kinds 0 or from 2 on; `fills`, `tiles`, `values` (lattice,); `lines` (kinds - 2, lattice). Int64: `below`, `out`
    (tables,), `slots_below` (lattice,), `points` (rows,). `moves`: int32 (moves, 2). Bool: `fits`,
    `allowed` (lattice,).
    """
    n, k = len(points), pool.shape[1]
    n_kinds = per_visit.shape[1] // k
    for i in range(len(below)):
        table = pool[out[i] : out[i] + n]
        for at in range(n):
            inside = slots_below[points[at]] if fits[points[at]] else -1
            if inside < 0:
                for column in range(k):
                    table[at, column] = np.inf
            else:
                for column in range(k):
                    table[at, column] = pool[below[i] + inside, column]
        for move in range(len(moves)):
            outer, other = moves[move, 0], moves[move, 1]
            if table[other, 0] == np.inf:
                continue
            for column in range(k):
                cost, least = table[other, column], table[outer, column]
                table[outer, column] = cost if cost < least else least
        for at in range(n):
            here = points[at]
            if not allowed[here]:
                for column in range(k):
                    table[at, column] = np.inf
                continue
            filled = fills[here]
            for column in range(k):
                # in the order in which the search adds up, so that equal costs stay equal
                table[at, column] = table[at, column] + rates[i, column] * filled + fixed[i, column]
            for column in range(k if n_kinds else 0):
                table[at, column] += per_visit[i, column] * tiles[here] + per_visit[i, k + column] * values[here]
                for kind in range(2, n_kinds):
                    table[at, column] += per_visit[i, kind * k + column] * lines[kind - 2, here]


@kernel
def over_lanes(
    pool: Any, below: Any, points: Any, out: int, slots: Any, coord: Any, strides: Any, rows: Any, multiples: Any
) -> None:
    """The table at `out` becomes the minimum of itself and of the tables `below` at each point divided by the lanes.

    `points`: those of the tables below; `slots`: row of each point in the table; multiples[rows[i, axis]]: what the
    lanes of table i divide to each position.

    `pool`: float64 (rows, columns), changed. Int64: `below` (tables,), `points` (rows,), `slots` (lattice,), `coord`
    (lattice, axes), `strides` (axes,), `rows` (tables, axes), `multiples` (distinct, positions), -1 where nothing is.
    """
    k = pool.shape[1]
    for i in range(len(below)):
        for at in range(len(points)):
            inner = below[i] + at
            if pool[inner, 0] == np.inf:
                continue
            outer = 0
            for axis in range(len(strides)):
                position = multiples[rows[i, axis], coord[points[at], axis]]
                if position < 0:
                    outer = -1
                    break
                outer += position * strides[axis]
            if outer >= 0 and slots[outer] >= 0:
                slot = out + slots[outer]
                for column in range(k):
                    cost, before = pool[inner, column], pool[slot, column]
                    pool[slot, column] = cost if cost < before else before
