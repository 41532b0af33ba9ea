"""The best schedule of a pipeline for given costs and memory: by rules, refined, and proven where it is small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from einmap.distribute.pipelines.exact import ExactSearch
from einmap.distribute.pipelines.greedy import greedy_orders
from einmap.distribute.pipelines.problem import ROUNDING, PipelineProblem, Score
from einmap.distribute.pipelines.refine import refined
from einmap.distribute.pipelines.rounds import orders_in_rounds
from einmap.distribute.pipelines.schedule import PipelineSchedule, folded
from einmap.distribute.pipelines.shipped import zb_v, zero_bubble
from einmap.distribute.pipelines.timeline import Timeline, run_pipeline
from einmap.errors import SpecError
from einmap.progress import Progress
from einmap.units import format_si

RUNS = 500_000
"""Orders that are run in search of a better one: 16 micro-batches on 8 devices take 2 s."""
NODES = 100_000
"""States of the exact search: 3 stages and 4 micro-batches need fewer. Each takes 30 us."""
REFINED = 2
"""Schedules that are refined, best ones first."""


@dataclass(frozen=True)
class BestPipeline:
    """The best schedule that was found, and how good it is: no schedule takes less than `lower_bound` seconds."""

    timeline: Timeline
    lower_bound: float
    proven: bool

    @property
    def schedule(self) -> PipelineSchedule:
        """The schedule."""
        return self.timeline.schedule

    @property
    def gap(self) -> float:
        """Part by which another schedule may be shorter at most: 0 is proven."""
        return 0.0 if self.proven else self.timeline.makespan / self.lower_bound - 1


def best_pipeline(
    problem: PipelineProblem, *, runs: int = RUNS, nodes: int = NODES, progress: Progress | None = None
) -> BestPipeline:
    """The schedule with the least makespan; of equal ones that with the least span of a device.

    Backward passes are in two parts. `runs`, `nodes`: orders and states that are looked at, at most, so that equal
    inputs give equal results. `progress` may stop the search, which then gives the best so far with the bound. Raises
    SpecError where no order was found that fits into memory.
    """
    progress = progress or Progress()
    starts: list[tuple[Score, PipelineSchedule]] = []
    for start in _starts(problem):
        starts.append(start)
        progress.report("orders by rules", len(starts), None, _shown(min(starts, key=lambda each: each[0])[0]))
        if progress.stopped:
            break
    starts.sort(key=lambda each: each[0])
    if not starts:
        raise SpecError("no order of the pipeline was found that fits into memory", hint="give devices more of it")
    best_score, best = starts[0]
    for seed, (_, schedule) in enumerate(starts[:REFINED]):
        if not _is_least(problem, best_score) and not progress.stopped:
            progress.report("moving actions", seed, REFINED, _shown(best_score))
            orders = tuple(tuple(step[0] for step in steps) for steps in schedule.steps)
            better = problem.schedule(refined(problem, orders, runs // REFINED, seed, progress))
            best_score, best = min((best_score, best), (problem.score(better), better), key=lambda each: each[0])
    makespan, bound = best_score[0], problem.lower_bound
    proven = _equal(makespan, bound)
    if not proven:
        progress.report("all orders", 0, nodes, _shown(best_score))
        exact = ExactSearch(problem, makespan, nodes, progress)
        proven = exact.run()
        best = best if exact.orders is None else problem.schedule(exact.orders)
    timeline = run_pipeline(replace(best, name="best"), problem.costs)
    return BestPipeline(timeline, timeline.makespan if proven else bound, proven)


def _shown(score: Score) -> str:
    return format_si(score[0], "s")


def _is_least(problem: PipelineProblem, score: Score) -> bool:
    """Whether neither the makespan nor the longest span can be shorter."""
    costs = problem.costs
    work = zip(*map(problem.of_devices, (costs.forward, costs.backward_input, costs.backward_weight)), strict=True)
    return _equal(score[0], problem.lower_bound) and _equal(score[1], max(map(sum, work)) * problem.micro_batches)


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= ROUNDING * max(one, other)


def _first(first: int, step: int, device: int) -> int:
    return max(1, first - step * device)


def _starts(problem: PipelineProblem) -> Iterator[tuple[Score, PipelineSchedule]]:
    """Schedules that fit, with their scores."""
    seen: set[PipelineSchedule] = set()
    for schedule in _made(problem):
        if schedule not in seen and problem.fits(schedule):
            yield problem.score(schedule), schedule
        seen.add(schedule)


def _made(problem: PipelineProblem) -> Iterator[PipelineSchedule]:
    """Schedules one after another: those by rules take long where devices have many stages."""
    devices, batches = problem.devices, problem.micro_batches
    yield from map(problem.schedule, greedy_orders(problem))
    if problem.device_of == tuple(range(devices)):
        yield from map(problem.schedule, orders_in_rounds(problem))
        rooms = [most / each for most, each in zip(problem.most, problem.costs.activations, strict=True) if each]
        room = int(min([batches, *rooms]) * (1 + ROUNDING))
        for first, step in product(range(1, min(room, 2 * devices) + 1), (1, 2)):
            yield zero_bubble(devices, batches, partial(_first, first, step), room)
    elif problem.device_of == folded(devices):
        yield zb_v(devices, batches)
