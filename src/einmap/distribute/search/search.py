"""The cheapest plan, and what is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.placements.placement import Placement
from einmap.distribute.search.actions import chosen_actions, chosen_homes
from einmap.distribute.search.bands import Searched, in_bands, is_small
from einmap.distribute.search.memory import memory_limits
from einmap.distribute.search.narrowed import narrowed
from einmap.distribute.search.problem import Problem, selection_problem, with_limits
from einmap.distribute.search.refinement import solve_refined
from einmap.distribute.search.smaller_homes import with_smaller_homes
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Choice, Edge, Selected, Selection
from einmap.distribute.selection.solve import TIME_LIMIT, solve
from einmap.distribute.steps.actions import PlanAction
from einmap.einsum.einsum import TensorName
from einmap.progress import Progress


@dataclass(frozen=True, eq=False)
class Found:
    """A plan as actions. `homes`: where each tensor is kept; `cost`, `bound`: in the unit of the cost model.

    `choice`: the numbers of what was chosen in the selection problem.
    """

    actions: tuple[PlanAction, ...]
    homes: Mapping[TensorName, tuple[Placement, ...]]
    cost: float
    bound: float
    choice: Choice

    @property
    def proven(self) -> bool:
        """Whether no plan of the space costs less."""
        return Selected(self.choice, self.cost, self.bound).proven


@dataclass(frozen=True, slots=True)
class NotFound:
    """No plan was found. `proven`: there is none; else the time was too short."""

    proven: bool


def cheapest(
    space: SearchSpace,
    memory: float | None = None,
    time_limit: float = TIME_LIMIT,
    excluded: Mapping[str, NDArray[np.bool_]] | None = None,
    progress: Progress | None = None,
) -> Found | NotFound:
    """The cheapest plan that needs at most `memory` bytes on each PE at any time.

    `excluded`: for some Einsums, which of their ways may not be taken. `progress` may stop the search, which then gives
    the best so far with a bound.
    """
    if excluded:
        space = narrowed(space, {name: ~ways for name, ways in excluded.items()})
    if any(not len(ways.choices) for ways in space.ways.values()):
        return NotFound(space.floor is None)

    def solved(inner: SearchSpace) -> Searched:
        problem = selection_problem(inner)
        if memory is not None:
            problem = with_limits(problem, memory_limits(inner, problem, memory))
        selected = solve_refined(inner, problem, lambda costed: solve(costed, time_limit, progress), progress)
        return Searched(inner, problem, selected)

    if is_small(space) or _has_slow_costs(space):
        whole = solved(space)
        searched = replace(whole, selected=_of_some_homes(whole.selected)) if space.cut else whole
    else:
        in_band = in_bands(space, solved, time_limit, progress)
        if in_band is None:
            return NotFound(space.floor is None)
        searched = in_band
    if searched.selected.choice is None:
        return NotFound(bool(searched.selected.proven) and space.floor is None)
    inner, problem, choice = with_smaller_homes(
        space, searched.space, searched.problem, searched.selected.choice, memory
    )
    bound = searched.selected.bound if space.floor is None else min(searched.selected.bound, space.floor)
    return _found(inner, problem, replace(searched.selected, choice=choice, bound=bound))


def _has_slow_costs(space: SearchSpace) -> bool:
    """Whether costs of ways are bounds until they are asked for: what may be done at all is not known by then."""
    return any(ways.slow is not None for ways in space.ways.values())


def _of_some_homes(selected: Selected) -> Selected:
    """The selection without its bound, where pairs of homes were left out."""
    return replace(selected, bound=0.0)


def thriftiest(
    space: SearchSpace, time_limit: float = TIME_LIMIT, progress: Progress | None = None
) -> Found | NotFound:
    """A plan with the least peak memory; its cost is that peak in bytes."""
    problem = selection_problem(space)
    limits = memory_limits(space, problem, 0.0)
    bare = problem.selection
    nodes = tuple(np.where(np.isfinite(costs), 0.0, np.inf) for costs in bare.nodes)
    edges = tuple(Edge(edge.first, edge.second, np.where(np.isfinite(edge.costs), 0.0, np.inf)) for edge in bare.edges)
    weighed = Problem(problem.nodes, Selection(nodes, edges, tuple(limits), excess_cost=1.0), problem.edges)
    selected = solve_refined(space, weighed, lambda costed: solve(costed, time_limit, progress), progress, priced=False)
    is_whole = not space.cut and space.floor is None
    found = _found(space, problem, selected if is_whole else _of_some_homes(selected))
    return found if is_whole or isinstance(found, Found) else NotFound(False)


def _found(space: SearchSpace, problem: Problem, selected: Selected) -> Found | NotFound:
    if selected.choice is None:
        return NotFound(bool(selected.proven))
    actions = chosen_actions(space, problem.nodes, selected.choice)
    homes = chosen_homes(space, problem.nodes, selected.choice)
    is_open = any(ways.slow is not None and not ways.slow.proven for ways in space.ways.values())
    return Found(actions, homes, selected.cost, 0.0 if is_open else selected.bound, selected.choice)
