"""Orders by rules of priority, made while the pipeline runs: the device that can begin first takes its best action."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from einmap.distribute.pipelines.problem import ROUNDING, Orders, PipelineProblem
from einmap.distribute.pipelines.schedule import SPLIT, Action, Kind


@dataclass(frozen=True, slots=True)
class Rules:
    """`first`: the kind that goes first where both can begin. `patience`: part of a gradient of weights for which a
    device waits idly for another action. `deepest`: forward passes of later stages of a device go first.
    """

    first: Kind = "I"
    patience: float = 0.0
    deepest: bool = True


_FIRST: tuple[Kind, ...] = ("I", "F")
RULES = tuple(Rules(*each) for each in product(_FIRST, (0.0, 0.5, 1.0), (True, False)))
"""All rules that are tried."""


def greedy_orders(problem: PipelineProblem) -> Iterator[Orders]:
    """The orders of each set of rules; a set after which no device can go on is left out."""
    return (orders for rules in RULES if (orders := _Run(problem, rules).orders()) is not None)


class _Run:
    """State of a pipeline: actions done of each stage and kind, when devices are free, and what they hold."""

    def __init__(self, problem: PipelineProblem, rules: Rules) -> None:
        self.problem, self.rules = problem, rules
        self.done = {kind: [0] * problem.stages for kind in SPLIT}
        self.free = [0.0] * problem.devices
        self.held = [0.0] * problem.devices
        self.ends: dict[Action, float] = {}
        self.order: list[list[Action]] = [[] for _ in range(problem.devices)]

    def orders(self) -> Orders | None:
        for _ in range(3 * self.problem.stages * self.problem.micro_batches):
            picks = [
                (pick[0], device, pick[1]) for device in range(self.problem.devices) if (pick := self._pick(device))
            ]
            if not picks:
                return None
            self._do(*min(picks))
        return tuple(map(tuple, self.order))

    def _do(self, begin: float, device: int, action: Action) -> None:
        stage, kind, _ = action
        self.done[kind][stage] += 1
        self.ends[action] = self.free[device] = begin + self.problem.costs.of(action)
        self.held[device] += self.problem.costs.activations[stage] * ((kind == "F") - (kind == "W"))
        self.order[device].append(action)

    def _pick(self, device: int) -> tuple[float, Action] | None:
        """The next action of a device, and when it begins."""
        now: list[tuple[float, Action]] = []
        later: list[tuple[float, Action]] = []
        for stage in self.problem.on_device[device]:
            for kind in SPLIT:
                action = Action(stage, kind, self.done[kind][stage])
                begin = self._ready(device, action)
                if begin < math.inf:
                    (now if begin <= self.free[device] else later).append((max(begin, self.free[device]), action))
        urgent = [each for each in now if each[1].kind != "W"]
        if urgent:
            return min(urgent, key=self._priority)
        weights = max(now, key=lambda each: self._waiting(each[1].stage), default=None)
        following = min(later, key=lambda each: (each[0], self._priority(each)), default=None)
        if weights is None or following is None:
            return weights or following
        patience = self.rules.patience * self.problem.costs.of(weights[1])
        return following if following[0] < self.free[device] + patience * (1 - ROUNDING) else weights

    def _waiting(self, stage: int) -> int:
        return self.done["I"][stage] - self.done["W"][stage]

    def _priority(self, each: tuple[float, Action]) -> tuple[bool, int]:
        stage, kind, _ = each[1]
        return kind != self.rules.first, -stage if kind == "I" or self.rules.deepest else stage

    def _ready(self, device: int, action: Action) -> float:
        """When an action can begin; inf where that is not known yet, or where there is no room."""
        problem, (stage, kind, batch) = self.problem, action
        if batch == problem.micro_batches:
            return math.inf
        if kind == "W":
            return 0.0 if self._waiting(stage) else math.inf
        if kind == "F":
            # room for later stages of the device is left free: without them nothing ever gets free
            later = sum(problem.costs.activations[s] for s in problem.on_device[device] if s > stage)
            room = self.held[device] + problem.costs.activations[stage] + later
            if room > problem.most[device] * (1 + ROUNDING):
                return math.inf
            return self._arrival(stage - 1, stage, "F", batch) if stage else 0.0
        if action._replace(kind="F") not in self.ends:
            return math.inf
        return self._arrival(stage + 1, stage, "I", batch) if stage < problem.stages - 1 else 0.0

    def _arrival(self, other: int, stage: int, kind: Kind, batch: int) -> float:
        end = self.ends.get(Action(other, kind, batch), math.inf)
        return end + self.problem.lag(other, stage)
