"""Where the values of a copy Einsum are and pass, and which buffers a copy makes one."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.einsum.numeric import check_copy
from einmap.schedule.routes import Hold, Route
from einmap.spec.raw import placed
from einmap.spec.spec import Spec


def used_by_copy(route: Route) -> list[Hold]:
    """The holders that values are in or pass on their way; others hold nothing."""
    (source,) = route.einsum.inputs
    begin = route.holds[source][0]
    used = [begin]
    for target in sorted(route.einsum.outputs):
        end = route.holds[target][0]
        low, high = sorted((begin.level, end.level))
        used.append(end)
        for tensor in (source, target):
            used += [h for h in route.holds[tensor] if low < h.level < high]
    return used


def aliases(routes: Mapping[str, Route]) -> dict[tuple[str, str], str]:
    """(memory, tensor) pairs that a copy keeps in the memory of its source, with a common name."""
    names: dict[tuple[str, str], str] = {}
    for route in routes.values():
        if not route.einsum.is_copy:
            continue
        (source,) = route.einsum.inputs
        memory = route.holds[source][0].component.name
        for target in sorted(route.einsum.outputs):
            if route.holds[target][0].component.name == memory:
                common = names.get((memory, source), source)
                names[memory, source] = names[memory, target] = common
    return names


def check_copies(spec: Spec) -> None:
    """Raise SpecError, with its place, for a copy Einsum whose outputs have no definite values."""
    for number, einsum in enumerate(spec.workload.einsums):
        with placed(spec.raw, ("workload", "einsums", number)):
            check_copy(einsum)
