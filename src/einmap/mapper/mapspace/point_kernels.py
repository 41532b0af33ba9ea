"""The compiled part of what is asked about single points of a lattice: positions, tiles, rows of tables.

`layout` is that of `layout.Layout`.
"""

from __future__ import annotations

from typing import Any

from einmap.compiled import inner, kernel, place_in


@inner
def place_of(point: int, axis: int, layout: Any) -> Any:
    """Position of a point on an axis."""
    return point // layout[2][axis] % layout[3][axis]


@kernel
def value_at(layout: Any, tensor: int, point: int) -> float:
    """Values in a tensor's tile at a point; see `Lattice.layout`."""
    sizes, offsets, strides, radices, _, index_start, term_start, term_axis, term_scale = layout
    values = 1.0
    for index in range(index_start[tensor], index_start[tensor + 1]):
        length = 1.0
        for term in range(term_start[index], term_start[index + 1]):
            axis = term_axis[term]
            position = point // strides[axis] % radices[axis]
            length += term_scale[term] * (sizes[offsets[axis] + position] - 1.0)
        values *= length
    return values


@inner
def tiles_at(layout: Any, point: int) -> float:
    """How many tiles there are in all at a point; the bound over the tile shape where that is not an integer."""
    counts, offsets, strides, radices = layout[4], layout[1], layout[2], layout[3]
    tiles = 1.0
    for axis in range(len(strides)):
        tiles *= counts[offsets[axis] + point // strides[axis] % radices[axis]]
    return tiles


@inner
def row_of(tables: Any, level: int, prefix: int, point: int) -> Any:
    """Row of the pool that is a point's in the table of a level and prefix; -1 where it is infinite.

    `tables`: for each level where its prefixes begin in `begins` and `ends`, and its row of `slots`; then these, and
    points; without columns in `slots` a table's rows are sorted by point.
    """
    firsts, slot_rows, begins, slots, ends, points = tables
    at = firsts[level] + prefix
    if slots.shape[1]:
        slot = slots[slot_rows[level], point]
        return begins[at] + slot if slot >= 0 else -1
    return place_in(points, begins[at], ends[at], point)


@inner
def has_fewer_rows(tables: Any, level: int, prefix: int, mask: Any, coord: Any, offsets: Any, starts: Any) -> Any:
    """Whether the loops of a gap lead from a place to more points than a table with few rows has."""
    if tables[3].shape[1]:
        return False
    choices = 1
    for axis in range(len(mask)):
        if mask[axis]:
            first = offsets[axis] + coord[axis]
            choices *= starts[first + 1] - starts[first]
    at = tables[0][level] + prefix
    return choices > tables[4][at] - tables[2][at]


@inner
def leads_to(layout: Any, below: Any, starts: Any, mask: Any, coord: Any, point: int) -> bool:
    """Whether loops over the axes of `mask` lead from a place (positions on the axes) to a point."""
    offsets = layout[1]
    for axis in range(len(mask)):
        position = place_of(point, axis, layout)
        if position == coord[axis]:
            continue
        if not mask[axis] or position > coord[axis]:
            return False
        first = offsets[axis] + coord[axis]
        if place_in(below, starts[first], starts[first + 1], position) < 0:
            return False
    return True
