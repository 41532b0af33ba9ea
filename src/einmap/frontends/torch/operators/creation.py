"""Operators that make numbers which are known: ranges, zeros, numbers that are all the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from einmap.frontends.onnx.kinds import INTEGERS
from einmap.frontends.torch.operators.call import LOWEST, MOST_KNOWN, Aten, Rule
from einmap.frontends.torch.program import BOOL, Ref

_SAME = {"zeros": 0, "ones": 1, "empty": 0, "zeros_like": 0, "ones_like": 1, "empty_like": 0, "new_zeros": 0,
         "new_ones": 1, "new_empty": 0, "empty_strided": 0, "new_empty_strided": 0, "empty_permuted": 0,
         "_efficientzerotensor": 0}  # fmt: skip


def _typed(call: Aten, numbers: object) -> str:
    """Numbers of the type that the result has."""
    kind = call.result.kind
    dtype = np.bool_ if kind == BOOL else np.int64 if kind in INTEGERS else np.float64
    return call.constant(np.asarray(numbers).astype(dtype), kind)


def uniform(call: Aten) -> str:
    """full, zeros, ones and the like: one number everywhere."""
    name = call.name
    if name in _SAME:
        value: object = _SAME[name]
    else:
        given = "s" if call.has("s") else "fill_value"
        if isinstance(call.plain(given), Ref):  # a number that is computed
            return call.expand(call.cast(call.tensor(given), call.result.kind), call.result.shape)
        value = max(call.number(given), LOWEST)
    scalar = _typed(call, value)
    array = call.written.constants[scalar].array
    return call.constant(np.broadcast_to(np.asarray(array), call.result.shape), call.result.kind)


def spaced(call: Aten) -> str:
    """arange: numbers from a start on, by a step."""
    start, step = call.number("start", 0), call.number("step", 1)
    (size,) = call.result.shape
    return _typed(call, start + step * call.count(size))


def between(call: Aten) -> str:
    """linspace: so many numbers between two."""
    (size,) = call.result.shape
    start, end = call.number("start"), call.number("end")
    return _typed(call, start + call.count(size) * (end - start) / max(1, size - 1))


def diagonal(call: Aten) -> str:
    """eye: ones on the diagonal."""
    rows, columns = call.result.shape
    if rows * columns > MOST_KNOWN:
        raise call.refuse(f"it has {rows:,} rows")
    return _typed(call, np.eye(rows, columns))


CREATION: Mapping[str, Rule] = {
    **dict.fromkeys((*_SAME, "full", "full_like", "new_full", "scalar_tensor"), uniform),
    "arange": spaced,
    "linspace": between,
    "eye": diagonal,
}
"""By the name of the operator, without its overload."""
