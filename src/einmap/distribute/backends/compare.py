"""Predicted communication against that of the program that ran, and what its compiler made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from einmap.distribute.backends.observed_collectives import Collective, merged, predicted
from einmap.distribute.placements.mesh import Group
from einmap.distribute.plans.collectives import Traffic


@dataclass(frozen=True, slots=True)
class Match:
    """Equal collectives: how often they were predicted, and how often the lowered program executes them.

    `tensors` and `axes` are those of the prediction; empty where there is none.
    """

    collective: Collective
    tensors: tuple[str, ...]
    axes: tuple[str, ...]
    predicted: int
    lowered: int

    @property
    def agrees(self) -> bool:
        """Whether it is as predicted."""
        return self.predicted == self.lowered


@dataclass(frozen=True, slots=True)
class Compiled:
    """All collectives of one kind and group, before and after compilation. Bytes: operands of one PE, all times."""

    kind: str
    groups: tuple[Group, ...]
    lowered_count: int
    lowered_bytes: int
    compiled_count: int
    compiled_bytes: int

    @property
    def why(self) -> str:
        """Words for what the compiler did; empty where nothing."""
        fewer, less = self.compiled_count < self.lowered_count, self.compiled_bytes < self.lowered_bytes
        if (self.compiled_count, self.compiled_bytes) == (self.lowered_count, self.lowered_bytes):
            return ""
        if not self.lowered_count:
            return "takes the place of others"
        if not self.compiled_count:
            return "dropped, or replaced by others"
        if self.compiled_bytes == self.lowered_bytes:
            return "several merged into one" if fewer else "one cut into several"
        return "repeated or unused ones dropped" if less else "more is sent than asked for"


def matches(traffic: Sequence[Traffic], lowered: Sequence[Collective]) -> tuple[Match, ...]:
    """One match for each different collective, in the order of the plan, then what nobody predicted."""
    expected = {replace(collective, count=0): collective.count for collective in predicted(traffic)}
    executed = {replace(collective, count=0): collective.count for collective in merged(lowered)}
    tensors: dict[Collective, dict[str, None]] = {}
    axes: dict[Collective, tuple[str, ...]] = {}
    for row in traffic:
        for key in (replace(collective, count=0) for collective in predicted([row])):
            tensors.setdefault(key, {})[row.tensor] = None
            axes[key] = row.axes
    return tuple(
        Match(key, tuple(tensors.get(key, ())), axes.get(key, ()), expected.get(key, 0), executed.get(key, 0))
        for key in dict.fromkeys([*tensors, *executed])
    )


def after_compilation(lowered: Sequence[Collective], compiled: Sequence[Collective]) -> tuple[Compiled, ...]:
    """One row for each kind and group. The order within a group is left out: compilers change it where it is free."""

    def by_kind(collectives: Sequence[Collective]) -> dict[tuple[str, tuple[Group, ...]], tuple[int, int]]:
        totals: dict[tuple[str, tuple[Group, ...]], tuple[int, int]] = {}
        for collective in collectives:
            key = collective.kind, tuple(sorted(tuple(sorted(group)) for group in collective.groups))
            count, size = totals.get(key, (0, 0))
            totals[key] = count + collective.count, size + collective.total_bytes
        return totals

    before, after = by_kind(lowered), by_kind(compiled)
    return tuple(
        Compiled(*key, *before.get(key, (0, 0)), *after.get(key, (0, 0))) for key in sorted({**before, **after})
    )
