"""A few choices of each Einsum of a cascade whose choices are all listed, but are too many to be searched soon."""

from __future__ import annotations

from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.thin_plans import thin_plans
from einmap.mapper.mapspace.enumeration import share_of
from einmap.progress import Progress

FAR_TOO_MANY = 10_000_000
"""Dataplacements with uses of the fanouts, of all Einsums, that are listed soon, but hardly searched in a limited time:
a hundred times as many as most machines leave to a layer or a network.
"""


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
