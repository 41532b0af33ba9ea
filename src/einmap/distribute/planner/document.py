"""A plan as the key `distribution` of a specification, which `einmap run` executes."""

from __future__ import annotations

from typing import Any

from einmap.distribute.mesh import Mesh
from einmap.distribute.placement import Placement, Split, block_of
from einmap.distribute.planner.chosen import ChosenPlan


def distribution_document(chosen: ChosenPlan) -> dict[str, Any]:
    """Mesh, the homes of all tensors (those that are partial left out), and the loops of all Einsums."""
    mesh = chosen.plan.mesh
    sizes = {buffer.tensor: dict(buffer.sizes) for buffer in chosen.plan.buffers}
    placements: dict[str, Any] = {}
    for tensor, homes in chosen.homes.items():
        written = _placement(mesh, sizes[tensor], homes[0])
        if written is not None:
            placements[tensor] = written
    loops = {name: {variable: _axes(axes) for variable, axes in split.items()} for name, split in chosen.loops.items()}
    return {
        "distribution": {
            "mesh": dict(mesh.axes),
            "dtype": chosen.plan.dtype,
            "placements": placements,
            "loops": loops,
        }
    }


def _placement(mesh: Mesh, sizes: dict[str, int], placement: Placement) -> Any:
    """A placement as a file has it; None where it is partial, or in blocks that a file cannot say."""
    if placement.partial:
        return None
    written = {split.rank: _split(mesh, sizes[split.rank], split) for split in placement.splits}
    if None in written.values():
        return None
    return written or "replicated"


def _split(mesh: Mesh, size: int, split: Split) -> Any:
    parts = mesh.parts(split.axes)
    if block_of(size, parts) == split.block:
        return _axes(split.axes)
    if size % split.block == 0 and block_of(size, parts, split.block) == split.block:
        return {"axes": _axes(split.axes), "granule": split.block}
    return None


def _axes(axes: tuple[str, ...]) -> str | list[str]:
    return axes[0] if len(axes) == 1 else list(axes)
