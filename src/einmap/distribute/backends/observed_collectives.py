"""Communication as found in a program, to be held against what a plan predicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from einmap.distribute.collectives import Kind, Traffic
from einmap.distribute.mesh import Group
from einmap.errors import InvariantError


@dataclass(frozen=True, slots=True, order=True)
class Collective:
    """All executions of equal collectives. `kind`: one of `collectives.Kind`, or the compiler's word for another.

    `groups`: PEs that talk to one another, in ring order; `operand_bytes`, `result_bytes`: of one PE, once.
    """

    kind: str
    groups: tuple[Group, ...]
    operand_bytes: int
    result_bytes: int
    count: int

    @property
    def total_bytes(self) -> int:
        """What one PE puts in, all executions."""
        return self.count * self.operand_bytes


def merged(collectives: Iterable[Collective]) -> tuple[Collective, ...]:
    """Equal collectives as one, with the sum of their counts, in order."""
    counts: Counter[Collective] = Counter()
    for collective in collectives:
        counts[replace(collective, count=0)] += collective.count
    return tuple(sorted(replace(collective, count=count) for collective, count in counts.items() if count))


def predicted(traffic: Iterable[Traffic]) -> tuple[Collective, ...]:
    """What a program must hold if a plan's traffic is right."""
    free: Kind = "slice"
    return merged(
        Collective(t.kind, t.groups.listed, t.operand_bytes, t.result_bytes, t.count) for t in traffic if t.kind != free
    )


def groups_over(sizes: Sequence[int], axes: Sequence[int]) -> tuple[Group, ...]:
    """Groups over some axes of a row-major array of PEs: those that differ in nothing but these axes.

    Written without `Mesh.groups`, which it checks.
    """
    numbers = np.arange(math.prod(sizes)).reshape(tuple(sizes))
    others = [axis for axis in range(len(sizes)) if axis not in axes]
    rows = numbers.transpose([*others, *axes]).reshape(-1, math.prod(sizes[axis] for axis in axes))
    return tuple(tuple(map(int, row)) for row in rows)


def rings(pairs: Iterable[Sequence[int]]) -> tuple[Group, ...]:
    """The cycles of (source, target) pairs, each from its smallest PE on, where they are rings over equal steps.

    Raises InvariantError for pairs that are not permutation without fixed points.
    """
    follower = {int(source): int(target) for source, target in pairs}
    if set(follower) != set(follower.values()) or any(a == b for a, b in follower.items()):
        raise InvariantError(f"the program sends {follower}, which is not a shift along rings")
    groups: list[Group] = []
    seen: set[int] = set()
    for first in sorted(follower):
        ring: list[int] = []
        at = first
        while at not in seen:
            seen.add(at)
            ring.append(at)
            at = follower[at]
        if ring:
            groups.append(tuple(ring))
    return tuple(groups)
