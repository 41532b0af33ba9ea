"""Why no plan keeps to the memory: how much is missing, for which tensors, and the least change that helps."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from einmap.distribute.placements.mesh import MAX_DEVICES, AxisName, Mesh
from einmap.distribute.planner.best import Best, thriftiest_plan
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.errors import SpecError
from einmap.progress import Progress
from einmap.units import format_bytes

SECONDS = 20.0
"""For trying changes; what takes longer is not tried."""
FACTORS = (2, 4, 8, 16)
"""By which an axis is made longer, until that helps."""


def too_little(planning: Planning, best: Best, progress: Progress | None = None) -> SpecError:
    """The error that says so: what the thriftiest plan needs and holds; more memory, PEs, or freedom that would do."""
    assert best.memory is not None
    memory = best.memory
    if not best.proven:
        return SpecError(
            f"no plan within {format_bytes(memory)} was found in the time there was, nor that there is none",
            hint="allow more time",
        )
    plan = best.thriftiest
    if plan is None:
        return SpecError(f"no plan keeps to {format_bytes(memory)} on each PE", hint="lay the mesh over more PEs")
    peak = plan.peak.bytes
    known = "" if plan.proven else "that was found "
    held = ", ".join(f"{tensor} {format_bytes(size)}" for tensor, size in _largest(plan))
    timed = (progress or Progress()).within(SECONDS)
    said, decided = _that_help(planning, memory, timed)
    hint = ", or ".join([f"allow {format_bytes(peak)}", *said])
    if not said:
        hint += f"; {_that_does_not(planning.request) if decided else 'lay the mesh over more PEs'}"
    return SpecError(
        f"no plan keeps to {format_bytes(memory)} on each PE: the thriftiest {known}needs {format_bytes(peak)}, "
        f"{format_bytes(peak - memory)} more; then it holds {held}. Turns that were tried exceed it, too",
        hint=hint,
    )


def _largest(plan: ChosenPlan) -> list[tuple[str, float]]:
    """The four tensors that take most of the peak, in bytes."""
    sizes: dict[str, float] = {}
    for name in plan.peak.buffers:
        buffer = plan.plan.by_name[name]
        size = float(np.prod(buffer.shape)) * plan.bits[buffer.tensor] / 8
        sizes[buffer.tensor] = sizes.get(buffer.tensor, 0.0) + size
    return sorted(sizes.items(), key=lambda item: -item[1])[:4]


def _that_help(planning: Planning, memory: float, progress: Progress) -> tuple[list[str], bool]:
    """For each axis how many PEs would do, and each placement without which a plan keeps to the memory; and whether
    all others that were tried would not.
    """
    request = planning.request
    said: list[str] = []
    decided = True
    for axis in dict(request.cluster.links):
        for factor in FACTORS:
            longer = _longer(request, axis, factor)
            if longer is None:
                break
            plan = _tried(planning, longer, progress)
            if plan is not None and plan.peak.bytes <= memory:
                size, needed = longer.mesh.size(axis), format_bytes(plan.peak.bytes)
                said.append(f"lay the mesh over {size} PEs along {axis} ({needed} do)")
                break
            decided &= plan is not None and plan.proven
            if plan is None:
                break
    for tensor in request.placements or {}:
        kept = {name: place for name, place in (request.placements or {}).items() if name != tensor}
        plan = _tried(planning, replace(request, placements=kept), progress)
        if plan is not None and plan.peak.bytes <= memory:
            said.append(f"do not fix {tensor} ({format_bytes(plan.peak.bytes)} do)")
    return said, decided


def _that_does_not(request: PlanRequest) -> str:
    """Words for what was tried in vain."""
    most = {axis: link.size for axis, link in request.cluster.links if link.size is not None}
    ended = [axis for axis, size in most.items() if size < FACTORS[-1] * _size(request.mesh, axis)]
    if not ended:
        return f"without turns up to {FACTORS[-1]} times as many PEs along one axis would not do"
    ends = " and ".join(f"{most[axis]:,} PEs along {axis}" for axis in ended)
    return f"without turns more PEs along one axis would not do, as far as the cluster goes: at most {ends}"


def _size(mesh: Mesh, axis: AxisName) -> int:
    return mesh.size(axis) if axis in mesh.names else 1


def _longer(request: PlanRequest, axis: AxisName, factor: int) -> PlanRequest | None:
    """The request with `factor` times the PEs along an axis, which the mesh may lack; None where the cluster has fewer,
    or they are too many.
    """
    most = dict(request.cluster.links)[axis].size
    size = _size(request.mesh, axis) * factor
    if request.mesh.n_devices * factor > MAX_DEVICES or (most is not None and size > most):
        return None
    axes = dict(request.mesh.axes)
    # an axis that the mesh lacks comes first, as that with the longest way
    longer = axes | {axis: size} if axis in axes else {axis: size} | axes
    return replace(request, mesh=Mesh(tuple(longer.items())))


def _tried(planning: Planning, request: PlanRequest, progress: Progress) -> ChosenPlan | None:
    """A plan with the least memory; None where the time is over."""
    left = np.inf if progress.deadline is None else progress.deadline - time.monotonic()
    if progress.stopped or left <= 0:
        return None
    progress.report("changes that would help", 0)
    tried = Planning(planning.workload, replace(request, time_limit=min(request.time_limit, left)))
    return thriftiest_plan(tried, progress)
