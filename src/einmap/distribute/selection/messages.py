"""Bounds and choices by messages along the edges: for problems that are too wide to eliminate and too large for an
integer program at once.

Costs are shifted between nodes and edges until what each of them costs at least adds up to no more (Kolmogorov,
"Convergent tree-reweighted message passing for energy minimization", IEEE PAMI 2006), and limits are charged for by
prices that follow what exceeds them (Held, Wolfe and Crowder, "Validation of subgradient optimization", Mathematical
Programming 6, 1974). Whatever is shifted and charged, the sum is a bound. Choices on the way are made better by
`local_search`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from einmap.distribute.selection.kernels import Array, Graph, Shifts, Terms, exact_bound, push_forward, sweep
from einmap.distribute.selection.local_search import improve
from einmap.distribute.selection.problem import Choice, Costs, Selected, Selection, Usage
from einmap.progress import Progress

ROUNDS = 60
"""Sweeps and searches for a better choice in turn; those of a transformer's layer over 8 PEs take 0.1 to 0.5 processor
seconds.
"""
QUICK_SECONDS = 5.0
"""Seconds of wall time that `met_quickly` takes at most after its first round."""
SWEEPS = 50
"""Pairs of sweeps between two searches for a better choice."""
PROPOSALS = 4
"""Changes that are tried between sweeps, for each node."""
FIRST_STEP, SMALLEST_STEP = 0.02, 1e-5
PATIENCE = 15
"""Sweeps without a better bound after which prices go back to the best ones, and by smaller steps from there."""
GROW, SHRINK = 1.1, 0.6
KEPT = 0.8
"""Part of the earlier excess in what prices follow."""
ROUNDING = 1e-7
"""Part of a cost that bounds may be wrong by after many sweeps."""


@dataclass(eq=False)
class Messages:
    """Shifts and prices, the best choice (None: none keeps to the limits), its cost, and a bound of all."""

    problem: Selection
    choice: Choice | None = None
    cost: float = np.inf
    bound: float = -np.inf
    _step: float = FIRST_STEP
    _kept: tuple[Array, ...] = ()
    _graph: Graph = field(init=False)
    _shifts: Shifts = field(init=False)
    _terms: Terms = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        self._graph = graph_of(problem)
        sizes = np.array([edge.costs.shape for edge in problem.edges], dtype=np.int64).reshape(-1, 2).T
        self._costs = np.concatenate(problem.nodes).astype(float)
        self._terms = terms_of(problem)
        self._shifts = Shifts(
            np.zeros(sizes[0].sum()), _begins(sizes[0]), np.zeros(sizes[1].sum()), _begins(sizes[1]), self._costs.copy()
        )
        self._prices = np.zeros(len(problem.limits))
        self._excess = np.zeros(len(problem.limits))
        self._reached = np.full(len(self._costs), -np.inf)
        self._current = np.zeros(len(problem.nodes), dtype=np.int64)
        self._plain = self._graph.tables
        self._most = sum(_largest(costs) for costs in (*problem.nodes, *(edge.costs for edge in problem.edges)))
        self._usage = problem.usage
        self._units = np.array([limit.limit or 1.0 for limit in problem.limits])
        if self._usage.edges:
            self._graph = self._graph._replace(tables=self._plain.copy())
        of_nodes = [(self._graph.starts[node] + np.arange(len(table)), table) for node, table in self._usage.nodes]
        self._positions = np.concatenate([at for at, _ in of_nodes] or [np.zeros(0, dtype=np.int64)])
        self._used = np.concatenate([table for _, table in of_nodes] or [np.zeros(0)])
        self._lengths = np.array([len(table) for _, table in of_nodes], dtype=np.int64)
        self._places = np.concatenate([[0], np.cumsum(self._lengths)])[:-1]
        self._owners = np.array([node for node, _ in self._usage.nodes], dtype=np.int64)
        for e in range(len(problem.edges)):
            push_forward(self._graph, self._shifts, e, 0.0)

    def run(self, rounds: int, progress: Progress) -> None:
        """Better bounds and choices in at most so many rounds. `progress` may end it."""
        for number in range(rounds):
            if self.is_proven or not self._swept(progress) or progress.stopped:
                break
            self._search(number)
            progress.report("plans by messages", number, rounds, f"{self.cost:.6g}, at least {self.bound:.6g}")
        self.bound = min(self._exact_bound(), self.cost)

    @property
    def is_proven(self) -> bool:
        """Whether there is no better choice."""
        return self.cost - self.bound <= ROUNDING * abs(self.cost) if self.choice is not None else self.bound == np.inf

    @property
    def reached(self) -> tuple[Costs, ...]:
        """For each node, by strategy, what any choice with it costs at least."""
        return tuple(np.split(self._reached, self._graph.starts[1:-1]))

    def _swept(self, progress: Progress) -> bool:
        """Sweep; whether bounds may still get better."""
        bad, reached = 0, -np.inf
        for _ in range(SWEEPS):
            paid = float(self._prices.sum())
            for forward in (True, False):
                reached = sweep(self._graph, self._shifts, forward, paid, self._reached, self._current)
            if reached > self._most * (1 + ROUNDING):
                # no choice costs so much
                self.bound = np.inf
                return False
            if reached > self.bound:
                self.bound, bad = reached, 0
                self._kept = tuple(array.copy() for array in (*self._arrays(), self._prices))
                self._step *= GROW
            else:
                bad += 1
            if progress.stopped:
                break
            if bad > PATIENCE:
                bad = 0
                self._step *= SHRINK
                self._go_back()
            if len(self._prices):
                self._charge()
        return self._step > SMALLEST_STEP

    def _search(self, seed: int) -> None:
        """Make the choice of the last sweep, and the best one, better."""
        many = PROPOSALS * len(self.problem.nodes)
        starts = [self._current] if self.choice is None else [self._current, np.array(self.choice, dtype=np.int64)]
        for start in starts:
            self.take(start, many if start is starts[-1] else 0, seed)

    def take(self, choice: Array, proposals: int = 0, seed: int = 0) -> None:
        """Keep a choice, made better, if it is better than the best one."""
        weight = 0.1 * (self.cost if self.choice is not None else max(1.0, abs(self.bound)) * 100)
        open_ = self._reached <= self.cost * (1 + ROUNDING)
        choice = choice.copy()
        graph = self._graph._replace(tables=self._plain)
        forbidden, excess, cost = improve(graph, self._terms, self._costs, open_, choice, weight, proposals, seed)
        if forbidden or excess or cost >= self.cost:
            return
        exact = self.problem.cost(choice.tolist())
        if exact < self.cost:
            self.choice, self.cost = tuple(choice.tolist()), exact

    def _exact_bound(self) -> float:
        """The best bound, added up anew: many sweeps round many times."""
        if not self._kept or self.bound == np.inf:
            return self.bound
        self._go_back()
        costs = self._costs + self._of_strategies(self._prices)
        return float(exact_bound(self._graph, self._shifts, costs)) - float(self._prices.sum())

    def _arrays(self) -> tuple[Array, ...]:
        return self._shifts.rows, self._shifts.columns, self._shifts.left

    def _go_back(self) -> None:
        """To where the best bound was."""
        if not self._kept:
            return
        for array, kept in zip(self._arrays(), self._kept, strict=False):
            array[:] = kept
        if (change := self._kept[-1] - self._prices).any():
            self._charge_edges(change)
            self._prices = self._kept[-1].copy()
        self._excess[:] = 0.0

    def _charge(self) -> None:
        """Change prices by what the choice of the last sweep exceeds (Polyak's rule)."""
        used = self._used[self._places + self._current[self._owners]]
        if self._usage.edges:
            used = np.concatenate([used, self._of_edges(self._current)])
        excess = self._usage.by_limit(used) / self._units - 1.0
        self._excess = KEPT * self._excess + (1 - KEPT) * excess
        slope = np.where((self._prices <= 0) & (self._excess < 0), 0.0, self._excess)
        square = float((slope**2).sum())
        if not square:
            return
        goal = self.cost if self.choice is not None else min(2 * abs(self.bound), self._most)
        wanted = self._prices + self._step * (goal - self.bound) / square * slope
        change = np.maximum(0.0, wanted) - self._prices
        self._prices = self._prices + change
        self._shifts.left[:] += self._of_strategies(change)
        self._charge_edges(change)

    def _of_edges(self, choice: Array) -> Costs:
        """Usage of the pairs of a choice, table by table."""
        edges = [self.problem.edges[number] for number, _ in self._usage.edges]
        tables = [table for _, table in self._usage.edges]
        return np.array([t[choice[e.first], choice[e.second]] for e, t in zip(edges, tables, strict=True)])

    def _of_strategies(self, prices: Costs) -> Costs:
        """Charge of each strategy."""
        if not len(self._lengths):
            return np.zeros(len(self._costs))
        weights = self._usage.by_table(prices / self._units)[: len(self._lengths)]
        return np.bincount(self._positions, np.repeat(weights, self._lengths) * self._used, len(self._costs))

    def _charge_edges(self, change: Costs) -> None:
        """Charge pairs for what they use, by a change of prices."""
        graph = self._graph
        weights = self._usage.by_table(change / self._units)[len(self._lengths) :]
        for (number, table), weight in zip(self._usage.edges, weights, strict=True):
            if weight:
                at = graph.tables_at[number]
                graph.tables[at : at + table.size] += weight * table.ravel()
                push_forward(graph, self._shifts, number, 0.0)


def met_quickly(problem: Selection) -> Selected:
    """The best choice within all limits that messages and local search meet in QUICK_SECONDS, with a bound."""
    messages = Messages(problem)
    # without a limit: kernels may have to be compiled first
    messages.run(1, Progress())
    messages.run(ROUNDS, Progress().within(QUICK_SECONDS))
    return Selected(messages.choice, messages.cost, messages.bound)


def _largest(costs: Costs) -> float:
    return float(costs[np.isfinite(costs)].max(initial=0.0))


def _begins(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def graph_of(problem: Selection) -> Graph:
    """The nodes and edges of a problem whose edges go from earlier to later nodes."""
    count = len(problem.edges)
    first = np.array([edge.first for edge in problem.edges], dtype=np.int64)
    second = np.array([edge.second for edge in problem.edges], dtype=np.int64)
    ends = np.concatenate([first, second])
    order = np.argsort(ends, kind="stable")
    tables = [edge.costs.ravel() for edge in problem.edges]
    return Graph(
        np.concatenate([[0], np.cumsum([len(costs) for costs in problem.nodes])]).astype(np.int64),
        first,
        second,
        np.searchsorted(ends[order], np.arange(len(problem.nodes) + 1)).astype(np.int64),
        np.tile(np.arange(count), 2)[order],
        np.concatenate(tables) if tables else np.zeros(0),
        _begins(np.array([table.size for table in tables])) if tables else np.zeros(0, dtype=np.int64),
    )


def terms_of(problem: Selection) -> Terms:
    """Terms of the limits of a problem, by node and by edge."""
    usage: Usage = problem.usage
    tables = [*usage.nodes, *usage.edges]
    values_at = _begins(np.array([table.size for _, table in tables])) if tables else np.zeros(0, dtype=np.int64)
    owner = np.array([number for number, _ in tables], dtype=np.int64)
    of_edge = usage.table >= len(usage.nodes)
    # terms of nodes first, by node, then those of edges, by edge
    order = np.lexsort((owner[usage.table], of_edge))
    owners = owner[usage.table[order]] + len(problem.nodes) * of_edge[order]
    begins = np.searchsorted(owners, np.arange(len(problem.nodes) + len(problem.edges) + 1)).astype(np.int64)
    return Terms(
        begins[: len(problem.nodes) + 1],
        begins[len(problem.nodes) :],
        usage.limit[order].astype(np.int64),
        values_at[usage.table[order]],
        np.concatenate([table.ravel() for _, table in tables]).astype(float) if tables else np.zeros(0),
        np.array([limit.limit for limit in problem.limits], dtype=float),
    )
