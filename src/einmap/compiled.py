"""How kernels of the search are compiled, and what several of them call.

Most of the time that a kernel takes to compile goes into types, not into machine code: it grows with the operations of
its text, and with each function of NumPy for each type of its arguments. So a kernel has each piece of code once, is
written in loops over numbers, and lets the caller make arrays where it can. There are no closures, no exceptions and no
array expressions in it: see `compiling`.
"""

# Kept machine code has these functions in it, and is told by the files that call them: who changes one touches those.

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys
from numba.core.types.misc import unliteral

# `_nrt`: who uses an array is counted; not left to what calls the function
_rules: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": True}
_of_others = _rules | {"no_cpython_wrapper": True}
with suppress(ImportError, AttributeError):  # where Numba is arranged otherwise: its own steps, which take longer
    from einmap.compiling import Part, Whole

    _rules["pipeline_class"], _of_others["pipeline_class"] = Whole, Part

_compiled = njit(cache=True, **_rules)


def kernel(function: Callable[..., Any]) -> Any:
    """A kernel for what Python calls, and other kernels may. A division by zero is not an error in it.

    Machine code on disk is read without what compiles other code: Numba would import that first, for 0.1 s.
    """
    found = _compiled(function)
    kept = getattr(found, "_cache", None)  # none where Numba is switched off
    if isinstance(kept, FunctionCache):
        kept.load_overload = partial(_load, kept)
    return found


def _load(kept: Any, signature: Any, context: Any) -> Any:
    """Machine code of a function for a signature; None where there is none on disk."""
    rtsys.initialize(context)
    try:
        found = kept._load_overload(signature, context)
    except (AttributeError, TypeError, OSError):  # where Numba does it otherwise
        found = None
    return FunctionCache.load_overload(kept, signature, context) if found is None else found


def loaded(found: Any) -> bool:
    """Load a kernel that is on disk for just one kind of arguments, without a call; whether it was there.

    A call would also look for extensions of Numba among all that is installed.
    """
    kept = getattr(found, "_cache", None)
    if not isinstance(kept, FunctionCache):
        return False
    try:
        rtsys.initialize(found.targetctx)
        codegen = found.targetctx.codegen()
        known = [
            kinds for kinds, *of in kept._cache_file._load_index() if kept._index_key(kinds, codegen)[1:] == (*of,)
        ]
        if len(known) != 1:
            return False
        found.compile(known[0])
    except (AttributeError, TypeError, ValueError, OSError):  # where Numba does it otherwise
        return False
    return True


def maker(function: Callable[..., Any]) -> Any:
    """A function that other kernels alone call, and that makes or gives arrays."""
    return _of_kinds(njit(**_of_others)(function))


def inner(function: Callable[..., Any]) -> Any:
    """A function that other kernels alone call, and that gives numbers.

    It does not count who uses its arrays, and so compiles faster.
    """
    return _of_kinds(njit(**_of_others | {"_nrt": False})(function))


def _of_kinds(function: Any) -> Any:
    """The function compiled once for each kind of arguments, not anew for each number that is written at a call."""
    of_numbers = getattr(function, "get_call_template", None)  # none where Numba is switched off
    if of_numbers is not None:
        function.get_call_template = lambda args, kws: of_numbers(tuple(map(unliteral, args)), kws)
    return function


def load_compiler() -> None:
    """Load what Numba needs to read kernels, but for SciPy, which it would import to find out whether there is BLAS.

    No kernel here needs it. Only for a process that is einmap's own: `numpy.dot` does not compile in it any more.
    """
    blas = "scipy.linalg"
    if blas in sys.modules:
        return
    sys.modules[blas] = None  # type: ignore[assignment]
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        del sys.modules[blas]


RUN = 16
"""So many keys are sorted by insertion."""


@maker
def stable_order(keys: Any, n: int) -> Any:
    """Numbers of the first `n` keys in rising order, those of equal keys as they come: int64 (n,).

    As `numpy.argsort(keys[:n], kind="stable")`, which takes ten times as long to compile.
    """
    order, spare = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        at = i
        while at % RUN and keys[order[at - 1]] > keys[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    width = RUN
    while width < n:
        for begin in range(0, n, 2 * width):
            left, right = begin, begin + width
            middle, end = begin + width, begin + 2 * width
            for at in range(begin, end if end < n else n):
                from_left = left < middle and (right >= end or right >= n or keys[order[left]] <= keys[order[right]])
                spare[at] = order[left] if from_left else order[right]
                left += from_left
                right += not from_left
        order, spare = spare, order
        width *= 2
    return order


@inner
def place_in(values: Any, low: int, high: int, wanted: Any) -> Any:
    """Number of a value among the rising ones from `low` to before `high`; -1 where it is not among them."""
    last = high
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < last and values[low] == wanted else -1
