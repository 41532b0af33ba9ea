"""Tools of all changes of Einsums: other rank variables in an index, other accesses, names that are free."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from keyword import iskeyword

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine, Rank, RankVar
from einmap.einsum.spaces.space import bounds, parse_constraint
from einmap.einsum.workload import Workload
from einmap.errors import SpecError, did_you_mean

type Substitution = Mapping[RankVar, Affine]
"""Replacement of each rank variable; variables that are missing stay."""

_WORD = re.compile(r"[A-Za-z_]\w*")


def substituted(index: Affine, table: Substitution) -> Affine:
    """2*k + r with k = 4*k1 + k0: 8*k1 + 2*k0 + r."""
    terms: dict[RankVar, int] = {}
    constant = index.constant
    for variable, a in index.terms:
        inner = table.get(variable)
        if inner is None:
            terms[variable] = terms.get(variable, 0) + a
            continue
        constant += a * inner.constant
        for v, b in inner.terms:
            terms[v] = terms.get(v, 0) + a * b
    return Affine(tuple((v, a) for v, a in terms.items() if a), constant)


def with_cuts(cuts: Iterable[str], table: Substitution) -> list[str]:
    """Constraints with rank variables replaced by expressions."""
    return [_WORD.sub(lambda match: f"({table[match[0]]})" if match[0] in table else match[0], cut) for cut in cuts]


def box(einsum: Einsum, variables: Collection[RankVar] | None = None) -> list[str]:
    """The bounds of (these) rank variables as constraints."""
    first = dict(einsum.first_values)
    bounded = einsum.rank_variables if variables is None else variables
    return [f"{first.get(v, 0)} <= {v} < {first.get(v, 0) + einsum.extents[v]}" for v in bounded]


def rebuilt(einsum: Einsum, accesses: Iterable[TensorAccess], constraints: Iterable[str]) -> Einsum:
    """The Einsum with these accesses and these bounds of all their rank variables."""
    accesses = tuple(accesses)
    inputs_first = sorted(accesses, key=lambda access: access.output)
    variables = dict.fromkeys(v for access in inputs_first for _, index in access.projection for v, _ in index.terms)
    space = bounds(variables, [parse_constraint(text) for text in constraints], f"Einsum {einsum.name!r}")
    return replace(
        einsum,
        accesses=accesses,
        bounds=tuple((v, high - low + 1) for (v, low), (_, high) in zip(space.low, space.high, strict=True)),
        n_points=None if space.is_box else space.points,
        first_values=tuple((v, low) for v, low in space.low if low),
        cuts=space.cuts,
    )


def renamed(einsum: Einsum, ranks: Mapping[Rank, Rank], variables: Mapping[RankVar, RankVar]) -> Einsum:
    """The Einsum with other names of ranks and rank variables."""
    table = {old: Affine(((new, 1),)) for old, new in variables.items()}
    accesses = [
        replace(
            access,
            projection=tuple((ranks.get(rank, rank), substituted(index, table)) for rank, index in access.projection),
        )
        for access in einsum.accesses
    ]
    return rebuilt(einsum, accesses, with_cuts([*box(einsum), *einsum.cuts], table))


def check_rank(workload: Workload, rank: Rank) -> None:
    """Raise SpecError when no tensor has this rank, with the closest name."""
    if rank not in workload.rank_sizes:
        hint = did_you_mean(str(rank), workload.rank_sizes, listing="ranks")
        raise SpecError(f"no tensor of the workload has a rank {rank!r}", hint=hint)


def check_free(workload: Workload, names: Iterable[str], hint: str) -> None:
    """Raise SpecError for a new name of a rank or rank variable that the workload has already."""
    for name in names:
        if name in workload.rank_sizes or name in workload.rank_variables:
            kind = "rank" if name in workload.rank_sizes else "rank variable"
            raise SpecError(f"the name {name} is taken: the workload has a {kind} {name} already", hint=hint)


def check_rank_name(name: str) -> None:
    """Raise SpecError for a name that no rank may have, or whose rank variable would be a word of the expressions."""
    if not (name.isidentifier() and name[0].isupper()):
        raise SpecError(f"{name!r} is not a name of a rank", hint="an upper-case letter, then letters, digits and _")
    check_variable_name(name.lower())


def check_variable_name(name: str) -> None:
    """Raise SpecError for a word that bounds and expressions read as something else."""
    if iskeyword(name) or name == "mod":
        raise SpecError(
            f"{name!r} cannot be a rank variable: it is a word of expressions", hint="name the rank otherwise"
        )


def check_extents(workload: Workload) -> Workload:
    """The workload itself. Raises SpecError when a rank variable has several extents: no specification may say so."""
    seen: dict[RankVar, tuple[str, int]] = {}
    for einsum in workload.einsums:
        for variable, extent in einsum.bounds:
            other, size = seen.setdefault(variable, (einsum.name, extent))
            if size != extent:
                raise SpecError(
                    f"rank variable {variable!r} would have {size} values in {other!r} but {extent} in {einsum.name!r}",
                    hint="give the rank variables of the two Einsums different names first",
                )
    return workload
