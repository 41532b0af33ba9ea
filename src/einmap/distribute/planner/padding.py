"""Sizes that do not divide: PEs whose blocks are empty or short, and moves that send padding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.placements.placement import Placement
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.plans.plan import LocalLoop
from einmap.distribute.steps.actions import Computed, Moved
from einmap.einsum.einsum import TensorName
from einmap.einsum.spaces.projection import RankVar

NOTABLE = 1.1
"""How many times what it has a move sends at least to be told of."""


@dataclass(frozen=True, slots=True)
class UnevenLoop:
    """A rank variable of `extent` values in blocks of `block` over `parts` PEs along `axes`, which it does not fill.

    `einsums`: which have it so; `empty`: how many of the PEs have no value; `last`: values of the last that has some.
    """

    variable: RankVar
    axes: tuple[AxisName, ...]
    extent: int
    block: int
    parts: int
    einsums: tuple[str, ...]

    @property
    def empty(self) -> int:
        """PEs along the axes that have nothing to do."""
        return self.parts - math.ceil(self.extent / self.block)

    @property
    def last(self) -> int:
        """Values of the last PE that has any."""
        return self.extent - (math.ceil(self.extent / self.block) - 1) * self.block

    @property
    def idle(self) -> float:
        """Part of the time in which a PE does nothing, or works on padding, on average over the PEs."""
        return 1 - self.extent / (self.block * self.parts)


@dataclass(frozen=True, slots=True)
class PaddedMove:
    """A move of which each PE sends `sent` bytes, where blocks that divide would make it `needed`."""

    what: str
    tensor: TensorName
    sent: float
    needed: float


def uneven_loops(chosen: ChosenPlan) -> tuple[UnevenLoop, ...]:
    """Loops that leave some PEs without a full block, that with most idle time first."""
    mesh = chosen.plan.mesh
    einsums: dict[LocalLoop, list[str]] = {}
    for action in chosen.actions:
        if isinstance(action, Computed):
            for loop in action.loops:
                if loop.is_split and loop.block * mesh.parts(loop.axes) > loop.extent:
                    einsums.setdefault(loop, []).append(action.einsum)
    made = [
        UnevenLoop(loop.variable, loop.axes, loop.extent, loop.block, mesh.parts(loop.axes), tuple(names))
        for loop, names in einsums.items()
    ]
    return tuple(sorted(made, key=lambda one: -one.idle))


def padded_moves(chosen: ChosenPlan) -> tuple[PaddedMove, ...]:
    """Moves that send at least NOTABLE times what they have, that with most padding first."""
    made = []
    moves = [action for action in chosen.actions if isinstance(action, Moved)]
    sizes = {buffer.tensor: math.prod(size for _, size in buffer.sizes) for buffer in chosen.plan.buffers}
    for action in moves:
        hop, mesh = action.hop, chosen.plan.mesh
        # a gather sends parts of what it makes, all others parts of what they take
        gathers = hop.kind == "all_gather"
        place, padded = (hop.after, hop.result) if gathers else (action.before, hop.operand)
        whole = sizes[action.tensor] / mesh.parts(_split_over(place))
        sent = float(hop.sent_values / mesh.n_devices * chosen.bits[action.tensor] / 8)
        if sent and padded >= NOTABLE * whole:
            what = f"the {hop.kind.replace('_', '-')} of {action.tensor}"
            made.append(PaddedMove(what, action.tensor, sent, sent * whole / padded))
    return tuple(sorted(made, key=lambda one: one.needed - one.sent))


def _split_over(placement: Placement) -> tuple[AxisName, ...]:
    return tuple(axis for split in placement.splits for axis in split.axes)
