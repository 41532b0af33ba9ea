"""A cascade by NumPy, one Einsum after another, and by what PyTorch has for attention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy as np

from einmap.bench.compiler import aligned
from einmap.bench.libraries import Contender
from einmap.bench.values import Array, by_numpy, computed, operands_in
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.numeric import REDUCE
from einmap.einsum.operation import Apply, Operand
from einmap.einsum.spaces.recurrence import Recurrence
from einmap.emit.fast.builder import scale_of
from einmap.emit.fast.cascade import Cascade
from einmap.emit.fast.causal import bound_of
from einmap.errors import NotSupportedError


def fractions_of(cascade: Cascade, dtype: np.dtype[Any]) -> dict[str, Array]:
    """Inputs from -1 to 1, deterministic."""
    rng = np.random.default_rng(0)
    made = {}
    for tensor in cascade.inputs:
        made[tensor] = aligned(cascade.shapes[tensor], dtype)
        made[tensor][...] = rng.uniform(-1, 1, cascade.shapes[tensor])
    return made


def one_by_one(cascade: Cascade, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by NumPy: products by `matmul`, maps in the memory of what nothing reads any more."""
    values = dict(inputs)
    einsums = {einsum.name: einsum for einsum in cascade.einsums}
    recurrences = cascade.schedule.workload.recurrences
    steps = {recurrence.einsums[0]: recurrence for recurrence in recurrences}
    stepping = {name for recurrence in recurrences for name in recurrence.einsums}
    for number, (name, einsum) in enumerate(einsums.items()):
        if (recurrence := steps.get(name)) is not None:
            _step(recurrence, cascade, values)
        if name in stepping:
            continue
        later = {t for other in cascade.einsums[number + 1 :] for t in other.inputs}
        dying = {t for t in einsum.inputs if t not in later and t not in inputs}
        (output,) = einsum.outputs
        values[output] = _computed(einsum, values, dying)
        for tensor in dying:
            del values[tensor]
    return {t: values[t] for t in cascade.outputs}


def _step(recurrence: Recurrence, cascade: Cascade, values: dict[str, Array]) -> None:
    """All steps of a recurrence: `values` get what its states are after the last one, and what others read of it."""
    time, within = recurrence.variable, [e for e in cascade.einsums if e.name in recurrence.einsums]
    made = {t for e in within for t in e.outputs}
    elsewhere = {t for e in cascade.einsums if e not in within for t in e.inputs} | {*cascade.outputs}
    axes = {
        a.tensor: [str(i) for _, i in a.projection].index(time) for e in within for a in e.accesses if _has(a, time)
    }
    kept: dict[str, list[Array]] = {t: [] for t in made & elsewhere if t not in recurrence.states}
    like = next(iter(values.values()))
    now = {state: np.zeros(cascade.shapes[state], like.dtype) for state in recurrence.states}
    for step in range(within[0].extents[time]):
        now |= {t: values[t].take([step], axes[t]) if t in axes else values[t] for e in within for t in e.inputs - made}
        for einsum in within:
            (output,) = einsum.outputs
            bounds = tuple((v, 1 if v == time else n) for v, n in einsum.bounds)
            found = _computed(replace(einsum, bounds=bounds), now, set())
            is_wide = found.dtype != like.dtype  # numbers such as -1e300 are of 64 bits
            least, most = np.finfo(like.dtype).min, np.finfo(like.dtype).max
            now[output] = np.clip(found, least, most).astype(like.dtype) if is_wide else found
        for tensor, parts in kept.items():
            parts.append(now[tensor])
    values |= {state: now[state] for state in recurrence.states}
    values |= {tensor: np.concatenate(parts, axes[tensor]) for tensor, parts in kept.items()}


def _has(access: TensorAccess, time: str) -> bool:
    """Whether a rank is indexed by a variable alone. NotSupportedError where it is a part of an index."""
    if any(time in dict(index.terms) and str(index) != time for _, index in access.projection):
        raise NotSupportedError(
            f"NumPy steps through {access.tensor!r} by other than {time!r}; leave out what it compares"
        )
    return any(str(index) == time for _, index in access.projection)


def contenders(cascade: Cascade, inputs: Mapping[str, Array]) -> Iterator[Contender]:
    """NumPy, and, where PyTorch is installed and the cascade is attention, its fused function."""
    (output, *_) = cascade.outputs
    kept: dict[str, Array] = {}
    yield Contender("NumPy, one by one", lambda: kept.update(one_by_one(cascade, inputs)), lambda: kept[output])
    if (tensors := attention_of(cascade)) is not None and find_spec("torch") is not None:
        q, k, v = (inputs[t] for t in tensors)
        scale = scale_of(cascade.einsums[0].operation.map)
        assert scale is not None  # as it is attention
        yield _torch(q, k, v, scale)


def attention_of(cascade: Cascade) -> tuple[str, str, str] | None:
    """Queries, keys and values of a cascade that is attention with the safe softmax; None for any other."""
    einsums = cascade.einsums
    if len(einsums) != 6:
        return None
    scores, largest, powers, sums, products, result = (next(iter(e.outputs)) for e in einsums)
    ranks = {a.tensor: tuple(str(index) for _, index in a.projection) for e in einsums for a in e.accesses}
    inputs = [[a.tensor for a in e.accesses if not a.output] for e in (einsums[0], einsums[4])]
    if any(len(pair) != 2 or len(ranks[scores]) < 2 for pair in inputs):
        return None
    (q, k), others = inputs[0], [t for t in inputs[1] if t != powers]
    *batch, m, p = ranks[scores]
    e, f = ranks[q][-1:], ranks[result][-1:]
    plain = Operand(scores), Operand(powers)
    maps = [einsum.operation.map for einsum in einsums]
    wanted = [plain[0], Apply("exp", (Apply("subtract", (plain[0], Operand(largest))),)), plain[1]]
    is_attention = (
        scale_of(maps[0]) is not None
        and scale_of(maps[4]) == 1
        and maps[1:4] == wanted
        and maps[5] == Apply("divide", (Operand(products), Operand(sums)))
        and [einsum.operation.reduction for einsum in einsums] == ["sum", "max", "sum", "sum", "sum", "sum"]
        and len(others) == 1
        and (ranks[q], ranks[k], ranks[others[0]]) == ((*batch, m, *e), (*batch, p, *e), (*batch, p, *f))
        and ranks[largest] == ranks[sums] == (*batch, m)
        and ranks[powers] == ranks[scores]
        and ranks[products] == ranks[result] == (*batch, m, *f)
    )
    return (q, k, others[0]) if is_attention else None


def _torch(q: Array, k: Array, v: Array, scale: float) -> Contender:
    torch: Any = import_module("torch")
    tensors = [torch.from_numpy(values) for values in (q, k, v)]
    kept: list[Any] = []

    def run() -> None:
        with torch.no_grad():
            kept[:] = [torch.nn.functional.scaled_dot_product_attention(*tensors, scale=scale)]

    return Contender("PyTorch scaled_dot_product_attention", run, lambda: np.asarray(kept[0].contiguous()))


def _computed(einsum: Einsum, values: Mapping[str, Array], dying: set[str]) -> Array:
    """One Einsum; its values may take the memory of one of `dying`."""
    (output,) = einsum.outputs
    ranks = {a.tensor: [v for _, index in a.projection for v, _ in index.terms] for a in einsum.accesses}
    written = ranks[output]
    summed = [v for v in einsum.rank_variables if v not in written]
    scale = scale_of(einsum.operation.map)
    if scale is not None and len(einsum.inputs) > 1 and summed and einsum.operation.reduction == "sum":
        found = _product(einsum, ranks, values)
        return found if scale == 1 else np.multiply(found, found.dtype.type(scale), out=found)
    order, extents = [*written, *summed], dict(einsum.bounds)
    seen = {}
    for tensor in einsum.inputs:
        held = ranks[tensor]
        turned = values[tensor].transpose(sorted(range(len(held)), key=lambda axis: order.index(held[axis])))
        seen[tensor] = turned.reshape([extents[v] if v in held else 1 for v in order])
    assert einsum.operation.map is not None
    read = list(operands_in(einsum.operation.map))
    rooms = [seen[t] for t in dying if ranks[t] == order and read.count(t) == 1]
    found = computed(einsum.operation.map, seen, rooms[0] if rooms else None)
    whole = tuple(extents[v] for v in order)
    if found.shape != whole:
        found = np.broadcast_to(found, whole)
    if (bound := bound_of(einsum)) is not None:
        first = {"sum": 0, "max": -np.inf, "min": np.inf}[einsum.operation.reduction]
        inside = _along(bound.variable, order, extents) <= _along(bound.row, order, extents) + bound.more
        found = np.where(inside, found, found.dtype.type(first))
    if not summed:
        return np.asarray(found)
    result: Array = REDUCE[einsum.operation.reduction][0].reduce(found, axis=tuple(range(len(written), len(order))))
    return result


def _along(variable: str, order: list[str], extents: Mapping[str, int]) -> Array:
    """The values of a rank variable, along its axis among those of `order`."""
    return np.arange(extents[variable]).reshape([extents[v] if v == variable else 1 for v in order])


def _product(einsum: Einsum, ranks: Mapping[str, list[str]], values: Mapping[str, Array]) -> Array:
    """A product of two tensors by `matmul`, in batches, where its ranks allow that; else by `einsum`."""
    (output,) = einsum.outputs
    left, right, *more = [a.tensor for a in einsum.accesses if not a.output]
    a, b, c = (ranks[t] for t in (left, right, output))
    batch = [v for v in c if v in a and v in b]
    m, n = [v for v in c if v not in b], [v for v in c if v not in a]
    k = [v for v in a if v not in c]
    is_plain = all(str(i) in einsum.rank_variables for access in einsum.accesses for _, i in access.projection)
    if more or not is_plain or {*batch, *m, *k} != {*a} or {*batch, *n, *k} != {*b}:
        return by_numpy(einsum, values)
    extents = dict(einsum.bounds)

    def matrices(tensor: str, held: list[str], rows: list[str], columns: list[str]) -> Array:
        turned = values[tensor].transpose([held.index(v) for v in (*batch, *rows, *columns)])
        shape = [extents[v] for v in batch], [prod(extents[v] for v in part) for part in (rows, columns)]
        return turned.reshape([*shape[0], *shape[1]])

    found = np.matmul(matrices(left, a, m, k), matrices(right, b, k, n))
    order = [*batch, *m, *n]
    shaped = found.reshape([extents[v] for v in order]).transpose([order.index(v) for v in c])
    return np.ascontiguousarray(shaped)
