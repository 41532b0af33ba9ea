"""Orders made in rounds, for pipelines with one stage a device: each micro-batch goes forward and one comes back.

Gradients of weights fill gaps. After Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 3.1: as many
forward passes first as begin before the first gradient arrives, then rounds; rules differ in which gaps are filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from einmap.distribute.pipelines.problem import ROUNDING, Orders, PipelineProblem
from einmap.distribute.pipelines.schedule import SPLIT, Action, Kind


@dataclass(frozen=True, slots=True)
class Rules:
    """`share`: part of a gradient of weights that a gap has to be long for it; None: a gap is left where the device has
    been idle for less than another one. `early`: forward passes may end no later than the first gradient arrives.
    """

    share: float | None
    early: bool


RULES = tuple(Rules(*each) for each in product((0.0, 0.25, 0.5, 0.75, 1.0, None), (False, True)))
"""All rules that are tried."""


def orders_in_rounds(problem: PipelineProblem) -> Iterator[Orders]:
    """The orders of each set of rules. `problem` has one stage a device, in order."""
    return (_Rounds(problem, rules).orders() for rules in RULES)


class _Rounds:
    """State of a pipeline: actions done of each kind and stage, when devices are free, how long they were idle."""

    def __init__(self, problem: PipelineProblem, rules: Rules) -> None:
        self.problem, self.rules = problem, rules
        self.done = {kind: [0] * problem.stages for kind in SPLIT}
        self.free = [0.0] * problem.stages
        self.idle = [0.0] * problem.stages
        self.ends: dict[Action, float] = {}
        self.order: list[list[Action]] = [[] for _ in range(problem.stages)]
        self.most = [
            int(most / each * (1 + ROUNDING)) if each else problem.micro_batches
            for most, each in zip(problem.most, problem.costs.activations, strict=True)
        ]

    def orders(self) -> Orders:
        problem, stages, batches = self.problem, range(self.problem.stages), self.problem.micro_batches
        for stage in stages:
            self._do("F", stage)
        for stage, more in enumerate(self._first_forwards()):
            for _ in range(more):
                self._do("F", stage)
        for batch in range(batches):
            if batch:
                for stage in stages:
                    if self.done["F"][stage] < batches:
                        while self.done["F"][stage] - self.done["W"][stage] >= self.most[stage]:
                            self._do("W", stage)
                        self._fill(stage, "F")
                        self._do("F", stage)
            for stage in reversed(stages):
                self._fill(stage, "I")
                while stage == 0 and self.done["F"][0] == batches and self._weights(0):
                    self._do("W", 0)
                self._do("I", stage)
        for stage in range(problem.stages):
            while self._weights(stage):
                self._do("W", stage)
        return tuple(map(tuple, self.order))

    def _first_forwards(self) -> list[int]:
        """Forward passes of each stage after its first one, before any gradient: not more than the stage before."""
        problem, costs = self.problem, self.problem.costs
        more = [0] * problem.stages
        last = problem.stages - 1
        arrival = self.ends[Action(last, "F", 0)] + costs.backward_input[last]
        for stage in reversed(range(last)):
            arrival += problem.lag(stage + 1, stage)
            time, room = self.free[stage], min(self.most[stage], problem.micro_batches) - 1
            while more[stage] < room and time + costs.forward[stage] * self.rules.early < arrival * (1 - ROUNDING):
                time += costs.forward[stage]
                more[stage] += 1
            arrival = max(time, arrival) + costs.backward_input[stage]
        for stage in range(1, problem.stages):
            more[stage] = max(0, min(more[stage], more[stage - 1] - 1))
        return more

    def _weights(self, stage: int) -> int:
        return self.done["I"][stage] - self.done["W"][stage]

    def _arrival(self, stage: int, kind: Kind) -> float:
        """When the next action of a kind could begin, were its device free."""
        other, batch = stage + (1 if kind == "I" else -1), self.done[kind][stage]
        if not 0 <= other < self.problem.stages:
            return 0.0
        return self.ends[Action(other, kind, batch)] + self.problem.lag(other, stage)

    def _fill(self, stage: int, kind: Kind) -> None:
        """Gradients of weights in the gap before the next action of a kind."""
        arrival, seconds = self._arrival(stage, kind), self.problem.costs.backward_weight[stage]
        while self._weights(stage):
            gap = (arrival - self.free[stage]) * (1 + ROUNDING)
            if gap < seconds:
                share = self.rules.share
                unfair = max(self.idle) - self.idle[stage]
                if gap > ROUNDING * arrival and (gap > unfair if share is None else gap >= share * seconds):
                    self._do("W", stage)
                return
            self._do("W", stage)

    def _do(self, kind: Kind, stage: int) -> None:
        action = Action(stage, kind, self.done[kind][stage])
        begin = max(self.free[stage], self._arrival(stage, kind) if kind != "W" else 0.0)
        self.idle[stage] += begin - self.free[stage] if self.order[stage] else 0.0
        self.ends[action] = self.free[stage] = begin + self.problem.costs.of(action)
        self.done[kind][stage] += 1
        self.order[stage].append(action)
