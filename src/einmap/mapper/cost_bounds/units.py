"""Memories of an array that are several units, for every use of the lanes at a time: what each unit has at least.

Where tiles lie follows `model.counting.units` and `model.traffic.unit_crossing`, but for one thing: values that units
share are dealt out one by one there, and the first units have one more where there is a rest. Here nothing is rounded.
So what the fullest unit has, and what its neighbours send, are lower bounds, and the cost where nothing is left over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from einmap.arch.component import Leaf, Memory, Network
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.templates.chain_template import ChainTemplate, Held

type Chain = tuple[int, ...]


class UnitShare(NamedTuple):
    """Share of one tensor in the units of a memory, a row for each use of the lanes.

    `held`: part of a tile in the fullest unit; `copies`: units that have each value; `readers`: how often a value is
    read where one unit would read it once; `read`: part of what one unit would read that the busiest one reads.
    """

    held: Floats
    copies: Floats
    readers: Floats
    read: Floats


@dataclass(frozen=True)
class UnitLoops:
    """The lanes of one tensor as they are in units: a row for each use, a column for each dimension and axis.

    The columns are in the order of the loops. `block`: lanes in one unit, infinite along dimensions that are not the
    array's. `none`: loops over the array that do not index the tensor; `merged`: those whose lanes share one copy;
    `mixed`: those that index it together with other variables. `fits`: uses whose lanes fit the units.
    """

    lanes: Floats
    block: Floats
    none: Bools
    merged: Bools
    mixed: Bools
    replicated: bool
    fits: Bools

    @property
    def share(self) -> UnitShare:
        """Share of the tensor."""
        inside = np.minimum(self.block, self.lanes) / self.lanes
        parts = np.where(self.none, self._parts(self.lanes), 1.0)
        own = np.where(self.none, 1.0, inside).prod(axis=1)
        ones = np.ones(len(self.lanes))
        if not self.replicated:
            return UnitShare(own / parts.prod(axis=1), ones, ones, own / parts.prod(axis=1))
        readers = np.where(self.merged, parts, 1.0).prod(axis=1)
        return UnitShare(own, parts.prod(axis=1), readers, np.where(self.merged, 1.0, inside).prod(axis=1))

    def _parts(self, n: Floats) -> Floats:
        """Units that the lanes of each loop are in."""
        return np.ceil(n / np.minimum(self.block, n))

    def countable(self, *, mixed: bool, may_copy: bool) -> Bools:
        """Uses with which the model knows which unit has which values.

        `mixed`: whether some values may be used more often than others; `may_copy`: whether units may have copies.
        """
        several = np.where(self.none, self._parts(self.lanes), 1.0).prod(axis=1) > 1
        alike: Bools = ~(self.mixed & (self.lanes > 1)).any(axis=1)
        return alike & ~(several & (not may_copy if self.replicated else mixed))

    @property
    def _across(self) -> Bools:
        """Loops whose lanes may need values of another unit."""
        return self.none if not self.replicated else np.zeros_like(self.none)

    def steps(self, network: Network, n: Floats, strides: Floats, shared: Bools, *, first: bool = True) -> Floats:
        """Steps to all lanes of a loop together, for one value each. `first`: whether to the first one, too.

        The lanes are those of one unit, or of all units where the value may lie in any of these.
        """
        block = np.minimum(self.block, n)
        if network.topology == "all_to_all":
            others = n - 1 if first else n - 1 - (self._parts(n) > 1)
            return np.where(self._across, others, n - self._parts(n))
        full, rest = n // block, n % block
        handed_on = full * (block - 1) + np.maximum(rest - 1, 0)
        one_by_one = (full * block * (block - 1) + rest * (rest - 1)) / 2
        inside = np.where(shared, handed_on, one_by_one)
        across = np.where(shared, n - 1, _least_steps(n, block, first))
        steps: Floats = strides * np.where(self._across, across, inside)
        return steps

    def once(self, n: Floats) -> Floats:
        """Lanes of a loop that share what is sent to them once: of copies each unit sends its own."""
        return n / self._parts(n) if self.replicated else n

    def route(self, network: Network, n: Floats, strides: Floats) -> Floats:
        """Steps of the longest route."""
        fullest = np.minimum(self.block, n)
        if network.topology == "all_to_all":
            far = np.where(self._across, n, fullest) > 1
            return far.sum(axis=1).astype(np.float64)
        inside = np.where((fullest > 1) & ~self._across, fullest * strides, 0.0)
        # a value that units share may lie in the middle; the first one lies in the first unit
        middle = np.where(self._across & (n > 1), (n // 2 + 1) * strides, 0.0)
        end = np.where(self._across & (n > 1), n * strides, 0.0)
        of_first = np.where(np.isinf(self.block), inside, end)
        longest: Floats = np.maximum((inside + middle).sum(axis=1), of_first.sum(axis=1))
        return longest

    def sent(self, network: Network, n: Floats, shared: Bools, *, first: bool = True) -> Floats:
        """Values of a loop's lanes that pass its first link, of as many as it has lanes; `first` as in `steps`."""
        fullest = np.minimum(self.block, n)
        inside = np.where(shared, np.minimum(fullest - 1, 1), fullest - 1)
        others = np.minimum(n - 1, 1)
        if network.topology == "all_to_all" or not first:
            others = np.zeros_like(n)
        alone = np.where(shared, np.minimum(n - 1, 1), n - 1)
        across = np.where(self._parts(n) > 1, others, alone)
        return np.where(self._across, across, inside) / n

    def fullest(self, n: Floats) -> Floats:
        """Lanes in the first unit."""
        return np.minimum(self.block, n)

    def beside(self, n: Floats, shared: Bools) -> Floats:
        """Part of what goes along a loop that does so from the first units of a loop further in; 0 if not known."""
        of_one = np.where(shared, 1.0, np.minimum(self.block, n) / n)
        return np.where(self._across & (self._parts(n) > 1), 0.0, np.where(self._across, 1.0, of_one))


@dataclass(frozen=True)
class UnitRates:
    """Shares of tensors in the memories on a path that are several units.

    `irrelevant`: axes that do not index each tensor; `variables`: of each axis one of its rank variables.
    """

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    irrelevant: Mapping[str, Bools]
    variables: tuple[str, ...]

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Levels of these memories."""
        return tuple(i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Memory) and leaf.is_spread)

    def loops(self, table: LaneTable, tensor: str, level: int) -> UnitLoops | None:
        """The lanes of a tensor as they are in the units of the memory at a level; None where it is one unit."""
        memory = self.leaves[level]
        if not isinstance(memory, Memory) or not memory.is_spread:
            return None
        array = next(i for i, leaf in enumerate(self.leaves) if leaf.name == memory.array)
        rows, size = len(table), len(self.irrelevant[tensor])
        flat: Ints = table.orders.reshape(rows, -1)
        lanes = np.take_along_axis(table.bounds, table.orders, axis=2).reshape(rows, -1).astype(np.float64)
        here = np.repeat(table.levels == array, size)[None, :]
        none = self.irrelevant[tensor][flat] & here if size else np.zeros((rows, 0), dtype=bool)
        reusing = np.repeat([tensor in d.dimension.may_reuse for d in table.dimensions], size).astype(bool)[None, :]
        of_unit = {units.name: units.stride for units in memory.units}
        block, fits = np.full_like(lanes, np.inf), np.ones(rows, dtype=bool)
        for d, fanned in enumerate(table.dimensions):
            if fanned.level != array:
                continue
            columns = slice(d * size, (d + 1) * size)
            own, served = lanes[:, columns], float(of_unit[fanned.dimension.name])
            strides = own[:, ::-1].cumprod(axis=1)[:, ::-1] / own
            block[:, columns] = np.maximum(served // strides, 1.0)
            fits &= ((own == 1) | (strides % served == 0) | (served % strides == 0)).all(axis=1)
        alone = plain_variables(self.einsum.by_tensor[tensor])
        plain = np.array([variable in alone for variable in self.variables], dtype=bool)
        mixed = (here & ~self.irrelevant[tensor][flat] & ~plain[flat]) if size else none
        return UnitLoops(lanes, block, none, none & reusing, mixed, tensor in memory.replicate, fits)

    def share(self, table: LaneTable, tensor: str, level: int) -> UnitShare:
        """Share of a tensor in the memory at a level, one of `levels`."""
        loops = self.loops(table, tensor, level)
        assert loops is not None
        return loops.share

    def fits(self, plan: ChainTemplate, table: LaneTable) -> Bools:
        """Uses whose lanes fit the units of all memories that hold something in a plan."""
        fits = np.ones(len(table), dtype=bool)
        for level, tensor in {level: tensor for level, tensor, _ in self.held(plan)}.items():
            loops = self.loops(table, tensor, level)
            assert loops is not None
            fits &= loops.fits
        return fits

    def held(self, plan: ChainTemplate) -> frozenset[tuple[int, str, int]]:
        """Nodes of a plan in units, on which the lanes that it admits depend: level, tensor, level of its child."""
        nodes = [(node.level, node.tensor) for node in held_in(plan) if node.level in self.levels]
        return frozenset((level, t, plan.chains[t][plan.chains[t].index(level) + 1]) for level, t in nodes)

    def countable(self, plan: ChainTemplate, table: LaneTable) -> Bools:
        """Uses with which the model knows in a plan which unit has which values."""
        countable = np.ones(len(table), dtype=bool)
        for level, tensor, below in self.held(plan):
            loops, memory, access = self.loops(table, tensor, level), self.leaves[level], self.einsum.by_tensor[tensor]
            assert loops is not None
            assert isinstance(memory, Memory)
            array = next(i for i, leaf in enumerate(self.leaves) if leaf.name == memory.array)
            mixed = len(plain_variables(access)) < len(access.projection)
            countable &= loops.countable(mixed=mixed, may_copy=below >= array and not access.output)
        return countable

    def alike(self, table: LaneTable, chosen: Ints) -> list[Ints]:
        """Some uses, taken apart by how tensors lie in units: with those of a part they lie alike.

        Parts come in the order of the first use of each.
        """
        if not self.levels:
            return [chosen]
        some = table.only(chosen)
        shares = [np.stack(self.share(some, tensor, level)) for level in self.levels for tensor in self.irrelevant]
        _, first, part = np.unique(np.concatenate(shares).T, axis=0, return_index=True, return_inverse=True)
        return [chosen[part.ravel() == number] for number in np.argsort(first, kind="stable")]

    def between(self, table: LaneTable, tensor: str, exchange: Chain, network: Network) -> UnitLoops | None:
        """The lanes of a tensor where the values of an exchange begin in units beside a network of their array."""
        parent = self.leaves[exchange[0]] if exchange[0] >= 0 else None
        if not isinstance(parent, Memory) or not parent.is_spread or parent.array != network.array:
            return None
        return self.loops(table, tensor, exchange[0])


def held_in(plan: ChainTemplate) -> list[Held]:
    """The storage nodes of a plan."""
    return [*plan.outer, *(step.node for step in plan.steps if step.node is not None)]


def plain_variables(access: TensorAccess) -> frozenset[str]:
    """Rank variables that are an index of a tensor by themselves, and a part of no other one."""
    used = [variable for _, index in access.projection for variable, _ in index.terms]
    alone = (index.terms for _, index in access.projection if len(index.terms) == 1)
    return frozenset(v for ((v, factor),) in alone if abs(factor) == 1 and used.count(v) == 1)


def _least_steps(n: Floats, block: Floats, first: bool) -> Floats:
    """Steps from a unit to each lane of a loop, from the unit from where they are fewest."""
    pairs, which = np.unique(np.stack([n.ravel(), block.ravel()], axis=1), axis=0, return_inverse=True)
    least = np.zeros(len(pairs))
    for i, (lanes, size) in enumerate(pairs.astype(np.int64).tolist()):
        reached = range(0 if first else 1, lanes)
        least[i] = min(sum(abs(lane - home) for lane in reached) for home in range(0, lanes, size))
    return least[which.ravel()].reshape(n.shape)
