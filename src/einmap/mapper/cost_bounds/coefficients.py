"""What one storage node costs: coefficients of the values that pass, for every use of the lanes at a time.

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
from einmap.mapper.cost_bounds.columns import Columns, columns_of
from einmap.mapper.cost_bounds.leakage import leak_power
from einmap.mapper.cost_bounds.line_rates import KINDS, LineRates, moves_lines
from einmap.mapper.cost_bounds.network_rates import NetworkRates, Rates, axes_without
from einmap.mapper.cost_bounds.units.rates import UnitRates, UnitShare
from einmap.mapper.cost_bounds.way_costs import ends_of_ways, way_between
from einmap.mapper.mapspace.lanes.fanout_table import FEW_USES, Fanned, LaneTable
from einmap.mapper.mapspace.latency_forms import Form, compute_seconds
from einmap.mapper.mapspace.layout import top_values
from einmap.mapper.mapspace.tile_lattice import Lattice
from einmap.model.counting.semantics import Semantics
from einmap.model.timing.buffering import turns
from einmap.model.timing.systolic import is_skewed, step_seconds

type Chain = tuple[int, ...]
"""Levels of the stations of one tensor from the outside in: its memories and tolls, then the compute."""


class NodeCosts(NamedTuple):
    """What a storage node costs, a row for each use of the lanes and a column of cost each.

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
    _known: WeakKeyDictionary[LaneTable, dict[tuple[object, ...], Any]] = field(init=False)
    _exchanges: dict[Chain, tuple[Chain, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self._known = WeakKeyDictionary()
        self._exchanges = {}
        self.columns = columns_of(self.einsum, self.leaves)
        self.axis_relevance = {
            access.tensor: [access.relevance(axis.variables[0]) for axis in self.lattice.axes]
            for access in self.einsum.accesses
        }
        self.lines = LineRates(self.einsum, self.leaves, self.lattice)
        irrelevant = axes_without(self.axis_relevance)
        variables = tuple(axis.variables[0] for axis in self.lattice.axes)
        self.units = UnitRates(self.einsum, self.leaves, irrelevant, variables)
        self.networks = NetworkRates(self.einsum, self.leaves, self.columns, irrelevant, self.units)

    def _once[T](self, table: LaneTable, key: tuple[object, ...], find: Callable[[LaneTable], T]) -> T:
        """What is found for each use of the lanes, a row each, kept for the next one who asks; not to be changed."""
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

    def merged(self, table: LaneTable, tensor: str, outer: int, inner: int) -> Floats:
        """Lanes that share one copy of the tensor's tile on the way from `inner` up to `outer`."""

        def find(table: LaneTable) -> Floats:
            reusing = self._between(table, outer, inner) & self._reuses(table, tensor)
            return table.over(reusing, self._irrelevant(tensor))

        return self._once(table, ("merged", tensor, outer, inner), find)

    def unmerged(self, table: LaneTable, tensor: str, outer: int, inner: int) -> Floats:
        """Irrelevant lanes there that do not share it."""
        return table.counted(
            self._between(table, outer, inner) & ~self._reuses(table, tensor), self._irrelevant(tensor)
        )

    def indexed(self, table: LaneTable, tensor: str, level: int) -> Floats:
        """Lanes at `level` that use different parts of the tensor."""
        return table.over(table.levels <= level, ~self._irrelevant(tensor))

    def _between(self, table: LaneTable, outer: int, inner: int) -> Bools:
        between: Bools = (table.levels > outer) & (table.levels <= inner)
        return between

    def _reuses(self, table: LaneTable, tensor: str) -> Bools:
        return np.array([tensor in d.dimension.may_reuse for d in table.dimensions], dtype=bool)

    def _irrelevant(self, tensor: str) -> Bools:
        return np.array([r is Relevance.NONE for r in self.axis_relevance[tensor]], dtype=bool)

    # coefficients

    def constants(self, table: LaneTable, chains: Mapping[str, Chain]) -> Floats:
        """Costs of the operations and of what the compute exchanges with the innermost memories."""
        exchanges = tuple(self.last_exchange(chains[access.tensor]) for access in self.einsum.accesses)
        constants = self._once(table, exchanges, lambda t: self._constants(t, exchanges))
        ends = self.ends_of_ways(chains)
        return constants + np.array(ends) if ends else constants

    def ends_of_ways(self, chains: Mapping[str, Chain]) -> tuple[float, ...]:
        """Of each column the seconds of one operation and of a value's way between it and the innermost memories.

        Nothing where no action takes time until its value is there. The nodes have the rest of a way (`_node`).
        """
        if not self.columns.ways:
            return ()
        return ends_of_ways(self.einsum, self.leaves, self.columns, {t: self.exchanges(c) for t, c in chains.items()})

    def _constants(self, table: LaneTable, exchanges: tuple[Chain, ...]) -> Floats:
        total = np.zeros((len(table), self.columns.n))
        unit = self.leaves[-1]
        assert isinstance(unit, Compute)
        action = unit.action("compute")
        operations = math.prod(b for _, b in self.einsum.bounds)
        total[:, 0] += operations * unit.actions_scale * action.energy
        seconds = compute_seconds(unit, operations / self.lanes(table, len(self.leaves) - 1), self.einsum.name)
        inside = max(exchange[0] for exchange in exchanges)
        seconds = seconds + self._waiting(table, lambda d: d.dimension.skew == "once" or d.level > inside)
        total[:, self.columns.computing] += seconds[:, None]
        for access, exchange in zip(self.einsum.accesses, exchanges, strict=True):
            total += self.starts(table, access, exchange)
            total += operations * self.rates(table, access, exchange)
            total += self._routes(table, access, exchange)
        return total

    def node(self, table: LaneTable, tensor: str, chain: Chain, level: int, within: int) -> NodeCosts:
        """What the tensor's node at `level` costs; `within`: the deepest level of the nodes further in, -1 without any.

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
    def visits_cost(self) -> bool:
        """Whether something is paid for each visit of a node."""
        return pays_for_visits(self.leaves)

    def _per_visit(self, table: LaneTable, tensor: str, tail: Chain, level: int, within: int) -> Floats:
        """Seconds of each visit of a node, all instances counted: transfers that begin, folds of an array."""
        if not self.visits_cost and not turns(self.leaves):
            return np.zeros((len(table), 0))
        total, once = np.zeros((2, len(table), self.columns.n))
        exchange = self.exchanges(tail)[0]
        access = self.einsum.by_tensor[tensor]
        is_output = access.output
        for at in exchange if exchange[-1] == level else ():
            unit = self.leaves[at]
            if not isinstance(unit, Memory):
                continue
            inward, outward = ("write", "read") if at == level else ("read", "write")
            seconds = unit.action(inward).startup + (unit.action(outward).startup if is_output else 0.0)
            lane = 1 / (self.merged(table, tensor, at, level) * self.lanes(table, at))
            for column, _ in self.columns.of(at, level):
                total[:, column] += lane * seconds
        waiting = self._waiting(
            table, lambda d: d.dimension.skew == "each_fold" and within < d.level <= level
        ) / self.lanes(table, level)
        total[:, self.columns.computing] += waiting[:, None]
        for at in exchange if exchange[-1] == level else ():
            once += self._of_one_visit(table, access, exchange, at)
        if not moves_lines(self.leaves):
            return np.hstack([total, once])
        return np.hstack([total, once, *self._of_lines(table, access, exchange if exchange[-1] == level else ())])

    def _of_lines(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        """Costs of values of lines for each kind of `LineRates.weights`; memories that move them are above lanes."""
        kinds = np.zeros((KINDS, len(table), self.columns.n))
        for i, at in enumerate((exchange[0], exchange[-1]) if exchange else ()):
            if self.lines.layout(access.tensor, at) is not None:
                self._add_rates(kinds[2 * i], table, access, exchange, at)
                if access.output and not self.pays_initial(exchange, at):
                    ones = np.ones(len(table))
                    kinds[2 * i + 1] = -self.spread(at, self.actions(access, exchange, at)[0], ones, ones, exchange[-1])
        return kinds

    def _starts_once(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        """Seconds in which the transfers of one visit begin."""
        total = np.zeros((len(table), self.columns.n))
        for at in exchange:
            unit, child = self.leaves[at], exchange[-1]
            if isinstance(unit, Memory) and unit.starts:
                inward, outward = ("write", "read") if at == child else ("read", "write")
                seconds = unit.action(inward).startup + (unit.action(outward).startup if access.output else 0.0)
                for column, _ in self.columns.of(at, child, once=True):
                    total[:, column] += self._tiles_at_once(table, access.tensor, at, child) * seconds
        return total

    def _of_one_visit(self, table: LaneTable, access: TensorAccess, exchange: Chain, at: int) -> Floats:
        """Seconds of a station for each value of one tile that goes in and, of an output, out."""
        total = np.zeros((len(table), self.columns.n))
        unit, child = self.leaves[at], exchange[-1]
        assert isinstance(unit, Memory | Toll)
        lane = self._tiles_at_once(table, access.tensor, at, child)
        down, up = self.actions(access, exchange, at)
        done = down if not access.output else up + down if self.pays_initial(exchange, at) else up
        for column, form in self.columns.of(at, child, once=True):
            total[:, column] += lane * (done.read * form.read + done.write * form.write) * unit.actions_scale
        return total

    def _tiles_at_once(self, table: LaneTable, tensor: str, at: int, child: int) -> Floats:
        """Tiles that one instance of a station exchanges with the lanes of its children in one visit."""
        return self.lanes(table, child) / (self.merged(table, tensor, at, child) * self.lanes(table, at))

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
        access, exchanges = self.einsum.by_tensor[tensor], self.exchanges(tail)
        if exchanges[0][-1] != level:
            return self._nothing(table), self._nothing(table)
        outermost, *inner = exchanges
        total, fixed = self.rates(table, access, outermost), self.starts(table, access, outermost)
        if self.networks.crosses(outermost):
            fixed = fixed + self._routes(table, access, outermost)
        if turns(self.leaves):
            fixed = fixed + self._starts_once(table, access, outermost)
        if self.columns.ways and not self.per_turn:
            fixed = fixed + way_between(self.leaves, self.columns, access, outermost)
        if inner and access.output and self.rules.lane_first_touch == "one lane":
            total, merged = total.copy(), self.merged(table, tensor, outermost[0], level)
            for exchange in inner:
                # lanes that are not the first of their group start anew at each visit: nothing live to be fetched
                again = np.where(merged > 1, self.lattice.excess - 1 / merged, 0.0)[:, None]
                total[:, :1] -= again * self.skipped(table, access, exchange)[:, :1]
        return total, fixed

    def _nothing(self, table: LaneTable) -> Floats:
        """No costs."""
        return np.broadcast_to(0.0, (len(table), self.columns.n))

    def tail(self, chain: Chain, level: int) -> Chain:
        """The part of a tensor's chain on which the cost of its node at `level` depends."""
        begin = next((exchange[0] for exchange in self.exchanges(chain) if exchange[-1] == level), chain[0])
        return chain[chain.index(begin) :]

    def exchanges(self, chain: Chain) -> tuple[Chain, ...]:
        """Levels from each parent to its child, tolls between."""
        if chain not in self._exchanges:
            ends = [0, *(end for end in range(1, len(chain)) if not isinstance(self.leaves[chain[end]], Toll))]
            self._exchanges[chain] = tuple(chain[begin : end + 1] for begin, end in pairwise(ends))
        return self._exchanges[chain]

    def last_exchange(self, chain: Chain) -> Chain:
        """The compute, its innermost memory and the tolls between."""
        return self.exchanges(chain)[-1]

    def rates(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        """Cost of each value that moves in an exchange, first touches not looked at."""
        key = "rates", access.tensor, exchange
        return self._once(table, key, lambda t: self._rates(t, access, exchange))

    def _rates(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        total = np.zeros((len(table), self.columns.n))
        for at in exchange:
            if not self._by_lines(access, exchange, at):
                self._add_rates(total, table, access, exchange, at)
        return total if not self.networks.crosses(exchange) else total + self._crossing(table, access, exchange).filled

    def _by_lines(self, access: TensorAccess, exchange: Chain, at: int) -> bool:
        """Whether lines are counted for a station; the compute asks for values one by one, each of which is a line."""
        return self.lines.layout(access.tensor, at) is not None and exchange[-1] < len(self.leaves) - 1

    def _add_rates(self, total: Floats, table: LaneTable, access: TensorAccess, exchange: Chain, at: int) -> None:
        """Add what a station pays for each value."""
        share = 1 / self.merged(table, access.tensor, at, exchange[-1])
        lane = share / self.lanes(table, at)
        down, up = self.actions(access, exchange, at)
        # of a group of merged lanes only the first one is filled, at every station on the way
        one_lane = access.output and self.rules.lane_first_touch == "one lane"
        filled = 1 / self.merged(table, access.tensor, exchange[0], exchange[-1]) if one_lane else share
        if at in self.units.levels:
            of_units = self.in_units(table, access.tensor, at)
            everywhere, busiest = (of_units.copies, of_units.held) if at == exchange[-1] else of_units[2:]
            filled, share, lane = filled * everywhere, share * everywhere, lane * busiest
        total += self.spread(at, down, filled, lane, exchange[-1])
        if access.output:
            total += self.spread(at, up, share, lane, exchange[-1])

    def in_units(self, table: LaneTable, tensor: str, level: int) -> UnitShare:
        """What a tensor takes in the units of the memory at a level."""
        return self._once(table, ("units", tensor, level), lambda t: self.units.share(t, tensor, level))

    def _crossing(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Rates:
        """What an exchange costs on the networks that it crosses."""
        pays = self.pays_initial(exchange, exchange[-1])
        key = "crossing", access.tensor, exchange
        return self._once(table, key, lambda t: self.networks.of(t, access, exchange, pays_initial=pays))

    def _routes(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        """Seconds of an exchange's longest routes through networks."""
        return (
            self._crossing(table, access, exchange).route if self.networks.crosses(exchange) else self._nothing(table)
        )

    def skipped(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        """Cost of one value that comes down at every station where initial fills are free (energy column only)."""
        total = np.zeros((len(table), self.columns.n))
        ones = np.ones(len(table))
        for at in exchange:
            if not self.pays_initial(exchange, at):
                down, _ = self.actions(access, exchange, at)
                total += self.spread(at, down, ones, ones, exchange[-1])
        return total if not self.networks.crosses(exchange) else total + self._crossing(table, access, exchange).fresh

    def starts(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        """What is saved by elements that start without a result, as far as it is the same for all tile shapes."""
        key = "starts", access.tensor, exchange
        return self._once(table, key, lambda t: self._starts(t, access, exchange))

    def _starts(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        if not access.output:
            return self._nothing(table)
        total = np.zeros((len(table), self.columns.n))
        tensor, child = access.tensor, exchange[-1]
        size = self._sizes[tensor]
        for at in exchange:
            if self.pays_initial(exchange, at) or self._by_lines(access, exchange, at):
                continue
            per_lane = size / self.indexed(table, tensor, at)
            if self.rules.lane_first_touch == "one lane":
                turns = self.unmerged(table, tensor, -1, at)
                share, lane = np.full(len(table), size), np.where(turns > 1, 0.0, per_lane)
            else:
                below = self.unmerged(table, tensor, at, child)
                above = self.merged(table, tensor, -1, at) * self.unmerged(table, tensor, -1, at)
                share, lane = size * above * below, per_lane * below
            if at in self.units.levels:
                lane = lane * self.in_units(table, tensor, at).held
            down, _ = self.actions(access, exchange, at)
            total -= self.spread(at, down, share, lane, child)
        if self.networks.crosses(exchange):
            crossing = self._crossing(table, access, exchange)
            total -= size * (crossing.fresh + crossing.starts)
        return total if access.partial_bits is None else total - self._of_complete(table, access, exchange)

    def _of_complete(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        """What write-backs of complete values save: one of each element, but where several lanes have parts of its sum.

        With uneven tiles one lane may be left with the last part of all; then it is a bound.
        """
        total = np.zeros((len(table), self.columns.n))
        size, may_be_alone = self._sizes[access.tensor], any(axis.uneven for axis in self.lattice.axes)
        for at in exchange:
            unit = self.leaves[at]
            if isinstance(unit, Compute):
                continue
            assert isinstance(unit, Memory | Toll)
            parts = table.over(table.levels <= at, self._irrelevant(access.tensor))
            share = np.where((parts > 1) & (not may_be_alone), 0.0, size)
            _, up = self.actions(access, exchange, at)
            read, write = (unit.saved_by_complete(action, access.tensor) for action in ("read", "write"))
            saved = Form(read if up.read else 0.0, write if up.write else 0.0)
            total += self.spread(at, saved, share, share / self.indexed(table, access.tensor, at), exchange[-1])
        return total

    def actions(self, access: TensorAccess, exchange: Chain, at: int) -> tuple[Form, Form]:
        """Reads and writes at one station for each value that comes down, and for each that goes up."""
        unit = self.leaves[at]
        if isinstance(unit, Compute):
            return Form(0, 0), Form(0, 0)
        assert isinstance(unit, Memory | Toll)
        read = unit.action("read").actions_per_value[access.tensor]
        if isinstance(unit, Toll):
            direction = unit.directions[access.tensor]
            return Form(read if direction != "up" else 0, 0), Form(read if direction != "down" else 0, 0)
        write = unit.action("write").actions_per_value[access.tensor]
        layout = self.lines.layout(access.tensor, at)
        if layout is not None and not self._by_lines(access, exchange, at):
            read, write = read * layout.values, write * layout.values
        if at == exchange[-1]:
            return Form(0, write), Form(read, 0)
        return Form(read, 0), Form(0, write)

    def spread(self, at: int, done: Form, share: Floats, lane: Floats, child: int) -> Floats:
        """The columns for `share` values in all and `lane` values in the busiest instance of the station `at`.

        `child`: level of the child of their exchange.
        """
        total = np.zeros((len(share), self.columns.n))
        unit = self.leaves[at]
        if isinstance(unit, Compute):
            return total
        assert isinstance(unit, Memory | Toll)
        energy = done.read * unit.action("read").energy
        if isinstance(unit, Memory):
            energy += done.write * unit.action("write").energy
        total[:, 0] = share * energy * unit.actions_scale
        for column, form in self.columns.of(at, child):
            seconds = done.read * form.read + done.write * form.write
            total[:, column] = lane * seconds * unit.actions_scale
        return total

    def pays_initial(self, exchange: Chain, at: int) -> bool:
        """Whether a station is charged for fills that bring no result yet."""
        child, parent = self.leaves[exchange[-1]], self.leaves[exchange[0]]
        child_skips = isinstance(child, Memory | Compute) and child.skip_initial_output_write
        both = child_skips and isinstance(parent, Memory) and parent.skip_initial_output_write
        if self.rules.initial_exchange == "both sides" or at == exchange[0]:
            return not both
        return not child_skips

    # leakage

    def leak_power(self, table: LaneTable) -> Floats:
        """W of everything that is not gated."""
        return self._once(table, ("leak",), lambda t: leak_power(self.arch, self.leaves[-1].name, t))


def _some(arrays: Any, rows: Ints) -> Any:
    """Some rows of an array, or of each of those of a node."""
    return arrays[rows] if isinstance(arrays, np.ndarray) else type(arrays)(*(array[rows] for array in arrays))
