"""Templates of one dataplacement: where its loops, lanes and tolls stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import or_

from einmap.arch.component import Compute, Leaf, Memory, Toll
from einmap.arch.constraint import Names
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace.dataplacement import Dataplacement
from einmap.mapper.mapspace.lanes.spatial_mappings import SpatialChoice
from einmap.mapper.mapspace.recomputation import variables_above
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping
from einmap.mapping.template import OpenSpatial, OpenTemporal, Template, TemplateNode

type Place = tuple[int, int]
"""(gap, part of the gap). Gap i ends with storage node i; its parts come in the order of the constants below."""

ABOVE, LOOPS, BELOW, NODE = range(4)


@dataclass
class TemplateBuilder:
    """Templates of one dataplacement: loops in every gap, spatial loops at their one place."""

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    unit: Compute
    placement: Dataplacement
    first_partial_matters: bool
    shared: Names = frozenset()
    """Tensors that other Einsums use too."""
    uncut: frozenset[tuple[str, str]] = frozenset()
    """Ranks of them that some other Einsum cannot cut into the same tiles."""
    above: dict[str, Names] = field(default_factory=dict)
    """The rank variables whose loops may stand above a tensor's outermost storage, as far as they were asked for; the
    same for all dataplacements."""
    orders: dict[tuple[Names, str | None], list[tuple[str, ...]]] = field(default_factory=dict)
    """Orders of loops by the tensors held above and the one whose node they follow, where no constraint forbids loops;
    the same for all dataplacements."""

    def __post_init__(self) -> None:
        self.levels = {leaf.name: i for i, leaf in enumerate(self.leaves)}
        self._place_of: dict[str, int] = {}

    def templates(self, choice: SpatialChoice) -> Iterator[Template]:
        """The templates with this use of the fanouts: one for each choice of loop orders, none if it is not allowed."""
        if self.spatial_allowed(choice):
            for orders in _product(self.gaps):
                yield Template(tuple(self.nodes(orders, choice)))

    @cached_property
    def gaps(self) -> list[list[tuple[str, ...]]]:
        """For each gap, outermost first, the orders of its loops."""
        return [self.loops_of_gap(i) for i in range(self.placement.n_outer, len(self.placement.nodes) + 1)]

    def held_above(self, index: int) -> Names:
        """Tensors that the nodes before this one hold."""
        return self._held_above[index]

    @cached_property
    def _held_above(self) -> list[Names]:
        tensors = (frozenset((tensor,)) for _, tensor in self.placement.nodes)
        return list(accumulate(tensors, or_, initial=frozenset()))

    def loops_of_gap(self, index: int) -> list[tuple[str, ...]]:
        """Orders of the temporal loops between node `index` - 1 and node `index`."""
        if self.einsum.is_copy and self.is_between_nodes_of_a_memory(index):
            return [()]
        if self.closed_spans:
            return self._orders(index)
        key = self.held_above(index), self.placement.nodes[index - 1][1] if index else None
        if key not in self.orders:
            self.orders[key] = self._orders(index)
        return self.orders[key]

    def _orders(self, index: int) -> list[tuple[str, ...]]:
        """As `loops_of_gap`, worked out."""
        waiting = self.einsum.tensors - self.held_above(index)
        allowed = [v for v, bound in self.einsum.bounds if bound > 1]
        for tensor in waiting:
            above = self.variables_above(tensor)
            allowed = [v for v in allowed if v in above]
        if self.closed_spans:
            allowed = [v for v in allowed if not self.refetches(v, index)]
        if not index:
            return [tuple(allowed)]
        _, tensor = self.placement.nodes[index - 1]
        relevance = {v: self.einsum.by_tensor[tensor].relevance(v) for v in allowed}
        full = tuple(v for v in allowed if relevance[v] is Relevance.FULL)
        partial = [v for v in allowed if relevance[v] is Relevance.PARTIAL]
        none = tuple(v for v in allowed if relevance[v] is Relevance.NONE)
        if not self.first_partial_matters or len(partial) < 2:
            return [(*full, *partial, *none)]
        return [(*full, first, *(v for v in partial if v != first), *none) for first in partial]

    def is_between_nodes_of_a_memory(self, index: int) -> bool:
        """Whether a gap parts nodes of one memory: those of a copy stand together there."""
        above = {memory for memory, _ in self.placement.nodes[:index]}
        return any(memory in above for memory, _ in self.placement.nodes[index:])

    def may_stand_above(self, tensor: str, variable: str) -> bool:
        """Whether a loop may stand above the outermost storage of a tensor: nothing is to be computed twice."""
        return variable in self.variables_above(tensor)

    def variables_above(self, tensor: str) -> Names:
        """The variables whose loops may stand above the outermost storage of a tensor."""
        if tensor not in self.above:
            self.above[tensor] = variables_above(self.einsum.by_tensor[tensor], tensor in self.shared, self.uncut)
        return self.above[tensor]

    def refetches(self, variable: str, index: int) -> bool:
        """Whether a loop here breaks no_refetch_from_above or no_resend_to_below of some holder."""
        return any(
            outer < (index, LOOPS) < inner and not self.is_full(tensor, variable)
            for tensor, outer, inner in self.closed_spans
        )

    @cached_property
    def closed_spans(self) -> list[tuple[str, Place, Place]]:
        """(tensor, outer, inner): between these places no loop may stand that does not index the tensor fully."""
        placements = [leaf.placement for leaf in self.leaves if isinstance(leaf, Memory | Toll)]
        if all(placement is None or placement.never_closed for placement in placements):
            return []
        spans: list[tuple[str, Place, Place]] = []
        held: dict[str, Names] = {}
        for leaf in self.leaves:
            if not isinstance(leaf, Memory | Toll) or leaf.placement is None:
                continue
            here = {tensor: places[leaf.name] for tensor, places in self.places.items() if leaf.name in places}
            for tensor in leaf.placement.no_refetch_from_above.given(held) & frozenset(here):
                spans.append((tensor, min(self.places[tensor].values()), here[tensor]))
            for tensor in leaf.placement.no_resend_to_below.given(held) & frozenset(here):
                below = [place for place in self.places[tensor].values() if place > here[tensor]]
                spans.append((tensor, here[tensor], min(below, default=(len(self.placement.nodes) + 1, 0))))
            held[leaf.name] = frozenset(here)
        return spans

    @cached_property
    def places(self) -> dict[str, dict[str, Place]]:
        """For each tensor the place of its node in each memory and toll."""
        places: dict[str, dict[str, Place]] = {tensor: {} for tensor in self.einsum.tensors}
        for index, (memory, tensor) in enumerate(self.placement.nodes):
            places[tensor][memory] = (index, NODE)
        for place, tolls in self.tolls.items():
            for toll in tolls:
                places[toll.tensors[0]][toll.component] = place
        return places

    def is_full(self, tensor: str, variable: str) -> bool:
        """Whether every iteration over the variable uses another part of the tensor."""
        return self.einsum.by_tensor[tensor].relevance(variable) is Relevance.FULL

    def spatial_allowed(self, choice: SpatialChoice) -> bool:
        """No lane may stand above the backing storage of a tensor that it does not index."""
        for lanes in choice:
            place = self.place_of(lanes.component)
            for tensor in self.einsum.tensors - self.held_above(place):
                if tensor in self.shared and not self.may_stand_above(tensor, lanes.variable):
                    return False
                if self.einsum.by_tensor[tensor].relevance(lanes.variable) is Relevance.NONE:
                    return False
        return True

    def place_of(self, component: str) -> int:
        """Node before which the spatial loops of a component stand: after all holders above it."""
        if component not in self._place_of:
            level, levels = self.levels[component], self.levels
            above = (i + 1 for i, (memory, _) in enumerate(self.placement.nodes) if levels[memory] < level)
            self._place_of[component] = max(above, default=0)
        return self._place_of[component]

    def nodes(self, orders: tuple[tuple[str, ...], ...], choice: SpatialChoice) -> Iterator[TemplateNode]:
        """The nodes of one template from the outside in."""
        spatial: dict[int, list[OpenSpatial]] = {}
        for leaf in self.leaves:
            for dimension in leaf.spatial:
                for lanes in choice:
                    if (lanes.component, lanes.dimension) == (leaf.name, dimension.name):
                        loop = OpenSpatial(lanes.variable, lanes.component, lanes.dimension)
                        spatial.setdefault(self.place_of(leaf.name), []).append(loop)
        n_outer = self.placement.n_outer
        for index in range(len(self.placement.nodes) + 1):
            if index >= n_outer:
                yield from self.tolls.get((index, ABOVE), ())
                yield from (OpenTemporal(v) for v in orders[index - n_outer])
            yield from spatial.get(index, ())
            yield from self.tolls.get((index, BELOW), ())
            if index < len(self.placement.nodes):
                memory, tensor = self.placement.nodes[index]
                backing = tensor not in self.held_above(index)
                lasting = backing and self.einsum.by_tensor[tensor].persistent and index < n_outer
                yield tree.Storage((tensor,), memory, lasting)
        yield tree.Compute(self.einsum.name, self.unit.name)

    @cached_property
    def tolls(self) -> dict[Place, list[tree.Toll]]:
        """Where tolls stand: below the fanouts that enclose them, otherwise directly below the holder above."""
        tolls: dict[Place, list[tree.Toll]] = {}
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
                    where = (self.place_of(name), BELOW)
                else:
                    where = (max(above + 1, self.placement.n_outer), ABOVE)
                tolls.setdefault(where, []).append(tree.Toll((access.tensor,), name))
        return tolls


def _product(gaps: list[list[tuple[str, ...]]]) -> Iterator[tuple[tuple[str, ...], ...]]:
    if not gaps:
        yield ()
        return
    for first in gaps[0]:
        for rest in _product(gaps[1:]):
            yield (first, *rest)


def joined(nodes: Iterable[tree.Node]) -> Mapping:
    """A mapping of these nodes, neighbouring storage nodes of one memory put together."""
    joined_nodes: list[tree.Node] = []
    for node in nodes:
        last = joined_nodes[-1] if joined_nodes else None
        if isinstance(node, tree.Storage) and isinstance(last, tree.Storage):
            where = last.component, last.persistent
            if where == (node.component, node.persistent):
                joined_nodes[-1] = tree.Storage((*last.tensors, *node.tensors), *where)
                continue
        joined_nodes.append(node)
    return Mapping(tuple(joined_nodes))
