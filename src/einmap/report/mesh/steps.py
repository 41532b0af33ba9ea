"""The steps of a plan as reports show them: what each does, when it runs, what it sends and what is held meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.costs.cost import communication, timeline
from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.plans.lifetimes import held_by_step
from einmap.distribute.plans.plan import (
    BYTES,
    Buffer,
    Combine,
    Fill,
    Local,
    Move,
    Plan,
    PlanStep,
    Put,
    Repeat,
    buffers_read,
    buffers_written,
)
from einmap.einsum.einsum import TensorName

type StepKind = Literal["compute", "move", "cut", "turns", "local"]
"""An Einsum, a collective, a block that is cut from what a PE has, steps in turns, and what else costs nothing."""


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One step of a plan. `name`: `compute Z`, `reduce-scatter of Z`; `how`: `m: x`, `over x`; `start`, `end`: seconds,
    where steps run as soon as they may; `sent`, `held`: bytes of one PE; `is_critical`: no later start would do.
    """

    position: int
    kind: StepKind
    name: str
    how: str
    axes: tuple[AxisName, ...]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    lanes: tuple[str, ...]
    start: float
    end: float
    sent: float
    held: float
    is_critical: bool

    @property
    def title(self) -> str:
        """Name and how."""
        return f"{self.name}, {self.how}" if self.how else self.name


def shown_steps(plan: Plan, cluster: Cluster, bits: Mapping[TensorName, float]) -> tuple[ShownStep, ...]:
    """All steps, in the order of the plan. Raises SpecError where the mesh does not fit the cluster."""
    timed = timeline(plan, cluster, bits)
    held = held_by_step(plan, bits)
    critical = set(timed.critical)
    used = {name for step in plan.steps for name in buffers_read(step)} | {name for _, name in plan.outputs}
    made = []
    for position, (step, span) in enumerate(zip(plan.steps, timed.spans, strict=True)):
        kind, name, how, axes = _said(plan, step)
        written = buffers_written(step)
        # of what a loop writes in its turns only what is read afterwards
        results = written & used if isinstance(step, Repeat) else written
        made.append(
            ShownStep(
                position, kind, name, how, axes, _read(plan, step),
                tuple(buffer for buffer in plan.buffers if buffer.name in results),
                span.lanes, span.start, span.end, _sent(plan, step, bits), held[position], position in critical,
            )
        )  # fmt: skip
    return tuple(made)


def _read(plan: Plan, step: PlanStep) -> tuple[Buffer, ...]:
    """Buffers that a step reads, operands of an Einsum in its order."""
    if isinstance(step, Local):
        return tuple(plan.by_name[name] for _, name in step.operands)
    return tuple(buffer for buffer in plan.buffers if buffer.name in buffers_read(step))


def _said(plan: Plan, step: PlanStep) -> tuple[StepKind, str, str, tuple[AxisName, ...]]:
    """Kind, name, how, and the axes along which something moves."""
    match step:
        case Local(einsum=einsum, loops=loops):
            spread = ", ".join(f"{loop.variable}: {'*'.join(loop.axes)}" for loop in loops if loop.is_split)
            return "compute", f"compute {einsum}", spread or "all of it on every PE", ()
        case Move(kind="slice", target=target, axes=axes):
            return "cut", f"cut {plan.by_name[target].tensor}", f"over {', '.join(axes)}", ()
        case Move(kind=kind, target=target, axes=axes):
            name = f"{kind.replace('_', '-')} of {plan.by_name[target].tensor}"
            return "move", name, f"over {', '.join(axes)}", axes
        case Combine(target=target):
            return "local", f"add to {plan.by_name[target].tensor}", "", ()
        case Fill(target=target):
            return "local", f"begin {plan.by_name[target].tensor}", "", ()
        case Put(target=target):
            return "local", f"put a block into {plan.by_name[target].tensor}", "", ()
        case Repeat(count=count, steps=steps):
            inner = [_said(plan, one) for one in steps]
            axes = tuple(dict.fromkeys(axis for _, _, _, over in inner for axis in over))
            names = dict.fromkeys(name for kind, name, _, _ in inner if kind in ("compute", "move", "turns"))
            return "turns", f"{count} turns: {', '.join(names)}", f"over {', '.join(axes)}" if axes else "", axes
        case _:
            assert_never(step)


def _sent(plan: Plan, step: PlanStep, bits: Mapping[TensorName, float]) -> float:
    """Bytes that one PE sends in a step."""
    width = 8 * BYTES[plan.dtype]
    rows = communication(replace(plan, steps=(step,)))
    return sum(row.total_sent_bytes * bits.get(row.tensor, width) / width for row in rows)
