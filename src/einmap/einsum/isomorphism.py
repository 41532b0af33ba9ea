"""Einsums that are the same but for names, the layers of a network say: how to tell, and how names are exchanged.

`Positions` replaces names by numbers: what is built of numbers alone is equal for such Einsums. `structure` is that for
the Einsum itself; architectures, mappings and searches add to it what they look at. A `Renaming` carries over to one
Einsum what was worked out for another; `arch.renamed` and `mapping.renamed` apply it to whole architectures and trees.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.spaces.projection import Lookup, Rank, RankVar


@dataclass(frozen=True)
class Positions:
    """Tensors and rank variables of an Einsum as numbers: those of its accesses, and in the order of its bounds."""

    einsum: Einsum

    @cached_property
    def tensors(self) -> Mapping[TensorName, int]:
        """The number of each tensor."""
        return {access.tensor: i for i, access in enumerate(self.einsum.accesses)}

    @cached_property
    def variables(self) -> Mapping[RankVar, int]:
        """The number of each rank variable."""
        return {v: i for i, (v, _) in enumerate(self.einsum.bounds)}

    def of_tensors(self, names: Iterable[TensorName]) -> tuple[int, ...]:
        """A set of tensors; those that the Einsum does not use are left out."""
        return tuple(sorted(self.tensors[name] for name in names if name in self.tensors))

    def of_variables(self, names: Iterable[RankVar]) -> tuple[int, ...]:
        """A set of rank variables."""
        return tuple(sorted(self.variables[name] for name in names))

    def by_tensor[T](self, pairs: Iterable[tuple[TensorName, T]]) -> tuple[tuple[int, T], ...]:
        """Values by tensor."""
        return tuple(sorted((self.tensors[name], value) for name, value in pairs))

    def lookups(self, access: TensorAccess) -> Hashable:
        """How the tensor is gathered, nothing where it is not."""
        return tuple(
            (self.tensors[index.tensor], index.size) if isinstance(index, Lookup) else None
            for _, index in access.gathered
        )

    def sizes(self) -> Hashable:
        """How large tiles are: indices but for constants, bits of values, extents, instances."""
        variables = self.variables
        accesses = tuple(
            (
                tuple(tuple((variables[v], a) for v, a in index.terms) for _, index in access.projection),
                access.output,
                access.bits_per_value,
                access.persistent,
                access.partial_bits,
                self.lookups(access),
            )
            for access in self.einsum.accesses
        )
        return accesses, tuple(n for _, n in self.einsum.bounds), self.einsum.is_copy, self.einsum.n_instances


def structure(einsum: Einsum) -> Hashable:
    """Equal for Einsums that differ in names only: of the Einsum, its tensors, ranks, rank variables and operation.

    What is n-th in one is n-th in the other: accesses, ranks of an access, rank variables.
    """
    positions = Positions(einsum)
    constants = tuple(tuple(index.constant for _, index in access.projection) for access in einsum.accesses)
    begins = tuple((positions.variables[v], low) for v, low in einsum.first_values)
    # cuts are texts, which name rank variables
    named = (einsum.cuts, einsum.rank_variables) if einsum.cuts else None
    return positions.sizes(), constants, begins, einsum.n_points, named, einsum.computes


@dataclass(frozen=True)
class Renaming:
    """From the names of one Einsum to those of another that is the same but for names: the n-th is the n-th there."""

    old: Einsum
    new: Einsum

    @cached_property
    def tensors(self) -> Mapping[TensorName, TensorName]:
        """The new name of each tensor."""
        return {a.tensor: b.tensor for a, b in zip(self.old.accesses, self.new.accesses, strict=True)}

    @cached_property
    def variables(self) -> Mapping[RankVar, RankVar]:
        """The new name of each rank variable."""
        return dict(zip(self.old.rank_variables, self.new.rank_variables, strict=True))

    @cached_property
    def ranks(self) -> Mapping[tuple[TensorName, Rank], tuple[TensorName, Rank]]:
        """The new names of each tensor and one of its ranks."""
        return {
            (a.tensor, rank): (b.tensor, other)
            for a, b in zip(self.old.accesses, self.new.accesses, strict=True)
            for (rank, _), (other, _) in zip(a.projection, b.projection, strict=True)
        }

    def of_tensors(self, names: Iterable[TensorName]) -> frozenset[TensorName]:
        """A set of tensors."""
        return frozenset(self.tensors[name] for name in names)

    def of_variables(self, names: Iterable[RankVar]) -> frozenset[RankVar]:
        """A set of rank variables."""
        return frozenset(self.variables[name] for name in names)

    def by_tensor[T](self, values: Mapping[TensorName, T]) -> dict[TensorName, T]:
        """Values by tensor."""
        return {self.tensors[name]: value for name, value in values.items()}
