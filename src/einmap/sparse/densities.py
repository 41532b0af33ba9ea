"""Densities of tensors: which values are nonzero, as a distribution or position by position.

A box is given by arrays: for each rank its first indices and its lengths, which broadcast against one another, so that
many boxes are asked for at once. A box of length 0 is absent: it holds nothing.

Uniform: all masks with as many nonzeros are equally likely, so that the nonzeros of a box are hypergeometric.
Structured: of each block of `m` neighbours along one rank `n` are nonzero, independently of other blocks.
Even: every box has its part of the nonzeros, as nearly as whole numbers allow; no mask is so, and none can be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, comb, floor, lgamma, prod

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.errors import NotSupportedError

type Density = Uniform | Structured | Even | Known


@dataclass(frozen=True)
class Uniform:
    """A number of nonzeros anywhere in a tensor of a shape, all places equally likely."""

    shape: tuple[int, ...]
    nonzeros: int
    is_positional: bool = field(default=False, init=False)
    """Whether equal shapes at other places differ."""

    @property
    def part(self) -> float:
        """Part of the tensor's values that is nonzero."""
        return self.nonzeros / max(1, prod(self.shape))

    def expected(self, low: Sequence[Ints], size: Sequence[Ints]) -> Floats:
        """Nonzeros of each box on average."""
        return self.part * _volume(low, size).astype(np.float64)

    def nonempty(self, low: Sequence[Ints], size: Sequence[Ints], lanes: tuple[int, ...] = ()) -> Floats:
        """Probability that a box has a nonzero; of boxes along the axes `lanes`, which are disjoint, any of them."""
        volume = _volume(low, size)
        values = volume.sum(axis=lanes, keepdims=True) if lanes else volume
        different, places = np.unique(values, return_inverse=True)
        chances = np.array([1 - self._empty(int(n)) for n in different])
        return chances[places].reshape(values.shape)

    def _empty(self, values: int) -> float:
        """Probability that so many values are all zero: C(S - n, N) / C(S, N)."""
        rest = prod(self.shape) - values
        if values == 0 or self.nonzeros == 0:
            return 1.0
        if rest < self.nonzeros:
            return 0.0
        whole = rest + values
        if values == 1:
            return (whole - self.nonzeros) / whole
        few = min(values, self.nonzeros)
        if few <= 64:  # C(S - a, b) / C(S, b), and a and b may change places
            many = max(values, self.nonzeros)
            return prod((whole - many - i) / (whole - i) for i in range(few))
        return float(np.exp(_log_comb(rest, self.nonzeros) - _log_comb(whole, self.nonzeros)))

    def parts(self, low: Sequence[int], size: Sequence[int], ranks: Sequence[int]) -> float:  # noqa: ARG002
        """Indices of some ranks of one box at which its other ranks hold a nonzero, on average."""
        inner = prod(n for rank, n in enumerate(size) if rank not in ranks)
        return prod(size[rank] for rank in ranks) * (1 - self._empty(inner))

    def most(self, size: Sequence[int]) -> int:
        """Nonzeros of the fullest box of a shape that can occur."""
        return min(self.nonzeros, prod(size))

    def distribution(self, size: Sequence[int]) -> Floats:
        """Probability of 0, 1, 2, ... nonzeros in a box of a shape."""
        whole, values = prod(self.shape), min(prod(size), prod(self.shape))
        return _hypergeometric(whole, self.nonzeros, values)

    def draw(self, rng: np.random.Generator) -> Bools:
        """A mask of the tensor at random."""
        mask = np.zeros(prod(self.shape), dtype=bool)
        mask[rng.permutation(mask.size)[: self.nonzeros]] = True
        return mask.reshape(self.shape)


@dataclass(frozen=True)
class Structured:
    """Of each block of `m` neighbours along the rank at position `rank`, `n` are nonzero. Blocks begin at 0."""

    shape: tuple[int, ...]
    rank: int
    n: int
    m: int
    is_positional: bool = field(default=True, init=False)
    """Whether equal shapes at other places differ: a box may cut blocks elsewhere."""

    @property
    def part(self) -> float:
        """Part of the tensor's values that is nonzero."""
        return self.n / self.m

    def expected(self, low: Sequence[Ints], size: Sequence[Ints]) -> Floats:
        """Nonzeros of each box on average."""
        return _volume(low, size) * self.n / self.m

    def nonempty(self, low: Sequence[Ints], size: Sequence[Ints], lanes: tuple[int, ...] = ()) -> Floats:
        """Probability that a box has a nonzero; of boxes along the axes `lanes`, which are disjoint, any of them.

        Raises NotSupportedError where lanes cut the rank of the blocks.
        """
        along = [low[self.rank], size[self.rank]]
        if any(np.ndim(a) > axis and a.shape[axis] > 1 for a in along for axis in lanes):
            raise NotSupportedError("lanes along the rank of a structured density are not supported yet")
        fibers = prod((n for rank, n in enumerate(size) if rank != self.rank), start=np.ones((), dtype=np.int64))
        shape = np.broadcast_shapes(*(np.shape(a) for a in (*low, *size)))
        empty = np.broadcast_to(self._empty_fiber(*along) ** fibers, shape)
        return 1 - (empty.prod(axis=lanes, keepdims=True) if lanes else empty)

    def _empty_fiber(self, low: Ints, size: Ints) -> Floats:
        """Probability that an interval along the rank has no nonzero."""
        low, size = np.broadcast_arrays(low, size)
        pairs = np.stack([low % self.m, size], axis=-1).reshape(-1, 2)
        different, places = np.unique(pairs, axis=0, return_inverse=True)
        chances = [prod(self._empty_part(c) for c in self._covered(int(a), int(n))) for a, n in different]
        return np.array(chances, dtype=np.float64)[places.ravel()].reshape(low.shape)

    def _covered(self, begin: int, length: int) -> list[int]:
        """Values that an interval covers of each block that it meets; whole blocks between the ends are told once."""
        first = min(length, self.m - begin)
        whole, last = divmod(length - first, self.m)
        return [first, last, *([self.m] if whole else [])]

    def _empty_part(self, covered: int) -> float:
        return comb(self.m - covered, self.n) / comb(self.m, self.n)

    def parts(self, low: Sequence[int], size: Sequence[int], ranks: Sequence[int]) -> float:
        """Indices of some ranks of one box at which its other ranks hold a nonzero, on average."""
        inner = [np.asarray(1 if rank in ranks else n) for rank, n in enumerate(size)]
        begin = [np.asarray(a) for a in low]
        count = prod(size[rank] for rank in ranks)
        if self.rank in ranks:
            return count * float(self.nonempty([np.zeros((), dtype=np.int64) for _ in low], inner))
        return count * float(self.nonempty(begin, inner))

    def most(self, size: Sequence[int]) -> int:
        """Nonzeros of the fullest box of a shape that can occur, wherever it begins."""
        length = size[self.rank]
        begins = range(self.m if self.shape[self.rank] > self.m else 1)
        fiber = max(self._most_of_fiber(begin, length) for begin in begins)
        return fiber * prod(n for rank, n in enumerate(size) if rank != self.rank)

    def _most_of_fiber(self, begin: int, length: int) -> int:
        first = min(length, self.m - begin)
        whole, last = divmod(length - first, self.m)
        return min(first, self.n) + whole * self.n + min(last, self.n)

    def distribution(self, size: Sequence[int]) -> Floats:
        """Probability of 0, 1, 2, ... nonzeros in a box of a shape that begins with a block."""
        whole, rest = divmod(size[self.rank], self.m)
        fibers = prod(n for rank, n in enumerate(size) if rank != self.rank)
        one = np.concatenate([np.zeros(whole * self.n), _hypergeometric(self.m, self.n, rest)])
        chances = np.ones(1)
        for _ in range(fibers):
            chances = np.convolve(chances, one)
        return chances

    def draw(self, rng: np.random.Generator) -> Bools:
        """A mask of the tensor at random."""
        moved = [n for rank, n in enumerate(self.shape) if rank != self.rank]
        blocks = self.shape[self.rank] // self.m
        order = rng.random((*moved, blocks, self.m)).argsort(axis=-1)
        return np.moveaxis((order < self.n).reshape(*moved, blocks * self.m), -1, self.rank)


@dataclass(frozen=True)
class Even:
    """One part of every box is nonzero, rounded down or up so that the mean is that part.

    Sparseloop's density model `fixed_structured` (Wu et al., MICRO 2022).
    """

    shape: tuple[int, ...]
    part: float
    is_positional: bool = field(default=False, init=False)
    """Whether equal shapes at other places differ."""

    def expected(self, low: Sequence[Ints], size: Sequence[Ints]) -> Floats:
        """Nonzeros of each box on average."""
        return self.part * _volume(low, size).astype(np.float64)

    def nonempty(self, low: Sequence[Ints], size: Sequence[Ints], lanes: tuple[int, ...] = ()) -> Floats:
        """Probability that a box has a nonzero; of boxes along the axes `lanes`, which are disjoint, any of them."""
        expected = self.expected(low, size)
        return np.minimum(1.0, expected.sum(axis=lanes, keepdims=True) if lanes else expected)

    def parts(self, low: Sequence[int], size: Sequence[int], ranks: Sequence[int]) -> float:  # noqa: ARG002
        """Indices of some ranks of one box at which its other ranks hold a nonzero, on average."""
        inner = prod(n for rank, n in enumerate(size) if rank not in ranks)
        return prod(size[rank] for rank in ranks) * min(1.0, self.part * inner)

    def most(self, size: Sequence[int]) -> int:
        """Nonzeros of the fullest box of a shape that can occur."""
        return ceil(self.part * prod(size))

    def distribution(self, size: Sequence[int]) -> Floats:
        """Probability of 0, 1, 2, ... nonzeros in a box of a shape."""
        exact = self.part * prod(size)
        chances = np.zeros(ceil(exact) + 1)
        chances[floor(exact)] = 1 - (exact - floor(exact))
        if ceil(exact) > floor(exact):
            chances[ceil(exact)] = exact - floor(exact)
        return chances

    def draw(self, rng: np.random.Generator) -> Bools:  # noqa: ARG002
        """Raises NotSupportedError: a mask has not the same part of nonzeros in all boxes."""
        raise NotSupportedError(
            "an even density is a model of expected counts, and no mask is even",
            hint="give uniform or structured to draw a mask",
        )


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

    @cached_property
    def _sums(self) -> Ints:
        """Nonzeros of all boxes that begin at 0, one longer than the tensor along each rank."""
        sums = np.zeros(tuple(n + 1 for n in self.shape), dtype=np.int64)
        inner = sums[tuple(slice(1, None) for _ in self.shape)]
        inner[...] = self.mask
        for axis in range(self.mask.ndim):
            np.cumsum(inner, axis=axis, out=inner)
        return sums

    def expected(self, low: Sequence[Ints], size: Sequence[Ints]) -> Floats:
        """Nonzeros of each box."""
        total: Ints = np.zeros((), dtype=np.int64)
        for corner in range(1 << len(low)):
            ends = [a + n if corner >> rank & 1 else a for rank, (a, n) in enumerate(zip(low, size, strict=True))]
            sign = -1 if (len(low) - corner.bit_count()) % 2 else 1
            total = total + sign * self._sums[tuple(ends)]
        return np.asarray(total, dtype=np.float64)

    def nonempty(self, low: Sequence[Ints], size: Sequence[Ints], lanes: tuple[int, ...] = ()) -> Floats:
        """1 where a box has a nonzero, else 0; of boxes along the axes `lanes` any of them."""
        found = self.expected(low, size) > 0
        return (found.any(axis=lanes, keepdims=True) if lanes else found).astype(np.float64)

    def parts(self, low: Sequence[int], size: Sequence[int], ranks: Sequence[int]) -> float:
        """Indices of some ranks of one box at which its other ranks hold a nonzero."""
        box = self.mask[tuple(slice(a, a + n) for a, n in zip(low, size, strict=True))]
        rest = tuple(rank for rank in range(box.ndim) if rank not in ranks)
        return float(box.any(axis=rest).sum())

    def most(self, size: Sequence[int]) -> int:
        """Nonzeros of the fullest box of a shape, wherever it begins."""
        size = [min(n, whole) for n, whole in zip(size, self.shape, strict=True)]
        begins = np.ix_(*(np.arange(whole - n + 1) for n, whole in zip(size, self.shape, strict=True)))
        return int(self.expected(begins, [np.asarray(n) for n in size]).max(initial=0))

    def distribution(self, size: Sequence[int]) -> Floats:
        """Part of the boxes of a shape, laid side by side from 0, that have 0, 1, 2, ... nonzeros."""
        begins = np.ix_(*(np.arange(0, whole, max(1, n)) for n, whole in zip(size, self.shape, strict=True)))
        lengths = [np.minimum(n, whole - a) for a, n, whole in zip(begins, size, self.shape, strict=True)]
        counts = np.bincount(self.expected(begins, lengths).astype(np.int64).ravel())
        return counts / counts.sum()

    def draw(self, rng: np.random.Generator) -> Bools:  # noqa: ARG002
        """The mask."""
        return self.mask


def _volume(low: Sequence[Ints], size: Sequence[Ints]) -> Ints:
    """Values of each box; `low` says what the boxes broadcast to."""
    shape = np.broadcast_shapes(*(np.shape(a) for a in (*low, *size)))
    volume: Ints = np.broadcast_to(prod(size, start=np.ones((), dtype=np.int64)), shape)
    return volume


def _hypergeometric(whole: int, nonzeros: int, values: int) -> Floats:
    """Probability of 0, 1, ... nonzeros among some values of a whole."""
    few = min(nonzeros, values)
    logs = np.full(few + 1, -np.inf)
    for k in range(max(0, values + nonzeros - whole), few + 1):
        logs[k] = _log_comb(nonzeros, k) + _log_comb(whole - nonzeros, values - k) - _log_comb(whole, values)
    return np.exp(logs)


def _log_comb(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
