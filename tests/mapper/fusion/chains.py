"""All chains of one Einsum of a cascade, by what other Einsums see of them.

A chain is one Einsum's storage nodes, loops and Compute from the outside in. Its *outer nest* is everything above the lowest
backing node of a shared tensor: its loops, of more than one iteration, are the fused ones, in every order that a gap
admits. Below the outer nest the order of loops in a gap does not matter, but under lowering for which partially relevant loop
comes first. Chains with the same `BoundaryState` fit the same chains of other Einsums; `rows` says what differs.

Where the text leaves something open, this is the reading taken here:
- spatial loops of a gap in the outer nest stand among its temporal ones in any order, below a network by its dimensions;
- lanes above a tensor's backing node are over variables that index it alone, as for temporal loops;
- no lanes stand above or among the nodes of the outermost memory;
- nodes keep the hierarchy order (orders against it are not enumerated), nothing is persistent, no Einsum is a copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray
from tests.mapper.fusion.placements import Item, Keep, Pass, Slot, frames

from einmap.arch.component import Compute, Leaf, Memory, Network, Toll
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Lookup, Relevance
from einmap.einsum.workload import Workload
from einmap.mapper.mapspace.lanes.spatial_mappings import spatial_choices
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.model.batch.einsum_cost import einsum_cost
from einmap.model.counting.path import EinsumPath, path_from_nodes
from einmap.model.counting.semantics import Semantics
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.numbers import divisors
from einmap.spec.spec import Spec

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fused:
    """A loop of the outer nest: `kind` is "temporal" or (component, dimension)."""

    kind: str | tuple[str, str]
    variable: str
    shape: int
    count: int


@dataclass(frozen=True)
class Resident:
    """A storage node of the outer nest: `depth` of the place where its space is reserved; `shared`: backs a shared tensor."""

    tensor: str
    memory: str
    bits: float
    depth: int
    shared: bool


type Key = tuple[str, tuple[tuple[str | tuple[str, str], str, int], ...]]
"""Memory of the backing node, and for each loop above it the kind, the tensor's rank, the tile shape."""


@dataclass(frozen=True)
class BoundaryState:
    """What decides whether chains fit those of other Einsums, and what stays in memories while others run.

    `keys`: of each shared tensor. `tiles`: extents of each shared tensor's ranks in its backing node. `lowest`: for each
    shared tensor the least number of loops above a node or toll of it that is not its backing node.
    """

    einsum: str
    keys: tuple[tuple[str, Key], ...]
    loops: tuple[Fused, ...]
    residents: tuple[Resident, ...]
    tiles: tuple[tuple[str, tuple[int, ...]], ...]
    lowest: tuple[tuple[str, float], ...]

    @cached_property
    def key_of(self) -> dict[str, Key]:
        return dict(self.keys)

    @cached_property
    def lowest_of(self) -> dict[str, float]:
        return dict(self.lowest)

    @cached_property
    def tile_of(self) -> dict[str, tuple[int, ...]]:
        return dict(self.tiles)

    def depth(self, tensor: str) -> int:
        """Loops above the backing node of a shared tensor."""
        return len(self.key_of[tensor][1])


@dataclass(frozen=True)
class LinearNest:
    """One chain, in the nodes of a LoopTree (one tensor for each storage node); `energy`, `latency` with instances."""

    einsum: str
    nodes: tuple[tree.Node, ...]
    energy: float
    latency: float


@dataclass
class Labels:
    """Chains of one boundary state: a row each. `own`: bits that the chain needs by itself in each memory."""

    energy: Floats
    latency: Floats
    own: Floats
    origin: list[tuple[_Frame, tuple[int, ...], NDArray[np.int64]]]
    """Frame and order of its items, with row numbers there, in the order of the rows here."""

    def chain(self, row: int) -> LinearNest:
        energy, latency = float(self.energy[row]), float(self.latency[row])
        for frame, order, numbers in self.origin:
            if row < len(numbers):
                return LinearNest(frame.space.einsum.name, frame.nodes(order, int(numbers[row])), energy, latency)
            row -= len(numbers)
        raise IndexError(row)


@dataclass
class EinsumFronts:
    """The chains of one Einsum. `most`, `per_variable`: fused loops in all, and over one variable."""

    spec: Spec
    einsum: Einsum
    rules: Semantics
    most: float = math.inf
    per_variable: float = 1
    workload: Workload = field(init=False)
    arch: Architecture = field(init=False)

    def __post_init__(self) -> None:
        self.workload = self.spec.workload
        self.arch = self.spec.bound[self.einsum.name].arch
        self.memories = [name for name, c in self.arch.components.items() if isinstance(c, Memory)]
        self.sizes = np.array([self.arch.components[m].size_bits for m in self.memories])  # type: ignore[union-attr]
        self.instances = self.workload.n_instances * self.einsum.n_instances
        assert not self.einsum.is_copy
        assert not any(access.persistent for access in self.einsum.accesses)

    def frames(self) -> Iterator[_Frame]:
        for unit in self.arch.computes:
            if unit.enabled:
                leaves = self.arch.path(unit.name)
                lanes = spatial_choices(self.einsum, leaves)
                for items in frames(self.einsum, leaves, self.workload.intermediates, lanes):
                    yield _Frame(self, leaves, unit, items)

    def by_interface(self) -> dict[BoundaryState, Labels]:
        """All chains that fit alone."""
        found: dict[BoundaryState, list[Labels]] = {}
        for frame in self.frames():
            for boundary_state, rows in frame.blocks():
                found.setdefault(boundary_state, []).append(rows)
        return {boundary_state: _joined(blocks) for boundary_state, blocks in found.items()}


def _joined(blocks: list[Labels]) -> Labels:
    return Labels(
        np.concatenate([b.energy for b in blocks]),
        np.concatenate([b.latency for b in blocks]),
        np.concatenate([b.own for b in blocks]),
        [origin for b in blocks for origin in b.origin],
    )


def factorizations(n: int, places: int) -> list[tuple[int, ...]]:
    """All ways to write n as an ordered product of so many factors."""
    if places == 0:
        return [()] if n == 1 else []
    return [(d, *rest) for d in divisors(n) for rest in factorizations(n // d, places - 1)]


@dataclass
class _Frame:
    """The chains of one frame: a row for each choice of iteration counts."""

    space: EinsumFronts
    leaves: tuple[Leaf, ...]
    unit: Compute
    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        shared = self.space.workload.shared
        self.slots = [i for i, item in enumerate(self.items) if isinstance(item, Slot)]
        backing = [i for i, it in enumerate(self.items) if isinstance(it, Keep) and it.backing and it.tensor in shared]
        self.outer_nest = max(backing, default=0)
        """Items before this one are above the lowest backing node of a shared tensor."""

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Iterations: a row for each choice, a column for each slot."""
        einsum = self.space.einsum
        columns: list[list[int]] = []
        choices: list[list[tuple[int, ...]]] = []
        for variable, bound in einsum.bounds:
            mine = [c for c, i in enumerate(self.slots) if self.slot(c).variable == variable]
            lanes = [c for c in mine if self.slot(c).level is not None]
            free = [c for c in mine if self.slot(c).level is None]
            left = bound // math.prod(self.slot(c).lanes for c in lanes)
            fixed = tuple(self.slot(c).lanes for c in lanes)
            columns.append([*free, *lanes])
            choices.append([(*f, *fixed) for f in factorizations(left, len(free))])
        found = np.ones((math.prod(len(c) for c in choices), len(self.slots)), dtype=np.int64)
        for row, chosen in enumerate(product(*choices)):
            for cs, values in zip(columns, chosen, strict=True):
                found[row, cs] = values
        return found

    def slot(self, column: int) -> Slot:
        item = self.items[self.slots[column]]
        assert isinstance(item, Slot)
        return item

    # tile shapes

    @cached_property
    def natural(self) -> tuple[int, ...]:
        return tuple(range(len(self.items)))

    def extents_before(self, order: tuple[int, ...], counts: NDArray[np.int64]) -> list[dict[str, NDArray[np.int64]]]:
        """For each item in this order the extents of all variables at its place; one more entry for the Compute."""
        now = {v: np.full(len(counts), bound) for v, bound in self.space.einsum.bounds}
        found = [now]
        for i in order:
            item = self.items[i]
            if isinstance(item, Slot):
                now = {**now, item.variable: now[item.variable] // counts[:, self.slots.index(i)]}
            found.append(now)
        return found

    def nodes(self, order: tuple[int, ...], row: int) -> tuple[tree.Node, ...]:
        """The nodes of one chain; loops of one iteration are left out."""
        counts = self.counts[row : row + 1]
        extents = self.extents_before(order, counts)
        found: list[tree.Node] = []
        for place, i in enumerate(order):
            item = self.items[i]
            match item:
                case Keep():
                    found.append(tree.Storage((item.tensor,), item.component))
                case Pass():
                    found.append(tree.Toll((item.tensor,), item.component))
                case Slot() if counts[0, self.slots.index(i)] > 1:
                    shape = tree.PerEinsum(int(extents[place + 1][item.variable][0]))
                    found.append(_loop(item, shape))
        return (*found, tree.Compute(self.space.einsum.name, self.unit.name))

    # cost

    def cost(self, counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Energy and latency of all instances; the order of loops within gaps does not matter to them."""
        extents = self.extents_before(self.natural, counts)
        nodes: list[tree.Node] = []
        shapes = []
        for i, item in enumerate(self.items):
            match item:
                case Keep():
                    nodes.append(tree.Storage((item.tensor,), item.component))
                case Pass():
                    nodes.append(tree.Toll((item.tensor,), item.component))
                case Slot():
                    nodes.append(_loop(item, tree.PerEinsum(1)))
                    shapes.append(extents[i + 1][item.variable].astype(np.float64))
        nodes.append(tree.Compute(self.space.einsum.name, self.unit.name))
        placed = tuple(PlacedNode((i,), node) for i, node in enumerate(nodes))
        path: EinsumPath = path_from_nodes(placed, self.space.einsum, self.space.arch)
        loops = tuple(
            replace(loop, shape=shape, divides=True, absent=False, iterations=int(lanes))
            for loop, shape, lanes in zip(path.loops, shapes, counts[0], strict=True)
        )
        path = replace(path, loops=loops)
        traffic = EinsumTraffic(path, self.space.rules, None, self.space.workload.intermediates)
        cost = einsum_cost(path, traffic, self.space.arch)
        n = len(counts)
        full = [np.broadcast_to(np.asarray(x, dtype=np.float64), (n,)) for x in (cost.energy, cost.latency)]
        return full[0] * self.space.instances, full[1] * self.space.instances

    # space

    def bits(self, order: tuple[int, ...], counts: NDArray[np.int64]) -> dict[int, tuple[Floats, NDArray[np.int64]]]:
        """For each storage node (by its number among the items) the bits it needs, and loops above their reservation."""
        before = self.extents_before(order, counts)
        found = {}
        above = np.zeros(len(counts), dtype=np.int64)
        for place, i in enumerate(order):
            item = self.items[i]
            if isinstance(item, Slot):
                above = above + (counts[:, self.slots.index(i)] > 1)
            elif isinstance(item, Keep):
                extents, depth = before[place], above
                if self.space.rules.lowering and not item.backing:
                    extents, depth = self.lowered(order, place, counts, extents, above)
                memory = self.leaves[item.level]
                assert isinstance(memory, Memory)
                values = np.ones(len(counts))
                for rank in self.tile(item.tensor, extents, item.backing):
                    values = values * rank
                found[i] = values * memory.bits[item.tensor], depth
        return found

    def tile(self, tensor: str, extents: dict[str, NDArray[np.int64]], backing: bool) -> list[NDArray[np.int64]]:
        """Extent of each rank of a tensor; a table of which rows are looked up lies whole where it lies outermost."""
        found = []
        access = self.space.einsum.by_tensor[tensor]
        for _, index in access.written if backing else access.projection:
            rank = np.ones(len(next(iter(extents.values()))), dtype=np.int64)
            if isinstance(index, Lookup):
                found.append(rank * index.size)
                continue
            for variable, a in index.terms:
                rank = rank + abs(a) * (extents[variable] - 1)
            found.append(rank)
        return found

    def lowered(
        self,
        order: tuple[int, ...],
        place: int,
        counts: NDArray[np.int64],
        extents: dict[str, NDArray[np.int64]],
        above: NDArray[np.int64],
    ) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.int64]]:
        """Past the fully relevant temporal loops that follow and one partially relevant one, up to any holder."""
        node = self.items[order[place]]
        assert isinstance(node, Keep)
        access = self.space.einsum.by_tensor[node.tensor]
        extents, depth, going = dict(extents), above, np.ones(len(counts), dtype=bool)
        for i in order[place + 1 :]:
            item = self.items[i]
            if not isinstance(item, Slot):
                break
            n = counts[:, self.slots.index(i)]
            present = n > 1
            relevance = access.relevance(item.variable)
            if item.level is not None:
                if item.level != node.level:
                    going = going & ~present
                continue
            if relevance is Relevance.NONE:
                going = going & ~present
                continue
            passes = going & present
            extents[item.variable] = np.where(passes, extents[item.variable] // n, extents[item.variable])
            depth = depth + passes
            if relevance is Relevance.PARTIAL:
                going = going & ~present
        return extents, depth

    # blocks

    def blocks(self) -> Iterator[tuple[BoundaryState, Labels]]:
        """Rows with the same loops in the outer nest together, once for every order of them."""
        allowed = np.flatnonzero(self.few_enough(self.counts) & self.tiles_allowed(self.counts))
        if not len(allowed):
            return
        costs: list[tuple[Floats, Floats]] = []  # worked out when something fits
        columns = [c for c, i in enumerate(self.slots) if i < self.outer_nest]
        groups: dict[tuple[int, ...], list[int]] = {}
        for at, row in enumerate(allowed):
            groups.setdefault(tuple(int(x) for x in self.counts[row, columns]), []).append(at)
        tails = self.tail_orders()
        for outer_nest, members in groups.items():
            numbers = allowed[members]
            for first in self.head_orders(dict(zip(columns, outer_nest, strict=True))):
                for tail in tails:
                    order = (*first, *tail)
                    boundary_state, own = self.boundary_state(order, self.counts[numbers])
                    fits = np.flatnonzero((own <= self.space.sizes).all(axis=1))
                    if len(fits):
                        if not costs:
                            costs.append(self.cost(self.counts[allowed]))
                        energy, latency = costs[0]
                        at = np.array(members)[fits]
                        yield boundary_state, Labels(energy[at], latency[at], own[fits], [(self, order, numbers[fits])])

    def few_enough(self, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Not more fused loops than allowed."""
        total = np.zeros(len(counts), dtype=np.int64)
        found = np.ones(len(counts), dtype=bool)
        for variable in self.space.einsum.rank_variables:
            mine = [c for c, i in enumerate(self.slots) if i < self.outer_nest and self.slot(c).variable == variable]
            used = (counts[:, mine] > 1).sum(axis=1)
            total = total + used
            found &= used <= self.space.per_variable
        return found & (total <= self.space.most)

    def tiles_allowed(self, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The limits on tile shapes of each memory and toll, at its first node."""
        before = self.extents_before(self.natural, counts)
        found = np.ones(len(counts), dtype=bool)
        seen = set()
        for i, item in enumerate(self.items):
            if isinstance(item, Slot) or item.component in seen:
                continue
            seen.add(item.component)
            leaf = self.leaves[item.level]
            assert isinstance(leaf, Memory | Toll)
            assert leaf.placement is not None
            for limit in leaf.placement.tile_shape:
                found &= limit.holds_each(before[i])
        return found

    def head_orders(self, counts: dict[int, int]) -> Iterator[tuple[int, ...]]:
        """Orders of the items of the outer nest: in each gap every order of the loops that iterate."""
        parts: list[list[tuple[int, ...]]] = []
        run: list[int] = []
        for i in range(self.outer_nest + 1):
            if i < self.outer_nest and isinstance(self.items[i], Slot):
                run.append(i)
                continue
            if run:
                present = [j for j in run if counts[self.slots.index(j)] > 1]
                absent = tuple(j for j in run if j not in present)
                parts.append([(*order, *absent) for order in permutations(present) if self.is_routed(order)])
                run = []
            if i < self.outer_nest:
                parts.append([(i,)])
        for chosen in product(*parts):
            yield tuple(i for part in chosen for i in part)

    def is_routed(self, order: tuple[int, ...]) -> bool:
        """Whether lanes below a network stand in the order of the use of the fanouts, which is all that is told apart."""
        first = next((i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Network)), len(self.leaves))
        levels = {i: self.items[i].level for i in order}
        routed = [i for i in order if levels[i] is not None and levels[i] >= first]
        return routed == sorted(routed)

    def tail_orders(self) -> list[tuple[int, ...]]:
        """Orders of the other items: fully relevant loops, a partially relevant one, the others of those, the rest.

        Relevance is to the tensor of the node that they follow; lanes stay where they are.
        """
        parts: list[list[tuple[int, ...]]] = [[()]]
        run: list[int] = []
        holder: Item | None = None
        for i in range(self.outer_nest):
            holder = self.items[i] if not isinstance(self.items[i], Slot) else holder
        for i in range(self.outer_nest, len(self.items) + 1):
            item = self.items[i] if i < len(self.items) else None
            if isinstance(item, Slot) and item.level is None:
                run.append(i)
                continue
            if run:
                parts.append(self.sorted_run(run, holder))
                run = []
            if item is not None:
                parts.append([(i,)])
                holder = item if not isinstance(item, Slot) else holder
        return [tuple(i for part in chosen for i in part) for chosen in product(*parts)]

    def sorted_run(self, run: list[int], holder: Item | None) -> list[tuple[int, ...]]:
        if not isinstance(holder, Keep) or not self.space.rules.lowering:
            return [tuple(run)]
        access = self.space.einsum.by_tensor[holder.tensor]
        kinds: dict[Relevance, list[int]] = {kind: [] for kind in Relevance}
        for i in run:
            item = self.items[i]
            assert isinstance(item, Slot)
            kinds[access.relevance(item.variable)].append(i)
        partial = kinds[Relevance.PARTIAL]
        firsts = [(p, *(q for q in partial if q != p)) for p in partial] or [()]
        return [(*kinds[Relevance.FULL], *first, *kinds[Relevance.NONE]) for first in firsts]

    def boundary_state(self, order: tuple[int, ...], counts: NDArray[np.int64]) -> tuple[BoundaryState, Floats]:
        """What others see of these rows, which have the same outer nest, and the bits that each row needs by itself."""
        space = self.space
        workload, einsum = space.workload, space.einsum
        bits = self.bits(order, counts)
        own = np.zeros((len(counts), len(space.memories)))
        before = self.extents_before(order, counts)
        loops: list[Fused] = []
        keys, residents, tiles = [], [], []
        awaiting = {a.tensor for a in einsum.gathers for i in a.lookups.values() if i.tensor in workload.producers}
        lowest: dict[str, float] = dict.fromkeys(einsum.tensors & workload.shared | awaiting, math.inf)
        for place, i in enumerate(order):
            item = self.items[i]
            inside = i <= self.outer_nest
            if isinstance(item, Slot):
                n = int(counts[0, self.slots.index(i)])
                if inside and n > 1:
                    kind = "temporal" if item.level is None else (str(item.component), str(item.dimension))
                    loops.append(Fused(kind, item.variable, int(before[place + 1][item.variable][0]), n))
                continue
            backs = isinstance(item, Keep) and item.backing and item.tensor in workload.shared
            if backs:
                access = einsum.by_tensor[item.tensor]
                over = tuple((lp.kind, _rank(access.projection, lp.variable), lp.shape) for lp in loops)
                keys.append((item.tensor, (item.component, over)))
                tiles.append((item.tensor, tuple(int(r[0]) for r in self.tile(item.tensor, before[place], True))))
            elif item.tensor in lowest and inside and not (isinstance(item, Keep) and item.backing):
                lowest[item.tensor] = min(lowest[item.tensor], len(loops))
            if isinstance(item, Keep):
                needed, depth = bits[i]
                own[:, space.memories.index(item.component)] += needed
                # what is in an infinite memory is of no concern to others, unless it is shared
                if inside and (backs or math.isfinite(space.sizes[space.memories.index(item.component)])):
                    residents.append(Resident(item.tensor, item.component, float(needed[0]), int(depth[0]), backs))
        # others share at most these loops: what stands below all of them is never in their way
        residents = [r for r in residents if r.shared or r.depth < len(loops)]
        lowest = {t: depth if depth < len(loops) else math.inf for t, depth in lowest.items()}
        return (
            BoundaryState(
                einsum.name,
                tuple(sorted(keys)),
                tuple(loops),
                tuple(sorted(residents, key=lambda r: (r.memory, r.tensor))),
                tuple(sorted(tiles)),
                tuple(sorted(lowest.items())),
            ),
            own,
        )


def _rank(projection: tuple, variable: str) -> str:
    """The rank of the tensor that the variable indexes; empty where it is another one's."""
    return next((rank for rank, index in projection if any(v == variable for v, _ in index.terms)), "")


def _loop(slot: Slot, shape: tree.PerEinsum[int]) -> tree.Temporal | tree.Spatial:
    variable = tree.PerEinsum(slot.variable)
    if slot.component is None or slot.dimension is None:
        return tree.Temporal(variable, shape)
    return tree.Spatial(variable, shape, slot.component, slot.dimension)


def mapping_of(chain: LinearNest) -> Mapping:
    """The chain as a LoopTree of its own."""
    return Mapping(chain.nodes)
