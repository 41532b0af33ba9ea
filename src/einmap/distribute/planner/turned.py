"""Plans in turns, which the search does not look at: a plan as it is, one of its all-gathers saved by a ring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from einmap.distribute.derive import cheapest_plan
from einmap.distribute.lifetimes import peak_memory
from einmap.distribute.placement import Placement, Split, block_of
from einmap.distribute.plan import Local, Move, Plan
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.planner.planning import Planning
from einmap.distribute.request import Turns
from einmap.distribute.schedules.group import led
from einmap.distribute.schedules.turns import in_turns
from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import graph_inputs
from einmap.einsum.projection import RankVar
from einmap.errors import EinmapError

PANELS = (4, 16, 64)
"""Panels that are gathered one after another."""


@dataclass(frozen=True, slots=True)
class Turned:
    """What runs in turns, the plan with them, and the most bytes that one PE needs at a time."""

    turns: Turns
    plan: Plan
    peak: float


def thriftiest_in_turns(planning: Planning, chosen: ChosenPlan) -> Turned | None:
    """Of the plans that spread Einsums as `chosen`, and go over one rank variable in turns, that with the least peak;
    None where nothing can be so. Its graph inputs lie as in `chosen`, or in blocks of that variable.
    """
    best: Turned | None = None
    for plan in (chosen.plan, *_placed_again(planning, chosen)):
        for turns in _offered(plan):
            try:
                turned = in_turns(plan, turns)
            except EinmapError:
                continue
            peak = peak_memory(turned, chosen.bits).bytes
            if best is None or peak < best.peak:
                best = Turned(turns, turned, peak)
    return best


def _placed_again(planning: Planning, chosen: ChosenPlan) -> Iterator[Plan]:
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
            yield cheapest_plan(context, request, plan.dtype, planning.model)
        except EinmapError:
            continue


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
