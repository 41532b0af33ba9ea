"""The route of one Einsum through a LoopTree: its loops, where its tensors are held, and its lanes.

A spatial loop over component C makes lanes of C and of everything after it on the architecture path, wherever it
is written. An instance of a component is one combination of the lanes of the loops at or above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from einmap.arch.component import Compute, Memory, SpatialDimension, Toll
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine, Relevance
from einmap.einsum.workload import Workload
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address

type Instance = tuple[int, ...]
"""Lane of each spatial loop that spreads a component, in path order; () when there is one instance."""
type Clock = Mapping[Address, int]
"""Iteration of each temporal loop that is running."""
type Interval = tuple[int, int]
"""First value and number of values."""


@dataclass(frozen=True)
class Turn:
    """A loop on one Einsum's path; `level`: place of its component on the architecture path, None in time."""

    variable: str
    shape: int
    first: int
    position: int
    address: Address
    level: int | None = None
    dimension: SpatialDimension | None = None


@dataclass(frozen=True)
class Hold:
    """One tensor at one Storage or Toll node."""

    tensor: str
    component: Memory | Toll
    level: int
    position: int
    address: Address
    persistent: bool = False


@dataclass(frozen=True)
class Route:
    """One Einsum: `turns` outermost first, `holds` of each tensor outermost first.

    `last_split`: position of the innermost split on the path, or -1.
    `ranks`: the ranks of each tensor, in one order for all Einsums; `indices`: the index expression of each rank, those
    of fetched rows where a tensor is gathered.
    """

    einsum: Einsum
    arch: Architecture
    turns: tuple[Turn, ...]
    holds: Mapping[str, tuple[Hold, ...]]
    unit: Compute
    unit_level: int
    last_split: int
    ranks: Mapping[str, tuple[str, ...]]
    indices: Mapping[str, tuple[Affine, ...]]

    @cached_property
    def lane_turns(self) -> tuple[Turn, ...]:
        """The spatial loops that make lanes; those of one iteration make none."""
        return tuple(t for t in self.turns if t.level is not None and self.iterations[t.address] > 1)

    @cached_property
    def leaf_start(self) -> int:
        """Position of the last storage node or split on the path: what is below is executed without moving tiles."""
        memories = [h.position for holds in self.holds.values() for h in holds if isinstance(h.component, Memory)]
        return max([*memories, self.last_split])

    @cached_property
    def iterations(self) -> Mapping[Address, int]:
        """The most iterations of each loop."""
        extents = dict(self.einsum.bounds)
        iterations = {}
        for turn in self.turns:
            extent = extents[turn.variable]
            first = min(turn.first, extent)
            iterations[turn.address] = 1 + -(-(extent - first) // turn.shape)
            extents[turn.variable] = max(first, min(turn.shape, extent - first))
        return iterations

    @cached_property
    def table_sizes(self) -> Mapping[str, int]:
        """For each rank variable the combinations of its loops below `leaf_start` and its lanes, empty ones as well."""
        sizes = dict.fromkeys(self.einsum.rank_variables, 1)
        for turn in self.turns:
            if turn.level is not None or turn.position > self.leaf_start:
                sizes[turn.variable] *= self.iterations[turn.address]
        return sizes

    def lane_counts(self, level: int) -> tuple[int, ...]:
        """Iterations of each loop that spreads a component at `level`, in path order; `lanes` lists what they make."""
        return tuple(self.iterations[t.address] for t in self.lane_turns if (t.level or 0) <= level)

    def lanes(self, level: int) -> list[Instance]:
        """Instances of a component at `level`: lowest lanes first, outer loops first."""
        return self._lanes[level]

    @cached_property
    def _lanes(self) -> list[list[Instance]]:
        return [list(product(*map(range, self.lane_counts(level)))) for level in range(self.unit_level + 1)]

    @cached_property
    def lane_levels(self) -> tuple[int, ...]:
        """Level of each spatial loop."""
        return tuple(t.level for t in self.lane_turns if t.level is not None)

    def outward(self, lane: Instance, inner: int, outer: int) -> Instance:
        """The instance at level `outer` that serves the instance `lane` of level `inner`."""
        levels = [level for level in self.lane_levels if level <= inner]
        return tuple(index for index, level in zip(lane, levels, strict=True) if level <= outer)

    def intervals(self, clock: Clock, lane: Instance, level: int, position: int) -> dict[str, Interval] | None:
        """Values of each rank variable at a node: `lane` of `level` at the time `clock`; None when it has none.

        Temporal loops before `position` and spatial loops at or above `level` have cut the space. Others may stand
        outside of these only where the variable indexes nothing that the node holds: they leave their largest tile.
        """
        intervals = {v: (0, n) for v, n in self.einsum.bounds}
        left: dict[str, int] = {}
        lanes = iter(lane)
        for turn in self.turns:
            if self.iterations[turn.address] == 1:
                continue  # a loop of one iteration cuts nothing
            if turn.level is None:
                index = clock[turn.address] if turn.position < position else None
            else:
                index = next(lanes) if turn.level <= level else None
            if index is None:
                left[turn.variable] = max(turn.first, turn.shape)
                continue
            start, size = intervals[turn.variable]
            size = min(size, left.get(turn.variable, size))
            begin = 0 if index == 0 else turn.first + (index - 1) * turn.shape
            size = min(turn.shape if index else turn.first, size - begin)
            if size <= 0:
                return None
            intervals[turn.variable] = (start + begin, size)
        return intervals

    def merges(self, turn: Turn, tensor: str) -> bool:
        """Whether lanes of a spatial loop share one copy of the tensor's tile."""
        assert turn.dimension is not None
        irrelevant = self.einsum.by_tensor[tensor].relevance(turn.variable) is Relevance.NONE
        return irrelevant and tensor in turn.dimension.may_reuse

    def merged_between(self, tensor: str, inner: int, chain: list[int]) -> list[tuple[int, ...]]:
        """For each level of `chain` (outward from `inner`): positions in a lane that are merged on the way there."""
        levels = [(i, t) for i, t in enumerate(t for t in self.lane_turns if (t.level or 0) <= inner)]
        positions: list[tuple[int, ...]] = []
        merged: tuple[int, ...] = ()
        below = inner
        for level in chain:
            new = [i for i, t in levels if level < (t.level or 0) <= below and self.merges(t, tensor)]
            merged = (*merged, *new)
            positions.append(merged)
            below = min(below, level)
        return positions

    def summing_between(self, tensor: str, level: int, outer: int) -> tuple[int, ...]:
        """Positions in a lane over which a tensor's values are summed between a station and one further out."""
        indexed = self.einsum.by_tensor[tensor].variables
        return tuple(
            i for i, t in enumerate(self.lane_turns) if outer < (t.level or 0) <= level and t.variable not in indexed
        )


def ranks_of(workload: Workload) -> dict[str, tuple[str, ...]]:
    """The order of each tensor's ranks: that of its first access."""
    ranks: dict[str, tuple[str, ...]] = {}
    for einsum in workload.einsums:
        for access in einsum.accesses:
            ranks.setdefault(access.tensor, tuple(rank for rank, _ in access.written))
    return ranks


def routes_of(mapping: LoopTree, workload: Workload, archs: Mapping[str, Architecture]) -> dict[str, Route]:
    """The route of each Einsum in a mapping that has been validated, in written order."""
    ranks = ranks_of(workload)
    order = [path[-1].node.einsum for path in mapping.paths]  # type: ignore[union-attr]
    return {name: route_of(mapping, workload.by_name[name], archs[name], ranks) for name in order}


def route_of(mapping: LoopTree, einsum: Einsum, arch: Architecture, ranks: Mapping[str, tuple[str, ...]]) -> Route:
    """The route of an Einsum in a mapping that has been validated; `ranks`: the order of each tensor's ranks."""
    path = mapping.path_of[einsum.name]
    last = path[-1].node
    assert isinstance(last, tree.Compute)
    leaves = arch.path(last.component)
    levels = {leaf.name: i for i, leaf in enumerate(leaves)}
    turns: list[Turn] = []
    last_split = -1
    holds: dict[str, list[Hold]] = {a.tensor: [] for a in einsum.accesses}
    for position, placed in enumerate(path):
        node, address = placed.node, placed.address
        match node:
            case tree.Temporal() | tree.Spatial():
                turns.append(_turn(node, einsum, position, address, arch, levels))
            case tree.Storage() | tree.Toll():
                for tensor in node.tensors:
                    if tensor in holds:
                        component = leaves[levels[node.component]]
                        assert isinstance(component, Memory | Toll)
                        lasting = isinstance(node, tree.Storage) and node.persistent
                        level = levels[node.component]
                        holds[tensor].append(Hold(tensor, component, level, position, address, lasting))
            case tree.Split():
                last_split = position
            case _:
                pass
    unit = leaves[-1]
    assert isinstance(unit, Compute)
    held = {tensor: tuple(tensor_holds) for tensor, tensor_holds in holds.items()}
    indices = {a.tensor: _in_order(a, ranks[a.tensor]) for a in einsum.accesses}
    return Route(einsum, arch, tuple(turns), held, unit, len(leaves) - 1, last_split, ranks, indices)


def _in_order(access: TensorAccess, ranks: tuple[str, ...]) -> tuple[Affine, ...]:
    if access.gathered:
        return tuple(index for _, index in access.projection)
    index_of = dict(access.projection)
    return tuple(index_of[rank] for rank in ranks)


def _turn(
    node: tree.Temporal | tree.Spatial,
    einsum: Einsum,
    position: int,
    address: Address,
    arch: Architecture,
    levels: Mapping[str, int],
) -> Turn:
    variable, shape = node.rank_variable.of(einsum.name), node.tile_shape.of(einsum.name)
    assert variable is not None
    assert shape is not None
    if isinstance(node, tree.Temporal):
        first = node.initial_tile_shape.of(einsum.name)
        return Turn(variable, shape, shape if first is None else first, position, address)
    dimension = next(d for d in arch.leaves[node.component].spatial if d.name == node.name)
    return Turn(variable, shape, shape, position, address, levels[node.component], dimension)


def chain_to_memory(route: Route, tensor: str, inner: Hold | None) -> list[Hold]:
    """Tolls, then the memory: what stands outward of `inner` (None: the compute) up to the next memory."""
    holds = list(route.holds[tensor])
    before = holds if inner is None else holds[: holds.index(inner)]
    chain = []
    for hold in reversed(before):
        chain.append(hold)
        if isinstance(hold.component, Memory):
            break
    return chain
