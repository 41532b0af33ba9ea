"""Parts of weights, gradients and states on devices that would have copies of them: ZeRO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.plans.plan import Buffer
from einmap.einsum.spaces.projection import Rank
from einmap.errors import NotSupportedError


@dataclass(frozen=True, slots=True)
class Shard:
    """How a weight lies in parts. `placement`: of the parts; `before`: of a sum that is still to be scattered; `rank`:
    that is cut; `alike`: axes whose devices have the same, of which each keeps its part; `summed`: axes over which its
    gradient is scattered.
    """

    placement: Placement
    before: Placement
    rank: Rank
    alike: tuple[AxisName, ...]
    summed: tuple[AxisName, ...]

    @property
    def axes(self) -> tuple[AxisName, ...]:
        """All axes over which there are parts, the slowest first."""
        return (*self.alike, *self.summed)


def shard_of(whole: Buffer, mesh: Mesh, alike: Sequence[AxisName], summed: Sequence[AxisName]) -> Shard:
    """The parts of a weight over axes that its buffer does not use, cut in a rank that they share evenly if there is
    one. Raises NotSupportedError where blocks of all its ranks would have to be cut unevenly.
    """
    scattered = mesh.parts(summed)
    parts = mesh.parts(alike) * scattered
    choices = []
    for place, (rank, room) in enumerate(zip(whole.ranks, whole.shape, strict=True)):
        own = whole.placement.of(rank)
        if room % parts == 0 or own is None:
            choices.append((room % parts != 0, -room, place))
    if not choices:
        raise NotSupportedError(
            f"ZeRO: no rank of {whole.tensor!r} is shared evenly by {parts} devices that have {whole.shape} of it",
            hint="take fewer data parallel devices, or zero=0",
        )
    _, room, place = min(choices)
    rank = whole.ranks[place]
    own = whole.placement.of(rank)
    block = -(room // parts)  # rounded up, as room is negative
    axes = own.axes if own else ()
    rest = [split for split in whole.placement.splits if split.rank != rank]

    def placed(over: tuple[AxisName, ...], block: int) -> Placement:
        splits = (*rest, Split(rank, over, block)) if over else rest
        return replace(whole.placement, splits=tuple(splits))

    before = placed((*axes, *alike), block * scattered) if alike else whole.placement
    return Shard(placed((*axes, *alike, *summed), block), before, rank, tuple(alike), tuple(summed))
