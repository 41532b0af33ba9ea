"""Outer nests: the outer part of an Einsum's nest, from the outermost memory down to the last backing node of a shared
tensor.

Where other Einsums meet a chain depends on its outer nest alone: which memories back the shared tensors, and the loops
above them. The rest of the chain is free, and searched by branch and bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.branch_and_bound.path_search import NOTHING, TemplateTables
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL, Cut, Loop, in_order, in_time, shapes_left
from einmap.mapper.fusion.fronts.nests.met_loops import ANYTHING, MetLoops
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules, Reservation
from einmap.mapper.fusion.fronts.nests.pruned_bounds import PrunedBounds
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key
from einmap.mapper.fusion.fronts.nests.turns import NestNode, ahead_of, cost_ahead, nest_ways
from einmap.mapper.mapspace.lanes.spatial_mappings import routed_components
from einmap.mapper.mapspace.template import ABOVE, BELOW
from einmap.mapper.objective import objective_kernels
from einmap.mapper.problem.request import Remainder
from einmap.mapper.templates.chain_template import Held


class OuterNest(NamedTuple):
    """An outer nest of one dataplacement: where the search goes on, and what it costs and takes so far.

    `points`: of the lattice, one for each level of the outer nest; `gaps`: loops in their order, for the last levels of
    gaps; `kept`: what the nodes take that only this Einsum uses, or that are not backing nodes. `backed`: what
    shared tensors take in the memories that back them. `least`: objectives that no completion is below. `ahead`: see
    `turns.cost_ahead`.
    """

    compiled: TemplateTables
    prefix: int
    points: tuple[int, ...]
    gaps: tuple[tuple[int, tuple[Loop, ...]], ...]
    acc: Floats
    occupied: Floats
    signature: FusionSignature
    kept: tuple[Reservation, ...]
    backed: tuple[tuple[int, Reservation], ...]
    least: Floats
    ahead: Floats


class NestState(NamedTuple):
    """An outer nest that is being made. `gap`: where the gap began that is being filled, and its loops so far."""

    point: int
    prefix: int
    points: tuple[int, ...]
    gaps: tuple[tuple[int, tuple[Loop, ...]], ...]
    gap: tuple[int, tuple[Loop, ...]] | None
    acc: Floats
    occupied: Floats
    loops: tuple[Loop, ...]
    kept: tuple[Reservation, ...]
    held: tuple[tuple[int, int, str], ...]
    backed: tuple[tuple[int, Reservation, int], ...]
    nodes: tuple[NestNode, ...]


class OuterNestEnumerator:
    """The outer nests of one dataplacement. `remainder`: what the other Einsums add; without it none is left out.

    `pruned`: takes the bounds of what is left out. `met`: the keys that others can meet; no others are listed.
    """

    def __init__(
        self,
        rules: NestRules,
        compiled: TemplateTables,
        pruned: PrunedBounds,
        remainder: Remainder | None = None,
        met: MetLoops = ANYTHING,
    ) -> None:
        self.rules, self.compiled, self.pruned, self.remainder, self.met = rules, compiled, pruned, remainder, met
        self.search, self.routed = rules.search, routed_components(rules.search.leaves)
        self.shared, self.joint = rules.shared, rules.joint
        self.last = max((i for i, level in enumerate(compiled.levels) if rules.backs(level.node)), default=-1)
        begins = [j if level.axes is not None else -1 for j, level in enumerate(compiled.levels)]
        self.begins = list(accumulate(begins, max))
        """The level at which the gap begins that a level is a part of."""
        self._known_loops: dict[tuple[tuple[int, ...], int, str, int], list[tuple[Loop, int]]] = {}
        self.capacity: list[float] = rules.search.capacity.tolist()
        _, _, self.tables, _, self.node, *self.coefficients = self.search.arrays(compiled)[:10]

    def begun(self) -> Iterator[tuple[NestState, Floats]]:
        """Parts of each outer nest, one by one, with objectives that no completion is below."""
        search = self.search
        kept, held, backed = self._outermost()
        occupied = search.occupied(self.compiled.plan)
        for t, placed, level in backed:
            occupied[placed.memory] += placed.bits - self.rules.whole(t, level).bits
        if (occupied > search.capacity).any():
            return
        zeros = np.zeros(search.columns)
        nodes = tuple(NestNode(held.tensor, held.level, 0, zeros) for held in self.compiled.plan.outer)
        start = NestState(search.lattice.top, 0, (), (), None, zeros, occupied, (), kept, held, backed, nodes)
        yield from self._extend(0, start)

    def _outermost(
        self,
    ) -> tuple[tuple[Reservation, ...], tuple[tuple[int, int, str], ...], tuple[tuple[int, Reservation, int], ...]]:
        """Space of the nodes of the outermost memory; persistent tensors are counted elsewhere."""
        search, kept, backed = self.search, [], []
        for held in self.compiled.plan.outer:
            t = search.tensors.index(held.tensor)
            if held.tensor in self.shared:
                backed.append((t, self.rules.common(t, held.level, search.lattice.top, ()), held.level))
            elif not search.einsum.by_tensor[held.tensor].persistent:
                kept.append(self.rules.whole(t, held.level))
        return tuple(kept), (), tuple(backed)

    def _extend(self, i: int, state: NestState) -> Iterator[tuple[NestState, Floats]]:
        if i > self.last:
            if self.rules.fetches_too_early(state.nodes, self._fused(state)):
                return
            if (waited := self._waited(state)) is not None:
                yield waited, self._least(waited)
            return
        level = self.compiled.levels[i]
        choices = self._lanes(i, state) if level.axes is None else self._gap(i, state)
        for target, prefix, new in choices:
            begun = state.gap or (state.point, ())
            gap = (begun[0], (*begun[1], *new))
            reached = NestState(
                target, prefix, (*state.points, target), state.gaps, gap, state.acc, state.occupied, state.loops,
                state.kept, state.held, state.backed, state.nodes,
            )  # fmt: skip
            if not level.last:
                yield from self._extend(i + 1, reached)
                continue
            for order in self.rules.orders(self.compiled, i, state.loops, gap[1]):
                if not in_order(order, gap[1], self.routed) or (order and self._rises(i, state, order[0])):
                    continue
                if self.rules.has_steps(order[:-1]):
                    continue
                after = self._arrive(i, reached, gap[0], order)
                if after is not None:
                    yield from self._extend(i + 1, after)

    def _waits_for_steps(self, state: NestState) -> bool:
        """Whether the loop over the steps of a recurrence is still to come."""
        rules, begun = self.rules, state.gap[1] if state.gap else ()
        return rules.steps is not None and not (rules.has_steps(state.loops) or rules.has_steps(begun))

    def _with_steps(
        self, i: int, choices: list[tuple[int, tuple[Loop, ...], bool]]
    ) -> list[tuple[int, tuple[Loop, ...], bool]]:
        """Choices of the gap that ends at a level, with the loop over the steps of a recurrence above its token."""
        steps, node = self.rules.steps, next(level.node for level in self.compiled.levels[i:] if level.last)
        assert steps is not None and node is not None
        if node.tensor != steps.token:
            return choices
        members = ((a, m) for a, axis in enumerate(self.search.lattice.axes) for m in axis.members)
        a, bound = next((a, bound) for a, (variable, bound) in members if variable == steps.variable)
        if a not in (self.compiled.levels[i].axes or ()):
            return []
        loop = Loop(TEMPORAL, a, steps.variable, bound, 1)
        below = [(self.rules.lowered(a, point, bound), loops) for point, loops, _ in choices]
        return [(point, (*loops, loop), False) for point, loops in below if point >= 0]

    def _rises(self, i: int, state: NestState, first: Loop) -> bool:
        """Whether the first loop of the gap that ends at a level is never worse above the node that it follows.

        All else stays in its order. The gap above must have no loop over the variable: there is one of each in a gap.
        """
        if first.kind != TEMPORAL or first.axis not in self.compiled.levels[self.begins[i]].rising:
            return False
        return first.variable not in self._temporal_above(i, state)

    def _gap(self, i: int, state: NestState) -> Iterator[tuple[int, int, tuple[Loop, ...]]]:
        """Temporal loops of a gap: the point below them, the lanes so far, and the loops."""
        rules, level, waits = self.rules, self.compiled.levels[i], self._waits_for_steps(state)
        outside = rules.steps.outside if waits and rules.steps is not None else None
        room = self._most - len(state.loops) - waits
        used = [loop.variable for loop in state.loops]
        sizes = {loop.variable: loop.inner for loop in state.loops}
        backed = [t for t, _, _ in state.backed]
        waiting = tuple(self.met.waiting(backed))
        inner = frozenset[str]().union(*(of for t, of in rules.below.items() if t not in backed))
        risen = self._temporal_above(i, state)
        # the last one says whether each loop rises: whatever their order is, the first one does
        choices: list[tuple[int, tuple[Loop, ...], bool]] = [(state.point, (), True)]
        for a in level.axes or ():
            for variable, bound in self.search.lattice.axes[a].members:
                size = sizes.get(variable, bound)
                if size <= 1 or variable in inner or used.count(variable) >= rules.most_per_axis:
                    continue
                if outside is not None and variable not in outside:
                    continue
                loops, rises = self._loops(waiting, a, variable, size), a in level.rising and variable not in risen
                for target, chosen, all_rise in choices[:] if loops else ():
                    if len(chosen) < room:
                        choices += [
                            (below, (*chosen, loop), rises and all_rise)
                            for loop, factor in loops
                            if (below := rules.lowered(a, target, factor)) >= 0
                        ]
        if waits:
            choices = self._with_steps(i, choices)
        if level.last and level.rising:
            choices = [choice for choice in choices if not choice[1] or not choice[2]]
        targets = np.array([choice[0] for choice in choices], dtype=np.int64)
        for n in self._survivors(i, state, targets, np.full(len(targets), state.prefix)):
            yield choices[n][0], state.prefix, choices[n][1]

    def _temporal_above(self, i: int, state: NestState) -> set[str]:
        """Variables of the temporal loops of the gap right above the node that the gap of a level follows."""
        before = state.gaps[-1][1] if state.gaps and state.gaps[-1][0] == self.begins[i] - 1 else ()
        return {loop.variable for loop in before if loop.kind == TEMPORAL}

    def _loops(self, waiting: tuple[int, ...], axis: int, variable: str, size: int) -> list[tuple[Loop, int]]:
        """Temporal loops that cut a tile shape, with their factors, above tensors of which some keys can be met."""
        key = waiting, axis, variable, size
        if key not in self._known_loops:
            met = [(self.rules.ranks[t, variable], self.met.cuts[t]) for t in waiting]
            self._known_loops[key] = [
                (Loop(TEMPORAL, axis, variable, size, shape), size // shape)
                for shape in shapes_left(size, self.rules.apart)
                if all((TEMPORAL, rank, shape) in cuts for rank, cuts in met)
            ]
        return self._known_loops[key]

    @property
    def _most(self) -> float:
        """How many loops there may be, with that over the steps of a recurrence."""
        return self.rules.most + (self.rules.steps is not None)

    def _survivors(self, i: int, state: NestState, targets: Ints, prefixes: Ints) -> Ints:
        """Choices of a level that can be completed, to something good as far as that is known."""
        search, pruned = self.search, self.pruned
        remainder = self.remainder or Remainder(np.zeros((0, len(search.goal_codes))), math.inf)
        begins, slots = self.tables[:2]
        rows: Ints
        rows, pruned.n = kernels.survivors(
            search.tables.pool, search.tables.columns, begins[i], slots[i], targets, prefixes, state.acc, search.leak,
            state.occupied, search.capacity, search.goal_codes, remainder.rows, remainder.most,
            pruned.rows, pruned.n,
        )  # fmt: skip
        return rows

    def _lanes(self, i: int, state: NestState) -> Iterator[tuple[int, int, tuple[Loop, ...]]]:
        """Lanes of a fanout that stands above a shared tensor's storage."""
        search = self.search
        r = self.compiled.levels[i].r
        children = search.children[search.child_start[state.prefix] : search.child_start[state.prefix + 1]]
        positions = search.quotients[search.divides[children], search.coord[state.point]]
        fits = (positions >= 0).all(axis=1)
        children, targets = children[fits], positions[fits] @ search.lattice.strides
        for n in self._survivors(i, state, targets, children):
            child = int(children[n])
            loops = self._lane_loops(child, r, state.point)
            above = (*state.loops, *(state.gap[1] if state.gap else ()), *loops)
            used = [loop.variable for loop in above]
            if len(above) <= self._most and all(
                used.count(loop.variable) <= self.rules.most_per_axis for loop in loops
            ):
                yield int(targets[n]), child, tuple(loops)

    def _lane_loops(self, prefix: int, r: int, point: int) -> list[Loop]:
        """Loops over the lanes of one fanout, in the order in which they are written by default."""
        search = self.search
        bounds, _, orders = search.prefixes.tables[r].use(prefix - search.prefixes.first[r])
        sizes = [axis.sizes[search.coord[point, a]] for a, axis in enumerate(search.lattice.axes)]
        loops = []
        for d, fanned in enumerate(search.lanes.dimensions):
            if fanned.level != search.fanouts[r - 1]:
                continue
            for a in orders[d].tolist():
                if bounds[d, a] > 1:
                    inner = sizes[a] // int(bounds[d, a])
                    (variable,) = search.lattice.axes[a].variables
                    loops.append(Loop((fanned.component, fanned.dimension.name), a, variable, sizes[a], inner))
                    sizes[a] = inner
        return loops

    def _arrive(self, i: int, state: NestState, outer: int, new: tuple[Loop, ...]) -> NestState | None:
        """The state below a gap: its loops, the space of a node above that they lower, and the node below."""
        search = self.search
        loops = (*state.loops, *new)
        if self.met.keys and not self._is_met(i, state, loops):
            return None
        occupied, kept, held, backed = state.occupied.copy(), state.kept, state.held, state.backed
        begin = self.begins[i]
        lowers, node = self.compiled.levels[begin].lowers, self.compiled.levels[i].node
        if lowers is not None:
            t = self.rules.numbers[lowers.tensor]
            passed, at = self._passed(lowers, new, outer)
            space = self.rules.placed(t, lowers.level, at, len(state.loops) + passed)
            occupied[space.memory] += space.bits
            if occupied[space.memory] > self.capacity[space.memory]:
                return None
            kept = (*kept, space)
            if lowers.tensor in self.shared:
                name = search.leaves[lowers.level].name if lowers.tensor in self.joint and not passed else ""
                held = (*held, (t, len(state.loops), name))
        held += tuple(self._tolls(i, len(state.loops), len(loops)))
        assert node is not None
        t, memory, row = int(self.node[i, 0]), int(self.node[i, 1]), int(self.node[i, 2]) + state.prefix
        shared = node.backing and node.tensor in self.shared
        if shared and not self.rules.hands_on(t, loops):
            return None
        if shared:
            space = self.rules.common(t, node.level, state.point, loops)
        else:
            space = self.rules.placed(t, node.level, state.point, len(loops))
        waits = search.lowers(node) and self.compiled.levels[i + 1].lowers is not None
        if memory >= 0:
            occupied[memory] += space.bits
            if occupied[memory] > self.capacity[memory]:
                return None
        if shared:
            backed = (*backed, (t, space, node.level))
        elif not waits:
            kept = (*kept, space)
            if node.tensor in self.shared:
                held = (*held, (t, space.depth, search.leaves[node.level].name if node.tensor in self.joint else ""))
        cost = self._cost(row, t, state.point)
        acc = state.acc + cost
        gaps = (*state.gaps, (i, new)) if new else state.gaps
        nodes = (*state.nodes, NestNode(node.tensor, node.level, len(loops), cost))
        return NestState(
            state.point, state.prefix, state.points, gaps, None, acc, occupied, loops, kept, held, backed, nodes
        )

    def _is_met(self, i: int, state: NestState, loops: tuple[Loop, ...]) -> bool:
        """Whether the loops above a node begin what others can meet; above a backing node they are all of it."""
        node, met = int(self.node[i, 0]), self.met
        backs = self.rules.backs(self.compiled.levels[i].node)
        for t in met.waiting([t for t, _, _ in state.backed]):
            key = tuple([self._cut(t, loop) for loop in loops])
            if key not in (met.keys if backs and t == node else met.begins)[t]:
                return False
        return True

    def _tolls(self, i: int, above: int, below: int) -> Iterator[tuple[int, int, str]]:
        """Tolls of shared tensors in the gap that ends at a level, with the number of loops above each."""
        if not self.compiled.plan.builder.tolls:
            return
        index = self.compiled.plan.placement.n_outer + sum(level.last for level in self.compiled.levels[:i])
        for part, depth in ((ABOVE, above), (BELOW, below)):
            for toll in self.compiled.plan.builder.tolls.get((index, part), ()):
                for tensor in self.shared.intersection(toll.tensors):
                    yield self.search.tensors.index(tensor), depth, ""

    def _passed(self, lowers: Held, loops: tuple[Loop, ...], outer: int) -> tuple[int, int]:
        """How many of the loops below a node lower its space, and the point at which it is taken then."""
        search, at, passed = self.search, outer, 0
        name = search.leaves[lowers.level].name
        for loop in loops:
            relevance = search.pricer.axis_relevance[lowers.tensor][loop.axis]
            if loop.kind != TEMPORAL and loop.kind[0] == name:
                continue
            if relevance is Relevance.NONE or loop.kind != TEMPORAL:
                break
            at = self.rules.lowered(loop.axis, at, loop.outer // loop.inner)
            passed += 1
            if relevance is Relevance.PARTIAL:
                break
        return passed, at

    def _waited(self, state: NestState) -> NestState | None:
        """An outer nest with the ways of its values; None where its split waits longer for them than is asked for."""
        search, waiting = self.search, self.rules.waiting
        in_turns = search.pricer.per_turn and bool(search.pricer.columns.ways)
        if not (in_turns or waiting.seconds or waiting.overlapping):
            return state
        acc = state.acc.copy()
        acc[1:] += waiting.seconds
        if waiting.overlapping:
            for node in ahead_of(state.nodes, state.loops[: self._fused(state)]):
                acc[1:] -= node.cost[1:]
        if in_turns:
            ways = nest_ways(search, self.compiled.plan, state.nodes, state.loops[: self._fused(state)])
            if ways.inward > waiting.inward or ways.outward > waiting.outward:
                return None
            acc += ways.seconds
        return state._replace(acc=acc)

    @staticmethod
    def _fused(state: NestState) -> int:
        """How many of the loops of an outer nest are fused: those above the last backing node of a shared tensor."""
        return max([placed.depth for _, placed, _ in state.backed], default=0)

    def outer_nest(self, state: NestState, least: Floats) -> OuterNest:
        """The outer nest that is made of some parts: many are counted alone."""
        fused, keys, cuts, ranks = self._fused(state), [], [], self.rules.ranks
        loops = state.loops[:fused]
        for t, placed, level in sorted(state.backed):
            seen = tuple([(loop.kind, ranks[t, loop.variable], loop.inner) for loop in loops])
            keys.append((t, Key(self.rules.memory_of(t, level), seen[: placed.depth])))
            if fused > placed.depth:
                cuts.append((t, tuple([in_time(cut) for cut in seen[placed.depth :]])))
        counts = tuple([(loop.kind, loop.outer // loop.inner) for loop in loops])
        held = tuple(sorted([node for node in state.held if node[1] < fused]))
        backed = tuple([(t, placed) for t, placed, _ in state.backed])
        return OuterNest(
            self.compiled, state.prefix, state.points, state.gaps, state.acc, state.occupied,
            FusionSignature(tuple(keys), counts, held, tuple(cuts)), state.kept, backed, least,
            cost_ahead(self.search, state.nodes, loops),
        )  # fmt: skip

    def _least(self, state: NestState) -> Floats:
        """Objectives that no completion is below."""
        search = self.search
        if self.last < 0:
            return search.bound(self.compiled)
        least = np.empty(len(search.goal_codes))
        leak = float(search.leak[state.prefix])
        bound = self._bound(state)
        objective_kernels.objectives(bound, leak, state.occupied, search.capacity, NOTHING, search.goal_codes, least)
        return least

    def _bound(self, state: NestState) -> Floats:
        """Costs so far, and what the tables say of the rest."""
        search = self.search
        begins, slots = self.tables[:2]
        node = self.node[self.last]
        row = int(node[2]) + state.prefix
        bound = state.acc.copy()
        columns = search.tables.columns
        # the table holds the cost of the last node too
        of_node = self._cost(row, int(node[0]), state.point)
        rest = search.tables.pool[begins[self.last, state.prefix] + slots[self.last, state.point]]
        bound[columns] += rest - of_node[columns]
        return bound

    def _cost(self, row: int, t: int, point: int) -> Floats:
        """Costs of the node of a tensor at a point; many nests have it."""
        key = row, t, point
        if key not in self.rules.costs:
            self.rules.costs[key] = self.search.of_node(self.coefficients, row, t, point)
        return self.rules.costs[key]

    def _cut(self, t: int, loop: Loop) -> Cut:
        return loop.kind, self.rules.ranks[t, loop.variable], loop.inner
