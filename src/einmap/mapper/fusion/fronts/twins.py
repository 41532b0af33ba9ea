"""Signatures whose outer nests differ in the order of loops alone: they have one front, which is searched once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from einmap.mapper.fusion.fronts.nests.growing import Listed
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.fusion.fronts.protocol import FusedFront
from einmap.mapper.problem.request import Remainder

type Twins = dict[FusionSignature, list[FusionSignature]]
"""For the first of signatures that have one front all of them."""


def completion_of(listed: Listed) -> object:
    """All that the completions of an outer nest depend on: equal for two nests that have the same ones."""
    search, nest = listed
    nests, n = nest.nests, nest.n
    if search.machine is not None or nests.plan.has_own:
        return id(nests), n
    begin, fused = 2 + nests.plan.depth, len(nest.signature.loops)
    costs = nests.numbers[n, : nests.plan.columns + nests.plan.memories]
    kinds = tuple(kind for kind, _ in nest.signature.loops)
    kept = nest.kept[:, : 1 + fused]
    return search, nest.compiled, nests.whole[n, :begin].tobytes(), costs.tobytes(), kept.tobytes(), kinds


def twins_of(
    nests: Mapping[FusionSignature, Sequence[Listed]], limits: Mapping[FusionSignature, Remainder | None]
) -> Twins:
    """The signatures, put together where the same completions follow on their outer nests.

    `limits`: up to which fronts are to be known; those of signatures that are put together have one `most`.
    """
    alike: dict[object, list[FusionSignature]] = {}
    for signature, of_signature in nests.items():
        remainder = limits[signature]
        most = None if remainder is None else remainder.most
        alike.setdefault((most, frozenset(map(completion_of, of_signature))), []).append(signature)
    return {some[0]: some for some in alike.values()}


def front_of(twin: Sequence[Listed], first: Sequence[Listed], front: FusedFront, completed: list[Listed]) -> FusedFront:
    """The front of a signature from that of one that is alike, the first.

    `twin`, `first`: outer nests of both. `completed`: those that fronts have by number, which takes the twin's, too.
    """
    own, paths = {completion_of(listed): listed for listed in twin}, front.paths.copy()
    nest_of = {(id(listed[1].nests), listed[1].n): own[completion_of(listed)][1] for listed in first}
    for number in np.unique(front.paths[:, 0]).tolist():
        search, nest = completed[number]  # the search may be one with a few of the tables alone
        paths[front.paths[:, 0] == number, 0] = len(completed)
        completed.append((search, nest_of[id(nest.nests), nest.n]._replace(compiled=nest.compiled)))
    return FusedFront(front.values, paths)
