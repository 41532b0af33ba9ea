"""Recurrences of a program: states that each step reads as the step before has left them, for all steps at once.

Values of a recurrence have the steps as their first axis. A state is stored with one step more than there are: at index
0 what it begins with, which is 0 unless that is added where it is read. Step t reads index t and writes index t + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from einmap.einsum.operation import Apply, Operand
from einmap.frontends.cascade.builder import Builder
from einmap.frontends.cascade.program import CascadeEinsum, Stored
from einmap.frontends.cascade.step import NotExpressible, Step
from einmap.frontends.cascade.uses import Spread
from einmap.frontends.cascade.values import Value, broadcast, known, reshape, stored, take, transpose
from einmap.frontends.cascade.views import view_of

TIME = "t"
"""Name of the rank variable of steps."""


@dataclass(slots=True)
class State:
    """A state of a recurrence. `before`: as each step finds it; `after`: as it leaves it, once that is written."""

    tensor: Stored
    before: Value
    after: Value


@dataclass(slots=True)
class Recurrence:
    """States over `steps`, and what is computed of them. Its Einsums begin with the first one that is added behind it.

    With one step nothing is stored for a later one.
    """

    builder: Builder
    name: str
    steps: int
    states: list[State] = field(default_factory=list)
    begin: int = -1

    def state(self, shape: Sequence[int], bits: int, initial: Value | None, name: str) -> State:
        """A state, which begins with `initial` or zeros. All are made before anything reads one."""
        begins = self._begins(initial, name)
        tensor = Stored(
            self.builder.program.free_name(name),
            (self.steps + 1, *(n for n in shape if n > 1)),
            bits,
            None,
            (self.steps + 1, *shape),
        )
        whole = stored(view_of(tensor, (self.steps + 1, *shape)))
        before, after = (take(whole, 0, first, 1, self.steps) for first in (0, 1))
        if self.steps == 1:
            # a step that nothing follows reads what the state begins with, and no tensor
            before = Value((1, *shape), bits, array=np.zeros((1, *shape))) if begins is None else begins
        elif begins is not None:
            before = self.builder.pointwise(Apply("add", (Operand("0"), Operand("1"))), [before, begins], name, bits)
        state = State(tensor, before, after)
        self.states.append(state)
        self.begin = len(self.builder.program.einsums)
        return state

    def _begins(self, initial: Value | None, name: str) -> Value | None:
        """State at the first step, and zeros at all others; None where it is zeros there, too."""
        if initial is None or (initial.array is not None and not np.any(initial.array)):
            return None
        value = reshape(initial, (1, *initial.shape))
        if self.steps == 1:
            return value
        value = self.builder.written(value, f"{name}_initial")
        labels = [f"x{axis}" for axis in range(len(value.shape))]
        out: list[str | Spread] = [Spread((), self.steps), *labels[1:]]
        return self.builder.einsum(f"{name}_at_first", [(value, labels)], out, Operand("0"), value.bits)

    def write(self, state: State, value: Value) -> None:
        """Let the steps leave a value in a state."""
        wide = broadcast(value, (self.steps, *state.tensor.shape[1:]))
        if self.steps == 1:
            state.after = self.builder.written(wide, state.tensor.name)
            return
        if any(view.tensor is state.tensor for view in wide.leaves):
            wide = self.builder.written(wide, f"{state.tensor.name}_next")
        labels = [f"x{axis}" for axis in range(len(wide.shape))]
        out: list[str | Spread] = [Spread(((labels[0], 1),), self.steps + 1, 1)]
        out += [Spread(((label, 1),), n) for label, n in zip(labels[1:], wide.shape[1:], strict=True) if n > 1]
        self.builder.einsum(state.tensor, [(wide, labels)], out, Operand("0"), state.tensor.bits)

    def close(self) -> None:
        """Give the rank variable of steps one name in all Einsums. Raises NotExpressible where there is no such one."""
        einsums = self.builder.program.einsums
        if self.steps == 1:
            return
        timed = {state.tensor.name: 0 for state in self.states}
        for number in range(self.begin, len(einsums)):
            variable = _steps_of(einsums[number], timed)
            ranks = [i for i, index in enumerate(einsums[number].output.index) if index.terms == ((variable, 1),)]
            if variable is None or not ranks or einsums[number].extents.get(variable) != self.steps:
                raise NotExpressible(f"{einsums[number].name} has no steps of its own")
            timed.setdefault(einsums[number].name, ranks[0])
            hints = {v: "x" if hint == TIME else hint for v, hint in einsums[number].hints.items()}
            einsums[number] = replace(einsums[number], hints={**hints, variable: TIME}, is_copy=False)
        written = {e.name for e in einsums[self.begin :]}
        if not all(state.tensor.name in written for state in self.states):
            raise NotExpressible("a state is not written")
        last = max(i for i, e in enumerate(einsums) if e.name in {s.tensor.name for s in self.states})
        self.builder.program.recurrences.append(tuple(e.name for e in einsums[self.begin : last + 1]))


def _steps_of(einsum: CascadeEinsum, timed: dict[str, int]) -> str | None:
    """The rank variable of steps: that by which an input is indexed along its rank of time."""
    found = {access.index[timed[access.tensor.name]].terms for access in einsum.inputs if access.tensor.name in timed}
    if len(found) != 1:
        return None
    (terms,) = found
    return terms[0][0] if len(terms) == 1 and terms[0][1] == 1 else None


def one_rank_of_steps(builder: Builder, value: Value, name: str) -> Value:
    """A value whose first axis, the steps, is one rank where it is stored."""
    value = builder.written(value, name)
    return value if len(value.leaves[0].axes[0]) <= 1 else builder.copied(value, f"{name}_steps", flat=[0])


_FUNCTIONS = {
    "add": (0.0, "a + b"),
    "multiply": (1.0, "a * b"),
    "max": (-np.inf, "max(a, b)"),
    "min": (np.inf, "min(a, b)"),
    # from the larger one on, so that nothing overflows; infinities have no difference
    "logaddexp": (-np.inf, "select(equal(a, b), a + log(2), max(a, b) + log(1 + exp(-abs(a - b))))"),
}
"""Number that values are accumulated from, and the map expression of each step, by the name of the function."""


def cumulated(step: Step, value: Value, axis: int, function: str, *, reverse: bool = False) -> tuple[Value, Value]:
    """Accumulated values along an axis before each index, and up to it, by a recurrence over the axis.

    `function`: `add`, `multiply`, `max`, `min` or `logaddexp`, the logarithm of the sum of exponentials; `reverse`:
    from the last index on. Raises NotExpressible.
    """
    order = [axis, *(other for other in range(len(value.shape)) if other != axis)]
    back = [order.index(other) for other in range(len(order))]
    steps = value.shape[axis]
    rows = transpose(step.builder.as_expression(value, step.name), order)
    if reverse:
        rows = step.take(rows, 0, steps - 1, -1, steps)
    rows = one_rank_of_steps(step.builder, rows, f"{step.name}_rows")
    first, text = _FUNCTIONS[function]
    recurrence = Recurrence(step.builder, step.name, steps)
    begins = known(np.full(rows.shape[1:], first), value.bits)
    state = recurrence.state(rows.shape[1:], value.bits, begins, step.name)
    recurrence.write(state, step.pointwise(text, state.before, rows, bits=value.bits))
    recurrence.close()
    found = [take(v, 0, steps - 1, -1, steps) if reverse else v for v in (state.before, state.after)]
    before, up_to = (transpose(v, back) for v in found)
    return before, up_to
