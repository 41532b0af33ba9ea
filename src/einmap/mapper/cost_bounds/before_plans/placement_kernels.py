"""The compiled part of tables over all dataplacements. Kernels are generic, see `branch_and_bound.kernels`.

Points lie next to each other in tables, so that loops over them become vector instructions.
"""

from __future__ import annotations

from typing import Any

from einmap.compiled import inner, kernel
from einmap.mapper.objective.objective_kernels import objectives


@kernel
def least_to_go(
    pool: Any, states: Any, placed: Any, may_end: Any, after: Any, ends: Any, rates: Any, fixed: Any, fills: Any,
    room: Any, room_of: Any, lattice: Any,
) -> None:  # fmt: skip
    """Costs that are left to pay at least, for each state, column of cost and point.

    A state is a memory and what holds each tensor last. From it loops lead to points inside; there a tensor gets a node
    in the memory, or the next memory follows below the lanes between. States come behind those that they lead to.

    states[s]: memory, state at the next memory (-1 behind the last); placed[s, t]: memory that holds tensor t, state in
    which this memory does (-1 where it does already). after[m, p]: point below the lanes that follow memory m, -1 where
    there is none. A node of t at m costs rates[m, t, holder] * fills[t, p] + fixed[m, t, holder]; ends[s]: cost of what
    the compute exchanges. room[room_of[s], p]: 0 where what the memory of s holds fits, else infinite. `lattice`:
    radices and strides of the axes, `offsets`, and the positions next inside of each (see `moves_inside`).

    Float64: `pool` (states, columns, points), changed; `ends` (states, columns); `rates`, `fixed` (memories, tensors,
    memories, columns); `fills` (tensors, points), `room` (sets, points). Int64: `states` (states, 2), `placed` (states,
    tensors, 2), `after` (memories, points), `room_of` (states,). Bool: `may_end` (states,).
    """
    n = pool.shape[2]
    for s in range(len(states)):
        memory, following = states[s, 0], states[s, 1]
        for column in range(pool.shape[1]):
            table = pool[s, column]
            for p in range(n):
                table[p] = float("inf")
            for p in range(n if may_end[s] else 0):
                inside = after[memory, p]
                if inside >= 0:
                    table[p] = ends[s, column] if following < 0 else pool[following, column, inside]
            for t in range(placed.shape[1]):
                holder, other = placed[s, t, 0], placed[s, t, 1]
                if other >= 0:
                    rate, once = rates[memory, t, holder, column], fixed[memory, t, holder, column]
                    below, filled, fits = pool[other, column], fills[t], room[room_of[other]]
                    for p in range(n):
                        cost, least = rate * filled[p] + once + below[p] + fits[p], table[p]
                        table[p] = cost if cost < least else least
            _from_inside(table, lattice)


@inner
def _from_inside(table: Any, lattice: Any) -> None:
    """Let each point have the least value of those inside of it."""
    radices, strides, offsets, covers, starts = lattice
    for axis in range(len(strides)):
        radix, stride = radices[axis], strides[axis]
        block = radix * stride
        for i in range(1, radix):
            for c in range(starts[offsets[axis] + i], starts[offsets[axis] + i + 1]):
                back = (i - covers[c]) * stride
                for begin in range(i * stride, len(table), block):
                    for p in range(begin, begin + stride):
                        value, least = table[p - back], table[p]
                        table[p] = value if value < least else least


@kernel
def with_loops(costs: Any, lattice: Any) -> None:
    """Let costs so far, (columns, points), be those of the cheapest point outside. `lattice`: see `least_to_go`."""
    radices, strides, offsets, covers, starts = lattice
    for column in range(len(costs)):
        table = costs[column]
        for axis in range(len(strides)):
            radix, stride = radices[axis], strides[axis]
            for i in range(radix - 1, 0, -1):
                for c in range(starts[offsets[axis] + i], starts[offsets[axis] + i + 1]):
                    back = (i - covers[c]) * stride
                    for begin in range(i * stride, len(table), radix * stride):
                        for p in range(begin, begin + stride):
                            value, least = table[p], table[p - back]
                            table[p - back] = value if value < least else least


@kernel
def with_node(costs: Any, rates: Any, fixed: Any, fills: Any, fits: Any) -> None:
    """Add the cost of a node to costs so far, (columns, points). `fits`: (points,), 0 or infinite."""
    for column in range(len(costs)):
        for p in range(costs.shape[1]):
            costs[column, p] += rates[column] * fills[p] + fixed[column] + fits[p]


@kernel
def with_lanes(costs: Any, after: Any, out: Any) -> None:
    """Costs so far below some lanes, (columns, points); `out` is infinite before. `after`: (points,), -1 for none."""
    for column in range(len(costs)):
        for p in range(costs.shape[1]):
            if after[p] >= 0:
                out[column, after[p]] = costs[column, p]


@kernel
def least_value(
    costs: Any, to_go: Any, leak: float, codes: Any, row: Any, columns: Any, nothing: Any, value: Any
) -> float:
    """The least value of the objective over all points, from costs so far and to go, (columns, points).

    `leak`: W; `codes`: (1,), as `objective_kernels` has them; `row`: all columns of cost, those in `columns` are
    changed; `value`: (1,), changed.
    """
    least = float("inf")
    for p in range(costs.shape[1]):
        if costs[0, p] + to_go[0, p] == float("inf"):
            continue
        for i in range(len(columns)):
            row[columns[i]] = costs[i, p] + to_go[i, p]
        objectives(row, leak, nothing, nothing, nothing, codes, value)
        least = min(least, value[0])
    return least
