"""Exact by an integer program, with limits; solved by HiGHS (Huangfu and Hall, 2018).

Strategies are binary variables; an edge has one variable for each pair of strategies, whose sums over rows and columns
are the variables of its nodes (the local polytope). Strategies that an edge does not tell apart share its variables.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einmap.distribute.selection.problem import Choice, Costs, Selected, Selection
from einmap.optional import require
from einmap.progress import Progress

type _Used = tuple[np.ndarray, Costs, float]
"""The variables of a node or edge, what each uses of a limit, and what the one that was chosen uses."""

SECONDS_BETWEEN_REPORTS = 0.1
TOLERANCE = 1e-9
"""Of rows and of integers; with that of the solver, 1e-6, bounds are as much below the least cost."""


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


def solve_integer(problem: Selection, time_limit: float, progress: Progress | None = None) -> Selected:
    """The cheapest choice within all limits; after `time_limit` seconds or when stopped the best so far with a bound.

    Rows hold within a tolerance only. A choice that exceeds a limit by less is cut off, and the program solved again:
    of its strategies that use more than the limit together, or others that use as much, one at least is left out.
    Raises SpecError where highspy is not installed.
    """
    highspy = require("highspy", "plan")
    end = time.monotonic() + time_limit
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
    bound = -np.inf
    while True:
        solver = _silent(highspy)
        solver.setOptionValue("time_limit", max(0.0, end - time.monotonic()))
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_abs_gap", 0.0)
        for tolerance in ("mip_feasibility_tolerance", "primal_feasibility_tolerance"):
            solver.setOptionValue(tolerance, TOLERANCE)
        solver.passModel(_model(highspy, program, costs * scale, upper, n_binary))
        _run(solver, progress)
        selected = _selected(highspy, problem, strategies, solver, scale)
        # what is cut off keeps to no limit, so that each bound holds
        bound = max(bound, selected.bound)
        if selected.choice is None or np.isfinite(selected.cost):
            return Selected(selected.choice, selected.cost, bound)
        cuts = _cut_off(program, strategies, pairs, problem, selected.choice)
        if not cuts or time.monotonic() > end or (progress is not None and progress.stopped):
            return Selected(None, np.inf, bound)


def _cut_off(
    program: _Program, strategies: list[np.ndarray], pairs: list[_Pairs], problem: Selection, choice: Choice
) -> int:
    """Add a row for each limit that a choice exceeds (a cover inequality); how many there are."""
    made = 0
    for limit, used in zip(problem.limits, problem.used(choice), strict=True):
        if used <= limit.limit:
            continue
        tables = [(strategies[node], usage, float(usage[choice[node]])) for node, usage in limit.nodes.items()]
        for number, usage in limit.edges.items():
            edge, pair = problem.edges[number], pairs[number]
            own = float(usage[choice[edge.first], choice[edge.second]])
            tables.append((pair.variables, usage[pair.first, pair.second], own))
        cover = _least_cover(sorted(tables, key=lambda table: table[2]), limit.limit)
        for variables, usage, own in cover:
            as_much = variables[usage >= own]
            program.add(np.zeros(len(as_much), dtype=int), as_much, 1.0)
        program.close(-np.inf, len(cover) - 1, 1)
        made += 1
    return made


def _least_cover(tables: list[_Used], limit: float) -> list[_Used]:
    """Without what is not needed for the sum to be above the limit; the smallest is left out first."""
    kept = [own for _, _, own in tables]
    for position, own in enumerate(kept):
        kept[position] = 0.0
        if not sum(kept) > limit:
            kept[position] = own
    return [table for table, own in zip(tables, kept, strict=True) if own > 0]


def _silent(highspy: Any) -> Any:
    """A solver that prints nothing; else the first one of a process shows its version when it enables callbacks."""

    def enable_callbacks(solver: Any) -> None:
        solver.silent()
        highspy.Highs.enableCallbacks(solver)

    return type("Silent", (highspy.Highs,), {"enableCallbacks": enable_callbacks})()


def _model(highspy: Any, program: _Program, costs: Costs, upper: Costs, n_binary: int) -> Any:
    """The program as HiGHS takes it, row by row."""
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = program.n_variables, program.n_rows
    model.col_cost_, model.col_lower_, model.col_upper_ = costs, np.zeros(program.n_variables), upper
    model.row_lower_, model.row_upper_ = np.concatenate(program.low), np.concatenate(program.high)
    kind = highspy.HighsVarType
    model.integrality_ = [kind.kInteger] * n_binary + [kind.kContinuous] * (program.n_variables - n_binary)
    rows = np.concatenate(program.rows)
    order = np.argsort(rows, kind="stable")
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=program.n_rows))]).astype(np.int32)
    matrix.index_ = np.concatenate(program.columns)[order].astype(np.int32)
    matrix.value_ = np.concatenate(program.values)[order]
    return model


def _run(solver: Any, progress: Progress | None) -> None:
    """Solve it in a thread, so that the one that waits can be interrupted, and reports."""
    if progress is None:
        solver.run()
        return
    gap: list[float] = []

    def look(event: Any) -> None:
        gap[:] = [float(event.data_out.mip_gap)]
        if progress.stopped:
            event.interrupt()

    solver.cbMipInterrupt += look
    solving = threading.Thread(target=solver.run, daemon=True)
    solving.start()
    while solving.is_alive():
        solving.join(SECONDS_BETWEEN_REPORTS)
        known = f"{100 * gap[0]:.2g} % above its bound" if gap and np.isfinite(gap[0]) else None
        progress.report("plans within the limits", 0, best=known)


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


def _selected(highspy: Any, problem: Selection, strategies: list[np.ndarray], solver: Any, scale: float) -> Selected:
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return Selected(None, np.inf, np.inf)
    info = solver.getInfo()
    bound = float(info.mip_dual_bound) / scale
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Selected(None, np.inf, bound)
    values = np.array(solver.getSolution().col_value)
    choice = tuple(int(values[variables].argmax()) for variables in strategies)
    return Selected(choice, problem.cost(choice), bound)
