"""Values that are looked up, put in order or chosen; products with one matrix for each group of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from einmap.einsum.operation import Apply, Number, Operand, Reduction
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import LookedUp, Use
from einmap.frontends.cascade.values import Value, known, reshape, stored
from einmap.frontends.jax.contractions import dot_general, labels_of_product
from einmap.frontends.jax.equation import Equation


def sliced_at(equation: Equation) -> list[Value]:
    """dynamic_slice: a projection at places that are known; at others rows that are looked up, axis by axis."""
    value, *places = equation.operands
    for axis, (place, count) in enumerate(zip(places, equation.params["slice_sizes"], strict=True)):
        last = value.shape[axis] - int(count)
        if place.array is not None or not last:
            start = min(max(0, int(place.array.reshape(-1)[0])), last) if place.array is not None else 0
            value = equation.take(value, axis, start, 1, int(count))
            continue
        steps = known(np.arange(int(count), dtype=np.float64), place.bits)
        where = equation.pointwise(f"min(max(a, 0), {last}) + b", reshape(place, (1,)), steps)
        value = equation.gathered(value, [(axis, replace(where, nonnegative=True))])
    return [value]


def gathered(equation: Equation) -> list[Value]:
    """gather: slices of a table at places that are looked up, in batches or not.

    An axis that is looked up gives the indices from the place on, or all, where the place can only be 0.
    """
    table, places = equation.operands
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    labels = [f"p{axis}" for axis in range(len(places.shape) - 1)]
    batches = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    dropped = {*numbers.collapsed_slice_dims, *batches}
    lookups: list[tuple[Value, Sequence[str]]] = []
    uses: list[str | int] = []
    windows: list[str] = []
    for axis, size in enumerate(sizes):
        use: str | int = f"x{axis}"
        if axis in batches:
            use = labels[batches[axis]]
        elif size < table.shape[axis] and axis not in numbers.start_index_map:
            table = equation.take(table, axis, 0, 1, int(size))
        elif size < table.shape[axis]:
            column = equation.take(places, len(labels), numbers.start_index_map.index(axis), 1, 1)
            column = reshape(column, places.shape[:-1])
            use = len(lookups)
            if size == 1:
                lookups.append((_plain_index(column, table.shape[axis]), labels))
            else:
                where = _window(equation, column, int(size), table.shape[axis] - int(size))
                lookups.append((where, [*labels, f"x{axis}"]))
                windows.append(f"x{axis}")
        uses.append(use)
    kept = iter(use if isinstance(use, str) else f"x{axis}" for axis, use in enumerate(uses) if axis not in dropped)
    batch = iter(labels)
    offsets = set(numbers.offset_dims)
    out = [next(kept) if place in offsets else next(batch) for place in range(len(equation.shape))]
    if not lookups:
        raise NotExpressible("it looks up in axes of one index")
    seen = {*(use for use in uses if isinstance(use, str)), *labels, *windows}
    found = equation.looked_up(table, uses, lookups, [label for label in out if label in seen])
    return [reshape(found, equation.shape)]


def _window(equation: Equation, column: Value, size: int, last: int) -> Value:
    """The indices of windows that begin at places, along an axis behind those; held inside where JAX holds them."""
    numbers = np.arange(size, dtype=np.float64)
    is_held = equation.params["mode"].name == "CLIP"
    if column.array is not None:
        start = np.clip(column.array, 0, last) if is_held else np.asarray(column.array)
        return known(start[..., None] + numbers, column.bits)
    text = f"min(max(a, 0), {last}) + b" if is_held else "a + b"
    where = equation.pointwise(text, reshape(column, (*column.shape, 1)), known(numbers, column.bits))
    return replace(equation.builder.written(where, f"{equation.name}_places"), nonnegative=True)


def _plain_index(value: Value, size: int) -> Value:
    """Indices that are known not to be negative: JAX has counted those from the end that were.

    Where they are those of an argument, these stand for them: their values are counted when they come in.
    """
    match value.expression:
        case Apply("select", (Apply("less", (a, Number(0.0))), Apply("add", (b, Number(n))), c)) if (
            a == b == c and n == size
        ):
            if isinstance(a, Operand) and len(value.leaves) == 1 and isinstance(value.leaves[0].tensor.source, str):
                return stored(value.leaves[0])
            return replace(value, nonnegative=True)
        case _:
            return value


def largest(equation: Equation) -> list[Value]:
    """top_k: the largest values of an axis, and their places."""
    return [*equation.largest(equation.operands[0], int(equation.params["k"]), int(equation.params["axis"]))]


def in_order(equation: Equation) -> list[Value]:
    """sort: values of an axis from the smallest on; other operands go with them.

    By several keys it sorts by each, the last one first: equal values stay in the order in which they are.
    """
    found, axis = list(equation.operands), int(equation.params["dimension"])
    size = found[0].shape[axis]
    if size < 2:
        return found
    numbers = np.arange(size).reshape([-1 if i == axis else 1 for i in range(len(found[0].shape))])
    for key in reversed(range(int(equation.params["num_keys"]))):
        values, places = equation.largest(found[key], size, axis, smallest=True)
        for i, other in enumerate(found):
            is_place = other.array is not None and bool((np.asarray(other.array) == numbers).all())
            found[i] = values if i == key else places if is_place else equation.elements(other, axis, places)
    return found


def first_extreme(equation: Equation) -> list[Value]:
    """argmax and argmin: the first place of the largest or smallest value of an axis."""
    (value,) = equation.operands
    (axis,) = equation.params["axes"]
    kind: Reduction = "max" if equation.primitive == "argmax" else "min"
    value = equation.builder.written(value, f"{equation.name}_input")
    labels = [f"x{i}" for i in range(len(value.shape))]
    kept = [label for i, label in enumerate(labels) if i != axis]
    name, size = equation.name, value.shape[axis]
    end = equation.builder.einsum(f"{name}_value", [(value, labels)], kept, Operand("0"), value.bits, reduction=kind)
    places = known(np.arange(size, dtype=np.float64), 32)
    operands: list[tuple[Value, Sequence[Use]]] = [(value, labels), (end, kept), (places, [labels[axis]])]
    which = expression_of(f"select(equal(a, b), c, {size})", 3)
    found = equation.builder.einsum(name, operands, kept, which, equation.bits, reduction="min")
    return [replace(found, nonnegative=True)]


def ragged(equation: Equation) -> list[Value]:
    """ragged_dot_general: each row is multiplied with the matrix of its group; the groups follow one another."""
    x, w, sizes = equation.operands
    numbers = equation.params["ragged_dot_dimension_numbers"]
    pairs = numbers.dot_dimension_numbers
    (axis,) = numbers.lhs_ragged_dimensions
    if axis in pairs[1][0]:
        return dot_general(replace(equation, operands=(x, w), params={"dimension_numbers": pairs}))
    if len(sizes.shape) != 1 or equation.params.get("group_offset") is not None:
        raise NotExpressible("its groups are of other sizes in each batch, or begin with another")
    first, second, out = labels_of_product(pairs, len(x.shape), len(w.shape))
    group = _groups(equation, sizes, x.shape[axis])
    text = expression_of("a * b", 2)
    if numbers.rhs_group_dimensions:
        (groups,) = numbers.rhs_group_dimensions
        if w.shape[groups] < 2:
            raise NotExpressible("it has one group")
        uses: list[Use] = [LookedUp(2) if i == groups else label for i, label in enumerate(second)]
        kept = [label for label in out if label != second[groups]]
        operands: list[tuple[Value, Sequence[Use]]] = [(x, first), (w, uses), (group, [first[axis]])]
        return [equation.builder.einsum(equation.name, operands, kept, text, equation.bits, weight=1)]
    n = sizes.shape[0]
    equation.say(
        f"each sum over rows of its {n} groups has a point for each group and row, as no Einsum scatters: "
        f"{n} times the products that there are"
    )
    number = known(np.arange(n, dtype=np.float64), 32)
    operands = [(x, first), (w, second), (group, [first[axis]]), (number, ["group"])]
    text = expression_of("a * b * equal(c, d)", 4)
    return [equation.builder.einsum(equation.name, operands, ["group", *out], text, equation.bits, weight=1)]


def _groups(equation: Equation, sizes: Value, rows: int) -> Value:
    """The group of each row: how many groups end before it; -1, a row of zeros, behind the last one."""
    n, name = sizes.shape[0], equation.name
    if sizes.array is not None:
        ends = np.cumsum(sizes.array)
        which = (np.arange(rows)[:, None] >= ends).sum(1)
        return known(np.where(which < n, which, -1).astype(np.float64), 32)
    number = known(np.arange(n, dtype=np.float64), 32)
    other = equation.builder.copied(number, f"{name}_numbers")
    of_ends: list[tuple[Value, Sequence[Use]]] = [(sizes, ["h"]), (number, ["g"]), (other, ["h"])]
    up_to = expression_of("a * (1 - less(b, c))", 3)
    end = equation.builder.einsum(f"{name}_ends", of_ends, ["g"], up_to, 32)
    row = known(np.arange(rows, dtype=np.float64), 32)
    before = expression_of("1 - less(a, b)", 2)
    found = equation.builder.einsum(f"{name}_before", [(row, ["m"]), (end, ["g"])], ["m"], before, 32)
    where = equation.pointwise(f"select(less(a, {n}), a, -1)", found)
    return replace(equation.builder.written(where, f"{name}_group"), nonnegative=True)


LOOKUPS: dict[str, Callable[[Equation], list[Value]]] = {
    "dynamic_slice": sliced_at,
    "gather": gathered,
    "top_k": largest,
    "sort": in_order,
    "argmax": first_extreme,
    "argmin": first_extreme,
    "ragged_dot_general": ragged,
}
"""By the name of the primitive."""
