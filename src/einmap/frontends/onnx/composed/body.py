"""The operators that stand for one operator: a body like that of a function of ONNX, for known shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.parts import Parts
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import MOST_KNOWN, Value
from einmap.frontends.onnx.model import Node
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.elementwise import MAP, MapText, short_decimal

OPSET = 22
"""The version of ONNX's operators in bodies."""
NEVER = "-1e30"
"""The score of a position that is not seen: its exponential is 0."""


@dataclass(slots=True)
class Body:
    """Operators of ONNX in order, and constants by name. `call`: the operator that they stand for; `given`: its
    operands, None for one that is left out. `results`: the values that its results are, by their number.
    """

    call: Call
    given: Sequence[Value | Parts | None]
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)

    # operands

    def has(self, place: int) -> bool:
        """Whether an operand is given."""
        return place < len(self.given) and self.given[place] is not None

    def name(self, place: int) -> str:
        """The name of an operand. Raises SpecError where it is missing."""
        if not self.has(place):
            raise SpecError(f"operand {place} is missing", at=self.call.node.at)
        return self.call.node.inputs[place]

    def shape(self, place: int, rank: int | None = None) -> tuple[int, ...]:
        """The shape of an operand, which has so many axes. Raises SpecError where it is missing, or has not."""
        self.name(place)
        value = self.given[place]
        assert value is not None
        if rank is not None and len(value.shape) != rank:
            text = f"operand {place} has the shape {[*value.shape]}, not one of {rank} axes"
            raise SpecError(text, at=self.call.node.at)
        return value.shape

    def numbers(self, place: int) -> Array | None:
        """The numbers of an operand, where they are known."""
        value = self.given[place] if self.has(place) else None
        return value.array if isinstance(value, Value) else None

    def expect(self, fits: bool, text: str) -> None:
        """Raise SpecError with the text unless it fits."""
        if not fits:
            raise SpecError(text, at=self.call.node.at)

    def positive(self, attribute: str, default: int = 0) -> int:
        """An attribute that is a positive integer. Raises SpecError."""
        found = self.call.integer(attribute, default)
        self.expect(found > 0, f"the attribute {attribute} must be positive, found {found}")
        return found

    def refuse(self, *attributes: str) -> None:
        """Raise NotExpressible where an attribute is set that changes what is computed."""
        for name in attributes:
            if self.call.node.attributes.get(name):
                raise NotExpressible(f"it has the attribute {name}")

    # operators

    def op(self, kind: str, *inputs: str, label: str = "", outputs: int = 1, **attributes: Any) -> str:
        """An operator, and the name of its first result. `label`: what tensors that it writes are called."""
        names = tuple(f"{self.call.node.outputs[0]}/{len(self.nodes)}.{i}" for i in range(outputs))
        name = f"{self.call.name}_{label or kind.lower()}"
        self.nodes.append(Node(kind, name, inputs, names, attributes, self.call.node.at))
        return names[0]

    def map(self, text: str, *inputs: str, label: str = "part") -> str:
        """A map expression of values, which it calls a, b, c, ..."""
        return self.op(MAP, *inputs, label=label, text=MapText(text))

    def known(self, array: Array) -> str:
        """Numbers that are known."""
        name = f"{self.call.node.outputs[0]}/known{len(self.constants)}"
        self.constants[name] = array
        return name

    def numbered(self, start: int, n: int) -> str:
        """The numbers of positions from a start on. Raises NotExpressible for too many."""
        if n > MOST_KNOWN:
            raise NotExpressible(f"it numbers {n:,} positions, at most {MOST_KNOWN:,} are")
        return self.known(np.arange(start, start + n, dtype=np.float64))

    def integers(self, *values: int) -> str:
        """A list of integers that is known."""
        return self.known(np.array(values, np.int64))

    def reshape(self, value: str, *shape: int) -> str:
        """The value in another shape."""
        return self.op("Reshape", value, self.integers(*shape), allowzero=1)

    def transpose(self, value: str, *order: int) -> str:
        """The axes in another order."""
        return self.op("Transpose", value, perm=[*order])

    def slice(self, value: str, axis: int, start: int, end: int) -> str:
        """Indices of an axis from a start to before an end."""
        return self.op("Slice", value, *(self.integers(v) for v in (start, end, axis)))

    def times(self, value: str, factor: float) -> str:
        """The value times a number."""
        return value if factor == 1.0 else self.map(f"({short_decimal(factor)}) * a", value)

    def plus(self, value: str, place: int) -> str:
        """The value plus an operand, if that is given."""
        return self.map("a + b", value, self.name(place)) if self.has(place) else value

    def joined(self, axis: int, *values: str) -> str:
        """Values one behind another along an axis."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)

    # what is read

    def needed(self) -> list[Node]:
        """The operators whose results are read, for those results of the body that are."""
        wanted = {name for place, name in self.results.items() if self.call.is_used(place)}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                wanted.update(node.inputs)
                kept.append(node)
        return kept[::-1]

    def used_results(self) -> Mapping[int, str]:
        """The results of the operator that something reads."""
        return {place: name for place, name in self.results.items() if self.call.is_used(place)}
