"""Dominance between outer nests of an Einsum: one that goes on as another does, and is worse, is left out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.outer_nests import OuterNest


def undominated(outer_nests: list[OuterNest]) -> Iterator[OuterNest]:
    """Outer nests but for those that go on as another one does, which is not worse in anything."""
    groups: dict[object, list[OuterNest]] = {}
    for outer_nest in outer_nests:
        blocks = outer_nest.compiled.blocks[len(outer_nest.points) - 1] if outer_nest.points else outer_nest.compiled
        where = outer_nest.points[-1] if outer_nest.points else 0
        groups.setdefault((blocks, where, outer_nest.prefix), []).append(outer_nest)
    for group in groups.values():
        if len(group) == 1:
            yield group[0]
            continue
        # of what works ahead more is better
        rows = np.stack([np.concatenate([o.acc, -o.ahead, o.occupied, _kept(o)]) for o in group])
        for i, row in enumerate(rows):
            better = (rows <= row).all(axis=1)
            better[i] = False
            if not (better[:i].any() or (rows[better] < row).any()):
                yield group[i]


def _kept(outer_nest: OuterNest) -> Floats:
    """Space kept by the nodes of an outer nest, for each number of loops above them: less is better, and so is
    deeper.
    """
    n = len(outer_nest.signature.loops)
    kept = np.zeros((len(outer_nest.occupied), n + 1))
    for placed in outer_nest.kept:
        kept[placed.memory, min(placed.depth, n) :] += placed.bits
    return kept.ravel()
