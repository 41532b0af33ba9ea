"""Coefficients of cost and sizes of tiles on one path with some uses of the lanes, as arrays over lanes and lattice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.coefficients import Chain, NodeCosts, Pricer
from einmap.mapper.cost_bounds.tile_limits import within_limits
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.lanes.fanout_tree import Prefixes
from einmap.mapper.mapspace.layout import layout_of, top_values
from einmap.mapper.templates.chain_template import Held

# 1,000 and 400,000 take as long within 5 % (mapper_vs_peer.py, mapper_topologies.py): it limits room
FEW_POINTS = 20_000
"""Points of a lattice up to which arrays with an element for each are kept for other blocks of tables, and for other
searches of the path.
"""
NO_LINES: Floats = np.zeros((0, 0))


@dataclass(eq=False)
class PathCosts:
    """Costs and needs of a storage node at a point of the lattice, for some uses of the lanes."""

    pricer: Pricer
    lanes: LaneTable
    fanouts: tuple[int, ...]

    def __post_init__(self) -> None:
        self.einsum, self.leaves = self.pricer.einsum, self.pricer.leaves
        self.lattice, self.rules = self.pricer.lattice, self.pricer.rules
        self.columns = self.pricer.columns.n
        """Number of columns of cost."""
        self.prefixes = Prefixes(self.lattice, self.fanouts, self.lanes)
        self.tensors = [a.tensor for a in self.einsum.accesses]
        self.below = self.lattice.packed("below")
        self.covers = self.lattice.packed("covers")
        self.layout = layout_of(self.lattice, self.einsum)
        self.divides, self.quotients = self.prefixes.divides, self.prefixes.quotients
        self.multiples = _inverted(self.quotients)
        self.child_start, self.children = self.prefixes.children()
        self.memories = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Memory)]
        # the last one stands for memories of other paths
        self.capacity = np.array([*(self.memory(i).size_bits for i in self.memories), math.inf], dtype=np.float64)
        self.leak = self._leak()
        self.sizes = top_values(self.lattice, self.einsum)
        self.computed: dict[tuple[Any, ...], Any] = {}
        """Arrays that several nodes have in common, by kind and what they depend on."""
        # what fits depends on the lanes in units of an array, and on chances where there are zeros
        self._is_alone = (
            self.lattice.size > FEW_POINTS or bool(self.pricer.units.levels) or type(self.pricer) is not Pricer
        )

    @property
    def of_path(self) -> dict[tuple[Any, ...], Any]:
        """As `computed`, of what does not depend on the lanes: all searches of the path have it in common."""
        return self.computed if self._is_alone else self.pricer.of_path

    @property
    def values(self) -> Floats:
        """Values in each tensor's tile (a row for each access), for each point."""
        return self.lattice.filled(self.einsum)[0]

    @property
    def fills(self) -> Floats:
        """Values in all fills of each tensor's tile, for each point."""
        return self.lattice.filled(self.einsum)[1]

    @property
    def coord(self) -> Ints:
        """Position on each axis, for each point."""
        return self.lattice.coord

    @cached_property
    def below_lanes(self) -> Ints:
        """Position on each axis below the lanes of each prefix without loops, -2 where they do not divide the bound."""
        tops, prefixes = self.lattice.radices - 1, self.prefixes
        at = np.repeat(tops[None, :], prefixes.n, axis=0)
        for r in range(1, len(prefixes.tables)):
            rows = slice(prefixes.first[r], prefixes.first[r + 1])
            above = at[prefixes.parents[r]]
            divided = self.quotients[self.divides[rows], np.maximum(above, 0)]
            at[rows] = np.where((above < 0) | (divided < 0), -2, divided)
        return at

    def memory(self, level: int) -> Memory:
        """The memory at a level of the path."""
        leaf = self.leaves[level]
        assert isinstance(leaf, Memory)
        return leaf

    def _leak(self) -> Floats:
        """Least leakage of each prefix."""
        least = np.full(self.prefixes.n, np.inf)
        last = self.prefixes.tables[-1]
        begin = self.prefixes.first[len(self.prefixes.tables) - 1]
        least[begin:] = self.pricer.leak_power(last)
        for r in reversed(range(1, len(self.prefixes.tables))):
            np.minimum.at(least, self.prefixes.parents[r], least[self.prefixes.first[r] : self.prefixes.first[r + 1]])
        return least

    def lanes_of(self, prefix: int) -> tuple[Ints, Ints, Ints]:
        """Bounds, uneven tile shapes and order of each dimension's axes for a prefix of all fanouts."""
        table = self.prefixes.tables[-1]
        row = prefix - self.prefixes.first[len(self.prefixes.tables) - 1]
        return table.use(row)

    def allowed(self, node: Held) -> Bools:
        """Points at which a node fits by itself and keeps the limits on tile shapes."""
        key, of_path = ("allowed", node), self.of_path
        if key not in of_path:
            memory = self.memory(node.level)
            fits = np.ones(self.lattice.size, dtype=bool)
            if math.isfinite(memory.size_bits) and not self.lowers(node):
                values = self.values[self.tensors.index(node.tensor)]
                if node.backing:
                    values = self.einsum.by_tensor[node.tensor].stored(values, self.einsum.extents)
                fits &= values * self.bits_of(node) <= memory.size_bits
            if node.first:
                fits &= within_limits(memory.placement, self.lattice)
            of_path[key] = fits
        allowed: Bools = of_path[key]
        return allowed

    def bits_of(self, node: Held) -> float:
        """Bits of each value of a node's tile in its memory; of several units in the fullest one at least."""
        bits = float(self.memory(node.level).bits[node.tensor])
        if node.level not in self.pricer.units.levels:
            return bits
        return bits * float(self.pricer.in_units(self.lanes, node.tensor, node.level).held.min(initial=1.0))

    @property
    def knows_costs(self) -> bool:
        """Whether an outer nest that costs more so far than one that goes on alike may be left out."""
        return True

    def bits_outside(self, level: int, tensor: str) -> float:
        """Bits of each value of a tensor in a memory as other Einsums see it."""
        return float(self.memory(level).bits[tensor])

    def inside(self, node: Held) -> Ints:
        """Points inside of some point at which a node may stand by itself, in order."""
        key, of_path = ("inside", node), self.of_path
        if key not in of_path:
            placement = self.memory(node.level).placement
            limited = node.first and placement is not None and placement.tile_shape
            # a tile that fits has only tiles that fit inside; limits on tile shapes may hold outside only
            of_path[key] = np.arange(self.lattice.size) if limited else np.flatnonzero(self.allowed(node))
        points: Ints = of_path[key]
        return points

    def lowers(self, node: Held) -> bool:
        """Whether its space is reserved below the loops that follow it."""
        return self.rules.lowering and not node.backing

    def fits_lowered(self, node: Held) -> Bools:
        """Points after the following loops at which a lowered node can fit."""
        key, of_path = ("lowered", node.tensor, node.level), self.of_path
        if key not in of_path:
            memory = self.memory(node.level)
            is_partial = any(r is Relevance.PARTIAL for r in self.pricer.axis_relevance[node.tensor])
            values = self.values[self.tensors.index(node.tensor)]
            of_path[key] = np.full(len(values), is_partial) | (values * memory.bits[node.tensor] <= memory.size_bits)
        fits: Bools = of_path[key]
        return fits

    def rates_of(self, chains: Mapping[str, Chain], node: Held, r: int) -> NodeCosts:
        """Rows of `pricer.node` for the prefixes of the first r fanouts, the same for chains with the same tail."""
        key = self.rates_key(chains, node, r)
        if key not in self.computed:
            self.computed[key] = self._rates_of(chains, node, r)
        rates: NodeCosts = self.computed[key]
        return rates

    def _rates_of(self, chains: Mapping[str, Chain], node: Held, r: int) -> NodeCosts:
        chain = chains[node.tensor]
        if not self.pricer.units.levels:
            return self.pricer.node(self.prefixes.tables[r], node.tensor, chain, node.level, node.within)
        # what lies in units depends on lanes further in, too: the least over these
        each = self.pricer.node(self.lanes, node.tensor, chain, node.level, node.within)
        least = [np.full((len(self.prefixes.tables[r]), rows.shape[1]), np.inf) for rows in each]
        for rows, of_uses in zip(least, each, strict=True):
            np.minimum.at(rows, self.prefixes.number_of[r], of_uses)
        return NodeCosts(*least)

    def rates_key(self, chains: Mapping[str, Chain], node: Held, r: int) -> tuple[object, ...]:
        """Key of everything that the rows of `rates_of` depend on."""
        return "rates", node.tensor, node.level, node.within, r, self.pricer.tail(chains[node.tensor], node.level)

    def lines_of(self, chains: Mapping[str, Chain], node: Held) -> Floats:
        """Numbers at each point, a row for each kind (`Pricer.weights`); no rows where nothing is paid by them."""
        if not self.pricer.kinds:
            return NO_LINES
        return self.lines_between(
            node.tensor, self.pricer.exchanges(self.pricer.tail(chains[node.tensor], node.level))[0]
        )

    def lines_between(self, tensor: str, exchange: Chain) -> Floats:
        """As `lines_of`, for the node at the end of an exchange."""
        key = "lines", tensor, exchange
        if key not in self.computed:
            self.computed[key] = self.pricer.weights(tensor, exchange)
        lines: Floats = self.computed[key]
        return lines

    def constants_of(self, chains: Mapping[str, Chain]) -> Floats:
        """Rows of `pricer.constants` for the uses of all fanouts."""
        return self.pricer.constants(self.prefixes.tables[-1], chains)


def _inverted(quotients: Ints) -> Ints:
    """For each row and position the one that is divided to it, -1 where there is none."""
    inverse = np.full_like(quotients, -1)
    rows, positions = np.nonzero(quotients >= 0)
    inverse[rows, quotients[rows, positions]] = positions
    return inverse
