"""Concatenated values: parts along an axis, which operations take one by one where they can.

No Einsum has two writers for one tensor, so a concatenation is not a tensor. Element-wise operations and windows go
into each part; a sum over the axis is the sum of the sums over the parts. What looks at the axis as a whole gets a
tensor after all: the sum of the parts, each stored with zeros where the others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from einmap.einsum.operation import Apply, Operand
from einmap.einsum.spaces.projection import Affine
from einmap.frontends.cascade.builder import Builder, check_shape
from einmap.frontends.cascade.uses import Spread
from einmap.frontends.cascade.values import Value, known, reshape, stored, take
from einmap.frontends.cascade.views import LayoutError, View, digit, transposed


@dataclass(frozen=True, slots=True)
class Parts:
    """Values side by side along an axis."""

    axis: int
    values: tuple[Value, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        shape = [*self.values[0].shape]
        shape[self.axis] = sum(self.sizes)
        return tuple(shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How long each part is along the axis."""
        return tuple(value.shape[self.axis] for value in self.values)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where each part begins along the axis."""
        return tuple(sum(self.sizes[:i]) for i in range(len(self.sizes)))

    @property
    def bits(self) -> int:
        """Bits of a number."""
        return max(value.bits for value in self.values)


def concatenated(builder: Builder, values: Sequence[Value], axis: int, name: str) -> Value | Parts:
    """Values along an axis: one view where they are evenly spaced parts of one tensor, else parts."""
    even = _evenly_spaced(values, axis)
    if even is None:
        parts = Parts(axis, tuple(builder.as_expression(value, name) for value in values))
        check_shape(parts.shape, f"the result of {name!r}")
        return parts
    view, signs = even
    if min(signs) > 0:
        return stored(view, bits=values[0].bits)
    # x turned by a quarter, (-x2, x1), is one tensor read in another order, times signs
    ones = (1,) * (len(view.shape) - axis - 1)
    factors = np.repeat(np.array(signs, np.float64), view.shape[axis] // len(signs)).reshape(-1, *ones)
    expression = Apply("multiply", (Operand("0"), Operand("1")))
    return builder.pointwise(
        expression, [stored(view, bits=values[0].bits), known(factors, values[0].bits)], name, values[0].bits
    )


def _evenly_spaced(values: Sequence[Value], axis: int) -> tuple[View, list[int]] | None:
    """The view that has all values along an axis, and the sign of each; None where they are not of one tensor."""
    signs: list[int] = []
    for value in values:
        match value.expression:
            case Operand():
                signs.append(1)
            case Apply("negative", (Operand(),)):
                signs.append(-1)
            case _:
                return None
    views = [value.leaves[0] for value in values]
    first = views[0]
    if len(views) < 2 or any(
        (v.tensor, v.axes, [i.terms for i in v.index]) != (first.tensor, first.axes, [i.terms for i in first.index])
        for v in views
    ):
        return None
    steps = {tuple(b.constant - a.constant for a, b in zip(v.index, w.index, strict=True)) for v, w in pairwise(views)}
    if len(steps) != 1:
        return None
    step = next(iter(steps))
    rank = len(first.axes)
    # a digit of its own in front of the others of the axis, by way of an axis at the end
    index = tuple(
        Affine((*i.terms, *(((digit(rank, 0), a),) if a else ())), i.constant)
        for i, a in zip(first.index, step, strict=True)
    )
    wide = View(first.tensor, (*first.axes, (len(views),)), index)
    moved = transposed(wide, [*range(axis), rank, *range(axis, rank)])
    shape = [*first.shape]
    shape[axis] *= len(views)
    joined = reshape(stored(moved), shape)
    return joined.leaves[0], signs


def whole(builder: Builder, parts: Parts, name: str) -> Value:
    """The parts as one tensor: each stored with zeros where the others are, and added."""
    total = sum(parts.sizes)
    labels = [f"x{axis}" for axis in range(len(parts.shape))]
    stretched = []
    for value, start in zip(parts.values, parts.starts, strict=True):
        out: list[str | Spread] = list(labels)
        out[parts.axis] = Spread(((labels[parts.axis], 1),), total, start)
        wide = builder.einsum(f"{name}_part", [(value, labels)], out, Operand("0"), parts.bits)
        stretched.append(wide)
    joined = stretched[0]
    for value in stretched[1:]:
        joined = builder.pointwise(Apply("add", (Operand("0"), Operand("1"))), [joined, value], name, parts.bits)
    return builder.written(joined, name)


def part_of(builder: Builder, value: Value, axis: int, start: int, size: int, name: str) -> Value:
    """`size` indices of an axis, which is copied into one rank first where they cut through its digits."""
    try:
        return take(value, axis, start, 1, size)
    except LayoutError:
        return take(builder.copied(value, f"{name}_layout", flat=[axis]), axis, start, 1, size)
