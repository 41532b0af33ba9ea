"""Ways of values (`model.ways`) of an outer nest: those of all turns, and what is waited for once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from einmap.arch.component import Compute, Memory
from einmap.arrays import Floats
from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL, Loop
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.model.timing.ways import adds_up, seconds_at


class NestNode(NamedTuple):
    """A node of an outer nest: its tensor, level and number of loops above."""

    tensor: str
    level: int
    depth: int


def ahead_of(nodes: Sequence[NestNode], loops: Sequence[Loop]) -> list[NestNode]:
    """The nodes that work ahead of what is below some fused loops, since a temporal one stands between."""
    return [node for node in nodes if any(loop.kind == TEMPORAL for loop in loops[node.depth :])]


@dataclass(frozen=True, slots=True)
class NestWays:
    """`seconds`: by column what is not in the constants of a plan; `inward`, `outward`: s that are waited for once."""

    seconds: Floats
    inward: float
    outward: float


def nest_ways(search: PathSearch, plan: ChainTemplate, nodes: Sequence[NestNode], loops: Sequence[Loop]) -> NestWays:
    """The ways of a plan below some fused loops. `nodes`: those of its outer nest.

    A node above a temporal loop works ahead, unless it is the innermost one of its tensor; all others are a part of
    each turn.
    """
    pricer, einsum, leaves = search.pricer, search.einsum, search.leaves
    ahead = {(node.tensor, node.level) for node in ahead_of(nodes, loops)}
    turns: dict[str, float] = {}
    waits: dict[str, float] = {}
    for access in einsum.accesses:
        levels = [level for level in plan.chains[access.tensor] if isinstance(leaves[level], Memory)]
        sums = len(levels) == 1 and adds_up(einsum, access)
        for i, level in enumerate(levels):
            memory = leaves[level]
            assert isinstance(memory, Memory)
            seconds = seconds_at(access, memory, outermost=i == 0, adds_up=sums)
            once = i < len(levels) - 1 and (access.tensor, level) in ahead
            of_kind = waits if once else turns
            of_kind[access.tensor] = of_kind.get(access.tensor, 0.0) + seconds
    unit = leaves[-1]
    assert isinstance(unit, Compute)
    often = math.prod(loop.outer // loop.inner for loop in loops if loop.kind == TEMPORAL)
    seconds_of = -np.array(pricer.ends_of_ways(plan.chains))
    for column, tensors in pricer.columns.ways:
        turn = math.fsum(turns.get(t, 0.0) for t in tensors) + unit.action("compute").pipeline_latency
        seconds_of[column] += often * turn
    outputs = {access.tensor for access in einsum.accesses if access.output}
    return NestWays(
        seconds_of,
        max((s for t, s in waits.items() if t not in outputs), default=0.0),
        max((s for t, s in waits.items() if t in outputs), default=0.0),
    )
