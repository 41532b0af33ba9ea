"""Memories with one buffer: what is exchanged with them, and what goes on inside of them, take turns.

A memory that is `single` is filled and emptied while nothing below it works. The exchanges of an Einsum are told by the
level of their child on the architecture path, outermost first. With single memories at levels s1 < s2 < ... the time is

    max over components of all they do,  X(s1) + max(S(s1, s2), X(s2) + max(... X(sk) + max(S(sk, end), operations)))

X(s): the busiest component's time for exchanges whose child is at level s; S(s, t): for those whose child is between.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from einmap.arch.component import Leaf, Memory, Network
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.einsum_traffic import EinsumTraffic


def single_levels(leaves: tuple[Leaf, ...]) -> tuple[int, ...]:
    """Levels of the memories of a path that have one buffer, outermost first."""
    return tuple(i for i, leaf in enumerate(leaves) if isinstance(leaf, Memory) and leaf.buffering == "single")


def serial_latency(
    path: EinsumPath, traffic: EinsumTraffic, operations: Any, busy: Callable[[str, Actions], Any]
) -> Any:
    """Seconds of an Einsum by the second term above; 0 where no memory is single, and for a copy.

    `operations`: seconds of the compute; `busy`: seconds of a component for some actions of its busiest instance.
    Raises NotSupportedError for a network on the path.
    """
    singles = single_levels(path.leaves)
    if not singles or path.einsum.is_copy:
        return 0.0
    for leaf in path.leaves:
        if isinstance(leaf, Network):
            raise NotSupportedError(
                f"single buffering below or above the network {leaf.name!r} is not supported yet",
                hint="leave out `buffering: single`, or the network",
            )

    def longest(first: int, end: int) -> Any:
        """Seconds of the busiest component for exchanges with children from level `first` to below `end`."""
        parts = traffic.busiest(range(first, end))
        seconds: Any = 0.0
        for name, actions in parts.items():
            seconds = np.maximum(seconds, busy(name, actions))
        return seconds

    latency = np.maximum(operations, longest(singles[-1] + 1, len(path.leaves)))
    for here, outer in pairwise(reversed((-1, *singles))):
        latency = longest(here, here + 1) + latency
        if outer >= 0:
            latency = np.maximum(latency, longest(outer + 1, here))
    return latency
