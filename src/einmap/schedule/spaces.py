"""Iteration spaces that are not boxes: loops go through the box around one, and points outside are left out.

Such a point takes its time and its traffic, as the model counts it, but reads and computes nothing. Tiles are those of
the box, so they may reach beyond a tensor, where there is nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from einmap.einsum.einsum import Einsum
from einmap.einsum.numeric import shapes
from einmap.einsum.spaces.projection import Affine
from einmap.einsum.spaces.space import box_points, index_ends, parse_constraint
from einmap.einsum.workload import Workload
from einmap.schedule.boxes import Box


def reaches_of(workload: Workload, ranks: Mapping[str, tuple[str, ...]]) -> dict[str, Box]:
    """The indices of each tensor that tiles may have: its shape, and what the boxes around the spaces index."""
    found = {tensor: tuple((0, n) for n in shape) for tensor, shape in shapes(workload).items()}
    for einsum in workload.einsums:
        first = dict(einsum.first_values)
        for access in einsum.accesses if einsum.cuts else ():
            index_of = dict(access.written)
            ends = list(found[access.tensor])
            for i, rank in enumerate(ranks[access.tensor]):
                index = index_of[rank]
                if isinstance(index, Affine):
                    low, high = index_ends(index, first, einsum.extents, ())
                    ends[i] = min(ends[i][0], low), max(ends[i][1], high + 1)
            found[access.tensor] = tuple(ends)
    return found


def space_mask(einsum: Einsum) -> NDArray[np.bool_] | None:
    """Which points of the box are in the iteration space, an axis for each rank variable; None where all are.

    An axis has one place if no constraint names its variable.
    """
    if not einsum.cuts:
        return None
    constraints = [parse_constraint(text) for text in einsum.cuts]
    named = [v for v in einsum.rank_variables if any(v in constraint.names for constraint in constraints)]
    first = dict(einsum.first_values)
    _, inside = box_points(named, constraints, first, {v: first.get(v, 0) + einsum.extents[v] - 1 for v in named})
    mask: NDArray[np.bool_] = inside.reshape([einsum.extents[v] if v in named else 1 for v in einsum.rank_variables])
    return mask


def mask_size(einsum: Einsum) -> int:
    """Places of the mask of an iteration space; 0 for a box."""
    names = {name for text in einsum.cuts for name in parse_constraint(text).names}
    return math.prod(n for v, n in einsum.bounds if v in names) if names else 0
