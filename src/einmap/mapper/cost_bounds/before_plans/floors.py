"""Lower bounds of an Einsum before its choices are listed: each tensor held, by itself, in the way that costs least.

Lists of what memories keep in which order, and of uses of the fanouts, take seconds on machines of many levels. These
bounds need the ways in which each tensor may be held, and uses of the fanouts alone; of too many uses those of a
machine whose outer lanes are merged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from einmap.arch.component import Leaf, Memory
from einmap.arch.constraint import Names
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.mapper.cost_bounds.before_plans.merged_lanes import with_merged_lanes
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.least_of_nodes import Way
from einmap.mapper.cost_bounds.relaxed_bounds import bounds_of_ways
from einmap.mapper.mapspace.dataplacement import every_choice
from einmap.mapper.mapspace.lanes.dimension_ways import ways_of
from einmap.mapper.mapspace.lanes.fanout_table import unordered_lanes
from einmap.mapper.mapspace.lanes.spatial_mappings import first_routed
from einmap.mapper.problem.request import Request
from einmap.model.timing.systolic import is_skewed
from einmap.pareto import nondominated
from einmap.progress import Progress

MOST_CHOICES = 20_000
"""Choices of what memories keep that are looked at."""
MOST_USES, MOST_MERGED = 5_000, 100_000
"""Uses of the fanouts up to which no lanes are merged; that are looked at where no more may be."""


def floors_of(einsum: Einsum, arch: Architecture, request: Request) -> Floats | None:
    """Rows of objectives such that each mapping is no better than some row in all of them; None where none are known.

    Intermediate tensors (`request.intermediates`) come for free to their outermost nodes, wherever these are.
    """
    rows = []
    for unit in (unit for unit in arch.computes if unit.enabled):
        found = _of_path(einsum, arch, unit.name, request)
        if found is None:
            return None
        rows.append(found)
    every = np.concatenate(rows) if rows else np.zeros((0, len(request.goals)))
    return every[nondominated(every)] if len(every) else None


def _of_path(einsum: Einsum, arch: Architecture, unit: str, request: Request) -> Floats | None:
    relaxed = with_few_uses(einsum, arch, unit, request, MOST_MERGED)
    if relaxed is None:
        return None
    machine, ways = relaxed
    path = _path(einsum, machine, unit, request)
    lanes = unordered_lanes(einsum, path.leaves, path.lattice)
    if not len(lanes) or not lanes.complete:
        return None
    rows, _ = bounds_of_ways(path, ways, replace(lanes, unordered=False), Progress())
    return rows[nondominated(rows)]


def with_few_uses(
    einsum: Einsum, arch: Architecture, unit: str, request: Request, most: int, unmerged: int = 0
) -> tuple[Architecture, dict[str, set[Way]]] | None:
    """The machine, or one with merged outer lanes that costs no more, and the ways in which it may hold each tensor.

    None where that is not known, or where there are more than `most` uses of the fanouts once all lanes are merged that
    may be. Up to `unmerged` uses no lanes are merged, nor up to MOST_USES.
    """
    leaves = arch.path(unit)
    top = next((level for level, leaf in enumerate(leaves) if isinstance(leaf, Memory) and leaf.enabled), None)
    if top is None or any(leaf.spatial for leaf in leaves[: top + 1]) or is_skewed(leaves):
        return None
    ways = _ways(einsum, leaves, request)
    if ways is None or first_routed(leaves) < len(leaves) or request.uneven_loops or request.uneven_lanes:
        return None
    innermost = min(chain[-2] for of_tensor in ways.values() for chain, _ in of_tensor)
    waiting = iter([level for level, leaf in enumerate(leaves) if leaf.spatial and level <= innermost])
    path, machine = _path(einsum, arch, unit, request), arch
    if not path.costs_nothing_less or path.tile_shapes.is_coarse:
        return None
    while (uses := uses_of(path)) > max(unmerged, MOST_USES):
        level = next(waiting, None)
        merged = None if level is None else with_merged_lanes(arch, unit, level, einsum.name)
        if merged is None:
            return (machine, ways) if level is None and uses <= most else None
        machine, path = merged, _path(einsum, merged, unit, request)
    return machine, ways


def _path(einsum: Einsum, arch: Architecture, unit: str, request: Request) -> Path:
    path = Path(einsum, arch, arch.path(unit), request)
    # where lanes stand beside shared storage does not matter here, and takes a walk through dataplacements to tell
    path.fused_dimensions = frozenset()
    return path


def uses_of(path: Path) -> int:
    """How many uses of the fanouts there are at most."""
    dimensions = [dimension for leaf in path.leaves for dimension in leaf.spatial]
    return math.prod(len(ways_of(path.einsum, d, path.lattice)) for d in dimensions)


def _ways(einsum: Einsum, leaves: Sequence[Leaf], request: Request) -> dict[str, set[Way]] | None:
    """The ways in which each tensor may be held, whatever the others are; None where there are too many to look at."""
    every = every_choice(einsum, tuple(leaves), einsum.tensors - request.intermediates, MOST_CHOICES)
    if not every:
        return None
    ways: dict[str, set[Way]] = {access.tensor: set() for access in einsum.accesses}
    for held in every:
        for tensor, way in ways_held(einsum, leaves, held).items():
            ways[tensor].add(way)
    return ways


def ways_held(einsum: Einsum, leaves: Sequence[Leaf], held: Mapping[str, Names]) -> dict[str, Way]:
    """How each tensor is held in one choice of what memories and tolls keep."""
    ways = dict[str, Way]()
    holders = [(level, leaf) for level, leaf in enumerate(leaves) if leaf.name in held]
    for access in einsum.accesses:
        levels = [level for level, leaf in holders if access.tensor in held[leaf.name]]
        nodes = [level for level in levels if isinstance(leaves[level], Memory)]
        ways[access.tensor] = (*levels, len(leaves) - 1), tuple((level, -1) for level in nodes[1:])
    return ways
