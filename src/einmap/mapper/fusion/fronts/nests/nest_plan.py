"""Facts that all outer nests of one dataplacement have in common, as arrays for the kernel that lists them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.branch_and_bound.path_search import TemplateTables
from einmap.mapper.fusion.fronts.nests import gap_kernels as of
from einmap.mapper.fusion.fronts.nests.nest_rules import LoopNames, NestRules, Reservation
from einmap.mapper.mapspace.template import ABOVE, BELOW
from einmap.mapper.objective.objectives import OWN
from einmap.mapper.templates.chain_template import Held


class HeldNode(NamedTuple):
    """A node of a shared tensor that is not the backing one: tensor, level of the plan, memory if others may use it.

    `lowered`: it stands above the gap of the level, and others may use it if no loop there lowers it. `above`: it does,
    and is a toll.
    """

    tensor: int
    level: int
    memory: str
    lowered: bool = False
    above: bool = False


@dataclass(frozen=True, eq=False)
class NestPlan:
    """Facts that are the same in all outer nests of a dataplacement.

    `depth`: its levels. `of_level`, `numbers`: see `gap_kernels`; `masks`: axes that may have loops at each level, and
    those that rise. `backed`, `backing`: nodes that back shared tensors: those of the outermost memory (tensor, space,
    memory's name) and those below levels (level, tensor, number and name of the memory). `kept`: space of the other
    nodes of the outermost memory; `reserving`: for each level the memories of its node and of the one that is lowered,
    by number, -1 where the space is not kept for this Einsum alone. `occupied`: bits in use before the first level.
    `is_given`: loops must be those of a given mapping. `names`: those of loops; `columns`, `memories`: how many there
    are; `has_own`: whether it is asked what works ahead.
    """

    compiled: TemplateTables
    depth: int
    of_level: Ints
    numbers: Floats
    masks: Bools
    backed: tuple[tuple[int, Reservation, str], ...]
    kept: tuple[Reservation, ...]
    held: tuple[HeldNode, ...]
    backing: tuple[tuple[int, int, int, str], ...]
    reserving: tuple[tuple[int, int], ...]
    occupied: Floats
    is_given: bool
    names: LoopNames
    columns: int
    memories: int
    has_own: bool

    @cached_property
    def alike(self) -> object:
        """Equal for dataplacements whose outer nests have equal signatures if their loops are the same."""
        backed = tuple((t, name) for t, _, name in self.backed)
        return self.depth, backed, self.held, tuple((i, t, name) for i, t, _, name in self.backing)

    @cached_property
    def backs(self) -> tuple[tuple[int, str, int], ...]:
        """Shared tensors in rising order: each with the name of the memory that backs it and the level, -1 for none."""
        outermost = [(t, name, -1) for t, _, name in self.backed]
        return tuple(sorted([*outermost, *((t, name, i) for i, t, _, name in self.backing)]))


def plan_of(rules: NestRules, compiled: TemplateTables) -> NestPlan:
    """The outer nests of a dataplacement, before any is listed."""
    return _Planning(rules, compiled).plan()


class _Planning:
    """The work on one plan: its fields as they grow."""

    def __init__(self, rules: NestRules, compiled: TemplateTables) -> None:
        self.rules, self.compiled, self.levels = rules, compiled, compiled.levels
        depth = 1 + max((i for i, level in enumerate(self.levels) if rules.backs(level.node)), default=-1)
        self.of_level = np.full((depth, of.FIELDS), -1, dtype=np.int64)
        self.numbers = np.ones((depth, of.NUMBERS))
        self.masks = np.zeros((2, depth, len(rules.search.lattice.axes)), dtype=bool)
        self.held = list[HeldNode]()
        self.backing = list[tuple[int, int, int, str]]()
        self.reserving = [(-1, -1)] * depth
        self.seen = {node.tensor for node in compiled.plan.outer}

    def plan(self) -> NestPlan:
        """The plan."""
        begins = accumulate((j if level.axes is not None else -1 for j, level in enumerate(self.levels)), max)
        token = self.rules.steps.token if self.rules.steps is not None else None
        for i, (level, opening, row) in enumerate(zip(self.levels, begins, self.of_level, strict=False)):
            row[of.GAP], row[of.LAST], row[of.OPENING] = level.axes is not None, level.last, opening
            self.masks[0, i, list(level.axes or ())], self.masks[1, i, list(level.rising)] = True, True
            following = next(other.node for other in self.levels[i:] if other.last)
            row[of.TOKEN] = following is not None and following.tensor == token
            row[of.SHARED] = row[of.STATE] = row[of.FETCHED] = 0
            if level.last and level.node is not None:
                of_lowered = self._lower(i, opening)
                self._pay_tolls(i)
                self.reserving[i] = self._hold(i, level.node), of_lowered
        backed, kept, occupied = self._outermost()
        search = self.rules.search
        return NestPlan(
            self.compiled, len(self.of_level), self.of_level, self.numbers, self.masks, backed, kept, tuple(self.held),
            tuple(self.backing), tuple(self.reserving), occupied, self.compiled.plan.steps[0].given is not None,
            self.rules.names, search.columns, len(search.capacity), OWN in search.goals,
        )  # fmt: skip

    def _outermost(self) -> tuple[tuple[tuple[int, Reservation, str], ...], tuple[Reservation, ...], Floats]:
        """Space of the nodes of the outermost memory, and in all; persistent tensors are counted elsewhere."""
        rules, backed, kept = self.rules, list[tuple[int, Reservation, str]](), list[Reservation]()
        occupied = rules.search.occupied(self.compiled.plan)
        for node in self.compiled.plan.outer:
            t = rules.numbers[node.tensor]
            if node.tensor in rules.shared:
                space = rules.common(t, node.level)
                backed.append((t, space, rules.memory_of(t, node.level)))
                occupied[space.memory] += space.bits - rules.whole(t, node.level).bits
            elif not rules.search.einsum.by_tensor[node.tensor].persistent:
                kept.append(rules.whole(t, node.level))
        return tuple(backed), tuple(kept), occupied

    def _lower(self, i: int, opening: int) -> int:
        """The node above that the gap which ends at a level lowers: the number of its memory, -1 without one."""
        above, rules, row = self.levels[opening].lowers, self.rules, self.of_level[opening]
        if above is None:
            return -1
        t = rules.numbers[above.tensor]
        number, self.numbers[opening, of.LOWERED_BITS] = rules.bits[above.level, t]
        row[of.LOWERED], row[of.LOWERED_PLACE], row[of.MEMORY] = t, number, above.level
        if above.tensor in rules.shared:
            self.held.append(HeldNode(t, i, self._named(above), lowered=True))
        return number

    def _pay_tolls(self, i: int) -> None:
        """Tolls of shared tensors in the gap that ends at a level."""
        plan, rules = self.compiled.plan, self.rules
        if not plan.builder.tolls:
            return
        index = plan.placement.n_outer + sum(level.last for level in self.levels[:i])
        for part in (ABOVE, BELOW):
            for toll in plan.builder.tolls.get((index, part), ()):
                tensors = sorted(rules.shared.intersection(toll.tensors))
                self.held += [HeldNode(rules.numbers[t], i, "", above=part == ABOVE) for t in tensors]

    def _hold(self, i: int, node: Held) -> int:
        """The node that follows a level: the number of its memory, -1 where it is not kept for this Einsum alone."""
        rules, row = self.rules, self.of_level[i]
        t = row[of.TENSOR] = rules.numbers[node.tensor]
        number, self.numbers[i, of.BITS] = rules.bits[node.level, t]
        row[of.FETCHED] = node.tensor in self.seen and node.tensor in rules.waits_for_indices
        self.seen.add(node.tensor)
        if rules.backs(node):
            row[of.SHARED], row[of.STATE] = 1, rules.is_state(t)
            times, in_steps = rules.wider(t), rules.wider(t, in_steps=True)
            self.numbers[i, of.TIMES : of.LOWERED_BITS] = (
                times.numerator, times.denominator, in_steps.numerator, in_steps.denominator,
            )  # fmt: skip
            self.backing.append((i, t, number, rules.memory_of(t, node.level)))
            return -1
        if rules.search.lowers(node) and self.levels[i + 1].lowers is not None:
            return -1
        if node.tensor in rules.shared:
            self.held.append(HeldNode(t, i, self._named(node)))
        return number

    def _named(self, node: Held) -> str:
        """The memory of a node that others may use, too; none where they may not."""
        return self.rules.search.leaves[node.level].name if node.tensor in self.rules.request.joint else ""
