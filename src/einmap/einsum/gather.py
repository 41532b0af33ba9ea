"""Rows of a tensor that are looked up in other tensors: `Y[t, d] = Table[V: Ids[t], d]`.

A value of an index tensor is a whole number: from 0 on the row of that number, -1 a row of zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.spaces.projection import Affine, Lookup, Rank
from einmap.errors import At, NotSupportedError, SpecError

NO_ROW = -1
"""The index that stands for a row of zeros."""

type Places = NDArray[np.int64]


def refuse_gathers(einsums: tuple[Einsum, ...], what: str, at_of: Callable[[int], At | None] = lambda _: None) -> None:
    """Raise NotSupportedError if an Einsum gathers: `what` takes indices of rank variables alone.

    `at_of`: where the n-th Einsum is written.
    """
    for number, einsum in enumerate(einsums):
        for access in einsum.gathers:
            index = next(iter(access.lookups.values()))
            raise NotSupportedError(
                f"{what}: Einsum {einsum.name!r} looks up rows of {access.tensor!r} in {index.tensor!r}, which is not "
                "supported there",
                at=at_of(number),
            )


def rows_of(
    access: TensorAccess, ranges: Mapping[Rank, tuple[int, int]], places_of: Mapping[Rank, Places]
) -> tuple[tuple[Places, ...], NDArray[np.bool_]]:
    """Where in a gathered tensor its rows by position are, and where there is one.

    `ranges`: for each rank of the rows the first index and one past the last one that are asked for. `places_of`: for
    each rank that is looked up the values of its index tensor, with as many axes as rows have ranks. Indices of places
    without a row are 0.
    """
    ranks = [rank for rank, _ in access.projection]
    shape = tuple(high - low for low, high in (ranges[rank] for rank in ranks))
    there = np.ones(shape, dtype=bool)
    where: list[Places] = []
    for rank, index in access.written:
        if isinstance(index, Affine):
            where.append(np.broadcast_to(_along(rank, ranks, ranges), shape))
        else:
            found = np.broadcast_to(places_of[rank], shape)
            there &= found != NO_ROW
            where.append(np.where(found == NO_ROW, 0, found))
    return tuple(where), there


def lookup_grid(
    access: TensorAccess, index: Lookup, ranges: Mapping[Rank, tuple[int, int]]
) -> tuple[Places | int, ...]:
    """Where in an index tensor the indices of rows stand, rank by rank as its projection has them; to broadcast."""
    of_index = {_key(place): rank for rank, place in access.projection}
    ranks = [rank for rank, _ in access.projection]
    parts: list[Places | int] = []
    for _, place in index.projection:
        if not place.terms:
            parts.append(place.constant)
            continue
        parts.append(_along(of_index[_key(place)], ranks, ranges))
    return tuple(parts)


def _along(rank: Rank, ranks: list[Rank], ranges: Mapping[Rank, tuple[int, int]]) -> Places:
    """The indices of one rank, shaped to broadcast against those of the others."""
    low, high = ranges[rank]
    return np.arange(low, high).reshape([-1 if other == rank else 1 for other in ranks])


def _key(index: Affine) -> tuple[frozenset[tuple[str, int]], int]:
    return frozenset(index.terms), index.constant


def checked_places(
    einsum: Einsum, access: TensorAccess, rank: Rank, values: NDArray[Any], grid: tuple[Places | int, ...]
) -> Places:
    """Values of an index tensor as indices; `grid`: where they stand in it.

    Raises SpecError for one that is not an index of the rank.
    """
    index = access.lookups[rank]
    whole = np.asarray(np.rint(values), dtype=np.int64)
    wrong = (whole != values) | (whole < NO_ROW) | (whole >= index.size)
    if wrong.any():
        first = tuple(np.argwhere(wrong)[0])
        at = [int(np.broadcast_to(part, wrong.shape)[first]) for part in grid]
        raise SpecError(
            f"{index.tensor!r} has the value {np.asarray(values)[first]:g} at {at}, which is not an index of rank "
            f"{rank} of {access.tensor!r} in Einsum {einsum.name!r}",
            hint=f"indices are whole numbers from 0 to {index.size - 1}, and -1 for a row of zeros",
        )
    return whole


def gathered_rows(
    einsum: Einsum, access: TensorAccess, tensors: Mapping[TensorName, NDArray[Any]]
) -> NDArray[np.float64]:
    """The rows of a gathered tensor by position, from index 0 on; ranks as in `access.projection`.

    `tensors`: all values, ranks of each in the order of the Einsum's own accesses (as written). Raises SpecError.
    """
    ranges = {rank: (0, einsum.index_range_of(index)[1] + 1) for rank, index in access.projection}
    places: dict[Rank, Places] = {}
    for rank, index in access.lookups.items():
        grid = lookup_grid(access, index, ranges)
        places[rank] = checked_places(einsum, access, rank, tensors[index.tensor][grid], grid)
    where, there = rows_of(access, ranges, places)
    rows: NDArray[np.float64] = np.where(there, tensors[access.tensor][where], 0.0)
    return rows


def index_sizes(einsums: tuple[Einsum, ...]) -> dict[TensorName, int]:
    """For each index tensor the size of the smallest rank that is looked up in it."""
    sizes: dict[TensorName, int] = {}
    for access in (access for einsum in einsums for access in einsum.gathers):
        for index in access.lookups.values():
            sizes[index.tensor] = min(index.size, sizes.get(index.tensor, index.size))
    return sizes
