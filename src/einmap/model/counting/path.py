"""The path of one Einsum through a LoopTree: its loops and, for each tensor, the stations that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from einmap.arch.component import Compute, Leaf, Memory, SpatialDimension, Toll
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import MappingError
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.nodes import Address


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop on one Einsum's path. `level`: place of its component on the architecture path, None if temporal.

    `shape` and `initial` are tile shapes (ints, or arrays in batches); `position` counts nodes from the root.
    """

    variable: str
    shape: Any
    initial: Any | None
    position: int
    address: Address
    level: int | None = None
    dimension: SpatialDimension | None = None
    iterations: int = 1
    """The most iterations that the loop ever has."""
    absent: bool = False
    """One iteration: it cuts nothing."""
    divides: bool = False
    """The tile shape is known to divide the extent it meets (batches of perfect factors)."""

    @property
    def is_spatial(self) -> bool:
        """Whether the iterations are lanes."""
        return self.level is not None


@dataclass(frozen=True, slots=True)
class Station:
    """Where one tensor is held or passes, or the Compute as its innermost consumer."""

    component: Memory | Toll | Compute
    level: int
    position: int
    address: Address
    persistent: bool = False
    sliding_window: bool | None = None
    """The node's own option for sliding windows; None: that of the model."""


@dataclass(frozen=True)
class EinsumPath:
    """One Einsum with its loops (outermost first) and stations; everything that counting needs."""

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    loops: tuple[Loop, ...]
    stations: dict[str, tuple[Station, ...]]
    compute: Station
    listed: dict[int, tuple[str, ...]]
    """Tensors of each storage node in written order, by position."""

    @cached_property
    def loops_of(self) -> dict[str, tuple[int, ...]]:
        """Indices into `loops` for each rank variable."""
        indices_of: dict[str, list[int]] = {v: [] for v in self.einsum.rank_variables}
        for index, loop in enumerate(self.loops):
            indices_of[loop.variable].append(index)
        return {v: tuple(indices) for v, indices in indices_of.items()}

    @cached_property
    def levels(self) -> dict[str, int]:
        """Place of each leaf on the architecture path."""
        return {leaf.name: i for i, leaf in enumerate(self.leaves)}

    @cached_property
    def spatial_loops(self) -> tuple[int, ...]:
        """Indices of the spatial loops."""
        return tuple(i for i, loop in enumerate(self.loops) if loop.is_spatial)


def applies(loop: Loop, station: Station) -> bool:
    """Whether a loop cuts the tile at a station; loops of one iteration count as absent."""
    if loop.absent:
        return False
    return loop.position < station.position if loop.level is None else loop.level <= station.level


def loops_above(path: EinsumPath, station: Station) -> list[Loop]:
    """The loops of more than one iteration that apply at a station."""
    return [loop for loop in path.loops if applies(loop, station)]


def last_tile(extent: Any, loop: Loop) -> tuple[Any, Any]:
    """Iterations of a loop over an extent, and what the last one of them has of it."""
    if loop.divides:
        return extent / loop.shape, loop.shape
    first = min(extent, loop.shape if loop.initial is None else loop.initial)
    later = -(-(extent - first) // loop.shape)
    return 1 + later, (extent - first - (later - 1) * loop.shape) if later else first


def path_of(mapping: Mapping, einsum: Einsum, arch: Architecture) -> EinsumPath:
    """The path of `einsum` in a mapping that `mapping.validate` has accepted."""
    return path_from_nodes(mapping.path_of[einsum.name], einsum, arch)


def path_from_nodes(placed: tuple[PlacedNode, ...], einsum: Einsum, arch: Architecture) -> EinsumPath:
    """The path of an Einsum from the nodes between the root and the Compute."""
    last = placed[-1].node
    assert isinstance(last, tree.Compute)
    leaves = arch.path(last.component)
    levels = {leaf.name: i for i, leaf in enumerate(leaves)}
    loops: list[Loop] = []
    extents = dict(einsum.bounds)
    listed: dict[int, tuple[str, ...]] = {}
    held: dict[str, list[Station]] = {access.tensor: [] for access in einsum.accesses}
    for position, here in enumerate(placed):
        address, node = here.address, here.node
        match node:
            case tree.Temporal() | tree.Spatial():
                loop = _loop(node, einsum, position, address, leaves, levels, extents)
                loops.append(loop)
                extent = extents[loop.variable]
                first = min(extent, loop.shape if loop.initial is None else loop.initial)
                extents[loop.variable] = max(first, min(loop.shape, extent - first))
            case tree.Storage() | tree.Toll() if node.component not in levels:
                pass  # in a branch of the architecture that the Einsum does not pass; it holds nothing of it
            case tree.Storage() | tree.Toll():
                component = leaves[levels[node.component]]
                assert isinstance(component, Memory | Toll)
                station = Station(
                    component,
                    levels[node.component],
                    position,
                    address,
                    isinstance(node, tree.Storage) and node.persistent,
                    node.sliding_window if isinstance(node, tree.Storage) else None,
                )
                listed[position] = node.tensors
                for tensor in here.held & held.keys():
                    held[tensor].append(station)
            case _:
                pass
    unit = leaves[-1]
    assert isinstance(unit, Compute)
    compute = Station(unit, len(leaves) - 1, len(placed) - 1, placed[-1].address)
    stations = {tensor: tuple(holders) for tensor, holders in held.items()}
    return EinsumPath(einsum, arch, leaves, tuple(loops), stations, compute, listed)


def _loop(
    node: tree.Temporal | tree.Spatial,
    einsum: Einsum,
    position: int,
    address: Address,
    leaves: tuple[Leaf, ...],
    levels: dict[str, int],
    extents: dict[str, int],
) -> Loop:
    """The loop, and how often it iterates over the extent that it meets."""
    variable = node.rank_variable.of(einsum.name)
    shape = node.tile_shape.of(einsum.name)
    if variable is None or shape is None:
        raise MappingError(f"the loop says nothing of Einsum {einsum.name!r}")
    initial, level, dimension = None, None, None
    if isinstance(node, tree.Temporal):
        initial = node.initial_tile_shape.of(einsum.name)
    else:
        level = levels[node.component]
        dimension = next(d for d in leaves[level].spatial if d.name == node.name)
    extent = extents[variable]
    iterations = 1 + -(-(extent - min(extent, shape if initial is None else initial)) // shape)
    return Loop(variable, shape, initial, position, address, level, dimension, iterations, iterations == 1)
