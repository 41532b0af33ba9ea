"""A few promising dataplacements and uses of the fanouts of an Einsum that has too many to list in time.

Two good mappings of the Einsum by itself come first (`independent.descent`): with its intermediate tensors in the
outermost memory, and with these for free wherever that is best. What they keep is what the dataplacements keep, but for
intermediate tensors: these have their outermost nodes in each memory in turn that no lanes stand above. Further in all
users of a tensor would have to use the lanes above it alike, and there are many times as many choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product, takewhile

from einmap.arch.component import Memory
from einmap.arch.constraint import Names
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.independent.descent import Descent, Point
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.mapspace.lanes.lane_moves import distinct_uses
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_fused
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.progress import Progress

LONGEST = 5.0
"""Seconds for the first mappings where time is over."""
FOR_LISTS, FOR_FEW = 1 / 3, 1 / 4
"""Part of a limited time in which the dataplacements of all Einsums are listed; part of what is left in which a few of
each are looked for where that is not enough.
"""
MOST_WORK = 500_000
"""Choices of tiles that are looked at to improve a mapping."""
MOST_ORDERS = 8
"""Orders of storage nodes of one choice of what memories keep."""
MOST_PLANS = 400
"""Dataplacements of one path."""
LEAST_BACKING = 2
"""Memories that intermediate tensors may begin in, lanes above them or not."""


@dataclass
class ListsInTime:
    """Lists of the dataplacements of Einsums: all of them, or a few where a limited time is not enough.

    `goal`: the one objective that is searched, empty where all that can be listed is wanted. `waiting`: Einsums that
    are to be listed, with the next one.
    """

    progress: Progress
    goal: str
    waiting: int

    def __post_init__(self) -> None:
        self.all = self.few = share_of(self.progress, FOR_LISTS)
        """Until when everything is listed; until when a few are looked for."""
        self.are_few = False

    def of(self, einsum: Einsum, arch: Architecture, request: Request, times: int) -> PlannedEinsum:
        """The dataplacements of an Einsum that runs so many `times`."""
        may_be_few = self.goal in METRICS and why_not_fused(einsum, arch, (self.goal,)) is None
        if self.progress.deadline is None or not may_be_few:
            return PlannedEinsum.of(einsum, arch, request, self.progress)
        planned = None if self.all.stopped else PlannedEinsum.whole(einsum, arch, request, self.all)
        if planned is not None:
            return planned
        if not self.are_few:
            # without all of this one nothing is proven, whatever is listed of the others
            self.all, self.few, self.are_few = self.progress.within(0), share_of(self.progress, FOR_FEW), True
        few = thin_plans(einsum, arch, request, self.goal, times, share_of(self.few, 1 / self.waiting))
        return few or PlannedEinsum.of(einsum, arch, request, self.progress)

    def without(self, other: Callable[[], None]) -> None:
        """Do something else, of which the time does not count."""
        left = self.all.seconds_left(), self.few.seconds_left()
        other()
        self.all, self.few = (self.progress.within(seconds) for seconds in left)


def thin_plans(
    einsum: Einsum, arch: Architecture, request: Request, goal: str, times: int, progress: Progress
) -> PlannedEinsum | None:
    """Some dataplacements of an Einsum that runs so many `times`; None where none is found soon.

    `progress`: when it is time for whatever was found.
    """
    paths = []
    for unit in (unit for unit in arch.computes if unit.enabled):
        path = _of_path(einsum, arch, unit.name, replace(request, remainder=None), goal, times, progress)
        paths += [] if path is None else [path]
    return PlannedEinsum(einsum, arch, request, tuple(paths)) if paths else None


def _of_path(
    einsum: Einsum, arch: Architecture, unit: str, request: Request, goal: str, times: int, progress: Progress
) -> Path | None:
    asked = replace(request, goals=(goal,))
    widest = Descent(einsum, arch, arch.path(unit), asked, times, MOST_WORK)
    alone = widest.keeping_outside()
    found, last = list[Point](), Progress(progress.callback).within(LONGEST)
    for descent in (alone, widest):
        if descent is alone or not progress.stopped:
            descent.begin(last)
            descent.improve(progress)
            found += [] if descent.best is None else [descent.best]
    if not found:
        return None
    plans: dict[ChainTemplate, None] = {}
    for best in found:
        for wanted in _backings(widest, widest.held(best.plan.placement)):
            plans |= dict.fromkeys(widest.keeping(wanted, MOST_ORDERS))
    lanes = distinct_uses(found[0].lanes, [best.lanes.bounds for best in found])
    return widest.path.with_plans(request, list(plans)[:MOST_PLANS]).with_lanes(lanes)


def _backings(descent: Descent, held: list[Names]) -> Iterator[list[Names]]:
    """Tensors that memories and tolls keep where each intermediate tensor begins in each outer memory in turn."""
    inside = [a.tensor for a in descent.einsum.accesses if a.tensor in descent.request.intermediates]
    memories = [i for i, holder in enumerate(descent.holders) if isinstance(holder, Memory)]
    above_lanes = {leaf.name for leaf in takewhile(lambda leaf: not leaf.spatial, descent.leaves)}
    outer = sum(descent.holders[i].name in above_lanes for i in memories)
    memories = memories[: max(outer, LEAST_BACKING)]
    for places in product(memories, repeat=len(inside)):
        wanted = list(held)
        for tensor, place in zip(inside, places, strict=True):
            wanted = [kept - {tensor} if i < place else kept for i, kept in enumerate(wanted)]
            wanted[place] |= {tensor}
        yield wanted
