"""A few promising dataplacements and uses of the fanouts of an Einsum that has too many to list in time.

Good mappings of the Einsum by itself come first (`independent.descent`): with its intermediate tensors in the outermost
memory, and, where that took little time, with these for free wherever that is best. What they keep is what the
dataplacements keep, but for intermediate tensors: these have their outermost nodes in each memory in turn that no lanes
stand above. Further in all users of a tensor would have to use the lanes above it alike, and there are many times as
many choices. Other inputs may be kept where intermediate tensors begin, too.
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
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress

LONGEST = 5.0
"""Seconds for the first mappings where time is over."""
FOR_LISTS, FOR_FEW = 1 / 3, 2 / 5
"""Part of a limited time in which the dataplacements of all Einsums are listed; part of what is left in which a few of
each are looked for where that is not enough.
"""
FOR_BOTH = 5 / 8
"""Part of the time for an Einsum after which the second mapping is not looked for."""
MOST_WORK = 500_000
"""Choices of tiles that are looked at to improve a mapping."""
MOST_ORDERS = 8
"""Orders of storage nodes of one choice of what memories keep."""
MOST_TURNED = 64
"""Orders among which one is looked for in which a tensor comes first."""
MANY = 1_000_000
"""Dataplacements with uses of the fanouts of a listed Einsum, beyond which a few do where others have a few."""
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
        self.hurried: set[str] = set()
        """Einsums that had too little time for their few choices, by name."""
        self.alone: dict[str, LoopTree] = {}
        """Good mappings of Einsums by themselves that were found on the way, by name."""

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
        part = share_of(self.few, 1 / self.waiting)
        few = thin_plans(einsum, arch, request, self.goal, times, part, self.alone)
        self.hurried |= {einsum.name} if part.stopped else set()
        return few or PlannedEinsum.of(einsum, arch, request, self.progress)

    def thinner(self, planned: PlannedEinsum, times: int) -> PlannedEinsum:
        """A few of the dataplacements of an Einsum that was listed before one that has too many.

        Nothing is proven by them any more, and bounds of very many take longer than a few are looked for.
        """
        choices = sum(len(path.plans) * len(path.lanes) for path in planned.paths)
        if not self.are_few or not planned.has_all or choices <= MANY:
            return planned
        part = share_of(self.few, 1 / max(self.waiting, 2))
        few = thin_plans(planned.einsum, planned.arch, planned.request, self.goal, times, part, self.alone)
        return few or planned

    def without(self, other: Callable[[], None]) -> None:
        """Do something else, of which the time does not count."""
        left = self.all.seconds_left(), self.few.seconds_left()
        other()
        self.all, self.few = (self.progress.within(seconds) for seconds in left)


def thin_plans(
    einsum: Einsum,
    arch: Architecture,
    request: Request,
    goal: str,
    times: int,
    progress: Progress,
    alone: dict[str, LoopTree] | None = None,
) -> PlannedEinsum | None:
    """Some dataplacements of an Einsum that runs so many `times`; None where none is found soon.

    `progress`: when it is time for whatever was found. `alone`: takes the best mapping that was found with all tensors
    in the outermost memory, by the name of the Einsum.
    """
    asked, paths, outside = replace(request, remainder=None, goals=(goal,)), list[Path](), list[Point]()
    for unit in (unit for unit in arch.computes if unit.enabled):
        widest = Descent(einsum, arch, arch.path(unit.name), asked, times, MOST_WORK)
        path = _of_path(widest, request, outside, progress)
        paths += [] if path is None else [path]
    if alone is not None and outside:
        alone[einsum.name] = min(outside, key=lambda point: point.value).mapping
    return PlannedEinsum(einsum, arch, request, tuple(paths)) if paths else None


def _of_path(widest: Descent, request: Request, outside: list[Point], progress: Progress) -> Path | None:
    alone, last = widest.keeping_outside(), Progress(progress.callback).within(LONGEST)
    second = share_of(progress, FOR_BOTH)
    alone.begin(last)
    alone.improve(progress)
    if alone.best is None or not second.stopped:
        widest.begin(last)
        widest.improve(second)
    outside += [] if alone.best is None else [alone.best]
    found = [descent.best for descent in (alone, widest) if descent.best is not None]
    if not found:
        return None
    plans: dict[ChainTemplate, None] = {}
    for best in found:
        every = list(_backings(widest, widest.held(best.plan.placement)))
        for wanted in every:
            plans |= dict.fromkeys(widest.keeping(wanted, MOST_ORDERS))
        plans |= dict.fromkeys(_with_inputs(widest, every[-1]))
    lanes = distinct_uses(found[0].lanes, [best.lanes.bounds for best in found])
    return widest.path.with_plans(replace(request, remainder=None), list(plans)[:MOST_PLANS]).with_lanes(lanes)


def _with_inputs(descent: Descent, wanted: list[Names]) -> Iterator[ChainTemplate]:
    """Dataplacements with one more input in the memory where intermediate tensors begin, above these, for each input.

    By itself that hardly pays; below a fused loop the input is read again and again. Intermediate tensors come in all
    orders: loops that part them may be those below which others of them are made.
    """
    inside = descent.einsum.tensors & descent.request.intermediates
    place = next((i for i, kept in enumerate(wanted) if inside and kept >= inside), 0)
    for tensor in (a.tensor for a in descent.einsum.accesses if a.tensor in descent.einsum.inputs):
        if place and tensor not in wanted[place]:
            kept = [kept | {tensor} if i == place else kept for i, kept in enumerate(wanted)]
            memory, orders = descent.holders[place].name, dict[tuple[str, ...], ChainTemplate]()
            for plan in descent.keeping(kept, MOST_TURNED):
                order = tuple(held for holder, held in plan.placement.nodes if holder == memory)
                if order[:1] == (tensor,):
                    orders.setdefault(order, plan)
            yield from orders.values()


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
