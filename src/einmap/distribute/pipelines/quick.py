"""Ends and peaks of a schedule for many costs: what does not depend on costs is found once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np

from einmap.distribute.pipelines.schedule import Action, PipelineSchedule, needed_here
from einmap.distribute.pipelines.timeline import StageCosts, needed_before

type Array = Any


class Ordered(NamedTuple):
    """A schedule of single actions as arrays, device by device. `stage`, `kind`: int (actions), kinds F, I, W, B as 0
    to 3; `needed`: int (actions, 2), positions of actions that come before, -1 for none; `moved`: int (actions, 2),
    the earlier stage of the two where these are on another device, else -1; `starts`: int (devices + 1).
    """

    stage: Array
    kind: Array
    needed: Array
    moved: Array
    starts: Array


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
    return Ordered(
        np.array([action.stage for action in actions]),
        np.array(["FIWB".index(action.kind) for action in actions]),
        needed,
        moved,
        np.cumsum([0, *map(len, schedule.steps)]),
    )


def _before(schedule: PipelineSchedule, action: Action, position: dict[Action, int]) -> Sequence[Action]:
    groups = needed_before(action, schedule.stages)
    return [*needed_here(action), *(next(one for one in group if one in position) for group in groups)]


def ends_and_peaks(run: Ordered, costs: StageCosts) -> tuple[list[float], list[float]]:
    """For each device the seconds until its last action is done, and the most activations that it holds; as
    `run_pipeline` has them.
    """
    rows = np.array([costs.forward, costs.backward_input, costs.backward_weight])
    seconds = np.vstack([rows, rows[1:].sum(axis=0)])[run.kind, run.stage]
    ends = np.full(len(seconds), -1.0)
    lags = np.array([*costs.transfers, 0.0])[run.moved]
    if not _run(seconds, run.needed, lags, run.starts, ends):
        raise AssertionError("a shipped schedule waits for ever")
    changes = np.array([1.0, 0.0, -1.0, -1.0])[run.kind] * np.array(costs.activations)[run.stage]
    last, peaks = [], []
    for begin, end in zip(run.starts[:-1], run.starts[1:], strict=True):
        last.append(float(ends[end - 1]) if end > begin else 0.0)
        peaks.append(float(np.cumsum(changes[begin:end]).max(initial=0.0)))
    return last, peaks


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
