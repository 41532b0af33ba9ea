"""When each action of a schedule runs: as soon as its device is free and the actions that it needs are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from einmap.distribute.pipelines.schedule import Action, PipelineSchedule, Step, needed_here
from einmap.errors import SpecError

_SHOWN = 4
LARGEST = 1e300
"""Cost of a stage at most, so that sums over the actions of a schedule are finite."""


@dataclass(frozen=True)
class StageCosts:
    """Seconds of each stage, and of a transfer from one device to another (0 within a device): the same for all, or one
    from each stage to the next one, and back.

    `forward`, `backward_input`, `backward_weight`: for each stage; a whole backward pass takes the sum of the last two.
    `activations`: amount that a stage holds for a micro-batch, from the begin of its forward pass to the end of its
    backward pass. `overlapped`: part of the sum of both times that a forward and a backward pass take which overlap.
    """

    forward: tuple[float, ...]
    backward_input: tuple[float, ...]
    backward_weight: tuple[float, ...]
    transfer: float | tuple[float, ...] = 0.0
    activations: tuple[float, ...] = ()
    overlapped: float = 1.0

    @staticmethod
    def equal(
        stages: int, forward: float, backward_input: float, backward_weight: float, transfer: float = 0.0
    ) -> StageCosts:
        """Equal costs of all stages, each of which holds 1 for a micro-batch."""
        return StageCosts((forward,) * stages, (backward_input,) * stages, (backward_weight,) * stages, transfer)

    def __post_init__(self) -> None:
        if not self.activations:
            object.__setattr__(self, "activations", (1.0,) * len(self.forward))
        rows = (self.forward, self.backward_input, self.backward_weight, self.activations)
        if len(self.transfers) != max(0, len(self.forward) - 1):
            raise SpecError(f"{len(self.transfers)} transfers, between {len(self.forward)} stages")
        if len({len(row) for row in rows}) > 1:
            raise SpecError(f"costs of stages have different lengths: {', '.join(str(len(row)) for row in rows)}")
        if not all(0 <= value <= LARGEST for row in (*rows, self.transfers, (self.overlapped,)) for value in row):
            raise SpecError(f"costs of stages must be finite and not negative, at most {LARGEST:g}")

    @cached_property
    def transfers(self) -> tuple[float, ...]:
        """Seconds from each stage to the next one, if that is on another device."""
        if isinstance(self.transfer, tuple):
            return self.transfer
        return (self.transfer,) * (len(self.forward) - 1)

    def of(self, action: Action) -> float:
        """Seconds of one action."""
        match action.kind:
            case "F":
                return self.forward[action.stage]
            case "I":
                return self.backward_input[action.stage]
            case "W":
                return self.backward_weight[action.stage]
            case "B":
                return self.backward_input[action.stage] + self.backward_weight[action.stage]

    def of_step(self, step: Step) -> float:
        """Seconds of a step."""
        whole = sum(self.of(action) for action in step)
        return whole if len(step) == 1 else whole * self.overlapped


@dataclass(frozen=True)
class Timeline:
    """When each action begins and ends, in seconds. Actions that overlap have the times of their step."""

    schedule: PipelineSchedule
    costs: StageCosts
    begins: Mapping[Action, float]
    ends: Mapping[Action, float]

    @cached_property
    def makespan(self) -> float:
        """Seconds from the first begin to the last end."""
        return max(self.ends.values(), default=0.0)

    @cached_property
    def spans(self) -> tuple[float, ...]:
        """Seconds of each device from its first begin to its last end."""
        return tuple(
            self.ends[steps[-1][-1]] - self.begins[steps[0][0]] if steps else 0.0 for steps in self.schedule.steps
        )

    @cached_property
    def busy(self) -> tuple[float, ...]:
        """Seconds that each device works."""
        return tuple(sum(map(self.costs.of_step, steps)) for steps in self.schedule.steps)

    @property
    def bubble(self) -> float:
        """Part of the makespan that the busiest device is idle, from 0 to 1."""
        return 1 - max(self.busy) / self.makespan if self.makespan else 0.0

    def held(self, device: int) -> list[tuple[float, float]]:
        """Activations of a device: the amount from each time on, in the order of time."""
        changes: dict[float, float] = {}
        for action in (action for step in self.schedule.steps[device] for action in step):
            amount = self.costs.activations[action.stage]
            if action.kind == "F":
                changes[self.begins[action]] = changes.get(self.begins[action], 0.0) + amount
            elif action.kind in ("W", "B"):
                changes[self.ends[action]] = changes.get(self.ends[action], 0.0) - amount
        rows, amount = [], 0.0
        for time in sorted(changes):
            amount += changes[time]
            rows.append((time, amount))
        return rows

    @cached_property
    def peaks(self) -> tuple[float, ...]:
        """The most activations that each device holds."""
        return tuple(
            max((amount for _, amount in self.held(device)), default=0.0) for device in range(self.schedule.devices)
        )


def run_pipeline(schedule: PipelineSchedule, costs: StageCosts) -> Timeline:
    """Run a schedule: each step as soon as its device is free and what it needs is there.

    A forward pass needs that of the stage before, a backward pass the gradient of the stage after; from another device
    each arrives a transfer later. Raises SpecError for costs of another number of stages, and where devices wait
    for each other for ever.
    """
    if len(costs.forward) != schedule.stages:
        raise SpecError(f"{len(costs.forward)} stages have costs, the schedule has {schedule.stages}")
    begins: dict[Action, float] = {}
    ends: dict[Action, float] = {}
    free = [0.0] * schedule.devices
    at = [0] * schedule.devices
    waiting = sum(map(len, schedule.steps))
    while waiting:
        before = waiting
        for device, steps in enumerate(schedule.steps):
            while at[device] < len(steps):
                step = steps[at[device]]
                ready = _ready(schedule, costs, step, ends)
                if ready is None:
                    break
                begin = max(ready, free[device])
                free[device] = begin + costs.of_step(step)
                for action in step:
                    begins[action], ends[action] = begin, free[device]
                at[device] += 1
                waiting -= 1
        if waiting == before:
            stuck = [_text(steps[n]) for steps, n in zip(schedule.steps, at, strict=True) if n < len(steps)]
            more = f" and {len(stuck) - _SHOWN} more" if len(stuck) > _SHOWN else ""
            raise SpecError(
                f"devices wait for each other for ever, before {', '.join(stuck[:_SHOWN])}{more}",
                hint="a device does its actions in the written order: move one of them",
            )
    return Timeline(schedule, costs, begins, ends)


def _text(step: Step) -> str:
    return " with ".join(map(str, step))


def _ready(
    schedule: PipelineSchedule, costs: StageCosts, step: Sequence[Action], ends: Mapping[Action, float]
) -> float | None:
    """When everything that a step needs is there; None where an action is not done yet."""
    time = 0.0
    for action in step:
        for needed in needed_here(action):
            if needed not in ends:
                return None
            time = max(time, ends[needed])
        for neighbour in needed_before(action, schedule.stages):
            end = next((ends[each] for each in neighbour if each in ends), None)
            if end is None:
                return None
            other = neighbour[0].stage
            moved = schedule.device_of[other] != schedule.device_of[action.stage]
            time = max(time, end + (costs.transfers[min(other, action.stage)] if moved else 0.0))
    return time


def needed_before(action: Action, stages: int) -> tuple[tuple[Action, ...], ...]:
    """Actions of other stages that come first; of each group one."""
    stage, kind, batch = action
    if kind == "F":
        return ((Action(stage - 1, "F", batch),),) if stage else ()
    if kind == "W" or stage == stages - 1:
        return ()
    return ((Action(stage + 1, "I", batch), Action(stage + 1, "B", batch)),)
