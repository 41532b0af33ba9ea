"""Boxes that the visits of a node use, one table for each rank variable.

A row of a table is one combination of the iterations of a variable's loops that apply at the node; lanes that are
merged on the way to the parent are columns of it. All tables together make all visits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import TensorAccess
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath

MOST_ROWS = 5_000_000
"""Rows of a table, at most."""


@dataclass(frozen=True)
class Around:
    """Loops around a node: those that apply there, and of these the lanes that are merged on the way to its parent."""

    applied: frozenset[int]
    merged: frozenset[int]

    @property
    def told(self) -> frozenset[int]:
        """Loops whose iterations tell one group of lanes from others."""
        return self.applied - self.merged


@dataclass(frozen=True)
class Spans:
    """Intervals of one rank variable: first values and lengths, shape (rows, merged lanes). Length 0: no such lane."""

    start: Ints
    size: Ints


class Table:
    """The iterations of one variable's loops at a node: `index[loop]` has shape (rows, merged lanes)."""

    def __init__(self, path: EinsumPath, variable: str, node: Around) -> None:
        self.path, self.variable, self.node = path, variable, node
        loops = path.loops_of[variable]
        order = [i for i in loops if i in node.told] + [i for i in loops if i in node.merged]
        shape = [path.loops[i].iterations for i in order]
        if prod(shape) > MOST_ROWS:
            raise NotSupportedError(f"more than {MOST_ROWS:,} tiles along {variable!r} are too many to look at zeros")
        lanes = prod(n for i, n in zip(order, shape, strict=True) if i in node.merged)
        grids = np.indices(shape).reshape(len(shape), -1, lanes) if shape else np.zeros((0, 1, 1), dtype=np.int64)
        self.index: dict[int, Ints] = dict(zip(order, grids, strict=True))
        self.rows = grids.shape[1]
        self.times: Floats = np.ones((self.rows, 1))
        """How many iterations a row stands for."""
        self._spans: dict[Around, Spans] = {}

    def join(self, columns: Sequence[Ints]) -> None:
        """Make one row of those that are alike in all columns, each of shape (rows, any)."""
        together = np.concatenate([np.zeros((self.rows, 1), dtype=np.int64), *columns], axis=1)
        _, firsts, times = np.unique(together, axis=0, return_index=True, return_counts=True)
        self.index = {i: values[firsts] for i, values in self.index.items()}
        self.rows, self.times = len(firsts), times[:, None].astype(np.float64)
        self._spans = {}

    def spans(self, at: Around) -> Spans:
        """Intervals that the visits of another node around this one use, in which each row lies; or of this one."""
        found = self._spans.get(at)
        if found is None:
            found = self._spans[at] = self._spans_at(at)
        return found

    def _spans_at(self, at: Around) -> Spans:
        index = {i: values for i, values in self.index.items() if i in at.told}
        loops = self.path.loops_of[self.variable]
        merged = [i for i in loops if i in at.merged]
        if at == self.node:
            index = self.index
        elif merged:
            lanes = np.indices([self.path.loops[i].iterations for i in merged]).reshape(len(merged), 1, -1)
            index = {i: values[:, :1] for i, values in index.items()} | dict(zip(merged, lanes, strict=True))
        else:
            index = {i: values[:, :1] for i, values in index.items()}
        start, size = self._cut(index)
        columns = np.broadcast_shapes((self.rows, 1), start.shape, size.shape)
        return Spans(np.broadcast_to(start, columns), np.broadcast_to(size, columns))

    def _cut(self, index: Mapping[int, Ints]) -> tuple[Ints, Ints]:
        start: Ints = np.zeros((1, 1), dtype=np.int64)
        size: Ints = np.full((1, 1), self.path.einsum.extents[self.variable], dtype=np.int64)
        left = None
        for i in self.path.loops_of[self.variable]:
            loop = self.path.loops[i]
            if loop.absent:
                continue
            first = loop.shape if loop.initial is None else loop.initial
            if i not in index:
                left = max(first, loop.shape)
                continue
            size = size if left is None else np.minimum(size, left)
            k = index[i]
            begin = np.where(k == 0, 0, first + (k - 1) * loop.shape)
            size = np.clip(np.minimum(np.where(k == 0, first, loop.shape), size - begin), 0, None)
            start = start + begin
        return start, size

    def lanes(self, loops: Sequence[int], counted: Bools) -> Floats:
        """How often each row is there for each lane of `loops`, shape (rows, lanes); `counted`: columns that count."""
        own = [i for i in loops if i in self.index]
        sizes = [self.path.loops[i].iterations for i in own]
        lane = np.zeros(counted.shape, dtype=np.int64)
        for i, n in zip(own, sizes, strict=True):
            lane = lane * n + self.index[i]
        found = np.zeros((self.rows, prod(sizes)))
        rows = np.broadcast_to(np.arange(self.rows)[:, None], counted.shape)
        np.add.at(found, (rows.ravel(), lane.ravel()), counted.astype(np.float64).ravel())
        return found * self.times


@dataclass(frozen=True)
class Boxes:
    """Boxes of a tensor over the rows of all variables, then over their merged lanes: one axis for each."""

    low: list[Ints]
    size: list[Ints]
    lanes: tuple[int, ...]
    """Axes of merged lanes, of more than one."""


def boxes_of(path: EinsumPath, access: TensorAccess, ranks: Sequence[str], spans: Mapping[str, Spans]) -> Boxes:
    """The boxes of a tensor in the order of `ranks`. Axes of variables that do not index it have length 1."""
    order = path.einsum.rank_variables
    n, first, by_rank = len(order), dict(path.einsum.first_values), dict(access.projection)

    def spread(values: Ints, v: str) -> Ints:
        shape = [1] * (2 * n)
        shape[order.index(v)], shape[n + order.index(v)] = values.shape
        return values.reshape(shape)

    low: list[Ints] = []
    size: list[Ints] = []
    present: Bools = np.ones([1] * (2 * n), dtype=bool)
    for rank in ranks:
        begin: Ints = np.full([1] * (2 * n), by_rank[rank].constant, dtype=np.int64)
        length: Ints = np.ones([1] * (2 * n), dtype=np.int64)
        for v, a in by_rank[rank].terms:
            start, extent = spread(spans[v].start, v), spread(spans[v].size, v)
            present = present & (extent > 0)
            begin = begin + a * (start + first.get(v, 0) + (0 if a > 0 else extent - 1))
            length = length + abs(a) * (extent - 1)
        low.append(begin)
        size.append(length)
    if not present.all():
        low, size = [np.where(present, a, 0) for a in low], [np.where(present, a, 0) for a in size]
    shape = np.broadcast_shapes(*(a.shape for a in (*low, *size))) if low else (1,) * (2 * n)
    return Boxes(low, size, tuple(axis for axis in range(n, 2 * n) if len(shape) > axis and shape[axis] > 1))
