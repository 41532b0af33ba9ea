"""Tables of what zeros change for tiles of a shape in any mapping: chances, bits of metadata, room.

Tiles of perfect factors are alike, so that one number for each shape is enough. Where the place of a tile matters
(blocks of a structured density that tiles cut) there is a least and a greatest number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.errors import NotSupportedError
from einmap.sparse.blocks import keeps_blocks, laid_stored, mean_stored, most_stored
from einmap.sparse.densities import Density, Structured
from einmap.sparse.formats import Format
from einmap.sparse.known import Known
from einmap.sparse.savings import Sparsity

MOST_PLACES = 64
"""Places of a tile in a block that are looked at for its least metadata; in longer blocks that counts as nothing."""


@dataclass(frozen=True)
class Chance:
    """Probability that something is done: at least and at most, arrays or numbers."""

    least: Any
    most: Any

    @property
    def is_exact(self) -> bool:
        """Whether both are the same."""
        return self.least is self.most or bool(np.all(self.least == self.most))

    def both(self, other: Chance) -> Chance:
        """Probability that two things are done that know nothing of each other."""
        if self.least is self.most and other.least is other.most:
            product = self.least * other.least
            return Chance(product, product)
        return Chance(self.least * other.least, self.most * other.most)

    def smaller(self, other: Chance) -> Chance:
        """The smaller one of two chances, of which one implies the other."""
        if self.least is self.most and other.least is other.most:
            least = np.minimum(self.least, other.least)
            return Chance(least, least)
        return Chance(np.minimum(self.least, other.least), np.minimum(self.most, other.most))


SURE = Chance(1.0, 1.0)


class Moved(NamedTuple):
    """Values of boxes for each of their positions, at least and at most, and bits of metadata, at least."""

    values: Any
    most: Any
    metadata: Any


@dataclass(frozen=True)
class ZeroTables:
    """Chances and bits by shape, remembered for all templates of one Einsum. Zeros are not known by place."""

    einsum: Einsum
    sparsity: Sparsity
    known: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tensor, density in self.sparsity.densities.items():
            if isinstance(density, Known):
                raise NotSupportedError(f"zeros of {tensor!r} that are known position by position")

    def extents(self, tensor: str, sizes: Mapping[str, Any]) -> list[Any]:
        """Lengths of a tensor's tile, in the order of its density's ranks. `sizes`: values of each rank variable."""
        access = self.einsum.by_tensor[tensor]
        by_rank = dict(access.projection)
        ranks = self.sparsity.ranks.get(tensor) or tuple(rank for rank, _ in access.projection)
        return [by_rank[rank].extent(sizes) for rank in ranks]

    def chance(self, leader: str, sizes: Mapping[str, Any], lanes: Mapping[str, Any]) -> Chance:
        """Probability that a tile of a tensor, or one of those of some lanes (by variable), has a nonzero."""
        access, density = self.einsum.by_tensor[leader], self.sparsity.densities[leader]
        extents = self.extents(leader, sizes)
        several = {v for v in lanes if v in access.variables and np.any(np.asarray(lanes[v]) > 1)}
        if any(len(index.terms) > 1 and several & {v for v, _ in index.terms} for _, index in access.projection):
            # lanes that overlap: no less than one of them
            return Chance(self._chance(leader, density, extents, 1).least, 1.0)
        return self._chance(leader, density, extents, prod(lanes[v] for v in several))

    def of_lanes(self, leader: str, extents: Sequence[Any], lanes: Any) -> Chance:
        """Probability that a tile of these lengths, or one of those of so many lanes, has a nonzero."""
        return self._chance(leader, self.sparsity.densities[leader], extents, lanes)

    def _chance(self, leader: str, density: Density, extents: Sequence[Any], lanes: Any) -> Chance:
        if not isinstance(density, Structured):
            volume = prod(extents, start=lanes)
            values = self._table(
                ("chance", leader), [volume], lambda n: float(density.nonempty([np.asarray(0)], [np.asarray(n)]))
            )
            return Chance(values, values)
        along = extents[density.rank]
        fibers = prod((n for rank, n in enumerate(extents) if rank != density.rank), start=lanes)
        rarest = self._table(("rarest", leader), [along], lambda n: self._empty(leader, density, n, most=False))
        likeliest = self._table(("likeliest", leader), [along], lambda n: self._empty(leader, density, n, most=True))
        least, greatest = 1 - likeliest**fibers, 1 - rarest**fibers
        return Chance(least, least) if np.all(least == greatest) else Chance(least, greatest)

    def _empty(self, leader: str, density: Structured, length: int, *, most: bool) -> float:
        """Probability that so many neighbours along a structured rank are zeros, where they stand best or worst."""
        low = self._places(leader, density, length)
        n = len(density.shape)
        begins = [low if rank == density.rank else np.zeros_like(low) for rank in range(n)]
        size = [np.full_like(low, length if rank == density.rank else 1) for rank in range(n)]
        chances = 1 - np.asarray(density.nonempty(begins, size))
        return float(chances.max() if most else chances.min())

    def _places(self, leader: str, density: Structured, length: int) -> Any:
        """Where in a block tiles of a length may begin; one place stands for all where it does not matter."""
        access = self.einsum.by_tensor[leader]
        index = dict(access.projection)[self.sparsity.ranks[leader][density.rank]]
        firsts = dict(self.einsum.first_values)
        is_plain = len(index.terms) == 1 and not index.constant and index.terms[0][1] == 1
        is_plain = is_plain and not firsts.get(index.terms[0][0], 0)
        aligned = is_plain and (density.m % length == 0 or length % density.m == 0)
        return np.zeros(1, dtype=np.int64) if aligned else np.arange(density.m)

    def metadata(self, memory: str, tensor: str, extents: Sequence[Any]) -> Any:
        """Bits of metadata of a tile, at least."""
        return self._table(("metadata", memory, tensor), extents, lambda *n: self._metadata(memory, tensor, n))

    def _metadata(self, memory: str, tensor: str, size: Sequence[int]) -> float:
        fmt, density = self.sparsity.formats[memory, tensor], self.sparsity.densities[tensor]
        places = self._places(tensor, density, size[density.rank]) if isinstance(density, Structured) else [0]
        if len(places) > MOST_PLACES:
            return 0.0

        def bits(place: int) -> float:
            low = [0] * len(size)
            if isinstance(density, Structured):
                low[density.rank] = place
            return float(fmt.stored(size, lambda ranks: density.parts(low, size, ranks)).metadata)

        return min(bits(int(place)) for place in places)

    def share(self, memory: str, tensor: str, extents: Sequence[Any]) -> Any:
        """Bits of metadata for each position of the largest tile that a memory holds."""
        return self._table(("share", memory, tensor), extents, lambda *n: self._share(memory, tensor, n))

    def _share(self, memory: str, tensor: str, size: Sequence[int]) -> float:
        fmt, density = self.sparsity.formats[memory, tensor], self.sparsity.densities[tensor]
        try:
            return float(mean_stored(fmt, density, size).metadata) / max(1, prod(size))
        except NotSupportedError:  # such tiles cut blocks
            return 0.0

    def room(self, memory: str, tensor: str, extents: Sequence[Any], width: float) -> Any:
        """Bits that the fullest tile of a shape takes in a memory; `width`: bits of a value."""
        return self._table(("room", memory, tensor), extents, lambda *n: self._room(memory, tensor, n, width))

    def _room(self, memory: str, tensor: str, size: Sequence[int], width: float) -> float:
        fmt = self.sparsity.formats[memory, tensor]
        try:
            most = most_stored(fmt, self.sparsity.densities[tensor], size)
        except NotSupportedError:  # such tiles cut blocks
            return inf
        return float(most.values * width + (0 if memory in self.sparsity.own_metadata else most.metadata))

    # formats

    @property
    def is_open(self) -> bool:
        """Whether a format is one of several."""
        return False

    def formats_of(self, memory: str, tensor: str) -> tuple[Format, ...]:
        """Formats in which a memory may store a tensor."""
        found = self.sparsity.formats.get((memory, tensor))
        return () if found is None else (found,)

    def mark(self, memory: str, tensor: str) -> tuple[int, ...]:  # noqa: ARG002
        """Key by which formats of a memory are told apart, beside the names."""
        return ()

    def kept(self, memory: str, tensor: str) -> float:
        """Values stored for each position: the nonzeros, at least, or all."""
        return self.sparsity.densities[tensor].part if self.sparsity.compresses(memory, tensor) else 1.0

    # with blocks, with padding, or with dense tiles

    def is_parted(self, memory: str, tensor: str) -> bool:
        """Whether what a memory moves of a tensor depends on the tile that it holds."""
        fmt = self.sparsity.formats.get((memory, tensor))
        return fmt is not None and not fmt.is_plain

    def has_plain_indices(self, tensor: str) -> bool:
        """Whether tiles of a tensor are laid side by side: each of its indices is a rank variable."""
        indices = [index for _, index in self.einsum.by_tensor[tensor].projection]
        variables = [v for index in indices for v, step in index.terms if step == 1]
        firsts = dict(self.einsum.first_values)
        is_plain = all(len(index.terms) == 1 and not index.constant for index in indices)
        return is_plain and len(set(variables)) == len(indices) and not any(firsts.get(v, 0) for v in variables)

    def keeps_blocks(self, memory: str, tensor: str, extents: Sequence[Any]) -> Bools:
        """Whether tiles of these lengths are whole blocks of a memory's format, or parts of one; where it is known."""
        shape = np.broadcast_shapes(*map(np.shape, extents))
        if not self.has_plain_indices(tensor):
            return np.ones(shape, dtype=bool)
        lengths = [np.asarray(n).astype(np.int64) for n in extents]
        found: Bools = np.broadcast_to(keeps_blocks(self.sparsity.formats[memory, tensor], lengths), shape)
        return found

    def moved(self, memory: str, tensor: str, extents: Sequence[Any], held: Sequence[Any]) -> Moved:
        """Values and metadata of boxes of these lengths, for each of their positions, out of tiles of the lengths held.

        Where tiles cut blocks, are not alike, or overlap: what is stored of any box at least.
        """
        shape = np.broadcast_shapes(*(np.shape(n) for n in (*extents, *held)))
        columns = [np.broadcast_to(np.asarray(n).astype(np.int64), shape).ravel() for n in (*extents, *held)]
        rows, places = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        size, tile = np.split(rows.T, 2)
        values, most, metadata = self._moved(memory, tensor, list(size), list(tile))
        return Moved(*(a[places.ravel()].reshape(shape) for a in (values, most, metadata)))

    def least_moved(self, memory: str, tensor: str, size: Sequence[Ints]) -> Moved:
        """Values and metadata of boxes of these lengths, wherever they lie: nonzeros at least."""
        most = float(prod(self.sparsity.densities[tensor].shape)) / np.prod(size, axis=0, dtype=np.float64)
        return Moved(np.full(most.shape, self.kept(memory, tensor)), most, np.zeros(most.shape))

    def _moved(self, memory: str, tensor: str, size: list[Ints], tile: list[Ints]) -> tuple[Floats, Floats, Floats]:
        """`moved` of rows of boxes and tiles."""
        fmt, density = self.sparsity.formats[memory, tensor], self.sparsity.densities[tensor]
        n, positions = len(size[0]), np.prod(size, axis=0, dtype=np.float64)
        values, most, metadata = self.least_moved(memory, tensor, size)
        known: Bools = np.ones(n, dtype=bool)
        for lengths in (size, tile):
            known &= keeps_blocks(fmt, lengths)
            if isinstance(density, Structured):
                along = lengths[density.rank]
                known &= (along % density.m == 0) | (density.m % along == 0)
        if self.has_plain_indices(tensor):
            known &= np.all([b % a == 0 for a, b in zip(size, tile, strict=True)], axis=0)
        else:
            known &= np.all([a == b for a, b in zip(size, tile, strict=True)], axis=0)
            known &= not isinstance(density, Structured)
        if known.any():
            found = laid_stored(fmt, density, [a[known] for a in size], [a[known] for a in tile])
            values[known] = most[known] = found.values / positions[known]
            metadata[known] = found.metadata / positions[known]
        return values, most, metadata

    def _table(self, key: Any, columns: Sequence[Any], value: Callable[..., float]) -> Any:
        """Numbers that depend on some whole numbers, worked out once for each combination of these."""
        known = self.known.setdefault(key, {})
        arrays = [np.asarray(column).astype(np.int64) for column in columns]
        shape = np.broadcast_shapes(*(a.shape for a in arrays)) if arrays else ()
        if not shape or prod(shape) == 1:
            row = tuple(int(a.ravel()[0]) for a in arrays)
            if row not in known:
                known[row] = value(*row)
            return np.full(shape, known[row]) if shape else known[row]
        flat = [np.broadcast_to(a, shape).ravel() for a in arrays]
        radices = [int(a.max()) + 1 for a in flat]
        if prod(radices) >= 2**62:
            raise NotSupportedError("tiles with so many values are too many to look at zeros")
        number = np.zeros(prod(shape), dtype=np.int64)
        for a, radix in zip(flat, radices, strict=True):
            number = number * radix + a
        _, firsts, places = np.unique(number, return_index=True, return_inverse=True)
        rows = list(zip(*(a[firsts].tolist() for a in flat), strict=True))
        for row in rows:
            if row not in known:
                known[row] = value(*row)
        found: Floats = np.array([known[row] for row in rows])[places].reshape(shape)
        return found
