"""A pipeline to be scheduled: stages on devices, costs, micro-batches and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from einmap.distribute.pipelines.schedule import Action, PipelineSchedule
from einmap.distribute.pipelines.timeline import StageCosts, run_pipeline
from einmap.errors import SpecError

ROUNDING = 1e-9
"""Part by which times may differ and count as equal."""

type Orders = tuple[tuple[Action, ...], ...]
"""The actions of each device, in order."""
type Score = tuple[float, float, float]
"""Makespan, longest span of a device, sum of the spans, in seconds."""


@dataclass(frozen=True)
class PipelineProblem:
    """Stages on devices (`device_of`), micro-batches, costs, and the activations that each device holds at most.

    Raises SpecError where a device has no room for one micro-batch.
    """

    device_of: tuple[int, ...]
    micro_batches: int
    costs: StageCosts
    most: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.costs.forward) != self.stages or len(self.most) != self.devices:
            raise SpecError("costs must be there for each stage, and a limit of activations for each device")
        for device, needed in enumerate(self.of_devices(self.costs.activations)):
            if needed > self.most[device] * (1 + ROUNDING):
                raise SpecError(
                    f"device {device} holds {self.most[device]:g} activations, one micro-batch needs {needed:g}",
                    hint="more memory, fewer stages a device, or smaller micro-batches",
                )

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.device_of)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return 1 + max(self.device_of)

    @cached_property
    def on_device(self) -> tuple[tuple[int, ...], ...]:
        """The stages of each device, first ones first."""
        return tuple(tuple(s for s, d in enumerate(self.device_of) if d == device) for device in range(self.devices))

    def of_devices(self, values: Sequence[float]) -> tuple[float, ...]:
        """Sums over the stages of each device."""
        return tuple(sum(values[stage] for stage in stages) for stages in self.on_device)

    def lag(self, one: int, other: int) -> float:
        """Seconds that a value takes between two successive stages."""
        return self.costs.transfers[min(one, other)] if self.device_of[one] != self.device_of[other] else 0.0

    @cached_property
    def heads(self) -> tuple[float, ...]:
        """Seconds before the first forward pass of each stage, at least."""
        heads = [0.0]
        for stage in range(1, self.stages):
            heads.append(heads[-1] + self.costs.forward[stage - 1] + self.lag(stage - 1, stage))
        return tuple(heads)

    @cached_property
    def tails(self) -> tuple[float, ...]:
        """Seconds after a backward pass for inputs of each stage, at least: those of the stages before."""
        costs = self.costs
        tails = [costs.backward_weight[0]]
        for stage in range(1, self.stages):
            before = self.lag(stage, stage - 1) + costs.backward_input[stage - 1]
            tails.append(max(costs.backward_weight[stage], before + tails[-1]))
        return tuple(tails)

    @cached_property
    def lower_bound(self) -> float:
        """Seconds that no schedule goes below, whatever its memory.

        The larger of one micro-batch's way through all stages and, for each device, the time before its first action,
        its work, and the time after its last backward pass for inputs, where gradients of weights may fill the tail.
        """
        costs, batches, last = self.costs, self.micro_batches, self.stages - 1
        bound = self.heads[last] + costs.forward[last] + costs.backward_input[last] + self.tails[last]
        for stages in self.on_device:
            head = min(self.heads[stage] for stage in stages)
            moving = sum(batches * (costs.forward[stage] + costs.backward_input[stage]) for stage in stages)
            weights = sum(batches * costs.backward_weight[stage] for stage in stages)
            tail = min(self.tails[stage] for stage in stages)
            bound = max(bound, head + moving + weights, head + moving + tail)
        return bound

    def schedule(self, orders: Orders) -> PipelineSchedule:
        """Orders as a schedule, whose name is `best`."""
        steps = tuple(tuple((action,) for action in order) for order in orders)
        return PipelineSchedule(self.device_of, steps, "best")

    def fits(self, schedule: PipelineSchedule) -> bool:
        """Whether no device holds more than it may."""
        peaks = run_pipeline(schedule, self.costs).peaks
        return all(peak <= most * (1 + ROUNDING) for peak, most in zip(peaks, self.most, strict=True))

    def score(self, schedule: PipelineSchedule) -> Score:
        """Objectives to be made least, in this order."""
        timeline = run_pipeline(schedule, self.costs)
        return timeline.makespan, max(timeline.spans), sum(timeline.spans)
