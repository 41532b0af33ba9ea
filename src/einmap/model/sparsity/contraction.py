"""Contractions of arrays over the rows of rank variables, and over their lanes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from einmap.arrays import Floats

type Factor = tuple[Floats, tuple[int, ...]]
"""An array and the names of its axes: i for rows of the variable at position i, n + i for its lanes, of n variables."""


def squeezed(content: Floats) -> Factor:
    """An array without its axes of length 1."""
    kept = [axis for axis, n in enumerate(content.shape) if n > 1]
    return content.reshape([content.shape[axis] for axis in kept]), tuple(kept)


class Contraction:
    """Sums of products of arrays, one axis after another; equal steps of several sums are taken once."""

    def __init__(self) -> None:
        self._steps: dict[object, tuple[list[Factor], Factor]] = {}

    def sum(self, factors: list[Factor], n: int) -> Floats:
        """The sum of products over all axes below `n`; others up to 2 `n` stay, of length 1 if in no factor.

        Next comes the axis that takes the fewest products.
        """
        lengths = {axis: size for array, axes in factors for axis, size in zip(axes, array.shape, strict=True)}
        rest = {axis for axis in lengths if axis < n}
        while rest:
            joined = {axis: [f for f in factors if axis in f[1]] for axis in rest}
            costs = {
                axis: (prod([lengths[other] for other in {o for _, axes in those for o in axes}]), len(those), axis)
                for axis, those in joined.items()
            }
            axis = min(rest, key=costs.__getitem__)
            factors = [*[f for f in factors if axis not in f[1]], self._step(joined[axis], axis)]
            rest.remove(axis)
        whole = factors[0] if len(factors) == 1 else _product(factors, None)
        return whole[0].reshape([lengths.get(n + i, 1) if n + i in whole[1] else 1 for i in range(n)])

    def _step(self, factors: list[Factor], axis: int) -> Factor:
        key = (axis, *[(a.__array_interface__["data"][0], a.strides, a.shape, axes) for a, axes in factors])
        if key not in self._steps:
            self._steps[key] = factors, _product(factors, axis)  # held, so that no other array takes their place
        return self._steps[key][1]


def _product(factors: Sequence[Factor], axis: int | None) -> Factor:
    """The product of arrays, summed over an axis; remaining axes are in order."""
    if len(factors) > 2:  # the smallest ones are multiplied before they are spread over the largest
        largest = max(factors, key=lambda factor: factor[0].size)
        factors = [largest, _product([factor for factor in factors if factor is not largest], None)]
    left = tuple(sorted({other for _, axes in factors for other in axes if other != axis}))
    if axis is not None and len(factors) == 2:
        (a, of_a), (b, of_b) = factors
        if set(of_a) & set(of_b) == {axis} and max(a.ndim, b.ndim) <= 2:
            if a.ndim < b.ndim or of_a > of_b:
                (a, of_a), (b, of_b) = (b, of_b), (a, of_a)
            found = (a if of_a[-1] == axis else a.T) @ (b if of_b[0] == axis else b.T)
            order = tuple([other for other in (*of_a, *of_b) if other != axis])
            return (found, left) if order == left else (found.T, left)
    operands = [part for factor in factors for part in factor]
    return np.einsum(*operands, left), left
