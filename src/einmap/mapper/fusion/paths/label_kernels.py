"""The compiled part of label setting: rows of costs and of space, joined Einsum by Einsum."""

# For a product, rows are compared by what one cost may be worth in terms of the other: corners and cutoff tell how
# small either cost of a whole can be. Of 64 products 1,919 rows are kept so, 64,185 by costs alone.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.compiled import inner, kernel, maker
from einmap.mapper.fusion.paths.inner_kernels import copy_blocks, copy_rows, fits_beside, shared_bits
from einmap.mapper.fusion.paths.kernel_records import (
    ABSENT,
    PLAIN,
    ChainBits,
    Comparison,
    JoinedEdges,
    Labels,
    Limits,
    PackedChains,
    Space,
)
from einmap.mapper.objective.objective_kernels import exceeds_cutoff


class _LabelBuffer(NamedTuple):
    """Labels that are being made: the first rows of arrays that have room for more (see Labels).

    `newest`: of each boundary state the latest label, `older`: of each label the next older one, -1 where there is
    none; `sums`: (labels, sums) weighted sums of costs, see Comparison.
    """

    costs: Floats
    stay: Floats
    peak: Floats
    back: Ints
    newest: Ints
    older: Ints
    sums: Floats


@kernel
def joined(
    at: Ints, so_far: Labels, before: Labels, edges: JoinedEdges, chains: PackedChains, limits: Limits,
    comparison: Comparison, work: int,
) -> Any:  # fmt: skip
    """The labels before an Einsum with its chains: those that fit, are not beyond the cutoff, and that no other one
    beats.

    `at`: the edge to go on at, and how many labels before it have been looked at; moved on. Once `work` pairs were
    looked at no further label is. Gives the labels behind the Einsum, which are `so_far` of the next call.
    """
    capacity, c, m = limits.capacity, chains.costs.shape[1], len(limits.capacity)
    n = len(so_far.costs)
    buffer, pairs, absent = _with_room(so_far, max(2 * n, 16), comparison.worth), 0, 0
    least = np.empty(c)
    for e in range(at[0]):
        absent += chains.kind[edges.edges[e, 1]] == ABSENT
    while at[0] < len(edges.edges) and pairs <= work:
        origin, option, after = edges.edges[at[0], 0], edges.edges[at[0], 1], edges.edges[at[0], 2]
        kind, first, last = chains.kind[option], chains.first_row[option], chains.first_row[option + 1]
        absent += kind == ABSENT
        rows, most = limits.corners[after, : limits.n_corners[after]], limits.most[after]
        for i in range(c):
            least[i] = _least_of(before.costs, before.first[origin], before.first[origin + 1], i)
            least[i] += _least_of(chains.costs, first, last, i)
        left, end = before.first[origin] + at[1], before.first[origin + 1]
        if least[0] == np.inf or exceeds_cutoff(least, rows, most):
            left = end
        opened, behind = edges.loops[origin], edges.behind[after]
        f, shared = chains.fused[option], shared_bits(chains, option, edges.passing[origin])
        while left < end and pairs <= work:
            space = Space(before.stay[left], before.peak[left])
            for right in range(first, last):
                pairs += 1
                for i in range(c):
                    buffer.costs[n, i] = before.costs[left, i] + chains.costs[right, i]
                if exceeds_cutoff(buffer.costs[n], rows, most):
                    continue
                fits, reached = True, Space(buffer.stay[n], buffer.peak[n])
                if kind == PLAIN:
                    kept = chains.first_kept[option] + (right - first) * m * f
                    chain = ChainBits(chains.used[right], chains.kept[kept : kept + m * f].reshape(m, f))
                    fits = fits_beside(space, chain, shared, opened, behind, capacity, reached)
                elif kind == ABSENT:
                    fits = _fits_with(space, edges.added[absent - 1], opened, capacity, reached)
                _weigh(buffer, n, comparison.worth)
                if fits and _is_new(n, after, behind, buffer, comparison.tie):
                    buffer.back[n, 0], buffer.back[n, 1], buffer.back[n, 2] = left, option, right - first
                    n += 1
                if n == len(buffer.costs):
                    full = _by_boundary_state(buffer)
                    n = len(full.costs)
                    buffer = _with_room(full, 2 * n + 16, comparison.worth)
            left += 1
        at[1] = left - before.first[origin]
        if left == end:
            at[0], at[1] = at[0] + 1, 0
    return _by_boundary_state(buffer)


@maker
def _with_room(so_far: Labels, room: int, worth: Floats) -> Any:
    """The buffer that begins with some labels and has room for so many in all."""
    n, c, (m, widest) = len(so_far.costs), so_far.costs.shape[1], so_far.stay.shape[1:]
    costs, back = np.empty((room, c)), np.empty((room, 3), np.int64)
    stay, peak = np.empty((room, m, widest)), np.empty((room, m, widest))
    copy_rows(so_far.costs, 0, n, costs, 0)
    copy_rows(so_far.back, 0, n, back, 0)
    copy_blocks(so_far.stay, 0, n, stay, 0)
    copy_blocks(so_far.peak, 0, n, peak, 0)
    newest, older = np.full(len(so_far.first) - 1, -1), np.empty(room, np.int64)
    for boundary_state in range(len(newest)):
        for row in range(so_far.first[boundary_state], so_far.first[boundary_state + 1]):
            older[row] = newest[boundary_state]
            newest[boundary_state] = row
    buffer = _LabelBuffer(costs, stay, peak, back, newest, older, np.empty((room, len(worth))))
    for row in range(n):
        _weigh(buffer, row, worth)
    return buffer


@inner
def _weigh(buffer: _LabelBuffer, row: int, worth: Floats) -> None:
    """Write weighted sums of a label's costs."""
    for way in range(len(worth)):
        total = 0.0
        for i in range(buffer.costs.shape[1]):
            total += worth[way, i] * buffer.costs[row, i]
        buffer.sums[row, way] = total


@maker
def _by_boundary_state(buffer: _LabelBuffer) -> Any:
    """The labels that are left, boundary state by boundary state."""
    newest, older = buffer.newest, buffer.older
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
    return Labels(first, buffer.costs[order], buffer.stay[order], buffer.peak[order], buffer.back[order])


@inner
def _is_new(n: int, boundary_state: int, loops: int, buffer: _LabelBuffer, tie: float) -> bool:
    """Whether no label with the same boundary state beats label n; then it is one of them, and those that it beats are
    gone. `loops`: those that are open at the boundary state.
    """
    sums, stay, peak, newest, older = buffer.sums, buffer.stay, buffer.peak, buffer.newest, buffer.older
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
def _fits_with(before: Space, added: Floats, loops: int, capacity: Floats, reached: Space) -> bool:
    """Whether there is room for what is in use from here on beside what was in use before; see fits_beside."""
    fits = True
    for i in range(len(capacity)):
        for level in range(loops):
            reached.stay[i, level], reached.peak[i, level] = (
                before.stay[i, level],
                before.peak[i, level] + added[i, level],
            )
            fits = fits and reached.peak[i, level] <= capacity[i]
    return fits


@inner
def _least_of(values: Floats, begin: int, end: int, column: int) -> float:
    """The least of some rows in a column, infinite if there are none."""
    least = np.inf
    for row in range(begin, end):
        least = min(least, values[row, column])
    return least
