"""Dominance between outer nests of an Einsum: one that goes on as another does, and is worse, is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.mapper.fusion.fronts.nests import nest_kernels
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules
from einmap.mapper.fusion.fronts.nests.outer_nests import (
    OuterNest,
    OuterNests,
    outer_nest,
    reservations,
    signatures_of,
)
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.objective.objectives import OWN


def undominated(rules: NestRules, parts: Sequence[OuterNests]) -> Iterator[OuterNest]:
    """Outer nests of one search but for those that go on as another one does, which is not worse in anything.

    Those of one signature stand together.
    """
    numbers: dict[FusionSignature, int] = {}
    places: dict[tuple[int, object, int, int], int] = {}
    groups, rows, origins = list[int](), list[Floats](), list[tuple[int, int, FusionSignature]]()
    most = max(int(part.whole[:, 1].max()) for part in parts)
    for p, part in enumerate(parts):
        plan, (signatures, fused) = part.plan, signatures_of(rules, part)
        blocks = plan.compiled.blocks[plan.depth - 1] if plan.depth else plan.compiled
        points = part.whole[:, 1 + plan.depth].tolist() if plan.depth else [0] * len(signatures)
        for n, (signature, point, prefix) in enumerate(zip(signatures, points, part.whole[:, 0].tolist(), strict=True)):
            number = numbers.setdefault(signature, len(numbers))
            groups.append(places.setdefault((number, blocks, point, prefix), len(places)))
            origins.append((p, n, signature))
        rows.append(_rows(rules, part, fused, most))
    of_place = np.array([number for number, *_ in places], dtype=np.int64)
    group = np.array(groups, dtype=np.int64)
    order = np.lexsort((np.arange(len(group)), group, of_place[group]))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    kept = nest_kernels.undominated(np.concatenate(rows)[order], np.append(starts, len(order)))
    for at in order[kept].tolist():
        p, n, signature = origins[at]
        yield outer_nest(rules, parts[p], n, signature)


def _rows(rules: NestRules, part: OuterNests, fused: Ints, most: int) -> Floats:
    """Costs, what works ahead, space in use, and space kept for each number of loops above it, of outer nests.

    Less is better; of what works ahead more. What stands deeper keeps less.
    """
    k, memories = rules.search.columns, len(rules.search.capacity)
    ahead = part.numbers[:, k + memories : 2 * k + memories] if OWN in rules.search.goals else np.zeros((len(fused), k))
    kept = np.zeros((len(fused), memories, most + 1))
    for memory, bits, depth in reservations(part.plan, part):
        below = np.minimum(depth, fused)[:, None] <= np.arange(most + 1)
        kept[:, memory] += np.where(below, bits[:, None], 0.0)
    return np.hstack([part.numbers[:, :k], -ahead, part.numbers[:, k : k + memories], kept.reshape(len(fused), -1)])
