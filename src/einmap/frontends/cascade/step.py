"""One operation of a program while it is imported: the builder, a name for what it writes, and common steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from einmap.einsum.operation import Apply, MapExpression, Operand, parse_operation
from einmap.errors import SpecError
from einmap.frontends.cascade.builder import Builder, Spread
from einmap.frontends.cascade.values import Value, reshape, take
from einmap.frontends.cascade.views import LayoutError


class NotExpressible(Exception):
    """An operation, or a way to use it, that has no Einsum form; the text says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """An operation; `name`: of the tensor that it writes."""

    builder: Builder
    name: str

    def pointwise(self, text: str, *operands: Value, bits: int | None = None) -> Value:
        """The map expression `text`, which calls the operands a, b, c, ..."""
        wide = max(value.bits for value in operands) if bits is None else bits
        return self.builder.pointwise(expression_of(text, len(operands)), operands, self.name, wide)

    def onto(self, text: str, value: Value, *parameters: Value) -> Value:
        """The map expression `text` of a value and parameters, which must not make it larger. Raises SpecError."""
        y = self.pointwise(text, value, *parameters, bits=value.bits)
        if y.shape != value.shape:
            shapes = ", ".join(str([*p.shape]) for p in parameters)
            raise SpecError(f"parameters of the shapes {shapes} do not fit a value of the shape {[*value.shape]}")
        return y

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The elements in another shape; where no affine index says it, the value is first copied into one rank."""
        try:
            return reshape(value, shape)
        except LayoutError:
            return reshape(self._in_one_rank(value), shape)

    def take(self, value: Value, axis: int, start: int, step: int, count: int) -> Value:
        """`count` indices of an axis; where they cut through its digits, it is first copied into one rank."""
        try:
            return take(value, axis, start, step, count)
        except LayoutError:
            return take(self.builder.copied(value, f"{self.name}_layout", flat=[axis]), axis, start, step, count)

    def _in_one_rank(self, value: Value) -> Value:
        """The elements in row-major order in a tensor of one rank."""
        value = self.builder.written(value, f"{self.name}_digits")
        labels = [f"x{axis}" for axis in range(len(value.shape))]
        strides: list[int] = []
        size = 1
        for extent in reversed(value.shape):
            strides.insert(0, size)
            size *= extent
        out = [Spread(tuple(zip(labels, strides, strict=True)), size)]
        return self.builder.einsum(f"{self.name}_layout", [(value, labels)], out, expression_of("a", 1), value.bits)


def expression_of(text: str, operands: int) -> MapExpression:
    """A map expression over operands a, b, c, ... as one over 0, 1, 2, ..."""
    letters = "abcdefgh"[:operands]
    parsed = parse_operation(text, letters).map
    assert parsed is not None, text
    return _numbered(parsed, letters)


def _numbered(expression: MapExpression, letters: str) -> MapExpression:
    match expression:
        case Operand(letter):
            return Operand(str(letters.index(letter)))
        case Apply(function, arguments):
            return Apply(function, tuple(_numbered(a, letters) for a in arguments))
        case _:
            return expression
