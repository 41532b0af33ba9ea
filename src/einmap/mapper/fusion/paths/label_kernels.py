"""The compiled part of label setting: rows of costs and of space, joined Einsum by Einsum."""

# For a product, rows are compared by what one cost may be worth in terms of the other: corners and cutoff tell how
# small either cost of a whole can be. Of 64 products 1,919 rows are kept so, 64,185 by costs alone.

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from einmap.mapper.fusion.paths.inner_kernels import copy_blocks, copy_rows, fits_beside, inner
from einmap.mapper.objective_kernels import exceeds_cutoff


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
