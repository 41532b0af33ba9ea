"""The lanes that values reach over a network of an array, from the units in which they lie: hops and traffic at least.

The traffic of a link is that of the first one along a fanout, as on the network without units. What units beside it
send along a fanout is not counted there, and neither is what one of several units sends of values that these share.
"""

from __future__ import annotations

import numpy as np

from einmap.arch.component import Network
from einmap.arrays import Bools, Floats
from einmap.mapper.cost_bounds.networks.lanes import Chain, NetworkLanes, after, before
from einmap.mapper.cost_bounds.units import UnitLoops
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable


class UnitLanes(NetworkLanes):
    """The lanes of a mesh, or of lanes all to all, where values begin in units."""

    def __init__(
        self,
        units: UnitLoops,
        network: Network,
        table: LaneTable,
        irrelevant: Bools,
        tensor: str,
        exchange: Chain,
        level: int,
    ) -> None:
        super().__init__(network, table, irrelevant, tensor, exchange, level)
        self.units = units

    def _steps(self, shared: Bools, *, first: bool = True) -> Floats:
        return self.units.steps(self.network, self.n, self.strides, shared, first=first) / self.n

    def hops(self, *, output: bool) -> Floats:
        """Hops of each value that fills the child, and of an output's way back."""
        shared = self.shared(output=output)
        one_way: Floats = (self._steps(shared) / after(np.where(shared, self.units.once(self.n), 1.0))).sum(axis=1)
        if not output:
            return one_way
        # of lanes that take turns the first one has the values that start without a result
        down = self._steps(self.shared(output=False), first=False)
        return one_way + np.where(self.merged, 0.0, down).sum(axis=1) / self.share

    def hops_saved(self) -> Floats:
        """Hops that each value saves that starts without a result."""
        saved: Floats = np.where(self.none, 0.0, self._steps(self.shared(output=False))).sum(axis=1)
        return saved

    def route(self, *, output: bool) -> Floats:
        """Steps of the longest route."""
        del output
        return self.units.route(self.network, self.n, self.strides)

    def load(self, number: int, chosen: Bools, *, output: bool, fills: bool = True) -> Floats:
        """Share of the values that pass the first link of some loops."""
        del number
        shared = self.shared(output=output)
        sent = self.units.sent(self.network, self.n, shared) * self._beside(shared)
        passing = sent / (after(np.where(shared, self.n, 1.0)) * before(self.n) * self.above[:, None])
        if output and fills:
            sent = self.units.sent(self.network, self.n, shared, first=False) * self._beside(shared)
            apart = before(np.where(self.merged, 1.0, self.n)) * self.above_apart[:, None] * self.share[:, None]
            passing = passing + np.where(self.merged, 0.0, sent / apart)
        total: Floats = np.where(chosen, passing, 0.0).sum(axis=1)
        return total

    def load_saved(self, number: int, chosen: Bools) -> Floats:
        """Share of the tensor's values that start without a result and do not pass there."""
        del number
        indexed = np.where(self.none, 1.0, self.n)
        sent = self._beside(self.merged) * (self.units.fullest(self.n) - 1)
        saved = sent / (indexed * before(indexed) * self.above_indexed[:, None])
        total: Floats = np.where(chosen & ~self.none, saved, 0.0).sum(axis=1)
        return np.where(self.above_turns, 0.0, total)

    def _beside(self, shared: Bools) -> Floats:
        """Part of what goes along each loop that begins in the first units of loops further in."""
        return after(self.units.beside(self.n, shared))
