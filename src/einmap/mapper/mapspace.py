"""The mapspace of one Einsum on one architecture: which choices exist, and how many.

It is a union of `Subspace`s: a template (dataplacement plus loop order) with its spatial loops bounded. What is
left in a subspace is how the remaining factors of each rank variable are spread over its temporal loops,
so its size is a product of numbers of compositions and its points are digits of a mixed-radix number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Compute, Leaf, Memory
from einmap.arch.constraint import Names
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.projection import Relevance
from einmap.mapper.dataplacement import Dataplacement, dataplacements
from einmap.mapper.factors import n_compositions, prime_factors, rank, unrank
from einmap.mapper.spatial_choices import SpatialChoice, spatial_choices
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.template import OpenSpatial, OpenTemporal, Template, TemplateNode


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

    template: Template
    bounds: tuple[tuple[str, int], ...]
    spatial: SpatialChoice

    @cached_property
    def temporal_slots(self) -> Mapping[str, tuple[int, ...]]:
        """For each variable the positions of its temporal loops among all loops of the template."""
        found: dict[str, list[int]] = {v: [] for v, _ in self.bounds}
        for index, loop in enumerate(self.template.loops):
            if isinstance(loop, OpenTemporal):
                found[loop.rank_variable].append(index)
        return {v: tuple(slots) for v, slots in found.items()}

    @cached_property
    def digits(self) -> tuple[Digit, ...]:
        """The free choices. A variable that cannot be brought down to 1 has a digit of radix 0."""
        spatial = {v: 1 for v, _ in self.bounds}
        for lanes in self.spatial:
            spatial[lanes.variable] *= lanes.bound
        return tuple(
            Digit(variable, prime, exponent, len(self.temporal_slots[variable]))
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
        counts: list[Any] = [self._lanes(i) for i in range(len(loops))]
        for column, digit in enumerate(self.digits):
            spread = unrank(points[:, column], digit.exponent, digit.loops)
            powers = float(digit.prime) ** spread
            for position, slot in enumerate(self.temporal_slots[digit.variable]):
                counts[slot] = counts[slot] * powers[:, position]
        shapes: list[NDArray[np.float64] | int] = []
        extents: dict[str, NDArray[np.float64] | float] = {v: float(b) for v, b in self.bounds}
        for loop, count in zip(loops, counts, strict=True):
            extents[loop.rank_variable] = extents[loop.rank_variable] / count
            shapes.append(np.broadcast_to(np.asarray(extents[loop.rank_variable]), (n,)))
        return shapes

    def _lanes(self, index: int) -> int:
        loop = self.template.loops[index]
        if isinstance(loop, OpenSpatial):
            for lanes in self.spatial:
                if (lanes.component, lanes.dimension, lanes.variable) == (
                    loop.component,
                    loop.name,
                    loop.rank_variable,
                ):
                    return lanes.bound
        return 1

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
        found: list[list[int]] = []
        for column, digit in enumerate(self.digits):
            spread = unrank(np.array([point[column]]), digit.exponent, digit.loops)[0]
            for source in range(digit.loops):
                for target in range(digit.loops):
                    if source == target or not spread[source]:
                        continue
                    moved = spread.copy()
                    moved[source] -= 1
                    moved[target] += 1
                    found.append([*point[:column], rank([int(x) for x in moved]), *point[column + 1 :]])
        return np.array(found, dtype=np.int64).reshape(len(found), len(self.digits))

    def mapping(self, point: tuple[int, ...]) -> LoopTree:
        """The LoopTree of a point; loops of one iteration are left out, neighbouring storage is joined."""
        shapes = [int(np.asarray(s).ravel()[0]) for s in self.shapes(np.array([point], dtype=np.int64))]
        return _joined(self.template.fill(shapes, dict(self.bounds)))


def _joined(mapping: LoopTree) -> LoopTree:
    nodes: list[tree.Node] = []
    for node in mapping.nodes:
        last = nodes[-1] if nodes else None
        if isinstance(node, tree.Storage) and isinstance(last, tree.Storage) and _alike(last, node):
            nodes[-1] = tree.Storage((*last.tensors, *node.tensors), node.component, node.persistent)
        else:
            nodes.append(node)
    return LoopTree(tuple(nodes))


def _alike(a: tree.Storage, b: tree.Storage) -> bool:
    return (a.component, a.persistent) == (b.component, b.persistent)


type Point = tuple[int, tuple[int, ...]]
"""A mapping of the mapspace: number of its subspace, and its digits there."""


@dataclass(frozen=True)
class Mapspace:
    """All mappings of one Einsum (perfect factors) that keep the architecture's constraints, capacity not looked at."""

    einsum: Einsum
    arch: Architecture
    subspaces: tuple[Subspace, ...]

    @cached_property
    def size(self) -> int:
        """Exact number of points; different points may be the same mapping when loops have one iteration."""
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
            digits = _encode_in(subspace, mapping)
            if digits is not None and subspace.mapping(digits) == mapping:
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
        for slot in subspace.temporal_slots[digit.variable]:
            exponents = dict(prime_factors(counts[slot]))
            spread.append(exponents.get(digit.prime, 0))
        if sum(spread) != digit.exponent:
            return None
        digits.append(rank(spread))
    return tuple(digits)


# building


def mapspace_of(
    einsum: Einsum,
    arch: Architecture,
    *,
    backed_outside: Names,
    first_partial_matters: bool,
    force_hierarchy_order: bool = True,
) -> Mapspace:
    """The mapspace over all enabled computes.

    `backed_outside`: see `dataplacements`. `first_partial_matters`: which partially relevant loop comes first in a
    gap is a choice (it decides what lowering passes).
    """
    subspaces: list[Subspace] = []
    for unit in arch.computes:
        if not unit.enabled:
            continue
        leaves = arch.path(unit.name)
        lanes = spatial_choices(einsum, leaves)
        placed = dataplacements(
            einsum, leaves, backed_outside=backed_outside, force_hierarchy_order=force_hierarchy_order
        )
        for placement in placed:
            builder = _TemplateBuilder(einsum, leaves, unit, placement, first_partial_matters)
            for template, spatial in builder.templates(lanes):
                subspaces.append(Subspace(template, einsum.bounds, spatial))
    return Mapspace(einsum, arch, tuple(subspaces))


@dataclass
class _TemplateBuilder:
    """Templates of one dataplacement: loops in every gap, spatial loops at their one place."""

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    unit: Compute
    placement: Dataplacement
    first_partial_matters: bool

    def __post_init__(self) -> None:
        self.levels = {leaf.name: i for i, leaf in enumerate(self.leaves)}

    def templates(self, lanes: list[SpatialChoice]) -> Iterator[tuple[Template, SpatialChoice]]:
        gaps = [self.loops_of_gap(i) for i in range(self.placement.n_outer, len(self.placement.nodes) + 1)]
        for choice in lanes:
            if not self.spatial_allowed(choice):
                continue
            for orders in _product(gaps):
                yield Template(tuple(self.nodes(orders, choice))), choice

    def held_above(self, index: int) -> Names:
        return frozenset(tensor for _, tensor in self.placement.nodes[:index])

    def loops_of_gap(self, index: int) -> list[tuple[str, ...]]:
        """Orders of the temporal loops between node `index` - 1 and node `index`."""
        waiting = self.einsum.tensors - self.held_above(index)
        allowed = [
            v
            for v, bound in self.einsum.bounds
            if bound > 1
            and all(self.einsum.by_tensor[t].relevance(v) is Relevance.FULL for t in waiting)
            and not self.refetches(v, index)
        ]
        _, tensor = self.placement.nodes[index - 1]
        relevance = {v: self.einsum.by_tensor[tensor].relevance(v) for v in allowed}
        full = tuple(v for v in allowed if relevance[v] is Relevance.FULL)
        partial = [v for v in allowed if relevance[v] is Relevance.PARTIAL]
        none = tuple(v for v in allowed if relevance[v] is Relevance.NONE)
        if not self.first_partial_matters or len(partial) < 2:
            return [(*full, *partial, *none)]
        return [(*full, first, *(v for v in partial if v != first), *none) for first in partial]

    def refetches(self, variable: str, index: int) -> bool:
        """Whether a loop here breaks no_refetch_from_above or no_resend_to_below of some holder."""
        held: dict[str, Names] = {}
        for leaf in self.leaves:
            if not isinstance(leaf, Memory) or leaf.placement is None:
                continue
            tensors = {t: i for i, (m, t) in enumerate(self.placement.nodes) if m == leaf.name}
            for tensor in leaf.placement.no_refetch_from_above.given(held) & frozenset(tensors):
                first = next(i for i, (_, t) in enumerate(self.placement.nodes) if t == tensor)
                if first < index <= tensors[tensor] and not self.is_full(tensor, variable):
                    return True
            for tensor in leaf.placement.no_resend_to_below.given(held) & frozenset(tensors):
                after = [i for i, (_, t) in enumerate(self.placement.nodes) if t == tensor and i > tensors[tensor]]
                end = min(after, default=len(self.placement.nodes))
                if tensors[tensor] < index <= end and not self.is_full(tensor, variable):
                    return True
            held[leaf.name] = frozenset(tensors)
        return False

    def is_full(self, tensor: str, variable: str) -> bool:
        return self.einsum.by_tensor[tensor].relevance(variable) is Relevance.FULL

    def spatial_allowed(self, choice: SpatialChoice) -> bool:
        """No lane may stand above the backing storage of a tensor that it does not index."""
        for lanes in choice:
            place = self.place_of(lanes.component)
            for tensor in self.einsum.tensors - self.held_above(place):
                if self.einsum.by_tensor[tensor].relevance(lanes.variable) is Relevance.NONE:
                    return False
        return True

    def place_of(self, component: str) -> int:
        """Node before which the spatial loops of a component stand: after all holders above it."""
        level = self.levels[component]
        above = [i + 1 for i, (memory, _) in enumerate(self.placement.nodes) if self.levels[memory] < level]
        return max(above, default=0)

    def nodes(self, orders: tuple[tuple[str, ...], ...], choice: SpatialChoice) -> Iterator[TemplateNode]:
        spatial: dict[int, list[OpenSpatial]] = {}
        for leaf in self.leaves:
            for dimension in leaf.spatial:
                for lanes in choice:
                    if (lanes.component, lanes.dimension) == (leaf.name, dimension.name):
                        loop = OpenSpatial(lanes.variable, lanes.component, lanes.dimension)
                        spatial.setdefault(self.place_of(leaf.name), []).append(loop)
        tolls = self.tolls()
        n_outer = self.placement.n_outer
        for index in range(len(self.placement.nodes) + 1):
            if index >= n_outer:
                yield from tolls.get((index, "above loops"), ())
                yield from (OpenTemporal(v) for v in orders[index - n_outer])
            yield from spatial.get(index, ())
            yield from tolls.get((index, "below lanes"), ())
            if index < len(self.placement.nodes):
                memory, tensor = self.placement.nodes[index]
                backing = tensor not in self.held_above(index)
                lasting = backing and self.einsum.by_tensor[tensor].persistent and index < n_outer
                yield tree.Storage((tensor,), memory, lasting)
        yield tree.Compute(self.einsum.name, self.unit.name)

    def tolls(self) -> dict[tuple[int, str], list[tree.Toll]]:
        """Where tolls stand: below the fanouts that enclose them, otherwise directly below the holder above."""
        found: dict[tuple[int, str], list[tree.Toll]] = {}
        for name, tensors in self.placement.tolls:
            level = self.levels[name]
            for access in self.einsum.accesses:
                if access.tensor not in tensors:
                    continue
                above = max(
                    i
                    for i, (memory, tensor) in enumerate(self.placement.nodes)
                    if tensor == access.tensor and self.levels[memory] < level
                )
                between = self.leaves[self.levels[self.placement.nodes[above][0]] + 1 : level + 1]
                if any(leaf.spatial for leaf in between):
                    where = (self.place_of(name), "below lanes")
                else:
                    where = (max(above + 1, self.placement.n_outer), "above loops")
                found.setdefault(where, []).append(tree.Toll((access.tensor,), name))
        return found


def _product(gaps: list[list[tuple[str, ...]]]) -> Iterator[tuple[tuple[str, ...], ...]]:
    if not gaps:
        yield ()
        return
    for first in gaps[0]:
        for rest in _product(gaps[1:]):
            yield (first, *rest)
