"""Changes of memory or links, one at a time: the same workload is planned again with each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from einmap.distribute.costs.cluster import Cluster, Link
from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.planner.best import Best, best_plan
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.progress import Progress
from einmap.units import format_bits, format_si
from einmap.visible import brief


@dataclass(frozen=True)
class Change:
    """One change and the best plan with it. `what`: such as `twice the bandwidth along y (45 GB/s)`; `best`: None where
    no plan was found, or the time was over before (`tried` is false).
    """

    __repr__ = brief

    what: str
    best: ChosenPlan | None
    tried: bool = True


def what_changes(
    planning: Planning, best: Best, seconds: float, progress: Progress | None = None
) -> tuple[Change, ...]:
    """Half and twice the memory, where there is a limit; for the metric `time` also twice the bandwidth and half the
    latency along each axis. After `seconds` no further change is tried.
    """
    changes = list(_changes(planning.request, best))
    timed = (progress or Progress()).within(seconds)
    made: list[Change] = []
    for number, (what, request) in enumerate(changes):
        timed.report("other memory and links", number, len(changes))
        left = seconds if timed.deadline is None else timed.deadline - time.monotonic()
        if timed.stopped or left <= 0:
            made.append(Change(what, None, tried=False))
            continue
        limited = replace(request, time_limit=min(request.time_limit, left))
        found = best_plan(Planning(planning.workload, limited), timed)
        made.append(Change(what, found.chosen, tried=found.chosen is not None or found.proven))
    return tuple(made)


def _changes(request: PlanRequest, best: Best) -> Iterator[tuple[str, PlanRequest]]:
    memory = request.limit
    if memory is not None and request.metric != "memory":
        yield f"half the memory ({format_bits(4 * memory)})", replace(request, memory=memory / 2)
        # without the limit nothing is gained where it does not bind
        if best.unlimited is not None:
            yield f"twice the memory ({format_bits(16 * memory)})", replace(request, memory=memory * 2)
    if request.metric != "time":
        return
    for axis, size in request.mesh.axes:
        link = dict(request.cluster.links)[axis]
        if size > 1:
            wide = replace(link, bandwidth=2 * link.bandwidth)
            yield f"twice the bandwidth along {axis} ({format_si(wide.bandwidth, 'B/s')})", _with(request, axis, wide)
            if link.latency:
                soon = replace(link, latency=link.latency / 2)
                yield f"half the latency along {axis} ({format_si(soon.latency, 's')})", _with(request, axis, soon)


def _with(request: PlanRequest, axis: AxisName, link: Link) -> PlanRequest:
    links = tuple((name, link if name == axis else one) for name, one in request.cluster.links)
    return replace(request, cluster=Cluster(request.cluster.pe, links))
