"""The least that any plan moves, and the closed form of the best block."""

from __future__ import annotations

import math

from einmap.matmul.algorithms import Stage
from einmap.matmul.machine.machine import DIMENSIONS_OF, TENSORS
from einmap.matmul.problem import Product


def square_block(capacity: float, grain: float) -> float:
    """m = n = sqrt(S + g^2) - g: the best resident block for S values beside streamed blocks g long.

    From m n + m g + g n = S with m = n. The same for m = k with A resident and k = n with B resident.

    >>> square_block(9984, 4)
    96.0
    """
    return math.sqrt(capacity + grain * grain) - grain


def least_bits(stage: Stage, product: Product) -> float:
    """The least bits that cross the link above a level, all workers together.

    At least every operand that crosses does so once. Where all three do, it is also at least
    `2 m k n sqrt(w_A w_B w_C / S)` for values of w bits and S bits of memory of one worker; for one type that is
    `2 m k n / sqrt(S)` values (Hong and Kung 1981; Irony, Toledo, Tiskin 2004; the constant of Smith et al. 2019 and
    Kwasniewski et al. 2019). Each worker multiplies with its own memory, so the sum over workers has the same form.
    """
    sizes = product.size
    once = 0
    for tensor, bits, moved in zip(TENSORS, product.bits, stage.moved, strict=True):
        rows, columns = DIMENSIONS_OF[tensor]
        once += bits * sizes[rows] * sizes[columns] * moved
    if not all(stage.moved):
        return float(once)
    per_multiply_add = 2 * math.sqrt(math.prod(product.bits) / stage.level.size_bits)
    return max(float(once), math.prod(sizes) * per_multiply_add)
