"""Memories and what is below them that take turns: single buffers each time, others with `wind_up` once.

A memory that is `single` is filled and emptied while nothing below it works. What is below one with `wind_up` waits for
its first tiles, and the last ones go out after the end; in between everything overlaps. Exchanges are told by the level
of their child on the architecture path, outermost first. With such memories at levels s1 < s2 < ... the time is

    max over components of all they do,  X(s1) + max(S(s1, s2), X(s2) + max(... X(sk) + max(S(sk, end), operations)))

X(s): the busiest component's time for exchanges whose child is at level s, of all visits, or of one visit where it only
winds up; S(s, t): for those whose child is between; where t only winds up, between s and the next memory further in
that takes turns each time, with all of whose exchanges its own overlap.

Networks are components, too. In X(s) their links alone count so; then the last value of each transfer is on its way,
which adds the hops of the longest routes, transfer by transfer, of the tensor that waits longest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from einmap.arch.component import Component, Leaf, Memory, is_carrying
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath
from einmap.model.counting.tiles import larger
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.mesh_crossing import NetworkUse
from einmap.model.traffic.networks_crossed import Counts, hops_one_by_one, network_use
from einmap.model.traffic.tensor_traffic import Exchange


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


type Busy = Callable[[str, Actions | NetworkUse], Any]
"""Seconds of a component for some actions of its busiest instance, or of a network for what crosses it."""


def serial_latency(path: EinsumPath, traffic: EinsumTraffic, operations: Any, busy: Busy) -> Any:
    """Seconds of an Einsum by the second term above; 0 where nothing takes turns, and for a copy.

    `operations`: seconds of the compute. Raises NotSupportedError for a memory of several units on the path, and for a
    network under a preset other than exact.
    """
    taken = turns(path.leaves)
    if not taken or path.einsum.is_copy:
        return 0.0
    for leaf in path.leaves:
        if is_carrying(leaf) and traffic.semantics.network_traffic != "all":
            raise NotSupportedError(
                f"memories that take turns below or above the network {leaf.name!r} are not supported with the preset "
                f"{traffic.semantics.name!r}",
                hint="evaluate with semantics: exact",
                about=leaf.name,
            )
        if isinstance(leaf, Memory) and leaf.is_spread:
            raise NotSupportedError(
                f"memories that take turns beside {leaf.name!r}, which is several units of an array, are not supported "
                "yet",
                hint="leave out `buffering: single` and `wind_up`, or the units",
                about=leaf.name,
            )

    def longest(first: int, end: int) -> Any:
        """Seconds of the busiest component for exchanges with children from level `first` to below `end`."""
        moved = moved_by(traffic, lambda exchange: first <= exchange.child.level < end)
        return reduce(larger, (busy(name, done) for name, done in moved.items()), 0.0)

    latency = np.maximum(operations, longest(taken[-1][0] + 1, len(path.leaves)))
    for (here, once), (outer, _) in pairwise(reversed(((-1, False), *taken))):
        latency = _in_turn(traffic, here, busy, once=once) + latency
        if outer >= 0:
            latency = np.maximum(latency, longest(outer + 1, end_of_overlap(taken, here, len(path.leaves))))
    return latency


def moved_by(traffic: EinsumTraffic, counts: Counts, *, once: bool = False) -> dict[str, Actions | NetworkUse]:
    """Work of memories, tolls and networks for some exchanges. `once`: for one visit of each child."""
    crossed = network_use(traffic, counts, one_visit=once)
    return {**traffic.busiest(lambda _, exchange: counts(exchange), one_visit=once), **crossed}


def is_expressed(unit: Leaf | Component) -> bool:
    """Whether an expression says how long a network takes, routes included."""
    return is_carrying(unit) and unit.total_latency is not None


def _in_turn(traffic: EinsumTraffic, level: int, busy: Busy, *, once: bool) -> Any:
    """X(s) of the memory at a level; `once`: where it winds up."""
    expressed = {name for name, unit in traffic.path.arch.components.items() if is_expressed(unit)}

    def counts(exchange: Exchange) -> bool:
        return exchange.child.level == level

    def links(name: str, done: Actions | NetworkUse) -> Actions | NetworkUse:
        return replace(done, max_hops=0) if isinstance(done, NetworkUse) and name not in expressed else done

    moved = moved_by(traffic, counts, once=once)
    waits = (
        sum(busy(name, NetworkUse(max_hops=steps)) for name, steps in of_tensor.items() if name not in expressed)
        for of_tensor in hops_one_by_one(traffic, counts, one_visit=once)
    )
    seconds = reduce(larger, (busy(name, links(name, done)) for name, done in moved.items()), 0.0)
    return seconds + reduce(larger, waits, 0.0)
