"""Sums over the visits of a node: how often each is there, times what it moves, times how likely its conditions are.

Each factor is a number, or an array over the rows of a few rank variables (`visits`), so that sums are products of
numbers, or contractions of arrays, one variable after another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from einmap.arrays import Amounts, Ints
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine
from einmap.model.counting.path import EinsumPath
from einmap.model.sparsity.conditions import Condition, innermost, likely
from einmap.model.sparsity.contraction import Contraction, Factor, squeezed
from einmap.model.sparsity.even import EvenSums, Held, Tiles, are_told, loops_of
from einmap.model.sparsity.laid import Content, is_index, tiles_of
from einmap.model.sparsity.same import Cut, bits_at, cut_of, has_whole_sums
from einmap.model.sparsity.split import Split, total
from einmap.model.sparsity.visits import Alike, Around, Boxes, Spans, Table, are_alike, boxes_of
from einmap.sparse.densities import Density, Structured
from einmap.sparse.formats import Format
from einmap.sparse.known import Known
from einmap.sparse.savings import Sparsity

type Sets = tuple[tuple[float, frozenset[int]], ...]
"""Visits that count: signed sets of loops that are at their first iteration."""
WHOLE: Sets = ((1.0, frozenset()),)
"""All visits."""


@dataclass(frozen=True)
class Weights:
    """How often the rows of all variables are there: a number for those that are alike, and arrays by lane.

    `rows`: of the variables, by position, whose rows are each there as often as `number` says, how many these are.
    """

    number: float
    arrays: tuple[Factor, ...]
    rows: Mapping[int, int]

    def times(self, axes: Collection[int]) -> float:
        """Number that a sum takes once and not by arrays that have some axes."""
        return self.number * prod([n for axis, n in self.rows.items() if axis not in axes])


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
        return is_index(self.path.einsum, v, index)

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

    def sums(
        self,
        name: Hashable,
        content: Callable[[], Amounts],
        lanes: tuple[int, ...],
        sets: Sets,
        laid: Content | None = None,
    ) -> Split:
        """Sums of `content`, a number or an axis for each variable, by lane, over the visits of `sets`.

        `name`: what tells this content of the visits from others. `laid`: that of all tiles together, by their shape
        and how many there are, where these are laid side by side.
        """
        key = name, lanes, sets
        found = self._known.of.get(key)
        if found is None:
            found = self._of_laid(laid, sets) if laid is not None and not lanes else None
            found = found or self._sums_of_same(name, content, lanes, sets)
            self._known.add(key, found)
        return found

    def _of_laid(self, laid: Content, sets: Sets) -> Split | None:
        """`sums` where each visit of some loops uses one tile of those that cut the tensor; None elsewhere."""
        if self.conditions or len(sets) > 1 or self._same is None or self.access is None:
            return None
        sign, first = sets[0]
        tiles = tiles_of(self.path, self.sparsity, self.access, self.node, first)
        if tiles is None:
            return None
        return Split(sign * laid(tiles.size, tiles.number) * tiles.times, 0.0, 0.0)

    def _sums_of_same(
        self, name: Hashable, content: Callable[[], Amounts], lanes: tuple[int, ...], sets: Sets
    ) -> Split:
        """`sums`, from another mapping whose visits are the same where that changes no bit."""
        if self._same is None:
            return self._anew(content, lanes, sets)
        bits, what = self._same
        signs, firsts = [sign for sign, _ in sets], [first for _, first in sets]
        cut = cut_of(self.path, bits, lanes, firsts)
        key = "same", self.path.einsum.name, name, what, *signs, cut
        kept: tuple[Einsum, Split] | None = self.sparsity.kept.get(key)
        if kept is None or kept[0] is not self.path.einsum:
            kept = self.path.einsum, self._anew(content, lanes, sets, lambda: self._by_loops(name, cut, lanes, signs))
            self.sparsity.kept.keep(key, kept, kept[1].bytes)
        return kept[1]

    def _by_loops(self, name: Hashable, cut: Cut, lanes: Sequence[int], signs: Sequence[float]) -> Split | None:
        """`sums` loop by loop; None where it matters which part of a tile is moved, or lanes look at others' tiles."""
        places = [*self.done.values(), *self.timed.values()]
        loops = loops_of(cut, len(signs))
        if self._parted or not are_told(loops, 1 + len(places)):
            return None
        sums, by_tensor = EvenSums(self.path, loops, self.nest.contraction), self.path.einsum.by_tensor
        tiles = {c: Tiles(self.path, self.sparsity, by_tensor[c.leader], loops, 1 + k) for k, c in enumerate(places)}
        met = {condition: of_leader.nonempty() for condition, of_leader in tiles.items()}
        content: Held | float = sums.operations
        if self.access is not None:
            content = Tiles(self.path, self.sparsity, self.access, loops, 0).content(name)
        done = None if self.done == self.timed else [met[c] for c in self.done.values()]
        found = sums.split(content, done, [met[c] for c in self.timed.values()], signs)
        return Split(*found, self._alike(lanes, found[0]))

    @cached_property
    def _same(self) -> tuple[list[int], Hashable] | None:
        """Bits of loops at nodes, and names of what is looked at there: they tell these visits from others.

        None where sums are not whole numbers, or loops leave remainders.
        """
        if not has_whole_sums(self.path.einsum, self.sparsity, self.access, self.conditions):
            return None
        done, timed = self.done.values(), self.timed.values()
        bits = bits_at(self.path, [self.node, *[c.node for c in (*done, *timed)], *[at for _, at in self._parted]])
        tensor = self.access.tensor if self.access is not None else None
        formats = tuple([fmt for fmt, _ in self._parted])
        what = tensor, tuple([c.leader for c in done]), tuple([c.leader for c in timed]), formats
        return None if bits is None else (bits, what)

    def _anew(
        self,
        content: Callable[[], Amounts],
        lanes: tuple[int, ...],
        sets: Sets,
        faster: Callable[[], Split | None] = lambda: None,
    ) -> Split:
        """`sums` that nobody has taken before; `faster`: another way, which may not know them."""
        return faster() or self._sums(content(), lanes, sets)

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
                arrays.append(squeezed(factor))
            else:
                number *= factor
        axes = {axis for _, several in arrays for axis in several}
        found: Amounts = 0.0
        for sign, first in sets:
            weights = self.weights(lanes, first)
            value: Amounts = sign * number * weights.times(axes)
            if arrays or weights.arrays:
                value = value * self.nest.contraction.sum([*weights.arrays, *arrays], len(self.variables))
            found = found + value
        return found

    def weights(self, lanes: Sequence[int], first: frozenset[int]) -> Weights:
        """How often each row is there for each lane, of those that are at the first iteration of some loops."""
        key = tuple(lanes), first
        if key not in self._weights:
            number, n = 1.0, len(self.variables)
            arrays: list[Factor] = []
            alike: dict[int, int] = {}
            for i, v in enumerate(self.variables):
                found = self.rows[v].weights(lanes, first)
                if isinstance(found, float):
                    number *= found
                elif found.shape[1] > 1:
                    arrays.append((found, (i, n + i)))
                elif (found == found[0]).all():
                    number *= float(found[0, 0])
                    alike[i] = len(found)
                else:
                    arrays.append((found[:, 0], (i,)))
            self._weights[key] = Weights(number, tuple(arrays), alike)
        return self._weights[key]

    def chance(self, condition: Condition) -> Amounts:
        """Probability that a condition is met, by row."""
        if condition not in self._chances:
            spans = {v: rows.spans(condition.node) for v, rows in self.rows.items()}
            if isinstance(self.sparsity.densities[condition.leader], Known):
                spans = {v: self._without_places(v, one, condition.node) for v, one in spans.items()}
            self._chances[condition] = likely(self.path, self.sparsity, condition, spans)
        return self._chances[condition]

    def _without_places(self, v: str, spans: Spans, at: Around) -> Spans:
        """Intervals of a variable: one for all rows where no loop around a node cuts the variable."""
        if isinstance(spans.size, int) and spans.lanes == 1 and at.applied.isdisjoint(self.path.loops_of[v]):
            return Spans(0, spans.size)
        return spans
