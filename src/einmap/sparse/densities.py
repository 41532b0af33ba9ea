"""Densities of tensors: which values are nonzero, as a distribution or position by position.

A box is given rank by rank: its first indices and its lengths, numbers or arrays that broadcast against one another, so
that many boxes are asked for at once. A box of length 0 is absent: it holds nothing. Numbers are answered by numbers.

Uniform: all masks with as many nonzeros are equally likely, so that the nonzeros of a box are hypergeometric.
Structured: of each block of `m` neighbours along one rank `n` are nonzero, independently of other blocks.
Even: every box has its part of the nonzeros, as nearly as whole numbers allow; no mask is so, and none can be drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, comb, exp, floor, lgamma, log1p, prod
from typing import Any

import numpy as np

from einmap.arrays import Amounts, Bools, Floats, Wholes
from einmap.errors import NotSupportedError
from einmap.sparse.known import Known

LARGE = 2**20
"""Values from which on the logarithm of a factorial has too few digits to be taken from another one."""

type Density = Uniform | Structured | Even | Known
type Along = Sequence[Wholes]
"""First indices or lengths of boxes, rank by rank."""


class _Anywhere(ABC):
    """A density by which boxes of one size are alike, wherever they are and whatever their shape."""

    @abstractmethod
    def _filled(self, values: Any) -> Amounts:
        """Probability that so many values have a nonzero."""

    def nonempty(self, low: Along, size: Along, lanes: tuple[int, ...] = (), alike: int = 1) -> Amounts:  # noqa: ARG002
        """Probability that a box has a nonzero.

        Of boxes along the axes `lanes`, which are disjoint, any of them; each stands for `alike` disjoint ones.
        """
        return self._filled(_together(_values(size), lanes, alike))

    def parts(self, low: Along, size: Along, ranks: Sequence[int]) -> Amounts:  # noqa: ARG002
        """Indices of some ranks of each box at which its other ranks hold a nonzero, on average."""
        found: Amounts = _times(size, ranks) * self._filled(
            _times(size, [r for r in range(len(size)) if r not in ranks])
        )
        return found


@dataclass(frozen=True)
class Uniform(_Anywhere):
    """A number of nonzeros anywhere in a tensor of a shape, all places equally likely."""

    shape: tuple[int, ...]
    nonzeros: int
    is_positional: bool = field(default=False, init=False)
    """Whether equal shapes at other places differ."""

    @property
    def part(self) -> float:
        """Part of the tensor's values that is nonzero."""
        return self.nonzeros / max(1, prod(self.shape))

    def expected(self, low: Along, size: Along) -> Amounts:  # noqa: ARG002
        """Nonzeros of each box on average."""
        found: Amounts = self.part * _values(size)
        return found

    def _filled(self, values: Any) -> Amounts:
        """Probability that so many values have a nonzero."""
        if isinstance(values, int):
            return 1 - all_zero(prod(self.shape), self.nonzeros, values)
        different, places = np.unique(values, return_inverse=True)
        chances = np.array([1 - all_zero(prod(self.shape), self.nonzeros, int(n)) for n in different])
        found: Floats = chances[places].reshape(values.shape)
        return found

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

    def expected(self, low: Along, size: Along) -> Amounts:  # noqa: ARG002
        """Nonzeros of each box on average."""
        found: Amounts = _values(size) * self.n / self.m
        return found

    def nonempty(self, low: Along, size: Along, lanes: tuple[int, ...] = (), alike: int = 1) -> Amounts:
        """Probability that a box has a nonzero.

        Of boxes along the axes `lanes`, which are disjoint, any of them; each stands for `alike` disjoint ones, which
        do not cut the rank of the blocks. Raises NotSupportedError where `lanes` cut it.
        """
        along = low[self.rank], size[self.rank]
        if any(np.ndim(a) > axis and np.shape(a)[axis] > 1 for a in along for axis in lanes):
            raise NotSupportedError("lanes along the rank of a structured density are not supported yet")
        fibers = _times(size, [r for r in range(len(size)) if r != self.rank]) * alike
        empty: Any = self._empty_fiber(*along) ** fibers
        if lanes:
            shape = np.broadcast_shapes(*(np.shape(a) for a in (*low, *size)))
            empty = np.broadcast_to(empty, shape).prod(axis=lanes, keepdims=True)
        found: Amounts = 1 - empty
        return found

    def _empty_fiber(self, low: Wholes, size: Wholes) -> Amounts:
        """Probability that an interval along the rank has no nonzero."""
        if isinstance(low, int) and isinstance(size, int):
            return prod(self._empty_part(c) for c in self._covered(low % self.m, size))
        begin, length = np.broadcast_arrays(np.asarray(low) % self.m, size)
        different, places = np.unique(length * self.m + begin, return_inverse=True)
        chances = [self._empty_fiber(int(one) % self.m, int(one) // self.m) for one in different]
        return np.array(chances, dtype=np.float64)[places.ravel()].reshape(begin.shape)

    def _covered(self, begin: int, length: int) -> list[int]:
        """Values that an interval covers of each block that it meets; whole blocks between the ends are told once."""
        first = min(length, self.m - begin)
        whole, last = divmod(length - first, self.m)
        return [first, last, *([self.m] if whole else [])]

    def _empty_part(self, covered: int) -> float:
        return comb(self.m - covered, self.n) / comb(self.m, self.n)

    def parts(self, low: Along, size: Along, ranks: Sequence[int]) -> Amounts:
        """Indices of some ranks of each box at which its other ranks hold a nonzero, on average."""
        inner = [1 if rank in ranks else n for rank, n in enumerate(size)]
        begin = [0] * len(inner) if self.rank in ranks else low
        found: Amounts = _times(size, ranks) * self.nonempty(begin, inner)
        return found

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
class Even(_Anywhere):
    """One part of every box is nonzero, rounded down or up so that the mean is that part.

    Sparseloop's density model `fixed_structured` (Wu et al., MICRO 2022).
    """

    shape: tuple[int, ...]
    part: float
    is_positional: bool = field(default=False, init=False)
    """Whether equal shapes at other places differ."""

    def expected(self, low: Along, size: Along) -> Amounts:  # noqa: ARG002
        """Nonzeros of each box on average."""
        found: Amounts = self.part * _values(size)
        return found

    def _filled(self, values: Any) -> Amounts:
        """Probability that so many values have a nonzero."""
        expected = self.part * values
        found: Amounts = min(1.0, expected) if isinstance(values, int) else np.minimum(1.0, expected)
        return found

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


def _values(size: Along) -> Any:
    """Values of each box."""
    return prod(size)


def _times(size: Along, ranks: Sequence[int]) -> Any:
    """Lengths of some ranks, multiplied."""
    return prod([size[rank] for rank in ranks])


def _together(values: Any, lanes: tuple[int, ...], alike: int) -> Any:
    """Values of all boxes along the axes `lanes`, each of which stands for some that are alike."""
    return (values.sum(axis=lanes, keepdims=True) if lanes and not isinstance(values, int) else values) * alike


@lru_cache(maxsize=2**14)
def all_zero(whole: int, nonzeros: int, values: int) -> float:
    """Probability that some values of a whole are all zero: C(whole - values, nonzeros) / C(whole, nonzeros)."""
    rest = whole - values
    if values == 0 or nonzeros == 0:
        return 1.0
    if rest < nonzeros:
        return 0.0
    if values == 1:
        return (whole - nonzeros) / whole
    few = min(values, nonzeros)
    if few <= 64:  # C(S - a, b) / C(S, b), and a and b may change places
        many = max(values, nonzeros)
        return prod((whole - many - i) / (whole - i) for i in range(few))
    if whole < LARGE:
        return exp(_log_comb(rest, nonzeros) - _log_comb(whole, nonzeros))
    return _all_zero_of_many(whole, max(values, nonzeros), few)


def _all_zero_of_many(whole: int, many: int, few: int) -> float:
    """C(whole - many, few) / C(whole, few) for a large whole, of which logarithms of factorials have no digits left.

    Stirling's series for ln n!, with what is equal in the four of them taken out: of n ln n - n what is left is
    few ln(1 - many / whole) + whole h(few / whole) - (whole - many) h(few / (whole - many)).
    """
    rest = whole - many
    left = rest - few
    if left < few:  # at most (2 few / whole)^few, less than 1e-250
        return 0.0
    exact = few * log1p(-many / whole) + whole * _bend(few / whole) - rest * _bend(few / rest)
    halves = 0.5 * log1p(few * (many / whole) / left)
    twelfths = (1 / rest + 1 / (whole - few) - 1 / whole - 1 / left) / 12
    return exp(min(0.0, exact + halves + twelfths))


def _bend(x: float) -> float:
    """The number h(x) = (1 - x) ln(1 - x) + x, of small x by its series x^2 / 2 + x^3 / 6 + x^4 / 12 + ..."""
    if x > 0.05:
        return (1 - x) * log1p(-x) + x
    return sum(x**k / (k * (k - 1)) for k in range(2, 14))


def _hypergeometric(whole: int, nonzeros: int, values: int) -> Floats:
    """Probability of 0, 1, ... nonzeros among some values of a whole."""
    few = min(nonzeros, values)
    logs = np.full(few + 1, -np.inf)
    for k in range(max(0, values + nonzeros - whole), few + 1):
        logs[k] = _log_comb(nonzeros, k) + _log_comb(whole - nonzeros, values - k) - _log_comb(whole, values)
    return np.exp(logs)


def _log_comb(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
