"""The compiled part of putting Einsums together: least costs of paths, and the rows of a join."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from einmap.mapper.objective_kernels import exceeds_cutoff

inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For what other kernels alone call: takes less time to compile."""


@inner
def copy_rows(source: Any, begin: int, end: int, target: Any, at: int) -> None:
    """Rows of a table into another one; an assignment of slices takes a second to compile."""
    for row in range(begin, end):
        for i in range(source.shape[1]):
            target[at + row - begin, i] = source[row, i]


@inner
def copy_blocks(source: Any, begin: int, end: int, target: Any, at: int) -> None:
    """The same for rows that are tables themselves."""
    for row in range(begin, end):
        copy_rows(source[row], 0, source.shape[1], target[at + row - begin], 0)


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
def fits_beside(
    stay: Any, peak: Any, used: Any, passing: Any, kept: Any, born: Any, dying: Any, opened: int, behind: int,
    capacity: Any, new_stay: Any, new_peak: Any,
) -> bool:  # fmt: skip
    """Whether a chain fits beside what stays before it; what stays and was in use behind it (see join.py).

    `kept`, `born`, `dying`: (memories, fused loops); `stay`, `peak` and the results: (memories, loops), of which
    `opened` are open before and `behind` behind. What a chain keeps is a part of what it uses, so that what stays
    behind it fits wherever the chain does.
    """
    for m in range(len(capacity)):
        highest = used[m] + passing[m] + (stay[m, opened - 1] if opened else 0.0)
        if highest > capacity[m]:
            return False
        for level in range(behind):
            own = kept[m, level] + dying[m, level]
            new_stay[m, level] = own + (stay[m, min(level, opened - 1)] if opened else 0.0)
            new_peak[m, level] = -np.inf
        for level in range(opened):
            in_use = peak[m, level] + (kept[m, level] + born[m, level])
            if in_use > capacity[m]:
                return False
            if level < behind - 1:
                new_peak[m, level] = in_use
            else:
                highest = max(highest, in_use)
        if behind:
            new_peak[m, behind - 1] = highest
    return True


@inner
def fits_between(
    stay: Any, peak: Any, used: Any, passing: Any, kept: Any, born: Any, dying: Any, opened: int, behind: int,
    need: Any, need_used: Any, capacity: Any, new_stay: Any, new_peak: Any,
) -> bool:  # fmt: skip
    """The same, beside what stays at least before it and is `need`ed at least behind: (memories, loops), and in all."""
    if not fits_beside(stay, peak, used, passing, kept, born, dying, opened, behind, capacity, new_stay, new_peak):
        return False
    for m in range(len(capacity)):
        if behind and new_stay[m, behind - 1] + need_used[m] > capacity[m]:
            return False
        for level in range(behind):
            if new_peak[m, level] + need[m, level] > capacity[m]:
                return False
    return True


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


@inner
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
    begin: int, so_far: Any, edges: Any, loops: Any, loops_behind: Any, first: Any, costs: Any, stay: Any, peak: Any,
    passing: Any, kind: Any, fused: Any, first_row: Any, own_costs: Any, used: Any, first_kept: Any, kept: Any,
    first_own: Any, born: Any, dying: Any, added: Any, capacity: Any, corners: Any, n_corners: Any, most: float,
    worth: Any, work: int, tie: float,
) -> Any:  # fmt: skip
    """The rows before an Einsum with its chains: those that fit, are not beyond the cutoff, and that no other one
    beats.

    `edges`: boundary state before, option, boundary state behind; the first one to look at is `begin`, and once `work`
    pairs were looked at no further one. Rows (see Rows) of each boundary state before from `first`; of boundary states
    the open loops and what passes. Of each option: its kind (see least_paths), fused loops, rows from first_row, what
    they keep from first_kept, what shared tensors add before and behind from first_own. `added`: for the edges with
    copies that are left out, in their order, what their tensors take. `corners`: for each boundary state behind the
    rows of Remainder. `worth`: weights of sums of costs; a row beats another in its costs if it does in all of these.
    `tie`: sums that differ by less than this fraction count as equal. Gives the edge to go on at, and what is found,
    which is `so_far` of the next call: where the rows of each boundary state behind begin; costs, stay, peak; row
    before, option and row of its front.
    """
    c, m, widest, n = costs.shape[1], len(capacity), stay.shape[2], len(so_far[1])
    room, pairs, absent, at = max(2 * n, 16), 0, 0, begin
    new_costs, number, new_stay, new_peak, newest, older, sums = _with_room(so_far, room, c, m, widest, worth)
    least = np.empty(c)
    for e in range(begin):
        absent += kind[edges[e, 1]] == 2
    while at < len(edges) and pairs <= work:
        before, option, after = edges[at, 0], edges[at, 1], edges[at, 2]
        at += 1
        absent += kind[option] == 2
        rows = corners[after, : n_corners[after]]
        for i in range(c):
            least[i] = _least_of(costs, first[before], first[before + 1], i)
            least[i] += _least_of(own_costs, first_row[option], first_row[option + 1], i)
        if least[0] == np.inf or exceeds_cutoff(least, rows, most):
            continue
        f, own = fused[option], first_own[option]
        of_born, of_dying = born[own : own + m * f].reshape(m, f), dying[own : own + m * f].reshape(m, f)
        for left in range(first[before], first[before + 1]):
            for right in range(first_row[option], first_row[option + 1]):
                pairs += 1
                for i in range(c):
                    new_costs[n, i] = costs[left, i] + own_costs[right, i]
                if exceeds_cutoff(new_costs[n], rows, most):
                    continue
                fits = True
                if kind[option] == 0:
                    here = first_kept[option] + (right - first_row[option]) * m * f
                    fits = fits_beside(
                        stay[left], peak[left], used[right], passing[before], kept[here : here + m * f].reshape(m, f),
                        of_born, of_dying, loops[before], loops_behind[after], capacity, new_stay[n], new_peak[n],
                    )  # fmt: skip
                elif kind[option] == 2:
                    fits = _fits_with(
                        stay[left], peak[left], added[absent - 1], loops[before], capacity, new_stay[n], new_peak[n]
                    )
                _weigh(new_costs, n, worth, sums)
                if fits and _is_new(n, after, loops_behind[after], sums, new_stay, new_peak, newest, older, tie):
                    number[n, 0], number[n, 1], number[n, 2] = left, option, right - first_row[option]
                    n += 1
                if n == room:
                    full = _by_interface(newest, older, new_costs, new_stay, new_peak, number)
                    n = len(full[1])
                    room = 2 * n + 16
                    new_costs, number, new_stay, new_peak, newest, older, sums = _with_room(
                        full, room, c, m, widest, worth
                    )
    return at, _by_interface(newest, older, new_costs, new_stay, new_peak, number)


@inner
def _with_room(so_far: Any, room: int, c: int, m: int, widest: int, worth: Any) -> Any:
    """Rows so far with room for more; of boundary states the newest one, of rows the next older one or -1, and the
    sums.
    """
    first, costs, stay, peak, number = so_far
    n = len(costs)
    more_costs, more_number = np.empty((room, c)), np.empty((room, 3), np.int64)
    more_stay, more_peak = np.empty((room, m, widest)), np.empty((room, m, widest))
    copy_rows(costs, 0, n, more_costs, 0)
    copy_rows(number, 0, n, more_number, 0)
    copy_blocks(stay, 0, n, more_stay, 0)
    copy_blocks(peak, 0, n, more_peak, 0)
    newest, older = np.full(len(first) - 1, -1), np.empty(room, np.int64)
    for boundary_state in range(len(newest)):
        for row in range(first[boundary_state], first[boundary_state + 1]):
            older[row] = newest[boundary_state]
            newest[boundary_state] = row
    sums = np.empty((room, len(worth)))
    for row in range(n):
        _weigh(more_costs, row, worth, sums)
    return more_costs, more_number, more_stay, more_peak, newest, older, sums


@inner
def _weigh(costs: Any, row: int, worth: Any, sums: Any) -> None:
    """Write weighted sums of a row's costs."""
    for way in range(len(worth)):
        total = 0.0
        for i in range(costs.shape[1]):
            total += worth[way, i] * costs[row, i]
        sums[row, way] = total


@inner
def _by_interface(newest: Any, older: Any, costs: Any, stay: Any, peak: Any, number: Any) -> Any:
    """The rows that are left, boundary state by boundary state, and where those of each begin."""
    first = np.zeros(len(newest) + 1, np.int64)
    for boundary_state in range(len(newest)):
        first[boundary_state + 1] = first[boundary_state]
        row = newest[boundary_state]
        while row >= 0:
            first[boundary_state + 1] += 1
            row = older[row]
    order = np.empty(first[len(newest)], np.int64)
    for boundary_state in range(len(newest)):
        row, place = newest[boundary_state], first[boundary_state + 1]
        while row >= 0:
            place -= 1
            order[place] = row
            row = older[row]
    return first, costs[order], stay[order], peak[order], number[order]


@inner
def _is_new(
    n: int, boundary_state: int, loops: int, sums: Any, stay: Any, peak: Any, newest: Any, older: Any, tie: float
) -> bool:
    """Whether no row with the same boundary state beats row n; then it is one of them, and those that it beats are
    gone.
    """
    newer, row = -1, newest[boundary_state]
    while row >= 0:
        beaten, beats = True, True
        for way in range(sums.shape[1]):
            beaten = beaten and sums[row, way] <= sums[n, way] * (1 + tie)
            beats = beats and sums[n, way] <= sums[row, way]
        for m in range(stay.shape[1] if beaten or beats else 0):
            for level in range(loops):
                old, new = stay[row, m, level], stay[n, m, level]
                beaten, beats = beaten and old <= new, beats and new <= old
                old, new = peak[row, m, level], peak[n, m, level]
                beaten, beats = beaten and old <= new, beats and new <= old
        if beaten:
            return False
        if not beats:
            newer = row
        elif newer < 0:
            newest[boundary_state] = older[row]
        else:
            older[newer] = older[row]
        row = older[row]
    older[n] = newest[boundary_state]
    newest[boundary_state] = n
    return True


@inner
def _fits_with(stay: Any, peak: Any, added: Any, loops: int, capacity: Any, new_stay: Any, new_peak: Any) -> bool:
    """Whether there is room for what is in use from here on beside what was in use before."""
    fits = True
    for i in range(len(capacity)):
        for level in range(loops):
            new_stay[i, level], new_peak[i, level] = stay[i, level], peak[i, level] + added[i, level]
            fits = fits and new_peak[i, level] <= capacity[i]
    return fits


@inner
def _least_of(values: Any, begin: int, end: int, column: int) -> float:
    """The least of some rows in a column, infinite if there are none."""
    found = np.inf
    for row in range(begin, end):
        found = min(found, values[row, column])
    return found
