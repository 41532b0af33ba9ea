"""Which points of a PE lie in the iteration space, for any array module with numpy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einmap.distribute.plans.cuts import CutGroup

type Array = Any


def inside(group: CutGroup, values: Sequence[Array], xp: Any) -> Array:
    """Whether each point lies in all half spaces of a group, one axis for each of its variables.

    `values`: those of each variable, counted from its first one.
    """
    shaped = [
        one.reshape([-1 if other == axis else 1 for other in range(len(values))]) for axis, one in enumerate(values)
    ]
    holds = xp.ones([len(one) for one in values], bool)
    for plane in group.half_spaces:
        total: Any = plane.constant
        for coefficient, value in zip(plane.coefficients, shaped, strict=True):
            total = total + coefficient * value
        holds = holds & (total >= 0)
    return holds
