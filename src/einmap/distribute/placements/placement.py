"""Which part of a tensor each PE holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.einsum.operation import Reduction
from einmap.einsum.spaces.projection import Rank

type MeshPart = tuple[tuple[AxisName, int], ...]
"""The PEs at one position along each of some axes."""


@dataclass(frozen=True, slots=True, order=True)
class Split:
    """A rank in contiguous blocks of `block` coordinates over mesh axes, the first axis the slowest.

    The PE at position `i` of the axes holds coordinates `i*block` to `(i+1)*block - 1`, and `halo` coordinates after
    them, which the next PEs hold as well. A buffer always has room for a whole block and halo; what lies beyond the
    rank (imperfect split) is padding, whose values mean nothing.
    """

    rank: Rank
    axes: tuple[AxisName, ...]
    block: int
    halo: int = 0

    @property
    def room(self) -> int:
        """Coordinates that a buffer has room for."""
        return self.block + self.halo

    def covers(self, size: int, mesh: Mesh) -> bool:
        """Whether the PEs together hold a rank of that size."""
        return mesh.parts(self.axes) * self.block + self.halo >= size


@dataclass(frozen=True, slots=True)
class Placement:
    """How a tensor lies on the mesh. It is replicated over every axis that is not named.

    `partial`: over these axes every PE holds an addend (or a candidate of the maximum or minimum, see `reduction`);
    only all of them together give the tensor. `on`: only the PEs at these coordinates hold it, on other PEs its buffer
    means nothing. An axis occurs at most once.
    """

    splits: tuple[Split, ...] = ()
    partial: tuple[AxisName, ...] = ()
    reduction: Reduction = "sum"
    on: MeshPart = ()

    def __post_init__(self) -> None:
        # one spelling for one placement, so that equal ones compare equal
        object.__setattr__(self, "splits", tuple(sorted(self.splits)))
        object.__setattr__(self, "partial", tuple(sorted(self.partial)))
        object.__setattr__(self, "on", tuple(sorted(self.on)))
        if not self.partial:
            object.__setattr__(self, "reduction", "sum")

    def of(self, rank: Rank) -> Split | None:
        """The split of one rank; None where every PE has the whole of it."""
        return next((split for split in self.splits if split.rank == rank), None)

    @property
    def used(self) -> frozenset[AxisName]:
        """Axes over which the tensor is not replicated."""
        return frozenset(self.stacked) | {axis for split in self.splits for axis in split.axes}

    @property
    def stacked(self) -> tuple[AxisName, ...]:
        """Axes along which buffers of the same coordinates differ: first those of addends, then those of `on`."""
        return (*self.partial, *(axis for axis, _ in self.on))

    def is_held(self, coordinates: Mapping[AxisName, int]) -> bool:
        """Whether the PE at these coordinates holds any of it."""
        return all(coordinates[axis] == place for axis, place in self.on)

    def __str__(self) -> str:
        parts = [
            f"{split.rank}: {'*'.join(split.axes)}" + (f" with a halo of {split.halo}" if split.halo else "")
            for split in self.splits
        ]
        parts += [f"partial {self.reduction} over {'*'.join(self.partial)}"] if self.partial else []
        parts += [f"on {' and '.join(f'{axis} = {place}' for axis, place in self.on)}"] if self.on else []
        return ", ".join(parts) or "replicated"


def parts_of_mesh(asked: Iterable[MeshPart]) -> tuple[MeshPart, ...]:
    """The parts of a mesh that are asked for, and those on the way from there to the whole mesh, axis by axis."""
    some = {part for on in asked for length in range(1, len(on) + 1) for part in combinations(on, length)}
    return tuple(sorted(some))


REPLICATED = Placement()


def block_of(size: int, parts: int, granule: int = 1) -> int:
    """Coordinates per PE: `size` in `parts` equal blocks of whole granules, rounded up.

    >>> block_of(10, 4), block_of(6 * 16, 4, granule=16)
    (3, 32)
    """
    return -(-size // (parts * granule)) * granule


def local_shape(sizes: Mapping[Rank, int], placement: Placement) -> dict[Rank, int]:
    """The shape of the buffer that each PE has for a tensor with these rank sizes."""
    blocks = {split.rank: split.room for split in placement.splits}
    return {rank: blocks.get(rank, size) for rank, size in sizes.items()}


def values_of(sizes: Mapping[Rank, int], placement: Placement) -> int:
    """Values of the buffer of one PE, padding included."""
    return math.prod(local_shape(sizes, placement).values())


def actual_values(mesh: Mesh, sizes: Mapping[Rank, int], placement: Placement) -> float:
    """Values of the buffer of one PE that are not padding, on average over the PEs.

    >>> actual_values(Mesh((("x", 4),)), {"M": 5}, Placement((Split("M", ("x",), 2),)))
    1.25
    """
    values = float(math.prod(sizes.values()))
    for split in placement.splits:
        values *= _actual_length(sizes[split.rank], mesh.parts(split.axes), split.block, split.halo) / sizes[split.rank]
    return values


@lru_cache(maxsize=10_000)
def _actual_length(size: int, parts: int, block: int, halo: int) -> float:
    """Coordinates of a rank that a PE has, on average."""
    return sum(min(max(size - place * block, 0), block + halo) for place in range(parts)) / parts


def filled_parts(
    mesh: Mesh, sizes: Mapping[Rank, int], placement: Placement, axes: Sequence[AxisName]
) -> tuple[float, ...]:
    """Which part of the buffer at each place of a group over `axes` is not padding, on average over the groups; empty
    where nothing is padding.
    """
    if all(_is_full(mesh, sizes, split) for split in placement.splits):
        return ()
    shape = {axis: mesh.size(axis) for axis in axes}
    filled = np.ones(tuple(shape.values()))
    for split in placement.splits:
        own = _filled(mesh, sizes, split).reshape([mesh.size(axis) for axis in split.axes])
        own = own.mean(axis=tuple(place for place, axis in enumerate(split.axes) if axis not in shape))
        within = [axis for axis in split.axes if axis in shape]
        own = own.transpose([within.index(axis) for axis in axes if axis in within])
        filled *= own.reshape([shape[axis] if axis in within else 1 for axis in axes])
    return tuple(filled.ravel().tolist())


def _is_full(mesh: Mesh, sizes: Mapping[Rank, int], split: Split) -> bool:
    return not split.halo and mesh.parts(split.axes) * split.block == sizes[split.rank]


def _filled(mesh: Mesh, sizes: Mapping[Rank, int], split: Split) -> NDArray[np.float64]:
    """Which part of the room of a split is not padding, by position over its axes."""
    begins = np.arange(mesh.parts(split.axes)) * split.block
    return np.clip(sizes[split.rank] - begins, 0, split.room) / split.room


def held(size: int, split: Split | None, mesh: Mesh, device: int) -> range:
    """The coordinates of a rank that one PE holds, padding left out; may be empty."""
    if split is None:
        return range(size)
    begin = mesh.position(device, split.axes) * split.block
    return range(min(begin, size), min(begin + split.room, size))
