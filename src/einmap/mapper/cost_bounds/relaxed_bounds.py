"""Bounds that need no tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.mapper.cost_bounds.coefficients import Chain
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.least_of_nodes import Way, least_of_node, places_of
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.layout import least_fills
from einmap.mapper.objective import objective_kernels
from einmap.mapper.objective.objectives import goal_codes
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.progress import Progress

# processor seconds with 4, 16, 64: 1.01, 1.11, 1.28 for the 16 cases of mapper_vs_peer.py, and 0.91, 0.98, 3.36
# for 3 cases of mapper_topologies.py with 4 x 4 lanes
FIRST_LANES = 16
"""Uses of the fanouts that are searched first."""
# processor seconds with 4 and 16: 0.78 and 1.09 for the 16 cases of mapper_vs_peer.py, but 4.64 and 3.94 for resnet50
# of mapper_networks.py
FIRST_PLANS = 16
"""Dataplacements that are searched first."""
FIRST_USES = 1_000
"""Of more uses of the fanouts than `Bounds` has room for, those that are looked at first."""


# 64 and 4096 take as long within 2 % (mapper_topologies.py, 4 x 4 lanes): it limits room, not time
MOST_LANES = 512
"""Uses of the fanouts that are searched at a time."""
AT_ONCE = 4_000
"""Uses of the fanouts whose costs are worked out together."""


class Bounds:
    """Objectives that no mapping is below, for each way of holding the tensors and each use of the lanes.

    Each tensor fills each of its nodes at least once for every lane that uses a part of it (see `_Costs`); the
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
                costs = _Costs(path, some)
                for way, plan in first_of.items():
                    self.values[way, rows] = costs.objectives(costs.of_plan(plan))
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


def bounds_of_uses(
    path: Path, plans: Sequence[ChainTemplate], lanes: LaneTable, progress: Progress
) -> tuple[Floats, Ints]:
    """Objectives that no mapping of any plan is below, a row for each use of the lanes; and uses in their order.

    In each column of cost each tensor is held in the way that costs least there: no better than `Bounds`, and in time
    and room that do not depend on how many ways there are. The order is that of `Bounds`.
    """
    ways: dict[str, dict[Way, None]] = {access.tensor: {} for access in path.einsum.accesses}
    for plan in plans:
        for tensor, of_tensor in ways.items():
            of_tensor[plan.chains[tensor], places_of(plan, tensor)] = None
    return bounds_of_ways(path, ways, lanes, progress)


def bounds_of_ways(
    path: Path, ways: Mapping[str, Iterable[Way]], lanes: LaneTable, progress: Progress
) -> tuple[Floats, Ints]:
    """As `bounds_of_uses`, of plans that hold each tensor in one of some ways."""
    least = np.zeros((len(lanes), len(path.request.goals)))
    known = 0
    while known < len(lanes) and not (known and progress.stopped):
        rows = np.arange(known, min(known + AT_ONCE, len(lanes)))
        costs = _Costs(path, lanes.only(rows))
        # lanes of a level wait the less, the further in the memories are
        total = path.pricer.operations(costs.lanes, len(path.leaves))
        for tensor, of_tensor in ways.items():
            each = (costs.of_tensor(tensor, way) + costs.innermost(tensor, way) for way in of_tensor)
            total = total + reduce(np.minimum, each)
        least[rows] = costs.objectives(np.maximum(total, 0.0))
        known += len(rows)
    order = np.argsort(least[:known, 0], kind="stable")
    return least, np.concatenate([order, np.arange(known, len(lanes))])


def bounds_of_each(
    path: Path, choices: Sequence[Mapping[str, Way]], lanes: LaneTable, progress: Progress
) -> tuple[Floats, bool]:
    """Objectives that no mapping is below, (choices, uses of the fanouts, objectives), and whether there was time.

    `choices`: how each tensor is held; 0 where there was no time. No action may have a negative energy.
    """
    least, known = np.zeros((len(choices), len(lanes), len(path.request.goals))), 0
    while known < len(lanes) and not (known and progress.stopped):
        rows = np.arange(known, min(known + AT_ONCE, len(lanes)))
        costs = _Costs(path, lanes if len(rows) == len(lanes) else lanes.only(rows))
        for number, ways in enumerate(choices):
            least[number, rows] = costs.objectives(costs.of_ways(ways))
        known += len(rows)
    return least, known >= len(lanes)


@dataclass(eq=False)
class _Costs:
    """Columns of cost of some uses of the lanes that no mapping is below, a row for each use.

    Each tensor fills each of its nodes at least once for every lane that uses a part of it.
    """

    path: Path
    lanes: LaneTable

    def __post_init__(self) -> None:
        self._of_tensor: dict[object, Floats] = {}
        """Values that plans have in common."""
        fills = least_fills(self.path.lattice, self.path.einsum)
        # where strides leave holes, small tiles may move less than the whole tensor
        self._least = {a.tensor: float(values) for a, values in zip(self.path.einsum.accesses, fills, strict=True)}

    def objectives(self, costs: Floats) -> Floats:
        """Objectives of columns of cost."""
        goals, leak = self._goals
        values = np.empty((len(costs), len(goals)))
        memories = len(self.path.leaves) + 1
        objective_kernels.many_objectives(costs, leak, np.zeros(memories), np.ones(memories), goals, values)
        return values

    @cached_property
    def _goals(self) -> tuple[Ints, Floats]:
        """Codes of the objectives, and the watts that each use of the fanouts draws all the time."""
        columns = self.path.pricer.columns
        of_components = columns.of_components(self.path.leaves)
        goals = goal_codes(self.path.request.goals, self.path.leaves, of_components, columns.n - 1)
        return goals, self.path.pricer.leak_power(self.lanes)

    def of_plan(self, plan: ChainTemplate) -> Floats:
        """Costs of a plan."""
        return self.of_ways({tensor: (chain, places_of(plan, tensor)) for tensor, chain in plan.chains.items()})

    def of_ways(self, ways: Mapping[str, Way]) -> Floats:
        """Costs of all plans that hold the tensors in some ways."""
        costs = self.path.pricer.constants(self.lanes, {tensor: chain for tensor, (chain, _) in ways.items()})
        for tensor, way in ways.items():
            costs = costs + self.of_tensor(tensor, way)
        return np.maximum(costs, 0.0) if (costs == -np.inf).any() else costs

    def of_tensor(self, tensor: str, way: Way) -> Floats | float:
        """Costs of a tensor's nodes where it is held in a way."""
        (chain, places), key = way, (tensor, way)
        if places and key not in self._of_tensor:
            self._of_tensor[key] = np.sum([self._of_node(tensor, chain, *place) for place in places], axis=0)
        return self._of_tensor[key] if places else 0.0

    def innermost(self, tensor: str, way: Way) -> Floats:
        """Costs of what the compute exchanges of a tensor that is held in a way."""
        pricer, access = self.path.pricer, self.path.einsum.by_tensor[tensor]
        return pricer.innermost(self.lanes, access, pricer.last_exchange(way[0]))

    def _of_node(self, tensor: str, chain: Chain, level: int, within: int) -> Floats:
        return least_of_node(self.path.pricer, self.lanes, self._least[tensor], tensor, chain, level, within)
