"""Objectives as the kernels know them, and the columns of cost that they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from einmap.arch.component import Leaf, Memory
from einmap.arrays import Ints
from einmap.mapper.objective import objective_kernels as kernels
from einmap.mapper.objective.metrics import METRICS

GOALS = {name: metric.code for name, metric in METRICS.items() if metric.code is not None}


_BUSY, _OPERATIONS = "busy of ", "operations of "


def busy(component: str) -> str:
    """The name of an objective: the seconds that a component is busy; 0 where it is not on the path."""
    return f"{_BUSY}{component}"


OWN = "own"
"""The name of an objective: the seconds of what an Einsum does while it runs; what works ahead of it does not count."""


def busy_form(component: str, number: int) -> str:
    """The name of an objective: the seconds of one latency form of a component, which add up over Einsums."""
    return f"{_BUSY}{component}/{number}"


def operations_of(unit: str) -> str:
    """The name of an objective: the seconds of the operations on a compute; 0 where it is another one."""
    return f"{_OPERATIONS}{unit}"


def is_form(goal: str) -> bool:
    """Whether an objective is a column of seconds that adds up over Einsums."""
    return goal.startswith((_BUSY, _OPERATIONS))


def table_columns(goals: Sequence[str], columns: int) -> Ints:
    """Columns whose cost to go is worth a table, for these objectives."""
    if OWN in goals or any(METRICS[goal].is_timed for goal in goals if goal in METRICS):
        return np.arange(columns)
    return np.array([0, columns - 1])


def goal_codes(goals: Sequence[str], leaves: Sequence[Leaf], columns: Mapping[str, range], operations: int) -> Ints:
    """Objectives as the kernel knows them; `usage of M` is that of a memory, 0 where it is not on the path.

    `columns`: where the busy times of each component stand among the costs, for `busy of C`; `operations`: where the
    time of the operations does, which is what `own` is at least.
    """
    memories = [leaf.name for leaf in leaves if isinstance(leaf, Memory)]
    codes = []
    for goal in goals:
        if goal in GOALS:
            codes.append(GOALS[goal])
        elif goal == OWN or goal.startswith(_OPERATIONS):
            here = goal == OWN or goal == operations_of(leaves[-1].name)
            codes.append(kernels.BUSY + operations * kernels.MOST_FORMS + here)
        elif goal.startswith(_BUSY) and "/" in goal:
            component, _, number = goal.removeprefix(_BUSY).rpartition("/")
            form = columns.get(component, range(0))[int(number) :][:1]
            codes.append(kernels.BUSY + form.start * kernels.MOST_FORMS + len(form))
        elif goal.startswith(_BUSY):
            of_component = columns.get(goal.removeprefix(_BUSY), range(0))
            codes.append(kernels.BUSY + of_component.start * kernels.MOST_FORMS + len(of_component))
        else:
            name = goal.removeprefix("usage of ")
            codes.append(kernels.USAGE + (memories.index(name) if name in memories else len(memories)))
    return np.array(codes, dtype=np.int64)
