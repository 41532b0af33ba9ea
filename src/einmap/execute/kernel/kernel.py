"""The inner loops: everything below the last storage node of an Einsum, for one visit.

One generic kernel, compiled once and cached on disk. Per point and lane: read the operands, apply the map expression,
reduce into the output. Reads of inputs happen for every point; whether a read of the output brings a result
depends on what is there, so that is counted point by point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from einmap.einsum.functions import FUNCTIONS, Code
from einmap.einsum.operation import Apply, MapExpression, Number, Operand

REDUCTION = {"sum": 0, "max": 1, "min": 2}


def program(expression: MapExpression, tensors: list[str]) -> np.ndarray[Any, Any]:
    """A map expression in postfix: rows of (code, number of the operand, constant, or number of arguments)."""
    match expression:
        case Operand(tensor):
            return np.array([[Code.OPERAND, tensors.index(tensor)]], dtype=np.float64)
        case Number(value):
            return np.array([[Code.CONSTANT, value]], dtype=np.float64)
        case Apply(function, arguments):
            parts = [program(argument, tensors) for argument in arguments]
            return np.concatenate([*parts, np.array([[FUNCTIONS[function].code, len(arguments)]], dtype=np.float64)])


_compiled: list[Callable[..., int]] = []


def leaf_kernel() -> Callable[..., int]:
    """The compiled kernel (imports Numba at first use)."""
    if not _compiled:
        from einmap.execute.kernel.kernels import run_leaf

        _compiled.append(run_leaf)
    return _compiled[0]
