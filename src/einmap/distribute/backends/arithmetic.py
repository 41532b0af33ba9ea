"""A local Einsum on the arrays of one PE, for any array module with numpy's names.

What is padding never matters: before a reduction it is replaced by the neutral element. Kept ranks may carry padding
on, since nobody reads it.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from einmap.distribute.placements.indices import MixedRadix, mixed_radix
from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.placements.placement import Split
from einmap.distribute.plans.cuts import CutGroup, cut_groups
from einmap.distribute.plans.masks import inside
from einmap.distribute.plans.plan import Buffer, Dtype, Local, LocalLoop, Plan, Turn
from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.functions import apply
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Reduction, operands
from einmap.einsum.spaces.projection import Affine, Rank, RankVar

type Array = Any
type Position = Callable[[tuple[AxisName, ...]], Any]
"""The place of the PE in its group over some axes: an int, or a traced integer."""

NEUTRAL = {"sum": 0.0, "max": -math.inf, "min": math.inf}


def neutral(reduction: Reduction, dtype: Dtype) -> float:
    """A value that changes no sum, maximum or minimum of finite numbers, and is finite itself: a maximum so far, of
    which a difference is taken before anything has been seen, must not be infinite.
    """
    largest = float(np.finfo(dtype).max)
    return {"sum": 0.0, "max": -largest, "min": largest}[reduction]


@dataclass(frozen=True)
class Here:
    """One PE in one turn of the innermost loop: its position over some axes, and the turn, which may be traced."""

    position: Position
    turn: Any

    def block(self, turn: Turn) -> Any:
        """The number of the block that the PE takes."""
        place = sum(self.position(axes) for axes in turn.over)
        return (place + turn.offset + turn.stride * self.turn) % turn.count

    def coordinates(self, turn: Turn, size: int, xp: Any) -> Any:
        """The coordinates, in order, that a block of so many has in what it is cut from."""
        width = size // turn.pieces
        pieces = xp.arange(turn.pieces)[:, None] * (turn.count * width) + xp.arange(width)
        return self.block(turn) * width + pieces.reshape(-1)


@dataclass(frozen=True)
class Arrays:
    """The library that evaluates arrays: a module with numpy's names, and its product-and-sum, as `numpy.einsum`."""

    xp: Any
    einsum: Callable[..., Array]


@dataclass(frozen=True)
class View:
    """Values by rank variables: axis `i` of `values` is variable `variables[i]`."""

    variables: tuple[RankVar, ...]
    values: Array


@dataclass(frozen=True)
class Scene:
    """One local Einsum on one PE: what its parts ask for again and again."""

    einsum: Einsum
    loops: Mapping[RankVar, LocalLoop]
    here: Here
    arrays: Arrays

    @property
    def xp(self) -> Any:
        """The array module."""
        return self.arrays.xp

    def places(self, variable: RankVar) -> Any:
        """The values of the variable in the local loop, counted from its first one."""
        loop = self.loops[variable]
        if loop.turn:
            return self.here.coordinates(loop.turn, loop.block, self.xp)
        return (self.here.position(loop.axes) * loop.block if loop.axes else 0) + self.xp.arange(loop.block)

    def turn_of(self, access: TensorAccess, rank: Rank) -> Turn | None:
        """In which turns blocks of a rank are taken: those of the variable that leads its index."""
        radix = mixed_radix(self.einsum, dict(access.projection)[rank])
        return self.loops[radix.leading[0]].turn if radix and radix.leading else None

    def coordinates(self, access: TensorAccess, rank: Rank, split: Split) -> Any:
        """The coordinates that the PE has of a rank that is split."""
        if turn := self.turn_of(access, rank):
            return self.here.coordinates(turn, split.block, self.xp)
        return self.here.position(split.axes) * split.block + self.xp.arange(split.block)

    @cached_property
    def groups(self) -> tuple[CutGroup, ...]:
        """Half spaces that cut points off the box."""
        return cut_groups(self.einsum) if self.einsum.cuts else ()

    def inside(self, group: CutGroup, all_of: Sequence[RankVar] = ()) -> View:
        """Which points of the PE lie in the space, by the variables of a group; with all values of those in `all_of`,
        on whichever PE and in whichever turn.
        """
        values = [self.xp.arange(self.einsum.extents[v]) if v in all_of else self.places(v) for v in group.variables]
        return View(group.variables, inside(group, values, self.xp))

    def has_points(self, group: CutGroup, reduced: Sequence[RankVar]) -> View:
        """Which values that the PE keeps have a point, on whichever PE and in whichever turn."""
        every = self.inside(group, reduced)
        axes = tuple(axis for axis, v in enumerate(group.variables) if v in reduced)
        return View(tuple(v for v in group.variables if v not in reduced), every.values.any(axis=axes))

    def is_padded(self, variable: RankVar, parts: Callable[[tuple[AxisName, ...]], int]) -> bool:
        """Whether some PE covers values beyond the variable's extent."""
        loop = self.loops[variable]
        return loop.block * (loop.turn.count if loop.turn else parts(loop.axes)) > loop.extent


def local_einsum(
    plan: Plan, step: Local, operands: Mapping[TensorName, Array], here: Here, arrays: Arrays
) -> dict[TensorName, Array]:
    """The results of a local step by tensor, each with the shape of its buffer, from the PE's operands by tensor."""
    einsum = plan.einsum(step.einsum)
    scene = Scene(einsum, {loop.variable: loop for loop in step.loops}, here, arrays)
    views = {
        tensor: _read(scene, einsum.by_tensor[tensor], plan.by_name[name], operands[tensor])
        for tensor, name in step.operands
    }
    dtype = next(iter(operands.values())).dtype
    results = {}
    for tensor, name in step.results:
        access = einsum.by_tensor[tensor]
        reduced = [v for v in einsum.rank_variables if v not in access.variables]
        padded = [v for v in reduced if scene.is_padded(v, plan.mesh.parts)]
        kept, radices = _digits_of(scene, access, plan.by_name[name])
        value = _within(scene, _reduce(scene, views, kept, reduced, padded, dtype), kept)
        results[tensor] = _write(scene, access, value, radices, plan.by_name[name])
    return results


# reading


def _read(scene: Scene, access: TensorAccess, buffer: Buffer, values: Array) -> View:
    """An operand by rank variables."""
    order = [buffer.ranks.index(rank) for rank, _ in access.projection]
    values = scene.xp.transpose(values, order)
    variables = tuple(index.terms[0][0] for _, index in access.projection if index.terms)
    is_plain = all(_is_aligned(scene, index, buffer.placement.of(rank)) for rank, index in access.projection)
    if is_plain and len(set(variables)) == len(access.projection):
        cut = tuple(slice(scene.loops[variable].block) for variable in variables)
        return View(variables, values[cut])
    return _gather(scene, access, buffer, values)


def _is_aligned(scene: Scene, index: Affine, split: Split | None) -> bool:
    """Whether the PE's part of the rank is its part of the rank variable that is the index, place by place."""
    radix = mixed_radix(scene.einsum, index)
    if radix is None or not radix.is_variable:
        return False
    loop = scene.loops[radix.digits[0][0]]
    if split and loop.turn:
        return loop.block == split.block
    return (loop.axes, loop.block) == (split.axes, split.block) if split else not loop.is_split


def _gather(scene: Scene, access: TensorAccess, buffer: Buffer, values: Array) -> View:
    """Each point's own element. Indices beyond the buffer, which only padding has, are drawn inside."""
    variables = tuple(v for v in scene.einsum.rank_variables if v in access.variables)
    indices = []
    for axis, (rank, index) in enumerate(access.projection):
        split = buffer.placement.of(rank)
        turn = scene.turn_of(access, rank) if split else None
        where: Any = index.constant
        if split and not turn:
            where = where - scene.here.position(split.axes) * split.block
        for variable, a in index.terms:
            # of a rank that is there in blocks the values count from the block of the turn
            in_block = turn is not None and scene.loops[variable].turn == turn
            steps = scene.xp.arange(scene.loops[variable].block) if in_block else scene.places(variable)
            shape = [-1 if other == variable else 1 for other in variables]
            where = where + a * (dict(scene.einsum.first_values).get(variable, 0) + steps).reshape(shape)
        indices.append(scene.xp.clip(scene.xp.asarray(where), 0, values.shape[axis] - 1))
    return View(variables, values[tuple(indices)].reshape([scene.loops[v].block for v in variables]))


# computing


def _reduce(
    scene: Scene,
    views: Mapping[TensorName, View],
    kept: Sequence[RankVar],
    reduced: Sequence[RankVar],
    padded: Sequence[RankVar],
    dtype: Any,
) -> Array:
    """The map expression at every point, reduced; axes in the order of `kept`."""
    expression = scene.einsum.operation.map
    if scene.einsum.is_copy:
        expression = Operand(min(scene.einsum.inputs))
    assert expression is not None
    if reduced and scene.einsum.operation.reduction == "sum":
        factors = [_evaluate(scene, factor, views) for factor in _factors(expression)]
        return _contract(scene, factors, kept, reduced, padded, dtype)
    whole = _evaluate(scene, expression, views)
    order = (*kept, *reduced)
    values = _spread(scene, whole, order)
    values = scene.xp.broadcast_to(values, tuple(scene.loops[v].block for v in order)).astype(dtype)
    if not reduced:
        return values
    neutral = NEUTRAL[scene.einsum.operation.reduction]
    for variable in padded:
        values = _masked(scene, View(order, values), variable, neutral).values
    cutting = [group for group in scene.groups if not {*group.variables}.isdisjoint(reduced)]
    for group in cutting:
        values = scene.xp.where(_spread(scene, scene.inside(group), order), values, neutral)
    axes = tuple(range(len(kept), len(order)))
    found = (scene.xp.max if scene.einsum.operation.reduction == "max" else scene.xp.min)(values, axis=axes)
    for group in cutting:
        found = scene.xp.where(_spread(scene, scene.has_points(group, reduced), kept), found, 0)
    return found


def _contract(
    scene: Scene,
    factors: Sequence[View],
    kept: Sequence[RankVar],
    reduced: Sequence[RankVar],
    padded: Sequence[RankVar],
    dtype: Any,
) -> Array:
    """A sum of products. A variable that is in no factor counts its points."""
    ready = list(factors)
    covered = {variable for factor in factors for variable in factor.variables}
    for variable in (*kept, *reduced):
        if variable not in covered:
            ready.append(View((variable,), scene.xp.ones(scene.loops[variable].block, dtype)))
    for variable in padded:
        ready = [_masked(scene, factor, variable, 0.0) if variable in factor.variables else factor for factor in ready]
    for group in scene.groups:
        if not {*group.variables}.isdisjoint(reduced):
            ready = _cut(scene, ready, group, dtype)
    letter = dict(zip((*kept, *reduced), string.ascii_letters, strict=False))
    terms = ["".join(letter[v] for v in factor.variables) for factor in ready]
    subscripts = f"{','.join(terms)}->{''.join(letter[v] for v in kept)}"
    return scene.arrays.einsum(subscripts, *(scene.xp.asarray(factor.values, dtype) for factor in ready))


def _cut(scene: Scene, factors: Sequence[View], group: CutGroup, dtype: Any) -> list[View]:
    """Factors whose product is 0 outside of a group's half spaces: one that has all of its variables is, or one more.

    With one more, factors that are not finite outside of the space make the sum NaN.
    """
    within = scene.inside(group)
    for position, factor in enumerate(factors):
        if {*group.variables} <= {*factor.variables}:
            holds = _spread(scene, within, factor.variables)
            cut = View(factor.variables, scene.xp.where(holds, factor.values, 0))
            return [*factors[:position], cut, *factors[position + 1 :]]
    return [*factors, View(within.variables, scene.xp.asarray(within.values, dtype))]


def _within(scene: Scene, values: Array, kept: Sequence[RankVar]) -> Array:
    """The results, 0 where no point of the space is; axes are those of `kept`."""
    for group in scene.groups:
        if {*group.variables} <= {*kept}:
            values = scene.xp.where(_spread(scene, scene.inside(group), kept), values, 0)
    return values


def _factors(expression: MapExpression) -> list[MapExpression]:
    """Expressions whose product the expression is."""
    match expression:
        case Apply("multiply", (left, right)):
            return [*_factors(left), *_factors(right)]
        case Apply("divide", (left, right)):
            return [*_factors(left), Apply("divide", (Number(1.0), right))]
        case _:
            return [expression]


def _evaluate(scene: Scene, expression: MapExpression, views: Mapping[TensorName, View]) -> View:
    """A map expression over the variables of its operands, in the order of the loops."""
    if isinstance(expression, Operand):
        return views[expression.tensor]
    variables = {variable for tensor in operands(expression) for variable in views[tensor].variables}
    order = tuple(v for v in scene.einsum.rank_variables if v in variables)

    def value(part: MapExpression) -> Array:
        match part:
            case Operand(tensor):
                return _spread(scene, views[tensor], order)
            case Number(number):
                return number
            case Apply(function, arguments):
                return apply(function, *(value(argument) for argument in arguments), xp=scene.xp)

    return View(order, scene.xp.asarray(value(expression)))


def _spread(scene: Scene, view: View, order: Sequence[RankVar]) -> Array:
    """The values with one axis for each variable of `order`, of length 1 where they do not depend on it."""
    present = [v for v in order if v in view.variables]
    values = scene.xp.transpose(view.values, [view.variables.index(v) for v in present])
    return values.reshape([scene.loops[v].block if v in present else 1 for v in order])


def _masked(scene: Scene, view: View, variable: RankVar, neutral: float) -> View:
    loop = scene.loops[variable]
    within = scene.places(variable) < loop.extent
    shape = [-1 if other == variable else 1 for other in view.variables]
    return View(view.variables, scene.xp.where(within.reshape(shape), view.values, neutral))


# writing


def _digits_of(
    scene: Scene, access: TensorAccess, buffer: Buffer
) -> tuple[tuple[RankVar, ...], dict[Rank, MixedRadix]]:
    """The rank variables of an output in the order of its buffer's ranks, and the digits of each rank."""
    radices: dict[Rank, MixedRadix] = {}
    for rank, index in access.projection:
        radix = mixed_radix(scene.einsum, index)
        assert radix is not None, "checked when the plan was derived"
        radices[rank] = radix
    ordered = {rank: radices[rank] for rank in buffer.ranks}
    return tuple(variable for radix in ordered.values() for variable, _ in radix.digits), ordered


def _write(
    scene: Scene, access: TensorAccess, values: Array, radices: Mapping[Rank, MixedRadix], buffer: Buffer
) -> Array:
    """The result in the shape of its buffer; coordinates that no point writes are 0."""
    written = {rank: math.prod(scene.loops[v].block for v, _ in radix.digits) for rank, radix in radices.items()}
    values = values.reshape(tuple(written.values()))
    missing = [(0, max(0, size - written[rank])) for rank, size in zip(buffer.ranks, buffer.shape, strict=True)]
    if any(after for _, after in missing):
        values = scene.xp.pad(values, missing)
    for axis, (rank, size) in enumerate(buffer.sizes):
        split = buffer.placement.of(rank)
        end = math.prod(scene.loops[v].extent for v, _ in radices[rank].digits)
        if split is not None and end < size:
            within = scene.coordinates(access, rank, split) < end
            shape = [-1 if other == axis else 1 for other in range(len(buffer.sizes))]
            values = scene.xp.where(within.reshape(shape), values, 0)
    return values
