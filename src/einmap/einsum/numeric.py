"""Plain numpy evaluation of a workload: the meaning of everything else.

Every point of the iteration space gives one value of the map expression; the values of points that share an
element of the output are reduced to it. Elements that no point writes are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.functions import FUNCTIONS, apply
from einmap.einsum.gather import gathered_rows, index_sizes
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Reduction, operands
from einmap.einsum.spaces.projection import Projection, Rank, RankVar, Relevance, Written
from einmap.einsum.spaces.space import inside_of, parse_constraint
from einmap.einsum.workload import Workload
from einmap.errors import SpecError, did_you_mean

type Tensor = NDArray[np.float64]
type Block = Mapping[RankVar, NDArray[np.int64]]
"""Values of each rank variable in one chunk of the iteration space, one axis for each variable."""

MAX_POINTS = 2 * 10**9
"""Points of one Einsum that are evaluated; more are refused."""
MAX_VALUES = 5 * 10**8
"""Values of one tensor that are held in memory; more are refused."""
MAX_STEPS = 10**6
"""Steps of a recurrence that are evaluated one by one; more are refused."""
CHUNK = 2**19
"""Points that are evaluated at a time."""


REDUCE: Mapping[Reduction, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0.0),
    "max": (np.maximum, -math.inf),
    "min": (np.minimum, math.inf),
}

# shapes and inputs


def shapes(workload: Workload, tensors: Iterable[TensorName] | None = None) -> dict[TensorName, tuple[int, ...]]:
    """The size of each tensor, or of some, by the rule of `rank_sizes`; SpecError for one too large to be held, too."""
    every = rank_sizes(workload)
    sizes = every if tensors is None else {tensor: every[tensor] for tensor in tensors}
    for tensor, by_rank in sizes.items():
        _check_size(tensor, by_rank.values())
    return {tensor: tuple(by_rank.values()) for tensor, by_rank in sizes.items()}


def rank_sizes(workload: Workload) -> dict[TensorName, dict[Rank, int]]:
    """The size of each rank of each tensor: the largest index that any Einsum uses, plus 1.

    Ranks are in the order of the tensor's first access in the workload. Raises SpecError when an index is negative.
    """
    sizes: dict[TensorName, dict[Rank, int]] = {}
    for einsum in workload.einsums:
        for access in einsum.accesses:
            largest = sizes.setdefault(access.tensor, {})
            for rank, size in _own_shape(einsum, access).items():
                largest[rank] = max(size, largest.get(rank, 0))
    return sizes


def graph_inputs(workload: Workload) -> tuple[TensorName, ...]:
    """The tensors that no Einsum writes, in order of first use."""
    return tuple(t for t in workload.tensors if t not in workload.producers)


def random_inputs(workload: Workload, seed: int) -> dict[TensorName, Tensor]:
    """Random values for the graph inputs, determined by `seed`.

    Integers from 1 to 4 where the whole cascade keeps integers (so that results do not depend on the order of
    sums), else numbers between 0.5 and 1.5, for which exp, log and division are harmless. Indices are indices.
    """
    rng = np.random.default_rng(seed)
    indices = index_sizes(workload.einsums)
    exact = all(e.is_copy or keeps_integers(e.operation.map) for e in workload.einsums)
    size = shapes(workload)
    inputs: dict[TensorName, Tensor] = {}
    for tensor in graph_inputs(workload):
        if tensor in indices:
            drawn = rng.integers(0, indices[tensor], size[tensor])
        else:
            drawn = rng.integers(1, 5, size[tensor]) if exact else rng.uniform(0.5, 1.5, size[tensor])
        inputs[tensor] = drawn.astype(np.float64)
    return inputs


def keeps_integers(expression: MapExpression | None) -> bool:
    """Whether integers as inputs give integers."""
    match expression:
        case None:
            return False
        case Operand():
            return True
        case Number(value):
            return value == int(value)
        case Apply(function, arguments):
            return FUNCTIONS[function].exact_on_integers and all(keeps_integers(a) for a in arguments)


def _own_shape(einsum: Einsum, access: TensorAccess) -> dict[Rank, int]:
    """Largest index of one access plus 1, rank by rank. Raises SpecError when an index is negative."""
    extents: dict[Rank, int] = {}
    ranges = einsum.index_range(access)
    for rank, index in access.written:
        low, high = ranges[rank]
        if low < 0:
            raise SpecError(
                f"Einsum {einsum.name!r} indexes rank {rank} of tensor {access.tensor!r} at {low}: {index}",
                hint="shift the index, or bound its rank variables, so that it starts at 0",
            )
        extents[rank] = high + 1
    return extents


def _check_size(tensor: TensorName, shape: Any) -> None:
    values = math.prod(shape)
    if values > MAX_VALUES:
        raise SpecError(
            f"tensor {tensor!r} has {values:,} values; at most {MAX_VALUES:,} can be evaluated",
            hint="choose smaller rank sizes",
        )


# evaluation


def run(workload: Workload, inputs: Mapping[TensorName, NDArray[Any]]) -> dict[TensorName, Tensor]:
    """Every tensor that an Einsum writes, from the graph inputs; all with the sizes and ranks of `shapes`.

    Raises SpecError when an input is missing, unknown, of another shape or not a number, and what `compute` raises.
    """
    size = shapes(workload)
    for einsum in workload.einsums:
        check_executable(einsum)
    _check_steps(workload)
    tensors = _checked_inputs(workload, inputs, size)
    ranks = first_projections(workload)
    in_steps = {name: recurrence for recurrence in workload.recurrences for name in recurrence.einsums}
    for einsum in workload.einsums:
        recurrence = in_steps.get(einsum.name)
        if recurrence is None:
            evaluate_into(einsum, tensors, ranks, size)
        elif einsum.name == recurrence.einsums[0]:
            steps = [workload.by_name[name] for name in recurrence.einsums]
            for step in range(einsum.extents[recurrence.variable]):
                for part in steps:
                    evaluate_into(_at_step(part, recurrence.variable, step), tensors, ranks, size)
    return {tensor: tensors[tensor] for tensor in workload.producers}


def evaluate_into(
    einsum: Einsum,
    tensors: dict[TensorName, Tensor],
    ranks: Mapping[TensorName, Written],
    size: Mapping[TensorName, tuple[int, ...]],
    by: Callable[[Einsum, Mapping[TensorName, Tensor]], Mapping[TensorName, Tensor]] | None = None,
) -> None:
    """Put what an Einsum writes into `tensors`; what has not been written of a tensor is 0.

    `ranks`: the order of the axes of each tensor, `size`: their sizes; `by`: what evaluates it, without, `compute`.
    """
    operands = {
        a.tensor: tensors.setdefault(a.tensor, np.zeros(size[a.tensor])).transpose(_order(ranks[a.tensor], a.written))
        for a in einsum.accesses
        if not a.output
    }
    for tensor, values in (by or compute)(einsum, operands).items():
        access = einsum.by_tensor[tensor]
        order = _order(access.projection, ranks[tensor])
        # of a step of a recurrence that which it writes, and no more
        lows = [low for low, _ in einsum.index_range(access).values()]
        whole = tensors.setdefault(tensor, np.zeros(size[tensor]))
        part = tuple(slice(lows[axis], values.shape[axis]) for axis in order)
        whole[part] = values.transpose(order)[part]


def _at_step(einsum: Einsum, variable: RankVar, step: int) -> Einsum:
    """One step of a recurrence: the Einsum with one value of its variable."""
    first = {**dict(einsum.first_values), variable: dict(einsum.first_values).get(variable, 0) + step}
    bounds = tuple((v, 1 if v == variable else n) for v, n in einsum.bounds)
    values = tuple((v, low) for v, low in first.items() if low)
    return replace(einsum, bounds=bounds, first_values=values, n_points=None)


def compute(einsum: Einsum, tensors: Mapping[TensorName, NDArray[Any]]) -> dict[TensorName, Tensor]:
    """The outputs of one Einsum from its inputs; ranks of all tensors in the order of the Einsum's own accesses.

    An output is as large as the largest index that the Einsum writes.
    Points that the Einsum's `cuts` cut off take no part. Raises SpecError for an operation that is not arithmetic, for
    inputs that are missing or too small, and for more than MAX_POINTS points in the box.
    """
    check_executable(einsum)
    flat: dict[TensorName, Tensor] = {}
    strides: dict[TensorName, tuple[int, ...]] = {}
    sizes: dict[TensorName, tuple[int, ...]] = {}
    given = {
        a.tensor: _large_enough(einsum, a, tuple(_own_shape(einsum, a).values()), tensors)
        for a in einsum.accesses
        if not a.output
    }
    for access in einsum.accesses:
        shape = tuple(_own_shape(einsum, access).values())
        if access.output:
            _check_size(access.tensor, shape)
            sizes[access.tensor] = shape
        else:
            values = gathered_rows(einsum, access, given) if access.gathered else given[access.tensor]
            flat[access.tensor], shape = values.ravel(), values.shape
        strides[access.tensor] = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))

    # a copy writes what it reads; the other reductions start from what does not change them
    combine, start = (None, 0.0) if einsum.is_copy else REDUCE[einsum.operation.reduction]
    expression = Operand(min(einsum.inputs)) if einsum.is_copy else einsum.operation.map
    assert expression is not None
    used = operands(expression)
    results = {t: np.full(math.prod(shape), start) for t, shape in sizes.items()}
    written = {t: np.zeros(math.prod(shape), dtype=bool) for t, shape in sizes.items()}
    outputs = [access for access in einsum.accesses if access.output]
    constraints = [parse_constraint(text) for text in einsum.cuts]
    with np.errstate(all="ignore"):
        for block in _blocks(einsum):
            # Outside an index may lie beyond its tensor: any element will do, as its value takes no part.
            mode: Literal["clip", "raise"] = "clip" if constraints else "raise"
            read = {t: flat[t].take(_index(einsum.by_tensor[t].projection, strides[t], block), mode=mode) for t in used}
            values = np.broadcast_to(_value(expression, read), _shape(block))
            inside = np.broadcast_to(inside_of(constraints, block), values.shape) if constraints else None
            if inside is not None:
                values = np.where(inside, values, start)
            for access in outputs:
                where = _index(access.projection, strides[access.tensor], block)
                here = write_block(results[access.tensor], where, values, combine, inside)
                written[access.tensor][here] = True
    for tensor, result in results.items():
        result[~written[tensor]] = 0
    return {tensor: result.reshape(sizes[tensor]) for tensor, result in results.items()}


def write_block(
    result: Tensor, where: NDArray[np.int64], values: Tensor, combine: np.ufunc | None, inside: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Bring the values of a block to their elements: first along axes that do not move the element.

    Values that are not `inside` of the space are those that `combine` starts from. Gives the elements written.
    """
    if combine is None:
        where = np.broadcast_to(where, values.shape)
        here, values = (where, values) if inside is None else (where[inside], values[inside])
        result[here] = values
        return here
    fixed = tuple(axis for axis, n in enumerate(where.shape) if n == 1 and values.shape[axis] > 1)
    reduced = combine.reduce(values, axis=fixed, keepdims=True) if fixed else values
    kept = np.ones(where.shape, dtype=bool) if inside is None else inside.any(axis=fixed, keepdims=True)
    combine.at(result, where[kept], reduced[kept])
    return where[kept]


def _value(expression: MapExpression, read: Mapping[TensorName, Tensor]) -> Tensor:
    match expression:
        case Operand(tensor):
            return read[tensor]
        case Number(value):
            return np.float64(value)  # type: ignore[return-value]
        case Apply(function, arguments):
            result: Tensor = apply(function, *(_value(argument, read) for argument in arguments))
            return result


def _blocks(einsum: Einsum) -> Iterator[Block]:
    """The iteration space in chunks of at most CHUNK points, last variables fastest."""
    room = CHUNK
    steps: dict[RankVar, int] = {}
    for variable, extent in reversed(einsum.bounds):
        steps[variable] = max(1, min(extent, room))
        room //= steps[variable]
    first = dict(einsum.first_values)
    axes = len(einsum.bounds)
    ranges = []
    for axis, (variable, extent) in enumerate(einsum.bounds):
        shape = tuple(-1 if other == axis else 1 for other in range(axes))
        begin = first.get(variable, 0)
        whole = np.arange(begin, begin + extent, dtype=np.int64)
        ranges.append([whole[i : i + steps[variable]].reshape(shape) for i in range(0, extent, steps[variable])])
    for chosen in product(*ranges):
        yield dict(zip(einsum.rank_variables, chosen, strict=True))


def _shape(block: Block) -> tuple[int, ...]:
    return tuple(values.size for values in block.values())


def _index(projection: Projection, strides: tuple[int, ...], block: Block) -> NDArray[np.int64]:
    """Position in the flat tensor of each point; axes of variables that do not index the tensor have length 1."""
    total: Any = np.zeros((1,) * len(block), dtype=np.int64)
    for (_, index), stride in zip(projection, strides, strict=True):
        total = total + stride * index.constant
        for variable, a in index.terms:
            total = total + stride * a * block[variable]
    positions: NDArray[np.int64] = total
    return positions


# checks


def check_executable(einsum: Einsum) -> None:
    """Raise SpecError for an operation that is not arithmetic, more than MAX_POINTS points, and what is not a copy."""
    check_operation(einsum)
    points = math.prod(einsum.extents.values())
    if points > MAX_POINTS:
        raise SpecError(
            f"Einsum {einsum.name!r} has {points:,} points; at most {MAX_POINTS:,} can be evaluated",
            hint="choose smaller rank sizes",
        )
    check_copy(einsum)


def _check_steps(workload: Workload) -> None:
    for recurrence in workload.recurrences:
        steps = workload.by_name[recurrence.einsums[0]].extents[recurrence.variable]
        if steps > MAX_STEPS:
            raise SpecError(
                f"the recurrence over {recurrence.variable!r} has {steps:,} steps; at most {MAX_STEPS:,} can be "
                "evaluated",
                hint="choose fewer steps",
            )


def check_copy(einsum: Einsum) -> None:
    """Raise SpecError for a copy where several elements of the source go to one element: it has no way to join them.

    Z[p] = A[p], Z[2*p] = A[p] and Z[p, q] = A[p + q] copy; Z[p] = A[p, q] and Z[p + q] = A[p] do not.
    """
    if not einsum.is_copy:
        return
    (source,) = (access for access in einsum.accesses if not access.output)
    for target in (access for access in einsum.accesses if access.output):
        alone = {v for v in source.variables if target.relevance(v) is Relevance.FULL}
        if source.variables <= alone:
            continue
        dropped = any(einsum.extents[v] > 1 for v in source.variables - target.variables) and not einsum.cuts
        if dropped or _is_joined(einsum, source, target):
            raise SpecError(
                f"the copy Einsum {einsum.name!r} brings several elements of {source.tensor!r} to one element of "
                f"{target.tensor!r}, so that its value is not defined",
                hint="write them to elements of their own, or leave out is_copy_operation, and they are summed",
            )


def _is_joined(einsum: Einsum, source: TensorAccess, target: TensorAccess) -> bool:
    """Whether two points read different elements of the source and write one element of the target."""
    shapes = [tuple(_own_shape(einsum, access).values()) for access in (source, target)]
    _check_size(target.tensor, shapes[1])
    strides = [tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))) for shape in shapes]
    came_from = np.full(math.prod(shapes[1]), -1, dtype=np.int64)
    constraints = [parse_constraint(text) for text in einsum.cuts]
    for block in _blocks(einsum):
        read, written = (
            np.broadcast_to(_index(access.projection, stride, block), _shape(block))
            for access, stride in zip((source, target), strides, strict=True)
        )
        if constraints:
            inside = np.broadcast_to(inside_of(constraints, block), _shape(block))
            read, written = read[inside], written[inside]
        read, written = read.ravel(), written.ravel()
        before = came_from[written]
        if (before[before >= 0] != read[before >= 0]).any():
            return True
        came_from[written] = read
        if (came_from[written] != read).any():
            return True
    return False


def check_operation(einsum: Einsum) -> None:
    """Raise SpecError for an operation that is not arithmetic."""
    if einsum.operation.map is None and not einsum.is_copy:
        raise SpecError(
            f"Einsum {einsum.name!r}: {einsum.operation.text.strip()!r} is not arithmetic that einmap can execute",
            hint=f"use numbers, tensors, + - * / ** and {', '.join(sorted(FUNCTIONS))}",
        )


def _checked_inputs(
    workload: Workload, inputs: Mapping[TensorName, NDArray[Any]], size: Mapping[TensorName, tuple[int, ...]]
) -> dict[TensorName, Tensor]:
    expected = graph_inputs(workload)
    for tensor in inputs:
        if tensor not in expected:
            raise SpecError(
                f"{tensor!r} is not a graph input of the workload",
                hint=did_you_mean(tensor, expected, listing="inputs"),
            )
    checked: dict[TensorName, Tensor] = {}
    for tensor in expected:
        if tensor not in inputs:
            raise SpecError(f"no values for the graph input {tensor!r}", hint=f"its shape is {size[tensor]}")
        values = _numbers(tensor, inputs[tensor])
        if values.shape != size[tensor]:
            raise SpecError(f"graph input {tensor!r} has shape {values.shape}, the workload needs {size[tensor]}")
        checked[tensor] = values
    return checked


def _large_enough(
    einsum: Einsum, access: TensorAccess, needed: tuple[int, ...], tensors: Mapping[TensorName, NDArray[Any]]
) -> Tensor:
    if access.tensor not in tensors:
        raise SpecError(f"Einsum {einsum.name!r} reads {access.tensor!r}, which has no values")
    values = _numbers(access.tensor, tensors[access.tensor])
    if values.ndim != len(needed) or any(have < want for have, want in zip(values.shape, needed, strict=True)):
        text = f"Einsum {einsum.name!r} reads {access.tensor!r} up to shape {needed}, its values have {values.shape}"
        raise SpecError(text)
    return values


def _numbers(tensor: TensorName, values: Any) -> Tensor:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise SpecError(f"the values of {tensor!r} must be real numbers, found {array.dtype}")
    return array.astype(np.float64, copy=False)


def first_projections(workload: Workload) -> dict[TensorName, Written]:
    """How the first Einsum that has a tensor indexes it: the order of the axes of its values."""
    projections: dict[TensorName, Written] = {}
    for einsum in workload.einsums:
        for access in einsum.accesses:
            projections.setdefault(access.tensor, access.written)
    return projections


def _order(projection: Written, target: Written) -> tuple[int, ...]:
    """The axes of a tensor with the ranks of `projection`, in the order of `target`."""
    names = [rank for rank, _ in projection]
    return tuple(names.index(rank) for rank, _ in target)
