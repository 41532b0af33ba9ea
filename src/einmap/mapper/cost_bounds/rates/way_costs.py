"""The ways of single values (`model.ways`) as constants of columns: between memories, and at the innermost ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from einmap.arch.component import Compute, Leaf, Memory
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.mapper.cost_bounds.columns import Columns
from einmap.model.timing.ways import adds_up, seconds_at

type Levels = tuple[int, ...]
"""Levels of an exchange, from the parent to its child."""


def ends_of_ways(
    einsum: Einsum, leaves: tuple[Leaf, ...], columns: Columns, exchanges: Mapping[str, tuple[Levels, ...]]
) -> tuple[float, ...]:
    """Of each column the seconds of one operation and of a value's way between it and the innermost memories.

    `exchanges`: of each tensor, from the outside in.
    """
    unit = leaves[-1]
    assert isinstance(unit, Compute)
    seconds = [0.0] * columns.n
    for column, tensors in columns.ways:
        seconds[column] += unit.action("compute").pipeline_latency
        for tensor in tensors:
            access, of_tensor = einsum.by_tensor[tensor], exchanges[tensor]
            memory = leaves[of_tensor[-1][0]]
            assert isinstance(memory, Memory)
            sums = len(of_tensor) == 1 and adds_up(einsum, access)
            seconds[column] += seconds_at(access, memory, outermost=True, adds_up=sums)
    return tuple(seconds)


def way_between(leaves: tuple[Leaf, ...], columns: Columns, access: TensorAccess, exchange: Levels) -> Floats:
    """Of each column the seconds in which one value goes from a memory to the next one."""
    seconds = np.zeros(columns.n)
    parent, child = leaves[exchange[0]], leaves[exchange[-1]]
    assert isinstance(parent, Memory)
    assert isinstance(child, Memory)
    first, then = ("write", "read") if access.output else ("read", "write")
    for column, tensors in columns.ways:
        if access.tensor in tensors:
            seconds[column] = parent.action(first).pipeline_latency + child.action(then).pipeline_latency
    return seconds
