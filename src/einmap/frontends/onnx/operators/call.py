"""One operator of a model while it is imported: its operands, its attributes, the builder, and what it may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from einmap.errors import SpecError
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.step import NotExpressible, Step
from einmap.frontends.cascade.values import Value
from einmap.frontends.onnx.kinds import INTEGERS
from einmap.frontends.onnx.model import Node
from einmap.visible import short

MOST_INTEGERS = 2**16
"""Axes, sizes or places that one operand gives."""


@dataclass(frozen=True, slots=True)
class Call(Step):
    """An operator with its operands; one that is left out is None.

    `kinds`: the types of ONNX of the operands. `read`: how many read each value, by its name.
    """

    node: Node
    operands: tuple[Value | None, ...]
    opset: int
    kinds: tuple[int, ...] = ()
    read: Mapping[str, int] = field(default_factory=dict)

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
        """Whether something reads an output."""
        return output < len(self.node.outputs) and self.node.outputs[output] in self.read

    @property
    def is_of_integers(self) -> bool:
        """Whether the first operand is of integers, and not of fractions or truth values."""
        return bool(self.kinds) and self.kinds[0] in INTEGERS

    # attributes

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        value = self.node.attributes.get(name, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value):
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

    def texts(self, name: str) -> list[str] | None:
        """An attribute that is a list of texts; None without it."""
        value = self.node.attributes.get(name)
        if value is None or (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            return value
        raise self.wrong(name, value, "a list of texts")

    def numbers(self, name: str) -> list[float]:
        """An attribute that is a list of numbers; none without it."""
        value = self.node.attributes.get(name, [])
        if isinstance(value, Sequence) and all(isinstance(v, int | float) for v in value):
            return [*value]
        raise self.wrong(name, value, "a list of numbers")

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
            is_weight = found is not None and found.is_view and found.leaves[0].tensor.weight
            why = (
                "a constant whose numbers are not there (external data, or above 64 KiB)"
                if is_weight
                else "not a constant"
            )
            raise NotExpressible(f"{what} is {why}")
        return found.array

    def known_integers(self, place: int, what: str) -> list[int]:
        """Integers that an operand holds."""
        array = self.known(place, what)
        if array.dtype.kind not in "iu" or array.size > MOST_INTEGERS:
            text = f"{what} must be at most {MOST_INTEGERS:,} integers, found {array.size:,} of {array.dtype}"
            raise SpecError(text, at=self.node.at)
        return [int(v) for v in array.reshape(-1)]
