"""Choices of the largest values, and what goes by them: rows of experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.errors import SpecError
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import LookedUp, Use
from einmap.frontends.cascade.values import MOST_KNOWN, Scaled, Value, known, number_of, reshape
from einmap.frontends.onnx.operators.call import Call

TABLE_PRODUCT, SLOTS = "einmap.TableProduct", "einmap.Slots"
"""Operators of bodies: a product with matrices of a table, and the places of rows in groups."""


def top_k(call: Call) -> list[Value]:
    """TopK."""
    value, k = call.operand(0), call.integer("k", 0) or call.known_integers(1, "how many are taken")[0]
    rank = len(value.shape)
    axis = call.axis(call.integer("axis", -1), rank)
    size = value.shape[axis]
    if not 1 <= k <= size:
        raise SpecError(f"the {k} largest of {size} values", at=call.node.at)
    return [*call.largest(value, k, axis, smallest=not call.integer("largest", 1))]


def table_product(call: Call) -> list[Value]:
    """Rows times one matrix each of a table: `y[t, j, n] = x[t, j, d] * w[E: i[t, j], n, d]`.

    Rows may be [t, d], one for all choices of t.
    """
    x, w, where = call.operand(0), call.operand(1), call.operand(2)
    if len(w.shape) != 3 or len(where.shape) != 2 or x.shape[-1:] != w.shape[2:]:
        raise SpecError(f"rows {[*x.shape]} do not fit {[*w.shape]} at {[*where.shape]}", at=call.node.at)
    if w.shape[0] < 2:
        raise NotExpressible("it chooses from one matrix")
    rows = ["t", "j", "d"] if len(x.shape) == 3 else ["t", "d"]
    scaled = w.scaled if w.scaled is not None and w.scaled.offset is None else Scaled(w)
    integers = scaled.integers
    operands: list[tuple[Value, Sequence[Use]]] = [(x, rows)]
    operands += [(integers, [LookedUp(2), "n", "d"]), (call.index(where, w.shape[0]), ["t", "j"])]
    expression: MapExpression = Operand("1")
    for function, part in (("subtract", scaled.zero), ("multiply", scaled.scale)):
        if part is None:
            continue
        assert part.expression is not None
        other: MapExpression = Number(number_of(part.expression)) if not part.leaves else Operand(str(len(operands)))
        if part.leaves:
            first: Use = LookedUp(2) if part.shape[0] > 1 else "e"
            operands.append((part, [first, "n", "d"]))
        expression = Apply(function, (expression, other))
    product = Apply("multiply", (Operand("0"), expression))
    return [call.builder.einsum(call.name, operands, ["t", "j", "n"], product, x.bits, weight=1)]


def slots(call: Call) -> list[Value]:
    """Places of rows in groups that have room for `capacity` each, from the group of each, [rows, choices]: the row at
    each place, [groups, capacity], and the place of each choice of a row, [rows, choices]; -1 for one without.
    """
    where = call.builder.written(call.operand(0), f"{call.name}_groups")
    groups, capacity = call.integer("groups", 0), call.integer("capacity", 0)
    rows, choices = where.shape
    if max(rows * choices, groups, capacity) > MOST_KNOWN:
        raise NotExpressible(f"it places {rows * choices:,} rows, at most {MOST_KNOWN:,} are")
    flat = call.reshape(where, (rows * choices,))
    number = known(np.arange(rows * choices, dtype=np.float64), 32)
    other, later = call.builder.copied(flat, f"{call.name}_other"), call.builder.copied(number, f"{call.name}_numbers")
    operands: list[tuple[Value, Sequence[Use]]] = [(flat, ["s"]), (other, ["u"]), (number, ["s"]), (later, ["u"])]
    before = expression_of("equal(a, b) * less(d, c)", 4)
    place = call.builder.einsum(f"{call.name}_before", operands, ["s"], before, 32)
    row = known(np.repeat(np.arange(1, rows + 1, dtype=np.float64), choices), 32)
    labels: list[tuple[Value, Sequence[Use]]] = [(row, ["s"]), (flat, ["s"]), (place, ["s"])]
    labels += [(known(np.arange(n, dtype=np.float64), 32), [use]) for n, use in ((groups, "e"), (capacity, "c"))]
    found = expression_of("a * equal(b, d) * equal(c, e)", 5)
    extents = {"e": groups, "c": capacity}
    taken = call.builder.einsum(f"{call.name}_rows", labels, ["e", "c"], found, 32, extents=extents)
    taken = call.builder.written(call.pointwise("a - 1", taken), f"{call.name}_row")
    kept = call.pointwise(f"select(less(a, {capacity}), a, -1)", place)
    kept = reshape(call.builder.written(kept, f"{call.name}_place"), (rows, choices))
    return [replace(taken, nonnegative=True), replace(kept, nonnegative=True)]  # -1 is a row of zeros


def slot_rows(call: Call) -> list[Value]:
    """Rows of groups at places, [groups, places, size] at groups and places of the shape [rows, choices]."""
    table, group, place = call.operand(0), call.operand(1), call.operand(2)
    return [call.gathered(table, [(0, group), (1, place)])]


CHOICES: dict[str, Callable[[Call], list[Value]]] = {
    "TopK": top_k,
    TABLE_PRODUCT: table_product,
    SLOTS: slots,
    "einmap.SlotRows": slot_rows,
}
"""By the name of the operator."""
