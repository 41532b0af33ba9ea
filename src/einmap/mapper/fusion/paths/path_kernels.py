"""The compiled part of shortest paths: least costs of paths through the state graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from einmap.mapper.fusion.paths.inner_kernels import copy_blocks, copy_rows, fits_between, inner


@inner
def least_needs(
    loops: Any, widest: int, edges: Any, first_edge: Any, passing: Any, first_before: Any, first_option: Any, kind: Any,
    fused: Any, first_row: Any, used: Any, first_kept: Any, kept: Any, first_own: Any, born: Any,
) -> Any:  # fmt: skip
    """What a stage takes at least behind each boundary state before it: above each open loop, and in all. See
    least_paths.

    One more row at the end is for what lies behind the last Einsum.
    """
    n, m = len(passing), used.shape[1]
    need, need_used = np.full((n + 1, m, widest), np.inf), np.full((n + 1, m), np.inf)
    for stage in range(len(first_edge) - 1):
        for e in range(first_edge[stage], first_edge[stage + 1]):
            before, option = first_before[stage] + edges[e, 0], first_option[stage] + edges[e, 1]
            if kind[option]:
                for i in range(m):
                    need_used[before, i] = 0.0
                    for level in range(widest):
                        need[before, i, level] = 0.0
                continue
            f, own = fused[option], first_own[option]
            for row in range(first_row[option], first_row[option + 1]):
                here = first_kept[option] + (row - first_row[option]) * m * f
                for i in range(m):
                    need_used[before, i] = min(need_used[before, i], used[row, i] + passing[before, i])
                    for level in range(loops[before]):
                        above = kept[here + i * f + level] + born[own + i * f + level]
                        need[before, i, level] = min(need[before, i, level], above)
    return need, need_used


@inner
def _is_same_before(one: int, other: int, boundary_states: int, forward: Any, stay: Any, peak: Any) -> bool:
    """Whether the same comes before two Einsums of one stage, but for costs; `one`, `other`: where these begin."""
    for b in range(boundary_states):
        if (forward[one + b, 0] == np.inf) != (forward[other + b, 0] == np.inf):
            return False
        for i in range(stay.shape[1]):
            for level in range(stay.shape[2]):
                if stay[one + b, i, level] != stay[other + b, i, level]:
                    return False
                if peak[one + b, i, level] != peak[other + b, i, level]:
                    return False
    return True


@njit(cache=True, nogil=True)
def least_paths(
    order: Any, at: Any, loops: Any, edges: Any, first_edge: Any, passing: Any, first_before: Any, first_option: Any,
    kind: Any, fused: Any, first_row: Any, costs: Any, used: Any, first_kept: Any, kept: Any, first_own: Any,
    born: Any, dying: Any, capacity: Any,
) -> Any:  # fmt: skip
    """Least weighted costs behind each boundary state, of the others for each option, and of whole cascades with it.

    order[k]: the stage of Einsum k; at[k]: where the boundary states before Einsum k begin. Of each stage: the open
    loops of the boundary states before it and what passes them from first_before, `edges` (boundary state before,
    option, boundary state behind) from first_edge, options from first_option. Of each option: its kind (0: plain, 1:
    takes no space, 2: left out), its fused loops, rows of costs and use from first_row, what each row keeps from
    first_kept, what shared tensors add before and behind from first_own. A chain is left out where it does not fit
    beside the least that the chains before and behind take.
    """
    n, w, m, widest = len(order), costs.shape[1], len(capacity), 1
    for own_loops in loops:
        widest = max(widest, own_loops)
    need, need_used = least_needs(
        loops, widest, edges, first_edge, passing, first_before, first_option, kind, fused, first_row, used, first_kept,
        kept, first_own, born,
    )  # fmt: skip
    forward, backward = np.full((at[n + 1], w), np.inf), np.full((at[n + 1], w), np.inf)
    rests, through = np.full((len(kind), w), np.inf), np.full((len(kind), w), np.inf)
    stay, peak = np.full((at[n + 1], m, widest), np.inf), np.full((at[n + 1], m, widest), np.inf)
    for c in range(w):
        forward[0, c] = 0.0
        for row in range(at[n], at[n + 1]):
            backward[row, c] = 0.0
    # least costs of the edges of each Einsum; of a repeated one those of the last one like it, where all else is equal
    of_edges, first_of, latest = np.full((len(edges), w), np.inf), np.empty(n, np.int64), np.full(len(first_edge), -1)
    begin = 0
    for k in range(n):
        stage, following = order[k], order[k + 1] if k + 1 < n else len(first_edge) - 1
        n_edges, twin = first_edge[stage + 1] - first_edge[stage], latest[stage]
        latest[stage] = k
        if (
            twin >= 0 and k + 1 < n and order[twin + 1] == following
            and _is_same_before(at[twin], at[k], at[k + 1] - at[k], forward, stay, peak)
        ):  # fmt: skip
            first_of[k] = first_of[twin]
            for own in (stay, peak):
                copy_blocks(own, at[twin + 1], at[twin + 1] + at[k + 2] - at[k + 1], own, at[k + 1])
        else:
            first_of[k] = begin
            begin += n_edges
            if begin > len(of_edges):
                longer = np.full((begin + len(of_edges), w), np.inf)
                copy_rows(of_edges, 0, len(of_edges), longer, 0)
                of_edges = longer
            costs_of_edges(
                stage, first_of[k], at[k], at[k + 1], first_before[following], of_edges, forward, stay, peak, need,
                need_used, loops, edges, first_edge, passing, first_before, first_option, kind, fused, first_row, costs,
                used, first_kept, kept, first_own, born, dying, capacity,
            )  # fmt: skip
        for e in range(n_edges):
            edge, cost = first_edge[stage] + e, of_edges[first_of[k] + e]
            if cost[0] < np.inf:
                here, there = forward[at[k] + edges[edge, 0]], forward[at[k + 1] + edges[edge, 2]]
                for c in range(w):
                    there[c] = min(there[c], here[c] + cost[c])
    for k in range(n - 1, -1, -1):
        stage = order[k]
        for e in range(first_edge[stage + 1] - first_edge[stage] - 1, -1, -1):
            edge, cost = first_edge[stage] + e, of_edges[first_of[k] + e]
            if cost[0] == np.inf:
                continue
            before, option = at[k] + edges[edge, 0], first_option[stage] + edges[edge, 1]
            here, there, ahead = backward[before], backward[at[k + 1] + edges[edge, 2]], forward[before]
            rest, whole = rests[option], through[option]
            for c in range(w):
                here[c] = min(here[c], cost[c] + there[c])
                rest[c] = min(rest[c], ahead[c] + there[c])
                whole[c] = min(whole[c], ahead[c] + (cost[c] + there[c]))
    return backward, rests, through


@inner
def costs_of_edges(
    stage: int, number: int, at: int, at_behind: int, need_behind: int, of_edges: Any, forward: Any, stay: Any,
    peak: Any, need: Any, need_used: Any, loops: Any, edges: Any, first_edge: Any, passing: Any, first_before: Any,
    first_option: Any, kind: Any, fused: Any, first_row: Any, costs: Any, used: Any, first_kept: Any, kept: Any,
    first_own: Any, born: Any, dying: Any, capacity: Any,
) -> None:  # fmt: skip
    """The least costs of each edge of an Einsum, from row `number` on, and what stays and was in use behind it.

    `at`, `at_behind`, `need_behind`: where the boundary states before and behind it begin, and what is needed behind
    these.
    """
    m, widest, w = len(capacity), stay.shape[2], costs.shape[1]
    new_stay, new_peak = np.empty((m, widest)), np.empty((m, widest))
    is_last = need_behind + 1 == len(need)
    for e in range(first_edge[stage], first_edge[stage + 1]):
        before, option, after = at + edges[e, 0], first_option[stage] + edges[e, 1], at_behind + edges[e, 2]
        passed, coming = first_before[stage] + edges[e, 0], need_behind + edges[e, 2]
        cost = of_edges[number]
        number += 1
        if forward[before, 0] == np.inf:
            continue
        behind = 0 if is_last else loops[coming]
        f, own = fused[option], first_own[option]
        of_born, of_dying = born[own : own + m * f].reshape(m, f), dying[own : own + m * f].reshape(m, f)
        for row in range(first_row[option], first_row[option + 1]):
            if kind[option] == 0:
                here = first_kept[option] + (row - first_row[option]) * m * f
                if not fits_between(
                    stay[before], peak[before], used[row], passing[passed], kept[here : here + m * f].reshape(m, f),
                    of_born, of_dying, loops[passed], behind, need[coming], need_used[coming], capacity, new_stay,
                    new_peak,
                ):  # fmt: skip
                    continue
            else:
                # where nothing is known no loops are open behind; a copy that is left out adds nothing
                copy_rows(stay[before], 0, m, new_stay, 0)
                copy_rows(peak[before], 0, m, new_peak, 0)
            for c in range(w):
                cost[c] = min(cost[c], costs[row, c])
            for i in range(m):
                for level in range(behind):
                    stay[after, i, level] = min(stay[after, i, level], new_stay[i, level])
                    peak[after, i, level] = min(peak[after, i, level], new_peak[i, level])
