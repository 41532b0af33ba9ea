"""Kernels that those of stage edges, shortest paths and label setting call: tables, rows copied, space compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.compiled import inner, maker
from einmap.mapper.fusion.paths.kernel_records import ChainBits, Needs, PackedChains, RowTable, SharedBits, Space


@inner
def copy_rows(source: Any, begin: int, end: int, target: Any, at: int) -> None:
    """Rows of a table into another one; an assignment of slices takes a second to compile."""
    for row in range(begin, end):
        for i in range(source.shape[1]):
            target[at + row - begin, i] = source[row, i]


@inner
def copy_blocks(source: Any, begin: int, end: int, target: Any, at: int) -> None:
    """Rows that are tables themselves into another array of such rows."""
    for row in range(begin, end):
        copy_rows(source[row], 0, source.shape[1], target[at + row - begin], 0)


@maker
def shared_bits(chains: PackedChains, option: int, passing: Floats) -> Any:
    """The bits of shared tensors at an option; `passing`: (memories) those of tensors that pass by."""
    m, f, begin = chains.used.shape[1], chains.fused[option], chains.first_shared[option]
    born, dying = chains.born[begin : begin + m * f], chains.dying[begin : begin + m * f]
    return SharedBits(passing, born.reshape(m, f), dying.reshape(m, f))


@inner
def fits_beside(
    before: Space, chain: ChainBits, shared: SharedBits, opened: int, behind: int, capacity: Floats, reached: Space
) -> bool:
    """Whether a chain fits beside what stays before it; what stays and was in use behind it, into `reached`.

    `opened`, `behind`: loops that are open before and behind it. What a chain keeps is a part of what it uses, so that
    what stays behind it fits wherever the chain does.
    """
    stay, peak = before.stay, before.peak
    for m in range(len(capacity)):
        highest = chain.used[m] + shared.passing[m] + (stay[m, opened - 1] if opened else 0.0)
        if highest > capacity[m]:
            return False
        for level in range(behind):
            lasting = chain.kept[m, level] + shared.dying[m, level]
            reached.stay[m, level] = lasting + (stay[m, min(level, opened - 1)] if opened else 0.0)
            reached.peak[m, level] = -np.inf
        for level in range(opened):
            in_use = peak[m, level] + (chain.kept[m, level] + shared.born[m, level])
            if in_use > capacity[m]:
                return False
            if level < behind - 1:
                reached.peak[m, level] = in_use
            else:
                highest = max(highest, in_use)
        if behind:
            reached.peak[m, behind - 1] = highest
    return True


@inner
def fits_between(
    before: Space, chain: ChainBits, shared: SharedBits, opened: int, behind: int, needs: Needs, capacity: Floats,
    reached: Space,
) -> bool:  # fmt: skip
    """Whether a chain fits beside what stays at least before it and what follows needs at least; see fits_beside."""
    if not fits_beside(before, chain, shared, opened, behind, capacity, reached):
        return False
    for m in range(len(capacity)):
        if behind and reached.stay[m, behind - 1] + needs.used[m] > capacity[m]:
            return False
        for level in range(behind):
            if reached.peak[m, level] + needs.above[m, level] > capacity[m]:
                return False
    return True


MIXED = -7046029254386353131
"""Odd factor of hash values."""


@maker
def row_table(room: int, width: int) -> Any:
    """An empty table with some room, which is a power of two."""
    return RowTable(np.empty((room, width), np.int64), np.full(2 * room, -1), np.zeros(1, np.int64))


@inner
def _place(table: RowTable, row: Ints) -> int:
    """The place of the hash table where a row is, or has room."""
    mixed, last = 0, len(table.heads) - 1
    for i in range(len(row)):
        mixed = (mixed ^ row[i]) * MIXED
        mixed ^= mixed >> 29
    at = mixed & last
    while table.heads[at] >= 0:
        known, same = table.rows[table.heads[at]], True
        for i in range(len(row)):
            if known[i] != row[i]:
                same = False
                break
        if same:
            break
        at = (at + 1) & last
    return at


@inner
def number_of(table: RowTable, row: Ints) -> int:
    """The number of a row, which is added where it is not there. There has to be room."""
    at = _place(table, row)
    number: int = table.heads[at]
    if number < 0:
        number = table.size[0]
        for i in range(len(row)):
            table.rows[number, i] = row[i]
        table.heads[at] = number
        table.size[0] = number + 1
    return number


@maker
def grown(table: RowTable, more: int) -> Any:
    """The table with room for so many more rows."""
    n, room = table.size[0], len(table.rows)
    if n + more <= room:
        return table
    while room < n + more:
        room *= 2
    larger = row_table(room, table.rows.shape[1])
    for number in range(n):
        for i in range(table.rows.shape[1]):
            larger.rows[number, i] = table.rows[number, i]
        larger.heads[_place(larger, table.rows[number])] = number
    larger.size[0] = n
    return larger


@maker
def longer(values: Ints, n: int, more: int) -> Any:
    """The first `n` of some numbers with room for so many more."""
    if n + more <= len(values):
        return values
    copied = np.empty(2 * (n + more), np.int64)
    for i in range(n):
        copied[i] = values[i]
    return copied
