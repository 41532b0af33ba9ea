"""Branch and bound over all orders of a small pipeline.

Each stage takes micro-batches in their order: where it does not, the one that has been waiting longest can have each of
its turns, and nothing gets later. So a state is how many actions of each stage and kind are done, and its times.
Actions are added in the order in which they begin, each as soon as it can. A state is dominated by one with the same
counts of which no time is later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from einmap.distribute.pipelines.problem import ROUNDING, Orders, PipelineProblem
from einmap.distribute.pipelines.schedule import SPLIT, Action
from einmap.progress import Progress

OFTEN = 100
"""States after which it is asked whether to stop."""

type _Counts = tuple[int, ...]
"""Actions done of each kind and stage, kinds one after the other."""


@dataclass(frozen=True, slots=True)
class _State:
    """`free`: when devices are free; `ends`: of actions that others wait for; `latest`: when the last one began."""

    counts: _Counts
    free: tuple[float, ...]
    ends: tuple[tuple[float, ...], ...]
    latest: float
    order: tuple[Action, ...]


class ExactSearch:
    """Depth first, the action that begins first before the others; `nodes`: states that are looked at, at most."""

    def __init__(
        self, problem: PipelineProblem, incumbent: float, nodes: int, progress: Progress | None = None
    ) -> None:
        self.problem, self.best, self.nodes = problem, incumbent, nodes
        self.progress = progress or Progress()
        self.orders: Orders | None = None
        self.looked = 0
        self._seen: dict[_Counts, list[tuple[float, ...]]] = {}

    def run(self) -> bool:
        """Look for better orders; whether all were covered, so that the best is proven."""
        problem = self.problem
        empty: tuple[tuple[float, ...], ...] = ((),) * (2 * problem.stages)
        stack = [_State((0,) * (3 * problem.stages), (0.0,) * problem.devices, empty, 0.0, ())]
        while stack:
            if self.looked >= self.nodes or (self.looked % OFTEN == 0 and self.progress.stopped):
                return False
            state = stack.pop()
            self.looked += 1
            if len(state.order) == 3 * problem.stages * problem.micro_batches:
                self._keep(state)
            elif self._bound(state) < self.best * (1 - ROUNDING) and not self._is_dominated(state):
                stack += sorted(self._following(state), key=lambda each: (-each.latest, each.order[-1].kind == "W"))
        return True

    def _keep(self, state: _State) -> None:
        if max(state.free) < self.best * (1 - ROUNDING):
            self.best = max(state.free)
            device_of = self.problem.device_of
            self.orders = tuple(
                tuple(action for action in state.order if device_of[action.stage] == device)
                for device in range(self.problem.devices)
            )

    def _is_dominated(self, state: _State) -> bool:
        times = (*state.free, *(time for row in state.ends for time in row), state.latest)
        seen = self._seen.setdefault(state.counts, [])
        if any(all(a <= b for a, b in zip(other, times, strict=True)) for other in seen):
            return True
        seen[:] = [other for other in seen if not all(a <= b for a, b in zip(times, other, strict=True))]
        seen.append(times)
        return False

    def _bound(self, state: _State) -> float:
        """Seconds that no completion goes below: the rest of each device's work, and of the stages before."""
        problem, costs, n, batches = self.problem, self.problem.costs, self.problem.stages, self.problem.micro_batches
        bound = 0.0
        for device, stages in enumerate(problem.on_device):
            moving = weights = 0.0
            tail = math.inf
            for s in stages:
                back = (batches - state.counts[n + s]) * costs.backward_input[s]
                moving += (batches - state.counts[s]) * costs.forward[s] + back
                weights += (batches - state.counts[2 * n + s]) * costs.backward_weight[s]
                if state.counts[n + s] < batches:
                    tail = min(tail, problem.tails[s])
            rest = moving + (weights if tail == math.inf else max(weights, tail))
            bound = max(bound, state.free[device] + rest)
        return bound

    def _following(self, state: _State) -> Iterator[_State]:
        problem, n = self.problem, self.problem.stages
        for stage in range(n):
            for place, kind in enumerate(SPLIT):
                batch = state.counts[place * n + stage]
                if batch == problem.micro_batches:
                    continue
                begin = self._begin(state, stage, place)
                if begin >= state.latest:
                    yield self._after(state, Action(stage, kind, batch), place, begin)

    def _begin(self, state: _State, stage: int, place: int) -> float:
        """When the next action of a stage and kind begins; -1 where it cannot."""
        problem, n, counts = self.problem, self.problem.stages, state.counts
        device = problem.device_of[stage]
        time = state.free[device]
        match place:
            case 0:
                held = sum(
                    problem.costs.activations[s] * (counts[s] - counts[2 * n + s]) for s in problem.on_device[device]
                )
                if held + problem.costs.activations[stage] > problem.most[device] * (1 + ROUNDING):
                    return -1.0
                if not stage:
                    return time
                waiting, lag = state.ends[stage - 1], problem.lag(stage - 1, stage)
            case 1:
                if counts[n + stage] == counts[stage]:
                    return -1.0
                if stage == n - 1:
                    return time
                waiting, lag = state.ends[n + stage + 1], problem.lag(stage + 1, stage)
            case _:
                return time if counts[2 * n + stage] < counts[n + stage] else -1.0
        return max(time, waiting[0] + lag) if waiting else -1.0

    def _after(self, state: _State, action: Action, place: int, begin: float) -> _State:
        n, stage = self.problem.stages, action.stage
        device, end = self.problem.device_of[stage], begin + self.problem.costs.of(action)
        ends = list(state.ends)
        if place == 0 and stage:
            ends[stage - 1] = ends[stage - 1][1:]
        if place == 0 and stage < n - 1:
            ends[stage] = (*ends[stage], end)
        if place == 1 and stage < n - 1:
            ends[n + stage + 1] = ends[n + stage + 1][1:]
        if place == 1 and stage:
            ends[n + stage] = (*ends[n + stage], end)
        number = place * n + stage
        return _State(
            (*state.counts[:number], state.counts[number] + 1, *state.counts[number + 1 :]),
            (*state.free[:device], end, *state.free[device + 1 :]),
            tuple(ends),
            begin,
            (*state.order, action),
        )
