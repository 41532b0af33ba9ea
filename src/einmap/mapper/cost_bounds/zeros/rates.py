"""Least cost of a storage node whose tensors have zeros, for every use of the lanes at a time.

What passes is a dense count times the chance of what it waits for, and times values and metadata that a format stores.
The count is affine in the values that fill the node, as without zeros (`coefficients`); the chance and the metadata
depend on the point of the lattice at which the node stands, and on the lanes that share what passes. So a node is paid
for by a few numbers of its point (`Pricer.weights`): each is a `Factor`, of all fills or of what happens once.

They are the expected costs themselves where savings of the exchanges further out look at no other tensors or have a
chance that is known (`windows`), tiles do not cut blocks of a structured density, and lanes are `mean`; else lower
bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from einmap.arch.component import Compute, Memory
from einmap.arrays import Floats, Ints
from einmap.einsum.einsum import TensorAccess
from einmap.mapper.cost_bounds.coefficients import Chain
from einmap.mapper.cost_bounds.rates.affine import Affine
from einmap.mapper.cost_bounds.rates.exchange_costs import ExchangeCosts, Part, each_part, stations_of
from einmap.mapper.cost_bounds.rates.unit_fills import Fills
from einmap.mapper.cost_bounds.zeros.looking import Windows
from einmap.mapper.cost_bounds.zeros.windows import WindowedPricer
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.latency_forms import compute_seconds
from einmap.model.batch.zero_tables import SURE, Chance, ZeroTables
from einmap.model.counting.path import Station
from einmap.model.traffic.tensor_traffic import Exchange, TensorTraffic

DONE, TIMED = "done", "timed"
"""Names of chances: that something is done, and that it takes time."""


@dataclass(frozen=True)
class Factor:
    """A number of a point by which a node is paid for.

    `of`: DONE, TIMED or "" for 1; `most`: the chance at most, else at least; `shared`: the lanes that share what
    passes, by leader; `metadata`: level of the memory whose bits of metadata for each value are a factor, -1 for none;
    `values`: level of the memory whose values stored for each position are one; `fills`: times the values of all
    fills, else once.
    """

    of: str
    most: bool
    shared: tuple[int, ...]
    metadata: int
    values: int
    fills: bool


@dataclass(eq=False)
class ZerosPricer(WindowedPricer):
    """Least coefficients with zeros."""

    _weights: dict[tuple[str, Chain], Floats] = field(init=False, default_factory=dict)

    # what pricers with other windows and formats have in common

    def with_windows(self, windows: Windows | None, tables: ZeroTables) -> ZerosPricer:
        """This pricer with other windows and formats; what does not depend on these is known to both."""
        other = replace(self, windows=windows, tables=tables)
        other._known = self._known
        return other

    def forget(self) -> None:
        """Forget what pricers have in common."""
        self._known.clear()

    def _once[T](self, table: LaneTable, key: tuple[object, ...], find: Callable[[LaneTable], T]) -> T:
        """Values for each use of the lanes, kept for all pricers for which they are the same."""
        return super()._once(table, (*key, self._on_what(key)), find)

    def _on_what(self, key: tuple[object, ...]) -> tuple[object, ...]:
        """The windows and formats on which something depends."""
        match key:
            case ("exchange" | "node" | "innermost", str(tensor), *_):
                return self._of_tensor(tensor)
            case ("operations", *_):
                return self._all_windows
            case (str(), *_):
                return ()
            case _:
                return *self._all_windows, *(self._of_tensor(access.tensor) for access in self.einsum.accesses)

    @cached_property
    def _all_windows(self) -> tuple[object, ...]:
        return (None,) if self.windows is None else tuple(self.windows.items())

    def _of_tensor(self, tensor: str) -> tuple[object, ...]:
        if tensor not in self._on_tensors:
            windows = [one for one in (self.windows or {}).items() if one[0].tensor == tensor]
            memories = [leaf.name for leaf in self.leaves if isinstance(leaf, Memory)]
            marks = [self.tables.mark(name, tensor) for name in memories]
            self._on_tensors[tensor] = self.kinds, self.windows is None, *windows, *marks
        return self._on_tensors[tensor]

    @cached_property
    def _on_tensors(self) -> dict[str, tuple[object, ...]]:
        return {}

    # chances at all points

    def chances(self, tensor: str, parent: int, shared: Sequence[int]) -> tuple[Chance, Chance]:
        """Chances that what passes of a tensor below a memory is done, and that it takes time, for each point.

        Without those that are taken for granted.
        """
        own, outer = self.leaders(tensor, parent)
        done = timed = SURE
        for leader, lanes in zip(own, shared, strict=True):
            chance = self.chance_at_points(leader, lanes)
            done = done.both(chance)
            timed = timed.both(chance) if own[leader] else timed
        for leader, skips in outer.items() if self.windows is None else ():
            # in larger boxes, further out, it is no less
            least = Chance(self.chance_at_points(leader, 1).least, 1.0)
            done = done if leader in own else done.both(least)
            timed = timed.both(least) if skips and not own.get(leader, False) else timed
        return done, timed

    def factor(self, tensor: str, exchange: Chain, what: Factor) -> Any:
        """A factor of each point, without the values that fill the node."""
        value: Any = 1.0
        if what.of:
            done, timed = self.chances(tensor, exchange[0], what.shared)
            chance = done if what.of == DONE else timed
            value = chance.most if what.most else chance.least
        if what.values >= 0:
            moved = self.stored(tensor, exchange, what.values)
            value = value * (moved.most if what.most else moved.values)
        if what.metadata >= 0 and self.is_parted(what.metadata, tensor) and not self.tables.sparsity.shares_metadata:
            value = value * self.stored(tensor, exchange, what.metadata).metadata
        elif what.metadata >= 0:
            key = "metadata", tensor, exchange[0], exchange[-1], what.metadata, self._mark(what.metadata, tensor)
            if key not in self.remembered:
                self.remembered[key] = self.metadata(tensor, exchange, what.metadata, self.shapes)
            value = value * self.remembered[key]
        return value

    def metadata(self, tensor: str, exchange: Chain, level: int, sizes: Mapping[str, Any]) -> Any:
        """Least bits of metadata for each value that a memory reads or writes in an exchange."""
        tables, memory = self.tables, self.leaves[level].name
        extents = tables.extents(tensor, sizes)
        if not tables.sparsity.shares_metadata:
            return tables.metadata(memory, tensor, extents) / prod(extents)
        if level == exchange[-1]:
            return tables.share(memory, tensor, extents)
        if level == min(i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Memory)):
            return tables.share(memory, tensor, tables.extents(tensor, dict(self.einsum.bounds)))
        return float(np.min(tables.share(memory, tensor, tables.extents(tensor, self.shapes))))

    # numbers of a node

    def factors(self, tensor: str, exchange: Chain) -> tuple[Factor, ...]:
        """The factors by which the node at the end of an exchange is paid for."""
        key = "factors", tensor, exchange
        if key not in self._factors:
            uses = np.unique(self.shared(self.every_use, tensor, exchange), axis=0)
            found: dict[Factor, None] = {}
            access = self.einsum.by_tensor[tensor]
            for shared in map(tuple, uses.tolist()):
                for of, most, metadata, values in self._kinds(tensor, exchange):
                    for fills in (True, False) if access.output else (True,):
                        found[Factor(of, most, shared, metadata, values, fills)] = None
            self._factors[key] = tuple(found)
        return self._factors[key]

    @cached_property
    def _factors(self) -> dict[object, tuple[Factor, ...]]:
        return {}

    def _kinds(self, tensor: str, exchange: Chain) -> Iterator[tuple[str, bool, int, int]]:
        """Chances, metadata and values stored by which an exchange is paid, lanes aside."""
        ends = exchange[0], exchange[-1]
        has_energies = any(energy > 0 for energy in self.tables.sparsity.energies.values())
        places = [-1] if self.has_chances(tensor, exchange) else []
        for values in [*places, *(level for level in ends if self.is_parted(level, tensor))]:
            for of in (DONE, TIMED):
                yield of, False, -1, values
                if has_energies:
                    yield of, True, -1, values
            if has_energies and values >= 0:
                yield "", False, -1, values
        for level in ends:
            if self._has_metadata(level, tensor):
                yield DONE, False, level, -1
                yield TIMED, False, level, -1

    def has_chances(self, tensor: str, exchange: Chain) -> bool:
        """Whether the chances of an exchange depend on the point of its node."""
        own, outer = self.leaders(tensor, exchange[0])
        return bool(own or (outer and self.windows is None))

    def _mark(self, level: int, tensor: str) -> tuple[int, ...]:
        return self.tables.mark(self.leaves[level].name, tensor)

    def is_parted(self, level: int, tensor: str) -> bool:
        """Whether a memory stores a tensor with blocks, padding or dense tiles."""
        return self.tables.is_parted(self.leaves[level].name, tensor)

    def _has_metadata(self, level: int, tensor: str) -> bool:
        unit = self.leaves[level]
        has_format = (unit.name, tensor) in self.tables.sparsity.formats
        return isinstance(unit, Memory) and has_format and bool(unit.bits[tensor])

    @cached_property
    def kinds(self) -> int:
        """Most factors of any node."""
        memories = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Memory | Compute)]
        pairs = [(outer, inner) for outer in memories for inner in memories if outer < inner]
        return max((len(self.factors(a.tensor, pair)) for a in self.einsum.accesses for pair in pairs), default=0)

    @cached_property
    def visits_cost(self) -> bool:
        """Whether nodes have numbers other than the values that fill them."""
        return True

    def weights(self, tensor: str, exchange: Chain) -> Floats:
        """The factors of the node at the end of an exchange, (kinds, points of the lattice)."""
        ends = exchange[0], exchange[-1]
        if (tensor, ends) not in self._weights:
            number = [access.tensor for access in self.einsum.accesses].index(tensor)
            fills = self.lattice.filled(self.einsum)[1][number]
            rows = np.zeros((self.kinds, self.lattice.size))
            for row, what in zip(rows, self.factors(tensor, exchange), strict=False):
                row[:] = self.factor(tensor, exchange, what) * (fills if what.fills else 1.0)
            self._weights[tensor, ends] = rows
        return self._weights[tensor, ends]

    # coefficients

    def _exchange_costs(self, table: LaneTable, access: TensorAccess, tail: Chain) -> ExchangeCosts:
        traffic = self._traffic(table, access, tail)
        outermost, *inner = [e for e in reversed(traffic.exchanges) if e.parent.level >= tail[0]]
        exchange = outermost.parent.level, outermost.child.level
        granted = self.granted_chances(table, access.tensor, exchange[0])
        shared = self.shared(table, access.tensor, exchange)
        paid = _Paid(self, access.tensor, exchange, shared, granted)
        for at in stations_of(outermost):
            for part in each_part(traffic, outermost, at):
                self._add(paid, outermost, at, part)
        rates, fixed = paid.plain[True], paid.plain[False]
        for further in inner if access.output else ():
            again = Affine.of(traffic.flow(further, further.child).initial).terms.get(Fills(outermost.child.level))
            if again is not None:
                # lanes that are not the first of their group start anew at each visit: nothing live to be fetched
                rates[:, 0] -= again * self._free_start(table, access, traffic, further)
        none = np.zeros_like(rates)
        return ExchangeCosts(rates, fixed, none, none, paid.by_kind())

    def _add(self, paid: _Paid, exchange: Exchange, at: Station, moved: Part) -> None:
        """Add what a station does for each value of one part of an exchange, in all and in the busiest lane."""
        unit, tensor, sparsity, done = at.component, paid.tensor, self.tables.sparsity, moved.done
        action = "read" if done.read else "write"
        form = at
        if not isinstance(unit, Memory):
            form = exchange.child if moved.name == "up" else exchange.parent
        stored = form.level if self.is_parted(form.level, tensor) else -1
        kept = 1.0
        if stored < 0 and (form.component.name, tensor) in sparsity.formats:
            kept = self.tables.kept(form.component.name, tensor)
        per_value = float(done.read if action == "read" else done.write)
        full = unit.action(action).energy
        gated, skip = (sparsity.energies.get((unit.name, f"{state}_{action}"), 0.0) for state in ("gated", "skipped"))
        least = (DONE, full - gated), (TIMED, gated - skip), ("", skip)
        joules = [(of, -1, stored, kept * per_value * joule) for of, joule in least]
        busy = [(TIMED, -1, stored, kept * per_value)]
        if self._has_metadata(at.level, tensor):
            assert isinstance(unit, Memory)
            is_own, per_bit = unit.name in sparsity.own_metadata, per_value / unit.bits[tensor]
            each = sparsity.energies.get((unit.name, f"metadata_{action}"), 0.0) if is_own else full * per_bit
            joules.append((DONE if sparsity.shares_metadata else TIMED, at.level, -1, each))
            if sparsity.shares_metadata or not is_own:
                busy.append((TIMED, at.level, -1, per_bit))
        for of, metadata, values, joule in joules:
            paid.add((of, metadata, values), 0, joule * unit.actions_scale, moved.everywhere)
        for column, time in self.columns.of(at.level, exchange.child.level):
            seconds = (time.read if action == "read" else time.write) * unit.actions_scale
            for of, metadata, values, part in busy:
                paid.add((of, metadata, values), column, part * seconds, moved.busiest)

    def _free_start(
        self, table: LaneTable, access: TensorAccess, traffic: TensorTraffic, exchange: Exchange
    ) -> Floats | float:
        """J that a value of an exchange costs less where it has no result yet, at most."""
        saved = super()._free_start(table, access, traffic, exchange)
        levels = exchange.parent.level, exchange.child.level
        names = {at.component.name for at in stations_of(exchange)}
        energies = self.tables.sparsity.energies
        most = max([0.0, *(energy for (name, _), energy in energies.items() if name in names)])
        with_metadata = [level for level in levels if self._has_metadata(level, access.tensor)]
        if not with_metadata:
            done = 1.0 if most or self.windows is None else self.most_done(table, access.tensor, levels)
            return (saved + 2 * most) * done
        bits = max(self._most_metadata(access.tensor, levels, level) for level in with_metadata)
        memories = [leaf for leaf in map(self.leaves.__getitem__, with_metadata) if isinstance(leaf, Memory)]
        width = min(memory.bits[access.tensor] for memory in memories)
        return (saved + 2 * most) * (1 + bits / width) + 2 * most * bits

    def _most_metadata(self, tensor: str, exchange: Chain, level: int) -> float:
        """Bits of metadata for each value that a memory reads or writes in an exchange, at most on average."""
        formats = self.tables.formats_of(self.leaves[level].name, tensor)
        if len(formats) == 1 and formats[0].is_plain:
            return float(np.max(self.metadata(tensor, exchange, level, self.shapes)))
        # offsets are one more than positions, and boxes of a tile have no more than its positions together
        return 2.0 * max(sum(one.bits for one in fmt.levels) for fmt in formats)

    def operations(self, table: LaneTable, inside: int) -> Floats:
        """Least costs of the operations alone, whatever saves their inputs."""
        outermost = [(a.tensor, len(self.leaves) - 1) for a in self.einsum.accesses if not a.output]
        return self._operations(table, inside, outermost, alone=True)

    def _constants(self, table: LaneTable, exchanges: tuple[Chain, ...]) -> Floats:
        inputs = [
            (access.tensor, exchange[0])
            for access, exchange in zip(self.einsum.accesses, exchanges, strict=True)
            if not access.output
        ]
        inside = max(exchange[0] for exchange in exchanges)
        key = "operations", inside, *inputs
        total = self._once(table, key, lambda t: self._operations(t, inside, inputs, alone=False)).copy()
        for access, exchange in zip(self.einsum.accesses, exchanges, strict=True):
            total += self.innermost(table, access, exchange)
        return total

    def _innermost(self, table: LaneTable, access: TensorAccess, exchange: Chain) -> Floats:
        costs = self.exchange_costs(table, access, exchange)
        weights = self.weights(access.tensor, exchange)[:, 0]
        each = costs.lines.reshape(len(table), len(weights), self.columns.n)
        total: Floats = costs.fixed + self._n_operations * costs.rates + np.einsum("ukc,k->uc", each, weights)
        return total

    def _operations(self, table: LaneTable, inside: int, inputs: Sequence[tuple[str, int]], *, alone: bool) -> Floats:
        """Costs of the operations; `inputs`: with the level of the memory from which each one comes.

        `alone`: the inputs come from anywhere.
        """
        unit = self.leaves[-1]
        assert isinstance(unit, Compute)
        done, timed = self._chances_of_operations(table, inputs, alone)
        energies = self.tables.sparsity.energies
        full = unit.action("compute").energy
        gated, skip = (energies.get((unit.name, f"{state}_compute"), 0.0) for state in ("gated", "skipped"))
        joule: Any = skip
        for weight, chance in ((full - gated, done), (gated - skip, timed)):
            joule = joule + weight * (chance.least if weight > 0 else chance.most)
        total = np.zeros((len(table), self.columns.n))
        total[:, 0] += self._n_operations * unit.actions_scale * joule
        busiest = self._n_operations / self.lanes(table, len(self.leaves) - 1) * timed.least
        seconds = compute_seconds(unit, busiest, self.einsum.name)
        seconds = seconds + self._waiting(table, lambda d: d.dimension.skew == "once" or d.level > inside)
        total[:, self.columns.computing] += seconds[:, None]
        return total

    def _chances_of_operations(
        self, table: LaneTable, inputs: Sequence[tuple[str, int]], alone: bool
    ) -> tuple[Chance, Chance]:
        """Chances that an operation is done, and that it takes time, for each use of the lanes."""
        compute = len(self.leaves) - 1
        own = self._leading(self.leaves[-1].name, None)
        # of each leader the chance of the smallest box that decides, in all and of those that skip
        each: dict[str, list[Any]] = {leader: [1, 1 if skips else math.inf] for leader, skips in own.items()}
        for tensor, parent in inputs:
            looked_at, outer = self.leaders(tensor, parent)
            lanes = np.ones((len(table), len(looked_at))) if alone else self.shared(table, tensor, (parent, compute))
            for i, (leader, skips) in enumerate(looked_at.items()):
                before = each.setdefault(leader, [math.inf, math.inf])
                before[0] = np.minimum(before[0], lanes[:, i])
                before[1] = np.minimum(before[1], lanes[:, i]) if skips else before[1]
            for leader, skips in outer.items():
                before = each.setdefault(leader, [math.inf, math.inf])
                if self.windows is None:
                    # of what is looked at further out nothing is known but that its boxes are not smaller
                    before[0] = before[0] if leader in looked_at else 1
                    before[1] = 1 if skips and not looked_at.get(leader, False) else before[1]
        done = timed = SURE
        for leader, (number, timing) in each.items():
            extents = self.tables.extents(leader, dict.fromkeys(self.einsum.rank_variables, 1))
            windows = [self._granted(table, leader, inputs, skipping=skipping) for skipping in (False, True)]
            done = done.both(windows[0].smaller(self._of_any(leader, extents, number)))
            timed = timed.both(windows[1].smaller(self._of_any(leader, extents, timing)))
        if not alone and (self.windows is not None or not any(self.leaders(*pair)[1] for pair in inputs)):
            return done, timed
        return Chance(done.least, 1.0), Chance(timed.least, 1.0)

    def _of_any(self, leader: str, extents: Sequence[Any], number: Any) -> Chance:
        """Chance that one of so many single values is not zero; inf: nothing is looked at."""
        looks = np.isfinite(number)
        chance = self.tables.of_lanes(leader, extents, np.where(looks, number, 1))
        return Chance(np.where(looks, chance.least, 1.0), np.where(looks, chance.most, 1.0))


class _Paid:
    """Sums of costs of an exchange by factor; `shared`: of each use the lanes that share, by leader.

    `granted`: chances in windows, that it is done and that it takes time.
    """

    def __init__(
        self, pricer: ZerosPricer, tensor: str, exchange: Chain, shared: Ints, granted: tuple[Chance, Chance]
    ) -> None:
        uses = len(shared)
        self.pricer, self.tensor = pricer, tensor
        self.granted = {DONE: granted[0], TIMED: granted[1], "": SURE}
        self.factors = {what: i for i, what in enumerate(pricer.factors(tensor, exchange))}
        self.size, self.child = pricer._sizes[tensor], exchange[-1]
        self.plain = {fills: np.zeros((uses, pricer.columns.n)) for fills in (True, False)}
        self.kinds = np.zeros((pricer.kinds, uses, pricer.columns.n))
        self.has_chances = pricer.has_chances(tensor, exchange)
        rows, of_use = np.unique(shared, axis=0, return_inverse=True)
        self.groups = [(tuple(row), np.flatnonzero(of_use.ravel() == i)) for i, row in enumerate(rows.tolist())]

    def add(self, by: tuple[str, int, int], column: int, each: float, moved: Any) -> None:
        """Add `each` times what moves, an affine count, times a factor; `by`: its chance, metadata and values."""
        if not each:
            return
        of, metadata, stored = by
        most = each < 0
        chance = self.granted[of].most if most else self.granted[of].least
        for unknown, term in moved.terms.items():
            fills = isinstance(unknown, Fills)
            if fills and unknown != Fills(self.child):
                # lanes that start anew: paid with the node whose visits these are
                continue
            values = term * (self.size if unknown is None else 1.0) * chance
            if metadata < 0 and stored < 0 and (not of or not self.has_chances):
                self.plain[fills][:, column] += values * each
                continue
            for shared, uses in self.groups:
                row = self.kinds[self.factors[Factor(of, most, shared, metadata, stored, fills)]]
                row[uses, column] += np.broadcast_to(np.asarray(values, dtype=np.float64), (len(row),))[uses] * each

    def by_kind(self) -> Floats:
        """Columns for each kind, one after the other, for each use."""
        return np.concatenate([*self.kinds, np.zeros((self.kinds.shape[1], 0))], axis=1)
