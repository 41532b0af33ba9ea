"""The formulas of one template, recorded once and repeated for single mappings.

The model's formulas take arrays. For one mapping most of their time goes into looking up what to add, not into adding.
So they are run once on `Recorded` values, which write each operation down; the list of operations is then repeated on
plain floats, some tens of times faster than the formulas, and with the same result to the last bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

type Operation = Callable[[Any, Any], Any]
type Step = tuple[int, Operation, int, int]
"""The number of a result, the operation, and the numbers of its two arguments."""


class NotRecordable(TypeError):
    """A formula asks for a number where only operations can be written down."""


def _maximum(a: float, b: float) -> float:
    return a if a >= b or a != a else b  # noqa: PLR0124 - as NumPy does, a NaN stays one


def _minimum(a: float, b: float) -> float:
    return a if a <= b or a != a else b  # noqa: PLR0124


def _pair(a: float, b: float) -> tuple[float, float]:
    return a, b


def _choice(condition: Any, pair: tuple[float, float]) -> float:
    return pair[0] if condition else pair[1]


ON_FLOATS: dict[Any, Operation] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.maximum: _maximum,
    np.minimum: _minimum,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.bitwise_and: operator.and_,
}
"""Replacement of a ufunc of two arguments where these are floats or bools."""


@dataclass
class Tape:
    """Values by number: first the inputs, then constants and results of operations, each different one once."""

    n_inputs: int
    values: list[Any] = field(default_factory=list)
    """A constant for each number, None where an input or a result stands."""
    steps: list[Step] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = [None] * self.n_inputs

    def inputs(self) -> list[Recorded]:
        """The values that are given for each mapping."""
        return [Recorded(self, number) for number in range(self.n_inputs)]

    def number_of(self, value: Any) -> int:
        """The number of a recorded value or of a constant. Raises NotRecordable for anything else."""
        if isinstance(value, Recorded):
            return value.number
        if isinstance(value, np.ndarray | np.generic):
            if value.ndim:
                raise NotRecordable("an array among the constants")
            value = value.item()
        if not isinstance(value, int | float):
            raise NotRecordable(f"a {type(value).__name__} among the constants")
        return self._new(("constant", type(value), value), value)

    def result(self, operation: Operation, a: Any, b: Any) -> Recorded:
        """An operation, written down."""
        return Recorded(self, self._step(operation, self.number_of(a), self.number_of(b)))

    def choice(self, condition: Any, a: Any, b: Any) -> Recorded:
        """`a` where the condition holds, else `b`: a pair, and a choice from it."""
        pair = self._step(_pair, self.number_of(a), self.number_of(b))
        return Recorded(self, self._step(_choice, self.number_of(condition), pair))

    def _step(self, operation: Operation, a: int, b: int) -> int:
        n = len(self.values)
        at = self._new((operation, a, b), None)
        if at == n:
            self.steps.append((at, operation, a, b))
        return at

    def _new(self, key: Any, value: Any) -> int:
        at = self.known.setdefault(key, len(self.values))
        if at == len(self.values):
            self.values.append(value)
        return at


class Recorded(NDArrayOperatorsMixin):
    """A number that is not known yet; operations on it are written down. It cannot be asked for its value."""

    def __init__(self, tape: Tape, number: int) -> None:
        self.tape, self.number = tape, number

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Recorded:
        """Record a ufunc; NumPy calls this instead of it."""
        if ufunc is np.negative:
            return self.tape.result(operator.mul, -1, self)
        operation = ON_FLOATS.get(ufunc)
        if operation is None or method != "__call__" or options:
            raise NotRecordable(f"{ufunc.__name__} cannot be recorded")
        return self.tape.result(operation, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Recorded:
        """Record any other function; NumPy calls this instead of it."""
        if function is not np.where or len(args) != 3 or kwargs:
            raise NotRecordable(f"{function.__name__} cannot be recorded")
        return self.tape.choice(*args)

    @property
    def shape(self) -> tuple[int, ...]:
        """Raises NotRecordable: whoever asks wants to go through elements."""
        raise NotRecordable("a recorded value has no elements")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotRecordable("a recorded value is not an array")

    def __bool__(self) -> bool:
        raise NotRecordable("a recorded value is neither true nor false")

    __float__ = __int__ = __index__ = __bool__
    __hash__ = None  # type: ignore[assignment]


class Recording:
    """Operations that give some outputs from the inputs, without those that no output needs."""

    def __init__(self, tape: Tape, outputs: Sequence[Any]) -> None:
        self.outputs = [tape.number_of(output) for output in outputs]
        needed = {*self.outputs}
        steps: list[Step] = []
        for step in reversed(tape.steps):
            if step[0] in needed:
                needed.update(step[2:])
                steps.append(step)
        self.n_inputs, self.values = tape.n_inputs, tape.values
        # columns take a third of the memory of rows, and there may be thousands of recordings
        self.columns = [list(column) for column in zip(*reversed(steps), strict=True)] or [[], [], [], []]

    def repeat(self, inputs: Sequence[float]) -> list[Any]:
        """The outputs for the inputs of one mapping."""
        values = self.values.copy()
        values[: self.n_inputs] = inputs
        for at, operation, a, b in zip(*self.columns, strict=True):
            values[at] = operation(values[a], values[b])
        return [values[i] for i in self.outputs]
