"""Sums over visits where loops cut tensors evenly and zeros are known: an axis for each loop, not a row for each visit.

What the tiles of a tensor hold is found once for each shape of tile; loops that cut the tensor say which tile a visit
uses. Sums are whole numbers, so that these are to the last bit those of `sums`, which knows all kinds of visits.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from einmap.arrays import Amounts, Floats, Ints
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.model.counting.path import EinsumPath
from einmap.model.sparsity.contraction import Contraction, Factor
from einmap.model.sparsity.same import Cut
from einmap.sparse.formats import Format
from einmap.sparse.known import Known
from einmap.sparse.savings import Sparsity

FEW_PRODUCTS = 100_000
"""Products of several arrays that are added up at once, not one axis after another."""
FEW_SUMMED = 4_000
"""Numbers that are added up anew each time."""
_FEW_BYTES = 512
"""Bytes of the key of what tiles hold, about."""


type Content = tuple[int, ...] | Format
"""Numbers of a tile: indices of some ranks at which the others hold a nonzero, of no ranks 1 for any; or metadata."""


class Loops(NamedTuple):
    """Loops, or several in a row that do the same, that cut one rank variable into tiles of a length.

    `variable`: its position among the rank variables. `uses`: at the nodes that are looked at, in bits of
    `same.bits_at`; the first node is that of the visits. `firsts`: in bits, sets of visits at the first iteration.
    """

    variable: int
    n: int
    tile: int
    is_lane: bool
    uses: int
    firsts: int

    def applies(self, node: int) -> bool:
        """Whether they stand around a node."""
        return bool(self.uses >> 2 * node & 1)

    def merges(self, node: int) -> bool:
        """Whether their lanes are merged on the way to the node's parent."""
        return bool(self.uses >> 2 * node & 2)


def loops_of(cut: Cut, sets: int) -> list[Loops]:
    """The loops of a key of `same.cut_of`, with so many sets of visits."""
    return [
        Loops(v, n, tile, bool(does >> sets & 1), does >> sets + 1, does & (1 << sets) - 1)
        for v, of_variable in enumerate(cut)
        for n, tile, does in of_variable
    ]


def are_told(loops: Sequence[Loops], nodes: int) -> bool:
    """Whether all nodes that are looked at have tiles that the visits tell apart."""
    applies = (4**nodes - 1) // 3
    return not any(told and not told & 1 for loop in loops if (told := loop.uses & ~(loop.uses >> 1) & applies))


def _joined(loops: Sequence[Loops]) -> tuple[tuple[int, int], ...]:
    """How often loops cut tiles, and their lengths, one after the other; those that cut the tiles of others as one."""
    found: list[tuple[int, int]] = []
    for loop in loops:
        n = loop.n * found.pop()[0] if found and found[-1][1] == loop.n * loop.tile else loop.n
        found.append((n, loop.tile))
    return tuple(found)


@dataclass(frozen=True)
class Held:
    """Numbers with an axis for each of some loops; `tiles`, `name`: what they are of, where no loop is left out."""

    array: Floats
    axes: tuple[int, ...]
    tiles: Tiles | None = None
    name: Content = ()

    def at(self, fixed: Collection[int]) -> Held:
        """The numbers at the first iteration of some loops."""
        if not any(i in fixed for i in self.axes):
            return self
        place = tuple([0 if i in fixed else slice(None) for i in self.axes])
        return Held(self.array[place], tuple([i for i in self.axes if i not in fixed]))

    def without(self, axes: Collection[int]) -> Held:
        """Sums over some loops."""
        if self.tiles is not None and self.array.size > FEW_SUMMED:
            return self.tiles.summed(self.name, axes)
        array, places = self.array, [at for at, i in enumerate(self.axes) if i in axes]
        for passed, at in enumerate(places):  # from the outside in: long rows are added up fast
            array = np.add.reduce(array, axis=at - passed)
        return Held(array, tuple([i for i in self.axes if i not in axes])) if places else self


class Tiles:
    """Numbers of the tiles that a tensor has at a node, in arrays with an axis for each loop that cuts it there."""

    def __init__(
        self, path: EinsumPath, sparsity: Sparsity, access: TensorAccess, loops: Sequence[Loops], node: int
    ) -> None:
        """`node`: number of the node; lanes that are merged there are alike, or `nonempty` asks for any of them."""
        self.path, self.sparsity, self.access, self.loops, self.node = path, sparsity, access, loops, node
        names = path.einsum.rank_variables
        self.variables = [i for i, v in enumerate(names) if v in access.variables]
        self.own = [i for i, x in enumerate(loops) if x.applies(node) and x.variable in self.variables]
        self.told = tuple([i for i in self.own if not loops[i].merges(node)])
        self.cut = {v: _joined([loops[i] for i in self.own if loops[i].variable == v]) for v in self.variables}
        self.extents = {names[v]: cut[-1][1] if cut else path.einsum.extents[names[v]] for v, cut in self.cut.items()}
        self._key = path.einsum.name, access.tensor, tuple(self.cut.values())

    @cached_property
    def size(self) -> list[int]:
        """Lengths of the tiles, rank by rank."""
        by_rank = dict(self.access.projection)
        return [by_rank[rank].extent(self.extents) for rank in self._ranks]

    @property
    def _ranks(self) -> tuple[str, ...]:
        return self.sparsity.ranks.get(self.access.tensor) or tuple([rank for rank, _ in self.access.projection])

    def nonempty(self) -> Held:
        """1 where a tile, or one of those of merged lanes, has a nonzero, else 0."""
        if len(self.told) == len(self.own):
            return self._held(())
        key = "any of", *self._key, *[(self.loops[i].n, i in self.told) for i in self.own]
        found = self._kept(key)
        if found is None:
            merged = tuple([at for at, i in enumerate(self.own) if i not in self.told])
            found = self._keep(key, self._held(()).array.max(axis=merged))
        return Held(found, self.told)

    def content(self, name: Hashable) -> Held | float:
        """Values, or bits of metadata, that a tile takes: `name` as of `sums.Visits.sums`."""
        if self.access.tensor not in self.sparsity.densities or not isinstance(name, tuple):
            return float(prod(self.size))
        fmt = name[1] if name[0] == "metadata" else None
        assert fmt is None or isinstance(fmt, Format)
        held = self._held(tuple(range(len(self._ranks))) if fmt is None else fmt)
        if len(self.told) == len(self.own):
            return held
        # the first of merged lanes
        return Held(held.array[tuple([slice(None) if i in self.told else 0 for i in self.own])], self.told)

    def summed(self, name: Content, axes: Collection[int]) -> Held:
        """Sums over some loops of what all tiles hold."""
        whole = [v for v in self.variables if all(i in axes for i in self.own if self.loops[i].variable == v)]
        key = "sums of", name, tuple(whole), *self._key
        found = self._kept(key)
        if found is None:
            array, places = self._of_all(name), [at for at, v in enumerate(self.variables) if v in whole]
            for passed, at in enumerate(places):
                array = np.add.reduce(array, axis=at - passed)
            found = self._keep(key, array)
        own = [i for i in self.own if self.loops[i].variable not in whole]
        return Held(found.reshape([self.loops[i].n for i in own]), tuple(own)).without(axes)

    def _held(self, name: Content) -> Held:
        """Numbers of all tiles, with an axis for each loop that cuts them."""
        name = self._ranked(name) if isinstance(name, tuple) else name
        found = self._of_all(name).reshape([self.loops[i].n for i in self.own])
        return Held(found, tuple(self.own), self, name)

    def _of_all(self, name: Content) -> Floats:
        """Numbers of all tiles, with an axis for each rank variable of the tensor."""
        key = "tiles of", name, *self._key
        found = self._kept(key)
        if found is None:
            if isinstance(name, Format):
                bits = name.stored(self.size, self._parts).metadata
                found = np.broadcast_to(np.asarray(bits), [prod([n for n, _ in self.cut[v]]) for v in self.variables])
            else:
                density = self.sparsity.densities[self.access.tensor]
                assert isinstance(density, Known)
                found = self._laid_out(density, name)
            self._keep(key, found)
        return found

    def _parts(self, ranks: Sequence[int]) -> Floats:
        return self._of_all(self._ranked(ranks))

    def _ranked(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Ranks with those of one index, along which it is the same whether indices are counted or boxes that have any.

        Empty where all have one index, and of no ranks.
        """
        single = [rank for rank, n in enumerate(self.size) if n == 1]
        return tuple(sorted({*ranks, *single})) if ranks and len(single) < len(self.size) else ()

    def _laid_out(self, density: Known, ranks: tuple[int, ...]) -> Floats:
        names, by_rank = self.path.einsum.rank_variables, dict(self.access.projection)
        first, cuts = dict(self.path.einsum.first_values), {names[v]: cut for v, cut in self.cut.items()}
        begins, axes = list[Ints](), list[int]()
        for rank in self._ranks:
            begin: Ints = np.array([by_rank[rank].constant])
            for v, a in by_rank[rank].terms:
                axes.append(names.index(v))
                begin = begin + a * (first.get(v, 0) + (0 if a > 0 else self.extents[v] - 1))
                for n, tile in cuts[v]:
                    begin = np.add.outer(begin, np.arange(0, a * n * tile, a * tile)).ravel()
            begins.append(begin)
        found = density.grid(begins, self.size, ranks)
        found = found.reshape([prod([n for n, _ in self.cut[v]]) for v in axes])
        return found if axes == self.variables else np.ascontiguousarray(found.transpose(np.argsort(axes)))

    def _kept(self, key: Hashable) -> Floats | None:
        kept: tuple[Einsum, Floats] | None = self.sparsity.kept.get(key)
        return kept[1] if kept is not None and kept[0] is self.path.einsum else None

    def _keep(self, key: Hashable, found: Floats) -> Floats:
        self.sparsity.kept.keep(key, (self.path.einsum, found), found.nbytes + _FEW_BYTES)
        return found


class EvenSums:
    """Sums over the visits of a node, by lane."""

    def __init__(self, path: EinsumPath, loops: Sequence[Loops], contraction: Contraction) -> None:
        self.path, self.loops, self.contraction = path, loops, contraction
        self.visited = [i for i, loop in enumerate(loops) if loop.applies(0)]
        self.lanes = [i for i in self.visited if loops[i].is_lane]

    @property
    def operations(self) -> float:
        """Operations of each visit."""
        extents = dict(self.path.einsum.extents)
        extents |= {self.path.einsum.rank_variables[x.variable]: x.tile for x in self.loops if x.applies(0)}
        return float(prod(extents.values()))

    def split(
        self, content: Held | float, done: Sequence[Held] | None, timed: Sequence[Held], signs: Sequence[float]
    ) -> tuple[Amounts, Amounts, Amounts]:
        """Sums over visits with all nonzeros that are `done` or `timed`: done, gated, skipped, of one shape.

        `done`: None where it is all that is timed.
        """
        whole = self.sum([content], signs)
        takes = self.sum([content, *timed], signs) if timed else whole
        actual = takes if done is None else self.sum([content, *done], signs)
        if any(isinstance(amount, np.ndarray) for amount in (whole, takes, actual)):
            whole, takes, actual = np.broadcast_arrays(whole, takes, actual)
        return actual, takes - actual, whole - takes

    def sum(self, factors: Sequence[Held | float], signs: Sequence[float]) -> Amounts:
        """The sum of products over all visits of some sets, by lane: an axis for each rank variable, or a number."""
        found: Amounts = 0.0
        for number, sign in enumerate(signs):
            found = found + self._of_set(factors, sign, 1 << len(signs) - 1 - number)
        return found

    def _of_set(self, factors: Sequence[Held | float], sign: float, bit: int) -> Amounts:
        """Sum of products over one set of visits."""
        times, arrays = sign, list[Held]()
        fixed = {i for i in self.visited if self.loops[i].firsts & bit and i not in self.lanes}
        for factor in factors:
            held = factor if isinstance(factor, float) else factor.at(fixed)
            if isinstance(held, float):
                times *= held
            elif held.axes:
                arrays.append(held)
            else:
                times *= float(held.array)
        for i in self.lanes:
            if self.loops[i].firsts & bit:
                arrays.append(Held(np.eye(1, self.loops[i].n)[0], (i,)))
        there = {axis for held in arrays for axis in held.axes}
        times *= prod([self.loops[i].n for i in self.visited if i not in there | fixed and i not in self.lanes])
        return times * self._by_variable(*self._contracted(arrays)) if arrays else times

    def _contracted(self, arrays: Sequence[Held]) -> Factor:
        """The product of arrays, summed over all axes but lanes."""
        some: list[Factor] = []
        for k, held in enumerate(arrays):
            others = {axis for j, of in enumerate(arrays) if j != k for axis in of.axes}
            alone = held.without([i for i in held.axes if i not in others and i not in self.lanes])
            some.append((alone.array, alone.axes))
        lengths = {i: self.loops[i].n for _, axes in some for i in axes}
        kept = tuple(sorted(i for i in lengths if i in self.lanes))
        if len(some) == 1 and some[0][1] == kept:
            return some[0]
        if prod(lengths.values()) <= FEW_PRODUCTS:
            return np.einsum(*[part for factor in some for part in factor], kept), kept
        n = len(self.loops)
        named = [(a, tuple([n + i if i in self.lanes else i for i in axes])) for a, axes in some]
        return self.contraction.sum(named, n).reshape([lengths[i] for i in kept]), kept

    def _by_variable(self, array: Floats, axes: tuple[int, ...]) -> Amounts:
        """Sums by lane with an axis for each rank variable: of all its lanes, or of length 1 where these are alike."""
        if not axes:
            return float(array)
        told = {self.loops[i].variable for i in axes}
        lanes = [i for i in self.lanes if self.loops[i].variable in told]
        whole = array.reshape([self.loops[i].n if i in axes else 1 for i in lanes])
        whole = np.broadcast_to(whole, [self.loops[i].n for i in lanes])
        lengths = dict.fromkeys(range(len(self.path.einsum.rank_variables)), 1)
        for i in lanes:
            lengths[self.loops[i].variable] *= self.loops[i].n
        return whole.reshape(list(lengths.values()))
