"""Communication as found in a program, to be held against what a plan predicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from einmap.distribute.placements.mesh import Group
from einmap.distribute.plans.collectives import Kind, Traffic
from einmap.errors import InvariantError

PERMUTE = "collective_permute"
"""The kind of moves from single PEs to single PEs in a program, shifts and permutes alike."""


@dataclass(frozen=True, slots=True, order=True)
class Collective:
    """All executions of equal collectives. `kind`: one of `collectives.Kind`, or the compiler's word for another.

    `groups`: PEs that talk to one another, in ring order, or pairs of sender and receiver; `operand_bytes`,
    `result_bytes`: of one PE, once.
    """

    kind: str
    groups: tuple[Group, ...]
    operand_bytes: int
    result_bytes: int
    count: int

    @property
    def total_bytes(self) -> int:
        """Bytes that one PE puts in, all executions."""
        return self.count * self.operand_bytes


def merged(collectives: Iterable[Collective]) -> tuple[Collective, ...]:
    """Equal collectives as one, with the sum of their counts, in order."""
    counts: Counter[Collective] = Counter()
    for collective in collectives:
        counts[replace(collective, count=0)] += collective.count
    return tuple(sorted(replace(collective, count=count) for collective, count in counts.items() if count))


def predicted(traffic: Iterable[Traffic]) -> tuple[Collective, ...]:
    """Collectives that a program must hold if a plan's traffic is right."""
    free: Kind = "slice"
    return merged(one for row in traffic if row.kind != free for one in _predicted(row))


def _predicted(row: Traffic) -> Iterator[Collective]:
    if not row.rounds:
        yield Collective(row.kind, row.groups.listed, row.operand_bytes, row.result_bytes, row.count)
    for pairs in row.rounds:
        listed = sorted_pairs((group[a], group[b]) for group in row.groups.listed for a, b in pairs)
        yield Collective(PERMUTE, listed, row.operand_bytes, row.result_bytes, row.count)


def groups_over(sizes: Sequence[int], axes: Sequence[int]) -> tuple[Group, ...]:
    """Groups over some axes of a row-major array of PEs: those that differ in nothing but these axes.

    Written without `Mesh.groups`, which it checks.
    """
    numbers = np.arange(math.prod(sizes)).reshape(tuple(sizes))
    others = [axis for axis in range(len(sizes)) if axis not in axes]
    rows = numbers.transpose([*others, *axes]).reshape(-1, math.prod(sizes[axis] for axis in axes))
    return tuple(tuple(map(int, row)) for row in rows)


def sorted_pairs(pairs: Iterable[Sequence[int]]) -> tuple[Group, ...]:
    """Pairs of a sender and a receiver, in order: the groups of a `collective_permute`.

    Raises InvariantError where a PE sends or gets twice, or sends to itself.
    """
    found = tuple(sorted((int(sender), int(receiver)) for sender, receiver in pairs))
    senders, receivers = {pair[0] for pair in found}, {pair[1] for pair in found}
    if len(senders) < len(found) or len(receivers) < len(found) or any(a == b for a, b in found):
        raise InvariantError(
            f"the program sends {found}, in which not every PE has one sender and one receiver at most"
        )
    return found
