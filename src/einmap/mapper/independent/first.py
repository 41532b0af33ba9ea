"""A mapping of one Einsum that fits, soon: what is given where a search had no time to come to one.

A few choices come first, and then what differs from the best of them (`descent`). Where none of them fits
dataplacements are made one by one, those that keep least first, with a few uses of the fanouts and the smallest tiles
that these leave: the first thing that fits is a mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.decode import mapping_of
from einmap.mapper.branch_and_bound.path_search import TemplateTables
from einmap.mapper.branch_and_bound.smallest_tiles import Tiles
from einmap.mapper.branch_and_bound.sparse_search import new_search
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.independent.descent import Descent, Point
from einmap.mapper.mapspace.enumeration import InOrder, share_of
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.objective.metrics import METRICS, Parts, values_of
from einmap.mapper.problem.request import Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapping.mapping import Mapping
from einmap.model.batch.einsum_cost import einsum_cost
from einmap.model.counting.path import path_of
from einmap.model.occupancy.occupancy import buffers_of
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.progress import Progress

COMPARED = 8
"""Mappings that fit of which the best is taken, while there is time, where none of the first choices fits."""
LONGEST = 10.0
"""Seconds for any mapping at all where otherwise there would be none."""


@dataclass(frozen=True)
class First:
    """Mappings that fit, with their objectives, and how many choices were looked at."""

    values: list[tuple[float, ...]]
    mappings: list[Mapping]
    work: int = 0


def first_mapping(
    einsum: Einsum,
    arch: Architecture,
    request: Request,
    goal: str,
    instances: int,
    progress: Progress,
    budget: float = 0.0,
) -> First:
    """A good mapping for one objective, with the values of those of the request; empty where none was found.

    `request`: without a given mapping, of an Einsum that can be searched with tables. `instances`: how often it runs.
    `progress`: when it is time for anything that fits; the work goes on for up to 10 s until there is something.
    `budget`: choices that may be looked at to improve it.
    """
    last = Progress().within(LONGEST)
    asked = replace(request, goals=(goal,), remainder=None)
    units = [unit for unit in arch.computes if unit.enabled]
    descents = [Descent(einsum, arch, arch.path(unit.name), asked, instances, budget) for unit in units]
    for descent in descents:
        descent.begin(last)
    if all(descent.best is None for descent in descents):
        for descent in descents:
            descent.best = _fitting(descent, progress, last)
    for number, descent in enumerate(descents):
        descent.improve(share_of(progress, 1 / (len(descents) - number)))
    found = [descent.best for descent in descents if descent.best is not None]
    work = sum(descent.work for descent in descents)
    if not found:
        return First([], [], work)
    best = min(found, key=lambda point: point.value)
    return First([objectives_of(best.mapping, einsum, arch, request, instances)], [best.mapping], work)


def objectives_of(
    mapping: Mapping, einsum: Einsum, arch: Architecture, request: Request, instances: int
) -> tuple[float, ...]:
    """The values of the objectives of a request for one instance of an Einsum: J, s, J*s; parts of memories in use."""
    path = path_of(mapping, einsum, arch)
    traffic = EinsumTraffic(path, request.rules)
    cost = einsum_cost(path, traffic, arch)
    energy, latency = float(cost.energy), float(cost.latency)
    names = [name for name in request.goals if name in METRICS]
    parts = Parts(energy, float(cost.dynamic), energy - float(cost.dynamic), latency)
    values = dict(zip(names, values_of(names, parts), strict=True))
    if not values.keys() >= set(request.goals):
        counts = {t.access.tensor: t.counts for t in traffic.tensors}
        for buffer in buffers_of(path, request.rules, counts, instances):
            name = f"usage of {buffer.memory.name}"
            values[name] = values.get(name, 0.0) + float(buffer.bits) / buffer.memory.size_bits
    return tuple(values.get(goal, 0.0) for goal in request.goals)


def _fitting(descent: Descent, progress: Progress, last: Progress) -> Point | None:
    """The best of the first mappings that fit: of each dataplacement one with the most lanes, one with the fewest."""
    best = None
    for number, point in enumerate(_each_fitting(descent, descent.path, last)):
        if best is None or point.value < best.value:
            best = point
        if progress.stopped or number + 1 >= COMPARED:
            break
    return best


def _each_fitting(descent: Descent, path: Path, last: Progress) -> Iterator[Point]:
    """Mappings that fit."""
    einsum, request, instances = descent.einsum, descent.request, descent.instances
    tiles = Tiles(einsum, request.rules, instances, path, path.leaves)
    for placement in path.walked(InOrder()):
        if last.stopped:
            return
        if tiles.too_large(placement):
            continue
        plan = path.planner.plan(placement)
        admitted = path.admitted(plan)
        smallest = tiles.of(plan, admitted)
        rows = np.flatnonzero(smallest.fits)
        if path.tile_shapes.is_coarse:
            # other tile shapes than all and one may be missing
            rows = rows[(admitted.bounds[rows] == 1).all(axis=(1, 2))]
        for row in dict.fromkeys(rows[[0, -1]].tolist() if len(rows) else ()):
            lanes = admitted.only(np.array([row]))
            points = [int(tiles.points(shapes[row : row + 1])[0]) for shapes in smallest.passed]
            mapping = _mapping(path, plan, points, lanes, instances)
            yield Point(objectives_of(mapping, einsum, descent.arch, request, instances)[0], mapping, plan, lanes)


def _mapping(path: Path, plan: ChainTemplate, points: Sequence[int], lanes: LaneTable, instances: int) -> Mapping:
    """The mapping with tiles at these points of the lattice, one for each choice of the plan."""
    search = new_search(path.with_plans(path.request, [plan]), lanes, instances)
    return mapping_of(search, TemplateTables(plan, search.levels(plan), []), search.prefixes.n - 1, points)
