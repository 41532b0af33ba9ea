"""Ends and peaks of a schedule for many costs: what does not depend on costs is found once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np

from einmap.distribute.pipelines.schedule import Action, PipelineSchedule, needed_here
from einmap.distribute.pipelines.timeline import StageCosts, needed_before
from einmap.pareto import nondominated

type Array = Any


class Ordered(NamedTuple):
    """A schedule of single actions as arrays, device by device. `stage`, `kind`: int (actions), kinds F, I, W, B as 0
    to 3; `needed`: int (actions, 2), positions of actions that come before, -1 for none; `moved`: int (actions, 2),
    the earlier stage of the two where these are on another device, else -1; `starts`: int (devices + 1); `waiting`:
    float (rows, stages), micro-batches that wait in each stage of a device, of all its moments those at which no more
    wait in any of its stages at another one; `rows`: int (devices), where those of each device begin.
    """

    stage: Array
    kind: Array
    needed: Array
    moved: Array
    starts: Array
    waiting: Array
    rows: Array

    def peaks(self, activations: Sequence[float] | Array) -> Array:
        """The most activations that each device holds, float (devices), where a micro-batch has so many in a stage."""
        return np.maximum.reduceat(self.waiting @ np.asarray(activations), self.rows)


def ordered(schedule: PipelineSchedule) -> Ordered:
    """The arrays of a schedule, whose steps have one action each."""
    actions = [action for steps in schedule.steps for (action,) in steps]
    position = {action: number for number, action in enumerate(actions)}
    needed, moved = np.full((len(actions), 2), -1), np.full((len(actions), 2), -1)
    for number, action in enumerate(actions):
        for column, other in enumerate(_before(schedule, action, position)):
            needed[number, column] = position[other]
            if schedule.device_of[other.stage] != schedule.device_of[action.stage]:
                moved[number, column] = min(other.stage, action.stage)
    stage = np.array([action.stage for action in actions])
    kind = np.array(["FIWB".index(action.kind) for action in actions])
    starts = np.cumsum([0, *map(len, schedule.steps)])
    waiting = [_waiting(stage[b:e], kind[b:e], schedule.stages) for b, e in pairwise(starts)]
    rows = np.cumsum([0, *map(len, waiting)])[:-1]
    return Ordered(stage, kind, needed, moved, starts, np.vstack(waiting), rows)


def _waiting(stage: Array, kind: Array, stages: int) -> Array:
    """Rows of `Ordered.waiting` of one device with these actions."""
    changes, own = np.array([1.0, 0.0, -1.0, -1.0])[kind], np.unique(stage)
    waiting = np.cumsum(changes[:, None] * (stage[:, None] == own), axis=0)
    # most wait just before one is done
    moments = np.unique(waiting[np.flatnonzero(changes < 0) - 1], axis=0)
    moments = moments[nondominated(-moments)]
    made = np.zeros((len(moments), stages))
    made[:, own] = moments
    return made


def _before(schedule: PipelineSchedule, action: Action, position: dict[Action, int]) -> Sequence[Action]:
    groups = needed_before(action, schedule.stages)
    return [*needed_here(action), *(next(one for one in group if one in position) for group in groups)]


def ends(run: Ordered, costs: StageCosts) -> list[float]:
    """For each device the seconds until its last action is done, as `run_pipeline` has them."""
    rows = np.array([costs.forward, costs.backward_input, costs.backward_weight])
    seconds = np.vstack([rows, rows[1:].sum(axis=0)])[run.kind, run.stage]
    ends = np.full(len(seconds), -1.0)
    lags = np.array([*costs.transfers, 0.0])[run.moved]
    if not _run(seconds, run.needed, lags, run.starts, ends):
        raise AssertionError("a shipped schedule waits for ever")
    last: list[float] = ends[run.starts[1:] - 1].tolist()
    return last


@numba.njit(cache=True, nogil=True)
def _run(seconds: Array, needed: Array, lags: Array, starts: Array, ends: Array) -> bool:
    """Fill `ends`, float (actions); whether no device waits for ever. Other arrays: as in `Ordered`."""
    devices, left = len(starts) - 1, len(seconds)
    at, free = starts[:-1].copy(), np.zeros(devices)
    while left:
        before = left
        for d in range(devices):
            while at[d] < starts[d + 1]:
                action, begin, known = at[d], free[d], True
                for j in range(2):
                    other = needed[action, j]
                    if other >= 0:
                        known &= ends[other] >= 0
                        begin = max(begin, ends[other] + lags[action, j])
                if not known:
                    break
                free[d] = ends[action] = begin + seconds[action]
                at[d] += 1
                left -= 1
        if left == before:
            return False
    return True
