"""One operation of a program while it is imported: the builder, a name for what it writes, and common steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from einmap.einsum.operation import Apply, MapExpression, Operand, parse_operation
from einmap.errors import SpecError
from einmap.frontends.cascade.builder import Builder
from einmap.frontends.cascade.uses import LookedUp, Spread, Use
from einmap.frontends.cascade.values import Scaled, Value, broadcast, known, reshape, take, transpose
from einmap.frontends.cascade.views import LayoutError

MOST_COMPARED = 4096
"""Values of an axis that are compared with one another."""


class NotExpressible(Exception):
    """An operation, or a way to use it, that has no Einsum form; the text says why, `hint` what would help."""

    def __init__(self, text: str, hint: str | None = None) -> None:
        super().__init__(text)
        self.hint = hint


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

    def fraction(self, scaled: Scaled, bits: int) -> Value:
        """Numbers that integers stand for, as a value that keeps the integers."""
        return self.builder.fraction(scaled, self.name, bits)

    def through(self, value: Value, change: Callable[[Value], Value]) -> Value:
        """A change that moves numbers: of the integers that the value stands for, where that is enough."""
        if value.scaled is None or not value.scaled.is_uniform:
            return change(value)
        return self.fraction(value.scaled.with_integers(change(value.scaled.integers)), value.bits)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The elements in another shape; where no affine index says it, the value is first copied into one rank."""
        if prod(value.shape) != prod(shape):
            raise SpecError(f"the shape {[*value.shape]} does not fit {[*shape]}")
        try:
            return reshape(value, shape)
        except LayoutError:
            return self.through(value, lambda one: reshape(self._in_one_rank(one), shape))

    def take(self, value: Value, axis: int, start: int, step: int, count: int) -> Value:
        """`count` indices of an axis; where they cut through its digits, it is first copied into one rank."""
        try:
            return take(value, axis, start, step, count)
        except LayoutError:
            name = f"{self.name}_layout"
            return self.through(
                value, lambda one: take(self.builder.copied(one, name, flat=[axis]), axis, start, step, count)
            )

    def gathered(self, table: Value, lookups: Sequence[tuple[int, Value]]) -> Value:
        """Rows of a table: some axes are read at values of one shape, which comes in place of the first of them.

        Values below 0 count from the end.
        """
        axes = [axis for axis, _ in lookups]
        shape = lookups[0][1].shape
        if any(table.shape[axis] < 2 for axis in axes):
            return self._of_one_index(table, lookups)
        uses: list[Use] = [f"x{axis}" for axis in range(len(table.shape))]
        labels = [f"p{axis}" for axis in range(len(shape))]
        operands: list[tuple[Value, Sequence[Use]]] = []
        for place, (axis, where) in enumerate(lookups):
            uses[axis] = LookedUp(place + 1)
            operands.append((self.index(where, table.shape[axis]), labels))
        kept = [f"x{axis}" for axis in range(len(table.shape)) if axis not in axes]
        before = sum(axis < min(axes) for axis in range(len(table.shape)))
        out = [*kept[:before], *labels, *kept[before:]]

        def rows(plain: Value) -> Value:
            plain = self.builder.written(plain, f"{self.name}_table")
            return self.builder.einsum(self.name, [(plain, uses), *operands], out, Operand("0"), plain.bits)

        scaled = table.scaled
        if scaled is None or scaled.is_uniform or scaled.offset is not None:
            return self.through(table, rows)
        # scales and zero points are looked up with the integers, but for those of one index
        expression: MapExpression = Operand("0")
        for function, part in (("subtract", scaled.zero), ("multiply", scaled.scale)):
            if part is None:
                continue
            read = [use if part.shape[axis] > 1 else f"x{axis}" for axis, use in enumerate(uses)]
            other: MapExpression = part.expression or Operand("0")
            if part.leaves:
                operands.append((part, read))
                other = Operand(str(len(operands)))
            expression = Apply(function, (expression, other))
        integers = self.builder.written(scaled.integers, f"{self.name}_table")
        return self.builder.einsum(self.name, [(integers, uses), *operands], out, expression, table.bits)

    def _of_one_index(self, table: Value, lookups: Sequence[tuple[int, Value]]) -> Value:
        """As `gathered`, where axes have one index, which is read whatever the values are."""
        axes, shape = [axis for axis, _ in lookups], lookups[0][1].shape
        rest = [(axis, where) for axis, where in lookups if table.shape[axis] > 1]
        kept = [axis for axis in range(len(table.shape)) if axis not in axes]
        before = sum(axis < min(axes) for axis in kept)
        if not rest:
            sizes = [table.shape[axis] for axis in kept]
            rows = self.reshape(table, [*sizes[:before], *(1 for _ in shape), *sizes[before:]])
            wide = self.builder.as_expression(rows, self.name)
            return broadcast(wide, [*sizes[:before], *shape, *sizes[before:]])
        gone = {axis for axis in axes if table.shape[axis] < 2}
        places = {old: new for new, old in enumerate(a for a in range(len(table.shape)) if a not in gone)}
        plain = self.reshape(table, [table.shape[axis] for axis in places])
        found = self.gathered(plain, [(places[axis], where) for axis, where in rest])
        there = sum(axis < min(axis for axis, _ in rest) for axis in kept)
        order = [*range(before), *range(there, there + len(shape)), *range(before, there)]
        return transpose(found, [*order, *range(len(order), len(found.shape))])

    def elements(self, table: Value, axis: int, places: Value) -> Value:
        """Values of a table that are looked up one by one along an axis; the other axes are those of the places."""
        if table.shape[axis] < 2:
            return broadcast(self.builder.as_expression(table, self.name), places.shape)
        labels = [f"x{other}" for other in range(len(places.shape))]
        uses: list[Use] = [LookedUp(1) if other == axis else label for other, label in enumerate(labels)]
        where = self.index(places, table.shape[axis])
        if any(len(index.terms) > 1 for index in where.leaves[0].index):  # labels stand for one index of each tensor
            where = self.builder.copied(where, f"{self.name}_places")

        def single(plain: Value) -> Value:
            plain = self.builder.written(plain, f"{self.name}_table")
            return self.builder.einsum(self.name, [(plain, uses), (where, labels)], labels, Operand("0"), plain.bits)

        return self.through(table, single)

    def looked_up(
        self,
        table: Value,
        uses: Sequence[str | int],
        lookups: Sequence[tuple[Value, Sequence[str]]],
        out: Sequence[str],
    ) -> Value:
        """Values of a table at the labels `out`. An axis whose use is a number is read at the values of that lookup."""
        plain = self.builder.written(table, f"{self.name}_table")
        places = [(self.index(where, table.shape[uses.index(i)]), labels) for i, (where, labels) in enumerate(lookups)]
        if len(places) > 1:  # an Einsum reads a tensor of indices in one way
            places = [(self.builder.copied(where, f"{self.name}_places"), labels) for where, labels in places]
        read: list[Use] = [use if isinstance(use, str) else LookedUp(use + 1) for use in uses]
        return self.builder.einsum(self.name, [(plain, read), *places], out, Operand("0"), table.bits)

    def largest(self, value: Value, k: int, axis: int, *, smallest: bool = False) -> tuple[Value, Value]:
        """The k largest values along an axis, or the smallest, in order, and their places; of equal ones the first come
        first. The place of each value is how many are larger, or as large and before it. Raises NotExpressible for
        more than MOST_COMPARED values.
        """
        size = value.shape[axis]
        if size > MOST_COMPARED:
            raise NotExpressible(f"it compares {size:,} values with one another, at most {MOST_COMPARED:,} are")
        build, name = self.builder, self.name
        value = build.written(value, f"{name}_input")
        labels = [f"x{i}" for i in range(len(value.shape))]
        others = [f"y{i}" if i == axis else label for i, label in enumerate(labels)]
        places = known(np.arange(size, dtype=np.float64), 32)
        before = "less(b, a)" if smallest else "less(a, b)"
        compared: list[tuple[Value, Sequence[Use]]] = [(value, labels), (build.copied(value, f"{name}_other"), others)]
        compared += [(places, [labels[axis]]), (build.copied(places, f"{name}_places"), [others[axis]])]
        both = expression_of(f"max({before}, equal(a, b) * less(d, c))", 4)
        order = build.einsum(f"{name}_order", compared, labels, both, 32)
        wanted = known(np.arange(k, dtype=np.float64), 32)
        out = ["r" if i == axis else label for i, label in enumerate(labels)]
        taken: list[Value] = []
        for what, uses, bits, kind in ((value, labels, value.bits, "values"), (places, [labels[axis]], 64, "indices")):
            operands: list[tuple[Value, Sequence[Use]]] = [(what, uses), (order, labels), (wanted, ["r"])]
            expression = expression_of("a * equal(b, c)", 3)
            taken.append(build.einsum(f"{name}_{kind}", operands, out, expression, bits, extents={"r": k}))
        return taken[0], replace(taken[1], nonnegative=True)

    def tiled(self, value: Value, times: Sequence[int]) -> Value:
        """The value so many times along each axis, which moves nothing; all axes are there already."""
        value = self.builder.as_expression(value, self.name)
        rows = reshape(value, [n for size in value.shape for n in (1, size)])
        wide = broadcast(rows, [n for i, size in enumerate(value.shape) for n in (times[i], size)])
        return self.reshape(wide, [size * n for size, n in zip(value.shape, times, strict=True)])

    def index(self, where: Value, size: int) -> Value:
        """Indices as a tensor, from 0 on; those of a graph input are brought there with its values, known ones here."""
        is_known = where.array is not None and where.expression is None
        if where.array is not None and is_known:
            where = known(np.where(where.array < 0, where.array + size, where.array), where.bits)
        where = self.builder.as_expression(where, f"{self.name}_places")
        given = where.is_view and isinstance(where.leaves[0].tensor.source, str)
        if not given and not is_known and not where.nonnegative:
            less = expression_of(f"select(less(a, 0), a + {size}, a)", 1)
            where = self.builder.pointwise(less, [where], f"{self.name}_places", where.bits)
        return self.builder.written(where, f"{self.name}_places")

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
