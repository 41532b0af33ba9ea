"""Nodes of ONNX that a TFLite operator becomes: written one by one, integers read as the fractions they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.onnx.model import Node, bits_of
from einmap.frontends.onnx.model import Tensor as Stored
from einmap.frontends.tflite.model import Model, Operator, Scales, Tensor

ACTIVATIONS: dict[int, tuple[str, dict[str, float]]] = {
    1: ("Relu", {}),
    2: ("Clip", {"min": -1.0, "max": 1.0}),
    3: ("Clip", {"min": 0.0, "max": 6.0}),
    4: ("Tanh", {}),
}
"""Operators of ONNX by `ActivationFunctionType`."""


@dataclass(slots=True)
class Graph:
    """The nodes of a model so far. `shapes`: what is known of values; `batch`: the first size of inputs, in the file
    and as it is to be, where that is another one.
    """

    model: Model
    batch: tuple[int, int] | None = None
    nodes: list[Node] = field(default_factory=list)
    initialisers: dict[str, Stored] = field(default_factory=dict)
    shapes: dict[str, Stored] = field(default_factory=dict)

    def stored(self, tensor: Tensor) -> Stored:
        """A tensor as the importer of ONNX has it."""
        return Stored(tensor.name, tensor.shape, bits_of(tensor.kind), tensor.kind, tensor.array)


@dataclass(slots=True)
class Step:
    """One operator while its nodes are written."""

    graph: Graph
    operator: Operator
    nodes: list[Node] = field(default_factory=list)
    known: dict[str, Stored] = field(default_factory=dict)

    # operands

    def has(self, place: int) -> bool:
        """Whether an operand is there."""
        return place < len(self.operator.inputs) and self.operator.inputs[place] >= 0

    def tensor(self, place: int) -> Tensor:
        """An operand. Raises SpecError where it is missing."""
        if not self.has(place):
            raise SpecError(f"operand {place} is missing", at=self.operator.at)
        return self.graph.model.tensors[self.operator.inputs[place]]

    def output(self, place: int = 0) -> Tensor:
        """A result. Raises SpecError where it is missing."""
        if place >= len(self.operator.outputs) or self.operator.outputs[place] < 0:
            raise SpecError(f"result {place} is missing", at=self.operator.at)
        return self.graph.model.tensors[self.operator.outputs[place]]

    def axes(self, tensor: Tensor, number: int, what: str = "operand") -> tuple[int, ...]:
        """The shape of a tensor that must have so many axes. Raises SpecError."""
        if len(tensor.shape) != number:
            raise SpecError(f"its {what} must have {number} axes, found {[*tensor.shape]}", at=self.operator.at)
        return tensor.shape

    def real(self, place: int) -> str:
        """An operand as fractions, of which integers are read."""
        return self.fractions(self.tensor(place))

    def fractions(self, tensor: Tensor) -> str:
        """A tensor as fractions."""
        if tensor.scales is None:
            return tensor.name
        return self.node(
            "DequantizeLinear", tensor.name, *self._scales(tensor.scales, tensor.kind), axis=tensor.scales.axis
        )

    def integers(self, place: int, what: str) -> list[int]:
        """Numbers of an operand. Raises NotExpressible where they are known only when the model runs."""
        array = self.tensor(place).array
        if array is None:
            raise NotExpressible(f"{what} is not a constant")
        if array.dtype.kind not in "iu" or array.size > 64:
            raise SpecError(
                f"{what} must be a few integers, found {array.size:,} of {array.dtype}", at=self.operator.at
            )
        return [int(i) for i in array.reshape(-1)]

    def axis(self, value: int, rank: int) -> int:
        """An axis that may be counted from the end. Raises SpecError for one that is not there."""
        if not -rank <= value < rank:
            raise SpecError(f"there is no axis {value} among {rank}", at=self.operator.at)
        return value % rank

    # nodes

    def constant(self, values: Any, kind: int = 7) -> str:
        """Numbers as an operand; 64-bit integers unless `kind` says otherwise."""
        array = np.asarray(values, np.int64 if kind == 7 else None)
        return self.initialiser(Stored(self._free(), array.shape, bits_of(kind), kind, array))

    def initialiser(self, tensor: Stored) -> str:
        """A constant of the model; its name."""
        self.graph.initialisers[tensor.name] = tensor
        return tensor.name

    def _free(self) -> str:
        return f"{self.output().name}:{len(self.nodes)}:{len(self.graph.initialisers)}"

    def node(self, kind: str, *operands: str, **attributes: Any) -> str:
        """Write a node of one result; the result's name."""
        return self.nodes_of(kind, operands, 1, attributes)[0]

    def nodes_of(self, kind: str, operands: Sequence[str], count: int, attributes: dict[str, Any]) -> list[str]:
        """Write a node of several results; their names."""
        names = tuple(f"{self._free()}:{i}" for i in range(count))
        self.nodes.append(Node(kind, self.output().name, tuple(operands), names, attributes, self.operator.at))
        return [*names]

    def give(self, name: str, place: int = 0, activation: int = 0) -> None:
        """Say which value a result is, after an activation that is fused, rounded to the integers of the result."""
        if activation:
            if activation not in ACTIVATIONS:
                raise NotExpressible(f"its activation is number {activation}")
            kind, ends = ACTIVATIONS[activation]
            name = self.node(kind, name, *(self.constant(end, 1) for end in ends.values()))
        tensor = self.output(place)
        if tensor.scales is not None and len(tensor.scales.scale) > 1:
            raise NotExpressible("its results have several scales")
        if tensor.scales is not None:
            name = self.node("QuantizeLinear", name, *self._scales(tensor.scales, tensor.kind), axis=tensor.scales.axis)
        self.moved(name, place)

    def moved(self, name: str, place: int = 0) -> None:
        """Say which value a result is as it is."""
        last = self.nodes[-1] if self.nodes else None
        if last is not None and last.outputs == (name,):
            self.nodes[-1] = replace(last, outputs=(self.output(place).name,))
        else:
            node = Node("Identity", "", (name,), (self.output(place).name,), {}, self.operator.at)
            self.nodes.append(node)

    def numbers(self, values: Array) -> str:
        """Fractions that are no weights of the model."""
        return self.node("Constant", value_floats=[float(value) for value in values])

    def _scales(self, scales: Scales, kind: int) -> list[str]:
        """Operands that say what integers stand for; of several zero points that are all 0 there are none."""
        if len(scales.scale) > 1:
            moved = [self.node("Constant", value_ints=[int(zero) for zero in scales.zero])] if scales.zero.any() else []
            return [self.numbers(scales.scale), *moved]
        zero = scales.zero.reshape(())
        moved = [self.initialiser(Stored(self._free(), (), bits_of(kind), kind, zero))]
        return [self.constant(scales.scale.reshape(()), 1), *moved]

    # layout

    def transposed(self, name: str, *order: int) -> str:
        """The axes in another order: a view."""
        return self.node("Transpose", name, perm=[*order])

    def first(self, name: str) -> str:
        """Channels first."""
        return self.transposed(name, 0, 3, 1, 2)

    def last(self, name: str) -> str:
        """Channels last."""
        return self.transposed(name, 0, 2, 3, 1)

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        """The numbers in another shape, whose first size follows where that of the inputs is another."""
        sizes = [*shape]
        if self.graph.batch is not None and sizes and sizes[0] == self.graph.batch[0]:
            sizes[0] = -1
        return self.node("Reshape", name, self.constant(sizes))

    def same_integers(self, tensor: Tensor, other: Tensor) -> bool:
        """Whether integers of two tensors stand for the same fractions, so that moving them needs no rounding."""
        a, b = tensor.scales, other.scales
        if a is None or b is None:
            return a is b
        is_one = len(a.scale) == len(b.scale) == 1
        return is_one and tensor.kind == other.kind and a.scale[0] == b.scale[0] and a.zero[0] == b.zero[0]
