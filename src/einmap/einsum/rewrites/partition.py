"""Partition a rank: in every tensor that has it, two or more ranks take its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.gather import refuse_gathers
from einmap.einsum.notation.names import common_stem, partition_names
from einmap.einsum.rewrites.edit import box, check_extents, check_free, check_rank, rebuilt, substituted, with_cuts
from einmap.einsum.spaces.projection import Affine, Projection, Rank, RankVar
from einmap.einsum.spaces.space import index_ends
from einmap.einsum.workload import Workload
from einmap.errors import SpecError
from einmap.visible import short

type TileShapes = tuple[int, ...]


def split(
    workload: Workload,
    rank: Rank | Sequence[Rank],
    tile_shape: int | Sequence[int] | None = None,
    *,
    parts: int | None = None,
) -> Workload:
    """Partition `rank` in every tensor that has it.

    Z[m] = A[k, m] * B[k]   -- split(K, 4) -->   Z[m] = A[k1, k0, m] * B[k1, k0]
    K = 12                                       K1 = 3, K0 = 4, k = 4*k1 + k0

    - `tile_shape`: the size of K0; several from the outside inwards give more partitions: split(K, (8, 4)) gives
      K2, K1, K0 with K1 = 2, K0 = 4. `parts` instead of it: the size of K1, tiles are as equal as can be.
    - Imperfect: with K = 10 the last tile has 2 values, the rest of it is padding that takes no part, because the
      iteration space of every Einsum is bounded by 4*k1 + k0 < 10.
    - Again: split(K0, 2) of K1, K0 gives K2, K1, K0; the outer partitions are numbered anew.
    - Other ranks that a rank variable of the partition indexes too stay whole, with the sum as index:
      O[p] = I[H: 2*p + r] * F[r]   -- split(P, 4) -->   O[p1, p0] = I[H: 8*p1 + 2*p0 + r] * F[r].
      Ranks that are equal by declaration (P = M) are given together, split((M, P), 4), and are then all partitioned.
    - A sum that is such a number already is taken apart: C[G: 4*h + f] with f < 4, split(G, 4), is C[G1: h, G0: f].
      Any other sum is refused, as tiles of H in H: 2*p + r are not tiles of p and r.

    Raises SpecError: an unknown rank, shapes that are not positive or not smaller from one to the next, a number of
    parts that no tile shape gives, ranks together that are not equal, names that are taken, and an index as above.
    """
    refuse_gathers(workload.einsums, "partitioning")
    ranks = (rank,) if isinstance(rank, str) else tuple(rank)
    shapes = tile_shapes(workload, ranks, tile_shape, parts)
    new_ranks: dict[Rank, tuple[Rank, ...]] = {}
    again: dict[Rank, Rank] = {}
    for partitioned in ranks:
        new_ranks[partitioned], moved = partition_names(partitioned, len(shapes) + 1, workload.rank_sizes)
        again |= moved
    new_variables: dict[RankVar, tuple[RankVar, ...]] = {}
    later: dict[RankVar, RankVar] = {}
    for variable in _partitioned_variables(workload, ranks):
        new_variables[variable], moved = partition_names(variable, len(shapes) + 1, workload.rank_variables)
        later |= moved
    _check_names(workload, {**new_ranks, **new_variables}, {**again, **later})
    einsums = [_split_einsum(einsum, new_ranks, again, new_variables, later, shapes) for einsum in workload.einsums]
    return check_extents(replace(workload, einsums=tuple(einsums)))


def tile_shapes(
    workload: Workload, ranks: Sequence[Rank], tile_shape: int | Sequence[int] | None, parts: int | None
) -> TileShapes:
    """The tile shapes of a partition from the outside inwards. Raises SpecError as `split` says."""
    if not ranks or len(set(ranks)) < len(ranks):
        raise SpecError("name the ranks to be partitioned, each once")
    for rank in ranks:
        check_rank(workload, rank)
    sizes = {rank: sorted(set(workload.rank_sizes[rank].values())) for rank in ranks}
    if len(ranks) > 1 and len({size[-1] for size in sizes.values()}) > 1:
        text = ", ".join(f"{rank} = {size[-1]}" for rank, size in sizes.items())
        raise SpecError(f"only equal ranks can be partitioned together, found {text}")
    if (tile_shape is None) == (parts is None):
        raise SpecError("a partition needs either a tile shape or a number of parts")
    if parts is not None:
        return (_tile_shape_of_parts(ranks[0], sizes[ranks[0]], parts),)
    assert tile_shape is not None
    shapes = (tile_shape,) if isinstance(tile_shape, int) else tuple(tile_shape)
    for shape in shapes:
        _check_positive(shape, f"the tile shape of rank {ranks[0]}")
    if max(shapes, default=0) > (largest := sizes[ranks[0]][-1]):
        raise SpecError(f"a tile shape of {max(shapes)} is larger than rank {ranks[0]}, which has {largest} values")
    if not shapes or any(inner >= outer for outer, inner in pairwise(shapes)):
        text = ", ".join(str(shape) for shape in shapes)
        raise SpecError(
            f"tile shapes of rank {ranks[0]} must get smaller from the outside inwards, found {text or 'none'}"
        )
    return shapes


def _tile_shape_of_parts(rank: Rank, sizes: Sequence[int], parts: int) -> int:
    _check_positive(parts, f"the number of parts of rank {rank}")
    if len(sizes) > 1:
        raise SpecError(f"rank {rank} has several sizes, {', '.join(map(str, sizes))}", hint="give a tile shape")
    (size,) = sizes
    shape = -(-size // parts)
    if -(-size // shape) != parts:
        raise SpecError(
            f"rank {rank} of {size} does not give {parts} parts of equal shape: a shape of {shape} fills "
            f"{-(-size // shape)}, a smaller one more than {parts}",
            hint=f"choose {-(-size // shape)} parts",
        )
    return shape


def _check_positive(value: object, what: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SpecError(f"{what} must be a positive integer, found {short(value)}")


def _check_names(workload: Workload, new: Mapping[str, tuple[str, ...]], moved: Mapping[str, str]) -> None:
    """New names may take the place of those that go away or move."""
    gone = {*new, *moved}
    added = [name for names in (*new.values(), tuple(moved.values())) for name in names]
    check_free(workload, [name for name in added if name not in gone], "rename it, or partition that rank")
    for name in added:
        if added.count(name) > 1:
            raise SpecError(
                f"the name {name} would stand for two partitions", hint="partition one rank after the other"
            )


def _partitioned_variables(workload: Workload, ranks: Sequence[Rank]) -> list[RankVar]:
    """The rank variables that index one of the ranks alone, in any Einsum."""
    indices = (i for e in workload.einsums for a in e.accesses for rank, i in a.projection if rank in ranks)
    return list(dict.fromkeys(v for index in indices if (v := single_variable(index)) is not None))


def single_variable(index: Affine) -> RankVar | None:
    """`k` for the index k, None for any other."""
    is_single = len(index.terms) == 1 and index.terms[0][1] == 1 and not index.constant
    return index.terms[0][0] if is_single else None


def _split_einsum(
    einsum: Einsum,
    new_ranks: Mapping[Rank, tuple[Rank, ...]],
    again: Mapping[Rank, Rank],
    new_variables: Mapping[RankVar, tuple[RankVar, ...]],
    later: Mapping[RankVar, RankVar],
    shapes: TileShapes,
) -> Einsum:
    here = [i for a in einsum.accesses for rank, i in a.projection if rank in new_ranks]
    partitions = {v: new_variables[v] for index in here if (v := single_variable(index)) is not None}
    parts = {v: _sum_of(names, shapes) for v, names in partitions.items()}
    table = parts | {old: Affine(((new, 1),)) for old, new in later.items() if old not in partitions}
    first = dict(einsum.first_values)
    constraints = with_cuts([*box(einsum), *einsum.cuts], table)
    for v, names in partitions.items():
        constraints += _tile_bounds(names, shapes, first.get(v, 0), first.get(v, 0) + einsum.extents[v] - 1)
    accesses = [
        replace(a, projection=tuple((again.get(rank, rank), substituted(i, table)) for rank, i in a.projection))
        for a in einsum.accesses
    ]
    whole = rebuilt(einsum, accesses, constraints)
    direct = {parts[v]: tuple(Affine(((name, 1),)) for name in names) for v, names in partitions.items()}
    parted = [_parted(whole, access, new_ranks, direct, shapes) for access in whole.accesses]
    return rebuilt(einsum, parted, [*box(whole), *whole.cuts])


def _sum_of(names: Sequence[RankVar], shapes: TileShapes) -> Affine:
    """16*k2 + 4*k1 + k0 for the tile shapes 16 and 4."""
    return Affine(tuple(zip(names, (*shapes, 1), strict=True)))


def _tile_bounds(names: Sequence[RankVar], shapes: TileShapes, low: int, high: int) -> list[str]:
    """Bounds of the partitions of a rank variable from `low` to `high`; each tile stays within the one around it."""
    bounds = [f"{low // shapes[0]} <= {names[0]} <= {high // shapes[0]}"]
    inner = list(zip(names[1:], (*shapes[1:], 1), strict=True))
    for position, outer_shape in enumerate(shapes):
        name, shape = inner[position]
        bounds.append(f"0 <= {name} <= {(outer_shape - 1) // shape}")
        bounds.append(f"{Affine(tuple(inner[position:]))} < {outer_shape}")
    return bounds


def _parted(
    einsum: Einsum,
    access: TensorAccess,
    new_ranks: Mapping[Rank, tuple[Rank, ...]],
    direct: Mapping[Affine, tuple[Affine, ...]],
    shapes: TileShapes,
) -> TensorAccess:
    """The access with partitions in place of the rank; `direct`: the digits of the sums that are known."""
    projection: list[tuple[Rank, Affine]] = []
    for rank, index in access.projection:
        if rank not in new_ranks:
            projection.append((rank, index))
            continue
        digits = direct.get(index) or _digits(einsum, index, shapes)
        if digits is None:
            raise _no_digits(einsum, access.tensor, rank, index, shapes)
        projection += zip(new_ranks[rank], digits, strict=True)
    return replace(access, projection=checked(tuple(projection), access.tensor))


def _no_digits(einsum: Einsum, tensor: str, rank: Rank, index: Affine, shapes: TileShapes) -> SpecError:
    variables = [v for v, _ in index.terms]
    is_partition = common_stem(variables, variables) is not None
    together = "partition equal ranks together, by the same tile shapes"
    return SpecError(
        f"rank {rank} of tensor {tensor!r} cannot be partitioned: Einsum {einsum.name!r} indexes it by "
        f"{index}, and a tile of {', '.join(map(str, shapes))} of it is not a tile of its rank variables",
        hint=together if is_partition else f"partition the ranks of {', '.join(variables)} instead",
    )


def _digits(einsum: Einsum, index: Affine, shapes: TileShapes) -> tuple[Affine, ...] | None:
    """Quotients by the tile shapes and the last remainder, each affine; None where they are not."""
    quotients = []
    first = dict(einsum.first_values)
    for shape in shapes:
        # a rank variable with one value, as in a partition of size 1, stays with the innermost ones
        outer = {v for v, a in index.terms if not a % shape and einsum.extents[v] > 1}
        rest = Affine(tuple((v, a) for v, a in index.terms if v not in outer), index.constant)
        least, most = index_ends(rest, first, einsum.extents, einsum.cuts)
        quotient = least // shape
        if most - shape * quotient >= shape:
            return None
        quotients.append(Affine(tuple((v, a // shape) for v, a in index.terms if v in outer), quotient))
        index = replace(rest, constant=rest.constant - shape * quotient)
    return (*quotients, index)


def checked(projection: Projection, tensor: str) -> Projection:
    """The projection itself. Raises SpecError when a tensor would have a rank twice."""
    names = [rank for rank, _ in projection]
    for rank in names:
        if names.count(rank) > 1:
            raise SpecError(f"tensor {tensor!r} would have the rank {rank} twice")
    return projection
