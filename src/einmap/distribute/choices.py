"""The ways to spread one Einsum over a mesh.

Rules. Every rank variable may be split over any axes (`blocks` says in which blocks). What the Einsum then reads and
writes follows: a rank is split as the variable that leads its index; a rank that is indexed in any other way (`p + r`)
is read whole, or in blocks with a halo; a result is partial over the axes of split variables that it lacks. An operand
may stay partial where the Einsum is linear in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations, product

from einmap.distribute.placements.blocks import Part
from einmap.distribute.placements.indices import MixedRadix, mixed_radix, window
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import MeshPart, Placement, Split
from einmap.distribute.plans.plan import LocalLoop
from einmap.distribute.plans.points import PointCount, points_of
from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.functions import FUNCTIONS
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Reduction
from einmap.einsum.spaces.projection import Rank, RankVar
from einmap.progress import checkpoint

type Addend = tuple[Reduction, tuple[AxisName, ...]]
"""How the parts of a tensor are joined, and over which axes it may be in parts."""
type Spread = Mapping[RankVar, Part]


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to spread an Einsum: its loops, how each of its accesses lies (in order), and its points."""

    loops: tuple[LocalLoop, ...]
    placements: tuple[Placement, ...]
    points: PointCount


@dataclass(frozen=True)
class Scene:
    """One Einsum on a mesh, its tensors named by their positions: equal for Einsums that differ in those names only.

    `sizes`: of the ranks of each access; `parts`: how each rank variable may be split; `addends`: for each access that
    may be in parts, how; `on`: parts of the mesh that may evaluate it alone.
    """

    mesh: Mesh
    einsum: Einsum
    sizes: tuple[tuple[tuple[Rank, int], ...], ...]
    parts: tuple[tuple[RankVar, tuple[Part, ...]], ...]
    addends: tuple[tuple[TensorName, Addend], ...]
    on: tuple[MeshPart, ...] = ()

    @cached_property
    def size_of(self) -> Mapping[TensorName, Mapping[Rank, int]]:
        """The sizes of the ranks of each tensor."""
        return {access.tensor: dict(size) for access, size in zip(self.einsum.accesses, self.sizes, strict=True)}

    @cached_property
    def digits(self) -> Mapping[tuple[TensorName, Rank], MixedRadix | None]:
        """The digits of the index of each rank of each tensor."""
        return {
            (access.tensor, rank): mixed_radix(self.einsum, index)
            for access in self.einsum.accesses
            for rank, index in access.projection
        }


@lru_cache(maxsize=2000)
def choices(scene: Scene, pinned: tuple[tuple[RankVar, tuple[AxisName, ...]], ...] | None = None) -> tuple[Choice, ...]:
    """All ways that the rules give, the whole Einsum on every PE first; `pinned`: those with these loops alone."""
    options = dict(scene.parts)
    variables = list(options)
    if pinned is not None:
        asked = dict(pinned)
        variables = [variable for variable in variables if variable in asked]
        options = {v: tuple(part for part in options[v] if part[0] == asked[v]) for v in variables}
    return tuple(
        choice
        for spread in _spreads(variables, options, frozenset())
        if pinned is None or len(spread) == len(dict(pinned))
        for choice in _completed(scene, spread)
    )


def _spreads(
    variables: Sequence[RankVar], options: Mapping[RankVar, Sequence[Part]], used: frozenset[AxisName]
) -> Iterator[dict[RankVar, Part]]:
    """Each variable split as one of its options or not at all, no axis twice."""
    if not variables:
        yield {}
        return
    first, *rest = variables
    yield from _spreads(rest, options, used)
    for axes, block in options[first]:
        if not used & set(axes):
            for others in _spreads(rest, options, used | set(axes)):
                yield {first: (axes, block), **others}


def _completed(scene: Scene, spread: Spread) -> Iterator[Choice]:
    """The choices with this spread: for each way in which operands may stay partial, windows whole or with halos."""
    checkpoint()
    einsum = scene.einsum
    used = {axis for axes, _ in spread.values() for axis in axes}
    loops = tuple(LocalLoop(variable, *_loop(spread, variable, extent)) for variable, extent in einsum.extents.items())
    made: dict[Choice, None] = {}
    points = points_of(einsum, loops, scene.mesh)
    for staying in _ways_to_stay_partial(scene, [axis for axis in scene.mesh.names if axis not in used]):
        for halos in (False, True):
            placements = [
                _result_placement(scene, access, spread, staying)
                if access.output
                else _operand_placement(scene, access, spread, staying, halos)
                for access in einsum.accesses
            ]
            complete = tuple(placement for placement in placements if placement is not None)
            if len(complete) == len(placements):
                made[Choice(loops, complete, points)] = None
                made |= dict.fromkeys(Choice(loops, lies, points) for lies in _on_parts(scene, complete, used))
    yield from made


def _on_parts(
    scene: Scene, placements: tuple[Placement, ...], used: Collection[AxisName]
) -> Iterator[tuple[Placement, ...]]:
    """The placements where a part of the mesh evaluates the Einsum alone: it reads and writes on that part."""
    taken = {*used, *(axis for placement in placements for axis in placement.used)}
    for on in scene.on:
        if not taken & {axis for axis, _ in on}:
            yield tuple(replace(placement, on=on) for placement in placements)


def _loop(spread: Spread, variable: RankVar, extent: int) -> tuple[tuple[AxisName, ...], int, int]:
    axes, block = spread.get(variable, ((), extent))
    return axes, extent, block


@dataclass(frozen=True, slots=True)
class Staying:
    """Operands that stay partial over one axis, and what joins their addends."""

    axis: AxisName
    tensors: frozenset[TensorName]
    reduction: Reduction


def _ways_to_stay_partial(scene: Scene, axes: Sequence[AxisName]) -> Iterator[tuple[Staying, ...]]:
    """Sets of operands that stay partial, the empty one first; at most one for each axis, the Einsum linear in it."""
    per_axis: list[list[tuple[Staying, ...]]] = []
    for axis in axes:
        partial = {tensor: reduction for tensor, (reduction, over) in scene.addends if axis in over}
        ways: list[tuple[Staying, ...]] = [()]
        for length in range(1, len(partial) + 1):
            for tensors in combinations(partial, length):
                reductions = {partial[tensor] for tensor in tensors}
                if len(reductions) == 1 and passes(scene.einsum, frozenset(tensors), min(reductions)):
                    ways.append((Staying(axis, frozenset(tensors), min(reductions)),))
        per_axis.append(ways)
    for chosen in product(*per_axis):
        yield tuple(staying for way in chosen for staying in way)


def _operand_placement(
    scene: Scene, access: TensorAccess, spread: Spread, staying: Sequence[Staying], halos: bool
) -> Placement:
    splits: list[Split] = []
    used: set[AxisName] = set()
    for rank, index in access.projection:
        split = _split_of(scene, access, rank, spread) if index.terms else None
        if split is None and halos:
            split = _with_halo(scene, access, rank, spread)
        if split is not None and not used & set(split.axes):
            splits.append(split)
            used |= set(split.axes)
    partial = [stay for stay in staying if access.tensor in stay.tensors]
    return Placement(tuple(splits), tuple(stay.axis for stay in partial), partial[0].reduction if partial else "sum")


def _split_of(scene: Scene, access: TensorAccess, rank: Rank, spread: Spread) -> Split | None:
    """The rank split as the variable that leads its index, if the blocks cover it; None: it is read whole."""
    radix = scene.digits[access.tensor, rank]
    if radix is None or radix.leading is None or any(variable in spread for variable, _ in radix.digits[1:]):
        return None
    variable, factor = radix.leading
    if variable not in spread:
        return None
    axes, block = spread[variable]
    covered = factor * block * scene.mesh.parts(axes)
    return Split(rank, axes, factor * block) if covered >= scene.size_of[access.tensor][rank] else None


def _with_halo(scene: Scene, access: TensorAccess, rank: Rank, spread: Spread) -> Split | None:
    """The blocks that the split variable of a window such as `p + r` reads; None: it is read whole."""
    found = window(scene.einsum, dict(access.projection)[rank], spread)
    if found is None:
        return None
    variable, factor, halo = found
    axes, block = spread[variable]
    split = Split(rank, axes, factor * block, halo)
    size = scene.size_of[access.tensor][rank]
    return split if split.room < size and split.covers(size, scene.mesh) else None


def _result_placement(
    scene: Scene, access: TensorAccess, spread: Spread, staying: Sequence[Staying]
) -> Placement | None:
    """How a result comes out; None where it cannot be written so."""
    splits: list[Split] = []
    for rank, index in access.projection:
        if any(variable in spread for variable, _ in index.terms):
            split = _split_of(scene, access, rank, spread)
            if split is None:
                return None
            splits.append(split)
    axes = [axis for split in splits for axis in split.axes]
    if len(axes) != len(set(axes)):
        return None
    summed = [axis for variable, (over, _) in spread.items() if variable not in access.variables for axis in over]
    if summed and scene.einsum.is_copy:
        return None
    reduction: Reduction = scene.einsum.operation.reduction
    reductions = {reduction for _ in summed} | {stay.reduction for stay in staying}
    if len(reductions) > 1:
        return None
    partial = (*summed, *(stay.axis for stay in staying))
    return Placement(tuple(splits), partial, min(reductions, default="sum"))


# linearity


def passes(einsum: Einsum, tensors: frozenset[TensorName], reduction: Reduction) -> bool:
    """Whether the results of addends of these operands (all others complete) join to the result of the whole."""
    reduces = any(
        variable not in access.variables
        for access in einsum.accesses
        if access.output
        for variable in einsum.rank_variables
    )
    expression = Operand(min(einsum.inputs)) if einsum.is_copy else einsum.operation.map
    if expression is None or (reduces and (einsum.is_copy or einsum.operation.reduction != reduction)):
        return False
    if reduction != "sum":
        return isinstance(expression, Operand) and expression.tensor in tensors
    return _degree(expression, tensors) == 1


def _degree(expression: MapExpression, tensors: frozenset[TensorName]) -> int | None:
    """0: free of the tensors; 1: linear in all of them together, without a constant; None: neither."""
    match expression:
        case Operand(tensor):
            return int(tensor in tensors)
        case Number():
            return 0
        case Apply(function, arguments):
            degrees = [_degree(argument, tensors) for argument in arguments]
            if all(degree == 0 for degree in degrees):
                return 0
            return 1 if FUNCTIONS[function].is_linear(degrees) else None
