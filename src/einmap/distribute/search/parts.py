"""The parts that the cost of a plan is a sum of: one for each Einsum and one for each tensor.

An Einsum and a tensor that it reads or writes share one variable, the placement in which it does. Costs can be shifted
between the two, placement by placement, without changing the cost of a plan (a reparametrisation). `shifted` has what
was shifted from an Einsum to a tensor at each access: an array over the placements that the Einsum can use there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from einmap.distribute.search.homes import Costs, Homes, Numbers
from einmap.distribute.search.space import Ways

type Shifted = Sequence[Costs]


@dataclass(frozen=True, eq=False)
class EinsumPart:
    """The ways of an Einsum."""

    ways: Ways

    @cached_property
    def used(self) -> tuple[Numbers, ...]:
        """For each access the numbers of the placements that some way uses, ascending."""
        return tuple(np.unique(lies) for lies in self.ways.lies)

    @cached_property
    def _which(self) -> tuple[Numbers, ...]:
        """For each access the position in `used` of each way's placement."""
        return tuple(np.searchsorted(used, lies) for used, lies in zip(self.used, self.ways.lies, strict=True))

    @cached_property
    def _grouped(self) -> tuple[tuple[Numbers, Numbers], ...]:
        """For each access the ways by placement, and where each placement's begin."""
        orders = tuple(np.argsort(which, kind="stable") for which in self._which)
        ordered = [which[order] for which, order in zip(self._which, orders, strict=True)]
        starts = (np.searchsorted(some, np.arange(some[-1] + 1)) for some in ordered)
        return tuple(zip(orders, starts, strict=True))

    def costs(self, shifted: Shifted) -> Costs:
        """What each way costs after the shifts."""
        total = self.ways.costs.copy()
        for which, moved in zip(self._which, shifted, strict=True):
            total -= moved[which]
        return total

    def with_neighbours(self, shifted: Shifted, least: Shifted) -> Costs:
        """What each way costs at least with its tensors; `least`: of each tensor by placement."""
        total = self.costs(shifted)
        for which, some in zip(self._which, least, strict=True):
            total += some[which]
        return total

    def least_by_placement(self, shifted: Shifted) -> tuple[Costs, ...]:
        """For each access the least cost of a way by placement."""
        costs = self.costs(shifted)
        return tuple(np.minimum.reduceat(costs[order], starts) for order, starts in self._grouped)


@dataclass(frozen=True, eq=False)
class TensorPart:
    """The homes of a tensor. `writer`: the placements in which its producer may write it, None for a graph input;
    `readers`: those in which each reader may read it. Its accesses are the writer's first, then the readers'.

    Where `homes.cut`, all pairs of homes are meant, the second one made from the first, without listing them.
    """

    homes: Homes
    writer: Numbers | None
    readers: tuple[Numbers, ...]

    @cached_property
    def _written(self) -> Costs:
        """From where it is written to the first home."""
        assert self.writer is not None
        return np.ascontiguousarray(self.homes.paths.distances[np.ix_(self.writer, self.homes.first)].T)

    @cached_property
    def _read(self) -> tuple[Costs, ...]:
        """From the home, or the nearer one, to where it is read."""
        return tuple(np.ascontiguousarray(self.homes.reach[:, reader]) for reader in self.readers)

    @cached_property
    def _between(self) -> Costs:
        """From the first homes to any placement."""
        return np.ascontiguousarray(self.homes.paths.distances[self.homes.first])

    @cached_property
    def _read_from_any(self) -> tuple[Costs, ...]:
        return tuple(np.ascontiguousarray(self.homes.paths.distances[:, reader]) for reader in self.readers)

    def _split(self, shifted: Shifted) -> tuple[Costs | None, Shifted]:
        return (None, shifted) if self.writer is None else (shifted[0], shifted[1:])

    def costs(self, shifted: Shifted) -> Costs:
        """What each home costs after the shifts; of pairs that are not listed, by first home and any placement."""
        write, reads = self._split(shifted)
        first = np.zeros(len(self.homes.first)) if write is None else (self._written + write).min(axis=1)
        if not self.homes.cut:
            return np.asarray(sum(self._reading(reads), first + self.homes.costs))
        total = first[:, None] + self._between
        for some in self._reading(reads):
            total += np.minimum(some[self.homes.first, None], some)
        return total

    def _reading(self, reads: Shifted) -> list[Costs]:
        """What each reader costs at least, by home or by placement."""
        tables = self._read_from_any if self.homes.cut else self._read
        return [(table + moved).min(axis=1) for table, moved in zip(tables, reads, strict=True)]

    def least_by_placement(self, shifted: Shifted) -> tuple[Costs, ...]:
        """For each access the least cost of a home by placement."""
        return self._of_pairs(shifted) if self.homes.cut else self._of_listed(shifted)

    def _of_listed(self, shifted: Shifted) -> tuple[Costs, ...]:
        tables = list(self._read) if self.writer is None else [self._written, *self._read]
        parts = [(table + moved).min(axis=1) for table, moved in zip(tables, shifted, strict=True)]
        total = np.asarray(sum(parts, self.homes.costs))
        return tuple(
            _without(total, part, table) + moved for part, table, moved in zip(parts, tables, shifted, strict=True)
        )

    def _of_pairs(self, shifted: Shifted) -> tuple[Costs, ...]:
        write, reads = self._split(shifted)
        homes, reading = self.homes, self._reading(reads)
        first = np.zeros(len(homes.first)) if write is None else (self._written + write).min(axis=1)
        nearer = [np.minimum(some[homes.first, None], some) for some in reading]
        made: list[Costs] = []
        if write is not None:
            rest = np.asarray(sum(nearer, self._between)).min(axis=1)
            made.append((rest[:, None] + self._written).min(axis=0) + write)
        for reader, (table, moved) in enumerate(zip(self._read_from_any, reads, strict=True)):
            rest = np.asarray(sum((some for other, some in enumerate(nearer) if other != reader), self._between))
            rest = rest + first[:, None]
            at_home = rest.min(axis=0)
            at_home[homes.first] = np.minimum(at_home[homes.first], rest.min(axis=1))
            made.append((at_home[:, None] + table).min(axis=0) + moved)
        return tuple(made)


def _without(total: Costs, part: Costs, table: Costs) -> Costs:
    """The least total by column where `part` of it, the least of each row, is replaced by the entry of `table`."""
    usable = np.isfinite(total)
    if usable.all():
        return np.asarray(((total - part)[:, None] + table).min(axis=0))
    return np.asarray(((total[usable] - part[usable])[:, None] + table[usable]).min(axis=0, initial=np.inf))
