"""The mapspace of one Einsum as a search takes it: exact size, uniform draws, subspaces made when they are looked at.

A *nest* is a dataplacement with an order of the loops in each gap; with a use of the fanouts it is a subspace. The
sizes of all subspaces are known without building any: they depend on how many temporal loops each rank variable has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise, product
from math import prod

import numpy as np

from einmap.arch.component import Leaf
from einmap.arch.tree import Architecture
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace.dataplacement import Dataplacement, dataplacements
from einmap.mapper.mapspace.enumeration import Walk, listed
from einmap.mapper.mapspace.lanes.spatial_mappings import Lanes, SpatialChoice, some_spatial_choices
from einmap.mapper.mapspace.mapspace import Point, Subspace
from einmap.mapper.mapspace.template import TemplateBuilder
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.template import Template
from einmap.numbers import n_compositions, prime_factors
from einmap.progress import Progress

MOST_PAIRS = 4_000_000
"""Pairs of a nest and a use of the fanouts whose sizes are worked out; of more of them a fair part is drawn."""
EXACT = 2.0**53
"""Counts up to this are exact in floating point."""


@dataclass(frozen=True)
class Nest:
    """A dataplacement (`builder.placement`) with an order of the temporal loops of each gap."""

    builder: TemplateBuilder
    orders: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SpacePart:
    """Nests and uses of the fanouts over one compute. `complete`: whether these are all that there are.

    `pairs`: how many pairs of them there are in all, of which these may be a fair part; None if that is not known.
    """

    einsum: Einsum
    nests: tuple[Nest, ...]
    lanes: tuple[SpatialChoice, ...]
    complete: bool
    pairs: int | None
    _templates: dict[int, Template] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def sizes(self) -> Floats:
        """Mappings of each subspace, a row for each nest, a column for each use of the fanouts; capacity aside."""
        sizes = self._allowed.astype(np.float64)
        left = np.array([[self._left(choice, v, bound) for v, bound in self.einsum.bounds] for choice in self.lanes])
        for column, (variable, _) in enumerate(self.einsum.bounds):
            slots = np.array([sum(variable in order for order in nest.orders) for nest in self.nests], dtype=np.int64)
            n_slots, slot_of = np.unique(slots, return_inverse=True)
            bounds, bound_of = np.unique(left[:, column], return_inverse=True)
            ways = [
                [prod(n_compositions(e, int(n)) for _, e in prime_factors(int(bound))) for bound in bounds]
                for n in n_slots
            ]
            sizes *= np.array(ways, dtype=np.float64)[slot_of.ravel()][:, bound_of.ravel()]
        return sizes

    def _left(self, choice: SpatialChoice, variable: str, bound: int) -> int:
        return bound // prod(lanes.bound for lanes in choice if lanes.variable == variable)

    @cached_property
    def kinds(self) -> SpatialChoice | None:
        """An example of each kind of spatial loop, in an order that all uses of the fanouts keep; None without one."""
        leaves = self.nests[0].builder.leaves if self.nests else ()
        fanouts = {(leaf.name, d.name): i for i, (leaf, d) in enumerate((x, d) for x in leaves for d in x.spatial)}
        variables = {v: i for i, (v, _) in enumerate(self.einsum.bounds)}

        def at(lanes: Lanes) -> tuple[int, int]:
            return fanouts[lanes.component, lanes.dimension], variables[lanes.variable]

        if any(at(outer) >= at(inner) for choice in self.lanes for outer, inner in pairwise(choice)):
            return None
        example = {at(lanes): lanes for choice in self.lanes for lanes in choice}
        return tuple(example[key] for key in sorted(example))

    def template(self, number: int, choice: SpatialChoice) -> Template:
        """The template of a nest with all kinds of spatial loops, where those that `choice` does not have iterate once.

        So one template serves all uses of the fanouts. Where holders are lowered, a loop that does not iterate would
        stop that, and the template has the loops of `choice` only.
        """
        nest = self.nests[number]
        if self.kinds is None or nest.builder.first_partial_matters:
            return Template(tuple(nest.builder.nodes(nest.orders, choice)))
        known = self._templates.get(number)
        if known is None:
            allowed = tuple(lanes for lanes in self.kinds if nest.builder.spatial_allowed((lanes,)))
            known = self._templates[number] = Template(tuple(nest.builder.nodes(nest.orders, allowed)))
        return known

    @cached_property
    def _allowed(self) -> Bools:
        """Which pairs keep lanes below the backing storage of what they do not index."""
        kinds = sorted({(lanes.component, lanes.variable) for choice in self.lanes for lanes in choice})
        used = np.array(
            [[any((x.component, x.variable) == kind for x in choice) for kind in kinds] for choice in self.lanes]
        ).reshape(len(self.lanes), len(kinds))
        example = {(x.component, x.variable): x for choice in self.lanes for x in choice}
        refused = np.array(
            [[not nest.builder.spatial_allowed((example[kind],)) for kind in kinds] for nest in self.nests]
        ).reshape(len(self.nests), len(kinds))
        allowed: Bools = (refused.astype(np.int64) @ used.T.astype(np.int64)) == 0
        return allowed


@dataclass(frozen=True)
class SearchSpace:
    """All mappings of one Einsum with perfect factors that keep the architecture's constraints, capacity not looked at.

    A point is the number of a subspace (`Point`), nests by uses of the fanouts, and its digits there.
    """

    einsum: Einsum
    arch: Architecture
    parts: tuple[SpacePart, ...]
    _made: dict[int, Subspace] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def truncated(self) -> bool:
        """Whether there are more nests or uses of the fanouts than are looked at here."""
        return not all(part.complete for part in self.parts)

    @cached_property
    def offsets(self) -> Ints:
        """Number of the first subspace of each part, and of what would follow the last one."""
        return np.cumsum([0, *(len(part.nests) * len(part.lanes) for part in self.parts)]).astype(np.int64)

    @cached_property
    def sizes(self) -> Floats:
        """Mappings of each subspace."""
        return np.concatenate([part.sizes.ravel() for part in self.parts]) if self.parts else np.zeros(0)

    @cached_property
    def size(self) -> float:
        """Number of points, exact up to 2**53; points are one mapping where they differ in loops of one iteration."""
        return float(self.sizes.sum())

    @cached_property
    def estimated_size(self) -> tuple[float, float, float] | None:
        """The number of all mappings where a part of them is listed: an estimate, and a 95 % interval.

        None where it is not known of how many nests and uses of the fanouts the part was drawn.
        """
        total = variance = 0.0
        for part in self.parts:
            if part.pairs is None:
                return None
            total += float(part.sizes.mean()) * part.pairs
            if not part.complete:
                rows, columns = part.sizes.mean(axis=1), part.sizes.mean(axis=0)
                means = rows.var() / len(rows) + columns.var() / len(columns)
                variance += float(means) * float(part.pairs) ** 2
        spread = 1.96 * variance**0.5
        return total, max(total - spread, self.size), total + spread

    @property
    def size_is_exact(self) -> bool:
        """Whether `size` counts every mapping, to the last one."""
        return not self.truncated and self.size < EXACT

    @cached_property
    def _cumulative(self) -> Floats:
        return np.cumsum(self.sizes)

    def place(self, number: int) -> tuple[int, int, int]:
        """Part, nest and use of the fanouts of a subspace."""
        part = int(np.searchsorted(self.offsets, number, side="right")) - 1
        nest, lane = divmod(number - int(self.offsets[part]), len(self.parts[part].lanes))
        return part, nest, lane

    def number(self, part: int, nest: int, lane: int) -> int:
        """The inverse of `place`."""
        return int(self.offsets[part]) + nest * len(self.parts[part].lanes) + lane

    def nest(self, number: int) -> Nest:
        """The nest of a subspace."""
        part, nest, _ = self.place(number)
        return self.parts[part].nests[nest]

    def subspace(self, number: int) -> Subspace:
        """A subspace by its number."""
        subspace = self._made.get(number)
        if subspace is None:
            part, nest_number, lane = self.place(number)
            owner = self.parts[part]
            choice = owner.lanes[lane]
            subspace = Subspace(owner.template(nest_number, choice), self.einsum.bounds, choice)
            if len(self._made) > 20_000:
                self._made.clear()
            self._made[number] = subspace
        return subspace

    def draw_numbers(self, rng: np.random.Generator, n: int) -> Ints:
        """Subspaces of `n` uniform random mappings."""
        at = np.searchsorted(self._cumulative, rng.random(n) * self._cumulative[-1], side="right")
        numbers: Ints = np.minimum(at, len(self.sizes) - 1).astype(np.int64)
        return numbers

    def draw(self, rng: np.random.Generator, n: int) -> list[Point]:
        """`n` random points, each with the same probability."""
        points: list[Point] = []
        for number in self.draw_numbers(rng, n).tolist():
            digits = self.subspace(number).digits
            points.append((number, tuple(int(rng.integers(digit.radix)) for digit in digits)))
        return points

    def draw_arrays(self, rng: np.random.Generator, n: int) -> Iterator[tuple[int, Ints]]:
        """`n` random points like `draw`, by subspace: its number, and a row of digits for each point."""
        numbers, counts = np.unique(self.draw_numbers(rng, n), return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            digits = self.subspace(number).digits
            columns = [rng.integers(0, digit.radix, count) for digit in digits]
            yield number, np.stack(columns, axis=1) if columns else np.zeros((count, 0), dtype=np.int64)

    def has(self, point: Point) -> bool:
        """Whether there is such a point; for points that come from a file."""
        number, at = point
        if not 0 <= number < len(self.sizes) or not self.sizes[number]:
            return False
        digits = self.subspace(number).digits
        return len(at) == len(digits) and all(0 <= a < digit.radix for a, digit in zip(at, digits, strict=True))

    def decode(self, point: Point) -> LoopTree:
        """The mapping of a point."""
        return self.subspace(point[0]).mapping(point[1])

    def encode(self, mapping: LoopTree) -> Point | None:
        """A point whose mapping is `mapping`, None where it is not in the space."""
        storage = tuple(
            (node.component, tensor)
            for node in mapping.nodes
            if isinstance(node, tree.Storage)
            for tensor in node.tensors
        )
        spatial = {
            (node.component, node.name, str(node.rank_variable.default))
            for node in mapping.nodes
            if isinstance(node, tree.Spatial)
        }
        for p, part in enumerate(self.parts):
            nests = [i for i, nest in enumerate(part.nests) if nest.builder.placement.nodes == storage]
            lanes = [
                i
                for i, choice in enumerate(part.lanes)
                if {(x.component, x.dimension, x.variable) for x in choice} == spatial
            ]
            for nest, lane in product(nests, lanes):
                number = self.number(p, nest, lane)
                digits = self.subspace(number).encode(mapping) if self.sizes[number] else None
                if digits is not None:
                    return number, digits
        return None


def search_space(
    einsum: Einsum, arch: Architecture, *, lowering: bool, force_hierarchy_order: bool = True, seed: int = 0
) -> SearchSpace:
    """The mapspace of an Einsum by itself, over all enabled computes, every tensor backed outside.

    `lowering`: which partially relevant loop comes first in a gap is a choice (see `mapspace_of`). `seed`: which part
    is taken where there are too many nests or uses of the fanouts.
    """
    rng = np.random.default_rng(seed)
    token = Progress()
    parts = []
    for unit in arch.computes:
        if not unit.enabled:
            continue
        leaves = arch.path(unit.name)
        lanes, all_lanes = some_spatial_choices(einsum, leaves, rng, token)
        placements, all_placements = listed(partial(_placements, einsum, leaves, force_hierarchy_order), rng, token)
        above: dict[str, frozenset[str]] = {}
        builders = [TemplateBuilder(einsum, leaves, unit, each, lowering, above=above) for each in placements]
        nests = [Nest(builder, orders) for builder in builders for orders in product(*builder.gaps)]
        complete = all_lanes and all_placements
        pairs = len(nests) * len(lanes) if complete else None
        if len(nests) * len(lanes) > MOST_PAIRS:
            complete = False
            lanes, nests = _fair_part(lanes, nests, rng)
        parts.append(SpacePart(einsum, tuple(nests), tuple(lanes), complete, pairs))
    return SearchSpace(einsum, arch, tuple(parts))


def _placements(einsum: Einsum, leaves: tuple[Leaf, ...], force: bool, walk: Walk) -> Iterator[Dataplacement]:
    return dataplacements(einsum, leaves, backed_outside=einsum.tensors, force_hierarchy_order=force, walk=walk)


def _fair_part(
    lanes: list[SpatialChoice], nests: list[Nest], rng: np.random.Generator
) -> tuple[list[SpatialChoice], list[Nest]]:
    """As many nests and uses of the fanouts as may be looked at, drawn at random, in their order."""
    most = int(MOST_PAIRS**0.5)
    n_lanes = min(len(lanes), max(most, MOST_PAIRS // len(nests)))
    n_nests = min(len(nests), MOST_PAIRS // n_lanes)
    kept_lanes = np.sort(rng.choice(len(lanes), n_lanes, replace=False))
    kept_nests = np.sort(rng.choice(len(nests), n_nests, replace=False))
    return [lanes[i] for i in kept_lanes], [nests[i] for i in kept_nests]
