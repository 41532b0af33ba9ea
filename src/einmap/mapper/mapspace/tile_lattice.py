"""The lattice of tile shapes: one tile shape for each rank variable, ordered by what may stand inside what.

A loop over a variable turns its tile shape into a smaller one that may stand inside: a divisor. So a chain of loops
is a descending path in the lattice, from the bounds down to 1, and what a storage node costs depends on nothing but
the point at which it stands (and on the lanes above it).

Rank variables that every tensor treats alike are one variable here, of the product of their bounds: a chain of
divisors of the product is a chain of divisors of each, prime by prime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.numbers import divisors, prime_factors

LARGE = 100_000
"""Points of a lattice up to which tables have a row for each point at which a node fits."""
FEW_POINTS = 5_000
"""Points for which tables with a row for each take little time in any case."""
MOST_SIZES = 4000
"""Tile shapes of an axis up to which variables are merged: pairs of them are listed."""
WORD = 2**62
"""Numbers up to this one are safe in 64-bit integers."""


MOST_UNEVEN = 3000
"""Bounds up to here are tried with every tile shape that is worth it where tile shapes need not divide them."""


@dataclass(frozen=True)
class Axis:
    """One or more rank variables that are searched as one. `sizes`: tile shapes, smallest first, the last the bound.

    `uneven`: tile shapes that need not divide the bound; the outermost use of lanes may have one, and leaves a smaller
    last tile. `loose`: so may the outermost temporal loop.
    """

    members: tuple[tuple[str, int], ...]
    sizes: tuple[int, ...]
    uneven: tuple[int, ...] = ()
    loose: bool = False

    @property
    def is_thinned(self) -> bool:
        """Whether there are more uneven tile shapes that would be worth trying."""
        return bool(self.uneven) and self.sizes[-1] > MOST_UNEVEN

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The rank variables."""
        return tuple(v for v, _ in self.members)

    def place(self, size: int) -> int:
        """Position of a tile shape."""
        return self.sizes.index(size)

    def inside(self, outer: int, inner: int) -> bool:
        """Whether a tile of shape `inner` may stand inside one of shape `outer`."""
        return outer % inner == 0 or (self.loose and outer == self.sizes[-1] and inner in self.uneven)

    @cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """For each position those that may stand inside, itself last."""
        if self.loose or self.sizes[-1] > WORD:
            return tuple(
                tuple(j for j in range(i + 1) if self.inside(s, self.sizes[j])) for i, s in enumerate(self.sizes)
            )
        sizes = np.array(self.sizes, dtype=np.int64)
        return tuple(tuple(np.flatnonzero(s % sizes[: i + 1] == 0).tolist()) for i, s in enumerate(sizes))

    @cached_property
    def covers(self) -> tuple[tuple[int, ...], ...]:
        """The neighbours below a point: no chain of smaller steps leads to them."""
        inside = [frozenset(inner) for inner in self.below]
        covers_of = []
        for i, candidates in enumerate(self.below):
            covered: set[int] = set()
            covers = []
            # the largest first: what stands inside another one stands inside one that nothing else covers
            for j in reversed(candidates):
                if j != i and j not in covered:
                    covers.append(j)
                    covered |= inside[j]
            covers_of.append(tuple(reversed(covers)))
        return tuple(covers_of)

    def narrowed(self, shapes: Mapping[str, int], size: int) -> dict[str, int]:
        """Tile shapes of the members whose product is `size`: of those given, the first ones are divided first."""
        if len(self.members) == 1:
            return {self.members[0][0]: size}
        missing = dict(prime_factors(prod(shapes[v] for v in self.variables) // size))
        divided = {}
        for v in self.variables:
            shape = shapes[v]
            for p, e in prime_factors(shape):
                taken = min(e, missing.get(p, 0))
                missing[p] = missing.get(p, 0) - taken
                shape //= p**taken
            divided[v] = shape
        return divided

    def split(self, size: int) -> tuple[int, ...]:
        """The tile shape of each member: the factors that are missing are taken from the first ones first."""
        if len(self.members) == 1:
            return (size,)
        missing = dict(prime_factors(prod(b for _, b in self.members) // size))
        shapes = []
        for _, bound in self.members:
            shape = bound
            for p, e in prime_factors(bound):
                taken = min(e, missing.get(p, 0))
                missing[p] = missing.get(p, 0) - taken
                shape //= p**taken
            shapes.append(shape)
        return tuple(shapes)


@dataclass(frozen=True)
class Lattice:
    """All points. A point has the number sum(position on axis * stride of axis); number 0 is the tile of one value."""

    axes: tuple[Axis, ...]

    @cached_property
    def radices(self) -> Ints:
        """Tile shapes on each axis."""
        return np.array([len(a.sizes) for a in self.axes], dtype=np.int64)

    @cached_property
    def strides(self) -> Ints:
        """Distance of neighbours on each axis."""
        return np.array([prod(int(r) for r in self.radices[:i]) for i in range(len(self.axes))], dtype=np.int64)

    @cached_property
    def size(self) -> int:
        """Number of points."""
        return prod(int(r) for r in self.radices)

    @property
    def top(self) -> int:
        """The point of the bounds."""
        return self.size - 1

    @cached_property
    def coord(self) -> Ints:
        """Position on each axis (a column), for each point (a row)."""
        return np.arange(self.size)[:, None] // self.strides % self.radices

    def shapes(self, axis: int) -> Floats:
        """Tile shape on one axis, for each point."""
        shapes: Floats = np.array(self.axes[axis].sizes, dtype=np.float64)[self.coord[:, axis]]
        return shapes

    @cached_property
    def extents(self) -> dict[str, Floats | float]:
        """Tile shape of each rank variable that is alone on its axis, for each point."""
        return {a.members[0][0]: self.shapes(i) for i, a in enumerate(self.axes) if len(a.members) == 1}

    @cached_property
    def tiles(self) -> Floats:
        """Tiles in all, for each point; the bound over the tile shape where that is not an integer."""
        tiles = np.ones(self.size)
        for i, axis in enumerate(self.axes):
            tiles *= axis.sizes[-1] / self.shapes(i)
        return tiles

    @cached_property
    def excess(self) -> float:
        """How many more tiles there are at most, ragged ones counted, than `tiles` says."""
        excess = 1.0
        for axis in self.axes:
            if axis.uneven:
                excess *= max(-(-axis.sizes[-1] // size) * size / axis.sizes[-1] for size in axis.sizes)
        return excess

    @cached_property
    def fullness(self) -> float:
        """Part of what an Einsum iterates over that lies in full tiles of all rank variables, at least."""
        fullness = 1.0
        for axis in self.axes:
            if axis.uneven:
                fullness *= min(axis.sizes[-1] // size * size / axis.sizes[-1] for size in axis.sizes)
        return fullness

    def values(self, einsum: Einsum, tensor: str) -> Floats:
        """Values in a tensor's tile, for each point."""
        extents: dict[str, Floats | float] = dict.fromkeys(einsum.rank_variables, 1.0)
        alone = 1.0 * np.ones(self.size)
        for i, axis in enumerate(self.axes):
            if len(axis.members) == 1:
                extents[axis.members[0][0]] = self.shapes(i)
            elif einsum.by_tensor[tensor].relevance(axis.members[0][0]) is Relevance.FULL:
                alone *= self.shapes(i)
        for _, index in einsum.by_tensor[tensor].projection:
            length: Floats | float = 1.0
            for v, a in index.terms:
                length = length + abs(a) * (extents[v] - 1)
            alone = alone * length
        return alone

    def filled(self, einsum: Einsum) -> tuple[Floats, Floats]:
        """Values in each tensor's tile, and in all its fills (a row for each access of the Einsum), for each point."""
        if einsum.name not in self._filled:
            values = np.stack([self.values(einsum, access.tensor) for access in einsum.accesses])
            self._filled[einsum.name] = values, values * self.tiles
        return self._filled[einsum.name]

    @cached_property
    def _filled(self) -> dict[str, tuple[Floats, Floats]]:
        return {}

    def packed(self, lists: str) -> tuple[Ints, Ints]:
        """`below` or `covers` of all axes in one array, and where each begins: start[offset of axis + position]."""
        flat: list[int] = []
        start = [0]
        for axis in self.axes:
            for row in getattr(axis, lists):
                flat += row
                start.append(len(flat))
        return np.array(flat, dtype=np.int64), np.array(start, dtype=np.int64)

    @cached_property
    def offsets(self) -> Ints:
        """Where each axis begins in arrays that list the positions of all axes."""
        return np.concatenate([[0], np.cumsum(self.radices)]).astype(np.int64)

    @cached_property
    def axis_of(self) -> Mapping[str, int]:
        """Axis of each rank variable that has one (bounds above 1)."""
        return {v: i for i, a in enumerate(self.axes) for v in a.variables}


def lattice_of(
    einsum: Einsum,
    apart: frozenset[str],
    *,
    uncut: frozenset[tuple[str, str]] = frozenset(),
    ragged: bool = False,
    loose: bool = False,
    limited: frozenset[str] = frozenset(),
    coarseness: float = 1,
    thinning: float = 1,
) -> Lattice:
    """The lattice of an Einsum. Variables in `apart` are not merged with others.

    `uncut`: ranks of tensors that some other Einsum cannot cut alike: variables that index them may not stand where
    others may, so the two are not merged. `ragged`: tile shapes of variables that never occur in a sum need not
    divide the bound, those of temporal loops neither if `loose`; all are tried for variables in `limited`, whose tile
    shapes are limited other than from above. `coarseness`: a tile shape below so many times the next smaller one is
    left out. `thinning`: so is one that does not divide the bound, below so many times the next smaller one.
    """
    groups: dict[object, list[tuple[str, int]]] = {}
    uneven = {v for v, _ in einsum.bounds if ragged and _occurs_alone(einsum, v)}
    for v, bound in einsum.bounds:
        if bound > 1:
            groups.setdefault(_kind(einsum, v, apart | uneven, uncut), []).append((v, bound))
    axes = []
    for members in (some for alike in groups.values() for some in _apart(alike)):
        total = prod(b for _, b in members)
        outermost = _uneven_sizes(total) if members[0][0] in uneven else []
        if outermost and members[0][0] in limited and total <= MOST_UNEVEN:
            outermost = list(range(1, total))
        sizes = sorted({d for size in (*outermost, total) for d in divisors(size)})
        kept = _thinned(_coarse(sizes, coarseness), total, thinning)
        axes.append(Axis(tuple(members), kept, tuple(outermost), bool(outermost) and loose))
    return Lattice(tuple(axes))


def _apart(members: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Variables that may be one axis, on several where their product or the number of its divisors were too large."""
    parts: list[list[tuple[str, int]]] = []
    for member in members:
        bounds = [b for _, b in (*parts[-1], member)] if parts else []
        if parts and prod(bounds) <= WORD and len(divisors(prod(bounds))) <= MOST_SIZES:
            parts[-1].append(member)
        else:
            parts.append([member])
    return parts


def _occurs_alone(einsum: Einsum, variable: str) -> bool:
    """Whether the variable is never a term of a sum, nor multiplied."""
    return all(is_plain(access, variable) for access in einsum.accesses)


@lru_cache(maxsize=64)
def _uneven_sizes(bound: int) -> list[int]:
    """Tile shapes that are worth trying: the smallest multiple of an inner tile shape for its number of iterations.

    A larger tile with as many iterations needs more space and moves as much. Of bounds above MOST_UNEVEN only some
    inner tile shapes and numbers of iterations are tried: their number would grow with the bound.
    """
    kept = set()
    some = range(1, bound) if bound <= MOST_UNEVEN else _spread(bound)
    for inner in some:
        most = -(-bound // inner)
        for count in range(1, most + 1) if bound <= MOST_UNEVEN else _spread(most + 1):
            size = -(-bound // (count * inner)) * inner
            if size < bound and (inner == 1 or size > inner):
                kept.add(size)
    return sorted(kept)


def _spread(end: int) -> list[int]:
    """Powers of four below `end` and what makes them of it."""
    powers = [4**i for i in range((end.bit_length() + 1) // 2)]
    return sorted({n for p in powers for n in (p, end // p) if 0 < n < end})


def _coarse(sizes: list[int], coarseness: float) -> tuple[int, ...]:
    kept = sizes[:1]
    for size in sizes[1:]:
        if size >= coarseness * kept[-1] or size == sizes[-1]:
            kept.append(size)
    return tuple(kept)


def _thinned(sizes: tuple[int, ...], total: int, thinning: float) -> tuple[int, ...]:
    kept = sizes[:1]
    for size in sizes[1:]:
        if total % size == 0 or size >= thinning * kept[-1]:
            kept = (*kept, size)
    return kept


def _kind(einsum: Einsum, variable: str, apart: frozenset[str], uncut: frozenset[tuple[str, str]]) -> object:
    """Equal for variables that may be merged: each indexes the same tensors, alone and with factor 1.

    So are then the tensors of which it cuts a rank in `uncut`.
    """
    kinds = tuple(access.relevance(variable) for access in einsum.accesses)
    plain = all(is_plain(access, variable) for access in einsum.accesses)
    if variable in apart or not plain or Relevance.PARTIAL in kinds:
        return variable
    full = (access for access, kind in zip(einsum.accesses, kinds, strict=True) if kind is Relevance.FULL)
    cuts = [((access.tensor, rank_of(access, variable)) in uncut, variable in access.by_rank) for access in full]
    return kinds, tuple(cuts)


def is_plain(access: TensorAccess, variable: str) -> bool:
    """Whether the variable occurs in one index at most, there alone and with factor 1."""
    indices = [index.terms for _, index in access.projection if any(v == variable for v, _ in index.terms)]
    return len(indices) <= 1 and all(len(terms) == 1 and abs(terms[0][1]) == 1 for terms in indices)


def ranks_not_plain(access: TensorAccess) -> list[str]:
    """The ranks that are indexed by more than a rank variable alone, with factor 1, that indexes nothing else."""
    indices = [index.terms for _, index in access.projection]
    alone = [terms[0][0] for terms in indices if len(terms) == 1 and abs(terms[0][1]) == 1]
    if len(alone) == len(indices) == len({*alone}):
        return []
    return [
        rank for rank, index in access.projection if not (len(index.terms) == 1 and is_plain(access, index.terms[0][0]))
    ]


def rank_of(access: TensorAccess, variable: str) -> str:
    """The rank that a rank variable indexes."""
    return next(rank for rank, index in access.projection if any(v == variable for v, _ in index.terms))


def positions_after(axis: Axis, divisor: int, shape: int = 0) -> Sequence[int]:
    """For each position on an axis the one of the tile shape divided by `divisor`, -1 where that is not an integer.

    `shape`: where it is not 0, the bound becomes this tile shape, and nothing else can be divided.
    """
    position_of = {size: i for i, size in enumerate(axis.sizes)}
    if shape:
        return [*([-1] * (len(axis.sizes) - 1)), position_of[shape]]
    return [position_of.get(size // divisor, -1) if size % divisor == 0 else -1 for size in axis.sizes]
