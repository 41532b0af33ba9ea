"""Better choices by exact searches of parts: some nodes may change, all others stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from einmap.distribute.selection.integer import solve_integer
from einmap.distribute.selection.problem import Choice, Costs, Edge, Limit, Selection
from einmap.distribute.selection.reduction import reduce, restricted
from einmap.progress import Progress

ENTRIES = 40_000
"""Entries of the edges of a part."""
SECONDS = 5.0
"""Seconds for each part."""


def improved_by_parts(problem: Selection, choice: Choice, reached: Sequence[Costs], progress: Progress) -> Choice:
    """A choice that no part makes better, or the best one when `progress` ends.

    Parts are nodes that follow one another, half of each part in the next one too. `reached`: what any choice with a
    strategy costs at least; those that cannot make the choice better stay out.
    """
    best, cost, waiting = choice, problem.cost(choice), 0
    parts = _parts(problem, reached, cost)
    number = 0
    while waiting < len(parts) and not progress.stopped:
        part = parts[number % len(parts)]
        better = _searched(problem, best, part, [bounds <= cost for bounds in reached], progress)
        waiting += 1
        if better is not None and (now := problem.cost(better)) < cost:
            best, cost, waiting = better, now, 1
        number += 1
        progress.report("parts of the plan", number, None, f"{cost:.6g}")
    return best


def _parts(problem: Selection, reached: Sequence[Costs], cost: float) -> list[range]:
    """Nodes that follow one another, each part with at most so many entries."""
    open_ = np.array([np.count_nonzero(bounds <= cost) for bounds in reached])
    entries = np.zeros(len(problem.nodes))
    for edge in problem.edges:
        entries[max(edge.first, edge.second)] += open_[edge.first] * open_[edge.second]
    total = np.concatenate([[0], np.cumsum(entries)])
    parts: list[range] = []
    begin = 0
    while not parts or parts[-1].stop < len(problem.nodes):
        end = int(np.searchsorted(total, total[begin] + ENTRIES, side="right")) - 1
        end = min(max(end, begin + 1), len(problem.nodes))
        parts.append(range(begin, end))
        begin = max(begin + 1, (begin + end) // 2)
    return parts


def _searched(
    problem: Selection, choice: Choice, nodes: Collection[int], open_: Sequence[np.ndarray], progress: Progress
) -> Choice | None:
    """The best choice that differs in these nodes alone, as far as it is found in time."""
    part = restricted(
        part_of(problem, choice, nodes),
        [np.nonzero(open_[node] | (np.arange(len(open_[node])) == choice[node]))[0] for node in nodes],
    )
    reduced = reduce(part)
    if reduced is None:
        return None
    selected = solve_integer(reduced.problem, SECONDS, progress)
    if selected.choice is None:
        return None
    better = list(choice)
    for node, strategy in zip(nodes, reduced.restored(selected.choice), strict=True):
        mask = open_[node] | (np.arange(len(open_[node])) == choice[node])
        better[node] = int(np.nonzero(mask)[0][strategy])
    return tuple(better)


def part_of(problem: Selection, choice: Choice, nodes: Collection[int]) -> Selection:
    """The problem of these nodes alone, in their order, the others as in `choice`."""
    number = {node: position for position, node in enumerate(nodes)}
    costs = [problem.nodes[node].copy() for node in nodes]
    edges: list[Edge] = []
    place: dict[int, int] = {}
    for position, edge in enumerate(problem.edges):
        first, second = number.get(edge.first), number.get(edge.second)
        if first is not None and second is not None:
            place[position] = len(edges)
            edges.append(Edge(first, second, edge.costs))
        elif first is not None:
            costs[first] += edge.costs[:, choice[edge.second]]
        elif second is not None:
            costs[second] += edge.costs[choice[edge.first]]
    limits = []
    for limit in problem.limits:
        small = _part_of_limit(problem, choice, number, place, limit)
        if small.nodes or small.edges:
            limits.append(small)
    return Selection(tuple(costs), tuple(edges), tuple(limits))


def _part_of_limit(
    problem: Selection, choice: Choice, number: dict[int, int], place: dict[int, int], limit: Limit
) -> Limit:
    rest = 0.0
    nodes: dict[int, Costs] = {}
    for node, usage in limit.nodes.items():
        if node in number:
            nodes[number[node]] = usage
        else:
            rest += float(usage[choice[node]])
    edges = {place[edge]: usage for edge, usage in limit.edges.items() if edge in place}
    for position, usage in limit.edges.items():
        edge = problem.edges[position]
        first, second = number.get(edge.first), number.get(edge.second)
        if position in place:
            continue
        if first is not None:
            nodes[first] = nodes.get(first, 0.0) + usage[:, choice[edge.second]]
        elif second is not None:
            nodes[second] = nodes.get(second, 0.0) + usage[choice[edge.first]]
        else:
            rest += float(usage[choice[edge.first], choice[edge.second]])
    return replace(limit, limit=limit.limit - rest, nodes=nodes, edges=edges)
