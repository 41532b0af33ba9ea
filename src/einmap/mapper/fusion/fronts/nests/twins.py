"""Signatures whose outer nests differ in the order of loops alone: they have one front, which is searched once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from einmap.arrays import Ints
from einmap.mapper.fusion.fronts.nests.growing import Listed
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.problem.request import Remainder

type Twins = dict[FusionSignature, list[FusionSignature]]
"""For the first of signatures that have one front all of them."""


def completion_of(listed: Listed) -> object:
    """All that the completions of an outer nest depend on: equal for two nests that have the same ones."""
    (search, nest), plan, n = listed, listed[1].nests.plan, listed[1].n
    whole = nest.nests.whole[n]
    if search.machine is not None or plan.has_own:
        return plan, whole.tobytes()
    costs = nest.nests.numbers[n, : plan.columns + plan.memories]
    kinds = tuple([kind for kind, _ in nest.signature.loops])
    kept = nest.kept[:, : 1 + len(kinds)]
    return plan.compiled, whole[: 2 + plan.depth].tobytes(), costs.tobytes(), kept.tobytes(), kinds


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


def paths_of(twin: Sequence[Listed], paths: Ints, completed: list[Listed]) -> Ints:
    """The paths of a front of a signature from those of one that is alike: they begin with numbers of outer nests.

    `twin`: its outer nests; `completed`: those with a number, which takes the twin's, too.
    """
    own, found = {completion_of(listed): listed[1] for listed in twin}, paths.copy()
    for number in np.unique(paths[:, 0]).tolist():
        search, nest = completed[number]  # the search may be one with a few of the tables alone
        found[paths[:, 0] == number, 0] = len(completed)
        completed.append((search, own[completion_of((search, nest))]._replace(compiled=nest.compiled)))
    return found
