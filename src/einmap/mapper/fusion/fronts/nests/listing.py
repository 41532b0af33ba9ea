"""The listing of the outer nests of one dataplacement, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.fusion.fronts.nests import gap_kernels as of
from einmap.mapper.fusion.fronts.nests import nest_kernels
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL
from einmap.mapper.fusion.fronts.nests.met_loops import MetLoops
from einmap.mapper.fusion.fronts.nests.nest_plan import NestPlan
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules
from einmap.mapper.fusion.fronts.nests.outer_nests import OuterNests, loops_of
from einmap.mapper.fusion.fronts.nests.pruned_bounds import PrunedBounds
from einmap.mapper.fusion.fronts.nests.turns import NestNode, nest_ways
from einmap.mapper.given.order import is_like
from einmap.mapper.given.pattern import GivenLoop
from einmap.mapper.problem.request import Remainder

AT_ONCE = 256
"""Outer nests that one call of the kernel lists at most."""
BUDGET = 100_000
"""Choices that one call of the kernel looks at, about 10 ms."""
FIRST_CHOICES = 512
"""Choices of all levels that there is room for at first."""


@dataclass(eq=False)
class Listing:
    """The outer nests of one dataplacement, so many at a time. `remainder`: what the other Einsums add; without it none
    is left out.

    `pruned`: takes the bounds of what is left out. `met`: the keys that others can meet; no others are listed. `floor`:
    objectives that nothing is below.
    """

    rules: NestRules
    plan: NestPlan
    pruned: PrunedBounds
    remainder: Remainder
    met: MetLoops
    floor: Floats

    def parts(self) -> Iterator[tuple[OuterNests, Bools]]:
        """The outer nests, some at a time, and which of them may be good."""
        plan, search = self.plan, self.rules.search
        if (plan.occupied > search.capacity).any():
            return
        if plan.depth == 0:
            yield self._alone()
            return
        k, memories, depth = search.columns, len(search.capacity), plan.depth
        arguments = search.arrays(plan.compiled)
        tables, node, coefficients = arguments[2], arguments[4], arguments[5:10]
        plan.of_level[:, of.PLACE], plan.of_level[:, of.ROW] = node[:depth, 1], node[:depth, 2]
        rules, met = self.rules, self.rules.met(self.met)
        sizes = rules.of_sizes
        n_loops = int(min(rules.limits[of.MOST], self._most_loops()))
        state, levels = np.zeros(1, dtype=np.int64), np.zeros((depth + 1, of.WIDTH), dtype=np.int64)
        levels[0, of.POINT] = search.lattice.top
        loops, gap = (
            np.zeros((n_loops + 1, of.CUT), dtype=np.int64),
            np.zeros((self._most_loops() + 1, 3), dtype=np.int64),
        )
        used, backed = np.zeros(len(gap), dtype=bool), np.full(len(search.tensors), -1, dtype=np.int64)
        for t, _, _ in plan.backed:
            backed[t] = 0
        keys = np.zeros((len(self.met.keys), n_loops + 2), dtype=np.int64)
        keys[:, 0] = met[5]
        sizes_now = np.stack([sizes[1][sizes[0][1:] - 1], sizes[0][1:] - 1, np.zeros_like(sizes[0][1:])])
        acc, occupied = np.zeros((depth + 1, k)), np.zeros((depth + 1, memories))
        occupied[0] = plan.occupied
        costs, bits = np.zeros((depth, k)), np.zeros((depth, 2))
        arena = np.zeros((FIRST_CHOICES, of.CHOICE), dtype=np.int64)
        ended = nest_kernels.PAUSED
        while ended != nest_kernels.DONE:
            whole = np.empty((AT_ONCE, 2 + 3 * depth + 5 * n_loops), dtype=np.int64)
            numbers = np.empty((AT_ONCE, 3 * k + memories + 2 * depth))
            ended, n, self.pruned.n = nest_kernels.outer_nests(
                search.layout, rules.of_variables, sizes, rules.lanes,
                plan.of_level, plan.numbers, plan.masks, tables[:4], search.tables.pool,
                search.tables.columns, coefficients, rules.hidden, rules.outside, met, rules.limits, search.leak,
                search.capacity, search.goal_codes, self.remainder.rows, self.remainder.most,
                self.pruned.rows, self.pruned.n, state, levels, arena, gap, loops, used, sizes_now, backed, keys, acc,
                occupied, costs, bits, whole, numbers, BUDGET,
            )  # fmt: skip
            if ended == nest_kernels.NARROW:
                arena = np.concatenate([arena, np.zeros_like(arena)])
            yield self._judged(whole[:n], numbers[:n])

    def _most_loops(self) -> int:
        """Loops of all gaps, at most."""
        gaps = sum(len(self.rules.variables) for row in self.plan.of_level if row[of.GAP])
        lanes = self.rules.search.lanes.dimensions
        return gaps + len(lanes) * len(self.rules.search.lattice.axes)

    def _alone(self) -> tuple[OuterNests, Bools]:
        """The one outer nest that has no levels."""
        search = self.rules.search
        least = np.maximum(search.bound(self.plan.compiled), self.floor)[None]
        numbers = np.zeros((1, 3 * search.columns + len(search.capacity)))
        numbers[0, search.columns : search.columns + len(search.capacity)] = self.plan.occupied
        whole = np.zeros((1, 2), dtype=np.int64)
        good = self._waited(whole, numbers) & np.isfinite(least).all(axis=1)
        if good[0] and self.remainder.exceeds_cutoff(least)[0]:
            self.pruned.add(least)
            good[0] = False
        return OuterNests(self.plan, whole, numbers, least), good

    def _judged(self, whole: Ints, numbers: Floats) -> tuple[OuterNests, Bools]:
        """Outer nests with what they are bounded by, and which may be good."""
        search, plan = self.rules.search, self.plan
        k, memories = search.columns, len(search.capacity)
        fits = self._waited(whole, numbers)
        if plan.is_given:
            fits &= np.array([self._is_given(row) for row in whole], dtype=bool)
        if not fits.all():
            whole, numbers = whole[fits], numbers[fits]
        least, good = np.empty((len(whole), len(search.goal_codes))), np.empty(len(whole), dtype=bool)
        self.pruned.n = nest_kernels.judged(
            numbers, whole, k, memories, self.floor, search.leak, search.capacity, search.goal_codes,
            self.remainder.rows, self.remainder.most, self.pruned.rows, self.pruned.n, least, good,
        )  # fmt: skip
        return OuterNests(plan, whole, numbers, least), good

    def _waited(self, whole: Ints, numbers: Floats) -> Bools:
        """Add the ways of values to costs; False where a split waits longer for them than is asked for."""
        search, waiting = self.rules.search, self.rules.request.waiting
        fits = np.ones(len(whole), dtype=bool)
        k, ahead = search.columns, search.columns + len(search.capacity)
        if waiting.seconds:
            numbers[:, 1:k] += waiting.seconds
        if waiting.overlapping:
            numbers[:, 1:k] -= numbers[:, ahead + 1 : ahead + k]
        if search.pricer.per_turn and search.pricer.columns.ways:
            fused = OuterNests(self.plan, whole, numbers, numbers).fused
            for n, row in enumerate(whole):
                depths = row[2 + self.plan.depth :].tolist()
                nodes = [NestNode(held.tensor, held.level, 0) for held in self.plan.compiled.plan.outer]
                for i, level in enumerate(self.plan.compiled.levels[: self.plan.depth]):
                    if level.last and level.node is not None:
                        nodes.append(NestNode(level.node.tensor, level.node.level, depths[i]))
                loops = [loop for _, loop in loops_of(self.plan, row)]
                ways = nest_ways(search, self.plan.compiled.plan, nodes, loops[: fused[n]])
                fits[n] = ways.inward <= waiting.inward and ways.outward <= waiting.outward
                numbers[n, :k] += ways.seconds
        return fits

    def _is_given(self, row: Ints) -> bool:
        """Whether the loops of each gap stand as they are given."""
        shapes = {variable: bound for _, variable, bound in self.rules.variables}
        loops, compiled = loops_of(self.plan, row), self.plan.compiled
        steps = iter(compiled.plan.steps)
        for i, level in enumerate(compiled.levels[: self.plan.depth]):
            if not level.last:
                continue
            slot, gap = next(steps).given, [loop for at, loop in loops if at == i]
            assert slot is not None
            given = [GivenLoop(x.variable, x.inner, None if x.kind == TEMPORAL else x.kind) for x in gap]
            if not is_like(slot.tokens, given, shapes):
                return False
            shapes |= {loop.variable: loop.inner for loop in gap}
        return True
