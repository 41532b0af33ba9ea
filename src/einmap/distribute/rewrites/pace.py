"""In which blocks Einsums go in turns, and which block a PE takes when: as the gathers that turns replace allow.

- A ring: everything is gathered over the same axes. In turn t PE i has block i - t of as many as there are PEs.
- Skewed: of two axes with equally many PEs some operands are gathered over the one, some over the other. In turn t the
  PE at (i, j) has block i + j - t of all of them (Cannon, "A cellular computer to implement the Kalman filter
  algorithm", 1969).
- Panels: nothing travels. In turn t all PEs gather panel t, a part of each block (SUMMA: van de Geijn and Watts, 1997;
  with gathers in the place of broadcasts: Nam et al., "MeshSlice: efficient 2D tensor parallelism for distributed DNN
  training", ISCA 2025).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.placements.request import Turns
from einmap.distribute.plans.plan import BufferName, Plan, Turn
from einmap.distribute.rewrites.group import Gathered, Group, Member
from einmap.einsum.einsum import TensorName
from einmap.errors import At, SpecError

type Axes = tuple[AxisName, ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """`axes`: all that the turns are over; `size`: values of the rank variable in a turn; `turn`: which they are;
    `skewed` and `panels` as above.
    """

    axes: Axes
    size: int
    turn: Turn
    skewed: bool = False
    panels: bool = False

    @property
    def block_axes(self) -> Axes:
        """The axes along which PEs have different blocks in the same turn."""
        return () if self.panels else self.axes

    @property
    def count(self) -> int:
        """How many turns there are."""
        return self.turn.count


@dataclass(frozen=True, slots=True, order=True)
class _Blocks:
    """Blocks that are gathered: over which axes, among how many PEs, with how many values of the rank variable."""

    axes: Axes
    parts: int
    size: int

    def __str__(self) -> str:
        return f"blocks of {self.size} over {'*'.join(self.axes)}"


def pace_of(plan: Plan, group: Group, gathered: Mapping[BufferName, Gathered], asked: Turns, at: At | None) -> Pace:
    """The pace of a group. Raises SpecError, with the reason, where blocks are not equal."""
    over, first = "*".join(asked.axes), group.members[0]
    if not gathered:
        raise SpecError(
            f"nothing that {' and '.join(asked.einsums)} read is all-gathered over {over} for them alone, in a rank "
            f"that {first.variable!r} leads, so there is nothing to pass on in turns",
            at=at,
            hint="split that rank over the axis in an operand, and pin loops that need the whole of it",
        )
    for member in group.members:
        if member.extent != first.extent:
            text = f"{member.variable!r} of {member.einsum.name!r} has {member.extent} values, not {first.extent}"
            raise SpecError(f"turns need equal blocks: {text}", at=at)
    blocks = sorted(
        {
            _blocks(plan, member, tensor, gathered[name], at)
            for member in group.members
            for tensor, name in member.step.operands
            if name in gathered
        }
    )
    found = " and ".join(map(str, blocks))
    if {axis for one in blocks for axis in one.axes} != set(asked.axes):
        raise SpecError(f"the turns are over {over}, but gathered are {found}", at=at)
    if asked.panels is not None:
        return _panels(blocks, asked, at)
    match blocks:
        case [one] if one.axes == asked.axes:
            return Pace(asked.axes, one.size, Turn((one.axes,), 0, -1, one.parts))
        case [one, other] if (one.parts, one.size) == (other.parts, other.size) and not set(one.axes) & set(other.axes):
            return Pace(asked.axes, one.size, Turn((one.axes, other.axes), 0, -1, one.parts), skewed=True)
    raise SpecError(
        f"blocks that travel over {over} must be equal, over the same axes or over two with equally many PEs; "
        f"gathered are {found}",
        at=at,
        hint="go through them in panels, say panels: 4, or let both axes have as many PEs",
    )


def _blocks(plan: Plan, member: Member, tensor: TensorName, gathered: Gathered, at: At | None) -> _Blocks:
    move = gathered.move
    split = plan.by_name[move.source].placement.of(move.gather or "")
    assert split is not None
    ((_, factor),) = member.ranks(tensor)
    if split.block % factor:
        text = f"blocks of {tensor!r} cut through values of {member.variable!r}"
        raise SpecError(text, at=at, hint=f"place {move.gather} with a granule of {factor}")
    return _Blocks(move.axes, plan.mesh.parts(move.axes), split.block // factor)


def _panels(blocks: list[_Blocks], asked: Turns, at: At | None) -> Pace:
    """Panels are cut from pieces: the largest ranges of values that lie on one PE in all that is gathered."""
    assert asked.panels is not None
    pieces = math.lcm(*(one.parts for one in blocks))
    lengths = {one.size * one.parts / pieces for one in blocks}
    found = " and ".join(map(str, blocks))
    if len(lengths) > 1 or not min(lengths).is_integer():
        raise SpecError(f"panels need blocks that nest, gathered are {found}", at=at, hint="let sizes divide evenly")
    length = int(min(lengths))
    if length % asked.panels:
        raise SpecError(
            f"{found} have no {asked.panels} equal panels: {length} values lie together",
            at=at,
            hint=f"choose a number that divides {length}",
        )
    turn = Turn((), 0, 1, asked.panels, pieces)
    return Pace(asked.axes, length // asked.panels * pieces, turn, panels=True)
