"""What a machine does that executes a LoopTree of one Einsum as written: the definition, run point by point.

Nothing here is shared with `einmap.model`: every compute point is listed with its place in every loop, and
visits, tiles and lanes are found by sorting these points.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from einmap import Spec
from einmap.mapping.nodes import Spatial, Storage, Temporal, Toll


@dataclass(frozen=True)
class Holder:
    name: str
    level: int
    position: int
    component: Any


@dataclass
class Machine:
    """One run. `counts[component, tensor, action][instance]` in values."""

    spec: Spec
    counts: dict = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    tiles: dict = field(default_factory=dict)

    def __post_init__(self):
        (self.einsum,) = self.spec.workload.einsums
        self.path = self.spec.arch().path("MAC")
        self.levels = {leaf.name: i for i, leaf in enumerate(self.path)}
        assert self.spec.mapping is not None
        self.nodes = self.spec.mapping.nodes
        self.loops = [(i, node) for i, node in enumerate(self.nodes) if isinstance(node, Temporal | Spatial)]
        self.points = list(self.list_points())
        unit = self.path[-1]
        self.compute = Holder(unit.name, len(self.path) - 1, len(self.nodes), unit)
        for access in self.einsum.accesses:
            self.run_tensor(access)

    def list_points(self):
        """(values of the rank variables, index in each loop) of every operation."""
        bounds = dict(self.einsum.bounds)
        for values in product(*(range(n) for n in bounds.values())):
            point = dict(zip(bounds, values, strict=True))
            inside = dict(point)
            indices = []
            for _, loop in self.loops:
                variable, shape = loop.rank_variable.default, loop.tile_shape.default
                assert variable is not None
                assert shape is not None
                indices.append(inside[variable] // shape)
                inside[variable] %= shape
            yield point, tuple(indices)

    def box(self, access, points):
        """All elements of the tensor between the smallest and the largest index, rank by rank."""
        ranges = []
        for _, index in access.projection:
            reached = [sum(a * point[v] for v, a in index.terms) for point, _ in points]
            ranges.append(range(min(reached), max(reached) + 1))
        return set(product(*ranges))

    def holders(self, access):
        found = []
        for position, node in enumerate(self.nodes):
            if isinstance(node, Storage | Toll) and access.tensor in node.tensors:
                level = self.levels[node.component]
                found.append(Holder(node.component, level, position, self.path[level]))
        return [*found, self.compute]

    def instance(self, at, point):
        return tuple(i for i, (_, lp) in zip(point[1], self.loops, strict=True) if self.level_of(lp) <= at.level)

    def level_of(self, loop):
        return self.levels[loop.component] if isinstance(loop, Spatial) else 10**9

    def note(self, at, access, action, values, point):
        self.counts[at.name, access.tensor, action][self.instance(at, point)] += values

    def merges(self, access, loop):
        dimension = next(d for d in self.path[self.level_of(loop)].spatial if d.name == loop.name)
        irrelevant = loop.rank_variable.default not in access.variables
        return irrelevant and access.tensor in dimension.may_reuse

    def run_tensor(self, access):
        chain = self.holders(access)
        stages = [[chain[0]]]
        for holder in chain[1:]:
            stages[-1].append(holder)
            if holder is self.compute or hasattr(holder.component, "size_bits"):
                stages.append([holder])
        self.stages = stages[:-1]
        self.tiles[chain[0], access.tensor] = len(self.box(access, self.points))
        self.visit(access, 0, self.points, set())

    def visit(self, access, stage, points, live):
        """One visit of the parent of this stage: run all visits of its child; `live` are the parent's results."""
        parent, *tolls, child = self.stages[stage]
        above = self.stages[stage - 1][-1].position if stage else -1
        temporal = [
            i for i, (at, lp) in enumerate(self.loops) if isinstance(lp, Temporal) and above < at < child.position
        ]
        lanes = [i for i, (_, lp) in enumerate(self.loops) if parent.level < self.level_of(lp) <= child.level]
        merged = [i for i in lanes if self.merges(access, self.loops[i][1])]
        apart = [i for i in lanes if i not in merged]
        for step in grouped(points, temporal):
            for group in grouped(step, apart):
                self.exchange(access, stage, (parent, tolls, child), grouped(group, merged), live)

    def exchange(self, access, stage, who, lanes, live):
        parent, tolls, child = who
        tile = self.box(access, lanes[0])
        key = (child, access.tensor)
        self.tiles[key] = max(self.tiles.get(key, 0), len(tile))
        filled = len(tile)
        if access.output:
            skips = parent.component.skip_initial_output_write and child.component.skip_initial_output_write
            filled = len(tile & live) if skips else len(tile)
        self.note(parent, access, "read", filled, lanes[0][0])
        # all lanes share what the parent reads; of a result only the first one takes it up
        taking = lanes[:1] if access.output else lanes
        for toll in tolls:
            if toll.component.directions[access.tensor] != "up":
                self.pass_through(toll, access, taking, filled)
        if child is not self.compute:
            for lane in taking:
                self.note(child, access, "write", filled, lane[0])
        for number, lane in enumerate(lanes):
            own = tile & live if number == 0 else set()
            if child is self.compute:
                assert len(lane) == 1
            else:
                self.visit(access, stage + 1, lane, own)
        if access.output:
            self.write_back(access, who, lanes, len(tile))
            live |= tile

    def write_back(self, access, who, lanes, values):
        parent, tolls, child = who
        if child is not self.compute:
            for lane in lanes:
                self.note(child, access, "read", values, lane[0])
        for toll in tolls:
            if toll.component.directions[access.tensor] != "down":
                self.pass_through(toll, access, lanes, values)
        self.note(parent, access, "write", values, lanes[0][0])

    def pass_through(self, toll, access, lanes, values):
        """One copy for each instance of the toll that the lanes go through."""
        for point in {self.instance(toll, lane[0]): lane[0] for lane in lanes}.values():
            self.note(toll, access, "read", values, point)

    def totals(self):
        """Values by component, tensor and action."""
        found = {key: sum(by_instance.values()) for key, by_instance in self.counts.items()}
        return {key: values for key, values in found.items() if values}

    def busiest(self, component, action, actions_per_value):
        """Actions of the instance of a component that has most of this kind."""
        sums: dict = defaultdict(float)
        for (name, tensor, kind), by_instance in self.counts.items():
            if (name, kind) == (component, action):
                for instance, values in by_instance.items():
                    sums[instance] += values * actions_per_value[tensor]
        return max(sums.values(), default=0)

    def operations_of_the_busiest(self):
        by_lane: dict = defaultdict(int)
        for point in self.points:
            by_lane[self.instance(self.compute, point)] += 1
        return max(by_lane.values())


def grouped(points, loops):
    """Points with equal indices in `loops` together, in the order in which the loops run."""
    found = defaultdict(list)
    for point in points:
        found[tuple(point[1][i] for i in loops)].append(point)
    return [found[key] for key in sorted(found)]
