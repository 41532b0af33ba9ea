"""Simulated annealing of a schedule: an action of a device moves some places, and the pipeline is run again."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any, NamedTuple

import numba
import numpy as np

from einmap.distribute.pipelines.problem import ROUNDING, Orders, PipelineProblem
from einmap.distribute.pipelines.schedule import SPLIT, Action, needed_here
from einmap.distribute.pipelines.timeline import needed_before
from einmap.progress import Progress

type Array = Any
HOT, COLD = 0.002, 0.0002
"""Temperatures at first and at last, in the time of a micro-batch. Ten times as hot 8 devices stay 1 % longer."""
AT_ONCE = 5_000
"""Turns after which it is asked whether to stop."""
WEIGHT = 0.5
"""Of the longest span beside the makespan, and of the mean span beside that."""


class Pipeline(NamedTuple):
    """Actions as numbers. `seconds`: float (actions). `needed`: int (actions, 2), -1 for none, and `lags`: float, how
    long after its end. `held`: float, what an action adds to its device; `most`: float (devices).
    """

    seconds: Array
    needed: Array
    lags: Array
    held: Array
    most: Array


class Times(NamedTuple):
    """Room for a run. `ends`: float (actions); `free`, `begins`: float (devices); `at`: int (devices)."""

    ends: Array
    free: Array
    begins: Array
    at: Array


@numba.njit(cache=True, nogil=True)
def run(pipeline: Pipeline, order: Array, starts: Array, times: Times) -> float:
    """Weighted makespan and spans of an order; inf where devices wait for ever.

    `order`: int (actions), those of device d from `starts[d]` to `starts[d + 1] - 1`.
    """
    devices, left = len(starts) - 1, len(order)
    times.ends[:] = -1.0
    times.free[:] = 0.0
    times.begins[:] = 0.0
    times.at[:] = starts[:-1]
    while left:
        before = left
        for d in range(devices):
            while times.at[d] < starts[d + 1]:
                action, begin, known = order[times.at[d]], times.free[d], True
                for j in range(2):
                    other = pipeline.needed[action, j]
                    if other >= 0:
                        known &= times.ends[other] >= 0
                        begin = max(begin, times.ends[other] + pipeline.lags[action, j])
                if not known:
                    break
                if times.at[d] == starts[d]:
                    times.begins[d] = begin
                times.free[d] = times.ends[action] = begin + pipeline.seconds[action]
                times.at[d] += 1
                left -= 1
        if left == before:
            return np.inf
    longest = mean = 0.0
    for d in range(devices):
        longest = max(longest, times.free[d] - times.begins[d])
        mean += (times.free[d] - times.begins[d]) / devices
    makespan: float = times.free.max()
    return makespan + WEIGHT * longest + WEIGHT**2 * mean


@numba.njit(cache=True, nogil=True)
def shift(order: Array, place: int, to: int) -> None:
    """Move one action of `order` (int) to another place; those in between move by one."""
    action, step = order[place], 1 if to > place else -1
    for i in range(place, to, step):
        order[i] = order[i + step]
    order[to] = action


@numba.njit(cache=True, nogil=True)
def anneal(
    pipeline: Pipeline, order: Array, best: Array, starts: Array, turns: Array, unit: float, values: Array
) -> None:
    """Some of the turns of one search. `order`, the latest one, and `best` are changed; `starts`: as of `run`; `turns`:
    int (4), the first, the end, how many there are in all, and the seed; `unit`: seconds of a micro-batch; `values`:
    float (2), of both orders, made in the first turns.
    """
    first_turn, end, runs, seed = turns
    devices, actions = len(starts) - 1, len(order)
    times = Times(np.empty(actions), np.empty(devices), np.empty(devices), np.empty(devices, np.int64))
    if first_turn == 0:
        np.random.seed(seed)
        values[:] = run(pipeline, order, starts, times)
    now, least = values
    for turn in range(first_turn, end):
        device = np.random.randint(devices)
        first, length = starts[device], starts[device + 1] - starts[device]
        place = np.random.randint(length)
        to = place + np.random.randint(1, 7) * (1 if np.random.randint(2) else -1)
        if not 0 <= to < length:
            continue
        shift(order, first + place, first + to)
        held, value = 0.0, 0.0
        for i in range(first, first + length):
            held += pipeline.held[order[i]]
            if held > pipeline.most[device]:
                value = np.inf
        if value < np.inf:
            value = run(pipeline, order, starts, times)
        temperature = unit * HOT * (COLD / HOT) ** (turn / runs)
        if value <= now or (value < np.inf and np.random.random() < np.exp((now - value) / temperature)):
            now = value
            if now < least * (1 - 1e-12):
                least = now
                best[:] = order
        else:
            shift(order, first + to, first + place)
    values[0], values[1] = now, least


def refined(problem: PipelineProblem, orders: Orders, runs: int, seed: int, progress: Progress | None = None) -> Orders:
    """The best orders of `runs` that are run, `orders` among them; equal calls give equal orders. `progress` may end
    the search early.
    """
    batches = problem.micro_batches
    actions = [Action(s, kind, b) for kind in SPLIT for s in range(problem.stages) for b in range(batches)]
    number = {action: i for i, action in enumerate(actions)}
    needed, lags = np.full((len(actions), 2), -1), np.zeros((len(actions), 2))
    for i, action in enumerate(actions):
        before = [*needed_here(action), *(group[0] for group in needed_before(action, problem.stages))]
        for j, other in enumerate(before):
            needed[i, j], lags[i, j] = number[other], problem.lag(other.stage, action.stage)
    activations = problem.costs.activations
    pipeline = Pipeline(
        np.array([problem.costs.of(action) for action in actions]),
        needed,
        lags,
        np.array([activations[a.stage] * ((a.kind == "F") - (a.kind == "W")) for a in actions], dtype=np.float64),
        np.array([most * (1 + ROUNDING) for most in problem.most]),
    )
    starts = np.cumsum([0, *map(len, orders)])
    unit = problem.lower_bound / batches
    order, values = np.array([number[a] for a in chain(*orders)]), np.zeros(2)
    best = order.copy()
    for first in range(0, max(runs, 1), AT_ONCE):
        turns = np.array([first, min(first + AT_ONCE, runs), runs, seed])
        anneal(pipeline, order, best, starts, turns, unit, values)
        if progress is not None:
            progress.report("moving actions", int(turns[1]), runs)
            if progress.stopped:
                break
    return tuple(tuple(actions[i] for i in best[low:high]) for low, high in pairwise(starts))
