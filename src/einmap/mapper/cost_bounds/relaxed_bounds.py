"""Bounds that need no tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.coefficients import Chain
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.layout import least_fills
from einmap.mapper.objective import objective_kernels
from einmap.mapper.objective.objectives import goal_codes
from einmap.mapper.templates.chain_template import ChainTemplate, Held
from einmap.progress import Progress

# processor seconds with 4, 16, 64: 1.01, 1.11, 1.28 for the 16 cases of mapper_vs_peer.py, and 0.91, 0.98, 3.36
# for 3 cases of mapper_topologies.py with 4 x 4 lanes
FIRST_LANES = 16
"""Uses of the fanouts that are searched first."""
# processor seconds with 4 and 16: 0.78 and 1.09 for the 16 cases of mapper_vs_peer.py, but 4.64 and 3.94 for resnet50
# of mapper_networks.py
FIRST_PLANS = 16
"""Dataplacements that are searched first."""


AT_ONCE = 4_000
"""Uses of the fanouts whose costs are worked out together."""


class Bounds:
    """Objectives that no mapping is below, for each way of holding the tensors and each use of the lanes.

    Each tensor fills each of its nodes at least once for every lane that uses a part of it (see `_of_tensor`); the
    order of nodes and what fits do not matter here, so this needs no tables. `order`: uses of the lanes, those of the
    least bounds first, and last those for whose bounds there was no time.
    """

    def __init__(
        self, path: Path, plans: Sequence[ChainTemplate], lanes: LaneTable, progress: Progress, needed: bool = False
    ) -> None:
        self.path = path
        numbers: dict[object, int] = {}
        self.way_of = [numbers.setdefault(tuple(sorted(plan.chains.items())), len(numbers)) for plan in plans]
        goals = len(path.request.goals)
        # with negative energies nothing is known without tables
        self.values = np.full((len(numbers), len(lanes), goals), 0.0 if path.costs_nothing_less else -np.inf)
        needed = needed or len(lanes) > FIRST_LANES or len(plans) > FIRST_PLANS
        known = 0
        if path.costs_nothing_less and needed:
            first_of = {way: plan for plan, way in zip(reversed(plans), reversed(self.way_of), strict=True)}
            while known < len(lanes) and not (known and progress.stopped):
                rows = np.arange(known, min(known + AT_ONCE, len(lanes)))
                some = lanes if len(rows) == len(lanes) else lanes.only(rows)
                of_tensors: dict[object, Floats] = {}
                for way, plan in first_of.items():
                    self.values[way, rows] = self._objectives(some, self._costs(some, plan, of_tensors))
                known += len(rows)
        order = np.argsort(self.of_lanes[:known, 0], kind="stable")
        self.order: Ints = np.concatenate([order, np.arange(known, len(lanes))])

    @property
    def of_lanes(self) -> Floats:
        """The least over all plans, for each use of the lanes."""
        least: Floats = self.values.min(axis=0)
        return least

    def of_plans(self, chunk: Ints) -> Floats:
        """The least over some uses of the lanes, for each plan."""
        least: Floats = self.values[:, chunk].min(axis=1)[self.way_of]
        return least

    def _objectives(self, lanes: LaneTable, costs: Floats) -> Floats:
        columns = self.path.pricer.columns
        of_components = columns.of_components(self.path.leaves)
        goals = goal_codes(self.path.request.goals, self.path.leaves, of_components, columns.n - 1)
        values = np.empty((len(costs), len(goals)))
        leak = self.path.pricer.leak_power(lanes)
        memories = len(self.path.leaves) + 1
        objective_kernels.many_objectives(costs, leak, np.zeros(memories), np.ones(memories), goals, values)
        return values

    def _costs(self, lanes: LaneTable, plan: ChainTemplate, of_tensors: dict[object, Floats]) -> Floats:
        """Columns of cost, a row for each use of the lanes. `of_tensors`: what plans have in common, filled here."""
        costs = self.path.pricer.constants(lanes, plan.chains)
        for tensor, chain in plan.chains.items():
            nodes = tuple(s.node for s in plan.steps if s.node and not s.node.backing and s.node.tensor == tensor)
            if nodes:
                key = tensor, chain, tuple((node.level, node.within) for node in nodes)
                if key not in of_tensors:
                    of_tensors[key] = sum(self._of_node(lanes, node, chain) for node in nodes)
                costs = costs + of_tensors[key]
        return np.maximum(costs, 0.0) if (costs == -np.inf).any() else costs

    def _of_node(self, lanes: LaneTable, node: Held, chain: Chain) -> Floats:
        """The least that a node costs, whatever the tile shapes: columns of cost, a row for each use of the lanes."""
        path, tensor = self.path, node.tensor
        rates, fixed, per_visit = path.pricer.node(lanes, tensor, chain, node.level, node.within)
        # where strides leave holes, small tiles may move less than the whole tensor
        size = self._least[tensor]
        none = np.array([r is Relevance.NONE for r in path.pricer.axis_relevance[tensor]], dtype=bool)
        copies = lanes.over(lanes.levels <= node.level, none)
        # where lanes reduce, more visits may save something: then nothing is said
        costs: Floats = fixed + np.where(rates >= 0, rates * (size * copies)[:, None], -np.inf)
        if per_visit.shape[1]:
            # each lane visits its node once at least, and a tile has a value
            of_visits, of_one, *of_lines = np.split(per_visit, per_visit.shape[1] // costs.shape[1], axis=1)
            costs += of_visits * path.pricer.lanes(lanes, node.level)[:, None] + of_one
            if of_lines:
                exchange = path.pricer.exchanges(path.pricer.tail(chain, node.level))[0]
                costs += _least_of_lines(of_lines, path.pricer.lines.weights(tensor, exchange))
        return costs

    @cached_property
    def _least(self) -> dict[str, float]:
        """Values that each tensor fills a node with at least."""
        fills = least_fills(self.path.lattice, self.path.einsum)
        return {a.tensor: float(values) for a, values in zip(self.path.einsum.accesses, fills, strict=True)}


def _least_of_lines(rates: list[Floats], lines: Floats) -> Floats:
    """What lines cost at least, whatever the tile shapes; `rates`: of each kind of `LineRates.weights`."""
    least = np.zeros(rates[0].shape)
    for rate, values in zip(rates, lines, strict=True):
        least += np.where(rate >= 0, rate * values.min(), rate * values.max())
    # what first fills save is a part of what all fills cost
    return np.maximum(least, 0.0)
