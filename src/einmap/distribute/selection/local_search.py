"""Better choices by small changes: another strategy of one node, and what its neighbours then change in turn."""

from __future__ import annotations

import numba
import numpy as np

from einmap.distribute.selection.kernels import Array, Graph, Terms

DEPTH = 60
"""Nodes that one change may touch."""


@numba.njit(cache=True, nogil=True)
def total_excess(terms: Terms, used: Array) -> float:
    """By how much limits are exceeded in all, in parts of each."""
    excess = 0.0
    for number in range(len(used)):
        excess += max(0.0, used[number] - terms.most[number]) / max(1.0, terms.most[number])
    return excess


@numba.njit(cache=True, nogil=True)
def judged(graph: Graph, terms: Terms, costs: Array, choice: Array, used: Array) -> tuple[float, float, float]:
    """Forbidden strategies and pairs of a choice, by how much it exceeds its limits in all, in parts of them, and what
    the rest costs. Puts what it uses of the limits in `used`.
    """
    forbidden, cost = 0.0, 0.0
    used[:] = 0.0
    for v in range(len(graph.starts) - 1):
        own = costs[graph.starts[v] + choice[v]]
        if own < np.inf:
            cost += own
        else:
            forbidden += 1
        for i in range(terms.nodes_at[v], terms.nodes_at[v + 1]):
            used[terms.limit[i]] += terms.values[terms.values_at[i] + choice[v]]
    for e in range(len(graph.first)):
        v, w = graph.first[e], graph.second[e]
        place = choice[v] * (graph.starts[w + 1] - graph.starts[w]) + choice[w]
        own = graph.tables[graph.tables_at[e] + place]
        if own < np.inf:
            cost += own
        else:
            forbidden += 1
        for i in range(terms.edges_at[e], terms.edges_at[e + 1]):
            used[terms.limit[i]] += terms.values[terms.values_at[i] + place]
    return forbidden, total_excess(terms, used), cost


@numba.njit(cache=True, nogil=True)
def _place(graph: Graph, choice: Array, v: int, e: int, s: int) -> int:
    """Where the table of an edge has the pair, if `v` takes strategy `s`."""
    w = graph.second[e]
    m = graph.starts[w + 1] - graph.starts[w]
    return int(s * m + choice[w]) if graph.first[e] == v else int(choice[graph.first[e]] * m + s)


@numba.njit(cache=True, nogil=True)
def _add_usage(graph: Graph, terms: Terms, choice: Array, used: Array, v: int, s: int, sign: float) -> None:
    """Add to `used` what node `v` and its edges use with strategy `s`, times `sign`."""
    for i in range(terms.nodes_at[v], terms.nodes_at[v + 1]):
        used[terms.limit[i]] += sign * terms.values[terms.values_at[i] + s]
    for e in graph.edges_of[graph.edges_at[v] : graph.edges_at[v + 1]]:
        if terms.edges_at[e] < terms.edges_at[e + 1]:
            place = _place(graph, choice, v, e, s)
            for i in range(terms.edges_at[e], terms.edges_at[e + 1]):
                used[terms.limit[i]] += sign * terms.values[terms.values_at[i] + place]


@numba.njit(cache=True, nogil=True)
def _excess(graph: Graph, terms: Terms, used: Array, v: int) -> float:
    """By how much the limits that node `v` and its edges speak of are exceeded in all, in parts of them."""
    total = 0.0
    for i in range(terms.nodes_at[v], terms.nodes_at[v + 1]):
        most = terms.most[terms.limit[i]]
        total += max(0.0, used[terms.limit[i]] - most) / max(1.0, most)
    for e in graph.edges_of[graph.edges_at[v] : graph.edges_at[v + 1]]:
        for i in range(terms.edges_at[e], terms.edges_at[e + 1]):
            most = terms.most[terms.limit[i]]
            total += max(0.0, used[terms.limit[i]] - most) / max(1.0, most)
    return total


@numba.njit(cache=True, nogil=True)
def _at(
    graph: Graph, terms: Terms, costs: Array, choice: Array, used: Array, v: int, s: int
) -> tuple[float, float, float]:
    """Cost of node `v` with its edges with strategy `s`, as `judged`; `used` is without the node."""
    forbidden, cost = 0.0, costs[graph.starts[v] + s]
    for e in graph.edges_of[graph.edges_at[v] : graph.edges_at[v + 1]]:
        own = graph.tables[graph.tables_at[e] + _place(graph, choice, v, e, s)]
        if own < np.inf:
            cost += own
        else:
            forbidden += 1
    excess = 0.0
    if len(terms.most):
        _add_usage(graph, terms, choice, used, v, s, 1.0)
        excess = _excess(graph, terms, used, v)
        _add_usage(graph, terms, choice, used, v, s, -1.0)
    return forbidden, excess, cost


@numba.njit(cache=True, nogil=True)
def _best(graph: Graph, terms: Terms, costs: Array, choice: Array, used: Array, v: int, weight: float) -> int:
    """The best strategy of a node, the others as they are: fewest forbidden pairs, then least cost and excess."""
    best, fewest, least = int(choice[v]), np.inf, np.inf
    for s in range(graph.starts[v + 1] - graph.starts[v]):
        if costs[graph.starts[v] + s] == np.inf:
            continue
        forbidden, excess, cost = _at(graph, terms, costs, choice, used, v, s)
        total = cost + weight * excess
        if forbidden < fewest or (forbidden == fewest and total < least):
            best, fewest, least = s, forbidden, total
    return best


@numba.njit(cache=True, nogil=True)
def improve(
    graph: Graph, terms: Terms, costs: Array, open_: Array, choice: Array, weight: float, proposals: int, seed: int
) -> tuple[float, float, float]:
    """Change `choice` where that makes it better, as `judged`, a unit of excess worth `weight`.

    A proposal gives a random node one of its strategies that are `open_`; its neighbours take what is then best for
    them, those that changed in turn. What is not better in the end is undone.
    """
    np.random.seed(seed)
    n_nodes, used = len(graph.starts) - 1, np.zeros(len(terms.most))
    forbidden, excess, cost = judged(graph, terms, costs, choice, used)
    changed, before = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    queue, queued = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.bool_)
    for proposal in range(n_nodes + proposals):
        v = proposal if proposal < n_nodes else np.random.randint(n_nodes)
        count = graph.starts[v + 1] - graph.starts[v]
        s = np.random.randint(count)
        if proposal >= n_nodes and (s == choice[v] or not open_[graph.starts[v] + s]):
            continue
        kept = (forbidden, excess, cost)
        n_changed, head, tail = 0, 0, 1
        queue[0], queued[v] = v, True
        while head < tail:
            v = queue[head]
            head += 1
            _add_usage(graph, terms, choice, used, v, choice[v], -1.0)
            old = _at(graph, terms, costs, choice, used, v, choice[v])
            picked = s if head == 1 and proposal >= n_nodes else _best(graph, terms, costs, choice, used, v, weight)
            new = _at(graph, terms, costs, choice, used, v, picked)
            if picked != choice[v]:
                changed[n_changed], before[n_changed] = v, choice[v]
                n_changed += 1
                forbidden += new[0] - old[0]
                cost += new[2] - old[2]
                choice[v] = picked
                for e in graph.edges_of[graph.edges_at[v] : graph.edges_at[v + 1]]:
                    other = graph.second[e] if graph.first[e] == v else graph.first[e]
                    if not queued[other] and tail < min(DEPTH, n_nodes):
                        queued[other] = True
                        queue[tail] = other
                        tail += 1
            _add_usage(graph, terms, choice, used, v, choice[v], 1.0)
        for number in range(tail):
            queued[queue[number]] = False
        excess = total_excess(terms, used)
        total, limit = cost + weight * excess, kept[2] + weight * kept[1]
        if forbidden > kept[0] or (forbidden == kept[0] and total > limit):
            for number in range(n_changed - 1, -1, -1):
                v = changed[number]
                _add_usage(graph, terms, choice, used, v, choice[v], -1.0)
                choice[v] = before[number]
                _add_usage(graph, terms, choice, used, v, choice[v], 1.0)
            forbidden, excess, cost = kept
    forbidden, excess, cost = judged(graph, terms, costs, choice, used)
    return forbidden, excess, cost
