"""A device of a pipeline: what it holds of each micro-batch, and what it does in an action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from einmap.distribute.backends.local import run_steps
from einmap.distribute.costs.cost import traffic_of
from einmap.distribute.plans.plan import BufferName, Local, Move, Plan, PlanStep
from einmap.distribute.training_run.actions import Act, PlacedStage
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.numeric import Tensor, evaluate_into

type Compute = Callable[[Einsum, Mapping[TensorName, Any]], Mapping[TensorName, Any]]
type Values = dict[BufferName, Any]
"""Contents of buffers: the arrays of all PEs, or that of the one PE that the process is."""


class Steps(Protocol):
    """A way to run steps of a plan."""

    def run(self, plan: Plan, step: PlanStep, memory: Values, is_whole: bool) -> tuple[str, float]:
        """Run a step; the kind and the bytes of what a PE has sent. `is_whole`: Einsums are done as a whole."""


@dataclass(frozen=True)
class Task:
    """An action of a stage with what has come for it. `last`: whether the device needs nothing of the micro-batch in
    this stage any more; `wanted`: buffers that others need.
    """

    stage: int
    act: Act
    micro_batch: int = 0
    received: Mapping[BufferName, Any] = field(default_factory=dict)
    wanted: tuple[BufferName, ...] = ()
    last: bool = False


class Device:
    """Memory and arithmetic of one device. `values`: what its stages begin with."""

    def __init__(self, stages: Mapping[int, PlacedStage], values: Mapping[int, Values], steps: Steps) -> None:
        self._stages, self._steps = stages, steps
        self._lasting = {stage: dict(found) for stage, found in values.items()}
        self._held: dict[tuple[int, int], Values] = {}
        self.most_held = 0
        """The largest number of micro-batches, counted in each stage, of which something was held at one time."""
        self.moved: dict[str, float] = {}
        """Bytes that a PE has sent, by what and how."""
        for stage in stages:
            self.do(Task(stage, "begin", last=True))
        self.most_held = 0

    def do(self, task: Task) -> Values:
        """Do a task; what others need of it."""
        key, placed = (task.stage, task.micro_batch), self._stages[task.stage]
        lasting, part = self._lasting[task.stage], placed.parts[task.act]
        held = self._held.pop(key, {}) | dict(task.received)
        memory = lasting | held
        self.most_held = max(self.most_held, len(self._held) + 1)
        for step in part.steps:
            kind, sent = self._steps.run(placed.plan, step, memory, placed.is_whole)
            if sent:
                tensor = placed.plan.by_name[step.source].tensor if isinstance(step, Move) else ""
                what = f"{placed.words.get(tensor, 'activations')} {kind}"
                self.moved[what] = self.moved.get(what, 0.0) + sent
        stays = memory if task.act in ("reduce", "update") else placed.lasting
        lasting |= {name: memory[name] for name in stays if name in memory}
        if not task.last:
            self._held[key] = {name: memory[name] for name in part.kept if name in memory}
        return {name: memory[name] for name in task.wanted}


class LocalSteps:
    """The reference evaluation: all PEs in this process, one after another."""

    def run(self, plan: Plan, step: PlanStep, memory: Values, is_whole: bool) -> tuple[str, float]:
        """See `Steps`."""
        if isinstance(step, Local) and is_whole and not any(loop.is_split for loop in step.loops):
            pes = range(plan.mesh.n_devices)
            found = [evaluate_whole(plan, step, {name: memory[name][pe] for _, name in step.operands}) for pe in pes]
            memory.update({name: [values[name] for values in found] for _, name in step.results})
            return "", 0.0
        with np.errstate(all="ignore"):
            run_steps(plan, (step,), memory, turn=0)
        return (step.kind, traffic_of(plan, step).sent_bytes) if isinstance(step, Move) else ("", 0.0)


def evaluate_whole(
    plan: Plan, step: Local, operands: Mapping[BufferName, Tensor], by: Compute | None = None
) -> dict[BufferName, Tensor]:
    """The results of an Einsum that is not spread, as the definition says."""
    buffer_of = dict((*step.operands, *step.results))
    ranks = {tensor: tuple((rank, None) for rank in plan.by_name[name].ranks) for tensor, name in buffer_of.items()}
    sizes = {tensor: plan.by_name[name].shape for tensor, name in buffer_of.items()}
    tensors = {tensor: operands[name] for tensor, name in step.operands}
    evaluate_into(plan.einsum(step.einsum), tensors, ranks, sizes, by)  # type: ignore[arg-type]
    return {name: tensors[tensor] for tensor, name in step.results}
