"""Plans in turns, which the search does not look at: a plan as it is, some of its all-gathers saved by a ring, or by
panels that are gathered one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from einmap.distribute.placements.placement import Placement, Split, block_of
from einmap.distribute.placements.request import Turns
from einmap.distribute.planner.chosen import ChosenPlan, chosen_plan, in_turns
from einmap.distribute.planner.planning import Planning
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.plans.plan import Local, Move, Plan
from einmap.distribute.rewrites import turns as rewrites
from einmap.distribute.rewrites.group import led
from einmap.distribute.search.search import Found, cheapest
from einmap.distribute.search.space import Options, search_space
from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import graph_inputs
from einmap.einsum.spaces.projection import RankVar
from einmap.errors import EinmapError
from einmap.progress import Progress

PANELS = (4, 16, 64)
"""Panels that are gathered one after another."""
SECONDS = 20.0
"""After these no further turns are tried."""


@dataclass(frozen=True, slots=True)
class _Turned:
    """Turns of a plan, and the most bytes that one PE needs at a time."""

    base: ChosenPlan
    turns: Turns
    plan: Plan
    peak: float


def best_in_turns(
    planning: Planning, bases: Sequence[ChosenPlan], memory: float, progress: Progress | None = None
) -> ChosenPlan | None:
    """Of the plans that spread Einsums as one of `bases`, go over one rank variable in turns, and need at most `memory`
    bytes on each PE, the best: for the metric `memory` that with the least peak, and of several the cheapest. None
    where no such turns keep to it. Graph inputs lie as in the base, or in blocks of that variable.
    """
    timed = (progress or Progress()).within(SECONDS)
    fitting = [one for one in _all_turned(planning, bases, timed) if one.peak <= memory]
    if planning.request.metric == "memory":
        fitting = [one for one in fitting if one.peak == min(other.peak for other in fitting)]
    best: ChosenPlan | None = None
    for one in sorted(fitting, key=lambda one: (one.turns.panels or 0, one.peak)):
        if best is not None and timed.stopped:
            break
        made = in_turns(one.base, one.turns, one.plan, planning.model)
        if best is None or made.cost < best.cost:
            best = made
    return best


def _all_turned(planning: Planning, bases: Sequence[ChosenPlan], progress: Progress) -> Iterator[_Turned]:
    tried: set[object] = set()
    for base in (again for one in bases for again in (one, *_placed_again(planning, one))):
        progress.report("plans in turns", len(tried))
        key = base.plan.buffers, base.plan.steps
        if key in tried:
            continue
        tried.add(key)
        for turns in _offered(base.plan):
            if progress.stopped:
                return
            try:
                plan = rewrites.in_turns(base.plan, turns)
            except EinmapError:
                continue
            yield _Turned(base, turns, plan, peak_memory(plan, base.bits).bytes)


def _placed_again(planning: Planning, chosen: ChosenPlan) -> Iterator[ChosenPlan]:
    """The plan with graph inputs in blocks of one rank variable, over all axes over which their readers have copies."""
    plan, context = chosen.plan, planning.context
    homes = {tensor: chosen.homes[tensor][0] for tensor in graph_inputs(planning.workload)}
    placed: dict[RankVar, dict[TensorName, Placement]] = {}
    for step in (step for step in plan.steps if isinstance(step, Local)):
        einsum = plan.einsum(step.einsum)
        for tensor, name in step.operands:
            read = plan.by_name[name].placement
            axes = tuple(axis for axis, size in context.mesh.axes if size > 1 and axis not in read.used)
            if tensor not in homes or tensor in planning.asked.placements or not axes:
                continue
            for variable in einsum.rank_variables:
                for rank, factor in led(einsum, einsum.by_tensor[tensor], variable):
                    if read.of(rank) is None:
                        block = block_of(context.sizes[tensor][rank], context.mesh.parts(axes), factor)
                        split = Split(rank, axes, block)
                        placed.setdefault(variable, {})[tensor] = Placement((*read.splits, split))
    loops = {name: dict(split) for name, split in chosen.loops.items()}
    for other in placed.values():
        request = replace(planning.asked, placements={**homes, **planning.asked.placements, **other}, loops=loops)
        try:
            space = search_space(context, request, planning.model, planning.bits, Options())
        except EinmapError:
            continue
        found = cheapest(space)
        if isinstance(found, Found):
            yield chosen_plan(space, found, planning.model)


def _offered(plan: Plan) -> Iterator[Turns]:
    """Einsums that follow one another from one that reads what is gathered, over the variable that leads its rank: as a
    ring, over all axes of such gathers together, and in panels.
    """
    locals_ = [step for step in plan.steps if isinstance(step, Local)]
    gathers = {s.target: s for s in plan.steps if isinstance(s, Move) and s.kind == "all_gather"}
    offered: dict[Turns, None] = {}
    for begin, step in enumerate(locals_):
        einsum = plan.einsum(step.einsum)
        for variable in einsum.rank_variables:
            axes = {
                move.axes: None
                for tensor, name in step.operands
                if (move := gathers.get(name)) is not None
                and [rank for rank, _ in led(einsum, einsum.by_tensor[tensor], variable)] == [move.gather]
            }
            together = tuple(dict.fromkeys(axis for some in axes for axis in some))
            for some in dict.fromkeys((*axes, *([together] if axes else []))):
                for end in range(begin + 1, len(locals_) + 1):
                    names = tuple(one.einsum for one in locals_[begin:end])
                    offered |= dict.fromkeys(Turns(names, variable, some, panels) for panels in (None, *PANELS))
    yield from offered
