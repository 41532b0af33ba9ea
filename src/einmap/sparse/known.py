"""Nonzeros that are known position by position.

Boxes are given as in `densities`. Answers are kept, up to a number of bytes: mappings ask for the same tiles again and
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from einmap.arrays import Bools, Floats, Ints, Wholes
from einmap.errors import NotSupportedError
from einmap.sparse.intervals import Intervals, are_apart, different, most_along, spread
from einmap.sparse.kept import Kept

MOST_BOXES = 20_000
"""Boxes that are looked at one by one, at most."""
MOST_KEPT = 2**24
"""Bytes of answers that are kept, at most, with what was asked."""
MOST_SUMMED = 2**22
"""Values of a tensor up to which tiles that cut it evenly are found by sums of boxes that begin at 0."""
_FEW_BYTES = 512
"""Bytes of a question without its places, about."""


@dataclass(frozen=True, eq=False)
class Known:
    """Nonzeros of a tensor position by position; `mask`: true where a value is nonzero."""

    mask: Bools
    is_positional: bool = field(default=True, init=False)
    """Whether equal shapes at other places differ."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and np.array_equal(self.mask, other.mask)

    def __hash__(self) -> int:
        return hash((self.mask.shape, self.nonzeros))

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each rank."""
        return self.mask.shape

    @cached_property
    def nonzeros(self) -> int:
        """Nonzeros of the whole tensor."""
        return int(self.mask.sum())

    @property
    def part(self) -> float:
        """Part of the tensor's values that is nonzero."""
        return self.nonzeros / max(1, self.mask.size)

    def reshaped(self, shape: tuple[int, ...]) -> Known:
        """All values, with ranks cut into several."""
        return self._derived(("shape", *shape), lambda: self.mask.reshape(shape))

    def without(self, ranks: tuple[int, ...]) -> Known:
        """Where along some ranks there is any nonzero; these ranks have one index then."""
        return self._derived(("without", *ranks), lambda: self.mask.any(axis=ranks, keepdims=True))

    @cached_property
    def _others(self) -> dict[tuple[object, ...], Known]:
        return {}

    def _derived(self, key: tuple[object, ...], mask: Callable[[], Bools]) -> Known:
        if key not in self._others:
            self._others[key] = Known(mask())
        return self._others[key]

    def expected(self, low: Sequence[Wholes], size: Sequence[Wholes]) -> Floats:
        """Nonzeros of each box."""
        return self.parts(low, size, range(self.mask.ndim))

    def nonempty(
        self, low: Sequence[Wholes], size: Sequence[Wholes], lanes: tuple[int, ...] = (), alike: int = 1
    ) -> Floats:
        """1 where a box has a nonzero, else 0; of boxes along the axes `lanes` any of them."""
        assert alike == 1, "lanes at other places differ"
        return self._answer(low, size, (), lanes)

    def parts(self, low: Sequence[Wholes], size: Sequence[Wholes], ranks: Sequence[int]) -> Floats:
        """Indices of some ranks of each box at which its other ranks hold a nonzero.

        Raises NotSupportedError for too many boxes of different lengths or places.
        """
        return self._answer(low, size, ranks, ())

    def _answer(
        self, low: Sequence[Wholes], size: Sequence[Wholes], ranks: Sequence[int], lanes: tuple[int, ...]
    ) -> Floats:
        """`parts`, of boxes along the axes `lanes` the most, kept for who asks again."""
        asked = [a if isinstance(a, int) else (a.shape, a.tobytes()) for a in (*low, *size)]
        # along ranks of one index it is the same whether indices are counted or boxes that have any
        key = (tuple([rank for rank in ranks if not isinstance(size[rank], int) or size[rank] != 1]), lanes, *asked)
        found: Floats | None = self._kept.get(key)
        if found is None:
            places = sum(0 if isinstance(a, int) else a.nbytes for a in (*low, *size))
            found = self._keep(key, np.asarray(self._parts(low, size, ranks, lanes)), places)
        return found

    def laid(self, size: Sequence[int], ranks: Sequence[int]) -> int:
        """Indices of some ranks at which the other ranks hold a nonzero: in all tiles of a shape, side by side."""
        if len(ranks) == self.mask.ndim:
            return self.nonzeros
        rest = tuple(rank for rank in range(self.mask.ndim) if rank not in ranks)
        steps = [max(1, size[rank]) for rank in rest]
        key = "laid", rest, *steps
        found: Floats | None = self._kept.get(key)
        if found is None:
            is_large = self.mask.size > MOST_SUMMED
            filled: Ints | Bools = self.mask if is_large else self._sums_along(rest)
            for rank, step in zip(rest, steps, strict=True):
                begin = np.arange(0, self.shape[rank], step)
                if is_large:
                    filled = np.logical_or.reduceat(filled, begin, axis=rank)
                else:
                    filled = filled.take(np.minimum(begin + step, self.shape[rank]), rank) - filled.take(begin, rank)
            found = self._keep(key, np.array(np.count_nonzero(filled), dtype=np.float64))
        return int(found)

    def grid(self, begins: Sequence[Ints], sizes: Sequence[int], ranks: Sequence[int]) -> Floats:
        """`parts` of all boxes of a shape that begin at some positions along each rank; of no ranks: `nonempty`.

        Not kept. An axis for each rank.
        """
        if self.mask.size > MOST_SUMMED:
            of_each = self._parts(np.ix_(*begins), sizes, ranks, ())
            return np.broadcast_to(of_each, [len(begin) for begin in begins])
        intervals = [different(begin, size) for begin, size in zip(begins, sizes, strict=True)]
        found = self._of_all(intervals, ranks)
        for rank, one in enumerate(intervals):
            if (np.diff(one.which) != 1).any():
                found = found.take(one.which, rank)
        return found.astype(np.float64)

    @cached_property
    def _kept(self) -> Kept:
        """Answers by what was asked."""
        return Kept(MOST_KEPT)

    def _keep(self, key: tuple[object, ...], found: Floats, asked: int = 0) -> Floats:
        """Keep an answer. `asked`: bytes of the places that were asked for."""
        found.flags.writeable = False
        self._kept.keep(key, found, found.nbytes + asked + _FEW_BYTES)
        return found

    def _parts(
        self, low: Sequence[Wholes], size: Sequence[Wholes], ranks: Sequence[int], lanes: tuple[int, ...]
    ) -> Floats:
        is_large = self.mask.size > MOST_SUMMED
        if is_large:
            tiles = [_tiling(a, n, whole) for a, n, whole in zip(low, size, self.shape, strict=True)]
            if all(tiles):
                return most_along(self._of_tiles(tiles, ranks), lanes)  # type: ignore[arg-type]
        intervals = [different(a, n) for a, n in zip(low, size, strict=True)]
        is_part = 0 < len(ranks) < self.mask.ndim
        if not (is_large and is_part):
            if are_apart(intervals):
                return spread(self._of_all(intervals, ranks), intervals, lanes)
            boxes = prod(np.broadcast_shapes(*(one.which.shape for one in intervals)))
            if prod(len(one.begin) for one in intervals) <= boxes:
                found = self._of_all(intervals, ranks)[tuple(one.which for one in intervals)]
                return most_along(np.asarray(found, dtype=np.float64), lanes)
        return most_along(self._of_each(low, size, ranks), lanes)

    def _of_each(self, low: Sequence[Wholes], size: Sequence[Wholes], ranks: Sequence[int]) -> Floats:
        """`parts` of boxes one by one."""
        if len(ranks) == self.mask.ndim:
            return self._counted(low, size)
        if not ranks:
            return (self.expected(low, size) > 0).astype(np.float64)
        return self._one_by_one(low, size, ranks)

    def _of_all(self, intervals: Sequence[Intervals], ranks: Sequence[int]) -> Ints:
        """`parts` of all combinations of different intervals along each rank."""
        rest = tuple(rank for rank in range(self.mask.ndim) if rank not in ranks)
        found = self._sums_along(rest or tuple(ranks))
        for rank in rest or ranks:
            begin, end = intervals[rank].begin, intervals[rank].end
            found = found.take(end, rank) - found.take(begin, rank)
        if not rest or not ranks:
            return found if ranks else np.minimum(found, 1)
        found = np.minimum(found, 1)
        for rank in ranks:
            begin, end = intervals[rank].begin, intervals[rank].end
            if (end - begin == 1).all():
                found = found.take(begin, rank)
                continue
            sums = _begun(found, rank)
            found = sums.take(end, rank) - sums.take(begin, rank)
        return found

    def _sums_along(self, ranks: tuple[int, ...]) -> Ints:
        """Nonzeros from 0 on along some ranks, one longer than the tensor along these."""
        if len(ranks) == self.mask.ndim:
            return self._sums
        key = "sums", *ranks
        found: Ints | None = self._kept.get(key)
        if found is None:
            found = self.mask.astype(np.int32)
            for rank in ranks:
                found = _begun(found, rank)
            self._kept.keep(key, found, found.nbytes + _FEW_BYTES)
        return found

    def _of_tiles(self, tiles: Sequence[tuple[int, Wholes]], ranks: Sequence[int]) -> Floats:
        """`parts` of tiles that cut the tensor evenly: lengths, and which ones along each rank."""
        cut = [n for whole, (length, _) in zip(self.shape, tiles, strict=True) for n in (whole // length, length)]
        rest = tuple(2 * rank + 1 for rank in range(len(tiles)) if rank not in ranks)
        found = self.mask.reshape(cut)
        if any(cut[axis] > 1 for axis in rest):
            found = found.any(axis=rest, keepdims=True)
        counted = found.sum(axis=tuple(range(1, 2 * len(tiles), 2)), dtype=np.float64)
        answer: Floats = np.asarray(counted[tuple(place for _, place in tiles)])
        return answer

    @cached_property
    def _sums(self) -> Ints:
        """Nonzeros of all boxes that begin at 0, one longer than the tensor along each rank."""
        kind = np.int32 if self.mask.size < 2**31 else np.int64
        sums = np.zeros(tuple(n + 1 for n in self.shape), dtype=kind)
        inner = sums[tuple(slice(1, None) for _ in self.shape)]
        inner[...] = self.mask
        for axis in range(self.mask.ndim):
            np.cumsum(inner, axis=axis, out=inner)
        return sums

    def _counted(self, low: Sequence[Wholes], size: Sequence[Wholes]) -> Floats:
        """Nonzeros of each box, from sums of boxes that begin at 0 (Crow, SIGGRAPH 1984)."""
        total: Ints = np.zeros((), dtype=np.int64)
        for corner in range(1 << len(low)):
            ends = [a + n if corner >> rank & 1 else a for rank, (a, n) in enumerate(zip(low, size, strict=True))]
            sign = -1 if (len(low) - corner.bit_count()) % 2 else 1
            total = total + sign * self._sums[tuple(ends)]
        return np.asarray(total, dtype=np.float64)

    def _one_by_one(self, low: Sequence[Wholes], size: Sequence[Wholes], ranks: Sequence[int]) -> Floats:
        """`parts` of boxes that do not cut the tensor evenly."""
        columns = np.broadcast_arrays(*low, *size)
        boxes = np.stack([column.ravel() for column in columns], axis=1)
        different, places = np.unique(boxes, axis=0, return_inverse=True)
        if len(different) > MOST_BOXES:
            raise NotSupportedError(
                f"{len(different):,} different tiles are too many to look at their metadata",
                hint="give the density as a number",
            )
        rest = tuple(rank for rank in range(self.mask.ndim) if rank not in ranks)
        found = []
        for row in different.tolist():
            box = self.mask[tuple(slice(a, a + n) for a, n in zip(row[: len(low)], row[len(low) :], strict=True))]
            found.append(float(box.any(axis=rest).sum()))
        return np.array(found)[places.ravel()].reshape(columns[0].shape)

    def most(self, size: Sequence[int]) -> int:
        """Nonzeros of the fullest box of a shape, wherever it begins."""
        size = [min(n, whole) for n, whole in zip(size, self.shape, strict=True)]
        key = ("most", *size)
        found: Floats | None = self._kept.get(key)
        if found is None:
            sums = self._sums
            for rank, n in enumerate(size):
                before = (slice(None),) * rank
                sums = sums[(*before, slice(n, None))] - sums[(*before, slice(sums.shape[rank] - n))]
            found = self._keep(key, np.array(sums.max(initial=0), dtype=np.float64))
        return int(found.item())

    def distribution(self, size: Sequence[int]) -> Floats:
        """Part of the boxes of a shape, laid side by side from 0, that have 0, 1, 2, ... nonzeros."""
        begins = np.ix_(*(np.arange(0, whole, max(1, n)) for n, whole in zip(size, self.shape, strict=True)))
        lengths = [np.minimum(n, whole - a) for a, n, whole in zip(begins, size, self.shape, strict=True)]
        counts = np.bincount(self.expected(begins, lengths).astype(np.int64).ravel())
        return counts / counts.sum()

    def draw(self, rng: np.random.Generator) -> Bools:  # noqa: ARG002
        """The mask."""
        return self.mask


def _begun(values: Ints, rank: int) -> Ints:
    """Sums from 0 on along a rank, one longer."""
    shape = list(values.shape)
    shape[rank] += 1
    sums: Ints = np.zeros(shape, dtype=values.dtype)
    np.cumsum(values, axis=rank, out=sums[(*[slice(None)] * rank, slice(1, None))])
    return sums


def _tiling(low: Wholes, size: Wholes, whole: int) -> tuple[int, Wholes] | None:
    """The length of tiles that cut a rank evenly, and which of them the intervals are; None where they are not such."""
    if isinstance(size, int):
        length = size
    else:
        length = int(size.flat[0]) if size.size else 0
        if (size != length).any():
            return None
    if length <= 0 or whole % length or np.any(low % length):
        return None
    return length, low // length
