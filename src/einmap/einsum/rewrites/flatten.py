"""Flatten ranks into one, and linearise that one: the way back from partitions, and how ranks are concatenated."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.gather import refuse_gathers
from einmap.einsum.notation.names import common_stem
from einmap.einsum.rewrites.edit import (
    box,
    check_extents,
    check_rank,
    check_rank_name,
    rebuilt,
    renamed,
    substituted,
)
from einmap.einsum.spaces.projection import Affine, Rank, RankVar
from einmap.einsum.spaces.space import MAX_POINTS, index_values, linear_cut, parse_constraint
from einmap.einsum.workload import Workload
from einmap.errors import SpecError, did_you_mean

_PARTITION = re.compile(r"[^\W\d]\D*\d+")


def flatten(workload: Workload, ranks: Sequence[Rank], name: Rank | None = None) -> Workload:
    """Fuse ranks, outermost first, into one rank of tuples in every tensor that has all of them.

    Z[m] = A[k1, k0, m] * B[k1, k0]   -- flatten(K1, K0) -->   Z[m] = A[K1K0: 4*k1 + k0, m] * B[K1K0: 4*k1 + k0]
    K1 = 3, K0 = 4                                             K1K0 = 12

    A tuple (k1, k0) stands at its place in the order of the tuples; rank variables stay, and so do tensors that have
    only some of the ranks. The rank stands where the outermost one was, and is called `name`, or by the names joined.
    Ranks that have nothing to do with each other are concatenated in this way:

    Z[b, p, d] = AV[b, h, p, f] * WZ[h, f, d]   -- flatten((H, F), G) -->
    Z[b, p, d] = AV[b, G: 16*h + f, p] * WZ[G: 16*h + f, d]   with G = H*F

    Raises SpecError: fewer than two ranks, an unknown rank, ranks that no tensor has together, a name that is taken.
    """
    refuse_gathers(workload.einsums, "partitioning")
    strides = flat_strides(workload, ranks)
    name = "".join(ranks) if name is None else name
    check_rank_name(name)
    if name in workload.rank_sizes:
        raise SpecError(f"the name {name} is taken: the workload has a rank {name} already", hint="choose another name")
    einsums = []
    for einsum in workload.einsums:
        accesses = [_flat_access(access, ranks, strides, name) for access in einsum.accesses]
        einsums.append(rebuilt(einsum, accesses, [*box(einsum), *einsum.cuts]))
    return replace(workload, einsums=tuple(einsums))


def flat_strides(workload: Workload, ranks: Sequence[Rank]) -> tuple[int, ...]:
    """By how much the place of a tuple moves with each of its coordinates: (4, 1) for K1, K0 with K0 = 4."""
    if len(ranks) < 2 or len(set(ranks)) < len(ranks):
        raise SpecError("name at least two ranks to be flattened, each once")
    for rank in ranks:
        check_rank(workload, rank)
    having = [t for t in workload.tensors if all(t in workload.rank_sizes[rank] for rank in ranks)]
    if not having:
        raise SpecError(f"no tensor has the ranks {', '.join(ranks)} together, so that they cannot be flattened")
    sizes = [max(workload.rank_sizes[rank][t] for t in having) for rank in ranks]
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


def _flat_access(access: TensorAccess, ranks: Sequence[Rank], strides: Sequence[int], name: Rank) -> TensorAccess:
    indices = dict(access.projection)
    if not set(ranks) <= indices.keys():
        return access
    terms: dict[RankVar, int] = {}
    for rank, stride in zip(ranks, strides, strict=True):
        for v, a in indices[rank].terms:
            terms[v] = terms.get(v, 0) + a * stride
    constant = sum(indices[rank].constant * stride for rank, stride in zip(ranks, strides, strict=True))
    joined = Affine(tuple((v, a) for v, a in terms.items() if a), constant)
    kept = [(name, joined) if rank == ranks[0] else (rank, index) for rank, index in access.projection]
    return replace(access, projection=tuple((rank, index) for rank, index in kept if rank not in ranks[1:]))


def linearise(workload: Workload, rank: Rank, name: Rank | None = None) -> Workload:
    """Give a flattened rank one rank variable: a tuple (k1, k0) becomes the integer k = k1*K0 + k0.

    Z[m] = A[K1K0: 4*k1 + k0, m] * B[K1K0: 4*k1 + k0]   -- linearise(K1K0) -->   Z[m] = A[k, m] * B[k]
    K1K0 = 12                                                                    K = 12

    Partition, flatten, linearise is the identity. The rank is called `name`; without one, K1K0 is K, and others keep
    their name. Where all partitions of a rank variable k vanish their variable is k, else that of the rank.

    Raises SpecError: an unknown rank, a name that is taken, and where the sum is not enough: two points of the Einsum
    share a value of it, values between are missing, or another index or a bound needs its variables one by one.
    """
    refuse_gathers(workload.einsums, "partitioning")
    check_rank(workload, rank)
    name = _linear_name(rank) if name is None else name
    check_rank_name(name)
    if name != rank and name in workload.rank_sizes:
        hint = "give the linear rank another name"
        raise SpecError(f"the name {name} is taken: the workload has a rank {name} already", hint=hint)
    einsums = tuple(renamed(_linear_einsum(einsum, rank, name), {rank: name}, {}) for einsum in workload.einsums)
    return check_extents(replace(workload, einsums=einsums))


def _linear_einsum(einsum: Einsum, rank: Rank, name: Rank) -> Einsum:
    indices = [i for a in einsum.accesses for r, i in a.projection if r == rank]
    for index in dict.fromkeys(i for i in indices if len(i.terms) > 1):
        variables = [v for v, _ in index.terms]
        einsum = _with_one_variable(einsum, index, common_stem(variables, variables) or name.lower())
    return einsum


def _linear_name(rank: Rank) -> Rank:
    """K for K1K0, HF for HF."""
    parts = _PARTITION.findall(rank)
    return common_stem(parts, parts) or rank if "".join(parts) == rank else rank


def _with_one_variable(einsum: Einsum, index: Affine, variable: RankVar) -> Einsum:
    """The Einsum with `variable` in place of the sum `index`."""
    gone = {v for v, _ in index.terms}
    if variable in set(einsum.extents) - gone:
        text = f"Einsum {einsum.name!r} has a rank variable {variable} already, which {index} would become"
        raise SpecError(text, hint=did_you_mean(variable, einsum.extents, listing="rank variables"))
    low, high = _interval(einsum, index)
    constraints = [*box(einsum, [v for v in einsum.rank_variables if v not in gone]), f"{low} <= {variable} <= {high}"]
    for cut in einsum.cuts:
        names = parse_constraint(cut).names
        if not names & gone:
            constraints.append(cut)
        elif not names <= gone:
            linear = linear_cut(cut)
            left = None if linear is None else _in_terms_of(linear[0], index, variable)
            if linear is None or left is None:
                raise _needs_them(einsum, f"the bound {cut}", index)
            constraints.append(f"{left} {linear[1]}")
    accesses = []
    for access in einsum.accesses:
        indices = [(rank, _in_terms_of(i, index, variable), i) for rank, i in access.projection]
        for rank, new, old in indices:
            if new is None:
                raise _needs_them(einsum, f"rank {rank} of tensor {access.tensor!r}, indexed by {old},", index)
        projection = tuple((rank, new) for rank, new, _ in indices if new is not None)
        accesses.append(replace(access, projection=projection))
    return rebuilt(einsum, accesses, constraints)


def _needs_them(einsum: Einsum, what: str, index: Affine) -> SpecError:
    names = ", ".join(v for v, _ in index.terms)
    return SpecError(
        f"Einsum {einsum.name!r} cannot do with the sum {index} alone: {what} needs {names} one by one",
        hint="flatten the same ranks in all of its tensors",
    )


def _in_terms_of(affine: Affine, index: Affine, variable: RankVar) -> Affine | None:
    """8*k1 + 2*k0 + r in terms of k = 4*k1 + k0: 2*k + r. None where there is no such expression."""
    gone, coefficients = dict(index.terms), dict(affine.terms)
    if not gone.keys() & coefficients.keys():
        return affine
    first, a = index.terms[0]
    factor, rest = divmod(coefficients.get(first, 0), a)
    if rest or any(coefficients.get(v, 0) != factor * b for v, b in gone.items()):
        return None
    # the new variable stands where the first of the old ones stood
    table = {v: Affine(()) for v in gone}
    table[next(v for v in coefficients if v in gone)] = Affine(((variable, 1),), -index.constant)
    scaled = Affine(tuple((v, factor if v in gone else b) for v, b in affine.terms), affine.constant)
    return substituted(scaled, table)


def _interval(einsum: Einsum, index: Affine) -> tuple[int, int]:
    """The smallest and largest value of the index, if each between is that of exactly one choice of its variables."""
    gone = {v for v, _ in index.terms}
    cuts = [cut for cut in einsum.cuts if parse_constraint(cut).names <= gone]
    extents = {v: n for v, n in einsum.extents.items() if v in gone}
    low, high = einsum.index_range_of(index)
    what = f"rank variables of {index} in Einsum {einsum.name!r}"
    if not cuts:
        if not _is_mixed_radix(index, extents):
            raise SpecError(f"the {what} are not tuples: its values are repeated, or some between are missing")
        return low, high
    if math.prod(extents.values()) > MAX_POINTS:
        raise SpecError(f"the {what} have more than {MAX_POINTS:,} bounded tuples, too many to be checked")
    values = sorted(index_values(index, dict(einsum.first_values), extents, cuts))
    if values != list(range(values[0], values[0] + len(values))):
        raise SpecError(f"the {what} are not tuples: its values are repeated, or some between are missing")
    return values[0], values[-1]


def _is_mixed_radix(index: Affine, extents: dict[RankVar, int]) -> bool:
    """Whether each coefficient is the product of the extents of the smaller ones: all sums differ, without a gap."""
    size = 1
    for v, a in sorted(index.terms, key=lambda term: term[1]):
        if a != size and extents[v] > 1:
            return False
        size *= extents[v]
    return True
