"""Dominance between outer nests of an Einsum: one that goes on as another does, and is worse, is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests import nest_kernels
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules
from einmap.mapper.fusion.fronts.nests.outer_nests import (
    OuterNest,
    OuterNests,
    signatures_of,
)
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.fusion.meter import Meter


def undominated(rules: NestRules, parts: Sequence[OuterNests], meter: Meter) -> list[OuterNest]:
    """Outer nests of one search but for those that go on as another one does, which is not worse in anything.

    All of them where costs so far are lower bounds that tensors with zeros have.

    Those of one signature stand together. Raises StoppedError.
    """
    numbers: dict[FusionSignature, int] = {}
    places: dict[tuple[int, object, int, int], int] = {}
    groups, rows, origins = list[int](), list[Floats](), list[OuterNest]()
    most = max(int(part.whole[:, 1].max()) for part in parts)
    for part in parts:
        meter.go_on()
        plan, (signatures, fused) = part.plan, signatures_of(rules, part)
        kept = part.kept(fused, most)
        blocks = plan.compiled.blocks[plan.depth - 1] if plan.depth else plan.compiled
        points = part.whole[:, 1 + plan.depth].tolist() if plan.depth else [0] * len(signatures)
        for n, (signature, point, prefix) in enumerate(zip(signatures, points, part.whole[:, 0].tolist(), strict=True)):
            number = numbers.setdefault(signature, len(numbers))
            groups.append(places.setdefault((number, blocks, point, prefix), len(places)))
            origins.append(OuterNest(part, n, plan.compiled, signature, kept[n]))
        # of what works ahead more is better, and what stands deeper keeps less
        everything = slice(None)
        space = part.occupied(everything), kept.cumsum(axis=2).reshape(len(kept), -1)
        rows.append(np.hstack([part.costs(everything), -part.ahead(everything), *space]))
    of_place = np.array([number for number, *_ in places], dtype=np.int64)
    group = np.array(groups, dtype=np.int64)
    order = np.lexsort((np.arange(len(group)), group, of_place[group]))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    if not rules.search.knows_costs:
        return [origins[at] for at in order.tolist()]
    kept_rows = nest_kernels.undominated(np.concatenate(rows)[order], np.append(starts, len(order)))
    return [origins[at] for at in order[kept_rows].tolist()]
