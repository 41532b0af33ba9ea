"""Why no plan keeps to the memory: how much is missing, for which tensors, and the least change that helps."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from einmap.distribute.mesh import MAX_DEVICES, AxisName, Mesh
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.planner.planning import Best, Planning, PlanRequest, thriftiest_plan
from einmap.errors import SpecError
from einmap.progress import Progress
from einmap.units import format_bits

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
            f"no plan within {format_bits(8 * memory)} was found in the time there was, nor that there is none",
            hint="allow more evaluations, or search exactly" if best.walked else "allow more time",
        )
    plan = thriftiest_plan(planning, progress)
    if plan is None:
        return SpecError(f"no plan keeps to {format_bits(8 * memory)} on each PE", hint="lay the mesh over more PEs")
    peak = plan.peak.bytes
    held = ", ".join(f"{tensor} {format_bits(8 * size)}" for tensor, size in _largest(plan))
    timed = (progress or Progress()).within(SECONDS)
    hint = ", or ".join([f"allow {format_bits(8 * peak)}", *_that_help(planning, memory, timed)])
    if " or " not in hint:
        more = f"up to {FACTORS[-1]} times as many PEs along one axis would not do"
        hint += "; lay the mesh over more PEs" if timed.stopped else f"; {more}"
    return SpecError(
        f"no plan keeps to {format_bits(8 * memory)} on each PE: the thriftiest needs {format_bits(8 * peak)}, "
        f"{format_bits(8 * (peak - memory))} more; then it holds {held}",
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


def _that_help(planning: Planning, memory: float, progress: Progress) -> list[str]:
    """For each axis how many PEs would do, and each placement without which a plan keeps to the memory."""
    request = planning.request
    said: list[str] = []
    for axis in request.mesh.names:
        for factor in FACTORS:
            longer = _longer(request, axis, factor)
            needed = None if longer is None else _needed(planning, longer, progress)
            if longer is None or needed is None:
                break
            if needed <= memory:
                said.append(
                    f"lay the mesh over {longer.mesh.size(axis)} PEs along {axis} ({format_bits(8 * needed)} do)"
                )
                break
    for tensor in request.placements or {}:
        kept = {name: place for name, place in (request.placements or {}).items() if name != tensor}
        needed = _needed(planning, replace(request, placements=kept), progress)
        if needed is not None and needed <= memory:
            said.append(f"do not fix {tensor} ({format_bits(8 * needed)} do)")
    return said


def _longer(request: PlanRequest, axis: AxisName, factor: int) -> PlanRequest | None:
    """The request with `factor` times the PEs along an axis; None where the cluster has fewer, or they are too many."""
    most = dict(request.cluster.links)[axis].size
    size = request.mesh.size(axis) * factor
    if request.mesh.n_devices * factor > MAX_DEVICES or (most is not None and size > most):
        return None
    return replace(request, mesh=Mesh(tuple((n, size if n == axis else s) for n, s in request.mesh.axes)))


def _needed(planning: Planning, request: PlanRequest, progress: Progress) -> float | None:
    """The least memory of a PE in bytes; None where the time is over."""
    left = np.inf if progress.deadline is None else progress.deadline - time.monotonic()
    if progress.stopped or left <= 0:
        return None
    progress.report("changes that would help", 0)
    tried = Planning(planning.workload, replace(request, time_limit=min(request.time_limit, left)))
    plan = thriftiest_plan(tried, progress)
    return None if plan is None else plan.peak.bytes
