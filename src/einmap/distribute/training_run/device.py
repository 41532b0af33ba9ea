"""A device of a pipeline: what it holds of each micro-batch, and what it does in an action."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.numeric import Tensor, compute, evaluate_into, first_projections, shapes
from einmap.einsum.workload import Workload

type Compute = Callable[[Einsum, Mapping[TensorName, Tensor]], Mapping[TensorName, Tensor]]


@dataclass(frozen=True)
class Task:
    """Einsums that a device does of a micro-batch in a stage.

    `received`: tensors from elsewhere; `sent`: what others need of the results; `summed`: what is added up over
    micro-batches; `last`: whether the device needs nothing of the micro-batch in this stage any more.
    """

    stage: int
    micro_batch: int
    einsums: tuple[str, ...]
    received: Mapping[TensorName, Tensor] = field(default_factory=dict)
    sent: tuple[TensorName, ...] = ()
    summed: tuple[TensorName, ...] = ()
    last: bool = False


class Device:
    """Memory and arithmetic of one device.

    `weights`: tensors that are the same for all micro-batches; `by`: what evaluates an Einsum.
    """

    def __init__(self, workload: Workload, weights: Mapping[TensorName, Tensor], by: Compute = compute) -> None:
        self._workload, self._weights, self._by = workload, dict(weights), by
        self._sizes, self._ranks = shapes(workload), first_projections(workload)
        self._held: dict[tuple[int, int], dict[TensorName, Tensor]] = {}
        self._sums: dict[TensorName, Tensor] = {}
        self.most_held = 0
        """The largest number of micro-batches, counted in each stage, of which something was held at one time."""

    def do(self, task: Task) -> dict[TensorName, Tensor]:
        """Do a task; what others need of it."""
        key = task.stage, task.micro_batch
        tensors = self._held.setdefault(key, dict(self._weights))
        self.most_held = max(self.most_held, len(self._held))
        tensors.update(task.received)
        self._evaluate(task.einsums, tensors)
        for tensor in task.summed:
            self._sums[tensor] = self._sums.get(tensor, 0.0) + tensors[tensor]
        sent = {tensor: tensors[tensor] for tensor in task.sent}
        if task.last:
            del self._held[key]
        return sent

    def sums(self) -> dict[TensorName, Tensor]:
        """Sums over micro-batches, which begin anew."""
        found, self._sums = self._sums, {}
        return found

    def finish(
        self, einsums: Sequence[str], given: Mapping[TensorName, Tensor], wanted: Sequence[TensorName]
    ) -> dict[TensorName, Tensor]:
        """Do Einsums once, from weights and the given tensors; some of the results."""
        tensors = self._weights | dict(given)
        self._evaluate(einsums, tensors)
        return {tensor: tensors[tensor] for tensor in wanted}

    def _evaluate(self, einsums: Sequence[str], tensors: dict[TensorName, Tensor]) -> None:
        with np.errstate(all="ignore"):
            for name in einsums:
                evaluate_into(self._workload.by_name[name], tensors, self._ranks, self._sizes, self._by)
