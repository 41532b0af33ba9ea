"""Costs of values on the networks that they cross, for every use of the lanes at a time.

With perfect factors all lanes of a loop get as much, so hops and the traffic of a link are linear in the values that
fill a node, as all other costs are; the rules are those of `model.traffic.networks_crossed` under `exact`. Of a loop
of `n` lanes, `im` being the merged lanes of loops further in, each lane is passed `F / (n im)` values. As many of an
output come back, and of what goes down a group of merged lanes takes part in its first lane alone. Values that start
without a result go down where the exchange is charged for them. Else they are saved: evenly by the lanes of a loop
that indexes the output, by the first lane alone of one that does not.

With imperfect factors the last lanes are idle at times, and hops are not a rate times fills. What lies in full tiles of
all rank variables crosses as with perfect factors, which is a lower bound. Of lanes that are uneven themselves nothing
is known but routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from einmap.arch.component import Leaf, Network, is_carrying
from einmap.arrays import Bools, Floats
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.columns import Columns
from einmap.mapper.cost_bounds.networks.lanes import Chain, NetworkLanes
from einmap.mapper.cost_bounds.networks.topologies import LANES
from einmap.mapper.cost_bounds.networks.unit_lanes import UnitLanes
from einmap.mapper.cost_bounds.units import UnitRates
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable


class Rates(NamedTuple):
    """Costs, a row for each use of the lanes and a column of cost each.

    `filled`: of each value that fills the child; `fresh`: what is saved of the energy for each value that starts
    without a result; `starts`: what all values of the tensor that start so in the backing node save in every column;
    `route`: of the longest route; `visits`: of each visit of the child, all instances counted; `tile`: of each value of
    one tile of the child.
    """

    filled: Floats
    fresh: Floats
    starts: Floats
    route: Floats
    visits: Floats
    tile: Floats


@dataclass(frozen=True)
class NetworkRates:
    """Costs of exchanges that cross a network. `irrelevant`: by tensor the lattice axes that do not index it.

    `fullness`: part of the iterations that lies in full tiles, at least; `excess`: how many more tiles there are, at
    most, than perfect factors make.
    """

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    columns: Columns
    irrelevant: Mapping[str, Bools]
    units: UnitRates
    fullness: float = 1.0
    excess: float = 1.0

    def crossed(self, exchange: Chain) -> Iterator[tuple[int, Network]]:
        """The networks that an exchange crosses."""
        for level in range(exchange[0] + 1, exchange[-1]):
            leaf = self.leaves[level]
            if is_carrying(leaf):
                yield level, leaf

    def crosses(self, exchange: Chain) -> bool:
        """Whether an exchange crosses a network."""
        return any(True for _ in self.crossed(exchange))

    def of(self, table: LaneTable, access: TensorAccess, exchange: Chain, *, pays_initial: bool) -> Rates:
        """Costs of an exchange; `pays_initial`: whether fills that bring no result are charged."""
        total = Rates(*(np.zeros((len(table), self.columns.n)) for _ in Rates._fields))
        saves, child = access.output and not pays_initial, exchange[-1]
        is_ragged = self.fullness < 1 or bool(table.shapes.any())
        gained = np.zeros(len(table))
        for level, network in self.crossed(exchange):
            irrelevant = self.irrelevant[access.tensor]
            there = network, table, irrelevant, access.tensor, exchange, level
            units = self.units.between(table, access.tensor, exchange, network)
            lanes = LANES[network.topology](*there) if units is None else UnitLanes(units, *there)
            rate = network.action("hop").actions_per_value[access.tensor] * network.actions_scale
            energy = rate * network.action("hop").energy
            if energy < 0 and is_ragged:
                # no value takes more hops than the longest route has, either way
                gained += energy * self.excess * lanes.route(output=access.output) * (1 + access.output)
            else:
                total.filled[:, 0] += energy * lanes.hops(output=access.output)
            if saves and not (energy < 0 and is_ragged):
                total.fresh[:, 0] += energy * lanes.hops_saved()
            for column in self.columns.routes(level, access.tensor, child):
                total.route[:, column] += network.hop_latency * lanes.route(output=access.output)
            for column, wait in self.columns.waits(access.tensor, child) if network.total_latency is None else ():
                hops = network.hop_latency * lanes.route(output=access.output)
                if wait.once:
                    total.route[:, column] += hops
                else:
                    total.visits[:, column] += hops * (1 + access.output) / self._instances(table, child)
            for column, link in self.columns.links(level, access.tensor, child):
                seconds = rate / network.action("hop").throughput
                chosen = lanes.along(link.dimension)
                if link.once:
                    load = lanes.load(link.number, chosen, output=access.output, fills=not saves)
                    total.tile[:, column] += seconds * load * self._instances(table, child)
                    continue
                if link.behind:
                    chosen = chosen & self._behind(table, level, link.dimension)
                total.filled[:, column] += seconds * lanes.load(link.number, chosen, output=access.output)
                if saves and not link.behind:
                    total.starts[:, column] += seconds * lanes.load_saved(link.number, chosen)
        if not is_ragged:
            return total
        least = self._at_least(total, table)
        least.filled[:, 0] += gained
        return least

    def _at_least(self, rates: Rates, table: LaneTable) -> Rates:
        """Lower bounds where tiles are ragged."""
        even = ~table.shapes.any(axis=(1, 2))[:, None]
        filled, fresh, starts, tile = (even * part for part in (rates.filled, rates.fresh, rates.starts, rates.tile))
        return rates._replace(filled=filled * self.fullness, fresh=fresh, starts=starts, tile=tile)

    def _instances(self, table: LaneTable, level: int) -> Floats:
        """Lanes of a component at a level."""
        axes = len(next(iter(self.irrelevant.values())))
        return table.over(table.levels <= level, np.ones(axes, dtype=bool))

    def _behind(self, table: LaneTable, level: int, dimension: tuple[int, str]) -> Bools:
        """Places in the order of loops behind the first loop along another dimension whose lanes take turns.

        Its later lanes are refilled with all of the output.
        """
        output = next(access.tensor for access in self.einsum.accesses if access.output)
        network = self.leaves[level]
        assert isinstance(network, Network)
        lanes = NetworkLanes(network, table, self.irrelevant[output], output, (-1, len(self.leaves)), level)
        turns = (lanes.n > 1) & lanes.none & ~lanes.merged & ~lanes.along(dimension)
        behind: Bools = np.cumsum(turns, axis=1) - turns > 0
        return behind


def axes_without(relevance: Mapping[str, list[Relevance]]) -> dict[str, Bools]:
    """By tensor the axes that do not index it."""
    return {tensor: np.array([r is Relevance.NONE for r in axes], dtype=bool) for tensor, axes in relevance.items()}
