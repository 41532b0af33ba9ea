"""Values written into a part of a tensor: slices replaced, as those of a cache, and values scattered or added.

No Einsum writes at places that are looked up. Replaced values are looked up instead: each index of the result finds the
last update that is written there, if one is. Sums, products and extremes of updates have a point for each update and
index, which takes the update where it goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from einmap.einsum.operation import Reduction
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import Use
from einmap.frontends.cascade.values import MOST_KNOWN, Value, broadcast, known, reshape, transpose
from einmap.frontends.jax.equation import Equation
from einmap.frontends.jax.layout import joined

_FACTORS = "cdefgh"


def updated_slice(equation: Equation) -> list[Value]:
    """dynamic_update_slice: a slice is replaced, from places on that are held inside of the value."""
    value, update, *places = equation.operands
    return [_replaced(equation, value, update, dict(enumerate(_held(equation, value, update.shape, places))))]


def _held(equation: Equation, value: Value, sizes: Sequence[int], places: Sequence[Value]) -> list[int | Value]:
    """Where a slice of these sizes begins, brought to where it fits."""
    starts: list[int | Value] = []
    for size, n, place in zip(value.shape, sizes, places, strict=True):
        if place.array is not None:
            starts.append(min(max(0, int(place.array.reshape(-1)[0])), size - n))
        else:
            starts.append(equation.pointwise(f"min(max(a, 0), {size - n})", reshape(place, ())))
    return starts


def _replaced(equation: Equation, value: Value, update: Value, starts: Mapping[int, int | Value]) -> Value:
    """The value with a slice replaced by the update. At places that are known the rest stays as it is."""
    if update.array is None and not update.is_view:
        update = equation.builder.written(update, f"{equation.name}_rows")
    for axis, size in enumerate(value.shape):
        start, n = starts.get(axis, 0), update.shape[axis]
        if n == size or not isinstance(start, int):
            continue
        inner = _replaced(equation, equation.take(value, axis, start, 1, n), update, {**starts, axis: 0})
        parts = [equation.take(value, axis, 0, 1, start)] if start else []
        parts.append(inner)
        parts += [equation.take(value, axis, start + n, 1, size - start - n)] if start + n < size else []
        return joined(equation, tuple(parts), axis)
    inside: Value | None = None
    for axis, size in enumerate(value.shape):
        start, n = starts.get(axis, 0), update.shape[axis]
        if n == size:
            continue
        ones = [-1 if other == axis else 1 for other in range(len(value.shape))]
        assert isinstance(start, Value)
        ones = [-1 if other == axis else 1 for other in range(len(value.shape))]
        numbers = np.arange(size, dtype=np.float64)
        if n == 1:
            here = equation.pointwise("equal(a, b)", known(numbers.reshape(ones), 32), start, bits=8)
        else:
            text = f"select(less(a - b, 0), -1, select(less(a - b, {n}), a - b, -1))"
            places = equation.pointwise(text, known(numbers, 32), start)
            where = equation.builder.written(places, f"{equation.name}_places")
            update = equation.gathered(update, [(axis, replace(where, nonnegative=True))])
            here = equation.pointwise("1 - less(a, 0)", reshape(where, [size if i < 0 else 1 for i in ones]), bits=8)
        inside = here if inside is None else equation.pointwise("a * b", inside, here)
    if inside is None:
        return update
    return equation.pointwise("select(a, b, c)", inside, update, value, bits=equation.bits)


@dataclass(frozen=True, slots=True)
class _Points:
    """Windows of updates in a value. `labels`: of the axes of places, one for each window; `batch`: axes of the value
    that are axes of places; `columns`: axes of the value with a place, and its column; `sizes`: of a window along each
    axis of the value. The updates have the axes of places first, then those of the value, but for batches.
    """

    value: Value
    places: Value
    updates: Value
    labels: list[str]
    batch: dict[int, str]
    columns: dict[int, int]
    sizes: list[int]

    @property
    def out(self) -> list[str]:
        """The labels of the value."""
        return [self.batch.get(axis, f"x{axis}") for axis in range(len(self.value.shape))]

    @property
    def moved(self) -> list[int]:
        """The axes along which windows stand at places that tell them apart."""
        return [axis for axis in self.columns if self.sizes[axis] < self.value.shape[axis]]

    @property
    def uses(self) -> list[str]:
        """The labels of the updates; a window that is moved has some of its own."""
        moved = self.moved
        return [
            *self.labels,
            *(f"w{a}" if a in moved else f"x{a}" for a in range(len(self.sizes)) if a not in self.batch),
        ]

    @property
    def is_one(self) -> bool:
        """Whether there is one window."""
        return prod(self.places.shape[:-1]) == 1 and not self.batch


def _points(equation: Equation) -> _Points:
    value, places, updates = equation.operands
    numbers = equation.params["dimension_numbers"]
    labels = [f"p{axis}" for axis in range(len(places.shape) - 1)]
    batch = {int(a): labels[b] for a, b in zip(
        numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
    )}  # fmt: skip
    inserted = {int(axis) for axis in numbers.inserted_window_dims}
    windows = [int(axis) for axis in numbers.update_window_dims]
    order = [axis for axis in range(len(updates.shape)) if axis not in windows]
    updates = transpose(equation.builder.as_expression(updates, f"{equation.name}_updates"), [*order, *windows])
    inner = iter(updates.shape[len(order) :])
    sizes = [1 if axis in inserted or axis in batch else int(next(inner)) for axis in range(len(value.shape))]
    updates = equation.reshape(
        updates, (*updates.shape[: len(order)], *(n for axis, n in enumerate(sizes) if axis not in batch))
    )
    columns = {int(axis): i for i, axis in enumerate(numbers.scatter_dims_to_operand_dims)}
    if any(n < value.shape[a] and a not in columns and a not in batch for a, n in enumerate(sizes)):
        raise NotExpressible("its windows are smaller than an axis that has no place")
    return _Points(value, places, updates, labels, batch, columns, sizes)


def _column(equation: Equation, points: _Points, axis: int) -> Value:
    """Where windows begin along an axis; one that is dropped begins where nothing of it is seen."""
    size, n = points.value.shape[axis], points.sizes[axis]
    place = equation.take(points.places, len(points.labels), points.columns[axis], 1, 1)
    place = reshape(place, points.places.shape[:-1])
    if equation.params["mode"].name == "CLIP":
        text = f"min(max(a, 0), {size - n})"
    elif n == 1:
        return place
    else:
        text = f"select(less(a, 0), {-n}, select(less({size - n}, a), {-n}, a))"
    if place.array is not None:
        clipped, fits = np.clip(place.array, 0, size - n), (place.array >= 0) & (place.array <= size - n)
        return known(clipped if equation.params["mode"].name == "CLIP" else np.where(fits, place.array, -n), place.bits)
    return equation.pointwise(text, place)


def _one_slice(equation: Equation, points: _Points) -> tuple[Value, dict[int, int | Value]] | None:
    """A single window as a slice of the value, and where it begins; also windows of one index that follow one another.

    None where there are others, or where a window that does not fit is dropped and it is not known whether it fits.
    """
    value, moved = points.value, points.moved
    if points.is_one:
        starts: dict[int, int | Value] = {}
        for axis in moved:
            place = reshape(_column(equation, points, axis), ())
            if place.array is None and equation.params["mode"].name == "FILL_OR_DROP":
                return None
            starts[axis] = int(place.array) if place.array is not None else place
            if place.array is not None and not 0 <= int(place.array) <= value.shape[axis] - points.sizes[axis]:
                return None
        return reshape(points.updates, points.sizes), starts
    if len(moved) != 1 or len(points.labels) != 1 or points.batch or points.sizes[moved[0]] != 1:
        return None
    array, n = _column(equation, points, moved[0]).array, points.places.shape[0]
    if array is None or not bool((np.diff(array) == 1).all()) or array[0] < 0 or array[-1] >= value.shape[moved[0]]:
        return None
    order = [axis + 1 for axis in range(len(value.shape))]
    order.insert(moved[0], 0)
    sizes = [n if axis == moved[0] else size for axis, size in enumerate(points.sizes)]
    return equation.reshape(transpose(points.updates, order), sizes), {moved[0]: int(array[0])}


def _hits(equation: Equation, points: _Points, first: int) -> tuple[list[tuple[Value, Sequence[Use]]], str]:
    """Operands that say where updates go, and a factor that is 1 where one goes to an index of the value, else 0.

    The factor calls them by letters from the number `first` on.
    """
    operands: list[tuple[Value, Sequence[Use]]] = []
    factors: list[str] = []
    letters = iter("abcdefgh"[first:])
    moved = points.moved
    if first + sum(2 + (points.sizes[axis] > 1) for axis in moved) > 8:
        raise NotExpressible(f"it writes at places along {len(moved)} axes")
    for axis in moved:
        index, place = next(letters), next(letters)
        operands.append((known(np.arange(points.value.shape[axis], dtype=np.float64), 32), [f"x{axis}"]))
        operands.append((_column(equation, points, axis), points.labels))
        if points.sizes[axis] > 1:
            operands.append((known(np.arange(points.sizes[axis], dtype=np.float64), 32), [f"w{axis}"]))
            place = f"({place} + {next(letters)})"
        factors.append(f"equal({index}, {place})")
    return operands, " * ".join(factors)


def combined(equation: Equation) -> list[Value]:
    """scatter-add, scatter-sub, scatter-mul, scatter-min and scatter-max: updates change the values that stand there.

    Gradients of rows that are looked up are such sums.
    """
    points, text = _points(equation), _COMBINED[equation.primitive]
    if (one := _one_slice(equation, points)) is not None:
        update, starts = one
        if all(isinstance(start, int) for start in starts.values()):
            inner = points.value
            for axis, start in starts.items():
                inner = equation.take(inner, axis, int(start), 1, update.shape[axis])  # type: ignore[arg-type]
            return [_replaced(equation, points.value, equation.pointwise(text, inner, update), starts)]
    if points.updates.array is not None:  # one number everywhere would say nothing of the axes of a window
        updates = equation.builder.written(points.updates, f"{equation.name}_updates")
        points = replace(points, updates=updates)
    if points.moved:
        rows = prod(points.value.shape[axis] for axis in points.moved)
        equation.say(f"it has a point for each update and each of {rows:,} places, as no Einsum scatters")
    if equation.primitive in ("scatter-min", "scatter-max"):
        return [_extreme(equation, points)]
    if equation.primitive == "scatter-mul":
        return [_multiplied(equation, points)]
    total = _total(equation, points, equation.name)
    is_zero = text == "a + b" and points.value.array is not None and not np.any(points.value.array)
    return [total if is_zero else equation.pointwise(text, points.value, total, bits=equation.bits)]


_COMBINED = {
    "scatter-add": "a + b", "scatter-sub": "a - b", "scatter-mul": "a * b", "scatter-min": "min(a, b)",
    "scatter-max": "max(a, b)",
}  # fmt: skip
"""Map expression of a value and an update, by the name of the primitive."""


def _total(equation: Equation, points: _Points, name: str) -> Value:
    """The sum of the updates that go to each index of the value."""
    where, factor = _hits(equation, points, 1)
    operands: list[tuple[Value, Sequence[Use]]] = [(points.updates, points.uses), *where]
    text = expression_of(f"select({factor}, a, 0)" if factor else "a", len(operands))
    return equation.builder.einsum(name, operands, points.out, text, equation.bits)


def _extreme(equation: Equation, points: _Points) -> Value:
    """The smallest or largest of each value and the updates that go there; others leave it as it is."""
    where, factor = _hits(equation, points, 2)
    operands: list[tuple[Value, Sequence[Use]]] = [(points.updates, points.uses), (points.value, points.out), *where]
    text = _COMBINED[equation.primitive]
    both = expression_of(f"select({factor}, {text}, b)" if factor else text, len(operands))
    kind: Reduction = "min" if equation.primitive == "scatter-min" else "max"
    return equation.builder.einsum(equation.name, operands, points.out, both, equation.bits, reduction=kind)


def _multiplied(equation: Equation, points: _Points) -> Value:
    """Each value times the updates that go there.

    Where at most one goes to an index, it is a sum of one. Others are factors, 1 where an update does not go, which are
    multiplied by halves: no Einsum reduces by products.
    """
    name, free = equation.name, [label for label in points.labels if label not in points.batch.values()]
    if _meets_once(equation, points):
        found = _total(equation, points, name)
        where, factor = _hits(equation, points, 0)
        if not factor:
            return equation.pointwise("a * b", points.value, found, bits=equation.bits)
        labels = [out for axis, out in enumerate(points.out) if axis in points.batch or axis in points.moved]
        hit = equation.builder.einsum(f"{name}_hit", where, labels, expression_of(factor, len(where)), 8)
        seen = [size if out in labels else 1 for out, size in zip(points.out, points.value.shape, strict=True)]
        text = "select(a, b * c, b)"
        return equation.pointwise(text, reshape(hit, seen), points.value, found, bits=equation.bits)
    own = [*free, *(f"w{axis}" for axis in points.moved)]
    where, factor = _hits(equation, points, 1)
    operands: list[tuple[Value, Sequence[Use]]] = [(points.updates, points.uses), *where]
    factor_of = expression_of(f"select({factor}, a, 1)" if factor else "a", len(operands))
    rows = equation.builder.einsum(f"{name}_factors", operands, [*own, *points.out], factor_of, equation.bits)
    count = prod(rows.shape[: len(own)])
    rows = equation.reshape(rows, (count, *points.value.shape))
    equation.say(f"its factors, {count:,} for each value, are stored, and multiplied by halves")
    factors = [points.value]
    while count > 1:
        half = count // 2
        if count % 2:
            factors.append(reshape(equation.take(rows, 0, count - 1, 1, 1), points.value.shape))
        pair = equation.take(rows, 0, 0, 1, half), equation.take(rows, 0, half, 1, half)
        rows = equation.builder.written(equation.pointwise("a * b", *pair, bits=equation.bits), f"{name}_products")
        count = half
    product = reshape(rows, points.value.shape)
    for one in factors:
        product = equation.pointwise("a * b", product, one, bits=equation.bits)
    return product


def _meets_once(equation: Equation, points: _Points) -> bool:
    """Whether at most one update goes to each index: there is one, or places differ as is known or promised."""
    sizes = dict(zip(points.labels, points.places.shape, strict=False))
    n = prod(size for label, size in sizes.items() if label not in points.batch.values())
    if n == 1 or equation.params["unique_indices"]:
        return True
    columns = [_column(equation, points, axis).array for axis in points.moved]
    if points.batch or not columns or any(points.sizes[axis] > 1 for axis in points.moved):
        return False
    known_ones = [np.broadcast_to(column, points.places.shape[:-1]).ravel() for column in columns if column is not None]
    return len(known_ones) == len(columns) and len(np.unique(np.stack(known_ones), axis=1).T) == n


def written(equation: Equation) -> list[Value]:
    """scatter: of several updates at one place the last one stays."""
    update = equation.params["update_jaxpr"]
    if update is not None and (update.eqns or update.outvars[0] is not update.invars[1]):
        raise NotExpressible("it applies a function to the values that stand there")
    points = _points(equation)
    if (one := _one_slice(equation, points)) is not None:
        return [_replaced(equation, points.value, *one)]
    value, moved = points.value, points.moved
    free = [label for label in points.labels if label not in points.batch.values()]
    axes = {label: points.updates.shape[i] for i, label in enumerate(points.labels)}
    axes |= {f"w{axis}": points.sizes[axis] for axis in moved}
    own = [*free, *(f"w{axis}" for axis in moved)]
    n = prod(axes[label] for label in own)
    if n > MOST_KNOWN:
        raise NotExpressible(f"it writes {n:,} values, at most {MOST_KNOWN:,} are put in order")
    number = known(np.arange(1, n + 1, dtype=np.float64).reshape([axes[label] for label in own]), 32)
    where, factor = _hits(equation, points, 1)
    found = [label for axis, label in enumerate(points.out) if axis in points.batch or axis in moved]
    last = equation.builder.einsum(
        f"{equation.name}_last",
        [(number, own), *where],
        found,
        expression_of(f"a * {factor}" if factor else "a", 1 + len(where)),
        32,
        reduction="max",
    )
    batch = [points.batch[axis] for axis in sorted(points.batch)]
    rest = [label for label in points.out if label not in found]
    order = [points.uses.index(label) for label in (*batch, *own, *rest)]
    rows = transpose(points.updates, order)
    sizes = [size for axis, size in enumerate(value.shape) if points.out[axis] in rest]
    rows = equation.reshape(rows, (*(axes[label] for label in batch), n, *sizes))
    seen = [size if points.out[axis] in found else 1 for axis, size in enumerate(value.shape)]
    if n > 1:
        place = equation.builder.written(equation.pointwise("a - 1", last), f"{equation.name}_place")
        uses: list[str | int] = [*batch, 0, *rest]
        lookups: list[tuple[Value, Sequence[str]]] = [(replace(place, nonnegative=True), found)]
        rows = equation.looked_up(rows, uses, lookups, points.out)
    else:
        whole = [
            size if axis in points.batch or points.out[axis] in rest else 1 for axis, size in enumerate(value.shape)
        ]
        order = [[*batch, *rest].index(label) for label in points.out if label in (*batch, *rest)]
        rows = reshape(transpose(reshape(rows, (*(axes[label] for label in batch), *sizes)), order), whole)
    value = equation.builder.as_expression(value, equation.name)
    is_here = equation.pointwise("less(0, a)", reshape(last, seen), bits=8)
    return [equation.pointwise("select(a, b, c)", is_here, rows, broadcast(value, value.shape), bits=equation.bits)]


SCATTERS: dict[str, Callable[[Equation], list[Value]]] = {
    "dynamic_update_slice": updated_slice,
    "scatter": written,
    **dict.fromkeys(_COMBINED, combined),
}
"""By the name of the primitive."""
