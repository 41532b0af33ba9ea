"""Memories and what is below them that take turns: single buffers each time, others with `wind_up` once.

A memory that is `single` is filled and emptied while nothing below it works. What is below one with `wind_up` waits for
its first tiles, and the last ones go out after the end; in between everything overlaps. Exchanges are told by the level
of their child on the architecture path, outermost first. With such memories at levels s1 < s2 < ... the time is

    max over components of all they do,  X(s1) + max(S(s1, s2), X(s2) + max(... X(sk) + max(S(sk, end), operations)))

X(s): the busiest component's time for exchanges whose child is at level s, of all visits, or of one visit where it only
winds up; S(s, t): for those whose child is between; where t only winds up, between s and the next memory further in
that takes turns each time, with all of whose exchanges its own overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from einmap.arch.component import Leaf, Memory, is_carrying
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.einsum_traffic import EinsumTraffic


def turns(leaves: tuple[Leaf, ...]) -> tuple[tuple[int, bool], ...]:
    """Levels of the memories that take turns with what is below, outermost first, and whether they do so only once."""
    return tuple(
        (i, leaf.wind_up)
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, Memory) and (leaf.buffering == "single" or leaf.wind_up)
    )


def end_of_overlap(taken: tuple[tuple[int, bool], ...], here: int, end: int) -> int:
    """Where the exchanges end that overlap with those outside of the memory at level `here` of `turns`.

    That is the first memory from `here` on that takes turns each time, or the `end` of the path.
    """
    return next((level for level, once in taken if level >= here and not once), end)


def serial_latency(
    path: EinsumPath, traffic: EinsumTraffic, operations: Any, busy: Callable[[str, Actions], Any]
) -> Any:
    """Seconds of an Einsum by the second term above; 0 where nothing takes turns, and for a copy.

    `operations`: seconds of the compute; `busy`: seconds of a component for some actions of its busiest instance.
    Raises NotSupportedError for a network, or a memory of several units, on the path.
    """
    taken = turns(path.leaves)
    if not taken or path.einsum.is_copy:
        return 0.0
    for leaf in path.leaves:
        if is_carrying(leaf):
            raise NotSupportedError(
                f"memories that take turns below or above the network {leaf.name!r} are not supported yet",
                hint="leave out `buffering: single` and `wind_up`, or the network",
                about=leaf.name,
            )

        if isinstance(leaf, Memory) and leaf.is_spread:
            raise NotSupportedError(
                f"memories that take turns beside {leaf.name!r}, which is several units of an array, are not supported "
                "yet",
                hint="leave out `buffering: single` and `wind_up`, or the units",
                about=leaf.name,
            )

    def longest(first: int, end: int, *, once: bool = False) -> Any:
        """Seconds of the busiest component for exchanges with children from level `first` to below `end`."""
        parts = traffic.busiest(lambda _, exchange: first <= exchange.child.level < end, one_visit=once)
        seconds: Any = 0.0
        for name, actions in parts.items():
            seconds = np.maximum(seconds, busy(name, actions))
        return seconds

    latency = np.maximum(operations, longest(taken[-1][0] + 1, len(path.leaves)))
    for (here, once), (outer, _) in pairwise(reversed(((-1, False), *taken))):
        latency = longest(here, here + 1, once=once) + latency
        if outer >= 0:
            latency = np.maximum(latency, longest(outer + 1, end_of_overlap(taken, here, len(path.leaves))))
    return latency
