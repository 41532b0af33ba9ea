"""Sums of products of integers that stand for fractions.

    y[m, n] = sum over k of ((a[m, k] - za) * sa) * ((b[k, n] - zb) * sb[n])

An Einsum computes the products of the differences, and what reads its sums multiplies them by the scales. A scale that
depends on what is summed, as one by blocks of a row does, is a factor of each product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.frontends.cascade.step import Step
from einmap.frontends.cascade.uses import Spread, Use, leaves_axis
from einmap.frontends.cascade.values import Scaled, Value, number_of, numbers_of, reshape, take, transpose

SUMMED = 32
"""Bits of sums of products of integers, as in ONNX."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of products; `scale`: what they are to be multiplied by, if anything. `bits`: of a number of the result."""

    total: Value
    scale: Value | None
    bits: int

    def value(self, step: Step, bias: Value | None = None) -> Value:
        """The sums times their scale, and a bias, which is one of integers where it has the same scale."""
        total = self.total
        if bias is not None and (integers := self._like_sums(bias)) is not None:
            total, bias = step.onto("a + b", total, integers), None
        if self.scale is not None:
            total = step.pointwise("a * b", total, self.scale, bits=self.bits)
        return total if bias is None else step.onto("a + b", total, bias)

    def _like_sums(self, bias: Value) -> Value | None:
        """The integers of a bias whose scale is that of the sums, but for rounding; None of another one."""
        scaled = bias.scaled
        if scaled is None or scaled.scale is None or self.scale is None or (scaled.zero or scaled.offset) is not None:
            return None
        own, other = numbers_of(self.scale), numbers_of(scaled.scale)
        is_same = own is not None and other is not None and np.allclose(own, other, rtol=1e-6, atol=0)
        return scaled.integers if is_same else None


def contracted(
    step: Step,
    name: str,
    operands: Sequence[tuple[Value, Sequence[Use]]],
    out: Sequence[str | Spread],
    bits: int,
    *,
    extents: Mapping[str, int] | None = None,
    weight: int | None = None,
) -> Sums:
    """The products of the operands at the labels of `out`, summed over the rest. `bits`: of fractions of the result."""
    reading = _Reading()
    terms: list[MapExpression] = []
    behind: list[Value] = []
    inside: list[tuple[Value, Sequence[Use]]] = []
    places: list[int] = []
    for value, uses in operands:
        places.append(len(reading.operands))
        scaled = value.scaled if value.scaled is not None and value.scaled.offset is None else Scaled(value)
        factor = _padded(step, scaled, uses, extents or {})
        term: MapExpression = reading.tensor(factor.integers, uses)
        if factor.zero is not None:
            term = Apply("subtract", (term, reading.read(factor.zero, uses)))
        terms.append(term)
        if factor.scale is not None:
            if _varies(factor.scale, uses, out):
                inside.append((factor.scale, uses))
            else:
                behind.append(_at_output(factor.scale, uses, out))
    terms += [reading.read(scale, uses) for scale, uses in inside]
    are_integers = not inside and all(v.scaled is not None and v.scaled.offset is None for v, _ in operands)
    total = step.builder.einsum(
        f"{name}_sum" if behind and not name.endswith("_sum") else name,
        reading.operands,
        out,
        reduce(lambda left, right: Apply("multiply", (left, right)), terms),
        SUMMED if are_integers else bits,
        extents=extents,
        weight=None if weight is None else places[weight],
    )
    return Sums(total, reduce(lambda a, b: _times(step, a, b), behind) if behind else None, bits)


class _Reading:
    """Operands that an Einsum reads."""

    def __init__(self) -> None:
        self.operands: list[tuple[Value, Sequence[Use]]] = []

    def tensor(self, value: Value, uses: Sequence[Use]) -> Operand:
        """A value that is one of its tensors."""
        self.operands.append((value, uses))
        return Operand(str(len(self.operands) - 1))

    def read(self, value: Value, uses: Sequence[Use]) -> MapExpression:
        """A value that may be a number alone."""
        return self.tensor(value, uses) if value.leaves else Number(_number(value))


def _number(value: Value) -> float:
    assert value.expression is not None
    return number_of(value.expression)


def _padded(step: Step, scaled: Scaled, uses: Sequence[Use], extents: Mapping[str, int]) -> Scaled:
    """A factor; where windows read zeros around it, those of the differences, which are then stored themselves."""
    integers, zero = scaled.integers, scaled.zero
    outside = any(leaves_axis(use, extents, size) for use, size in zip(uses, integers.shape, strict=True))
    if zero is None or not outside:
        return scaled
    return Scaled(step.pointwise("a - b", integers, zero, bits=integers.bits), None, scaled.scale)


def _depends(value: Value, axis: int) -> bool:
    return any(view.uses(axis, place) for view in value.leaves for place in range(len(view.axes[axis])))


def _varies(scale: Value, uses: Sequence[Use], out: Sequence[str | Spread]) -> bool:
    """Whether a scale differs among the products of one sum."""
    return any(_depends(scale, axis) and use not in out for axis, use in enumerate(uses))


def _at_output(scale: Value, uses: Sequence[Use], out: Sequence[str | Spread]) -> Value:
    """A scale of a factor with the axes of the sums, of one index where it is the same."""
    kept = [axis for axis in range(len(uses)) if _depends(scale, axis)]
    for axis, size in enumerate(scale.shape):
        if axis not in kept and size > 1:
            scale = take(scale, axis, 0, 1, 1)
    scale = reshape(scale, [scale.shape[axis] for axis in kept])
    labels = [use for axis, use in enumerate(uses) if axis in kept and isinstance(use, str)]
    order = sorted(range(len(labels)), key=lambda i: out.index(labels[i]))
    sizes = dict(zip(labels, scale.shape, strict=True))
    ranks = [sizes.get(entry, 1) if isinstance(entry, str) else 1 for entry in out]
    return reshape(transpose(scale, order), ranks)


def _times(step: Step, a: Value, b: Value) -> Value:
    """The product of two scales; one number where both are."""
    if a.leaves or b.leaves:
        return step.pointwise("a * b", a, b)
    return Value(a.shape, a.bits, Number(_number(a) * _number(b)))
