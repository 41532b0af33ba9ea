"""Exact by an integer program, with limits; solved by HiGHS, which scipy brings along.

Strategies are binary variables; an edge has one variable for each pair of strategies, whose sums over rows and columns
are the variables of its nodes (the local polytope). Strategies that an edge does not tell apart share its variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einmap.distribute.selection.problem import Costs, Selected, Selection
from einmap.optional import require

INFEASIBLE = 2
"""The status in which scipy says that nothing satisfies all rows."""


@dataclass
class _Program:
    """Rows, columns and values of a sparse program, as they are added."""

    costs: list[Costs] = field(default_factory=list)
    n_variables: int = 0
    n_rows: int = 0
    rows: list[np.ndarray] = field(default_factory=list)
    columns: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    low: list[np.ndarray] = field(default_factory=list)
    high: list[np.ndarray] = field(default_factory=list)

    def variables(self, costs: Costs) -> np.ndarray:
        """New variables from 0 on, with these costs."""
        self.costs.append(costs)
        self.n_variables += len(costs)
        return np.arange(self.n_variables - len(costs), self.n_variables)

    def add(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray | float) -> None:
        """Coefficients of new rows, which are numbered from 0."""
        self.rows.append(rows + self.n_rows)
        self.columns.append(columns)
        self.values.append(np.broadcast_to(np.asarray(values, dtype=float), rows.shape))

    def close(self, low: np.ndarray | float, high: np.ndarray | float, count: int) -> None:
        """The bounds of the `count` rows that were added."""
        self.low.append(np.broadcast_to(np.asarray(low, dtype=float), (count,)))
        self.high.append(np.broadcast_to(np.asarray(high, dtype=float), (count,)))
        self.n_rows += count


def solve_integer(problem: Selection, time_limit: float) -> Selected:
    """The cheapest choice within all limits, or the best that `time_limit` seconds give, with a bound.

    Raises SpecError where scipy is not installed.
    """
    optimize, sparse = require("scipy.optimize", "plan"), require("scipy.sparse", "plan")
    program = _Program()
    strategies = [program.variables(np.where(np.isfinite(costs), costs, 0.0)) for costs in problem.nodes]
    upper = np.concatenate([np.isfinite(costs) for costs in problem.nodes]).astype(float)
    n_binary = program.n_variables
    for variables in strategies:
        program.add(np.zeros(len(variables), dtype=int), variables, 1.0)
        program.close(1, 1, 1)
    pairs = [_add_edge(program, strategies, problem, number) for number in range(len(problem.edges))]
    _add_limits(program, strategies, pairs, problem)
    costs = np.concatenate(program.costs)
    scale = 1e4 / max(1e-300, float(np.abs(costs).max(initial=0.0)))
    upper = np.concatenate([upper, np.ones(program.n_variables - n_binary)])
    if problem.excess_cost is not None and problem.limits:
        upper[-1] = np.inf
    matrix = sparse.csr_array(
        (np.concatenate(program.values), (np.concatenate(program.rows), np.concatenate(program.columns))),
        shape=(program.n_rows, program.n_variables),
    )
    rows = optimize.LinearConstraint(matrix, np.concatenate(program.low), np.concatenate(program.high))
    binary = np.arange(program.n_variables) < n_binary
    options = {"time_limit": time_limit, "mip_rel_gap": 0.0}
    answer = optimize.milp(
        costs * scale, integrality=binary, bounds=optimize.Bounds(0, upper), constraints=rows, options=options
    )
    if answer.status == INFEASIBLE:
        # presolving has been seen to err here: what it says is asked again without it
        options["presolve"] = False
        answer = optimize.milp(
            costs * scale, integrality=binary, bounds=optimize.Bounds(0, upper), constraints=rows, options=options
        )
    return _selected(problem, strategies, answer, scale)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The variables of an edge: one for each class of rows and class of columns that occur together.

    `first`, `second`: a pair of strategies for each variable, one of each class.
    """

    variables: np.ndarray
    first: np.ndarray
    second: np.ndarray


def _add_edge(program: _Program, strategies: list[np.ndarray], problem: Selection, number: int) -> _Pairs:
    edge = problem.edges[number]
    layers = [edge.costs, *(limit.edges[number] for limit in problem.limits if number in limit.edges)]
    rows, row_of = np.unique(np.hstack(layers), axis=0, return_index=True, return_inverse=True)[1:]
    columns, column_of = np.unique(np.vstack(layers), axis=1, return_index=True, return_inverse=True)[1:]
    costs = edge.costs[np.ix_(rows, columns)]
    row, column = np.nonzero(np.isfinite(costs))
    variables = program.variables(costs[row, column])
    for classes, class_of, which, node in (
        (rows, row_of.ravel(), row, edge.first),
        (columns, column_of.ravel(), column, edge.second),
    ):
        program.add(which, variables, 1.0)
        program.add(class_of, strategies[node], -1.0)
        program.close(0, 0, len(classes))
    return _Pairs(variables, rows[row], columns[column])


def _add_limits(program: _Program, strategies: list[np.ndarray], pairs: list[_Pairs], problem: Selection) -> None:
    """One row for each limit, in units of it; one variable for the largest excess, if it is allowed for a cost."""
    excess, unit = None, max((limit.limit for limit in problem.limits), default=0.0) or _largest_usage(problem)
    if problem.excess_cost is not None and problem.limits:
        excess = program.variables(np.array([problem.excess_cost * unit]))
    for limit in problem.limits:
        scale = limit.limit or 1.0 if excess is None else unit
        for node, usage in limit.nodes.items():
            program.add(np.zeros(len(usage), dtype=int), strategies[node], usage / scale)
        for number, usage in limit.edges.items():
            edge = pairs[number]
            program.add(
                np.zeros(len(edge.variables), dtype=int), edge.variables, usage[edge.first, edge.second] / scale
            )
        if excess is not None:
            program.add(np.zeros(1, dtype=int), excess, -1.0)
        program.close(-np.inf, limit.limit / scale, 1)


def _largest_usage(problem: Selection) -> float:
    """The most that one strategy or pair uses of a limit: what limits of 0 are measured in."""
    tables = [table for limit in problem.limits for table in (*limit.nodes.values(), *limit.edges.values())]
    return max((float(table.max(initial=0.0)) for table in tables), default=0.0) or 1.0


def _selected(problem: Selection, strategies: list[np.ndarray], answer: Any, scale: float) -> Selected:
    if answer.status == INFEASIBLE:
        return Selected(None, np.inf, np.inf)
    bound = -np.inf if answer.mip_dual_bound is None else float(answer.mip_dual_bound) / scale
    if answer.x is None:
        return Selected(None, np.inf, bound)
    choice = tuple(int(answer.x[variables].argmax()) for variables in strategies)
    return Selected(choice, problem.cost(choice), bound)
