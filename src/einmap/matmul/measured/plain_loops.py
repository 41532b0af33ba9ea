"""The six plain loop orders of a matrix product, named from the outermost loop in: what a plan is measured against.

Each is what a careful programmer writes without blocks: a value that does not change in the innermost loop is kept
aside, and the compiler may reorder sums to use vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numba import njit
from numpy.typing import NDArray

type Matrix = NDArray[Any]
type Loops = Callable[[Matrix, Matrix, Matrix], None]


@njit(cache=True, nogil=True, fastmath=True)
def mnk(a: Matrix, b: Matrix, c: Matrix) -> None:
    """Sums over a row of A and a column of B."""
    for m in range(c.shape[0]):
        for n in range(c.shape[1]):
            total = c[m, n]
            for k in range(a.shape[1]):
                total += a[m, k] * b[k, n]
            c[m, n] = total


@njit(cache=True, nogil=True, fastmath=True)
def nmk(a: Matrix, b: Matrix, c: Matrix) -> None:
    """Sums over a row of A and a column of B, column by column."""
    for n in range(c.shape[1]):
        for m in range(c.shape[0]):
            total = c[m, n]
            for k in range(a.shape[1]):
                total += a[m, k] * b[k, n]
            c[m, n] = total


@njit(cache=True, nogil=True, fastmath=True)
def mkn(a: Matrix, b: Matrix, c: Matrix) -> None:
    """Adds rows of B to a row of C."""
    for m in range(c.shape[0]):
        for k in range(a.shape[1]):
            factor = a[m, k]
            for n in range(c.shape[1]):
                c[m, n] += factor * b[k, n]


@njit(cache=True, nogil=True, fastmath=True)
def kmn(a: Matrix, b: Matrix, c: Matrix) -> None:
    """Adds a row of B to every row of C."""
    for k in range(a.shape[1]):
        for m in range(c.shape[0]):
            factor = a[m, k]
            for n in range(c.shape[1]):
                c[m, n] += factor * b[k, n]


@njit(cache=True, nogil=True, fastmath=True)
def nkm(a: Matrix, b: Matrix, c: Matrix) -> None:
    """Adds columns of A to a column of C."""
    for n in range(c.shape[1]):
        for k in range(a.shape[1]):
            factor = b[k, n]
            for m in range(c.shape[0]):
                c[m, n] += a[m, k] * factor


@njit(cache=True, nogil=True, fastmath=True)
def knm(a: Matrix, b: Matrix, c: Matrix) -> None:
    """Adds a column of A to every column of C."""
    for k in range(a.shape[1]):
        for n in range(c.shape[1]):
            factor = b[k, n]
            for m in range(c.shape[0]):
                c[m, n] += a[m, k] * factor


PLAIN_LOOPS: Mapping[str, Loops] = {"mnk": mnk, "nmk": nmk, "mkn": mkn, "kmn": kmn, "nkm": nkm, "knm": knm}
"""By name."""
