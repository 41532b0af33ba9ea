"""One operator of a model while it is imported: its operands, its attributes, the builder, and what it may ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from einmap.einsum.operation import Apply, MapExpression, Operand, parse_operation
from einmap.errors import SpecError
from einmap.frontends.cascade.builder import Builder, Spread
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.values import Value, reshape, take
from einmap.frontends.cascade.views import LayoutError
from einmap.frontends.onnx.model import Node
from einmap.visible import short


class NotExpressible(Exception):
    """An operator, or a way to use it, that has no Einsum form; the text says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its operands; one that is left out is None. `names`: what the model calls the operands."""

    node: Node
    operands: tuple[Value | None, ...]
    builder: Builder
    opset: int
    name: str

    def __len__(self) -> int:
        return len(self.operands)

    def operand(self, place: int) -> Value:
        """An operand that the operator needs. Raises SpecError where it is missing."""
        found = self.optional(place)
        if found is None:
            raise SpecError(f"operand {place} is missing", at=self.node.at)
        return found

    def optional(self, place: int) -> Value | None:
        """An operand that may be left out."""
        return self.operands[place] if place < len(self.operands) else None

    def is_used(self, output: int) -> bool:
        """Whether the model names an output."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    # attributes

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        value = self.node.attributes.get(name, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        raise self.wrong(name, value, "a number")

    def integer(self, name: str, default: int) -> int:
        """An attribute that is an integer."""
        value = self.node.attributes.get(name, default)
        if isinstance(value, int):
            return value
        raise self.wrong(name, value, "an integer")

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        value = self.node.attributes.get(name, default)
        if isinstance(value, str):
            return value
        raise self.wrong(name, value, "a text")

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int] | None:
        """An attribute that is a list of integers, or what is taken without it."""
        value = self.node.attributes.get(name, default)
        if value is None:
            return None
        if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(v, int) for v in value):
            return [*value]
        raise self.wrong(name, value, "a list of integers")

    def wrong(self, name: str, value: Any, expected: str) -> SpecError:
        """The error for an attribute of another kind."""
        return SpecError(f"the attribute {name} must be {expected}, found {short(value, 60)}", at=self.node.at)

    def axis(self, value: int, rank: int) -> int:
        """An axis that may be counted from the end. Raises SpecError for one that is not there."""
        if not -rank <= value < rank:
            raise SpecError(f"there is no axis {value}: the operand has {rank} axes", at=self.node.at)
        return value % rank

    def known(self, place: int, what: str) -> Array:
        """The numbers of an operand. Raises NotExpressible where they are known only when the model runs."""
        found = self.optional(place)
        if found is None or found.array is None:
            raise NotExpressible(f"{what} is not a constant")
        return found.array

    def known_integers(self, place: int, what: str) -> list[int]:
        """Integers that an operand holds."""
        array = self.known(place, what)
        if array.dtype.kind not in "iu":
            raise SpecError(f"{what} must be integers, found {array.dtype}", at=self.node.at)
        return [int(v) for v in array.reshape(-1)]

    # values

    def pointwise(self, text: str, *operands: Value, bits: int | None = None) -> Value:
        """The map expression `text`, which calls the operands a, b, c, ..."""
        wide = max(value.bits for value in operands) if bits is None else bits
        return self.builder.pointwise(expression_of(text, len(operands)), operands, self.name, wide)

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
