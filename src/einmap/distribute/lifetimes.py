"""Memory of a PE over the steps of a plan: buffers live from the step that writes them to the last that reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from einmap.distribute.plan import BYTES, BufferName, Plan, buffers_read, buffers_written
from einmap.einsum.einsum import TensorName


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The largest memory of a PE: bytes, the position of the step in the plan, and the buffers that live then."""

    bytes: float
    step: int
    buffers: tuple[BufferName, ...]


def peak_memory(plan: Plan, bits: Mapping[TensorName, float] | None = None) -> PeakMemory:
    """The largest memory that one PE needs at a time.

    Graph inputs stay from the beginning to the end (weights and caches), outputs to the end. All buffers of a loop live
    while it runs. `bits`: of a value of each tensor; without, all are as wide as `plan.dtype`.
    """
    size = {
        buffer.name: math.prod(buffer.shape) * (bits[buffer.tensor] / 8 if bits is not None else BYTES[plan.dtype])
        for buffer in plan.buffers
    }
    first: dict[BufferName, int] = {name: 0 for _, name in plan.inputs}
    for position, step in enumerate(plan.steps):
        for name in buffers_read(step) | buffers_written(step):
            first.setdefault(name, position)
    last = last_uses(plan)
    for _, name in plan.inputs:
        last[name] = max(len(plan.steps) - 1, 0)
    peak = PeakMemory(0.0, 0, ())
    for position in range(max(len(plan.steps), 1)):
        alive = tuple(name for name in size if name in first and first[name] <= position <= last[name])
        held = sum(size[name] for name in alive)
        if held > peak.bytes:
            peak = PeakMemory(held, position, alive)
    return peak


def last_uses(plan: Plan) -> dict[BufferName, int]:
    """The position of the last step that reads or writes each buffer, of outputs that of the last step of all."""
    last = {
        name: position
        for position, step in enumerate(plan.steps)
        for name in (*buffers_read(step), *buffers_written(step))
    }
    return last | {name: max(len(plan.steps) - 1, 0) for _, name in plan.outputs}
