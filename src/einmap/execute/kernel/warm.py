"""A first call of the simulator's kernel, so that it can be compiled ahead."""

from __future__ import annotations

import numpy as np

from einmap.einsum.functions import Code
from einmap.execute.kernel.kernel import leaf_kernel


def smallest_call() -> None:
    """Call the kernel for one point, Z = A, with arguments of the types that every run uses."""
    stride, none = np.ones(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    zero, column = np.zeros(1, dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
    flags = np.array([1, 0], dtype=np.uint8)
    leaf_kernel()(
        none, none, none, zero, zero, stride, column,
        np.zeros((2, 1, 1), dtype=np.int64), np.array([[0], [1]], dtype=np.int64), 1,
        np.zeros(2), flags, np.zeros_like(flags), np.array([[Code.OPERAND, 0]], dtype=np.float64), True, 0,
        np.ones((1, 1), dtype=np.uint8), np.zeros(2, dtype=np.int64), zero.copy(),
        np.zeros(0, dtype=np.uint8), zero,
        zero.copy(), column.copy(), column.copy(), column.copy(),
    )  # fmt: skip
