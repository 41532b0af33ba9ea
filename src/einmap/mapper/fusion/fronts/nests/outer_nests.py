"""Outer nests: the outer part of an Einsum's nest, from the outermost memory down to the last backing node of a shared
tensor.

Where other Einsums meet a chain depends on its outer nest alone: which memories back the shared tensors, and the loops
above them. The rest of the chain is free, and searched by branch and bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.mapper.branch_and_bound.path_search import TemplateTables
from einmap.mapper.fusion.fronts.nests.loops import Loop, in_time
from einmap.mapper.fusion.fronts.nests.nest_plan import NestPlan
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules, Reservation
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key


class OuterNests(NamedTuple):
    """Outer nests of one dataplacement, a row for each.

    `whole`, `numbers`: as `nest_kernels.write` has them; `least`: objectives that no completion is below.
    """

    plan: NestPlan
    whole: Ints
    numbers: Floats
    least: Floats

    def costs(self, n: int | slice) -> Floats:
        """Costs so far by column."""
        costs: Floats = self.numbers[n, ..., : self.plan.columns]
        return costs

    def occupied(self, n: int | slice) -> Floats:
        """Bits in use in each memory."""
        k = self.plan.columns
        occupied: Floats = self.numbers[n, ..., k : k + self.plan.memories]
        return occupied

    def ahead(self, n: int | slice) -> Floats:
        """Costs of nodes that work ahead of what is below the fused loops, 0 where nobody asks for them."""
        k, first = self.plan.columns, self.plan.columns + self.plan.memories
        ahead: Floats = self.numbers[n, ..., first : first + k]
        return ahead if self.plan.has_own else np.zeros_like(ahead)

    @property
    def fused(self) -> Ints:
        """How many loops of each outer nest are fused: those above the last backing node of a shared tensor."""
        levels = [2 + self.plan.depth + i for i, *_ in self.plan.backing]
        fused: Ints = self.whole[:, levels].max(axis=1, initial=0)
        return fused

    def reservations(self) -> Iterator[tuple[int, Floats, Ints]]:
        """The space that nodes keep for the Einsum alone: memory, bits, and loops above, by outer nest."""
        plan, n, whole = self.plan, len(self.whole), self.whole
        depth, first = plan.depth, self.numbers.shape[1] - 2 * plan.depth
        nothing = np.zeros(n, dtype=np.int64)
        for placed in plan.kept:
            yield placed.memory, np.full(n, placed.bits), nothing
        above = nothing
        for i, (of_node, of_lowered) in enumerate(plan.reserving):
            below = whole[:, 2 + depth + i]
            if of_lowered >= 0:
                yield of_lowered, self.numbers[:, first + depth + i], above + whole[:, 2 + 2 * depth + i]
            if of_node >= 0:
                yield of_node, self.numbers[:, first + i], below
            above = below

    def kept(self, fused: Ints, most: int) -> Floats:
        """Bits of each memory that nodes below 0, 1, ... `most` fused loops keep: (outer nests, memories, most + 1)."""
        kept = np.zeros((len(fused), self.plan.memories, most + 1))
        for memory, bits, depth in self.reservations():
            kept[:, memory] += np.where(np.minimum(depth, fused)[:, None] == np.arange(most + 1), bits[:, None], 0.0)
        return kept


class OuterNest(NamedTuple):
    """An outer nest of one dataplacement: where the search goes on, and what it costs and takes so far.

    `kept`: bits of each memory that nodes keep which only this Einsum uses, or that are not backing nodes, by the
    number of fused loops above these.
    """

    nests: OuterNests
    n: int
    compiled: TemplateTables
    signature: FusionSignature
    kept: Floats

    @property
    def prefix(self) -> int:
        """The lanes so far."""
        return int(self.nests.whole[self.n, 0])

    @property
    def points(self) -> Ints:
        """Points of the lattice, one for each level."""
        points: Ints = self.nests.whole[self.n, 2 : 2 + self.nests.plan.depth]
        return points

    @property
    def gaps(self) -> dict[int, tuple[Loop, ...]]:
        """Loops in their order, by the last level of their gap."""
        gaps: dict[int, tuple[Loop, ...]] = {}
        for level, loop in loops_of(self.nests.plan, self.nests.whole[self.n]):
            gaps[level] = (*gaps.get(level, ()), loop)
        return gaps

    @property
    def costs(self) -> Floats:
        """Costs so far by column."""
        return self.nests.costs(self.n)

    @property
    def occupied(self) -> Floats:
        """Bits in use in each memory."""
        return self.nests.occupied(self.n)

    @property
    def ahead(self) -> Floats:
        """Costs of what works ahead; see OuterNests."""
        return self.nests.ahead(self.n)

    @property
    def least(self) -> Floats:
        """Objectives that no completion is below."""
        least: Floats = self.nests.least[self.n]
        return least

    @property
    def backed(self) -> tuple[tuple[int, Reservation], ...]:
        """Space of shared tensors in the memories that back them."""
        plan = self.nests.plan
        bits, depths = self.nests.numbers[self.n], self.nests.whole[self.n]
        first = len(bits) - 2 * plan.depth
        below = [
            (t, Reservation(number, float(bits[first + i]), int(depths[2 + plan.depth + i])))
            for i, t, number, _ in plan.backing
        ]
        return (*[(t, placed) for t, placed, _ in plan.backed], *below)


def loops_of(plan: NestPlan, row: Ints) -> list[tuple[int, Loop]]:
    """The loops of an outer nest, each with the level at which its gap ends."""
    begin = 2 + 3 * plan.depth
    values = row[begin : begin + 5 * int(row[1])].reshape(-1, 5).tolist()
    return [(level, plan.names.loop(*loop)) for *loop, level in values]


def signatures_of(rules: NestRules, nests: OuterNests) -> tuple[list[FusionSignature], Ints]:
    """The signature of each outer nest, and how many loops it has."""
    plan, whole = nests.plan, nests.whole
    depth, begin = plan.depth, 2 + 3 * nests.plan.depth
    fused = nests.fused
    # all that a signature depends on: loops, those above each node, and whether some lower what stands above
    seen = whole.copy()
    seen[:, 0], seen[:, 1], seen[:, 2 : 2 + depth] = 0, fused, 0
    seen[:, 2 + depth : 2 + 2 * depth] = np.minimum(whole[:, 2 + depth : 2 + 2 * depth], fused[:, None])
    seen[:, 2 + 2 * depth : begin] = np.minimum(whole[:, 2 + 2 * depth : begin], 1)
    seen[:, begin:][np.arange((seen.shape[1] - begin) // 5).repeat(5) >= fused[:, None]] = 0
    known, found = rules.signatures.by_plan.setdefault(plan.alike, {}), list[FusionSignature]()
    seen = np.delete(seen, slice(2, 2 + depth), axis=1)
    # they are kept as long as the lists: half the bytes where that is enough
    for n, row in enumerate(seen.astype(np.int32) if seen.max(initial=0) < 2**31 else seen):
        key = row.tobytes()
        if key not in known:
            known[key] = _signature(rules, plan, whole[n], int(fused[n]))
        found.append(known[key])
    return found, fused


def _signature(rules: NestRules, plan: NestPlan, row: Ints, fused: int) -> FusionSignature:
    """The signature of an outer nest: how other Einsums see it."""
    begin, depth, whole = 2 + 3 * plan.depth, 2 + plan.depth, row.tolist()
    loops = whole[begin : begin + 5 * fused]
    kinds, variables, tiles = [plan.names.kinds[kind] for kind in loops[::5]], loops[1::5], loops[3::5]
    keys, cuts, held = [], [], []
    for t, name, level in plan.backs:
        ranks, above = rules.ranks[t], whole[depth + level] if level >= 0 else 0
        seen = tuple(zip(kinds, [ranks[v] for v in variables], tiles, strict=True))
        key = Key(name, seen[:above])
        keys.append((t, rules.signatures.keys.setdefault(key, key)))
        if fused > above:
            cuts.append((t, tuple([in_time(cut) for cut in seen[above:]])))
    levels = whole[begin + 4 : begin + 5 * whole[1] : 5] if plan.held else []
    for node in plan.held:
        stands = node.lowered or node.above
        above = sum(level < node.level for level in levels) if stands else whole[depth + node.level]
        is_lowered = node.lowered and whole[depth + plan.depth + node.level] > 0
        if above < fused:
            held.append((node.tensor, above, "" if is_lowered else node.memory))
    counts = tuple(zip(kinds, [outer // tile for outer, tile in zip(loops[2::5], tiles, strict=True)], strict=True))
    return FusionSignature(tuple(keys), counts, tuple(sorted(held)), tuple(cuts))
