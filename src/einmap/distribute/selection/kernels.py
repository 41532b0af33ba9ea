"""Compiled loops of `messages` and `local_search`, over arrays that hold all nodes or edges in a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

type Array = Any


class Graph(NamedTuple):
    """Strategies of node v are `starts[v]` to `starts[v + 1] - 1`. Edge e goes from node `first[e]` to a later node
    `second[e]`; its table of costs begins at `tables_at[e]`, row by row. Edges of node v: from `edges_at[v]` in
    `edges_of`.
    """

    starts: Array
    first: Array
    second: Array
    edges_at: Array
    edges_of: Array
    tables: Array
    tables_at: Array


class Shifts(NamedTuple):
    """Costs shifted out of edge e to its first node, from `rows_at[e]` in `rows`, and to its second node, from
    `columns_at[e]` in `columns`; `left`: what each strategy costs with what was shifted to it.
    """

    rows: Array
    rows_at: Array
    columns: Array
    columns_at: Array
    left: Array


class Terms(NamedTuple):
    """Usage of limits by strategies and pairs: terms of node v from `nodes_at[v]`, of edge e from `edges_at[e]`; term i
    is of limit `limit[i]`, its table begins at `values_at[i]` in `values`. `most`: the limits.
    """

    nodes_at: Array
    edges_at: Array
    limit: Array
    values_at: Array
    values: Array
    most: Array


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def push_forward(graph: Graph, shifts: Shifts, e: int, share: float) -> None:
    """Give `share` of what the first node has left to an edge, and all that it then costs at least to the second."""
    v, w = graph.first[e], graph.second[e]
    left, onto = shifts.left[graph.starts[v] : graph.starts[v + 1]], shifts.left[graph.starts[w] : graph.starts[w + 1]]
    n, m = len(left), len(onto)
    rows = shifts.rows[shifts.rows_at[e] : shifts.rows_at[e] + n]
    columns = shifts.columns[shifts.columns_at[e] : shifts.columns_at[e] + m]
    table = graph.tables[graph.tables_at[e] : graph.tables_at[e] + n * m]
    least = np.full(m, np.inf)
    for s in range(n):
        if left[s] == np.inf:
            continue
        rows[s] -= share * left[s]
        moved = rows[s]
        row = table[s * m : (s + 1) * m]
        for t in range(m):
            cost = row[t] - moved
            least[t] = cost if cost < least[t] else least[t]
    for t in range(m):
        onto[t] += least[t] - columns[t]
        columns[t] = least[t] if least[t] < np.inf else 0.0


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def push_back(graph: Graph, shifts: Shifts, e: int, share: float) -> None:
    """Give `share` of what the second node has left to an edge, and all that it then costs at least to the first."""
    v, w = graph.first[e], graph.second[e]
    onto, left = shifts.left[graph.starts[v] : graph.starts[v + 1]], shifts.left[graph.starts[w] : graph.starts[w + 1]]
    n, m = len(onto), len(left)
    rows = shifts.rows[shifts.rows_at[e] : shifts.rows_at[e] + n]
    columns = shifts.columns[shifts.columns_at[e] : shifts.columns_at[e] + m]
    table = graph.tables[graph.tables_at[e] : graph.tables_at[e] + n * m]
    moved = np.full(m, -np.inf)
    for t in range(m):
        if left[t] < np.inf:
            columns[t] -= share * left[t]
            moved[t] = columns[t]
    for s in range(n):
        row = table[s * m : (s + 1) * m]
        least = np.inf
        for t in range(m):
            cost = row[t] - moved[t]
            least = cost if cost < least else least
        onto[s] += least - rows[s]
        rows[s] = least if least < np.inf else 0.0


@numba.njit(cache=True, nogil=True)
def pick(graph: Graph, shifts: Shifts, v: int, forward: bool, choice: Array) -> int:
    """The cheapest strategy of a node with what has been chosen for the nodes before it (`forward`) or after it."""
    left = shifts.left[graph.starts[v] : graph.starts[v + 1]]
    total = left.copy()
    n = len(total)
    for e in graph.edges_of[graph.edges_at[v] : graph.edges_at[v + 1]]:
        at, rows_at, columns_at = graph.tables_at[e], shifts.rows_at[e], shifts.columns_at[e]
        if forward and graph.second[e] == v:
            s = choice[graph.first[e]]
            for t in range(n):
                total[t] += graph.tables[at + s * n + t] - shifts.columns[columns_at + t] - shifts.rows[rows_at + s]
        elif not forward and graph.first[e] == v:
            w = graph.second[e]
            m, t = graph.starts[w + 1] - graph.starts[w], choice[w]
            for s in range(n):
                total[s] += graph.tables[at + s * m + t] - shifts.rows[rows_at + s] - shifts.columns[columns_at + t]
    return int(total.argmin()) if total.min() < np.inf else int(left.argmin())


@numba.njit(cache=True, nogil=True)
def sweep(graph: Graph, shifts: Shifts, forward: bool, paid: float, reached: Array, choice: Array) -> float:
    """Spread what each node has left over the edges to the nodes that follow, in their order or back.

    Returns a bound of what any choice costs, without `paid`; raises `reached`, the bounds of those with each strategy,
    and makes a `choice` on the way.
    """
    starts, left = graph.starts, shifts.left
    n_nodes = len(starts) - 1
    least = np.array([left[starts[v] : starts[v + 1]].min() for v in range(n_nodes)])
    bound = least.sum() - paid
    for number in range(n_nodes):
        v = number if forward else n_nodes - 1 - number
        for s in range(starts[v], starts[v + 1]):
            reached[s] = max(reached[s], bound - least[v] + left[s])
        choice[v] = pick(graph, shifts, v, forward, choice)
        edges = graph.edges_of[graph.edges_at[v] : graph.edges_at[v + 1]]
        ahead = 0
        for e in edges:
            ahead += (graph.first[e] == v) == forward
        if ahead == 0:
            continue
        share = 1.0 / max(ahead, len(edges) - ahead)
        for e in edges:
            if (graph.first[e] == v) != forward:
                continue
            if forward:
                push_forward(graph, shifts, e, share)
                other = graph.second[e]
            else:
                push_back(graph, shifts, e, share)
                other = graph.first[e]
            now = left[starts[other] : starts[other + 1]].min()
            bound += now - least[other]
            least[other] = now
        for s in range(starts[v], starts[v + 1]):
            if left[s] < np.inf:
                left[s] *= 1 - share * ahead
        now = left[starts[v] : starts[v + 1]].min()
        bound += now - least[v]
        least[v] = now
        if not bound < np.inf:
            return np.inf
    return float(bound)


@numba.njit(cache=True, nogil=True)
def exact_bound(graph: Graph, shifts: Shifts, costs: Array) -> float:
    """Least cost of any choice, from `costs` of the strategies and what was shifted, without what rounding adds
    up to over many sweeps.
    """
    left, total = costs.copy(), 0.0
    for e in range(len(graph.first)):
        v, w = graph.starts[graph.first[e]], graph.starts[graph.second[e]]
        n, m = graph.starts[graph.first[e] + 1] - v, graph.starts[graph.second[e] + 1] - w
        rows, columns = shifts.rows[shifts.rows_at[e] :], shifts.columns[shifts.columns_at[e] :]
        least = np.inf
        for s in range(n):
            left[v + s] += rows[s]
            for t in range(m):
                if shifts.left[v + s] < np.inf and shifts.left[w + t] < np.inf:
                    least = min(least, graph.tables[graph.tables_at[e] + s * m + t] - rows[s] - columns[t])
        for t in range(m):
            left[w + t] += columns[t]
        total += least
    for v in range(len(graph.starts) - 1):
        least = np.inf
        for s in range(graph.starts[v], graph.starts[v + 1]):
            if shifts.left[s] < np.inf:
                least = min(least, left[s])
        total += least
    return float(total)
