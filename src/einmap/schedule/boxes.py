"""Parts of a tensor: for each rank a range of indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from einmap.einsum.spaces.projection import Affine, Lookup
from einmap.schedule.routes import Interval, Route

type Box = tuple[tuple[int, int], ...]
"""For each rank the first and one past the last index."""


def hull(boxes: Sequence[Box]) -> Box:
    """The smallest box around all of them."""
    return tuple((min(low for low, _ in ends), max(high for _, high in ends)) for ends in zip(*boxes, strict=True))


def box_of(route: Route, tensor: str, intervals: Mapping[str, Interval]) -> Box:
    """The indices of a tensor that these values of the rank variables touch, rank by rank; of a table fetched rows."""
    return _box(route, route.indices[tensor], intervals)


def stored_box(route: Route, tensor: str, intervals: Mapping[str, Interval]) -> Box:
    """The indices of a tensor that its outermost holder keeps for these values: all of a rank that is looked up."""
    access = route.einsum.by_tensor[tensor]
    if not access.gathered:
        return box_of(route, tensor, intervals)
    written = dict(access.written)
    return _box(route, [written[rank] for rank in route.ranks[tensor]], intervals)


def _box(route: Route, indices: Sequence[Affine | Lookup], intervals: Mapping[str, Interval]) -> Box:
    first = dict(route.einsum.first_values)
    ends = []
    for index in indices:
        if isinstance(index, Lookup):
            ends.append((0, index.size))
            continue
        low = high = index.constant
        for v, a in index.terms:
            start, size = intervals[v]
            near, far = a * (start + first.get(v, 0)), a * (start + first.get(v, 0) + size - 1)
            low, high = low + min(near, far), high + max(near, far)
        ends.append((low, high + 1))
    return tuple(ends)
