"""One operator of ATen while it is translated: its arguments, and the operators of ONNX that it becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.onnx.kinds import INTEGERS
from einmap.frontends.onnx.model import Node, Tensor, bits_of
from einmap.frontends.torch.program import BOOL, FLOAT, INT64, Operation, Ref
from einmap.visible import short

type Rule = Callable[[Aten], str | list[str]]
"""The values, by name, that an operator of ATen gives."""
MOST_KNOWN = 2**22
"""Numbers of one constant."""
LOWEST = -3.4e38
"""In place of minus infinity, which sums of products would make no number of."""


def name_of(target: str) -> str:
    """The name of an operator of ATen or transformers, `add` of `aten.add.Tensor`; empty for other targets."""
    library, _, rest = target.partition(".")
    return rest.partition(".")[0] if library in ("aten", "transformers") else ""


@dataclass(slots=True)
class Written:
    """Parts of a model: operators of ONNX, numbers that are known, and facts of each value by name.

    `reasons`: why an operator has no Einsum form, by its first result; `counts`: how many of each the program has.
    """

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Tensor] = field(default_factory=dict)
    said: dict[str, Tensor] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def free(self, name: str) -> str:
        """A name that no value has."""
        found, n = name, 1
        while found in self.names:
            n += 1
            found = f"{name}_{n}"
        self.names.add(found)
        return found


@dataclass(frozen=True, slots=True)
class Aten:
    """An operator of ATen. `values`: of the tensors that it reads, names there; `sizes`: numbers of computed sizes."""

    operation: Operation
    written: Written
    values: dict[str, str]
    sizes: dict[str, int]
    results: tuple[Tensor | None, ...]

    @property
    def name(self) -> str:
        """The operator without its library and its overload."""
        return name_of(self.operation.target)

    # arguments

    def has(self, name: str) -> bool:
        """Whether an argument is there and is not None."""
        return self.operation.arguments.get(name) is not None

    def plain(self, name: str, default: Any = None) -> Any:
        """An argument with its computed sizes as numbers."""
        value = self.operation.arguments.get(name)
        value = default if value is None else value
        return [self._size(one) for one in value] if isinstance(value, list) else self._size(value)

    def _size(self, value: Any) -> Any:
        return self.sizes[value.name] if isinstance(value, Ref) and value.name in self.sizes else value

    def integer(self, name: str, default: int | None = None) -> int:
        """An argument that is an integer."""
        value = self.plain(name, default)
        if isinstance(value, int):
            return int(value)
        raise self.wrong(name, value, "an integer")

    def number(self, name: str, default: float | None = None) -> float:
        """An argument that is a number."""
        value = self.plain(name, default)
        if isinstance(value, int | float):
            return value
        raise self.wrong(name, value, "a number")

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An argument that is a list of integers, or one alone."""
        value = self.plain(name, default)
        value = [value] if isinstance(value, int) else value
        if isinstance(value, Sequence) and all(isinstance(one, int) for one in value):
            return [*value]
        raise self.wrong(name, value, "a list of integers")

    def text(self, name: str, default: str) -> str:
        """An argument that is a text."""
        value = self.plain(name, default)
        if isinstance(value, str):
            return value
        raise self.wrong(name, value, "a text")

    def tensor(self, name: str) -> str:
        """The value of an argument that is a tensor."""
        return self.value(name, self.operation.arguments.get(name))

    def optional(self, name: str) -> str:
        """The value of a tensor that may be left out; empty without it."""
        return self.tensor(name) if self.has(name) else ""

    def tensors(self, name: str) -> list[str]:
        """The values of a list of tensors, empty where one is left out."""
        given = self.operation.arguments.get(name)
        if not isinstance(given, list):
            raise self.wrong(name, given, "a list of tensors")
        return ["" if one is None else self.value(name, one) for one in given]

    def value(self, name: str, given: Any) -> str:
        """The value of a tensor, or of a number as one of no axes."""
        if isinstance(given, Ref) and given.name in self.values:
            return self.values[given.name]
        given = self._size(given)
        if isinstance(given, bool):
            return self.constant(np.bool_(given), BOOL)
        if isinstance(given, int):
            return self.constant(np.int64(max(min(given, 2**62), -(2**62))), INT64)
        if isinstance(given, float):
            return self.constant(np.float64(max(given, LOWEST)), FLOAT)
        raise self.wrong(name, given, "a tensor")

    def wrong(self, name: str, value: Any, expected: str) -> SpecError:
        """The error for an argument of another kind."""
        if isinstance(value, Ref):
            return SpecError(f"{name} is {short(value.name, 60)}, which nothing before it gives", at=self.operation.at)
        return SpecError(f"the argument {name} must be {expected}, found {short(value, 60)}", at=self.operation.at)

    # what is known of values

    def shape(self, value: str) -> tuple[int, ...]:
        """The shape of a value. Raises SpecError where it is not known."""
        found = self.written.said.get(value)
        if found is None:
            raise SpecError(f"the shape of {short(value, 60)} is not known", at=self.operation.at)
        return found.shape

    def kind(self, value: str) -> int:
        """The type of the numbers of a value, as ONNX numbers them."""
        found = self.written.said.get(value)
        return FLOAT if found is None else found.kind

    @property
    def result(self) -> Tensor:
        """Facts of the first result. Raises SpecError where the program does not say them."""
        if not self.results or self.results[0] is None:
            raise SpecError("the shape of its result is missing", at=self.operation.at)
        return self.results[0]

    def axis(self, name: str, value: str, default: int | None = None, more: int = 0) -> int:
        """An argument that is an axis of a value, from 0 on; `more`: axes that are new."""
        return self.axis_of(self.integer(name, default), value, more)

    def axis_of(self, axis: int, value: str, more: int = 0) -> int:
        """An axis of a value, from 0 on."""
        rank = len(self.shape(value)) + more
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise SpecError(f"there is no axis {axis}: the operand has {rank} axes", at=self.operation.at)
        return axis % max(rank, 1)

    # what it becomes

    def constant(self, numbers: Any, kind: int | None = None) -> str:
        """Numbers that are known, as a value."""
        array: Array = np.asarray(numbers)
        kind = {"b": BOOL, "i": INT64, "u": INT64}.get(array.dtype.kind, FLOAT) if kind is None else kind
        name = self.written.free(f"{self.operation.name}_constant")
        tensor = Tensor(name, array.shape, bits_of(kind), kind, array)
        self.written.constants[name] = self.written.said[name] = tensor
        return name

    def emit(
        self,
        operator: str,
        *inputs: str,
        shape: Sequence[int] | None = None,
        kind: int | None = None,
        **attributes: Any,
    ) -> str:
        """An operator of ONNX with one result; `shape`, `kind`: of that, where something asks for them."""
        return self.emit_all(operator, inputs, 1, attributes, shape, kind)[0]

    def emit_all(
        self,
        operator: str,
        inputs: Sequence[str],
        n_results: int,
        attributes: dict[str, Any],
        shape: Sequence[int] | None = None,
        kind: int | None = None,
    ) -> list[str]:
        """An operator of ONNX with several results."""
        names = [self.written.free(self.operation.name) for _ in range(n_results)]
        node = Node(operator, self.operation.name, tuple(inputs), tuple(names), attributes, self.operation.at)
        self.written.nodes.append(node)
        if shape is not None:
            self.say(names[0], shape, self.kind(inputs[0]) if kind is None else kind)
        return names

    def say(self, value: str, shape: Sequence[int], kind: int) -> None:
        """Note the shape and the type of a value."""
        self.written.said[value] = Tensor(value, tuple(shape), bits_of(kind), kind)

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """The value in another shape."""
        known = self.written.said.get(value)
        if known is not None and known.shape == tuple(shape):
            return value
        wanted = self.constant(np.array([*shape], np.int64).reshape(-1))
        return self.emit("Reshape", value, wanted, shape=shape, allowzero=1)

    def transpose(self, value: str, order: Sequence[int]) -> str:
        """The axes of a value in another order."""
        shape = self.shape(value)
        return self.emit("Transpose", value, shape=[shape[axis] for axis in order], perm=[*order])

    def expand(self, value: str, shape: Sequence[int]) -> str:
        """The value, broadcast to a shape."""
        if self.shape(value) == tuple(shape):
            return value
        return self.emit("Expand", value, self.constant(np.array([*shape], np.int64)), shape=shape)

    def cut(self, value: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """Some indices of an axis."""
        shape = [*self.shape(value)]
        shape[axis] = len(range(*slice(start, end, step).indices(shape[axis])))
        parts = (self.constant(np.array([n], np.int64)) for n in (start, end, axis, step))
        return self.emit("Slice", value, *parts, shape=shape)

    def cast(self, value: str, kind: int) -> str:
        """The value as numbers of another type."""
        if self.kind(value) == kind:
            return value
        return self.emit("Cast", value, shape=self.shape(value), kind=kind, to=kind)

    def as_fractions(self, value: str) -> str:
        """Integers and truth values as fractions."""
        return self.cast(value, FLOAT) if self.kind(value) in (*INTEGERS, BOOL) else value

    @staticmethod
    def refuse(reason: str) -> NotExpressible:
        """Why the operator has no Einsum form."""
        return NotExpressible(reason)

    @staticmethod
    def count(size: int) -> Array:
        """Numbers from 0 on. Raises NotExpressible for more than MOST_KNOWN."""
        if size > MOST_KNOWN:
            raise NotExpressible(f"it counts to {size:,}")
        return np.arange(size)

    @staticmethod
    def size_of(shape: Sequence[int]) -> int:
        """How many numbers a shape has."""
        return prod(shape)
