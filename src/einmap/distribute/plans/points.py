"""How many points of an iteration space the busiest PE evaluates, and a PE on average, without visiting any."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.plans.cuts import CutGroup, cut_groups
from einmap.distribute.plans.plan import LocalLoop
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.lattice_points import lattice_points


@dataclass(frozen=True, slots=True)
class PointCount:
    """Points that the busiest PE evaluates, and a PE on average. Blocks of a rank variable that nothing links to others
    are counted with their padding.
    """

    busiest: int
    mean: float


def points_of(einsum: Einsum, loops: Sequence[LocalLoop], mesh: Mesh, turn: int = 0) -> PointCount:
    """The points of an Einsum that is spread by `loops`, in one turn of the loop around it."""
    groups = cut_groups(einsum) if einsum.cuts else ()
    linked = {variable for group in groups for variable in group.variables}
    busiest = math.prod(loop.block for loop in loops if loop.variable not in linked)
    mean = float(busiest)
    # no axis splits two rank variables outside of turns, so that one PE is the busiest in every group
    for group in groups:
        ours = {loop.variable: loop for loop in loops if loop.variable in group.variables}
        most, average = _of_group(group, tuple(ours[variable] for variable in group.variables), mesh, turn)
        busiest, mean = busiest * most, mean * average
    return PointCount(busiest, mean)


def turns_of(loops: Iterable[LocalLoop]) -> Sequence[int]:
    """Turns in which a PE may evaluate different blocks; turn 0 alone where it has one block."""
    counts = [loop.turn.count for loop in loops if loop.turn is not None and loop.turn.stride]
    return range(max(counts)) if counts else (0,)


@lru_cache(maxsize=20_000)
def _of_group(group: CutGroup, loops: tuple[LocalLoop, ...], mesh: Mesh, turn: int) -> tuple[int, float]:
    """The points of the PEs with most of them, and of a PE on average."""
    used = {axis for loop in loops for axis in (*loop.axes, *(a for over in _turned(loop) for a in over))}
    axes = [name for name in mesh.names if name in used]
    most = total = 0
    for place in product(*(range(mesh.size(axis)) for axis in axes)):
        here = dict(zip(axes, place, strict=True))
        points = 0
        for pieces in product(*(_pieces(mesh, loop, here, turn) for loop in loops)):
            starts, sizes = zip(*pieces, strict=True)
            points += lattice_points(sizes, [plane.moved(starts) for plane in group.half_spaces])
        most, total = max(most, points), total + points
    return most, total / mesh.parts(axes)


def _turned(loop: LocalLoop) -> tuple[tuple[str, ...], ...]:
    return loop.turn.over if loop.turn else ()


def _pieces(mesh: Mesh, loop: LocalLoop, here: Mapping[str, int], turn: int) -> list[tuple[int, int]]:
    """Start and length of each piece of the block that the PE with these coordinates takes in a turn."""
    if loop.turn is None:
        starts, width = [_position(mesh, loop.axes, here) * loop.block], loop.block
    else:
        moved = sum(_position(mesh, over, here) for over in loop.turn.over) + loop.turn.offset + loop.turn.stride * turn
        width = loop.block // loop.turn.pieces
        block = moved % loop.turn.count
        starts = [(piece * loop.turn.count + block) * width for piece in range(loop.turn.pieces)]
    return [(start, max(0, min(width, loop.extent - start))) for start in starts]


def _position(mesh: Mesh, axes: Sequence[str], here: Mapping[str, int]) -> int:
    place = 0
    for axis in axes:
        place = place * mesh.size(axis) + here[axis]
    return place
