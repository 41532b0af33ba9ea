"""Whether anything fits, without a search: the smallest tiles that a dataplacement and a use of the lanes leave.

Capacities and upper limits on tile shapes only get easier with smaller tiles. So in each gap every loop that may stand
there brings its tile shape down as far as the lanes further in allow, and if these tiles do not fit none do. What a
memory needs at least is known at once. Limits from below (`==`, `>=`, `>`) are another matter: see `why_not_smallest`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from einmap.arch.component import Leaf, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.mapspace.dataplacement import Dataplacement
from einmap.mapper.mapspace.enumeration import InOrder
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.layout import values_of
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.request import Request
from einmap.mapper.templates.chain_template import ChainSegment, ChainTemplate, Held
from einmap.model.counting.semantics import Semantics
from einmap.progress import Progress


@dataclass(frozen=True)
class Fit:
    """Needs of a mapping that fits: for each memory the tensors that it holds, with bits and values of the tiles.

    `is_least`: no mapping needs fewer bits in the memory that was asked for.
    """

    held: Mapping[str, tuple[tuple[str, float, float], ...]]
    is_least: bool

    def bits(self, memory: str) -> int:
        """Bits that a memory needs, rounded up."""
        return math.ceil(math.fsum(bits for _, bits, _ in self.held.get(memory, ())) - 1e-9)


def why_not_smallest(leaves: tuple[Leaf, ...]) -> str | None:
    """Why the smallest tiles may not be the ones that fit, None if they are."""
    for leaf in leaves:
        for limit in leaf.placement.tile_shape if isinstance(leaf, Memory | Toll) and leaf.placement else ():
            if limit.comparison not in ("<=", "<"):
                return f"{leaf.name} limits tile shapes from below"
    return None


@dataclass
class Listed:
    """The dataplacements of a path, listed and planned as far as somebody has asked for them."""

    path: Path
    seen: list[Dataplacement] = field(default_factory=list)
    plans: dict[Dataplacement, tuple[ChainTemplate, LaneTable]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.walk = self.path.walked(InOrder())

    def __iter__(self) -> Iterator[Dataplacement]:
        yield from self.seen
        for placement in self.walk:
            self.seen.append(placement)
            yield placement

    def plan(self, placement: Dataplacement) -> tuple[ChainTemplate, LaneTable]:
        """A dataplacement as a chain of steps, and the uses of the fanouts that it admits."""
        if placement not in self.plans:
            plan = self.path.planner.plan(placement)
            self.plans[placement] = plan, self.path.admitted(plan)
        return self.plans[placement]


@dataclass
class Smallest:
    """The smallest tiles on the path to one compute; plans and lanes are remembered, they do not depend on sizes."""

    einsum: Einsum
    request: Request
    instances: int = 1
    listings: dict[object, Listed] = field(default_factory=dict)
    tables: dict[object, LaneTable] = field(default_factory=dict)

    def fit(self, arch: Architecture, compute: str, least: str | None, progress: Progress) -> tuple[Fit | None, bool]:
        """A mapping that fits, or None, and whether that is certain.

        With `least`, the one that needs the fewest bits in that memory.
        """
        listed = self.listed(arch, compute)
        path = listed.path
        if path.lattice.size > 1 and path.tile_shapes.is_coarse:
            return None, False
        best: Fit | None = None
        certain = True
        tiles = Tiles(self.einsum, self.request.rules, self.instances, path, arch.path(compute))
        for placement in listed:
            if progress.stopped:
                return best, best is not None and least is None
            if tiles.too_large(placement):
                continue
            plan, lanes = listed.plan(placement)
            fit = tiles.fit(plan, lanes, least) if len(lanes) else None
            certain &= not path.leaves_out(plan)
            if fit is None:
                continue
            if least is None:
                return fit, True
            if best is None or fit.bits(least) < best.bits(least):
                best = fit
                tiles.capacity[least] = best.bits(least) - 1e-9
        return (replace(best, is_least=True) if best else None), certain

    def listed(self, arch: Architecture, compute: str) -> Listed:
        """Dataplacements and lanes."""
        leaves = arch.path(compute)
        key = tuple(replace(leaf, size_bits=0) if isinstance(leaf, Memory) else leaf for leaf in leaves)
        if key not in self.listings:
            path = Path(self.einsum, arch, leaves, replace(self.request, prune=False))
            fanouts = (tuple(leaf.spatial for leaf in leaves), path.lattice)
            if fanouts in self.tables:
                # the table depends on nothing but fanouts and lattice
                path = path.with_lanes(self.tables[fanouts])
            self.tables[fanouts] = path.lanes
            self.listings[key] = Listed(path)
        return self.listings[key]


def fits_nowhere(einsum: Einsum, request: Request, instances: int, paths: Sequence[Path], progress: Progress) -> bool:
    """Whether it is certain that no mapping of the mapspace fits, by the smallest tiles of each dataplacement.

    `paths`: those of all computes, with their dataplacements. False as well where that was not decided: dataplacements
    that are not all listed, limits from below on tile shapes, or no time.
    """
    for path in paths:
        if path.given is not None or not path.all_plans or why_not_smallest(path.leaves) is not None:
            return False
        if path.lattice.size > 1 and path.tile_shapes.is_coarse:
            return False
        tiles = Tiles(einsum, request.rules, instances, path, path.leaves)
        for plan in path.plans:
            if progress.stopped:
                return False
            if not tiles.too_large(plan.placement) and (
                path.leaves_out(plan) or tiles.fit(plan, path.admitted(plan), None) is not None
            ):
                return False
    return True


@dataclass
class PlanTiles:
    """The smallest tiles of one plan, with a row for each use of the lanes.

    `passed`: the tile shapes below each choice of the plan. `held`: storage nodes with the values in their tiles.
    `fits`: which uses of the lanes fit, as far as that is known.
    """

    fits: Bools
    lanes: LaneTable
    passed: list[Ints] = field(default_factory=list)
    held: list[tuple[Held, Floats]] = field(default_factory=list)


class Tiles:
    """The smallest tiles of the plans on one path. `instances`: how often the Einsum runs.

    `leaves`: those of the path, or equal ones with other sizes.
    """

    def __init__(self, einsum: Einsum, rules: Semantics, instances: int, path: Path, leaves: tuple[Leaf, ...]) -> None:
        self.einsum, self.rules, self.instances = einsum, rules, instances
        self.path, self.lattice, self.leaves = path, path.lattice, leaves
        self.sizes = [np.array(axis.sizes, dtype=np.int64) for axis in self.lattice.axes]
        self.tops = np.array([axis.sizes[-1] for axis in self.lattice.axes], dtype=np.int64)
        memories = [leaf for leaf in leaves if isinstance(leaf, Memory)]
        self.size_of = {leaf.name: leaf.size_bits for leaf in memories}
        self.capacity = dict(self.size_of)
        """More is not looked for in each memory (bits)."""
        each = [(leaf, a) for leaf in memories for a in einsum.accesses]
        self.value = {(leaf.name, a.tensor): float(leaf.bits.get(a.tensor, 0)) for leaf, a in each}
        self.whole = {a.tensor: float(self.values_at(a.tensor, self.tops[None])[0]) for a in einsum.accesses}

    def too_large(self, placement: Dataplacement) -> bool:
        """Whether not even one value of each tensor fits into some memory, or not all of all into the outermost one."""
        used: dict[str, float] = {}
        for i, (memory, tensor) in enumerate(placement.nodes):
            values = self.stored(tensor, self.whole[tensor]) if i < placement.n_outer else 1.0
            used[memory] = used.get(memory, 0.0) + values * self.value[memory, tensor]
        return any(bits > self.capacity[memory] for memory, bits in used.items())

    def memory(self, node: Held) -> Memory:
        """The memory of a storage node, with its size."""
        leaf = self.leaves[node.level]
        assert isinstance(leaf, Memory)
        return leaf

    def values_at(self, tensor: str, shapes: Ints) -> Floats:
        """Values in a tensor's tile, for tile shapes on each axis (a row for each use of the lanes)."""
        on_lattice = [sizes[np.searchsorted(sizes, shapes[:, axis])] for axis, sizes in enumerate(self.sizes)]
        rows = np.stack(on_lattice, axis=1) if on_lattice else shapes
        return values_of(self.lattice, self.einsum.by_tensor[tensor], rows)

    def points(self, shapes: Ints) -> Ints:
        """Points of the lattice with these tile shapes."""
        points = np.zeros(len(shapes), dtype=np.int64)
        for axis, sizes in enumerate(self.sizes):
            points += np.searchsorted(sizes, shapes[:, axis]) * self.lattice.strides[axis]
        return points

    def fit(self, plan: ChainTemplate, lanes: LaneTable, least: str | None) -> Fit | None:
        """The use of the lanes with which a plan fits, the one that needs least if a memory is named."""
        tiles = self.of(plan, lanes)
        needed = self.needed(tiles)
        rows = np.flatnonzero(tiles.fits)
        if not len(rows):
            return None
        row = rows[0] if least is None or least not in needed else rows[np.argmin(needed[least][rows])]
        held: dict[str, tuple[tuple[str, float, float], ...]] = {}
        for node, values in tiles.held:
            entry = (node.tensor, float(self.bits(node, values, lanes)[row]), float(values[row]))
            held[self.memory(node).name] = (*held.get(self.memory(node).name, ()), entry)
        return Fit(held, is_least=False)

    def of(self, plan: ChainTemplate, lanes: LaneTable) -> PlanTiles:
        """The smallest tiles of a plan with each use of the lanes, and which of these fit into all memories."""
        tiles = self._shapes(plan, lanes)
        for memory, bits in self.needed(tiles).items():
            tiles.fits &= bits <= self.size_of[memory]
        return tiles

    def _shapes(self, plan: ChainTemplate, lanes: LaneTable) -> PlanTiles:
        """The smallest tiles of a plan, judged by limits on tile shapes alone."""
        n = len(lanes)
        tiles = PlanTiles(np.ones(n, dtype=bool), lanes)
        shapes = np.broadcast_to(self.tops, (n, len(self.tops))).copy()
        for node in plan.outer:
            self.place(tiles, node, shapes)
        even = np.where(lanes.shapes > 0, 1, lanes.bounds)
        rest, uneven = even.prod(axis=1), lanes.shapes.max(axis=1, initial=0)
        # uneven lanes are the outermost loop over their axis: no loop above brings it down
        left = np.where(uneven > 0, self.tops, rest)
        for i, step in enumerate(plan.steps):
            before = shapes.copy()
            for axis in step.axes:
                shapes[:, axis] = left[:, axis]
            tiles.passed.append(shapes.copy())
            if step.lowers is not None:
                tiles.held.append((step.lowers, self.lowered(step.lowers, before, shapes)))
            for level in step.fanouts:
                here = lanes.levels == level
                used, first = even[:, here].prod(axis=1), lanes.shapes[:, here].max(axis=1, initial=0)
                shapes = np.where(first > 0, first, shapes) // used
                rest, uneven = rest // used, np.where(first > 0, 0, uneven)
                left = np.where(uneven > 0, self.tops, rest)
                tiles.passed.append(shapes)
            if step.node is not None:
                self.place(tiles, step.node, shapes, plan.steps[i + 1])
        tiles.fits &= (shapes == 1).all(axis=1)
        return tiles

    def place(self, tiles: PlanTiles, node: Held, shapes: Ints, following: ChainSegment | None = None) -> None:
        """Put one storage node into its memory, or let the step that follows it reserve the space."""
        lowers = self.rules.lowering and not node.backing and following is not None and following.lowers is not None
        if not lowers:
            tiles.held.append((node, self.values_at(node.tensor, shapes)))
        placement = self.memory(node).placement
        if node.first and placement is not None:
            extents: dict[str, Floats | float] = {
                axis.members[0][0]: shapes[:, i].astype(np.float64)
                for i, axis in enumerate(self.lattice.axes)
                if len(axis.members) == 1
            }
            for limit in placement.tile_shape:
                tiles.fits &= limit.holds_each(extents)

    def lowered(self, node: Held, before: Ints, after: Ints) -> Floats:
        """Values reserved below the loops that index a tensor, and below one that does so in part."""
        relevance = self.path.pricer.axis_relevance[node.tensor]
        full = np.array([r is Relevance.FULL for r in relevance], dtype=bool)
        passed = np.where(full, after, before)
        values = self.values_at(node.tensor, passed)
        for axis, kind in enumerate(relevance):
            if kind is Relevance.PARTIAL:
                other = passed.copy()
                other[:, axis] = after[:, axis]
                values = np.minimum(values, self.values_at(node.tensor, other))
        return values

    def needed(self, tiles: PlanTiles) -> dict[str, Floats]:
        """Bits that the tiles take in each memory, for each use of the lanes."""
        needed: dict[str, Floats] = {}
        for node, values in tiles.held:
            memory = self.memory(node).name
            needed[memory] = needed.get(memory, 0.0) + self.bits(node, values, tiles.lanes)
        return needed

    def bits(self, node: Held, values: Floats, lanes: LaneTable) -> Floats:
        """Bits of a tensor's tiles; what stays over all instances of the Einsum is kept for each."""
        loops = self.path.pricer.units.loops(lanes, node.tensor, node.level)
        if loops is not None:
            values = np.ceil(values * loops.share.held * (1 - TIE))
        times = self.instances if node.backing and self.einsum.by_tensor[node.tensor].persistent else 1
        if node.backing:
            values = self.stored(node.tensor, values)
        bits: Floats = values * (self.memory(node).bits[node.tensor] * times)
        return bits

    def stored[V: (float, Floats)](self, tensor: str, values: V) -> V:
        """Values that the outermost holder keeps where rows of so many are looked up: all of the table."""
        return self.einsum.by_tensor[tensor].stored(values, self.einsum.extents)  # type: ignore[no-any-return]
