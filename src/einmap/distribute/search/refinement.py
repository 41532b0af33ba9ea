"""Costs that take long to find out: the search goes by lower bounds, and asks for those of what it would choose.

The best choice by bounds costs at least its bounds, and so does every other one. Its costs take the place of its
bounds, until there is a choice whose costs are all known and that is still the best: costs are never below their
bounds, so that no other choice costs less. A branch and bound by lazy refinement, as decremental state space
relaxation (Righini and Salani, "New dynamic programming algorithms for the resource constrained elementary shortest
path problem", Networks 51, 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.search.homes import Costs
from einmap.distribute.search.problem import Nodes, Problem
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Choice, Selected, Selection
from einmap.errors import SpecError
from einmap.progress import Progress

EQUAL = 1e-12
"""Part of a cost by which sums of equal costs may differ."""

type Solver = Callable[[Selection], Selected]


def solve_refined(
    space: SearchSpace, problem: Problem, solver: Solver, progress: Progress | None = None, priced: bool = True
) -> Selected:
    """The choice of `solver` once all its costs are known.

    `progress` may end it: then the best choice so far whose costs are known, with a bound. `priced`: ways cost what
    they cost; else nothing, where they can be done at all. Raises SpecError where an Einsum has no way that can be
    done.
    """
    if all(ways.slow is None for ways in space.ways.values()):
        return solver(problem.selection)
    costs = WayCosts(space)
    best, bound = Selected(None, np.inf, -np.inf), -np.inf
    while True:
        selection = costs.within(problem, priced)
        selected = solver(selection)
        bound = max(bound, selected.bound)
        if selected.choice is None:
            costs.check_possible()
            return Selected(best.choice, best.cost, bound)
        is_new = not costs.are_known(problem.nodes, selected.choice)
        if is_new:
            costs.find(problem.nodes, selected.choice, progress, in_full=best.choice is None)
        if costs.are_known(problem.nodes, selected.choice):
            cost = costs.within(problem, priced).cost(selected.choice)
            if cost < best.cost:
                best = Selected(selected.choice, cost, bound)
        is_over = progress is not None and progress.stopped and best.choice is not None
        if not is_new or is_over or best.cost <= bound * (1 + EQUAL):
            return Selected(best.choice, best.cost, bound)


class WayCosts:
    """The costs of ways, or lower bounds of those that are not known."""

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._costs: dict[str, Costs] = {}
        self._known: dict[str, NDArray[np.bool_]] = {}
        self._look_up()

    def _look_up(self) -> None:
        """Take over what is known by now: Einsums that are alike share their costs."""
        mesh = self._space.context.mesh
        for name, ways in self._space.ways.items():
            if ways.slow is None:
                continue
            found = [ways.slow.known(mesh, work) for work in ways.works]
            self._known[name] = np.array([one is not None for one in found])
            self._costs[name] = np.array(
                [bound if one is None else one for bound, one in zip(ways.costs, found, strict=True)]
            )

    def within(self, problem: Problem, priced: bool) -> Selection:
        """The problem with these costs; what may not be chosen there stays so."""
        nodes = list(problem.selection.nodes)
        for name, costs in self._costs.items():
            node = problem.nodes.einsum(name)
            charged = costs if priced else np.where(np.isfinite(costs), 0.0, np.inf)
            nodes[node] = np.where(np.isfinite(nodes[node]), charged, np.inf)
        return replace(problem.selection, nodes=tuple(nodes))

    def are_known(self, nodes: Nodes, choice: Choice) -> bool:
        """Whether all costs of a choice are known."""
        return all(known[choice[nodes.einsum(name)]] for name, known in self._known.items())

    def find(self, nodes: Nodes, choice: Choice, progress: Progress | None, in_full: bool) -> None:
        """Find out the costs of a choice; `in_full`: even when the work is asked to end."""
        waiting = [name for name, known in self._known.items() if not known[choice[nodes.einsum(name)]]]
        for number, name in enumerate(waiting):
            if progress is not None:
                progress.report("Einsums on the architecture of the PE", number, len(waiting))
                if progress.stopped and not in_full:
                    break
            ways = self._space.ways[name]
            assert ways.slow is not None
            ways.slow.compute(self._space.context.mesh, ways.works[choice[nodes.einsum(name)]], progress)
        self._look_up()

    def check_possible(self) -> None:
        """Raise SpecError where an Einsum has no way that a PE can do."""
        for name, costs in self._costs.items():
            if np.isfinite(costs).any() or not self._known[name].all():
                continue
            ways = self._space.ways[name]
            # the way that cuts least has the largest block, whose reasons say most
            whole = max(range(len(ways.works)), key=lambda way: ways.works[way].operations)
            why = None if ways.slow is None else ways.slow.why_not(ways.works[whole])
            if ways.slow is not None and not ways.slow.proven:
                what = f"no mapping of Einsum {name!r} on the architecture of the PEs was found in the time there was"
                raise SpecError(what, hint="allow more time")
            raise SpecError(
                f"the architecture of the PEs cannot map Einsum {name!r}, however it is spread"
                + (f": {why.message}" if why is not None else ""),
                at=why.at if why is not None else None,
                hint=why.hint if why is not None else None,
            )
