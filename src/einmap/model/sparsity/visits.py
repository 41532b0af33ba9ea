"""Boxes that the visits of a node use, by rank variable.

The visits of a node are all combinations of the rows of its variables. A row is one combination of the iterations of a
variable's loops that apply at the node; lanes that are merged on the way to the parent are columns of it. Rows that are
alike are one, with how often it is there: `Alike` is one row for all, a number instead of arrays; `Table` tells rows
apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from einmap.arrays import Bools, Floats, Ints, Wholes
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
    """Intervals of one rank variable: first values and lengths, shape (rows, merged lanes).

    Length 0: no such lane. A length that is the same for all is a number if no lanes are merged, or `lanes` are, alike.
    """

    start: Wholes
    size: Wholes
    lanes: int = 1

    @property
    def is_shared(self) -> bool:
        """Whether several lanes are merged."""
        return self.lanes > 1 or (not isinstance(self.size, int) and self.size.shape[1] > 1)


class Alike:
    """Iterations of one variable's loops at a node that are all of one length: one row stands for all of them.

    Their places are not told: each begins at 0.
    """

    def __init__(self, path: EinsumPath, variable: str, node: Around) -> None:
        self.path, self.variable, self.node = path, variable, node
        self.loops = [i for i in path.loops_of[variable] if i in node.applied]

    def spans(self, at: Around) -> Spans:
        """The interval that a visit of another node around this one uses; or of this one."""
        size, lanes, loops = self.path.einsum.extents[self.variable], 1, self.path.loops
        for i in self.path.loops_of[self.variable]:
            if i in at.merged:
                lanes *= loops[i].iterations
                size = loops[i].shape
            elif i in at.applied and i in self.node.applied:
                size = loops[i].shape
        return Spans(0, size, lanes)

    def weights(self, lanes: Sequence[int], first: frozenset[int]) -> float | Floats:
        """How often the row is there for each lane of some loops, where other loops are at their first iteration.

        A number where lanes are alike, else shape (1, lanes): those of `lanes` that are in `first` as well.
        """
        loops = self.path.loops
        times = prod(loops[i].iterations for i in self.loops if i not in first and i not in lanes)
        own = [i for i in self.loops if i in lanes]
        if first.isdisjoint(own):
            return float(times)
        counted: Floats = np.ones(1)
        for i in own:
            lane = np.arange(loops[i].iterations)
            counted = np.outer(counted, lane == 0 if i in first else lane >= 0).ravel()
        return counted[None, :] * times


def are_alike(path: EinsumPath, variable: str, node: Around) -> bool:
    """Whether the loops of a variable that apply at a node cut it without remainders."""
    extent, deepest = path.einsum.extents[variable], max(node.applied, default=-1)
    for i in path.loops_of[variable]:
        loop = path.loops[i]
        if i > deepest or loop.absent:
            continue
        if loop.initial is not None or extent % loop.shape:
            return False
        extent = loop.shape
    return True


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
        number, self.index = np.arange(prod(shape)).reshape(-1, lanes), dict[int, Ints]()
        for i, n in zip(reversed(order), reversed(shape), strict=True):
            number, self.index[i] = np.divmod(number, n)
        self.index = {i: self.index[i] for i in order}
        self.rows = prod(shape) // lanes
        self._cuts_evenly = are_alike(path, variable, node)
        self.times: Floats = np.ones((self.rows, 1))
        """How many iterations a row stands for."""
        self._spans: dict[Around, Spans] = {}
        self._weights: dict[tuple[tuple[int, ...], frozenset[int]], Floats] = {}

    def joined(self, columns: Sequence[Ints]) -> Table:
        """One row for those that are alike in all columns, each of shape (rows, any), all at least 0."""
        key = np.zeros(self.rows, dtype=np.int64)
        different = 1
        for column in (column for columns in columns for column in columns.T):
            most = int(column.max(initial=0)) + 1
            if different * most > 2**62:
                _, key = np.unique(key, return_inverse=True)
                different = self.rows
            key, different = key * most + column, different * most
        _, firsts, times = np.unique(key, return_index=True, return_counts=True)
        if len(firsts) == self.rows:
            return self
        joined = object.__new__(Table)
        joined.path, joined.variable, joined.node = self.path, self.variable, self.node
        joined._cuts_evenly = self._cuts_evenly
        joined._spans, joined._weights = {}, {}
        joined.index = {i: values[firsts] for i, values in self.index.items()}
        joined.rows, joined.times = len(firsts), times[:, None].astype(np.float64)
        return joined

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
        if columns[1] == 1 and (size == size[0]).all():
            return Spans(np.broadcast_to(start, columns), int(size[0, 0]))
        return Spans(np.broadcast_to(start, columns), np.broadcast_to(size, columns))

    def _cut(self, index: Mapping[int, Ints]) -> tuple[Ints, Ints]:
        """Where intervals begin, and their lengths."""
        if self._cuts_evenly:
            return self._cut_evenly(index)
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

    def _cut_evenly(self, index: Mapping[int, Ints]) -> tuple[Ints, Ints]:
        start: Ints = np.zeros((1, 1), dtype=np.int64)
        length = self.path.einsum.extents[self.variable]
        for i in sorted(index):
            length = self.path.loops[i].shape
            start = start + index[i] * length
        return start, np.full((1, 1), length)

    def weights(self, lanes: Sequence[int], first: frozenset[int]) -> Floats:
        """How often each row is there for each lane of some loops, where other loops are at their first iteration.

        Shape (rows, lanes).
        """
        key = tuple(lanes), first
        if key not in self._weights:
            self._weights[key] = self._weigh(lanes, first)
        return self._weights[key]

    def _weigh(self, lanes: Sequence[int], first: frozenset[int]) -> Floats:
        spans = self.spans(self.node)
        if isinstance(spans.size, int) and spans.size and self.index.keys().isdisjoint((*lanes, *first)):
            often: Floats = self.times * np.shape(spans.start)[1]
            return often
        counted: Bools = np.broadcast_to(spans.size, np.shape(spans.start)) > 0
        for i in first & self.index.keys():
            counted = counted & (self.index[i] == 0)
        own = [i for i in lanes if i in self.index]
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
    """Boxes of a tensor: numbers, or arrays over the rows of all variables, then over their merged lanes.

    One axis for each. `lanes`: axes of merged lanes, of more than one; `alike`: merged lanes that each box stands for.
    """

    low: list[Wholes]
    size: list[Wholes]
    lanes: tuple[int, ...]
    alike: int

    @property
    def positions(self) -> Any:
        """Values of each box, zeros as well."""
        return prod(self.size)

    def first(self, n: int) -> Boxes:
        """The boxes of the first of merged lanes, with an axis for each of `n` variables."""
        return Boxes([by_row(a, n) for a in self.low], [by_row(a, n) for a in self.size], (), self.alike)


def boxes_of(path: EinsumPath, access: TensorAccess, ranks: Sequence[str], spans: Mapping[str, Spans]) -> Boxes:
    """The boxes of a tensor in the order of `ranks`. Axes of variables that do not index it have length 1."""
    order = path.einsum.rank_variables
    n, first, by_rank = len(order), dict(path.einsum.first_values), dict(access.projection)

    def spread(values: Wholes, v: str) -> Wholes:
        if isinstance(values, int):
            return values
        shape = [1] * (2 * n)
        shape[order.index(v)], shape[n + order.index(v)] = values.shape
        return values.reshape(shape)

    low: list[Wholes] = []
    size: list[Wholes] = []
    absent: list[Bools] = []
    for rank in ranks:
        begin: Wholes = by_rank[rank].constant
        length: Wholes = 1
        for v, a in by_rank[rank].terms:
            start, extent = spread(spans[v].start, v), spread(spans[v].size, v)
            if not isinstance(extent, int) and not extent.all():
                absent.append(extent == 0)
            begin = begin + a * (start + first.get(v, 0) + (0 if a > 0 else extent - 1))
            length = length + abs(a) * (extent - 1)
        low.append(begin)
        size.append(length)
    for there in absent:
        low, size = [np.where(there, 0, a) for a in low], [np.where(there, 0, a) for a in size]
    shape = np.broadcast_shapes(*(np.shape(a) for a in (*low, *size)))
    lanes = tuple(axis for axis in range(n, len(shape)) if shape[axis] > 1)
    return Boxes(low, size, lanes, prod(spans[v].lanes for v in access.variables))


def by_row(values: Any, n: int) -> Any:
    """An axis for each of `n` variables, of the first of merged lanes, which a tensor's own boxes do not tell apart.

    A number for a number.
    """
    if isinstance(values, np.ndarray):
        place: Any = (..., *([0] * n))
        return values[place] if values.ndim else values.item()
    return values
