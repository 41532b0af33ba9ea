"""Kernels that shortest paths and label setting call: rows copied, space compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.arrays import Floats
from einmap.compiled import inner
from einmap.mapper.fusion.paths.kernel_records import ChainBits, Needs, PackedChains, SharedBits, Space


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


@inner
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
