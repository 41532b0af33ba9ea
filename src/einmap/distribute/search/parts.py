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
    def _which(self) -> tuple[Numbers, ...]:
        """For each access the position in `used` of each way's placement."""
        return tuple(np.searchsorted(used, lies) for used, lies in zip(self.ways.used, self.ways.lies, strict=True))

    @cached_property
    def _grouped(self) -> tuple[tuple[Numbers, Numbers], ...]:
        """For each access the ways by placement, and where each placement's begin."""
        orders = tuple(np.argsort(which, kind="stable") for which in self._which)
        ordered = [which[order] for which, order in zip(self._which, orders, strict=True)]
        starts = (np.searchsorted(some, np.arange(some[-1] + 1)) for some in ordered)
        return tuple(zip(orders, starts, strict=True))

    def costs(self, shifted: Shifted) -> Costs:
        """Cost of each way after the shifts."""
        total = self.ways.costs.copy()
        for which, moved in zip(self._which, shifted, strict=True):
            total -= moved[which]
        return total

    def with_neighbours(self, shifted: Shifted, least: Shifted) -> Costs:
        """Least cost of each way with its tensors; `least`: of each tensor by placement."""
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
    def _between(self) -> Costs:
        """From the first homes to any placement."""
        return np.ascontiguousarray(self.homes.paths.distances[self.homes.first])

    def _by_access(self, shifted: Shifted) -> list[Costs]:
        """Least costs from where the tensor is written to each placement, then from there to each reader."""
        paths = self.homes.paths
        made = []
        for access, moved in enumerate(shifted):
            costs = np.full(len(paths.distances), np.inf)
            costs[self._lies[access]] = moved
            made.append(paths.nearest_before(costs) if self._is_written(access) else paths.nearest_after(costs))
        return made

    @cached_property
    def _lies(self) -> tuple[Numbers, ...]:
        return self.readers if self.writer is None else (self.writer, *self.readers)

    def _is_written(self, access: int) -> bool:
        return self.writer is not None and access == 0

    def costs(self, shifted: Shifted) -> Costs:
        """Cost of each home after the shifts; of pairs that are not listed, by first home and any placement."""
        homes = self.homes
        own = self._between if homes.cut else homes.costs
        return np.asarray(sum((self._at_homes(*some) for some in enumerate(self._by_access(shifted))), own))

    def _at_homes(self, access: int, costs: Costs) -> Costs:
        """Costs by placement at the first home, or at the nearer one of a reader."""
        homes = self.homes
        first = costs[homes.first]
        if homes.cut:
            return first[:, None] if self._is_written(access) else np.minimum(first[:, None], costs)
        return first if self._is_written(access) else np.minimum(first, costs[homes.second])

    def least_by_placement(self, shifted: Shifted) -> tuple[Costs, ...]:
        """For each access the least cost of a home by placement."""
        homes = self.homes
        by_access = [self._at_homes(*some) for some in enumerate(self._by_access(shifted))]
        own = self._between if homes.cut else homes.costs
        made = []
        for access, (lies, moved) in enumerate(zip(self._lies, shifted, strict=True)):
            rest = np.asarray(sum((some for other, some in enumerate(by_access) if other != access), own))
            costs = self._at_placements(rest, access)
            move = homes.paths.nearest_after if self._is_written(access) else homes.paths.nearest_before
            made.append(move(costs)[lies] + moved)
        return tuple(made)

    def _at_placements(self, costs: Costs, access: int) -> Costs:
        """The least cost of a home by the placement to which the tensor is written or from which it may be read."""
        homes = self.homes
        least: Costs = np.full(len(homes.paths.distances), np.inf)
        np.minimum.at(least, homes.first, costs.min(axis=1) if homes.cut else costs)
        if self._is_written(access):
            return least
        if homes.cut:
            np.minimum(least, costs.min(axis=0), out=least)
        else:
            np.minimum.at(least, homes.second, costs)
        return least
