"""Einsums that are the same but for names: the layers of a network, say."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from einmap.einsum.einsum import Einsum


def structure(einsum: Einsum) -> Hashable:
    """Equal for Einsums that differ in names only: of the Einsum, its tensors, ranks, rank variables and operation.

    What is n-th in one is n-th in the other: accesses, ranks of an access, rank variables.
    """
    variable = {v: i for i, v in enumerate(einsum.rank_variables)}
    accesses = tuple(
        (
            tuple((tuple((variable[v], a) for v, a in index.terms), index.constant) for _, index in access.projection),
            access.output,
            access.bits_per_value,
            access.persistent,
        )
        for access in einsum.accesses
    )
    begins = tuple((variable[v], low) for v, low in einsum.first_values)
    # cuts are texts, which name rank variables
    named = (einsum.cuts, einsum.rank_variables) if einsum.cuts else None
    extents = tuple(n for _, n in einsum.bounds)
    return accesses, extents, begins, einsum.is_copy, einsum.n_instances, einsum.n_points, named


@dataclass(frozen=True)
class Renaming:
    """The names of one Einsum by those of another that is the same but for names."""

    tensors: Mapping[str, str]
    variables: Mapping[str, str]

    @staticmethod
    def between(old: Einsum, new: Einsum) -> Renaming:
        """From `old` to `new`; their `structure` is equal."""
        return Renaming(
            {a.tensor: b.tensor for a, b in zip(old.accesses, new.accesses, strict=True)},
            dict(zip(old.rank_variables, new.rank_variables, strict=True)),
        )

    def of_tensors(self, names: Iterable[str]) -> frozenset[str]:
        """A set of tensors."""
        return frozenset(self.tensors[name] for name in names)

    def of_variables(self, names: Iterable[str]) -> frozenset[str]:
        """A set of rank variables."""
        return frozenset(self.variables[name] for name in names)
