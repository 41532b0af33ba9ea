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
from einmap.mapper.objective.objectives import OWN


class OuterNest(NamedTuple):
    """An outer nest of one dataplacement: where the search goes on, and what it costs and takes so far.

    `points`: of the lattice, one for each level of the outer nest; `gaps`: loops in their order, for the last levels of
    gaps; `kept`: what the nodes take that only this Einsum uses, or that are not backing nodes. `backed`: what
    shared tensors take in the memories that back them. `least`: objectives that no completion is below. `ahead`: costs
    of nodes that work ahead of what is below the fused loops, 0 where nobody asks for them.
    """

    compiled: TemplateTables
    prefix: int
    points: tuple[int, ...]
    gaps: tuple[tuple[int, tuple[Loop, ...]], ...]
    acc: Floats
    occupied: Floats
    signature: FusionSignature
    kept: tuple[Reservation, ...]
    backed: tuple[tuple[int, Reservation], ...]
    least: Floats
    ahead: Floats


class OuterNests(NamedTuple):
    """Outer nests of one dataplacement, a row for each.

    `whole`, `numbers`: as `nest_kernels.write` has them; `least`: objectives that no completion is below.
    """

    plan: NestPlan
    whole: Ints
    numbers: Floats
    least: Floats


def loops_of(rules: NestRules, plan: NestPlan, row: Ints) -> list[tuple[int, Loop]]:
    """The loops of an outer nest, each with the level at which its gap ends."""
    begin = 2 + 3 * plan.depth
    values = row[begin : begin + 5 * int(row[1])].reshape(-1, 5).tolist()
    return [(level, rules.loop(kind, variable, outer, inner)) for kind, variable, outer, inner, level in values]


def fused_loops(plan: NestPlan, whole: Ints) -> Ints:
    """How many loops of each outer nest are fused: those above the last backing node of a shared tensor."""
    if not plan.backing:
        return np.zeros(len(whole), dtype=np.int64)
    fused: Ints = whole[:, [2 + plan.depth + i for i, *_ in plan.backing]].max(axis=1)
    return fused


def signatures_of(rules: NestRules, nests: OuterNests) -> tuple[list[FusionSignature], Ints]:
    """The signature of each outer nest, and how many loops it has."""
    plan, whole = nests.plan, nests.whole
    depth, begin = plan.depth, 2 + 3 * nests.plan.depth
    fused = fused_loops(plan, whole)
    # all that a signature depends on: loops, those above each node, and whether some lower what stands above
    seen = whole.copy()
    seen[:, 0], seen[:, 1], seen[:, 2 : 2 + depth] = 0, fused, 0
    seen[:, 2 + depth : 2 + 2 * depth] = np.minimum(whole[:, 2 + depth : 2 + 2 * depth], fused[:, None])
    seen[:, 2 + 2 * depth : begin] = np.minimum(whole[:, 2 + 2 * depth : begin], 1)
    seen[:, begin:][np.arange((seen.shape[1] - begin) // 5).repeat(5) >= fused[:, None]] = 0
    known, found = rules.signatures.setdefault(plan.alike, {}), []
    for n, row in enumerate(seen):
        key = row.tobytes()
        if key not in known:
            known[key] = _signature(rules, plan, whole[n], int(fused[n]))
        found.append(known[key])
    return found, fused


def _signature(rules: NestRules, plan: NestPlan, row: Ints, fused: int) -> FusionSignature:
    """The signature of an outer nest: how other Einsums see it."""
    every = loops_of(rules, plan, row)
    loops, depths = [loop for _, loop in every[:fused]], row[2 + plan.depth :].tolist()
    backed = [(t, name, 0) for t, _, name in plan.backed] + [(t, name, depths[i]) for i, t, _, name in plan.backing]
    keys, cuts = [], []
    for t, name, depth in sorted(backed, key=lambda of_node: of_node[0]):
        seen = tuple(
            [(loop.kind, rules.ranks[t][rules.numbers_of_variables[loop.variable]], loop.inner) for loop in loops]
        )
        keys.append((t, Key(name, seen[:depth])))
        if fused > depth:
            cuts.append((t, tuple([in_time(cut) for cut in seen[depth:]])))
    counts = tuple([(loop.kind, loop.outer // loop.inner) for loop in loops])
    held = []
    for node in plan.held:
        above = sum(level < node.level for level, _ in every)
        is_lowered = node.lowered and depths[plan.depth + node.level] > 0
        depth = above if node.lowered or node.above else depths[node.level]
        if depth < fused:
            held.append((node.tensor, depth, "" if is_lowered else node.memory))
    return FusionSignature(tuple(keys), counts, tuple(sorted(held)), tuple(cuts))


def reservations(plan: NestPlan, nests: OuterNests) -> Iterator[tuple[int, Floats, Ints]]:
    """The space that nodes of outer nests keep for the Einsum alone: memory, bits, and loops above, by outer nest."""
    n, depth, whole = len(nests.whole), plan.depth, nests.whole
    first = nests.numbers.shape[1] - 2 * depth
    nothing = np.zeros(n, dtype=np.int64)
    for placed in plan.kept:
        yield placed.memory, np.full(n, placed.bits), nothing
    above = nothing
    for i, (of_node, of_lowered) in enumerate(plan.reserving):
        below = whole[:, 2 + depth + i]
        if of_lowered >= 0:
            yield of_lowered, nests.numbers[:, first + depth + i], above + whole[:, 2 + 2 * depth + i]
        if of_node >= 0:
            yield of_node, nests.numbers[:, first + i], below
        above = below


def outer_nest(rules: NestRules, nests: OuterNests, n: int, signature: FusionSignature) -> OuterNest:
    """One outer nest by itself."""
    plan, row, numbers, search = nests.plan, nests.whole[n], nests.numbers[n], rules.search
    k, memories, depth = search.columns, len(search.capacity), plan.depth
    every, depths = loops_of(rules, plan, row), row[2 + depth : 2 + 2 * depth].tolist()
    gaps: dict[int, tuple[Loop, ...]] = {}
    for level, loop in every:
        gaps[level] = (*gaps.get(level, ()), loop)
    one = OuterNests(plan, nests.whole[n : n + 1], nests.numbers[n : n + 1], nests.least[n : n + 1])
    kept = tuple([Reservation(memory, float(bits[0]), int(at[0])) for memory, bits, at in reservations(plan, one)])
    bits = numbers[3 * k + memories :].tolist()
    backed = [(t, placed) for t, placed, _ in plan.backed]
    backed += [(t, Reservation(number, bits[i], depths[i])) for i, t, number, _ in plan.backing]
    ahead = numbers[k + memories : 2 * k + memories]
    return OuterNest(
        plan.compiled, int(row[0]), tuple(row[2 : 2 + depth].tolist()), tuple(gaps.items()), numbers[:k],
        numbers[k : k + memories], signature, kept, tuple(backed), nests.least[n],
        ahead if OWN in search.goals else np.zeros(k),
    )  # fmt: skip
