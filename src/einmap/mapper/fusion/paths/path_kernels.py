"""The compiled part of shortest paths: least costs of paths through the state graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.compiled import inner, kernel, maker
from einmap.mapper.fusion.paths.inner_kernels import copy_blocks, copy_rows, fits_between, shared_bits
from einmap.mapper.fusion.paths.kernel_records import PLAIN, ChainBits, Needs, PackedChains, PackedStages, Space


class _Place(NamedTuple):
    """An Einsum of the cascade: its stage, and where its rows begin.

    `edge`: of costs of edges; `before`, `behind`: of what is known of the boundary states before and behind it;
    `needs`: of the needs of those behind it.
    """

    stage: int
    edge: int
    before: int
    behind: int
    needs: int


@maker
def least_needs(stages: PackedStages, chains: PackedChains, widest: int) -> Any:
    """Least needs of a stage behind each boundary state before it, as `Needs`. See least_paths.

    One more row at the end is for what lies behind the last Einsum. `widest`: most loops that are open anywhere.
    """
    n, m = len(stages.passing), chains.used.shape[1]
    edges, first_edge, loops, passing = stages.edges, stages.first_edge, stages.loops, stages.passing
    used, kept, born = chains.used, chains.kept, chains.born
    need, need_used = np.full((n + 1, m, widest), np.inf), np.full((n + 1, m), np.inf)
    for stage in range(len(first_edge) - 1):
        for e in range(first_edge[stage], first_edge[stage + 1]):
            before, option = stages.first_before[stage] + edges[e, 0], stages.first_option[stage] + edges[e, 1]
            if chains.kind[option] != PLAIN:
                for i in range(m):
                    need_used[before, i] = 0.0
                    for level in range(widest):
                        need[before, i, level] = 0.0
                continue
            f, shared, first = chains.fused[option], chains.first_shared[option], chains.first_row[option]
            for row in range(first, chains.first_row[option + 1]):
                begin = chains.first_kept[option] + (row - first) * m * f
                for i in range(m):
                    need_used[before, i] = min(need_used[before, i], used[row, i] + passing[before, i])
                    for level in range(loops[before]):
                        above = kept[begin + i * f + level] + born[shared + i * f + level]
                        need[before, i, level] = min(need[before, i, level], above)
    return Needs(need, need_used)


@inner
def _is_same_before(first: int, second: int, n: int, forward: Floats, space: Space) -> bool:
    """Whether the same comes before two Einsums of one stage, but for costs.

    `first`, `second`: where the rows of their `n` boundary states begin.
    """
    stay, peak = space.stay, space.peak
    for b in range(n):
        if (forward[first + b, 0] == np.inf) != (forward[second + b, 0] == np.inf):
            return False
        for i in range(stay.shape[1]):
            for level in range(stay.shape[2]):
                if stay[first + b, i, level] != stay[second + b, i, level]:
                    return False
                if peak[first + b, i, level] != peak[second + b, i, level]:
                    return False
    return True


@kernel
def least_paths(order: Ints, at: Ints, stages: PackedStages, chains: PackedChains, capacity: Floats) -> Any:
    """Least weighted costs behind each boundary state, of the others for each option, and of whole cascades with it.

    `order`: the stage of each Einsum; `at`: where the boundary states before each Einsum begin, those behind the last
    one, and where these end; `capacity`: bits of each memory. A chain is left out where it does not fit beside the
    least that the chains before and behind take. Gives three arrays with a column for each weight: a row for each
    boundary state, and two with a row for each option.
    """
    n, w, m, widest = len(order), chains.costs.shape[1], len(capacity), 1
    for loops in stages.loops:
        widest = max(widest, loops)
    needs = least_needs(stages, chains, widest)
    edges, first_edge = stages.edges, stages.first_edge
    forward = np.full((at[n + 1], w), np.inf)
    space = Space(np.full((at[n + 1], m, widest), np.inf), np.full((at[n + 1], m, widest), np.inf))
    for c in range(w):
        forward[0, c] = 0.0
    # least costs of the edges of each Einsum; of a repeated one those of the last one like it, where all else is equal
    of_edges, first_of, latest = np.full((len(edges), w), np.inf), np.empty(n, np.int64), np.full(len(first_edge), -1)
    begin = 0
    for k in range(n):
        stage, following = order[k], order[k + 1] if k + 1 < n else len(first_edge) - 1
        n_edges, twin = first_edge[stage + 1] - first_edge[stage], latest[stage]
        latest[stage] = k
        if (
            twin >= 0 and k + 1 < n and order[twin + 1] == following
            and _is_same_before(at[twin], at[k], at[k + 1] - at[k], forward, space)
        ):  # fmt: skip
            first_of[k] = first_of[twin]
            for values in (space.stay, space.peak):
                copy_blocks(values, at[twin + 1], at[twin + 1] + at[k + 2] - at[k + 1], values, at[k + 1])
        else:
            first_of[k] = begin
            begin += n_edges
            if begin > len(of_edges):
                longer = np.full((begin + len(of_edges), w), np.inf)
                copy_rows(of_edges, 0, len(of_edges), longer, 0)
                of_edges = longer
            place = _Place(stage, first_of[k], at[k], at[k + 1], stages.first_before[following])
            costs_of_edges(place, of_edges, forward, space, needs, stages, chains, capacity)
        for e in range(n_edges):
            edge, cost = first_edge[stage] + e, of_edges[first_of[k] + e]
            if cost[0] < np.inf:
                before, behind = forward[at[k] + edges[edge, 0]], forward[at[k + 1] + edges[edge, 2]]
                for c in range(w):
                    behind[c] = min(behind[c], before[c] + cost[c])
    return _backward(order, at, stages, len(chains.kind), of_edges, first_of, forward)


@maker
def _backward(
    order: Ints, at: Ints, stages: PackedStages, n_options: int, of_edges: Floats, first_of: Ints, forward: Floats
) -> Any:
    """From the last Einsum to the first: what `least_paths` gives.

    `of_edges`, `first_of`: least costs of the edges, and where those of each Einsum begin; `forward`: least costs
    before each boundary state.
    """
    n, w = len(order), of_edges.shape[1]
    edges, first_edge = stages.edges, stages.first_edge
    backward = np.full((at[n + 1], w), np.inf)
    rests, through = np.full((n_options, w), np.inf), np.full((n_options, w), np.inf)
    for row in range(at[n], at[n + 1]):
        for c in range(w):
            backward[row, c] = 0.0
    for k in range(n - 1, -1, -1):
        stage = order[k]
        for e in range(first_edge[stage + 1] - first_edge[stage] - 1, -1, -1):
            edge, cost = first_edge[stage] + e, of_edges[first_of[k] + e]
            if cost[0] == np.inf:
                continue
            before, option = at[k] + edges[edge, 0], stages.first_option[stage] + edges[edge, 1]
            so_far, here, behind = forward[before], backward[before], backward[at[k + 1] + edges[edge, 2]]
            rest, whole = rests[option], through[option]
            for c in range(w):
                here[c] = min(here[c], cost[c] + behind[c])
                rest[c] = min(rest[c], so_far[c] + behind[c])
                whole[c] = min(whole[c], so_far[c] + (cost[c] + behind[c]))
    return backward, rests, through


@maker
def costs_of_edges(
    place: _Place, of_edges: Floats, forward: Floats, space: Space, needs: Needs, stages: PackedStages,
    chains: PackedChains, capacity: Floats,
) -> None:  # fmt: skip
    """The least costs of each edge of an Einsum, into `of_edges`, and what stays and was in use behind it, into
    `space`.
    """
    stay, peak, costs, edges = space.stay, space.peak, chains.costs, stages.edges
    m, widest, w = len(capacity), stay.shape[2], costs.shape[1]
    reached = Space(np.empty((m, widest)), np.empty((m, widest)))
    is_last = place.needs + 1 == len(needs.above)
    first_edge = stages.first_edge[place.stage]
    for e in range(first_edge, stages.first_edge[place.stage + 1]):
        before, after = place.before + edges[e, 0], place.behind + edges[e, 2]
        if forward[before, 0] == np.inf:
            continue
        cost, option = of_edges[place.edge + e - first_edge], stages.first_option[place.stage] + edges[e, 1]
        passed, coming = stages.first_before[place.stage] + edges[e, 0], place.needs + edges[e, 2]
        opened, behind = stages.loops[passed], 0 if is_last else stages.loops[coming]
        so_far, needed = Space(stay[before], peak[before]), Needs(needs.above[coming], needs.used[coming])
        first, shared = chains.first_row[option], shared_bits(chains, option, stages.passing[passed])
        f, first_kept = chains.fused[option], chains.first_kept[option]
        for row in range(first, chains.first_row[option + 1]):
            if chains.kind[option] == PLAIN:
                begin = first_kept + (row - first) * m * f
                chain = ChainBits(chains.used[row], chains.kept[begin : begin + m * f].reshape(m, f))
                if not fits_between(so_far, chain, shared, opened, behind, needed, capacity, reached):
                    continue
            else:
                # where nothing is known no loops are open behind; a copy that is left out adds nothing
                copy_rows(so_far.stay, 0, m, reached.stay, 0)
                copy_rows(so_far.peak, 0, m, reached.peak, 0)
            for c in range(w):
                cost[c] = min(cost[c], costs[row, c])
            for i in range(m):
                for level in range(behind):
                    stay[after, i, level] = min(stay[after, i, level], reached.stay[i, level])
                    peak[after, i, level] = min(peak[after, i, level], reached.peak[i, level])
