"""Pareto fronts of sums, with where each row comes from: Einsums of a stage, and parts of a cascade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.pipelined.stage_fronts import GroupRows
from einmap.pareto import nondominated

PAIRS_AT_A_TIME = 200_000
"""Rows of chains in a stage that are put together at a time."""


@dataclass
class OriginFront[T]:
    """Rows of (J, s) that no other one beats. `judged`: which of the two columns matter."""

    judged: tuple[int, ...]
    values: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    origins: list[T] = field(default_factory=list)

    def beats(self, rows: Floats) -> Bools:
        """Whether each row is no better than one that is there."""
        beaten = np.zeros(len(rows), dtype=bool)
        columns = list(self.judged)
        for known in self.values:
            beaten |= (known[columns] <= rows[:, columns]).all(axis=1)
        return beaten

    def add(self, rows: Floats, origins: Sequence[T]) -> None:
        """Take in rows; those that others beat go."""
        values = np.concatenate([self.values, rows])
        every = [*self.origins, *origins]
        kept = nondominated(values[:, list(self.judged)])
        self.values, self.origins = values[kept], [every[i] for i in kept]


def in_turns(einsums: Sequence[GroupRows], judged: Sequence[int]) -> GroupRows:
    """Chains of Einsums that take turns in a stage, those that no other ones beat. `judged`: see OriginFront."""
    rows = einsums[0]
    for more in einsums[1:]:
        at_a_time = max(1, PAIRS_AT_A_TIME // max(len(more.costs), 1))
        blocks = [
            _pairs(rows, begin, begin + at_a_time, more, judged) for begin in range(0, len(rows.costs), at_a_time)
        ]
        rows = blocks[0] if len(blocks) == 1 else _best(_joined(blocks, rows), judged)
    return rows


def _pairs(rows: GroupRows, begin: int, end: int, more: GroupRows, judged: Sequence[int]) -> GroupRows:
    """Some rows with each one of the next Einsum."""
    first = np.repeat(np.arange(begin, min(end, len(rows.costs))), len(more.costs))
    second = np.tile(np.arange(len(more.costs)), len(first) // max(len(more.costs), 1))
    costs = rows.costs[first] + more.costs[second]
    running = np.maximum(rows.running[first], more.running[second])
    staying = rows.staying[first] + more.staying[second]
    kept = _undominated(costs, running, staying, judged)
    origins = [(*rows.origins[first[i]], *more.origins[second[i]]) for i in kept]
    return GroupRows(costs[kept], running[kept], staying[kept], origins)


def _joined(blocks: Sequence[GroupRows], empty: GroupRows) -> GroupRows:
    if not blocks:
        return GroupRows(empty.costs[:0], empty.running[:0], empty.staying[:0], ())
    return GroupRows(
        np.concatenate([block.costs for block in blocks]),
        np.concatenate([block.running for block in blocks]),
        np.concatenate([block.staying for block in blocks]),
        [origin for block in blocks for origin in block.origins],
    )


def _best(rows: GroupRows, judged: Sequence[int]) -> GroupRows:
    kept = _undominated(rows.costs, rows.running, rows.staying, judged)
    return GroupRows(rows.costs[kept], rows.running[kept], rows.staying[kept], [rows.origins[i] for i in kept])


def _undominated(costs: Floats, running: Floats, staying: Floats, judged: Sequence[int]) -> Ints:
    """Rows that no other one beats; latency matters where energy alone is asked for, too: leakage lasts for it."""
    values = np.concatenate([costs[:, 0 if 0 in judged else 1 :], running, staying], axis=1)
    return nondominated(values, np.argsort(values.sum(axis=1), kind="stable"))
