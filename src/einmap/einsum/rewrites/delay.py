"""Delayed reduction: a reduced rank is kept in a temporary tensor, and reduced by an Einsum of its own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.gather import refuse_gathers
from einmap.einsum.notation.pretty import reduced
from einmap.einsum.operation import product_of
from einmap.einsum.rewrites.edit import box, check_extents, check_rank, check_variable_name, rebuilt
from einmap.einsum.rewrites.partition import single_variable
from einmap.einsum.spaces.projection import Affine, Projection, Rank, RankVar
from einmap.einsum.spaces.space import MAX_POINTS, box_points, inside_of, linear_cut, linked, parse_constraint
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError, SpecError, did_you_mean


def delay_reduction(
    workload: Workload, rank: Rank, einsum: str | None = None, temporary: str | None = None
) -> Workload:
    """Keep a reduced rank in a temporary, which a new Einsum reduces: in each Einsum that reduces over it, or in one.

    Z[m] = A[k1, k0, m] * B[k1, k0]   -- delay_reduction(K1) -->   ZT[k1, m] = A[k1, k0, m] * B[k1, k0]
                                                                   Z[m] = ZT[k1, m]

    The reduction may be sum, max or min, the map anything. The temporary is called `temporary`, or by the name of the
    output and T; its Einsum by that of the Einsum and T; the last reduction keeps the name. Where the output has a sum
    as index (a scatter, Z[H: p + r]) the last reduction runs over its rank, Z[h] = ZT[k1, h].

    Raises SpecError: an unknown rank or Einsum, a rank that nothing reduces over, several outputs, names that are
    taken; NotSupportedError where a maximum or minimum would meet elements of the temporary that bounds leave out.
    """
    refuse_gathers(workload.einsums, "partitioning")
    check_rank(workload, rank)
    if einsum is not None:
        workload.find(einsum)
    delayed = {e.name: v for e in workload.einsums if einsum in (None, e.name) and (v := _reduced_by(e, rank))}
    if not delayed:
        raise _not_reduced(workload, rank, einsum)
    if temporary is not None and len(delayed) > 1:
        text = f"the Einsums {', '.join(delayed)} reduce over rank {rank}, but there is one name for a temporary"
        raise SpecError(text, hint="name the Einsum, too")
    einsums: list[Einsum] = []
    for old in workload.einsums:
        if old.name in delayed:
            einsums += _delayed(workload, old, rank, delayed[old.name], temporary)
        else:
            einsums.append(old)
    return check_extents(replace(workload, einsums=tuple(einsums)))


def _reduced_by(einsum: Einsum, rank: Rank) -> RankVar | None:
    """The rank variable that indexes the rank alone and that the Einsum reduces over."""
    variables = (single_variable(i) for a in einsum.accesses if not a.output for r, i in a.projection if r == rank)
    return next((v for v in variables if v in reduced(einsum) and not einsum.is_copy), None)


def _not_reduced(workload: Workload, rank: Rank, only: str | None) -> SpecError:
    reasons = []
    for einsum in workload.einsums:
        indices = [i for a in einsum.accesses for r, i in a.projection if r == rank]
        if not indices or only not in (None, einsum.name):
            continue
        single = [v for i in indices if (v := single_variable(i))]
        why = f"keeps {single[0]}" if single else f"indexes it by {indices[0]}"
        reasons.append(f"{einsum.name!r} {why}")
    subject = "no Einsum" if only is None else f"Einsum {only!r}"
    candidates = {r for e in workload.einsums for a in e.accesses for r, _ in a.projection if _reduced_by(e, r)}
    return SpecError(
        f"{subject} reduces over rank {rank}: " + ("; ".join(reasons[:4]) or "it does not have it"),
        hint=did_you_mean(rank, candidates, listing="ranks that are reduced"),
    )


def _delayed(
    workload: Workload, einsum: Einsum, rank: Rank, variable: RankVar, temporary: str | None
) -> tuple[Einsum, Einsum]:
    """The Einsum that writes the temporary, and the one that reduces it."""
    outputs = [access for access in einsum.accesses if access.output]
    if len(outputs) > 1:
        text = f"Einsum {einsum.name!r} has several outputs, {', '.join(sorted(einsum.outputs))}"
        raise SpecError(f"{text}: its reduction cannot be delayed", hint="write one Einsum for each output")
    output = outputs[0]
    name = f"{output.tensor}T" if temporary is None else temporary
    if not name.isidentifier():
        raise SpecError(f"{name!r} is not a name of a tensor", hint="use letters, digits and _, no digit first")
    first = name if einsum.name == output.tensor else f"{einsum.name}T"
    for taken, names in ((name, workload.tensors), (first, workload.einsum_names)):
        if taken in names:
            text = f"the name {taken} of the temporary of {output.tensor!r} is taken"
            raise SpecError(text, hint="give the temporary another name")
    if rank in dict(output.projection):
        raise SpecError(f"{output.tensor!r} has a rank {rank} already, its temporary would have it twice")
    kept: tuple[Rank, Affine] = (rank, Affine(((variable, 1),)))
    into = TensorAccess(name, (kept, *output.projection), output=True, bits_per_value=output.bits_per_value)
    inputs = [access for access in einsum.accesses if not access.output]
    partial = rebuilt(replace(einsum, name=first), [*inputs, into], [*box(einsum), *einsum.cuts])
    return partial, _last_reduction(einsum, kept, output, name)


def _last_reduction(einsum: Einsum, kept: tuple[Rank, Affine], output: TensorAccess, temporary: str) -> Einsum:
    """Z[m] = ZT[k1, m]."""
    taken = {v for v, _ in kept[1].terms} | {v for _, i in output.projection if len(i.terms) == 1 for v, _ in i.terms}
    projection, bounds = _readable(einsum, output, taken)
    variables = [v for _, index in (kept, *projection) for v, _ in index.terms if v in einsum.extents]
    exact = einsum.operation.reduction != "sum"
    if bounds and exact and einsum.cuts:
        raise _unclear(einsum)
    constraints = [*box(einsum, dict.fromkeys(variables)), *bounds, *_projected_cuts(einsum, variables, exact)]
    reads = replace(output, tensor=temporary, projection=(kept, *projection), output=False, persistent=False)
    writes = replace(output, projection=projection)
    last = replace(einsum, operation=product_of([temporary], einsum.operation.reduction))
    return rebuilt(last, [reads, writes], constraints)


def _readable(einsum: Einsum, output: TensorAccess, taken: set[RankVar]) -> tuple[Projection, list[str]]:
    """The output's indices, a new rank variable for each sum, since several points of a sum share one element."""
    ranges = einsum.index_range(output)
    projection: list[tuple[Rank, Affine]] = []
    constraints: list[str] = []
    for rank, index in output.projection:
        if len(index.terms) < 2:
            projection.append((rank, index))
            continue
        name = rank.lower()
        check_variable_name(name)
        if name in taken or name in einsum.extents:
            text = f"the rank variable {name} of the last reduction over rank {rank} is taken in Einsum {einsum.name!r}"
            raise SpecError(text, hint=f"{output.tensor!r} is indexed there by the sum {index}; rename a rank variable")
        taken.add(name)
        projection.append((rank, Affine(((name, 1),))))
        constraints.append(f"{ranges[rank][0]} <= {name} <= {ranges[rank][1]}")
    return tuple(projection), constraints


def _projected_cuts(einsum: Einsum, kept: list[RankVar], exact: bool) -> list[str]:
    """Cuts of the iteration space on the rank variables that are kept.

    4*k1 + k0 < 10, without k0: 4*k1 < 10. `exact`: elements that no point wrote must not be read, as they are 0.
    """
    constraints = [parse_constraint(text) for text in einsum.cuts]
    cuts: list[str] = []
    for group in linked(einsum.rank_variables, constraints):
        group_cuts = [cut for cut in einsum.cuts if parse_constraint(cut).names <= {*group}]
        if set(group) <= set(kept):
            cuts += group_cuts
            continue
        weaker = [text for cut in group_cuts if (text := _weakened(einsum, cut, kept)) is not None]
        if group_cuts and exact and not _is_projection(einsum, group, group_cuts, weaker, kept):
            raise _unclear(einsum)
        cuts += weaker
    return cuts


def _weakened(einsum: Einsum, cut: str, kept: list[RankVar]) -> str | None:
    """The cut with the most favourable values of the variables that are not kept; None where nothing is left."""
    linear = linear_cut(cut)
    if linear is None:
        return None
    left, comparison = linear
    first = dict(einsum.first_values)
    constant = left.constant
    for v, a in left.terms:
        if v not in kept:
            ends = a * first.get(v, 0), a * (first.get(v, 0) + einsum.extents[v] - 1)
            constant += min(ends) if comparison.startswith("<") else max(ends)
    terms = tuple((v, a) for v, a in left.terms if v in kept)
    return f"{Affine(terms, constant)} {comparison}" if terms else None


def _is_projection(
    einsum: Einsum, group: list[RankVar], cuts: list[str], weaker: list[str], kept: list[RankVar]
) -> bool:
    if math.prod(einsum.extents[v] for v in group) > MAX_POINTS:
        return False
    first = dict(einsum.first_values)
    high = {v: first.get(v, 0) + einsum.extents[v] - 1 for v in group}
    grid, inside = box_points(group, [parse_constraint(text) for text in cuts], first, high)
    gone = tuple(axis for axis, v in enumerate(group) if v not in kept)
    written = inside.any(axis=gone, keepdims=True)
    read = np.broadcast_to(inside_of([parse_constraint(text) for text in weaker], grid), written.shape)
    return bool((written == read).all())


def _unclear(einsum: Einsum) -> NotSupportedError:
    return NotSupportedError(
        f"Einsum {einsum.name!r} takes the {einsum.operation.reduction} within bounds ({', '.join(einsum.cuts)}) that "
        "leave elements of the temporary unwritten; delaying that reduction is not supported"
    )
