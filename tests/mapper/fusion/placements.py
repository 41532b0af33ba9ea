"""Plain enumeration of the frames of one Einsum's chains: storage nodes in order, tolls, places for loops.

Written from the description of the mapspace alone, for tests; shares no code with the search of fused mappings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations, product

from einmap.arch.component import Leaf, Memory, Toll
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace.lanes.spatial_mappings import SpatialChoice


@dataclass(frozen=True)
class Keep:
    """A storage node of one tensor. `level`: place of the memory on the architecture path."""

    tensor: str
    component: str
    level: int
    backing: bool


@dataclass(frozen=True)
class Pass:
    """One tensor passes a toll."""

    tensor: str
    component: str
    level: int


@dataclass(frozen=True)
class Slot:
    """A place for a loop: temporal, or with `lanes` iterations over a fanout dimension of `component`."""

    variable: str
    gap: int
    component: str | None = None
    dimension: str | None = None
    level: int | None = None
    lanes: int = 1


type Item = Keep | Pass | Slot
type Node = tuple[str, str]
"""(memory, tensor)."""


def indexes(access: TensorAccess, variable: str, *, intermediate: bool) -> bool:
    """Whether a loop over the variable may stand above the tensor's backing node."""
    if access.relevance(variable) is not Relevance.FULL or variable not in access.by_rank:
        return False  # what is looked up may be anywhere in a table
    factors = [a for _, index in access.projection for v, a in index.terms if v == variable]
    return not intermediate or factors == [1]


def held_sets(
    einsum: Einsum, leaves: tuple[Leaf, ...], intermediates: frozenset[str]
) -> Iterator[dict[str, frozenset[str]]]:
    """What each memory and toll keeps, from the outside in, so that every tensor is kept somewhere."""
    holders = [leaf for leaf in leaves if isinstance(leaf, Memory | Toll)]

    def extend(i: int, held: dict[str, frozenset[str]], above: frozenset[str]) -> Iterator[dict[str, frozenset[str]]]:
        if i == len(holders):
            if above == einsum.tensors:
                yield held
            return
        holder = holders[i]
        assert holder.placement is not None
        if not holder.enabled:
            yield from extend(i + 1, {**held, holder.name: frozenset()}, above)
            return
        must, may = (names & einsum.tensors for names in holder.placement.choices(held))
        if isinstance(holder, Toll):
            must, may = must & above, may & above
        elif holder.placement.back.given(held) & above:
            return
        else:
            # what is not an intermediate is backed by the outermost memory that may keep it
            must |= (may - intermediates) - above
        optional = sorted(may - must)
        for n in range(len(optional) + 1):
            for chosen in combinations(optional, n):
                kept = must | frozenset(chosen)
                more = kept if isinstance(holder, Memory) else frozenset()
                yield from extend(i + 1, {**held, holder.name: kept}, above | more)

    yield from extend(0, {}, frozenset())


def dataplacements(
    einsum: Einsum, leaves: tuple[Leaf, ...], intermediates: frozenset[str]
) -> Iterator[tuple[dict[str, frozenset[str]], tuple[Node, ...], int]]:
    """What is held, the storage nodes from the outside in, and how many of them are the outermost memory's.

    Nodes of outer memories stand above those of inner ones; the order of those of the outermost memory is of no matter.
    """
    memories = [leaf for leaf in leaves if isinstance(leaf, Memory)]
    for held in held_sets(einsum, leaves, intermediates):
        blocks: list[list[tuple[Node, ...]]] = []
        above: dict[str, frozenset[str]] = {}
        for leaf in leaves:
            if isinstance(leaf, Memory):
                assert leaf.placement is not None
                assert leaf.placement.force_hierarchy_order, "orders against the hierarchy are not enumerated"
                orders = [
                    order
                    for order in permutations(sorted(held[leaf.name]))
                    if leaf.placement.order_allows({t: i for i, t in enumerate(order)}, above)
                ]
                if leaf is memories[0]:
                    orders = orders[:1]
                blocks.append([tuple((leaf.name, t) for t in order) for order in orders])
            if isinstance(leaf, Memory | Toll):
                above[leaf.name] = held[leaf.name]
        for chosen in product(*blocks):
            yield held, tuple(node for block in chosen for node in block), len(chosen[0])


def frames(
    einsum: Einsum, leaves: tuple[Leaf, ...], intermediates: frozenset[str], lanes: list[SpatialChoice]
) -> Iterator[tuple[Item, ...]]:
    """Every dataplacement with every use of the fanouts, and in every gap a slot for each variable that may stand there."""
    for held, nodes, n_outer in dataplacements(einsum, leaves, intermediates):
        for choice in lanes:
            frame = _Frame(einsum, leaves, intermediates, held, nodes, n_outer, choice)
            if frame.lanes_allowed():
                yield tuple(frame.without_refetches(list(frame.items())))


@dataclass
class _Frame:
    einsum: Einsum
    leaves: tuple[Leaf, ...]
    intermediates: frozenset[str]
    held: dict[str, frozenset[str]]
    nodes: tuple[Node, ...]
    n_outer: int
    choice: SpatialChoice

    def __post_init__(self) -> None:
        self.levels = {leaf.name: i for i, leaf in enumerate(self.leaves)}

    def waiting(self, index: int) -> frozenset[str]:
        """Tensors without a node above this place."""
        return self.einsum.tensors - {tensor for _, tensor in self.nodes[:index]}

    def may_stand(self, variable: str, index: int) -> bool:
        return all(
            indexes(self.einsum.by_tensor[t], variable, intermediate=t in self.intermediates)
            for t in self.waiting(index)
        )

    def place_of(self, component: str) -> int:
        """The node before which the lanes of a component stand: after all nodes of memories above it."""
        above = [i + 1 for i, (m, _) in enumerate(self.nodes) if self.levels[m] < self.levels[component]]
        return max(above, default=0)

    def lanes_allowed(self) -> bool:
        return all(
            self.place_of(loop.component) >= self.n_outer
            and self.may_stand(loop.variable, self.place_of(loop.component))
            for loop in self.choice
        )

    def items(self) -> Iterator[Item]:
        tolls = self.tolls()
        for index in range(len(self.nodes) + 1):
            yield from tolls.get((index, "above"), ())
            if index >= self.n_outer:
                for variable, bound in self.einsum.bounds:
                    if bound > 1 and self.may_stand(variable, index):
                        yield Slot(variable, index)
            for loop in self.choice:
                if self.place_of(loop.component) == index:
                    level = self.levels[loop.component]
                    yield Slot(loop.variable, index, loop.component, loop.dimension, level, loop.bound)
            yield from tolls.get((index, "below"), ())
            if index < len(self.nodes):
                memory, tensor = self.nodes[index]
                yield Keep(tensor, memory, self.levels[memory], tensor in self.waiting(index))

    def tolls(self) -> dict[tuple[int, str], list[Pass]]:
        """Directly below the holder above, or below the lanes where a fanout stands between."""
        found: dict[tuple[int, str], list[Pass]] = {}
        for toll in self.leaves:
            if not isinstance(toll, Toll):
                continue
            level = self.levels[toll.name]
            for access in self.einsum.accesses:
                if access.tensor not in self.held[toll.name]:
                    continue
                above = max(i for i, (m, t) in enumerate(self.nodes) if t == access.tensor and self.levels[m] < level)
                between = self.leaves[self.levels[self.nodes[above][0]] + 1 : level + 1]
                if any(leaf.spatial for leaf in between):
                    where = (self.place_of(toll.name), "below")
                else:
                    where = (max(above + 1, self.n_outer), "above")
                found.setdefault(where, []).append(Pass(access.tensor, toll.name, level))
        return found

    def without_refetches(self, items: list[Item]) -> list[Item]:
        """Without the temporal loops that no_refetch_from_above and no_resend_to_below forbid."""
        forbidden: set[int] = set()
        held: dict[str, frozenset[str]] = {}
        for leaf in self.leaves:
            if not isinstance(leaf, Memory | Toll):
                continue
            assert leaf.placement is not None
            for tensor in self.einsum.tensors & self.held[leaf.name]:
                places = [i for i, it in enumerate(items) if not isinstance(it, Slot) and it.tensor == tensor]
                here = next(i for i in places if _holder(items[i]) == leaf.name)
                spans = []
                if tensor in leaf.placement.no_refetch_from_above.given(held):
                    spans.append((places[0], here))
                if tensor in leaf.placement.no_resend_to_below.given(held):
                    spans.append((here, min((i for i in places if i > here), default=len(items))))
                access = self.einsum.by_tensor[tensor]
                for outer, inner in spans:
                    for i in range(outer, inner):
                        item = items[i]
                        temporal = isinstance(item, Slot) and item.level is None
                        if temporal and access.relevance(item.variable) is not Relevance.FULL:
                            forbidden.add(i)
            held[leaf.name] = self.held[leaf.name]
        return [item for i, item in enumerate(items) if i not in forbidden]


def _holder(item: Item) -> str:
    assert not isinstance(item, Slot)
    return item.component
