"""The lanes that values reach over a network, for every use of the fanouts at a time."""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from einmap.arch.component import Network
from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable

type Chain = tuple[int, ...]
"""Levels of the stations of an exchange, the parent first."""
type Dimension = tuple[int, str]
"""A fanout: level on the architecture path and name; without a name all that are below a network at the level."""


class NetworkLanes:
    """The loops that one tensor's values go along, outermost first: a column for each dimension and axis.

    `n`: lanes, 1 for loops that are not gone along; `none`: loops that do not index the tensor; `merged`: those whose
    lanes share a copy. `share`: lanes that share one on the whole way of the exchange; `above`, `above_apart`,
    `above_indexed`: lanes of the loops above the network, all, those that do not share a copy, those that index it;
    `above_turns`: whether some of these take turns. `fanouts`: size of each loop's fanout; `places`: lanes of all
    fanouts below the network, used or not; `apart`: how many of them lie between neighbours along a loop's fanout.
    """

    def __init__(
        self, network: Network, table: LaneTable, irrelevant: Bools, tensor: str, exchange: Chain, level: int
    ) -> None:
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
        self.network = network
        self.dimensions = tuple((d.level, d.dimension.name) for d in table.dimensions for _ in range(size))
        self.n: Floats = np.where(~above & (levels <= exchange[-1]), bounds, 1.0)
        self.none: Bools = none
        self.merged: Bools = merged
        self.share: Floats = np.where(merged, bounds, 1.0).prod(axis=1)
        self.above: Floats = np.where(above, bounds, 1.0).prod(axis=1)
        self.above_apart: Floats = np.where(apart, bounds, 1.0).prod(axis=1)
        self.above_indexed: Floats = np.where(above & ~none, bounds, 1.0).prod(axis=1)
        self.above_turns: Bools = (above & none & ~reusing & (bounds > 1)).any(axis=1)
        self.places = prod(sizes)
        self.fanouts: Floats = np.repeat([float(n) for n in sizes], size)[None, :]
        self.apart: Floats = np.repeat([float(prod(sizes[i + 1 :])) for i in range(len(sizes))], size)[None, :]

    def along(self, dimension: Dimension) -> Bools:
        """Loops along one fanout, or along all."""
        level, name = dimension
        chosen = [d == dimension or (not name and d[0] >= level) for d in self.dimensions]
        return np.array(chosen, dtype=bool)[None, :]

    @cached_property
    def used(self) -> Bools:
        """Loops that are gone along."""
        used: Bools = self.n > 1
        return used

    @cached_property
    def strides(self) -> Floats:
        """Steps from one lane of a loop to the next."""
        strides = np.ones_like(self.n)
        for dimension in dict.fromkeys(self.dimensions):
            here = [k for k, d in enumerate(self.dimensions) if d == dimension]
            strides[:, here] = after(self.n[:, here])
        return strides

    def shared(self, *, output: bool) -> Bools:
        """Loops whose lanes pass on what they share: one copy, or, of an output, one sum on its way back."""
        able = self.network.adds_on_the_way if output else self.network.multicast
        return self.merged & able

    def hops(self, *, output: bool) -> Floats:
        """Hops of each value that fills the child, and of an output's way back."""
        raise NotImplementedError

    def hops_saved(self) -> Floats:
        """Hops that each value saves that starts without a result."""
        raise NotImplementedError

    def route(self, *, output: bool) -> Floats:
        """Steps of the longest route."""
        raise NotImplementedError

    def load(self, number: int, chosen: Bools, *, output: bool, fills: bool = True) -> Floats:
        """Share of the values that fill the child which pass a link, in the instance of the network where most do.

        `number`: which one of the links that may be the busiest along a fanout; `chosen`: the loops along it. `fills`:
        whether those of an output come in, too.
        """
        raise NotImplementedError

    def load_saved(self, number: int, chosen: Bools) -> Floats:
        """Share of the tensor's values that start without a result and do not pass there."""
        raise NotImplementedError


def before(values: Floats) -> Floats:
    """For each column the product of those before it."""
    product = np.ones_like(values)
    if values.shape[1]:
        product[:, 1:] = np.cumprod(values, axis=1)[:, :-1]
    return product


def after(values: Floats) -> Floats:
    """For each column the product of those after it."""
    return before(values[:, ::-1])[:, ::-1]
