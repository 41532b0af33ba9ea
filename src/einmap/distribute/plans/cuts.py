"""Linear inequalities that cut points off the box of an Einsum, in groups that speak of the same rank variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.lattice_points import HalfSpace
from einmap.einsum.spaces.projection import RankVar
from einmap.einsum.spaces.space import linear_cut, linked, parse_constraint
from einmap.errors import NotSupportedError

MAX_SLICES = 10_000
"""Polygons that are counted for one PE, where more than two rank variables are linked."""


@dataclass(frozen=True, slots=True)
class CutGroup:
    """Rank variables, in the order of the Einsum, and the half spaces that link them; each variable counts from its
    first value.
    """

    variables: tuple[RankVar, ...]
    half_spaces: tuple[HalfSpace, ...]


@lru_cache(maxsize=2000)
def cut_groups(einsum: Einsum) -> tuple[CutGroup, ...]:
    """The groups of an Einsum that `check_cuts` admits; no rank variable is in two of them."""
    cuts = [parse_constraint(text) for text in einsum.cuts]
    first = dict(einsum.first_values)
    groups: list[CutGroup] = []
    for names in linked(einsum.rank_variables, cuts):
        variables = tuple(v for v in einsum.rank_variables if v in names)
        planes = [half_space(cut.text, variables) for cut in cuts if cut.names & {*names}]
        start = [first.get(v, 0) for v in variables]
        if planes:
            groups.append(CutGroup(variables, tuple(plane.moved(start) for plane in planes if plane is not None)))
    return tuple(groups)


def check_cuts(einsum: Einsum) -> None:
    """Raise NotSupportedError for constraints that are not linear, or link too many rank variables to count points."""
    for text in einsum.cuts:
        if half_space(text, einsum.rank_variables) is None:
            raise NotSupportedError(
                f"the iteration space of Einsum {einsum.name!r} is bounded by {text}; only boxes and linear "
                "inequalities can be distributed",
                hint="write linear inequalities, such as m <= p, or leave the rank whole",
            )
    for group in cut_groups(einsum):
        extents = sorted(einsum.extents[v] for v in group.variables)
        if math.prod(extents[:-2]) > MAX_SLICES:
            linked_ones = ", ".join(group.variables)
            raise NotSupportedError(
                f"the iteration space of Einsum {einsum.name!r} links {linked_ones}: with more than two rank variables "
                f"points are counted for each value of the others, at most {MAX_SLICES:,}",
                hint="link two rank variables at a time, or choose smaller rank sizes",
            )


def half_space(cut: str, variables: Sequence[RankVar]) -> HalfSpace | None:
    """`m - p < 1` as coefficients of `variables`, in their order, and a constant; None for what is not linear."""
    linear = linear_cut(cut)
    if linear is None:
        return None
    index, comparison = linear
    factors = dict(index.terms)
    if not factors.keys() <= {*variables}:
        return None
    coefficients = tuple(factors.get(v, 0) for v in variables)
    operator, end = comparison.split()
    if operator == "<":
        return HalfSpace(tuple(-a for a in coefficients), int(end) - 1 - index.constant)
    return HalfSpace(coefficients, index.constant - int(end))
