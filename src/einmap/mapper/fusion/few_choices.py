"""A few choices of each Einsum of a cascade, of all that are listed where these are too many to be searched soon.

Where choices are too many to list each Einsum has a few from the start; those for which there was too little time are
looked for once more, where they cost most above their bounds.
"""

from __future__ import annotations

import math

import numpy as np

from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.floors_with_room import FloorsBeforePlans
from einmap.mapper.fusion.thin_plans import thin_plans
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.mapspace.lanes.lane_moves import distinct_uses
from einmap.progress import Progress

FAR_TOO_MANY = 10_000_000
"""Dataplacements with uses of the fanouts, of all Einsums, that are listed soon, but hardly searched in a limited time:
a hundred times as many as most machines leave to a layer or a network.
"""

FAR_ABOVE = 1e-3
"""How far above its bounds an Einsum costs, in parts of the whole, whose choices are looked for once more."""
FOR_ANEW, OF_LEFT = 0.5, 0.25
"""Parts of the time in which that is done, and that one Einsum may take of it."""


def has_far_too_many(cascade: CascadeProblem) -> bool:
    """Whether the Einsums have more choices than are searched soon."""
    of_each = [member.chains.statistics for member in cascade.distinct]
    return sum(of.templates * of.lanes for of in of_each) > FAR_TOO_MANY


def few_choices(cascade: CascadeProblem, progress: Progress) -> dict[str, PlannedEinsum]:
    """A few promising choices of each Einsum that has tables, by name, as far as there is time for them."""
    few, (goal, *_) = dict[str, PlannedEinsum](), cascade.options.goals
    every = [part for part in cascade.parts.values() if isinstance(part, PlannedEinsum)]
    planned = [part for part in every if part.request.given is None]
    for number, part in enumerate(planned):
        share, times = share_of(progress, 1 / (len(planned) - number)), cascade.times(part.einsum)
        some = thin_plans(part.einsum, part.arch, part.request, goal, times, share, cascade.lists.alone)
        few |= {} if some is None else {part.einsum.name: some}
    return few


def chosen_anew(cascade: CascadeProblem, floors: FloorsBeforePlans) -> dict[str, PlannedEinsum]:
    """Choices of Einsums that had too little time for these, with those that they have, by name.

    Those that cost most above their bounds in the best cascade that is known come first. They are choices of the
    cascade from here on.
    """
    found, (goal, *_) = dict[str, PlannedEinsum](), cascade.options.goals
    token = share_of(cascade.meter.progress, FOR_ANEW)
    for name in _far_above(cascade, floors):
        part, share = cascade.parts[name], share_of(token, OF_LEFT)
        if token.stopped or not isinstance(part, PlannedEinsum):
            break
        some = thin_plans(part.einsum, part.arch, part.request, goal, cascade.times(part.einsum), share)
        if not share.stopped:
            cascade.lists.hurried.discard(name)
        both = None if some is None else _with(part, some)
        found |= {} if both is None else {name: both}
    cascade.parts |= found
    return found


def _far_above(cascade: CascadeProblem, floors: FloorsBeforePlans) -> list[str]:
    """Einsums that had too little time and cost far above their bounds, by name; those that do most first."""
    if cascade.costs is None or not math.isfinite(cascade.costs.sum()):
        return []
    above, whole = dict[str, float](), np.maximum(cascade.costs.sum(axis=0), np.finfo(float).tiny)
    for first, member, costs in zip(cascade.firsts, cascade.members, cascade.costs, strict=True):
        if first in cascade.lists.hurried:
            more = np.maximum(costs - cascade.times(member.einsum) * floors.least(member.einsum), 0.0)
            above[first] = above.get(first, 0.0) + float((more / whole).sum())
    return sorted((name for name in above if above[name] > FAR_ABOVE), key=lambda name: -above[name])


def _with(part: PlannedEinsum, other: PlannedEinsum) -> PlannedEinsum | None:
    """An Einsum with what another plan of it has, too; None where that has nothing else, or other paths."""
    if [path.leaves for path in part.paths] != [path.leaves for path in other.paths]:
        return None
    paths, has_more = [], False
    for path, more in zip(part.paths, other.paths, strict=True):
        known = {plan.placement for plan in path.plans}
        new = [path.planner.plan(plan.placement) for plan in more.plans if plan.placement not in known]
        lanes = distinct_uses(path.lanes, [path.lanes.bounds, more.lanes.bounds])
        has_more |= bool(new) or len(lanes) > len(path.lanes)
        paths.append(path.with_plans(path.request, [*path.plans, *new]).with_lanes(lanes))
    return PlannedEinsum(part.einsum, part.arch, part.request, tuple(paths)) if has_more else None
