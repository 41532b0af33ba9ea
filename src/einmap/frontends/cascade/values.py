"""Results of an operation of the program: a map expression over views, perhaps with numbers that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

import numpy as np

from einmap.einsum.functions import apply
from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.errors import SpecError
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.views import View, expanded, reshaped, seen, sliced, transposed

MOST_LEAVES, MOST_NODES = 3, 60
"""Views and functions of one map expression; a longer one is written to a tensor of its own.

The mapper places each tensor by itself, so that an Einsum of many tensors takes long to map.
"""
MOST_KNOWN = 2**22
"""Numbers of a value with views that are kept beside them."""
_NONNEGATIVE = frozenset({"relu", "sigmoid", "exp", "abs", "sqrt"})


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the program. The expression calls the views `Operand("0")`, `Operand("1")`, ...

    `array`: its numbers where the program knows them; then there may be no expression. All views have the shape of the
    value. `bits`: of one number, which a cast may have made others than those of what is viewed. `nonnegative`: no
    number is below 0. `scaled`: the integers that it stands for, if there are some.
    """

    shape: tuple[int, ...]
    bits: int
    expression: MapExpression | None = None
    leaves: tuple[View, ...] = ()
    array: Array | None = None
    nonnegative: bool = False
    scaled: Scaled | None = None

    @property
    def is_view(self) -> bool:
        """Whether it is part of a stored tensor, with nothing to compute."""
        return isinstance(self.expression, Operand)

    def changed(self, of_view: Callable[[View], View], of_array: Callable[[Array], Array]) -> Value:
        """The value after a change of shape, which views and known numbers take alike."""
        leaves = tuple(of_view(view) for view in self.leaves)
        # numbers that a broadcast repeats often are not worth to be known: to reshape them takes room for all
        is_known = self.array is not None and not (leaves and prod(leaves[0].shape) > MOST_KNOWN)
        array = of_array(self.array) if is_known and self.array is not None else None
        if leaves:
            scaled = None if self.scaled is None else self.scaled.changed(of_view, of_array)
            return replace(self, shape=leaves[0].shape, leaves=leaves, array=array, scaled=scaled)
        # a number alone: an array of it that takes no room says what the shape becomes
        seen = of_array(np.broadcast_to(np.float64(0), self.shape)) if array is None else array
        return replace(self, shape=tuple(seen.shape), array=array)


@dataclass(frozen=True, slots=True)
class Scaled:
    """Integers that stand for fractions: `(integer - zero) * scale + offset`, or what is there of it.

    All of them have as many axes as the integers; those of one index broadcast. `ends`: the smallest integer that there
    may be, and the largest.
    """

    integers: Value
    zero: Value | None = None
    scale: Value | None = None
    offset: Value | None = None
    ends: tuple[float, float] = (-inf, inf)

    @property
    def is_uniform(self) -> bool:
        """Whether all integers stand for fractions in one way, which is known."""
        return not any(part.leaves for part in (self.zero, self.scale, self.offset) if part is not None)

    def with_integers(self, integers: Value) -> Scaled:
        """Other integers that stand for fractions in the same way, which is that of all of them."""
        return self._with(integers, lambda part: replace(part, shape=integers.shape))

    def changed(self, of_view: Callable[[View], View], of_array: Callable[[Array], Array]) -> Scaled:
        """All parts after a change of shape."""
        shape = self.integers.shape
        integers = self.integers.changed(of_view, of_array)
        return self._with(integers, lambda part: broadcast(part, shape).changed(of_view, of_array))

    def _with(self, integers: Value, change: Callable[[Value], Value]) -> Scaled:
        zero, scale, offset = (part and change(part) for part in (self.zero, self.scale, self.offset))
        return Scaled(integers, zero, scale, offset, self.ends)


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which shapes broadcast, as NumPy has it. Raises SpecError where sizes differ and none is 1."""
    rank = max(map(len, shapes), default=0)
    columns = zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True)
    sizes = [{size for size in column if size != 1} or {1} for column in columns]
    if any(len(size) > 1 for size in sizes):
        raise SpecError(f"the shapes {', '.join(str([*shape]) for shape in shapes)} do not broadcast")
    return tuple(size.pop() for size in sizes)


def numbers_of(value: Value) -> Array | None:
    """The numbers of a value where those of all tensors that it reads are known, and they are not too many."""
    if value.expression is None or prod(value.shape) > MOST_KNOWN:
        return value.array
    leaves: list[Array] = []
    for view in value.leaves:
        if view.tensor.array is None:
            return None
        with np.errstate(invalid="ignore"):  # a signalling NaN of a file
            numbers = view.tensor.array.reshape(view.tensor.sizes).astype(np.float64)
        leaves.append(seen(view, numbers))
    return np.broadcast_to(_evaluated(value.expression, leaves), value.shape)


def _evaluated(expression: MapExpression, leaves: Sequence[Array]) -> Any:
    match expression:
        case Number(value):
            return np.float64(value)
        case Operand(name):
            return leaves[int(name)]
        case Apply(function, arguments):
            with np.errstate(all="ignore"):
                return apply(function, *(_evaluated(a, leaves) for a in arguments))


def known(array: Array, bits: int) -> Value:
    """A value of which the numbers are known."""
    return Value(tuple(array.shape), bits, array=array)


def stored(view: View, *, bits: int | None = None, nonnegative: bool = False) -> Value:
    """Part of a stored tensor; `bits`: of a number once it is read, if a cast made them others than those stored."""
    return Value(view.shape, bits or view.tensor.bits, Operand("0"), (view,), nonnegative=nonnegative)


def transpose(value: Value, order: Sequence[int]) -> Value:
    """The axes in another order."""
    return value.changed(lambda view: transposed(view, order), lambda array: array.transpose(order))


def reshape(value: Value, shape: Sequence[int]) -> Value:
    """The elements in another shape; LayoutError where no affine index says so."""
    return value.changed(lambda view: reshaped(view, shape), lambda array: array.reshape(shape))


def broadcast(value: Value, shape: Sequence[int]) -> Value:
    """The value in a larger shape, as NumPy broadcasts."""
    return value.changed(lambda view: expanded(view, shape), lambda array: np.broadcast_to(array, shape))


def take(value: Value, axis: int, start: int, step: int, count: int) -> Value:
    """`count` indices of an axis from `start` on, `step` apart; LayoutError where digits are cut through."""
    last, size = start + step * (count - 1), value.shape[axis]
    if not (0 <= start < size and 0 <= last < size):
        raise SpecError(f"indices {start} to {last} are not in axis {axis} of the shape {[*value.shape]}")
    end = last + (1 if step > 0 else -1)
    where = (*(slice(None),) * axis, slice(start, end if end >= 0 else None, step))
    return value.changed(lambda view: sliced(view, axis, start, step, count), lambda array: array[where])


def applied(function: str, arguments: Sequence[tuple[MapExpression, bool]]) -> tuple[MapExpression, bool]:
    """A function of expressions, and whether it is known not to be negative."""
    expression = Apply(function, tuple(argument for argument, _ in arguments))
    signs = [sign for _, sign in arguments]
    never = function in _NONNEGATIVE or (function in ("add", "multiply", "divide", "min", "power") and all(signs))
    return expression, never or (function == "max" and any(signs))


def inserted(expression: MapExpression, parts: Sequence[tuple[MapExpression, bool]]) -> tuple[MapExpression, bool]:
    """The expression with other expressions in place of its operands, and whether it is known not to be negative."""
    match expression:
        case Operand(number):
            return parts[int(number)]
        case Number(value):
            return expression, value >= 0
        case Apply(function, given):
            arguments = [inserted(argument, parts) for argument in given]
            square = function == "multiply" and arguments[0][0] == arguments[1][0]
            joined, sign = applied(function, arguments)
            return joined, sign or square


def number_of(expression: MapExpression) -> float:
    """The value of an expression without operands."""
    return float(_evaluated(expression, ()))


def size_of(expression: MapExpression) -> int:
    """How many functions, numbers and operands an expression has."""
    return 1 + sum(size_of(a) for a in expression.arguments) if isinstance(expression, Apply) else 1


def shifted(expression: MapExpression, by: int) -> MapExpression:
    """The expression with later operands: `Operand("0")` becomes that of the number `by`."""
    return renumbered(expression, lambda number: number + by)


def renumbered(expression: MapExpression, to: Callable[[int], int]) -> MapExpression:
    """The expression with other numbers of operands."""
    match expression:
        case Operand(number):
            return Operand(str(to(int(number))))
        case Apply(function, arguments):
            return Apply(function, tuple(renumbered(a, to) for a in arguments))
        case Number():
            return expression
