"""A few neighbouring Einsums of the best cascade that is known, mapped anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.contested import most_at_stake

WIDTH = 6
"""So many neighbours at a time."""
NEARER, USES = 4, 16
"""Which tile shapes of fused loops are looked at, and how many uses of the fanouts."""


def map_anew(cascade: CascadeProblem, value: float, improve: Callable[[], float]) -> None:
    """Let some neighbours at a time choose again where tensors are kept; all others keep theirs where they are.

    `improve`: looks for something better than the best known, of the objective `value`, and gives the objective then.
    Neighbours that cost most above what each costs at least come first. Raises StoppedError.
    """
    tried = set[int]()
    try:
        while cascade.costs is not None:
            members = cascade.members
            least = np.stack([cascade.times(member.einsum) * cascade.least[member.chains] for member in members])
            begin = most_at_stake(cascade.weights, cascade.costs, least, WIDTH, tried)
            if begin is None:
                break
            free = {member.chains for member in members[begin : begin + WIDTH]}
            cascade.only = {chains: kept for chains, kept in cascade.classes.items() if chains not in free}
            before, value = value, improve()
            tried = {begin} | (tried if value == before else set())
    finally:
        cascade.only = None
