"""Some values of a workload, from the values that they need: those of whole tensors without computing whole tensors.

What is wanted of a tensor is a product of coordinates, one set for each rank. From the last Einsum to the first, each
rank variable gets the values that the wanted coordinates need (all, where it is reduced), and what is read becomes
wanted. The sets may hold more than is needed (of `16*h + f` all heads with all features), never less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.functions import apply
from einmap.einsum.gather import refuse_gathers
from einmap.einsum.numeric import REDUCE, rank_sizes, write_block
from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.einsum.spaces.projection import Affine, Rank, RankVar
from einmap.einsum.spaces.space import inside_of, parse_constraint
from einmap.einsum.workload import Workload
from einmap.errors import SpecError

type Coordinates = NDArray[np.int64]
"""Coordinates in ascending order, each once."""
type Values = NDArray[np.float64]

MAX_COORDINATES = 2**26
"""Values of a rank variable that are listed; more are refused."""
CHUNK = 2**20
"""Points that are evaluated at a time, where the operation is not a product."""
CHUNK_VALUES = 2**24
"""Values of an operand that are taken in float64 at a time, where it is."""


@dataclass(frozen=True)
class Needed:
    """Coordinates needed for the values that are wanted.

    `tensors`: coordinates of each rank of each tensor, in the order of `numeric.rank_sizes`; `variables`: values of
    each rank variable of each Einsum that is needed, in the order of the Einsum.
    """

    workload: Workload
    tensors: Mapping[TensorName, Mapping[Rank, Coordinates]]
    variables: Mapping[str, Mapping[RankVar, Coordinates]]

    def points(self, einsum: str) -> int:
        """Points of an Einsum that are evaluated; 0 where nothing of it is needed."""
        values = self.variables.get(einsum)
        return 0 if values is None else math.prod(len(one) for one in values.values())

    def values(self, tensor: TensorName) -> int:
        """Values of a tensor that are needed."""
        ranks = self.tensors.get(tensor)
        return 0 if ranks is None else math.prod(len(one) for one in ranks.values())


def needed_for(workload: Workload, wanted: Mapping[TensorName, Mapping[Rank, Coordinates]]) -> Needed:
    """Coordinates that the values `wanted` need, themselves included. Raises SpecError for ranks that are too long."""
    refuse_gathers(workload.einsums, "a part of a result")
    for einsum in workload.einsums:
        for variable, extent in einsum.bounds:
            if extent > MAX_COORDINATES:
                raise SpecError(
                    f"rank variable {variable!r} of Einsum {einsum.name!r} has {extent:,} values; at most "
                    f"{MAX_COORDINATES:,} are listed for a part of a result",
                    hint="choose smaller rank sizes",
                )
    sizes = rank_sizes(workload)
    tensors: dict[TensorName, dict[Rank, Coordinates]] = {t: dict(ranks) for t, ranks in wanted.items()}
    variables: dict[str, dict[RankVar, Coordinates]] = {}
    for einsum in reversed(workload.einsums):
        asked = [access for access in einsum.accesses if access.output and access.tensor in tensors]
        if not asked:
            continue
        values = reduce(_both, (_variables(einsum, access, tensors[access.tensor]) for access in asked))
        variables[einsum.name] = values
        for access in einsum.accesses:
            if access.output:
                continue
            ranks = tensors.setdefault(access.tensor, {})
            for rank, index in access.projection:
                # outside of the iteration space an index may lie beyond its tensor
                found = _indices(index, values)
                found = found[(found >= 0) & (found < sizes[access.tensor][rank])]
                found = found if len(found) else np.zeros(1, dtype=np.int64)
                ranks[rank] = _union(ranks[rank], found) if rank in ranks else found
    ordered = {tensor: {rank: ranks[rank] for rank in sizes[tensor]} for tensor, ranks in tensors.items()}
    return Needed(workload, ordered, variables)


def _variables(einsum: Einsum, access: TensorAccess, wanted: Mapping[Rank, Coordinates]) -> dict[RankVar, Coordinates]:
    """For each rank variable the values with which some wanted coordinate of a result is written."""
    first = dict(einsum.first_values)
    values = {v: np.arange(first.get(v, 0), first.get(v, 0) + n, dtype=np.int64) for v, n in einsum.bounds}
    for rank, index in access.projection:
        for variable, factor in index.terms:
            others = tuple((v, a) for v, a in index.terms if v != variable)
            rest = _indices(Affine(others, index.constant), values)
            reached = (factor * values[variable][:, None] + rest[None, :]).ravel()
            hit = np.isin(reached, wanted[rank]).reshape(len(values[variable]), -1).any(axis=1)
            values[variable] = values[variable][hit]
    return values


def _both(left: Mapping[RankVar, Coordinates], right: Mapping[RankVar, Coordinates]) -> dict[RankVar, Coordinates]:
    return {variable: _union(values, right[variable]) for variable, values in left.items()}


def _union(left: Coordinates, right: Coordinates) -> Coordinates:
    return left if np.array_equal(left, right) else np.union1d(left, right)


def _indices(index: Affine, values: Mapping[RankVar, Coordinates]) -> Coordinates:
    """All values of an index, ascending."""
    if len(index.terms) == 1 and index.terms[0][1] > 0:
        ((variable, factor),) = index.terms
        return factor * values[variable] + index.constant
    found = np.array([index.constant], dtype=np.int64)
    for variable, factor in index.terms:
        found = np.unique(found[:, None] + factor * values[variable][None, :])
    return found


# evaluation


def evaluate_slices(needed: Needed, inputs: Mapping[TensorName, NDArray[Any]]) -> dict[TensorName, Values]:
    """The needed values of every tensor that an Einsum writes, in float64, with the axes of `Needed.tensors`.

    `inputs`: whole graph inputs, with the axes of `numeric.shapes`. Sums are taken in another order than
    `numeric.run` takes them. Elements that no point writes are 0.
    """
    held: dict[TensorName, Values] = {}
    with np.errstate(all="ignore"):
        for einsum in needed.workload.einsums:
            if einsum.name in needed.variables:
                read = {
                    access.tensor: held[access.tensor] if access.tensor in held else _taken(needed, inputs, access)
                    for access in einsum.accesses
                    if not access.output
                }
                held |= _evaluated(needed, einsum, read)
    return held


def _taken(needed: Needed, inputs: Mapping[TensorName, NDArray[Any]], access: TensorAccess) -> NDArray[Any]:
    """The needed part of a graph input, without a copy where all of it is needed."""
    whole = inputs[access.tensor]
    for axis, coordinates in enumerate(needed.tensors[access.tensor].values()):
        if len(coordinates) < whole.shape[axis]:
            whole = whole.take(coordinates, axis=axis)
    return whole


def _evaluated(needed: Needed, einsum: Einsum, read: Mapping[TensorName, NDArray[Any]]) -> dict[TensorName, Values]:
    if is_product(einsum):
        (access,) = (access for access in einsum.accesses if access.output)
        return {access.tensor: _product(needed, einsum, access, read)}
    return _point_by_point(needed, einsum, read)


def is_product(einsum: Einsum) -> bool:
    """Whether an Einsum is one sum of products of operands, each rank indexed by a rank variable of its own."""
    outputs = [access for access in einsum.accesses if access.output]
    plain = all(
        len(names := [str(index) for _, index in access.projection]) == len(set(names))
        and all(index.terms == ((str(index), 1),) for _, index in access.projection)
        for access in einsum.accesses
    )
    is_sum = not einsum.is_copy and einsum.operation.reduction == "sum" and not einsum.cuts and not einsum.first_values
    factors = _factors(einsum.operation.map)
    if not (plain and is_sum and len(outputs) == 1 and factors is not None):
        return False
    read = {variable for tensor in factors[0] for variable in einsum.by_tensor[tensor].variables}
    return read == set(einsum.rank_variables)


def _factors(expression: MapExpression | None) -> tuple[list[TensorName], float] | None:
    """The operands and the number of a product; None for anything else."""
    match expression:
        case Operand(tensor):
            return [tensor], 1.0
        case Number(value):
            return [], float(value)
        case Apply("multiply", arguments):
            parts = [_factors(argument) for argument in arguments]
            if any(part is None for part in parts):
                return None
            known = [part for part in parts if part is not None]
            return [t for tensors, _ in known for t in tensors], math.prod(number for _, number in known)
    return None


def _product(needed: Needed, einsum: Einsum, output: TensorAccess, read: Mapping[TensorName, NDArray[Any]]) -> Values:
    """By `numpy.einsum`, along the longest rank variable of the largest operand piece by piece."""
    factors = _factors(einsum.operation.map)
    assert factors is not None
    tensors, number = factors
    values = needed.variables[einsum.name]
    letter = {variable: position for position, variable in enumerate(values)}
    operands = {tensor: _along(needed, einsum.by_tensor[tensor], values, read[tensor]) for tensor in tensors}
    kept = [str(dict(output.projection)[rank]) for rank in needed.tensors[output.tensor]]
    largest = max(tensors, key=lambda tensor: operands[tensor].size)
    axes = {tensor: [str(index) for index in _ordered(needed, einsum.by_tensor[tensor])] for tensor in tensors}
    cut = max(axes[largest], key=lambda variable: len(values[variable]), default=None)
    length = len(values[cut]) if cut else 1
    step = max(1, length * CHUNK_VALUES // max(operands[largest].size, 1))
    shape = [len(values[variable]) for variable in kept]
    total = np.zeros(shape)
    for start in range(0, length, step):
        piece = slice(start, start + step)
        arguments: list[Any] = []
        for tensor in tensors:
            part = operands[tensor]
            if cut in axes[tensor]:
                part = part[(slice(None),) * axes[tensor].index(cut) + (piece,)]
            arguments += [part.astype(np.float64), [letter[variable] for variable in axes[tensor]]]
        found = number * np.einsum(*arguments, [letter[variable] for variable in kept], optimize=True)
        if cut in kept:
            total[(slice(None),) * kept.index(cut) + (piece,)] = found
        else:
            total += found
    whole = np.zeros([len(one) for one in needed.tensors[output.tensor].values()])
    # what is wanted beyond the end of a rank variable is written by no point
    pairs = zip(needed.tensors[output.tensor].values(), kept, strict=True)
    whole[np.ix_(*(np.searchsorted(coordinates, values[variable]) for coordinates, variable in pairs))] = total
    return whole


def _ordered(needed: Needed, access: TensorAccess) -> list[Affine]:
    """The indices of an access in the order of the axes of its values."""
    by_rank = dict(access.projection)
    return [by_rank[rank] for rank in needed.tensors[access.tensor]]


def _along(
    needed: Needed, access: TensorAccess, values: Mapping[RankVar, Coordinates], array: NDArray[Any]
) -> NDArray[Any]:
    """The values that an Einsum reads of an operand, whose axes have the values of its rank variables."""
    pairs = zip(_ordered(needed, access), needed.tensors[access.tensor].values(), strict=True)
    for axis, (index, coordinates) in enumerate(pairs):
        read = values[str(index)]
        if len(read) < len(coordinates):
            array = array.take(np.searchsorted(coordinates, read), axis=axis)
    return array


def _point_by_point(
    needed: Needed, einsum: Einsum, read: Mapping[TensorName, NDArray[Any]]
) -> dict[TensorName, Values]:
    """The operation at every point, and values that share an element reduced to it, as `numeric.compute` has it."""
    combine, start = (None, 0.0) if einsum.is_copy else REDUCE[einsum.operation.reduction]
    expression = Operand(min(einsum.inputs)) if einsum.is_copy else einsum.operation.map
    assert expression is not None
    outputs = [access for access in einsum.accesses if access.output and access.tensor in needed.tensors]
    results = {access.tensor: np.full(needed.values(access.tensor), start) for access in outputs}
    written = {tensor: np.zeros(result.shape, dtype=bool) for tensor, result in results.items()}
    constraints = [parse_constraint(text) for text in einsum.cuts]
    for block in _blocks(needed.variables[einsum.name]):
        shape = tuple(values.size for values in block.values())
        places = {access.tensor: _places(needed, access, block)[0] for access in einsum.accesses if not access.output}
        values = np.broadcast_to(_value(expression, {t: read[t].ravel()[at] for t, at in places.items()}), shape)
        inside = inside_of(constraints, block) if constraints else np.ones((), dtype=bool)
        for access in outputs:
            where, is_wanted = _places(needed, access, block)
            taken = np.broadcast_to(inside & is_wanted, shape)
            here = write_block(results[access.tensor], where, np.where(taken, values, start), combine, taken)
            written[access.tensor][here] = True
    made = {}
    for tensor, result in results.items():
        result[~written[tensor]] = 0.0
        made[tensor] = result.reshape([len(one) for one in needed.tensors[tensor].values()])
    return made


def _blocks(variables: Mapping[RankVar, Coordinates]) -> Iterator[dict[RankVar, Coordinates]]:
    """The points in chunks, last variables fastest; each variable along an axis of its own."""
    room, steps = CHUNK, dict[RankVar, int]()
    for variable in reversed(list(variables)):
        steps[variable] = max(1, min(len(variables[variable]), room))
        room //= steps[variable]
    pieces = []
    for axis, (variable, values) in enumerate(variables.items()):
        shape = tuple(-1 if other == axis else 1 for other in range(len(variables)))
        step = steps[variable]
        pieces.append([values[i : i + step].reshape(shape) for i in range(0, len(values), step)])
    for chosen in product(*pieces):
        yield dict(zip(variables, chosen, strict=True))


def _places(
    needed: Needed, access: TensorAccess, block: Mapping[RankVar, Coordinates]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where the element of each point stands among the flat needed values, and whether it is one of them."""
    place: Any = np.zeros((1,) * len(block), dtype=np.int64)
    is_needed: Any = np.ones((1,) * len(block), dtype=bool)
    by_rank = dict(access.projection)
    for rank, coordinates in needed.tensors[access.tensor].items():
        index: Any = np.full((1,) * len(block), by_rank[rank].constant, dtype=np.int64)
        for variable, factor in by_rank[rank].terms:
            index = index + factor * block[variable]
        at = np.searchsorted(coordinates, index).clip(max=len(coordinates) - 1)
        is_needed = is_needed & (coordinates[at] == index)
        place = place * len(coordinates) + at
    return place, is_needed


def _value(expression: MapExpression, read: Mapping[TensorName, Values]) -> Values:
    match expression:
        case Operand(tensor):
            return read[tensor].astype(np.float64)
        case Number(value):
            return np.asarray(value, dtype=np.float64)
        case Apply(function, arguments):
            result: Values = apply(function, *(_value(argument, read) for argument in arguments))
            return result
