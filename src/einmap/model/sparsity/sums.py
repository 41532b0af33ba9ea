"""Sums over the visits of a node: how often each is there, times what it moves, times how likely its conditions are.

Each factor is a number, or an array over the rows of a few rank variables (`visits`), so that sums are products of
numbers, or contractions of arrays, one variable after another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from einmap.arrays import Amounts, Floats, Ints
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine
from einmap.model.counting.path import EinsumPath
from einmap.model.sparsity.conditions import Condition, innermost, likely
from einmap.model.sparsity.visits import Alike, Around, Boxes, Spans, Table, are_alike, boxes_of
from einmap.sparse.densities import Density, Structured
from einmap.sparse.formats import Format
from einmap.sparse.known import Known
from einmap.sparse.savings import Sparsity

type Sets = tuple[tuple[float, frozenset[int]], ...]
"""Visits that count: signed sets of loops that are at their first iteration."""
WHOLE: Sets = ((1.0, frozenset()),)
"""All visits."""
type Factor = tuple[Floats, tuple[int, ...]]
"""An array and the names of its axes: i for rows of the variable at position i, n + i for its lanes, of n variables."""


_FEW_BYTES = 1024
"""Bytes of a sum of numbers with what asks for it, about."""


@dataclass(frozen=True)
class Split:
    """Expected amounts by state, for each instance of a component.

    Numbers, or arrays with an axis for the lanes of each rank variable; each entry stands for `alike` instances.
    """

    actual: Amounts
    gated: Amounts
    skipped: Amounts
    alike: int = 1

    @property
    def states(self) -> tuple[Amounts, Amounts, Amounts]:
        """In the order of `savings.STATES`."""
        return self.actual, self.gated, self.skipped

    @cached_property
    def timed(self) -> Amounts:
        """Actions that take time: done or gated."""
        return self.actual + self.gated

    @property
    def bytes(self) -> int:
        """Room that it takes, about."""
        return _FEW_BYTES + sum(8 * np.size(amounts) for amounts in (*self.states, self.actual))

    @cached_property
    def totals(self) -> tuple[float, float, float]:
        """Amounts of all instances together, in the order of `savings.STATES`."""
        return total(self.actual) * self.alike, total(self.gated) * self.alike, total(self.skipped) * self.alike


def total(amounts: Amounts) -> float:
    """The sum of all entries."""
    return float(amounts.sum()) if isinstance(amounts, np.ndarray) else amounts


@dataclass(frozen=True)
class Weights:
    """How often the rows of all variables are there: a number for those that are alike, and arrays by lane."""

    number: float
    arrays: tuple[Factor, ...]


def lane_loops(path: EinsumPath, level: int) -> tuple[int, ...]:
    """Loops that make the instances of a component at a level."""
    return tuple([i for i in path.spatial_loops if (path.loops[i].level or 0) <= level and not path.loops[i].absent])


class Sums:
    """Sums over the visits of one node: by what is added up, the lanes, and the visits that count."""

    def __init__(self, einsum: Einsum) -> None:
        self.einsum = einsum
        self.of: dict[tuple[Hashable, tuple[int, ...], Sets], Split] = {}
        self.bytes = self.kept_bytes = 0

    def add(self, key: tuple[Hashable, tuple[int, ...], Sets], split: Split) -> None:
        """Add a sum."""
        self.of[key] = split
        self.bytes += split.bytes


class Nest:
    """The loops of an Einsum: rows of its variables by node, which the visits of several exchanges share."""

    def __init__(self, path: EinsumPath, sparsity: Sparsity) -> None:
        self.path, self.sparsity = path, sparsity
        self._alike: dict[tuple[str, Around], Alike | None] = {}
        self._tables: dict[tuple[str, Around], Table] = {}
        self._lanes: dict[int, tuple[int, ...]] = {}
        self.contraction = Contraction()
        self._loops = [
            (loop.variable, loop.iterations, loop.shape, loop.initial, loop.level, loop.absent) for loop in path.loops
        ]
        self._lanes_end = 1 + max((i for i in path.spatial_loops if not path.loops[i].absent), default=-1)
        self._used: list[tuple[Hashable, Sums]] = []

    def lanes(self, level: int) -> tuple[int, ...]:
        """Loops that make the instances of a component at a level."""
        if level not in self._lanes:
            self._lanes[level] = lane_loops(self.path, level)
        return self._lanes[level]

    def sums(
        self,
        tensor: str | None,
        node: Around,
        conditions: tuple[Condition, ...],
        parted: tuple[tuple[Format, Around], ...],
    ) -> Sums:
        """Sums over the visits of a node; those of another mapping with the same loops down to it are known."""
        around = [node, *[condition.node for condition in conditions], *[at for _, at in parted]]
        end = max(self._lanes_end, 1 + max((i for at in around for i in at.applied), default=-1))
        key = "sums", tensor, node, conditions, parted, tuple(self._loops[:end])
        found: Sums | None = self.sparsity.kept.get(key)
        if found is None or found.einsum is not self.path.einsum:
            found = Sums(self.path.einsum)
        self._used.append((key, found))
        return found

    def keep(self) -> None:
        """Leave the sums to evaluations of other mappings."""
        for key, sums in self._used:
            if sums.bytes != sums.kept_bytes:
                sums.kept_bytes = sums.bytes
                self.sparsity.kept.keep(key, sums, sums.bytes)

    def alike(self, variable: str, node: Around) -> Alike | None:
        """One row for all iterations of a variable's loops, None where they have different lengths."""
        key = variable, node
        if key not in self._alike:
            self._alike[key] = Alike(self.path, variable, node) if are_alike(self.path, variable, node) else None
        return self._alike[key]

    def table(self, variable: str, node: Around) -> Table:
        """A row for each iteration of a variable's loops."""
        key = variable, node
        if key not in self._tables:
            self._tables[key] = Table(self.path, variable, node)
        return self._tables[key]


class Visits:
    """All visits of a node, with the conditions of what happens in them; rows that are alike are one.

    Rows are found when a sum is asked for that is not known yet.
    """

    def __init__(
        self,
        nest: Nest,
        node: Around,
        conditions: Sequence[Condition],
        access: TensorAccess | None = None,
        parted: Sequence[tuple[Format, Around]] = (),
    ) -> None:
        """`access`: the tensor whose tiles are moved, None for operations.

        `parted`: its formats with blocks or padding, each with the loops around the tiles of which parts are moved.
        """
        self.nest, self.node, self.access, self.conditions = nest, node, access, conditions
        self.path, self.sparsity, self._parted = nest.path, nest.sparsity, parted
        self.variables = self.path.einsum.rank_variables
        tensor = access.tensor if access is not None else None
        self._known = nest.sums(tensor, node, tuple(conditions), tuple(parted))
        self._chances: dict[Condition, Amounts] = {}
        self._weights: dict[tuple[tuple[int, ...], frozenset[int]], Weights] = {}

    @cached_property
    def done(self) -> dict[str, Condition]:
        """Conditions of what is done."""
        return innermost(self.conditions)

    @cached_property
    def timed(self) -> dict[str, Condition]:
        """Conditions of what takes time."""
        return innermost([c for c in self.conditions if c.skips])

    @cached_property
    def _looked_at(self) -> list[tuple[str, Around]]:
        found: list[tuple[str, Around]] = [] if self.access is None else [(self.access.tensor, self.node)]
        if self.access is not None:
            found += [(self.access.tensor, at) for _, at in self._parted]
        return found + [(c.leader, c.node) for c in {*self.done.values(), *self.timed.values()}]

    @cached_property
    def rows(self) -> dict[str, Alike | Table]:
        """Rows of each rank variable."""
        return {v: self._rows(v) for v in self.variables}

    @cached_property
    def own(self) -> dict[str, Spans]:
        """Intervals of each rank variable that the visits use."""
        return {v: rows.spans(self.node) for v, rows in self.rows.items()}

    @cached_property
    def boxes(self) -> Boxes:
        """Boxes of the tensor whose tiles are moved."""
        assert self.access is not None
        ranks = self.sparsity.ranks.get(self.access.tensor) or tuple(rank for rank, _ in self.access.projection)
        return boxes_of(self.path, self.access, ranks, self.own)

    def _rows(self, v: str) -> Alike | Table:
        alike = None if self._is_parted(v) else self.nest.alike(v, self.node)
        if alike is not None and not any(
            self._has_places(v, name, alike.spans(at), at) for name, at in self._looked_at
        ):
            return alike
        table = self.nest.table(v, self.node)
        if table.rows == 1 or any(self._is_unlike(v, name, at) for name, at in self._looked_at):
            return table
        return table.joined(list(self._told(v, table)))

    def _is_parted(self, v: str) -> bool:
        """Whether a variable indexes a tensor of whose tiles it matters which part is moved."""
        return bool(self._parted) and self.access is not None and v in self.access.variables

    def _is_unlike(self, v: str, name: str, at: Around) -> bool:
        """Whether no two rows of a variable use the same values of a tensor whose zeros are known."""
        known = isinstance(self.sparsity.densities.get(name), Known)
        loops = self.node.told.intersection(self.path.loops_of[v])
        return known and v in self.path.einsum.by_tensor[name].variables and loops <= at.told

    def _has_places(self, v: str, name: str, spans: Spans, at: Around) -> bool:
        """Whether it matters where intervals of one length begin."""
        density = self.sparsity.densities.get(name)
        if density is None or not density.is_positional or v not in self.path.einsum.by_tensor[name].variables:
            return False
        if at.applied.isdisjoint(self.path.loops_of[v]):
            return False
        if isinstance(density, Structured):
            index = self._block_index(name, density)
            if v not in dict(index.terms):
                return False
            if self._is_index(v, index) and not spans.is_shared:
                # they begin at multiples of their length: each in one block, or with one
                return bool(spans.size % density.m and density.m % spans.size)
        return True

    def _block_index(self, name: str, density: Structured) -> Affine:
        """The index of the rank of a density's blocks."""
        return dict(self.path.einsum.by_tensor[name].projection)[self.sparsity.ranks[name][density.rank]]

    def _is_index(self, v: str, index: Affine) -> bool:
        """Whether an index is a variable's value, which begins at 0."""
        return index.terms == ((v, 1),) and not index.constant and v not in dict(self.path.einsum.first_values)

    def _told(self, v: str, table: Table) -> Iterator[Ints]:
        """Columns that tell rows apart: lanes, sizes, places where these matter, first iterations of outputs."""
        loops = self.path.loops
        for i, values in table.index.items():
            if loops[i].is_spatial:
                yield values
            elif self.access is not None and self.access.output:
                yield np.minimum(values, 1)
        yield from self._sizes(table.spans(self.node))
        if self._is_parted(v):
            yield from self._pieces(v, table)
        for name, node in self._looked_at:
            density = self.sparsity.densities.get(name)
            yield from self._sizes(table.spans(node))
            if density is not None and density.is_positional:
                yield from self._places(v, name, density, table.spans(node))

    def _pieces(self, v: str, table: Table) -> Iterator[Ints]:
        """Where intervals begin in blocks of formats, and whether they end where the tile does of which they are parts.

        Lengths of these tiles are told as those of other boxes that are looked at.
        """
        assert self.access is not None
        own, name = table.spans(self.node), self.access.tensor
        indices = [dict(self.access.projection)[rank] for rank in self.sparsity.ranks[name]]
        for fmt, at in self._parted:
            last, whole = own.start + own.size - 1, table.spans(at)
            for index, block in zip(indices, fmt.blocks or [1] * len(indices), strict=True):
                if v not in dict(index.terms):
                    continue
                is_index = self._is_index(v, index)
                if block > 1:
                    yield np.asarray(own.start) % block if is_index else np.asarray(own.start)
                if fmt.is_padded:
                    length = block if is_index else 1
                    yield np.clip((whole.start + whole.size - 1) // length - last // length, 0, 1)

    def _sizes(self, spans: Spans) -> Iterator[Ints]:
        """Lengths of intervals where they differ."""
        if isinstance(spans.size, np.ndarray):
            yield spans.size

    def _places(self, v: str, name: str, density: Density, spans: Spans) -> Iterator[Ints]:
        """Where intervals begin, as far as it matters: inside of one block of a structured density it does not."""
        if v not in self.path.einsum.by_tensor[name].variables:
            return
        if isinstance(density, Structured):
            index = self._block_index(name, density)
            if v not in dict(index.terms):
                return
            if self._is_index(v, index):
                place = np.asarray(spans.start) % density.m
                yield np.where(place + spans.size <= density.m, 0, 1 + place)
                return
        yield np.asarray(spans.start)

    def sums(self, name: Hashable, content: Callable[[], Amounts], lanes: tuple[int, ...], sets: Sets) -> Split:
        """Sums of `content`, a number or an axis for each variable, by lane, over the visits of `sets`.

        `name`: what tells this content of the visits from others.
        """
        key = name, lanes, sets
        found = self._known.of.get(key)
        if found is None:
            found = self._sums(content(), lanes, sets)
            self._known.add(key, found)
        return found

    def _sums(self, content: Amounts, lanes: Sequence[int], sets: Sets) -> Split:
        whole = self._met({}, content, lanes, sets)
        timed = self._met(self.timed, content, lanes, sets) if self.timed else whole
        actual = timed if self.done == self.timed else self._met(self.done, content, lanes, sets)
        return Split(actual, timed - actual, whole - timed, self._alike(lanes, actual))

    def total(self, conditions: Mapping[str, Condition], content: Amounts, lanes: Sequence[int], sets: Sets) -> float:
        """The sum of what is done where all of some conditions are met, all lanes together."""
        found = self._met(conditions, content, lanes, sets)
        return total(found) * self._alike(lanes, found)

    def _alike(self, lanes: Sequence[int], found: Amounts) -> int:
        """Instances that each entry of a sum by lane stands for."""
        return prod(self.path.loops[i].iterations for i in lanes) // np.size(found)

    def _met(self, conditions: Mapping[str, Condition], content: Amounts, lanes: Sequence[int], sets: Sets) -> Amounts:
        factors = [content, *[self.chance(condition) for condition in conditions.values()]]
        number = 1.0
        arrays: list[Factor] = []
        for factor in factors:
            if isinstance(factor, np.ndarray):
                arrays.append(_squeezed(factor))
            else:
                number *= factor
        found: Amounts = 0.0
        for sign, first in sets:
            weights = self.weights(lanes, first)
            value: Amounts = sign * number * weights.number
            if arrays or weights.arrays:
                value = value * self.nest.contraction.sum([*weights.arrays, *arrays], len(self.variables))
            found = found + value
        return found

    def weights(self, lanes: Sequence[int], first: frozenset[int]) -> Weights:
        """How often each row is there for each lane, of those that are at the first iteration of some loops."""
        key = tuple(lanes), first
        if key not in self._weights:
            number, arrays, n = 1.0, [], len(self.variables)
            for i, v in enumerate(self.variables):
                found = self.rows[v].weights(lanes, first)
                if isinstance(found, float):
                    number *= found
                else:
                    arrays.append((found[:, 0], (i,)) if found.shape[1] == 1 else (found, (i, n + i)))
            self._weights[key] = Weights(number, tuple(arrays))
        return self._weights[key]

    def chance(self, condition: Condition) -> Amounts:
        """Probability that a condition is met, by row."""
        if condition not in self._chances:
            spans = {v: rows.spans(condition.node) for v, rows in self.rows.items()}
            self._chances[condition] = likely(self.path, self.sparsity, condition, spans)
        return self._chances[condition]


def _squeezed(content: Floats) -> Factor:
    """An array without its axes of length 1."""
    kept = [axis for axis, n in enumerate(content.shape) if n > 1]
    return content.reshape([content.shape[axis] for axis in kept]), tuple(kept)


class Contraction:
    """Sums of products of arrays, one axis after another; equal steps of several sums are taken once."""

    def __init__(self) -> None:
        self._steps: dict[object, tuple[list[Factor], Factor]] = {}

    def sum(self, factors: list[Factor], n: int) -> Floats:
        """The sum of products over all axes below `n`; others up to 2 `n` stay, of length 1 if in no factor.

        Next comes the axis that takes the fewest products.
        """
        lengths = {axis: size for array, axes in factors for axis, size in zip(axes, array.shape, strict=True)}
        rest = {axis for axis in lengths if axis < n}
        while rest:
            joined = {axis: [f for f in factors if axis in f[1]] for axis in rest}
            costs = {
                axis: (prod([lengths[other] for other in {o for _, axes in those for o in axes}]), len(those), axis)
                for axis, those in joined.items()
            }
            axis = min(rest, key=costs.__getitem__)
            factors = [*[f for f in factors if axis not in f[1]], self._step(joined[axis], axis)]
            rest.remove(axis)
        whole = factors[0] if len(factors) == 1 else _product(factors, None)
        return whole[0].reshape([lengths.get(n + i, 1) if n + i in whole[1] else 1 for i in range(n)])

    def _step(self, factors: list[Factor], axis: int) -> Factor:
        key = (axis, *[(a.__array_interface__["data"][0], a.strides, a.shape, axes) for a, axes in factors])
        if key not in self._steps:
            self._steps[key] = factors, _product(factors, axis)  # held, so that no other array takes their place
        return self._steps[key][1]


def _product(factors: Sequence[Factor], axis: int | None) -> Factor:
    """The product of arrays, summed over an axis; remaining axes are in order."""
    if len(factors) > 2:  # the smallest ones are multiplied before they are spread over the largest
        largest = max(factors, key=lambda factor: factor[0].size)
        factors = [largest, _product([factor for factor in factors if factor is not largest], None)]
    left = tuple(sorted({other for _, axes in factors for other in axes if other != axis}))
    if axis is not None and len(factors) == 2:
        (a, of_a), (b, of_b) = factors
        if set(of_a) & set(of_b) == {axis} and max(a.ndim, b.ndim) <= 2:
            if a.ndim < b.ndim or of_a > of_b:
                (a, of_a), (b, of_b) = (b, of_b), (a, of_a)
            found = (a if of_a[-1] == axis else a.T) @ (b if of_b[0] == axis else b.T)
            order = tuple([other for other in (*of_a, *of_b) if other != axis])
            return (found, left) if order == left else (found.T, left)
    operands = [part for factor in factors for part in factor]
    return np.einsum(*operands, left), left
