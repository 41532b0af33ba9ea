"""Recurrences as fast code: a state lies in one place, where each step overwrites what the step before has left.

    B[t, m] = SD[T: t, m] * F[t, m]
    SD[T: t + 1, m] = B[t, m] + S[t, m]

becomes a loop over t, in which SD has no rank of time. That is right where what is read of the step before is read
before the step writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.recurrence import Recurrence
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError
from einmap.mapping.nodes import Address
from einmap.schedule.schedule import Schedule


def without_time(schedule: Schedule) -> Schedule:
    """The schedule with states that have no rank of time. Raises NotSupportedError where one place is not enough."""
    workload = schedule.workload
    for recurrence in workload.recurrences:
        if not {t for e in workload.einsums for t in e.outputs} - {*workload.intermediates}:
            _refuse(workload.by_name[recurrence.einsums[-1]], "is in a cascade that has no results but states")
        for state, rank in recurrence.states.items():
            _check(workload, recurrence, state, rank)
    routes = {name: replace(route, einsum=_untimed(route.einsum, workload)) for name, route in schedule.routes.items()}
    return replace(schedule, routes=routes)


def times_of(workload: Workload) -> Mapping[str, str]:
    """For each Einsum of a recurrence the rank variable that steps."""
    return {name: recurrence.variable for recurrence in workload.recurrences for name in recurrence.einsums}


def beginnings(schedule: Schedule) -> Mapping[Address, tuple[str, ...]]:
    """For each loop over the steps of a recurrence the states that are 0 as it begins."""
    return {
        turn.address: tuple(recurrence.states)
        for recurrence in schedule.workload.recurrences
        for turn in schedule.routes[recurrence.einsums[0]].turns
        if turn.variable == recurrence.variable
    }


def check_held(schedule: Schedule, state: str) -> None:
    """Refuse a state of which the loop over steps would see another part in each turn of a loop further in."""
    recurrence = schedule.workload.states[state]
    route = schedule.routes[schedule.workload.producers[state]]
    hold, variables = route.holds[state][0], route.einsum.by_tensor[state].variables
    steps = min(t.position for t in route.turns if t.variable == recurrence.variable)
    for turn in route.turns:
        if steps < turn.position < hold.position and turn.variable in variables and route.iterations[turn.address] > 1:
            _refuse(route.einsum, f"holds the state {state!r} below a loop over {turn.variable!r} within a step")


def _check(workload: Workload, recurrence: Recurrence, state: str, rank: str) -> None:
    names = list(recurrence.einsums)
    writer = workload.by_name[workload.producers[state]]
    if state not in workload.ending and set(workload.consumers[state]) - {*names}:
        _refuse(writer, f"writes {state!r}, of which others read more than the last step")
    at = dict(writer.by_tensor[state].projection)[rank].constant
    for name in workload.consumers[state]:
        if name not in names:
            continue
        lag = at - dict(workload.by_name[name].by_tensor[state].projection)[rank].constant
        is_before = names.index(name) < names.index(writer.name)
        if lag != is_before:
            _refuse(workload.by_name[name], f"reads {state!r} of a step that the next one has overwritten by then")


def _untimed(einsum: Einsum, workload: Workload) -> Einsum:
    return replace(einsum, accesses=tuple(_in_place(access, workload) for access in einsum.accesses))


def _in_place(access: TensorAccess, workload: Workload) -> TensorAccess:
    recurrence = workload.states.get(access.tensor)
    if recurrence is None:
        return access
    time = recurrence.states[access.tensor]
    return replace(access, projection=tuple((rank, index) for rank, index in access.projection if rank != time))


def _refuse(einsum: Einsum, text: str) -> None:
    raise NotSupportedError(
        f"Einsum {einsum.name!r} {text}; fast code for that cannot be emitted yet",
        hint="leave out --fast of einmap emit",
    )
