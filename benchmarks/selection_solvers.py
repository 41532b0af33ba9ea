"""HiGHS, CP-SAT and toulbar2 on the sharding problem of 816 nodes of the IOPDDL contest, for docs/planner.md.

    python -m benchmarks.selection_solvers --seconds 100

Each gets the problem as it is and without the strategies that another one replaces; CP-SAT and HiGHS the same program,
toulbar2 cost functions. Needs ortools and pytoulbar2, which einmap does not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from einmap.distribute.selection.integer import solve_integer
from einmap.distribute.selection.problem import Edge, Limit, Selection
from einmap.distribute.selection.reduction import reduce
from einmap.distribute.selection.solve import solve

PROBLEM = Path(__file__).parents[1] / "tests" / "distribute" / "data" / "sharding_B.json.gz"
WORKERS = 2
SPARSE = 0.6
"""Part of a table that is forbidden from which on it says that two nodes choose alike."""
LESS_MEMORY = {1: 1.0, 2: 0.6, 3: 0.45}
"""The limit of a sister by its versions of a strategy, as a part of that of the problem."""

type Answer = tuple[float, float]
"""The best cost, and a lower bound of the least."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--solvers", default=",".join(SOLVERS))
    parser.add_argument("--sister", metavar="COPIESxVERSIONS", help="a larger problem of the same kind, such as 2x2")
    asked = parser.parse_args()
    whole = problem_of(PROBLEM)
    if asked.sister:
        copies, versions = map(int, asked.sister.split("x"))
        whole = sister(whole, copies, versions)
    reduced = reduce(whole)
    assert reduced is not None
    print(
        "| solver | strategies | best | bound | best / bound | seconds | processor seconds |\n"
        "|---|---|---|---|---|---|---|"
    )
    for name in asked.solvers.split(","):
        for problem in (whole, reduced.problem):
            began, used = time.monotonic(), time.process_time()
            best, bound = SOLVERS[name](problem, asked.seconds)
            took, used = time.monotonic() - began, time.process_time() - used
            count = sum(len(costs) for costs in problem.nodes)
            print(
                f"| {name} | {count:,} | {best:,.0f} | {bound:,.0f} | {best / bound:.3f} | {took:.1f} | {used:.1f} |",
                flush=True,
            )


def problem_of(path: Path) -> Selection:
    """A problem of the contest; of moments those alone at which no other one has the same nodes and more."""
    text = json.loads(gzip.decompress(path.read_bytes()))["problem"]
    nodes, usages, intervals = (text["nodes"][key] for key in ("costs", "usages", "intervals"))
    costs = tuple(_allowed(cost) for cost in nodes)
    edges = tuple(
        Edge(first, second, _allowed(cost).reshape(len(costs[first]), len(costs[second])))
        for (first, second), cost in zip(text["edges"]["nodes"], text["edges"]["costs"], strict=True)
    )
    moments = {begin for begin, _ in intervals}
    live = {frozenset(n for n, (begin, end) in enumerate(intervals) if begin <= now < end) for now in moments}
    most = sorted((one for one in live if not any(one < other for other in live)), key=sorted)
    limits = tuple(Limit(text["usage_limit"], {n: np.array(usages[n], dtype=float) for n in sorted(m)}) for m in most)
    return Selection(costs, edges, limits)


def sister(problem: Selection, copies: int, widths: int, seed: int = 0) -> Selection:
    """A larger problem of the same kind: `copies` of it in a row, joined by ten of its tables, each strategy in
    `widths` versions that use less and cost more, as when a further mesh axis splits a tensor; versions differ in an
    edge at a cost, and not at all where its table is sparse.
    """
    rng = np.random.default_rng(seed)
    count = len(problem.nodes)

    def varied(costs: np.ndarray) -> np.ndarray:
        return np.asarray(np.round(costs * rng.uniform(0.8, 1.25)))

    def widened(costs: np.ndarray) -> np.ndarray:
        sparse = np.isinf(costs).mean() > SPARSE
        other = np.inf if sparse else np.median(costs[np.isfinite(costs)])
        apart = np.where(np.eye(widths) == 1, 0.0, other)
        return np.asarray(np.kron(varied(costs), np.ones((widths, widths))) + np.tile(apart, costs.shape))

    nodes, edges, limits = [], [], []
    less = 1.0 / (1 + np.arange(widths))
    for copy in range(copies):
        at = copy * count
        nodes += [np.round(np.outer(varied(costs) + 1, 2 - less).ravel()) for costs in problem.nodes]
        edges += [Edge(at + edge.first, at + edge.second, widened(edge.costs)) for edge in problem.edges]
        for limit in problem.limits:
            usage = {at + n: np.round(np.outer(table, less).ravel()) for n, table in limit.nodes.items()}
            limits.append(Limit(round(limit.limit * LESS_MEMORY[widths]), usage))
    for copy in range(1, copies):
        for number in rng.choice(len(problem.edges), 10, replace=False):
            edge = problem.edges[number]
            table = np.where(np.isfinite(edge.costs), edge.costs, edge.costs[np.isfinite(edge.costs)].max())
            edges.append(Edge((copy - 1) * count + edge.first, copy * count + edge.second, widened(table)))
    return Selection(tuple(nodes), tuple(edges), tuple(limits))


def _allowed(costs: list[float]) -> np.ndarray:
    values = np.array(costs, dtype=float)
    return np.where(values >= 1e17, np.inf, values)


def by_highs(problem: Selection, seconds: float) -> Answer:
    """As einmap states it."""
    selected = solve_integer(problem, seconds)
    return selected.cost, selected.bound


def by_einmap(problem: Selection, seconds: float) -> Answer:
    """As einmap solves it: elimination, messages and parts of it where it is wide, HiGHS."""
    selected = solve(problem, seconds)
    return selected.cost, selected.bound


def by_cp_sat(problem: Selection, seconds: float) -> Answer:
    """A Boolean for each strategy and for each pair."""
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    chosen = [[model.new_bool_var("") for _ in costs] for costs in problem.nodes]
    terms, weights = [], []
    for node, costs in enumerate(problem.nodes):
        model.add_exactly_one(chosen[node])
        for strategy, cost in enumerate(costs):
            if math.isinf(cost):
                model.add(chosen[node][strategy] == 0)
            elif cost:
                terms.append(chosen[node][strategy])
                weights.append(int(cost))
    for edge in problem.edges:
        pairs = {pair: model.new_bool_var("") for pair in np.ndindex(edge.costs.shape) if np.isfinite(edge.costs[pair])}
        for side, node in enumerate((edge.first, edge.second)):
            for strategy, variable in enumerate(chosen[node]):
                model.add(sum(v for pair, v in pairs.items() if pair[side] == strategy) == variable)
        terms += pairs.values()
        weights += [int(edge.costs[pair]) for pair in pairs]
    for limit in problem.limits:
        used = [(chosen[n][s], int(u)) for n, usage in limit.nodes.items() for s, u in enumerate(usage)]
        model.add(cp_model.LinearExpr.weighted_sum(*map(list, zip(*used, strict=True))) <= int(limit.limit))
    model.minimize(cp_model.LinearExpr.weighted_sum(terms, weights))
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = WORKERS
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return (solver.objective_value if found else math.inf), solver.best_objective_bound


def by_toulbar2(problem: Selection, seconds: float) -> Answer:
    """A weighted constraint network, limits as linear constraints."""
    import pytoulbar2

    top = 10**12
    network: Any = pytoulbar2.CFN(top)
    for node, costs in enumerate(problem.nodes):
        network.AddVariable(f"n{node}", [f"s{strategy}" for strategy in range(len(costs))])
        network.AddFunction([node], _costs(costs, top))
    for edge in problem.edges:
        network.AddFunction([edge.first, edge.second], _costs(edge.costs, top))
    for limit in problem.limits:
        terms = [(n, s, int(u)) for n, usage in limit.nodes.items() for s, u in enumerate(usage) if u]
        network.AddGeneralizedLinearConstraint(terms, "<=", int(limit.limit))
    answer = network.Solve(timeLimit=int(seconds))
    best = problem.cost([int(str(value).removeprefix("s")) for value in answer[0]]) if answer else math.inf
    return best, network.GetDDualBound()


def _costs(costs: np.ndarray, top: int) -> list[int]:
    return [int(cost) if math.isfinite(cost) else top for cost in costs.ravel()]


SOLVERS: dict[str, Callable[[Selection, float], Answer]] = {
    "einmap": by_einmap,
    "HiGHS": by_highs,
    "CP-SAT": by_cp_sat,
    "toulbar2": by_toulbar2,
}


if __name__ == "__main__":
    main()
