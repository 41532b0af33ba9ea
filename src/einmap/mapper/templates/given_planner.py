"""The plans of a dataplacement that keep what is given: one for each alignment and variant of its gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.given.alignment import Aligner, Gap
from einmap.mapper.given.pattern import FREE, GivenLoop, Pattern
from einmap.mapper.given.slots import Positions, Slot, Slots
from einmap.mapper.mapspace.dataplacement import Dataplacement
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.templates.chain_template import ChainSegment, ChainTemplate, Held, Planner


@dataclass
class GivenPlanner:
    """Makes plans with a given mapping. `prune`: whether the prunings of gaps are safe where nothing is given.

    `unseen`: see Aligner.
    """

    planner: Planner
    pattern: Pattern
    table: LaneTable
    prune: bool
    unseen: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        assert not self.planner.prune
        self.aligner = Aligner(self.pattern, self.planner.einsum.extents, self.unseen)
        dimensions = [(d.component, d.dimension.name) for d in self.table.dimensions]
        self.slots = Slots(self.planner.lattice, {d: i for i, d in enumerate(dimensions)})
        self.rules: dict[object, NDArray[np.bool_]] = {}

    def may_hold(self, placement: Dataplacement) -> bool:
        """Whether a dataplacement has the storage nodes that are given."""
        return self.aligner.may_hold(placement.nodes, placement.n_outer)

    def plans(self, placement: Dataplacement) -> list[ChainTemplate]:
        """All plans of one dataplacement."""
        plan = self.planner.plan(placement)
        plans: dict[tuple[ChainSegment, ...], ChainTemplate] = {}
        for gaps in self.aligner.alignments(plan.builder):
            for slots in product(*(self.variants(plan, i, gap) for i, gap in enumerate(gaps))):
                steps = self.steps(plan, slots, gaps)
                rows = self.lanes(steps) if steps is not None else np.zeros(1, dtype=bool)
                if steps is not None and rows.any():
                    loops = tuple(sum(a in s.axes for s in slots) for a in range(len(self.planner.lattice.axes)))
                    plans.setdefault(steps, replace(plan, steps=steps, loops=loops, lanes=rows))
        return list(plans.values())

    def variants(self, plan: ChainTemplate, index: int, gap: Gap) -> list[Slot]:
        """The slots of one gap."""
        step, place = plan.steps[index], plan.placement.n_outer + index
        dimensions = tuple(
            (number, d.level)
            for number, d in enumerate(self.table.dimensions)
            if plan.builder.place_of(d.component) == place
        )
        lowered = None
        if step.lowers is not None:
            access = self.planner.einsum.by_tensor[step.lowers.tensor]
            lowered = [access.relevance(axis.variables[0]) for axis in self.planner.lattice.axes]
        return list(self.slots.of(gap, step.axes, dimensions, lowered))

    def steps(self, plan: ChainTemplate, slots: Sequence[Slot], gaps: Sequence[Gap]) -> tuple[ChainSegment, ...] | None:
        """The steps with what is given; None where the first gap cannot begin with the whole iteration space."""
        tops = {a: len(axis.sizes) - 1 for a, axis in enumerate(self.planner.lattice.axes)}
        if any(tops[axis] not in allowed for axis, allowed in slots[0].before):
            return None
        steps = []
        for i, (step, slot) in enumerate(zip(plan.steps, slots, strict=True)):
            following: Positions = slots[i + 1].before if i + 1 < len(slots) else ()
            axes = tuple(a for a in slot.axes if not (self.prune and self.pruned(plan, slots, gaps, i, a)))
            steps.append(replace(step, axes=axes, given=slot, at_node=following))
        return tuple(steps)

    def lanes(self, steps: Sequence[ChainSegment]) -> NDArray[np.bool_]:
        """Uses of the fanouts that may go with some tile shapes."""
        allowed = np.ones(len(self.table), dtype=bool)
        for step in steps:
            assert step.given is not None
            rule = step.given.lanes
            if rule not in self.rules:
                rows = np.ones(len(self.table), dtype=bool)
                for _, flags in rule.allowed(self.table, self.planner.lattice):
                    rows &= flags.any(axis=1)
                self.rules[rule] = rows
            allowed &= self.rules[rule]
        return allowed

    def pruned(self, plan: ChainTemplate, slots: Sequence[Slot], gaps: Sequence[Gap], index: int, axis: int) -> bool:
        """Whether a loop here is never worse in the gap above or below, and may stand there just as well."""
        variable = self.planner.lattice.axes[axis].variables[0]
        place = plan.placement.n_outer + index
        above, node = _held(plan, place - 1), _held(plan, place)
        if not self.is_free(gaps, index, variable):
            return False
        if index > 0 and axis in slots[index - 1].axes and self.is_free(gaps, index - 1, variable):
            assert above is not None
            if self.planner.goes_up(above, self.planner.lattice.axes[axis]):
                return True
        if node is None or axis not in slots[index + 1].axes or not self.is_free(gaps, index + 1, variable):
            return False
        assert above is not None
        return self.planner.goes_down(plan.builder, place, above, node, self.planner.lattice.axes[axis])

    def is_free(self, gaps: Sequence[Gap], index: int, variable: str) -> bool:
        """Whether loops over a variable may stand in a gap without touching what is given there."""
        if self.planner.rules.lowering:
            return gaps[index] == (FREE,)
        return FREE in gaps[index] and not any(isinstance(t, GivenLoop) and t.variable == variable for t in gaps[index])


def _held(plan: ChainTemplate, index: int) -> Held | None:
    """A storage node by its position in the dataplacement; None for the compute."""
    n_outer = len(plan.outer)
    return plan.outer[index] if index < n_outer else plan.steps[index - n_outer].node
