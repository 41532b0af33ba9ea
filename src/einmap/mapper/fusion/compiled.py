"""The compiled part of putting Einsums together: least costs of paths, and the rows of a join."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from einmap.mapper.kernels import hopeless


@njit(cache=True, nogil=True)
def least_needs(
    order: Any, at: Any, loops: Any, edges: Any, first_edge: Any, passing: Any, first_before: Any, first_option: Any,
    kind: Any, fused: Any, first_row: Any, used: Any, first_kept: Any, kept: Any, first_own: Any, born: Any,
) -> Any:  # fmt: skip
    """What the next Einsum takes at least behind each interface: above each open loop, and in all. See least_paths."""
    n, m = len(order), used.shape[1]
    need, need_used = np.full((at[n + 1], m, max(loops.max(), 1)), np.inf), np.full((at[n + 1], m), np.inf)
    for k in range(n):
        stage = order[k]
        for e in range(first_edge[stage], first_edge[stage + 1]):
            before, option = at[k] + edges[e, 0], first_option[stage] + edges[e, 1]
            if kind[option]:
                need[before], need_used[before] = 0.0, 0.0
                continue
            f, own = fused[option], first_own[option]
            for row in range(first_row[option], first_row[option + 1]):
                here = first_kept[option] + (row - first_row[option]) * m * f
                for i in range(m):
                    taken = used[row, i] + passing[first_before[stage] + edges[e, 0], i]
                    need_used[before, i] = min(need_used[before, i], taken)
                    for level in range(loops[before]):
                        above = kept[here + i * f + level] + born[own + i * f + level]
                        need[before, i, level] = min(need[before, i, level], above)
    return need, need_used


@njit(cache=True, nogil=True)
def fits_between(
    used: Any, passing: Any, kept: Any, born: Any, dying: Any, stay: Any, peak: Any, opened: int, behind: int,
    need: Any, need_used: Any, capacity: Any, new_stay: Any, new_peak: Any,
) -> bool:  # fmt: skip
    """Whether a chain fits beside what stays at least before it, and what is needed at least behind.

    Also what stays and was in use behind it (see join.py), in `new_stay`, `new_peak`. `kept`, `born`, `dying`:
    (memories, fused loops); `stay`, `peak`, `need` and the results: (memories, loops). What a chain keeps is a part of
    what it uses, so that what stays behind it fits wherever the chain does.
    """
    for i in range(len(capacity)):
        taken = used[i] + passing[i] + (stay[i, opened - 1] if opened else 0.0)
        if taken > capacity[i]:
            return False
        for level in range(behind):
            before = stay[i, min(level, opened - 1)] if opened else 0.0
            new_stay[i, level], new_peak[i, level] = kept[i, level] + dying[i, level] + before, -np.inf
        highest = taken
        for level in range(opened):
            in_use = peak[i, level] + kept[i, level] + born[i, level]
            if in_use > capacity[i]:
                return False
            if level < behind - 1:
                new_peak[i, level] = in_use
            else:
                highest = max(highest, in_use)
        if behind:
            new_peak[i, behind - 1] = highest
            if new_stay[i, behind - 1] + need_used[i] > capacity[i]:
                return False
        for level in range(behind):
            if new_peak[i, level] + need[i, level] > capacity[i]:
                return False
    return True


@njit(cache=True, nogil=True)
def least_paths(
    order: Any, at: Any, loops: Any, edges: Any, first_edge: Any, passing: Any, first_before: Any, first_option: Any,
    kind: Any, fused: Any, first_row: Any, costs: Any, used: Any, first_kept: Any, kept: Any, first_own: Any,
    born: Any, dying: Any, capacity: Any,
) -> Any:  # fmt: skip
    """Least weighted costs behind each interface, of the others for each option, and of whole cascades with it.

    order[k]: the stage of Einsum k; at[k]: where the interfaces before Einsum k begin in `loops`, their open loops. Of
    each stage: `edges` (interface before, option, interface behind) from first_edge, what passes each interface before
    from first_before, options from first_option. Of each option: its kind (0: plain, 1: takes no space, 2: left out),
    its fused loops, rows of costs and use from first_row, what each row keeps from first_kept, what shared tensors add
    before and behind from first_own. A chain is left out where it does not fit beside the least that the chains before
    and behind take.
    """
    n, w, m = len(order), costs.shape[1], len(capacity)
    need, need_used = least_needs(
        order, at, loops, edges, first_edge, passing, first_before, first_option, kind, fused, first_row, used,
        first_kept, kept, first_own, born,
    )  # fmt: skip
    forward, backward = np.full((at[n + 1], w), np.inf), np.full((at[n + 1], w), np.inf)
    rests, through = np.full((len(kind), w), np.inf), np.full((len(kind), w), np.inf)
    stay, peak = np.full_like(need, np.inf), np.full_like(need, np.inf)
    new_stay, new_peak = np.empty(need.shape[1:]), np.empty(need.shape[1:])
    forward[0], backward[at[n] :] = 0.0, 0.0
    cost_at = np.full((np.diff(first_edge)[order].sum(), w), np.inf)
    number = 0
    for k in range(n):
        stage = order[k]
        for e in range(first_edge[stage], first_edge[stage + 1]):
            before, option, after = at[k] + edges[e, 0], first_option[stage] + edges[e, 1], at[k + 1] + edges[e, 2]
            number += 1
            if forward[before, 0] == np.inf:
                continue
            f, own = fused[option], first_own[option]
            of_born, of_dying = born[own : own + m * f].reshape(m, f), dying[own : own + m * f].reshape(m, f)
            for row in range(first_row[option], first_row[option + 1]):
                if kind[option] == 0:
                    here = first_kept[option] + (row - first_row[option]) * m * f
                    if not fits_between(
                        used[row], passing[first_before[stage] + edges[e, 0]], kept[here : here + m * f].reshape(m, f),
                        of_born, of_dying, stay[before], peak[before], loops[before], loops[after], need[after],
                        need_used[after], capacity, new_stay, new_peak,
                    ):  # fmt: skip
                        continue
                else:
                    # where nothing is known no loops are open behind; a copy that is left out adds nothing
                    new_stay[:], new_peak[:] = stay[before], peak[before]
                for c in range(w):
                    cost_at[number - 1, c] = min(cost_at[number - 1, c], costs[row, c])
                for i in range(m):
                    for level in range(loops[after]):
                        stay[after, i, level] = min(stay[after, i, level], new_stay[i, level])
                        peak[after, i, level] = min(peak[after, i, level], new_peak[i, level])
            for c in range(w):
                forward[after, c] = min(forward[after, c], forward[before, c] + cost_at[number - 1, c])
    for k in range(n - 1, -1, -1):
        stage = order[k]
        for e in range(first_edge[stage + 1] - 1, first_edge[stage] - 1, -1):
            before, option, after = at[k] + edges[e, 0], first_option[stage] + edges[e, 1], at[k + 1] + edges[e, 2]
            number -= 1
            if cost_at[number, 0] == np.inf:
                continue
            for c in range(w):
                cost = cost_at[number, c] + backward[after, c]
                backward[before, c] = min(backward[before, c], cost)
                rests[option, c] = min(rests[option, c], forward[before, c] + backward[after, c])
                through[option, c] = min(through[option, c], forward[before, c] + cost)
    return backward, rests, through


@njit(cache=True, nogil=True)
def bends(slopes: Any, offsets: Any, least: float, found: Any) -> int:
    """Where the largest of the lines offset - slope * y bends: the least y and those behind it, rising, in `found`.

    The first line is the one without a slope, the others fall. Gives how many there are.
    """
    line, highest = 0, -np.inf
    for i in range(len(slopes)):
        x = offsets[i] - slopes[i] * least
        if x > highest or (x == highest and slopes[i] < slopes[line]):
            line, highest = i, x
    found[0] = least
    n = 1
    while slopes[line] > 0:
        # the line that is met first takes over, of several the one that falls least
        behind, nearest = 0, np.inf
        for i in range(len(slopes)):
            if slopes[i] < slopes[line]:
                y = (offsets[line] - offsets[i]) / (slopes[line] - slopes[i])
                if y < nearest or (y == nearest and slopes[i] < slopes[behind]):
                    behind, nearest = i, y
        if found[n - 1] < nearest < np.inf:
            found[n] = nearest
            n += 1
        line = behind
    return n


@njit(cache=True, nogil=True)
def least_products(slopes: Any, offsets: Any, least: Any) -> Any:
    """The least product x * y of each row where y is not below `least` and x is above all lines offset - slope * y."""
    found = np.full(len(offsets), np.inf)
    at = np.empty(len(slopes) + 1)
    for row in range(len(offsets)):
        if offsets[row].max() == np.inf:
            continue
        for i in range(bends(slopes, offsets[row], least[row], at)):
            x = -np.inf
            for line in range(len(slopes)):
                x = max(x, offsets[row, line] - slopes[line] * at[i])
            found[row] = min(found[row], x * at[i])
    return found


@njit(cache=True, nogil=True)
def lower_corners(slopes: Any, offsets: Any, least: Any) -> Any:
    """The lower left corners of the points (x, y) of each row: y not below `least`, x above all offset - slope * y.

    Points with x falling, (rows, most corners, 2), and how many there are.
    """
    points = np.empty((len(offsets), len(slopes) + 1, 2))
    counts = np.zeros(len(offsets), np.int64)
    at = np.empty(len(slopes) + 1)
    for row in range(len(offsets)):
        if least[row] == np.inf or offsets[row].max() == np.inf:
            # nothing fits
            points[row, 0], counts[row] = np.inf, 1
            continue
        lowest = np.inf
        for i in range(bends(slopes, offsets[row], least[row], at)):
            x = -np.inf
            for line in range(len(slopes)):
                x = max(x, offsets[row, line] - slopes[line] * at[i])
            if x < lowest:
                points[row, counts[row], 0], points[row, counts[row], 1] = x, at[i]
                counts[row] += 1
                lowest = x
    return points, counts


@njit(cache=True, nogil=True)
def joined(
    costs: Any, stay: Any, peak: Any, own_costs: Any, usage: Any, above: Any, kept: Any, capacity: Any, after: int,
    rows: Any, most: float,
) -> Any:  # fmt: skip
    """All rows before an Einsum with all chains of one option, as far as they fit and are not hopeless.

    `costs`, `stay`, `peak`: see Rows; `own_costs`, `usage`, `above`, `kept`: see Fitted; `after`: loops that are open
    behind; `rows`, `most`: see Others. Gives costs, stay and peak behind the Einsum, and rows before and of the front.
    """
    n_memories, opened, n_costs = len(capacity), stay.shape[2], costs.shape[1]
    left, right = np.empty(len(costs) * len(own_costs), np.int64), np.empty(len(costs) * len(own_costs), np.int64)
    value = np.empty(n_costs)
    n = 0
    for i in range(len(costs)):
        for j in range(len(own_costs)):
            for c in range(n_costs):
                value[c] = costs[i, c] + own_costs[j, c]
            if hopeless(value, rows, most):
                continue
            fits = True
            for m in range(n_memories):
                used = usage[j, m] + (stay[i, m, opened - 1] if opened else 0.0)
                fits = fits and used <= capacity[m]
                for level in range(opened):
                    fits = fits and peak[i, m, level] + above[j, m, level] <= capacity[m]
            if fits:
                left[n], right[n] = i, j
                n += 1
    new_costs = np.empty((n, n_costs))
    new_stay, new_peak = np.zeros((n, n_memories, after)), np.full((n, n_memories, after), -np.inf)
    for row in range(n):
        i, j = left[row], right[row]
        for c in range(n_costs):
            new_costs[row, c] = costs[i, c] + own_costs[j, c]
        for m in range(n_memories):
            for level in range(after):
                own = kept[j, m, level]
                new_stay[row, m, level] = own + (stay[i, m, min(level, opened - 1)] if opened else 0.0)
                if level < opened and level < after - 1:
                    new_peak[row, m, level] = peak[i, m, level] + above[j, m, level]
            if after:
                highest = usage[j, m] + (stay[i, m, opened - 1] if opened else 0.0)
                for level in range(after - 1, opened):
                    highest = max(highest, peak[i, m, level] + above[j, m, level])
                new_peak[row, m, after - 1] = highest
    return new_costs, new_stay, new_peak, left[:n].copy(), right[:n].copy()


@njit(cache=True, nogil=True)
def unbeaten(ranked: Any, limit: Any) -> Any:
    """Rows, sorted by column, that no row kept before is at most `limit` of in everything."""
    kept = np.empty(len(ranked), np.int64)
    n = 0
    for i in range(len(ranked)):
        beaten = False
        for k in range(n):
            beaten = True
            for c in range(ranked.shape[1]):
                if ranked[kept[k], c] > limit[i, c]:
                    beaten = False
                    break
            if beaten:
                break
        if not beaten:
            kept[n] = i
            n += 1
    return kept[:n].copy()
