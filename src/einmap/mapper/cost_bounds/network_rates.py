"""What values cost on the networks that they cross, for every use of the lanes at a time.

With perfect factors all lanes of a loop get as much, so hops and the traffic of a link are linear in the values that
fill a node, as all other costs are; the rules are those of `model.traffic.network` under `exact`. Of a loop of `n`
lanes, `im` being the merged lanes of loops further in, each lane is passed `F / (n im)` values. As many of an output
come back, and of what goes down a group of merged lanes takes part in its first lane alone. Values that start without a
result go down where the exchange is charged for them. Else they are saved: evenly by the lanes of a loop that indexes
the output, by the first lane alone of one that does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from einmap.arch.component import Leaf, Network
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.projection import Relevance
from einmap.mapper.cost_bounds.columns import Columns
from einmap.mapper.mapspace.fanout_table import LaneTable

type Chain = tuple[int, ...]


class Rates(NamedTuple):
    """Costs, a row for each use of the lanes and a column of cost each.

    `filled`: of each value that fills the child; `fresh`: what is saved of the energy for each value that starts
    without a result; `starts`: what all values of the tensor that start so in the backing node save in every column;
    `route`: of the longest route.
    """

    filled: Floats
    fresh: Floats
    starts: Floats
    route: Floats


@dataclass(frozen=True)
class NetworkRates:
    """Costs of exchanges that cross a network. `irrelevant`: by tensor the lattice axes that do not index it."""

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    columns: Columns
    irrelevant: Mapping[str, Bools]

    def crossed(self, exchange: Chain) -> Iterator[tuple[int, Network]]:
        """The networks that an exchange crosses."""
        for level in range(exchange[0] + 1, exchange[-1]):
            leaf = self.leaves[level]
            if isinstance(leaf, Network):
                yield level, leaf

    def crosses(self, exchange: Chain) -> bool:
        """Whether an exchange crosses a network."""
        return any(True for _ in self.crossed(exchange))

    def of(self, table: LaneTable, access: TensorAccess, exchange: Chain, *, pays_initial: bool) -> Rates:
        """Costs of an exchange; `pays_initial`: whether fills that bring no result are charged."""
        total = Rates(*(np.zeros((len(table), self.columns.n)) for _ in Rates._fields))
        for level, network in self.crossed(exchange):
            irrelevant, ring = self.irrelevant[access.tensor], network.topology == "ring"
            lanes = _Lanes.of(table, irrelevant, access.tensor, exchange, level, ring=ring)
            rate = network.action("hop").actions_per_value[access.tensor] * network.actions_scale
            energy = rate * network.action("hop").energy
            total.filled[:, 0] += energy * lanes.hops(network, output=access.output)
            if access.output and not pays_initial:
                total.fresh[:, 0] += energy * lanes.hops_saved(network)
            for column, name in self.columns.routes(level):
                if name == access.tensor:
                    total.route[:, column] += network.hop_latency * lanes.route(network, output=access.output)
            for column, dimension, behind in self.columns.links(level, access.tensor):
                seconds = rate / network.action("hop").throughput
                if network.topology == "bus":
                    total.filled[:, column] += seconds * lanes.bus_load(network, output=access.output)
                    if access.output and not pays_initial:
                        total.starts[:, column] += seconds * lanes.bus_saved()
                    continue
                chosen = lanes.along(dimension)
                if behind:
                    chosen = chosen & self._behind(table, level, dimension)
                total.filled[:, column] += seconds * lanes.link(network, chosen, output=access.output)
                if access.output and not pays_initial and not behind:
                    total.starts[:, column] += seconds * lanes.link_saved(chosen)
        return total

    def _behind(self, table: LaneTable, level: int, dimension: tuple[int, str]) -> Bools:
        """Places in the order of loops behind the first loop along another dimension whose lanes take turns.

        Its later lanes are refilled with all of the output.
        """
        output = next(access.tensor for access in self.einsum.accesses if access.output)
        lanes = _Lanes.of(table, self.irrelevant[output], output, (-1, len(self.leaves)), level)
        turns = (lanes.n > 1) & lanes.none & ~lanes.merged & ~lanes.along(dimension)
        behind: Bools = np.cumsum(turns, axis=1) - turns > 0
        return behind


@dataclass(frozen=True)
class _Lanes:
    """The loops that one tensor's values go along, outermost first: a column for each dimension and axis.

    `n`: lanes, 1 for loops that are not gone along; `none`: loops that do not index the tensor; `merged`: those whose
    lanes share a copy. `share`: lanes that share one on the whole way of the exchange; `above`, `above_apart`,
    `above_indexed`: lanes of the loops above the network, all, those that do not share a copy, those that index it;
    `above_turns`: whether some of these take turns. `fanouts`, `apart`: on a torus the size of the loop's fanout and 1,
    on a ring that of all fanouts and the places between neighbours along this one.
    """

    dimensions: tuple[tuple[int, str], ...]
    n: Floats
    none: Bools
    merged: Bools
    share: Floats
    above: Floats
    above_apart: Floats
    above_indexed: Floats
    above_turns: Bools
    fanouts: Floats
    apart: Floats

    @classmethod
    def of(
        cls, table: LaneTable, irrelevant: Bools, tensor: str, exchange: Chain, level: int, *, ring: bool = False
    ) -> _Lanes:
        """The lanes that the network at `level` reaches in an exchange."""
        rows, size = len(table), len(irrelevant)
        levels = np.repeat(table.levels, size)[None, :]
        flat: Ints = table.orders.reshape(rows, -1)
        bounds = np.take_along_axis(table.bounds, table.orders, axis=2).reshape(rows, -1).astype(np.float64)
        none = irrelevant[flat] if size else np.zeros((rows, 0), dtype=bool)
        reusing = np.repeat([tensor in d.dimension.may_reuse for d in table.dimensions], size).astype(bool)[None, :]
        merged = none & reusing & (levels > exchange[0]) & (levels <= exchange[-1])
        above = levels < level
        apart = above & ~merged
        sizes = [d.dimension.fanout if d.level >= level else 1 for d in table.dimensions]
        return cls(
            tuple((d.level, d.dimension.name) for d in table.dimensions for _ in range(size)),
            np.where(~above & (levels <= exchange[-1]), bounds, 1.0),
            none,
            merged,
            np.where(merged, bounds, 1.0).prod(axis=1),
            np.where(above, bounds, 1.0).prod(axis=1),
            np.where(apart, bounds, 1.0).prod(axis=1),
            np.where(above & ~none, bounds, 1.0).prod(axis=1),
            (above & none & ~reusing & (bounds > 1)).any(axis=1),
            np.repeat([float(prod(sizes)) if ring else float(n) for n in sizes], size)[None, :],
            np.repeat([float(prod(sizes[i + 1 :])) if ring else 1.0 for i in range(len(sizes))], size)[None, :],
        )

    def along(self, dimension: tuple[int, str]) -> Bools:
        """Loops along one dimension."""
        return np.array([d == dimension for d in self.dimensions], dtype=bool)[None, :]

    @property
    def strides(self) -> Floats:
        """Steps from one lane of a loop to the next."""
        strides = np.ones_like(self.n)
        for dimension in dict.fromkeys(self.dimensions):
            here = [k for k, d in enumerate(self.dimensions) if d == dimension]
            strides[:, here] = _after(self.n[:, here])
        return strides

    def _shared(self, network: Network, *, output: bool) -> Bools:
        """Loops whose lanes pass on what they share: one copy, or one sum on its way back."""
        return self.merged & (network.adds_on_the_way if output else network.multicast)

    def _steps(self, network: Network, shared: Bools) -> Floats:
        """Steps to all lanes of a loop together, for one value each."""
        if network.topology == "all_to_all":
            return self.n - 1
        if network.topology in ("torus", "ring"):
            return np.where(shared, self._round(1) * (self.n - 1), sum(self._rounds()))
        return self.strides * (self.n - 1) * np.where(shared, 1.0, self.n / 2)

    def _round(self, lane: int) -> Floats:
        """Steps of the shorter way round a ring to a lane of each loop."""
        places = lane * self.strides * self.apart
        return np.minimum(places, self.fanouts - places)

    def _rounds(self) -> Iterator[Floats]:
        """Steps to each lane that a loop has, one after the other; 0 to others, and to its first lane."""
        for lane in range(int(self.n.max(initial=1.0))):
            yield np.where(lane < self.n, self._round(lane), 0.0)

    def hops(self, network: Network, *, output: bool) -> Floats:
        """Hops of each value that fills the child."""
        shared = self._shared(network, output=output)
        if network.topology == "bus":
            # one step for each group of lanes that share a copy; an output's results and what refills it one by one
            alone: Floats = np.where(shared, self.n, 1.0).prod(axis=1)
            return 1 + 1 / self.share if output else 1 / alone
        steps = self._steps(network, shared) / self.n
        one_way: Floats = (steps / _after(np.where(shared, self.n, 1.0))).sum(axis=1)
        if not output:
            return one_way
        return one_way + np.where(self.merged, 0.0, steps).sum(axis=1) / self.share

    def hops_saved(self, network: Network) -> Floats:
        """Hops that each value saves that starts without a result."""
        if network.topology == "bus":
            return np.ones(len(self.n))
        saved: Floats = np.where(self.none, 0.0, self._steps(network, self.merged) / self.n).sum(axis=1)
        return saved

    def route(self, network: Network, *, output: bool) -> Floats:
        """Steps of the longest route."""
        if network.topology == "bus":
            return np.ones(len(self.n))
        if network.topology in ("torus", "ring"):
            down = self._route_round(self._shared(network, output=False))
            return np.maximum(down, self._route_round(self._shared(network, output=True))) if output else down
        steps = self.n * self.strides if network.topology == "mesh" else np.ones_like(self.n)
        longest: Floats = np.where(self.n > 1, steps, 0.0).sum(axis=1)
        return longest

    def _route_round(self, shared: Bools) -> Floats:
        """The way to the farthest lane of each loop, and the step into its first one."""
        farthest = np.where(shared, self._round(1) * (self.n - 1), np.max(list(self._rounds()), axis=0))
        longest: Floats = np.where(self.n > 1, farthest + self.strides, 0.0).sum(axis=1)
        return longest

    def bus_load(self, network: Network, *, output: bool) -> Floats:
        """Share of the values that pass the bus of the instance where most do."""
        if not output:
            return self.hops(network, output=False) / self.above
        # of instances that share one sum, the first one is refilled
        return 1 / self.above + 1 / (self.share * self.above_apart)

    def bus_saved(self) -> Floats:
        """Share of the tensor's values that start without a result and do not pass there."""
        return np.where(self.above_turns, 0.0, 1 / self.above_indexed)

    def link(self, network: Network, chosen: Bools, *, output: bool) -> Floats:
        """Share of the values that pass the first link of some loops, where most do."""
        shared = self._shared(network, output=output)
        sent = np.where(shared, np.minimum(self.n - 1, 1), self.n - 1) / self.n
        inner = _after(np.where(shared, self.n, 1.0))
        passing = sent / (inner * _before(self.n) * self.above[:, None])
        if output:
            apart = _before(np.where(self.merged, 1.0, self.n)) * self.above_apart[:, None] * self.share[:, None]
            passing = passing + np.where(self.merged, 0.0, sent / apart)
        total: Floats = np.where(chosen, passing, 0.0).sum(axis=1)
        return total

    def link_saved(self, chosen: Bools) -> Floats:
        """Share of the tensor's values that start without a result and do not pass there."""
        indexed = np.where(self.none, 1.0, self.n)
        saved = (self.n - 1) / (indexed * _before(indexed) * self.above_indexed[:, None])
        total: Floats = np.where(chosen & ~self.none, saved, 0.0).sum(axis=1)
        return np.where(self.above_turns, 0.0, total)


def _before(values: Floats) -> Floats:
    """For each column the product of those before it."""
    product = np.ones_like(values)
    if values.shape[1]:
        product[:, 1:] = np.cumprod(values, axis=1)[:, :-1]
    return product


def _after(values: Floats) -> Floats:
    """For each column the product of those after it."""
    return _before(values[:, ::-1])[:, ::-1]


def axes_without(relevance: Mapping[str, list[Relevance]]) -> dict[str, Bools]:
    """By tensor the axes that do not index it."""
    return {tensor: np.array([r is Relevance.NONE for r in axes], dtype=bool) for tensor, axes in relevance.items()}
