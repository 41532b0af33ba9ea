"""Cost of one storage node: coefficients of the values that pass, for every use of the lanes at a time.

With perfect factors the values that a node is filled with in all (`F`) depend on nothing but the point of the
lattice at which it stands, and every cost is linear in the `F` of the nodes. The coefficients follow
`model.traffic`; see there for the rules. With `m` lanes merged between child and parent and `S` values that start
without a result at the parent:

    exact:       a fill brings  F/m - S  live values at each station; S of the child = S + F (1 - 1/m)
    accelforge:  it brings  F/(lanes merged so far) - S  with S the tensor's size times its unmerged irrelevant lanes
"""

# What all uses of the fanouts have in common is worked out once and kept with the whole table (FEW_USES), since
# searches of parts of them ask again; that is a third of the time of an Einsum in a cascade.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from einmap.arch.component import Compute, Leaf, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.columns import Columns, columns_of, waits_for_hops
from einmap.mapper.cost_bounds.networks.rates import NetworkRates, Rates, axes_without
from einmap.mapper.cost_bounds.rates.affine import Affine
from einmap.mapper.cost_bounds.rates.exchange_costs import (
    ExchangeCosts,
    Priced,
    each_flow,
    free_start,
    levels_of,
    stations_of,
)
from einmap.mapper.cost_bounds.rates.leakage import leak_power
from einmap.mapper.cost_bounds.rates.line_rates import KINDS, LineRates, moves_lines
from einmap.mapper.cost_bounds.rates.unit_fills import (
    ONE_TIME,
    Fills,
    TileValues,
    UnitFills,
    Visits,
    busiest_lanes,
)
from einmap.mapper.cost_bounds.rates.way_costs import ends_of_ways, way_between
from einmap.mapper.cost_bounds.units import UnitRates, UnitShare
from einmap.mapper.mapspace.lanes.fanout_table import FEW_USES, Fanned, LaneTable
from einmap.mapper.mapspace.latency_forms import compute_seconds
from einmap.mapper.mapspace.layout import top_values
from einmap.mapper.mapspace.tile_lattice import Lattice
from einmap.model.counting.path import Station
from einmap.model.counting.semantics import Semantics
from einmap.model.timing.buffering import turns
from einmap.model.timing.systolic import is_skewed, step_seconds
from einmap.model.traffic.actions import Actions, of_one_visit, with_transfers
from einmap.model.traffic.tensor_traffic import Exchange, TensorTraffic

type Chain = tuple[int, ...]
"""Levels of the stations of one tensor from the outside in: its memories and tolls, then the compute."""


class NodeCosts(NamedTuple):
    """Cost of a storage node, a row for each use of the lanes and a column of cost each.

    `rates`: of each value that fills it; `fixed`: the same for all tile shapes; `per_visit`: of each of its visits,
    then of each value of one tile, in as many columns again; without columns where neither costs anything. Where lines
    are moved, columns follow for each kind of `LineRates.weights`.
    """

    rates: Floats
    fixed: Floats
    per_visit: Floats


def pays_for_visits(leaves: tuple[Leaf, ...]) -> bool:
    """Whether something on a path of the architecture is paid for each visit of a node."""
    starts = any(isinstance(leaf, Memory) and leaf.starts for leaf in leaves)
    starts |= any(waits_for_hops(leaves, level) for level, once in turns(leaves) if not once)
    return starts or is_skewed(leaves) or moves_lines(leaves)


@dataclass
class Pricer:
    """Coefficients on one architecture path. All arrays have a row for each use of the lanes.

    `per_turn`: how often a value passes a node depends on loops that are shared, so that nodes have no part of its way.
    """

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    lattice: Lattice
    rules: Semantics
    per_turn: bool = False
    columns: Columns = field(init=False)
    of_path: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False)
    """Arrays that do not depend on the lanes, for all who search the path; see `PathCosts.of_path`."""
    _known: WeakKeyDictionary[LaneTable, dict[tuple[object, ...], Any]] = field(init=False)
    _exchanges: dict[Chain, tuple[Chain, ...]] = field(init=False)
    _tails: dict[tuple[Chain, int], Chain] = field(init=False)

    def __post_init__(self) -> None:
        self._known = WeakKeyDictionary()
        self._exchanges, self._tails = {}, {}
        self.columns = columns_of(self.einsum, self.leaves)
        self.axis_relevance = {
            access.tensor: [access.relevance(axis.variables[0]) for axis in self.lattice.axes]
            for access in self.einsum.accesses
        }
        self.fills = UnitFills(self.einsum, self.arch, self.leaves, self.lattice, self.rules)
        self.lines = LineRates(self.einsum, self.arch, self.leaves, self.lattice)
        irrelevant = axes_without(self.axis_relevance)
        variables = tuple(axis.variables[0] for axis in self.lattice.axes)
        self.units = UnitRates(self.einsum, self.leaves, irrelevant, variables)
        of_tiles = self.lattice.fullness, self.lattice.excess
        self.networks = NetworkRates(self.einsum, self.leaves, self.columns, irrelevant, self.units, *of_tiles)

    def _once[T](self, table: LaneTable, key: tuple[object, ...], find: Callable[[LaneTable], T]) -> T:
        """Values for each use of the lanes, a row each, kept for the next one who asks; not to be changed."""
        whole, rows = table.kept_with
        if len(whole) > FEW_USES:
            return find(table)
        of_table = self._known.setdefault(whole, {})
        if key not in of_table:
            of_table[key] = find(whole)
        values: T = of_table[key] if rows is None else _some(of_table[key], rows)
        return values

    @cached_property
    def _sizes(self) -> dict[str, float]:
        """Values of each tensor."""
        sizes = top_values(self.lattice, self.einsum)
        return {access.tensor: float(size) for access, size in zip(self.einsum.accesses, sizes, strict=True)}

    # lanes

    def lanes(self, table: LaneTable, level: int) -> Floats:
        """Instances of a component at `level` that are used."""
        everywhere = np.ones(len(self.lattice.axes), dtype=bool)
        return self._once(table, ("lanes", level), lambda t: t.over(t.levels <= level, everywhere))

    def merged(self, table: LaneTable, tensor: str) -> Floats:
        """Lanes that share one copy of a tensor's tile."""
        reusing = np.array([tensor in d.dimension.may_reuse for d in table.dimensions], dtype=bool)
        return table.over(reusing, self._irrelevant(tensor))

    def _irrelevant(self, tensor: str) -> Bools:
        return np.array([r is Relevance.NONE for r in self.axis_relevance[tensor]], dtype=bool)

    # coefficients

    def constants(self, table: LaneTable, chains: Mapping[str, Chain]) -> Floats:
        """Costs of the operations and of what the compute exchanges with the innermost memories."""
        exchanges, ends = self.on_which_constants_depend(chains)
        constants = self._once(table, exchanges, lambda t: self._constants(t, exchanges))
        return constants + np.array(ends) if ends else constants

    def on_which_constants_depend(self, chains: Mapping[str, Chain]) -> tuple[tuple[Chain, ...], tuple[float, ...]]:
        """The last exchange of each tensor, and `ends_of_ways`."""
        return tuple(self.last_exchange(chains[a.tensor]) for a in self.einsum.accesses), self.ends_of_ways(chains)

    def ends_of_ways(self, chains: Mapping[str, Chain]) -> tuple[float, ...]:
        """Of each column the seconds of one operation and of a value's way between it and the innermost memories.

        Nothing where no action takes time until its value is there. The nodes have the rest of a way (`_node`).
        """
        if not self.columns.ways:
            return ()
        return ends_of_ways(self.einsum, self.leaves, self.columns, {t: self.exchanges(c) for t, c in chains.items()})

    def _constants(self, table: LaneTable, exchanges: tuple[Chain, ...]) -> Floats:
        inside = max(exchange[0] for exchange in exchanges)
        total = self._once(table, ("operations", inside), lambda t: self.operations(t, inside)).copy()
        for access, exchange in zip(self.einsum.accesses, exchanges, strict=True):
            total += self.innermost(table, access, exchange)
        return total

    def operations(self, table: LaneTable, inside: int) -> Floats:
        """Costs of the operations alone; `inside`: level of the innermost memory that the compute exchanges with."""
        total = np.zeros((len(table), self.columns.n))
        unit = self.leaves[-1]
        assert isinstance(unit, Compute)
        total[:, 0] += self._n_operations * unit.actions_scale * unit.action("compute").energy
        seconds = compute_seconds(unit, self._n_operations / self.lanes(table, len(self.leaves) - 1), self.einsum.name)
        seconds = seconds + self._waiting(table, lambda d: d.dimension.skew == "once" or d.level > inside)
        total[:, self.columns.computing] += seconds[:, None]
        return total

    def innermost(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        """Costs of what the compute exchanges of a tensor with its innermost memory."""
        key = "innermost", access.tensor, exchange
        return self._once(table, key, lambda t: self._innermost(t, access, exchange))

    def _innermost(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        costs = self.exchange_costs(table, access, exchange)
        return costs.fixed + self._n_operations * costs.rates

    @cached_property
    def _n_operations(self) -> int:
        return math.prod(b for _, b in self.einsum.bounds)

    def node(self, table: LaneTable, tensor: str, chain: Chain, level: int, within: int) -> NodeCosts:
        """Cost of the tensor's node at `level`; `within`: the deepest level of the nodes further in, -1 without any.

        What it is filled with costs nothing where it is the outermost node.
        """
        tail = self.tail(chain, level)
        key = "node", tensor, level, within, tail
        return self._once(
            table,
            key,
            lambda t: NodeCosts(*self._node(t, tensor, tail, level), self._per_visit(t, tensor, tail, level, within)),
        )

    @cached_property
    def kinds(self) -> int:
        """Numbers of a node, other than values and visits, by which it is paid for."""
        return KINDS if moves_lines(self.leaves) else 0

    def weights(self, tensor: str, exchange: Chain) -> Floats:
        """Numbers of the node at the end of an exchange, (kinds, points of the lattice)."""
        return self.lines.weights(tensor, exchange)

    @cached_property
    def visits_cost(self) -> bool:
        """Whether something is paid for each visit of a node."""
        return pays_for_visits(self.leaves)

    def _per_visit(self, table: LaneTable, tensor: str, tail: Chain, level: int, within: int) -> Floats:
        """Seconds of each visit of a node, all instances counted: transfers that begin, folds of an array."""
        if not self.visits_cost and not turns(self.leaves):
            return np.zeros((len(table), 0))
        exchange = self.exchanges(tail)[0]
        waiting = self._waiting(
            table, lambda d: d.dimension.skew == "each_fold" and within < d.level <= level
        ) / self.lanes(table, level)
        of_visits, of_one = np.zeros((2, len(table), self.columns.n))
        of_lines = np.zeros((len(table), self.columns.n * self.kinds))
        if exchange[-1] == level:
            costs = self.exchange_costs(table, self.einsum.by_tensor[tensor], tail)
            of_visits, of_one, of_lines = costs.visits, costs.tile, costs.lines
        of_visits = of_visits.copy()
        of_visits[:, self.columns.computing] += waiting[:, None]
        return np.hstack([of_visits, of_one, of_lines])

    def _waiting(self, table: LaneTable, counts: Callable[[Fanned], bool]) -> Floats:
        """Seconds that the last lane waits along the skewed dimensions that count."""
        unit = self.leaves[-1]
        assert isinstance(unit, Compute)
        steps = np.zeros(len(table))
        for d, fanned in enumerate(table.dimensions):
            if fanned.dimension.skew != "none" and counts(fanned):
                steps += table.bounds[:, d].prod(axis=1) - 1.0
        return steps * unit.actions_scale * step_seconds(unit)

    def _node(self, table: LaneTable, tensor: str, tail: Chain, level: int) -> tuple[Floats, Floats]:
        if self.exchanges(tail)[0][-1] != level:
            return self._nothing(table), self._nothing(table)
        access = self.einsum.by_tensor[tensor]
        costs = self.exchange_costs(table, access, tail)
        fixed = costs.fixed
        if self.columns.ways and not self.per_turn:
            fixed = fixed + way_between(self.leaves, self.columns, access, self.exchanges(tail)[0])
        return costs.rates, fixed

    def _nothing(self, table: LaneTable) -> Floats:
        """No costs."""
        return np.broadcast_to(0.0, (len(table), self.columns.n))

    def tail(self, chain: Chain, level: int) -> Chain:
        """The part of a tensor's chain on which the cost of its node at `level` depends."""
        if (chain, level) not in self._tails:
            begin = next((exchange[0] for exchange in self.exchanges(chain) if exchange[-1] == level), chain[0])
            self._tails[chain, level] = chain[chain.index(begin) :]
        return self._tails[chain, level]

    def exchanges(self, chain: Chain) -> tuple[Chain, ...]:
        """Levels from each parent to its child, tolls between."""
        if chain not in self._exchanges:
            ends = [0, *(end for end in range(1, len(chain)) if not isinstance(self.leaves[chain[end]], Toll))]
            self._exchanges[chain] = tuple(chain[begin : end + 1] for begin, end in pairwise(ends))
        return self._exchanges[chain]

    def last_exchange(self, chain: Chain) -> Chain:
        """The compute, its innermost memory and the tolls between."""
        return self.exchanges(chain)[-1]

    def exchange_costs(self, table: LaneTable, access: TensorAccess, tail: Chain) -> ExchangeCosts:
        """Cost of the outermost exchange of a chain."""
        return self._once(table, ("exchange", access.tensor, tail), lambda t: self._exchange_costs(t, access, tail))

    def _exchange_costs(self, table: LaneTable, access: TensorAccess, tail: Chain) -> ExchangeCosts:
        traffic = self._traffic(table, access, tail)
        outermost, *inner = [e for e in reversed(traffic.exchanges) if e.parent.level >= tail[0]]
        child, uses, size = outermost.child.level, len(table), self._sizes[access.tensor]
        priced, fills = Priced(self.columns, uses, size), Fills(child)
        lines = np.zeros((KINDS if moves_lines(self.leaves) else 0, uses, self.columns.n))
        for at in stations_of(outermost):
            of_lines = self._by_lines(access, child, at.level)
            own = Priced(self.columns, uses) if of_lines else priced
            for done, values, busiest in each_flow(traffic, outermost, at):
                own.add(at, child, done, *self._of_units(table, access.tensor, at.level, child, values, busiest))
            if of_lines:
                kind = 0 if at is outermost.parent else 2
                lines[kind], lines[kind + 1] = own.at(fills), own.at(None)
            if self.visits_cost or turns(self.leaves):
                self._add_visits(priced, traffic, outermost, at)
        rates, fixed = priced.at(fills), priced.at(None) + priced.at(ONE_TIME)
        for exchange in inner if access.output else ():
            again = Affine.of(traffic.flow(exchange, exchange.child).initial).terms.get(fills)
            if again is not None:
                # lanes that are not the first of their group start anew at each visit: nothing live to be fetched
                rates[:, 0] -= again * self._free_start(table, access, traffic, exchange)
        if self.networks.crosses(levels_of(outermost)):
            crossing = self._crossing(table, access, outermost, traffic)
            rates, fixed = rates + crossing.filled, fixed - size * (crossing.fresh + crossing.starts) + crossing.route
            if self.visits_cost or turns(self.leaves):
                priced.at(Visits(child))[:] += crossing.visits
                priced.at(TileValues(child))[:] += crossing.tile
        every_line = np.concatenate([*lines, np.zeros((uses, 0))], axis=1)
        return ExchangeCosts(rates, fixed, priced.at(Visits(child)), priced.at(TileValues(child)), every_line)

    def _free_start(
        self, table: LaneTable, access: TensorAccess, traffic: TensorTraffic, exchange: Exchange
    ) -> Floats | float:
        """J that a value of an exchange costs less where it has no result yet."""
        saved = free_start(traffic, exchange)
        if not self.networks.crosses(levels_of(exchange)):
            return saved
        return saved + self._crossing(table, access, exchange, traffic).fresh[:, 0]

    def _traffic(self, table: LaneTable, access: TensorAccess, tail: Chain) -> TensorTraffic:
        """The model's traffic of a tensor in the stations of a tail, below the outermost memory of the path."""
        lanes = self._once(table, ("lanes of", access.tensor), lambda t: self.fills.lanes(t, access))
        top = next(i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Memory))
        return self.fills.traffic(table, lanes, access, tail if tail[0] == top else (top, *tail))

    def _add_visits(self, priced: Priced, traffic: TensorTraffic, exchange: Exchange, at: Station) -> None:
        """Add the transfers in which the visits of a child come, and what one of its visits takes by itself."""
        child, (lane, _, _) = exchange.child, busiest_lanes(traffic, at)
        takes = traffic.takes(child, at, lane)
        done = with_transfers(traffic, exchange, at, (lane, takes), Actions(0, 0))
        priced.add_starts(at, child.level, done)
        if self.columns.of(at.level, child.level, once=True):
            priced.add_once(at, child.level, of_one_visit(traffic, exchange, at, lane))

    def _of_units(
        self, table: LaneTable, tensor: str, level: int, child: int, everywhere: Affine, busiest: Affine
    ) -> tuple[Affine, Affine]:
        """Values that the units of a memory pay for, all of them and the one that has most."""
        if level not in self.units.levels:
            return everywhere, busiest
        of_units = self.in_units(table, tensor, level)
        copies, fullest = (of_units.copies, of_units.held) if level == child else of_units[2:]
        live = {u: term * (copies if u is not None else 1.0) for u, term in everywhere.terms.items()}
        most = {u: term * (fullest if u is not None else of_units.held) for u, term in busiest.terms.items()}
        return Affine(live), Affine(most)

    def _by_lines(self, access: TensorAccess, child: int, at: int) -> bool:
        """Whether lines are counted for a station; the compute asks for values one by one, each of which is a line."""
        return self.lines.layout(access.tensor, at) is not None and child < len(self.leaves) - 1

    def _crossing(self, table: LaneTable, access: TensorAccess, exchange: Exchange, traffic: TensorTraffic) -> Rates:
        """Cost of an exchange on the networks that it crosses."""
        pays, levels = traffic.pays_initial(exchange, exchange.child), levels_of(exchange)
        key = "crossing", access.tensor, levels
        return self._once(table, key, lambda t: self.networks.of(t, access, levels, pays_initial=pays))

    def in_units(self, table: LaneTable, tensor: str, level: int) -> UnitShare:
        """Share of a tensor in the units of the memory at a level."""
        return self._once(table, ("units", tensor, level), lambda t: self.units.share(t, tensor, level))

    # leakage

    def leak_power(self, table: LaneTable) -> Floats:
        """W of everything that is not gated."""
        return self._once(table, ("leak",), lambda t: leak_power(self.arch, self.leaves[-1].name, t))


def _some(arrays: Any, rows: Ints) -> Any:
    """Some rows of an array, or of each of those of a node."""
    return arrays[rows] if isinstance(arrays, np.ndarray) else type(arrays)(*(array[rows] for array in arrays))
