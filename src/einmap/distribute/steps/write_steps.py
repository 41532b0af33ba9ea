"""Actions as steps of a file: what a PE computes and moves, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Placement, Split, block_of
from einmap.distribute.plans.plan import LocalLoop
from einmap.distribute.steps.actions import Computed, Moved, PlanAction
from einmap.einsum.einsum import TensorName
from einmap.einsum.spaces.projection import Rank

type Sizes = Mapping[TensorName, Mapping[Rank, int]]


def written_steps(mesh: Mesh, sizes: Sizes, actions: Sequence[PlanAction]) -> list[dict[str, Any]]:
    """One dictionary for each action, as `read_steps` takes it. `sizes`: of the ranks of each tensor."""
    return [_step(mesh, sizes, action) for action in actions]


def _step(mesh: Mesh, sizes: Sizes, action: PlanAction) -> dict[str, Any]:
    match action:
        case Computed():
            loops = {loop.variable: _loop(mesh, loop) for loop in action.loops if loop.is_split}
            reads = {tensor: written_placement(mesh, sizes[tensor], place) for tensor, place in action.operands}
            split = {tensor: place for tensor, place in reads.items() if place != "replicated"}
            step: dict[str, Any] = {"compute": action.einsum}
            return step | ({"loops": loops} if loops else {}) | ({"reads": split} if split else {})
        case Moved(tensor=tensor, before=before, hop=hop):
            ends = {
                key: written_placement(mesh, sizes[tensor], place)
                for key, place in (("before", before), ("after", hop.after))
            }
            used = {key: place for key, place in ends.items() if place != "replicated"}
            return {"move": tensor, "by": hop.kind, "over": written_axes(hop.axes), **used}
        case _:
            assert_never(action)


def _loop(mesh: Mesh, loop: LocalLoop) -> Any:
    if loop.block == block_of(loop.extent, mesh.parts(loop.axes)):
        return written_axes(loop.axes)
    return {"axes": written_axes(loop.axes), "block": loop.block}


def written_placement(mesh: Mesh, sizes: Mapping[Rank, int], placement: Placement) -> Any:
    """A placement as a file has it: ranks and their axes, and axes of addends, or the word replicated."""
    written = {split.rank: _split(mesh, sizes[split.rank], split) for split in placement.splits}
    if placement.partial:
        written["partial"] = written_axes(placement.partial)
    if placement.on:
        written["on"] = dict(placement.on)
    return written or "replicated"


def _split(mesh: Mesh, size: int, split: Split) -> Any:
    if split.halo:
        return {"axes": written_axes(split.axes), "block": split.block, "halo": split.halo}
    parts = mesh.parts(split.axes)
    if block_of(size, parts) == split.block:
        return written_axes(split.axes)
    if size % split.block == 0 and block_of(size, parts, split.block) == split.block:
        return {"axes": written_axes(split.axes), "granule": split.block}
    return {"axes": written_axes(split.axes), "block": split.block}


def written_axes(axes: tuple[AxisName, ...]) -> str | list[AxisName]:
    """One axis by its name, several as a list."""
    return axes[0] if len(axes) == 1 else list(axes)
