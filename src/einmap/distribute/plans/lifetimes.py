"""Memory of a PE over the steps of a plan: buffers live from the step that writes them to the last that reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from einmap.distribute.plans.plan import BYTES, BufferName, Plan, buffers_read, buffers_written
from einmap.einsum.einsum import TensorName


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The largest memory of a PE: bytes, the position of the step in the plan, and the buffers that live then."""

    bytes: float
    step: int
    buffers: tuple[BufferName, ...]


def peak_memory(plan: Plan, bits: Mapping[TensorName, float] | None = None) -> PeakMemory:
    """The largest memory that one PE needs at a time. `bits`: of a value of each tensor; see `held_by_step`."""
    peak = PeakMemory(0.0, 0, ())
    for position, (held, alive) in enumerate(_alive(plan, bits)):
        if held > peak.bytes:
            peak = PeakMemory(held, position, alive)
    return peak


def held_by_step(plan: Plan, bits: Mapping[TensorName, float] | None = None) -> tuple[float, ...]:
    """Bytes that one PE holds at each step; of a plan without steps once.

    Graph inputs stay from the beginning to the end (weights and caches), outputs to the end. All buffers of a loop live
    while it runs. `bits`: of a value of each tensor; without, all are as wide as `plan.dtype`.
    """
    return tuple(held for held, _ in _alive(plan, bits))


def held_in_time(
    plan: Plan, times: Sequence[tuple[float, float]], bits: Mapping[TensorName, float] | None = None
) -> tuple[tuple[float, float], ...]:
    """When what one PE holds changes, and to how many bytes, where step `i` runs from `times[i][0]` to `times[i][1]`.

    Steps may run at once; a buffer lives from the start of the first step that uses it to the end of the last that
    does. Graph inputs and outputs as in `held_by_step`.
    """
    size = _sizes(plan, bits)
    end = max((end for _, end in times), default=0.0)
    lives = {name: [0.0, end] for _, name in plan.inputs}
    for step, (start, stop) in zip(plan.steps, times, strict=True):
        for name in buffers_read(step) | buffers_written(step):
            life = lives.setdefault(name, [start, stop])
            life[:] = min(life[0], start), max(life[1], stop)
    changes: dict[float, float] = {0.0: 0.0}
    outputs = {name for _, name in plan.outputs}
    for name, (start, stop) in lives.items():
        changes[start] = changes.get(start, 0.0) + size[name]
        if stop < end and name not in outputs:
            changes[stop] = changes.get(stop, 0.0) - size[name]
    held, made = 0.0, []
    for time in sorted(changes):
        held += changes[time]
        made.append((time, held))
    return tuple(made)


def _sizes(plan: Plan, bits: Mapping[TensorName, float] | None) -> dict[BufferName, float]:
    """Bytes of each buffer."""
    return {
        buffer.name: math.prod(buffer.shape) * (bits[buffer.tensor] / 8 if bits is not None else BYTES[plan.dtype])
        for buffer in plan.buffers
    }


def _alive(plan: Plan, bits: Mapping[TensorName, float] | None) -> Iterator[tuple[float, tuple[BufferName, ...]]]:
    """For each step the bytes that live then, and the buffers."""
    size = _sizes(plan, bits)
    first: dict[BufferName, int] = {name: 0 for _, name in plan.inputs}
    for position, step in enumerate(plan.steps):
        for name in buffers_read(step) | buffers_written(step):
            first.setdefault(name, position)
    last = last_uses(plan)
    for _, name in plan.inputs:
        last[name] = max(len(plan.steps) - 1, 0)
    for position in range(max(len(plan.steps), 1)):
        alive = tuple(name for name in size if name in first and first[name] <= position <= last[name])
        yield sum(size[name] for name in alive), alive


def last_uses(plan: Plan) -> dict[BufferName, int]:
    """The position of the last step that reads or writes each buffer, of outputs that of the last step of all."""
    last = {
        name: position
        for position, step in enumerate(plan.steps)
        for name in (*buffers_read(step), *buffers_written(step))
    }
    return last | {name: max(len(plan.steps) - 1, 0) for _, name in plan.outputs}
