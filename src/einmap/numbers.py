"""Tile-shape candidates with perfect factors: how a rank variable's size is spread over its loops.

A chain of tile shapes R >= s1 >= s2 >= ... = 1, each dividing the one before, is an ordered factorisation of R.
Prime by prime it is a composition: so many factors p go to the first loop, so many to the second, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb, gcd

import numpy as np
from numpy.typing import NDArray

_WHEEL = np.array([1, 7, 11, 13, 17, 19, 23, 29], dtype=np.int64)
"""All numbers below 30 that 2, 3 and 5 do not divide."""
_TURNS = 1 << 12
"""Turns of the wheel that are tried together."""


@lru_cache(maxsize=4096)
def prime_factors(n: int) -> tuple[tuple[int, int], ...]:
    """(prime, exponent) of n, smallest prime first. n < 2**62."""
    found: list[tuple[int, int]] = []
    for p in (2, 3, 5):
        e, n = _multiplicity(n, p)
        found += [(p, e)] if e else []
    turn = 0
    while (30 * turn) ** 2 <= n:
        candidates = (30 * np.arange(turn, turn + _TURNS, dtype=np.int64)[:, None] + _WHEEL).ravel()
        candidates = candidates[1:] if turn == 0 else candidates
        # smallest first: a composite divisor comes after its primes, which have been divided out by then
        for p in candidates[n % candidates == 0]:
            e, n = _multiplicity(n, int(p))
            found += [(int(p), e)] if e else []
        turn += _TURNS
    if n > 1:
        found.append((n, 1))
    return tuple(found)


def _multiplicity(n: int, p: int) -> tuple[int, int]:
    """How often p divides n, and what is left."""
    e = 0
    while n % p == 0:
        n //= p
        e += 1
    return e, n


def coprime_near(size: int, fraction: float) -> int:
    """The first number from `fraction` of `size` on that has no divisor in common with it."""
    stride = max(1, int(size * fraction))
    while gcd(stride, size) != 1:
        stride += 1
    return stride


def divisors(n: int) -> list[int]:
    """All divisors of n, smallest first."""
    found = [1]
    for p, e in prime_factors(n):
        found = [d * p**k for d in found for k in range(e + 1)]
    return sorted(found)


def n_compositions(total: int, parts: int) -> int:
    """Ways to write `total` as an ordered sum of `parts` numbers >= 0."""
    return comb(total + parts - 1, parts - 1) if parts else int(total == 0)


TABLE_ROWS = 300_000
"""Compositions are looked up in a table up to this many rows, else computed."""


def unrank(ranks: NDArray[np.int64], total: int, parts: int) -> NDArray[np.int64]:
    """The compositions with these ranks, in lexicographic order; shape (len(ranks), parts)."""
    if n_compositions(total, parts) <= TABLE_ROWS:
        return _table(total, parts)[ranks]
    return _unranked(ranks, total, parts)


@lru_cache(maxsize=1 << 16)
def composition(at: int, total: int, parts: int) -> tuple[int, ...]:
    """The composition of that rank, as `unrank` gives it."""
    return tuple(unrank(np.array([at], dtype=np.int64), total, parts)[0].tolist())


@lru_cache(maxsize=1 << 16)
def composed_powers(base: int, at: int, total: int, parts: int) -> tuple[int, ...]:
    """`base` to the power of each part of the composition of that rank."""
    return tuple(base**n for n in composition(at, total, parts))


@lru_cache(maxsize=256)
def _table(total: int, parts: int) -> NDArray[np.int64]:
    return _unranked(np.arange(n_compositions(total, parts)), total, parts)


def _unranked(ranks: NDArray[np.int64], total: int, parts: int) -> NDArray[np.int64]:
    result = np.zeros((len(ranks), parts), dtype=np.int64)
    rest = ranks.astype(np.int64, copy=True)
    left = np.full(len(ranks), total, dtype=np.int64)
    for part in range(parts - 1):
        # compositions whose current part is < k, for each amount that is left
        below = _cumulative(total, parts - part - 1)
        chosen = np.zeros(len(ranks), dtype=np.int64)
        for k in range(1, total + 1):
            chosen += (k <= left) & (rest >= below[left, np.minimum(k, left)])
        result[:, part] = chosen
        rest -= below[left, chosen]
        left -= chosen
    if parts:
        result[:, -1] = left
    return result


@lru_cache(maxsize=1024)
def _cumulative(total: int, parts: int) -> NDArray[np.int64]:
    """[left, k]: compositions of `left` into 1 + `parts` parts whose first part is below k."""
    table = np.zeros((total + 1, total + 2), dtype=np.int64)
    for left in range(total + 1):
        for k in range(1, left + 2):
            table[left, k] = table[left, k - 1] + n_compositions(left - (k - 1), parts)
    return table


def rank(composition: Sequence[int]) -> int:
    """The inverse of `unrank` for one composition."""
    return _rank(tuple(composition))


@lru_cache(maxsize=1 << 16)
def _rank(composition: tuple[int, ...]) -> int:
    result, left = 0, sum(composition)
    for position, value in enumerate(composition[:-1]):
        parts = len(composition) - position - 1
        result += sum(n_compositions(left - k, parts) for k in range(value))
        left -= value
    return result
