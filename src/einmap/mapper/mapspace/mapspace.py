"""The mapspace of one Einsum on one architecture: which choices exist, and how many.

It is a union of `Subspace`s: a template (dataplacement plus loop order) with its spatial loops bounded. What is
left in a subspace is how the remaining factors of each rank variable are spread over its temporal loops,
so its size is a product of numbers of compositions and its points are digits of a mixed-radix number.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Compute, Leaf, Memory
from einmap.arch.constraint import Names
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace.dataplacement import Dataplacement, dataplacements
from einmap.mapper.mapspace.enumeration import Walk, listed, scattered, share_of
from einmap.mapper.mapspace.lanes.spatial_mappings import SpatialChoice, n_lanes, some_spatial_choices
from einmap.mapper.mapspace.template import TemplateBuilder, joined
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.template import OpenSpatial, OpenTemporal, Template
from einmap.numbers import composed_powers, n_compositions, prime_factors, rank, unrank
from einmap.progress import Progress
from einmap.visible import brief

MOST_SUBSPACES = 250_000
"""Subspaces of one Einsum that are built at most, for the sake of memory."""
PATIENCE = 0.5
"""Seconds for which building goes on after its time while no subspace has a point."""


@dataclass(frozen=True)
class Digit:
    """How the factors `prime`**`exponent` of `variable` are spread over its temporal loops."""

    variable: str
    prime: int
    exponent: int
    loops: int

    @property
    def radix(self) -> int:
        """Number of ways."""
        return n_compositions(self.exponent, self.loops)


@dataclass(frozen=True)
class Subspace:
    """A template whose spatial loops have the bounds of `spatial`."""

    __repr__ = brief

    template: Template
    bounds: tuple[tuple[str, int], ...]
    spatial: SpatialChoice

    def slots(self, variable: str) -> tuple[int, ...]:
        """The positions of the temporal loops of a variable among all loops of the template."""
        return self.template.temporal_slots.get(variable, ())

    @cached_property
    def digits(self) -> tuple[Digit, ...]:
        """The free choices. A variable that cannot be brought down to 1 has a digit of radix 0."""
        spatial = {v: 1 for v, _ in self.bounds}
        for lanes in self.spatial:
            spatial[lanes.variable] *= lanes.bound
        return tuple(
            Digit(variable, prime, exponent, len(self.slots(variable)))
            for variable, bound in self.bounds
            for prime, exponent in prime_factors(bound // spatial[variable])
        )

    @cached_property
    def size(self) -> int:
        """Number of points, capacity not looked at."""
        return math.prod(digit.radix for digit in self.digits)

    def shapes(self, points: NDArray[np.int64]) -> list[NDArray[np.float64] | int]:
        """Tile shapes of each loop of the template; `points` has a row for each choice, a column for each digit."""
        n = len(points)
        loops = self.template.loops
        counts: list[Any] = list(self._lanes)
        for column, digit in enumerate(self.digits):
            spread = unrank(points[:, column], digit.exponent, digit.loops)
            powers = float(digit.prime) ** spread
            for position, slot in enumerate(self.slots(digit.variable)):
                counts[slot] = counts[slot] * powers[:, position]
        shapes: list[NDArray[np.float64] | int] = []
        extents: dict[str, NDArray[np.float64] | float] = {v: float(b) for v, b in self.bounds}
        for loop, count in zip(loops, counts, strict=True):
            extents[loop.rank_variable] = extents[loop.rank_variable] / count
            shapes.append(np.broadcast_to(np.asarray(extents[loop.rank_variable]), (n,)))
        return shapes

    def shapes_of(self, point: Sequence[int]) -> list[float]:
        """Tile shapes of each loop of the template for one point; what `shapes` gives for it."""
        counts = list(self._lanes)
        for digit, at in zip(self.digits, point, strict=True):
            trips = composed_powers(digit.prime, at, digit.exponent, digit.loops)
            for slot, factor in zip(self.slots(digit.variable), trips, strict=True):
                counts[slot] *= factor
        extents = {v: float(bound) for v, bound in self.bounds}
        shapes = []
        for variable, count in zip(self.template.loop_variables, counts, strict=True):
            if count != 1:
                extents[variable] /= count
            shapes.append(extents[variable])
        return shapes

    @cached_property
    def _lanes(self) -> tuple[int, ...]:
        """Lanes of each loop of the template, 1 for temporal ones."""
        bounds = {(x.component, x.dimension, x.variable): x.bound for x in self.spatial}
        return tuple(
            bounds.get((loop.component, loop.name, loop.rank_variable), 1) if isinstance(loop, OpenSpatial) else 1
            for loop in self.template.loops
        )

    def random_points(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """`n` uniform random points."""
        columns = [rng.integers(0, digit.radix, n) for digit in self.digits]
        return np.stack(columns, axis=1) if columns else np.zeros((min(n, 1), 0), dtype=np.int64)

    def points_at(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The points with these numbers, 0 <= number < size."""
        rest = indices.astype(np.int64, copy=True)
        columns = []
        for digit in self.digits:
            columns.append(rest % digit.radix)
            rest //= digit.radix
        return np.stack(columns, axis=1) if columns else np.zeros((len(indices), 0), dtype=np.int64)

    def neighbours(self, point: tuple[int, ...]) -> NDArray[np.int64]:
        """All points that differ by one prime factor moved from one loop to another of the same variable."""
        points: list[list[int]] = []
        for column, digit in enumerate(self.digits):
            spread = unrank(np.array([point[column]]), digit.exponent, digit.loops)[0]
            for source in range(digit.loops):
                for target in range(digit.loops):
                    if source == target or not spread[source]:
                        continue
                    moved = spread.copy()
                    moved[source] -= 1
                    moved[target] += 1
                    points.append([*point[:column], rank([int(x) for x in moved]), *point[column + 1 :]])
        return np.array(points, dtype=np.int64).reshape(len(points), len(self.digits))

    def mapping(self, point: tuple[int, ...]) -> LoopTree:
        """The LoopTree of a point; loops of one iteration are left out, neighbouring storage is joined."""
        shapes = [int(np.asarray(s).ravel()[0]) for s in self.shapes(np.array([point], dtype=np.int64))]
        return joined(self.template.fill(shapes, dict(self.bounds)).nodes)

    def encode(self, mapping: LoopTree) -> tuple[int, ...] | None:
        """The point whose mapping is `mapping` (loops of one iteration aside), None where it is not in the subspace."""
        digits = _encode_in(self, mapping)
        return digits if digits is not None and self.mapping(digits) == mapping else None


type Point = tuple[int, tuple[int, ...]]
"""A mapping of the mapspace: number of its subspace, and its digits there."""


@dataclass(frozen=True)
class Mapspace:
    """All mappings of one Einsum (perfect factors) that keep the architecture's constraints, capacity not looked at.

    `truncated`: building was stopped, there are more.
    """

    __repr__ = brief

    einsum: Einsum
    arch: Architecture
    subspaces: tuple[Subspace, ...]
    truncated: bool = False

    @cached_property
    def size(self) -> int:
        """Exact number of points here; different points may be the same mapping when loops have one iteration."""
        return sum(s.size for s in self.subspaces)

    def sample(self, rng: np.random.Generator) -> Point:
        """A random point: a random subspace, then uniform in it."""
        filled = [i for i, s in enumerate(self.subspaces) if s.size]
        index = filled[int(rng.integers(len(filled)))]
        return index, tuple(int(x) for x in self.subspaces[index].random_points(rng, 1)[0])

    def neighbours(self, point: Point) -> list[Point]:
        """Points one factor move away, in the same subspace."""
        index, digits = point
        return [(index, tuple(int(x) for x in row)) for row in self.subspaces[index].neighbours(digits)]

    def decode(self, point: Point) -> LoopTree:
        """The mapping of a point."""
        index, digits = point
        return self.subspaces[index].mapping(digits)

    def encode(self, mapping: LoopTree) -> Point | None:
        """A point whose mapping is `mapping` (loops of one iteration aside), None when it is not in the space."""
        for index, subspace in enumerate(self.subspaces):
            digits = subspace.encode(mapping)
            if digits is not None:
                return index, digits
        return None


def _encode_in(subspace: Subspace, mapping: LoopTree) -> tuple[int, ...] | None:
    """Match the loops of a mapping greedily to the loops of the template, in order."""
    flat: list[tree.Node | tuple[str, str]] = []
    for written in mapping.nodes:
        if isinstance(written, tree.Storage):
            flat += [(written.component, tensor) for tensor in written.tensors]
        else:
            flat.append(written)
    bounds = dict(subspace.bounds)
    counts = [1] * len(subspace.template.loops)
    position = 0
    loop_index = -1
    for open_node in subspace.template.nodes:
        node: Any = open_node
        current = flat[position] if position < len(flat) else None
        if isinstance(node, tree.Storage):
            if current != (node.component, node.tensors[0]):
                return None
            position += 1
        elif isinstance(node, OpenTemporal | OpenSpatial):
            loop_index += 1
            if isinstance(current, tree.Temporal | tree.Spatial) and _same_loop(node, current):
                shape = current.tile_shape.default or 1
                counts[loop_index] = bounds[node.rank_variable] // shape
                bounds[node.rank_variable] = shape
                position += 1
        elif current is not None and current == node:
            position += 1
        else:
            return None
    if position != len(flat) or any(b != 1 for b in bounds.values()):
        return None
    return _digits_of(subspace, counts)


def _same_loop(node: OpenTemporal | OpenSpatial, written: tree.Temporal | tree.Spatial) -> bool:
    if written.rank_variable.default != node.rank_variable:
        return False
    if isinstance(node, OpenTemporal):
        return isinstance(written, tree.Temporal)
    return isinstance(written, tree.Spatial) and (written.component, written.name) == (
        node.component,
        node.name,
    )


def _digits_of(subspace: Subspace, counts: list[int]) -> tuple[int, ...] | None:
    digits = []
    for digit in subspace.digits:
        spread = []
        for slot in subspace.slots(digit.variable):
            exponents = dict(prime_factors(counts[slot]))
            spread.append(exponents.get(digit.prime, 0))
        if sum(spread) != digit.exponent:
            return None
        digits.append(rank(spread))
    return tuple(digits)


# building


@dataclass(frozen=True)
class BuildingEffort:
    """How much of a mapspace is built: until the token `progress` says stop, and at most `most` subspaces.

    `seed`: which part is kept where there are more.
    """

    progress: Progress = field(default_factory=Progress)
    most: int = MOST_SUBSPACES
    seed: int = 0


def mapspace_of(
    einsum: Einsum,
    arch: Architecture,
    *,
    backed_outside: Names,
    first_partial_matters: bool,
    force_hierarchy_order: bool = True,
    whole: Names = frozenset(),
    admits: Callable[[Dataplacement], bool] | None = None,
    effort: BuildingEffort | None = None,
) -> Mapspace:
    """The mapspace over all enabled computes.

    `backed_outside`: see `dataplacements`. `first_partial_matters`: which partially relevant loop comes first in a
    gap is a choice (it decides what lowering passes). `whole`: tensors above whose outermost node no loop stands;
    `admits`: which dataplacements are wanted. Where `effort` does not suffice, the mapspace is `truncated` and holds a
    fair part of the subspaces; those of one that is not truncated, and their order, do not depend on it.
    """
    effort = effort or BuildingEffort()
    units = [unit for unit in arch.computes if unit.enabled]
    subspaces: list[Subspace] = []
    truncated = False
    for position, unit in enumerate(units):
        left = len(units) - position
        builder = _Builder(einsum, arch.path(unit.name), unit, backed_outside, first_partial_matters, whole, admits)
        token, most = share_of(effort.progress, 1 / left), max(effort.most // len(units), 1)
        built = builder.build(force_hierarchy_order, token, most, effort.seed)
        subspaces += built.subspaces
        truncated |= not built.complete
    return Mapspace(einsum, arch, tuple(subspaces), truncated)


@dataclass(frozen=True)
class _Built:
    subspaces: list[Subspace]
    complete: bool


@dataclass
class _Builder:
    """The subspaces over one compute: every dataplacement with every use of the fanouts."""

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    unit: Compute
    backed_outside: Names
    first_partial_matters: bool
    whole: Names = frozenset()
    admits: Callable[[Dataplacement], bool] | None = None

    def build(self, force_hierarchy_order: bool, token: Progress, most: int, seed: int) -> _Built:
        """Pairs are visited in a scattered order, so that a stop at any time leaves a fair part of them."""
        rng = np.random.default_rng(seed)
        lanes, all_lanes = some_spatial_choices(self.einsum, self.leaves, rng, share_of(token, 0.25))
        placed, all_placed = listed(partial(self.placements, force_hierarchy_order), rng, share_of(token, 0.33))
        makers: dict[int, TemplateBuilder] = {}
        made: dict[int, list[Subspace]] = {}
        count = filled = 0
        complete = all_lanes and all_placed
        for pair in _pairs(len(placed), lanes, rng):
            if pair in made:
                continue
            if count >= most or (token.stopped and (filled or _long_over(token))):
                complete = False
                break
            at, lane = divmod(pair, len(lanes))
            if at not in makers:
                makers[at] = TemplateBuilder(
                    self.einsum, self.leaves, self.unit, placed[at], self.first_partial_matters, self.whole, self.uncut
                )
            made[pair] = [Subspace(t, self.einsum.bounds, lanes[lane]) for t in makers[at].templates(lanes[lane])]
            count += len(made[pair])
            filled += sum(s.size > 0 for s in made[pair])
            if len(made) % 1_024 == 0:
                token.report(f"{self.einsum.name}: building the mapspace, {count:,} templates", 0)
        return _Built([subspace for pair in sorted(made) for subspace in made[pair]], complete)

    def placements(self, force_hierarchy_order: bool, walk: Walk) -> Iterator[Dataplacement]:
        memories = (leaf.name for leaf in self.leaves if isinstance(leaf, Memory) and leaf.enabled)
        every = dataplacements(
            self.einsum,
            self.leaves,
            backed_outside=self.backed_outside,
            force_hierarchy_order=force_hierarchy_order,
            walk=walk,
            top=next(memories, None) if self.whole else None,
        )
        return every if self.admits is None else filter(self.admits, every)

    @cached_property
    def uncut(self) -> frozenset[tuple[str, str]]:
        """All ranks of the tensors that are kept whole."""
        return frozenset((t, rank) for t in self.whole for rank, _ in self.einsum.by_tensor[t].projection)


def _pairs(n_placed: int, lanes: list[SpatialChoice], rng: np.random.Generator) -> Iterator[int]:
    """Numbers of (dataplacement, use of the fanouts), scattered; every other one is of the fullest use."""
    fullest = sum(n_lanes(choice) == n_lanes(lanes[0]) for choice in lanes)
    first = scattered(n_placed * fullest, rng)
    for pair in scattered(n_placed * len(lanes), rng):
        full = next(first, None)
        if full is not None:
            yield full // fullest * len(lanes) + full % fullest
        yield pair


def _long_over(token: Progress) -> bool:
    """Whether the time was up so long ago that building ends even when it has nothing to show."""
    return token.deadline is None or time.monotonic() > token.deadline + PATIENCE
