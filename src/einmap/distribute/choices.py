"""The ways to spread one Einsum over a mesh, from how its tensors lie.

Rules. A rank variable may be split over mesh axes as a rank that it leads in is: of an operand that lies so, or of a
result that is to lie so. What the Einsum then reads and writes follows: a rank is split as the variable that leads its
index; a rank that is indexed in any other way (`p + r`) is read whole; a result is partial over the axes of split
variables that it lacks. An operand may stay partial where the Einsum is linear in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from einmap.distribute.indices import mixed_radix
from einmap.distribute.mesh import AxisName, Mesh
from einmap.distribute.placement import Placement, Split, block_of
from einmap.distribute.plan import LocalLoop
from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.functions import FUNCTIONS
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Reduction
from einmap.einsum.projection import Rank, RankVar

type Sizes = Mapping[TensorName, Mapping[Rank, int]]
type Held = Mapping[TensorName, tuple[Placement, ...]]
type Part = tuple[tuple[AxisName, ...], int]
"""Axes that a rank variable is split over, and its values per PE."""
type Spread = Mapping[RankVar, Part]


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to spread an Einsum: its loops, how its operands must lie, and how its results come out."""

    loops: tuple[LocalLoop, ...]
    operands: tuple[tuple[TensorName, Placement], ...]
    results: tuple[tuple[TensorName, Placement], ...]

    @property
    def points(self) -> int:
        """Points of the iteration space that each PE evaluates."""
        return math.prod(loop.block for loop in self.loops)


@dataclass(frozen=True)
class Scene:
    """One Einsum among tensors of known sizes on a mesh."""

    mesh: Mesh
    sizes: Sizes
    einsum: Einsum


def choices(scene: Scene, held: Held, targets: Mapping[TensorName, Placement]) -> Iterator[Choice]:
    """All ways that the rules give, the whole Einsum on every PE first. `targets`: placements asked for results."""
    options: dict[RankVar, dict[Part, None]] = {}
    for access in scene.einsum.accesses:
        lies = held[access.tensor] if not access.output else (targets.get(access.tensor),)
        for placement in lies:
            for variable, part in _parts(scene, access, placement) if placement else ():
                options.setdefault(variable, {})[part] = None
    variables = [variable for variable in scene.einsum.rank_variables if variable in options]
    for spread in _spreads(variables, options, frozenset()):
        yield from _completed(scene, spread, held)


def pinned_choices(
    scene: Scene, held: Held, targets: Mapping[TensorName, Placement], loops: Mapping[RankVar, tuple[AxisName, ...]]
) -> Iterator[Choice]:
    """The ways in which the rank variables are split over the given axes, and no others."""
    spread: dict[RankVar, Part] = {}
    for variable, axes in loops.items():
        parts = [
            part
            for access in scene.einsum.accesses
            for placement in (held[access.tensor] if not access.output else (targets.get(access.tensor),))
            if placement
            for led, part in _parts(scene, access, placement)
            if led == variable and part[0] == axes
        ]
        spread[variable] = parts[0] if parts else (axes, _even_block(scene, variable, axes))
    yield from _completed(scene, spread, held)


def _parts(scene: Scene, access: TensorAccess, placement: Placement) -> Iterator[tuple[RankVar, Part]]:
    """How a placement splits rank variables; the first axes of a split alone may be used, too."""
    for rank, index in access.projection:
        split, radix = placement.of(rank), mixed_radix(scene.einsum, index)
        if split is None or radix is None or radix.leading is None:
            continue
        variable, factor = radix.leading
        for end in range(len(split.axes), 0, -1):
            block = split.block * scene.mesh.parts(split.axes[end:])
            axes = split.axes[:end]
            if block % factor == 0 and block // factor * scene.mesh.parts(axes) >= scene.einsum.extents[variable]:
                yield variable, (axes, block // factor)


def _even_block(scene: Scene, variable: RankVar, axes: tuple[AxisName, ...]) -> int:
    """Equal blocks that cover the variable, and the ranks that it leads in."""
    size = scene.einsum.extents[variable]
    for access in scene.einsum.accesses:
        for rank, index in access.projection:
            radix = mixed_radix(scene.einsum, index)
            if radix and radix.leading and radix.leading[0] == variable:
                size = max(size, -(-scene.sizes[access.tensor][rank] // radix.leading[1]))
    return block_of(size, scene.mesh.parts(axes))


def _spreads(
    variables: Sequence[RankVar], options: Mapping[RankVar, Mapping[Part, None]], used: frozenset[AxisName]
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


def _completed(scene: Scene, spread: Spread, held: Held) -> Iterator[Choice]:
    """The choices with this spread: one for each way in which operands may stay partial."""
    einsum = scene.einsum
    used = {axis for axes, _ in spread.values() for axis in axes}
    loops = tuple(LocalLoop(variable, *_loop(spread, variable, extent)) for variable, extent in einsum.extents.items())
    inputs = [access for access in einsum.accesses if not access.output]
    outputs = [access for access in einsum.accesses if access.output]
    for staying in _ways_to_stay_partial(scene, held, [axis for axis in scene.mesh.names if axis not in used]):
        operands = tuple((access.tensor, _operand_placement(scene, access, spread, staying)) for access in inputs)
        results = tuple((access.tensor, _result_placement(scene, access, spread, staying)) for access in outputs)
        complete = tuple((tensor, placement) for tensor, placement in results if placement is not None)
        if len(complete) == len(results):
            yield Choice(loops, operands, complete)


def _loop(spread: Spread, variable: RankVar, extent: int) -> tuple[tuple[AxisName, ...], int, int]:
    axes, block = spread.get(variable, ((), extent))
    return axes, extent, block


@dataclass(frozen=True, slots=True)
class Staying:
    """Operands that stay partial over one axis, and what joins their addends."""

    axis: AxisName
    tensors: frozenset[TensorName]
    reduction: Reduction


def _ways_to_stay_partial(scene: Scene, held: Held, axes: Sequence[AxisName]) -> Iterator[tuple[Staying, ...]]:
    """Sets of operands that stay partial, the empty one first; at most one for each axis, the Einsum linear in it."""
    per_axis: list[list[tuple[Staying, ...]]] = []
    for axis in axes:
        partial = {
            tensor: placement.reduction
            for tensor in sorted(scene.einsum.inputs)
            for placement in held[tensor]
            if axis in placement.partial
        }
        ways: list[tuple[Staying, ...]] = [()]
        for length in range(1, len(partial) + 1):
            for tensors in combinations(partial, length):
                reductions = {partial[tensor] for tensor in tensors}
                if len(reductions) == 1 and passes(scene.einsum, frozenset(tensors), min(reductions)):
                    ways.append((Staying(axis, frozenset(tensors), min(reductions)),))
        per_axis.append(ways)
    for chosen in product(*per_axis):
        yield tuple(staying for way in chosen for staying in way)


def _operand_placement(scene: Scene, access: TensorAccess, spread: Spread, staying: Sequence[Staying]) -> Placement:
    splits: list[Split] = []
    used: set[AxisName] = set()
    for rank, index in access.projection:
        split = _split_of(scene, access, rank, spread) if index.terms else None
        if split is not None and not used & set(split.axes):
            splits.append(split)
            used |= set(split.axes)
    partial = [stay for stay in staying if access.tensor in stay.tensors]
    return Placement(tuple(splits), tuple(stay.axis for stay in partial), partial[0].reduction if partial else "sum")


def _split_of(scene: Scene, access: TensorAccess, rank: Rank, spread: Spread) -> Split | None:
    """The rank split as the variable that leads its index, if the blocks cover it; None: it is read whole."""
    radix = mixed_radix(scene.einsum, dict(access.projection)[rank])
    if radix is None or radix.leading is None or any(variable in spread for variable, _ in radix.digits[1:]):
        return None
    variable, factor = radix.leading
    if variable not in spread:
        return None
    axes, block = spread[variable]
    covered = factor * block * scene.mesh.parts(axes)
    return Split(rank, axes, factor * block) if covered >= scene.sizes[access.tensor][rank] else None


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
