"""One Einsum with everything bound: accesses, bounds of its rank variables, operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal

from einmap.einsum.operation import Operation
from einmap.einsum.spaces.projection import (
    Affine,
    Lookup,
    Projection,
    Rank,
    RankVar,
    Relevance,
    Written,
    footprint,
    lookups,
    relevance,
)
from einmap.einsum.spaces.space import index_ends
from einmap.visible import brief

type TensorName = str
type Part = Literal["forward", "input", "weight", "update"]
"""The forward pass, the backward pass towards inputs or to weights alone, and the step of an optimiser."""
PARTS: tuple[Part, ...] = ("forward", "input", "weight", "update")


@dataclass(frozen=True)
class TensorAccess:
    """How an Einsum reads or writes a tensor. `bits_per_value`: in the workload, before any memory changes it.

    `partial_bits`: of a partial sum, where it has more bits than a result; else None. `gathered`: how the tensor is
    indexed where ranks are looked up in other tensors; `projection` is that of the rows that are fetched then, by
    position: what moves, and what inner memories hold. `kept`: a rank, and how many of its indices the outermost holder
    keeps at a time, where these are fewer than the Einsum uses.
    """

    __repr__ = brief

    tensor: TensorName
    projection: Projection
    output: bool
    bits_per_value: float
    persistent: bool = False
    partial_bits: float | None = None
    gathered: Written = ()
    kept: tuple[Rank, int] | None = None

    @property
    def written(self) -> Written:
        """How the tensor is indexed, ranks that are looked up in their places."""
        return self.gathered or self.projection

    @cached_property
    def lookups(self) -> Mapping[Rank, Lookup]:
        """The ranks that are looked up in other tensors."""
        return lookups(self.gathered)

    @cached_property
    def by_rank(self) -> frozenset[RankVar]:
        """The rank variables that index ranks of the tensor itself; others only say which rows are fetched."""
        return frozenset(v for _, index in self.written if isinstance(index, Affine) for v, _ in index.terms)

    @cached_property
    def fetching(self) -> Projection:
        """Of the rows that are fetched the ranks that the tensor itself does not have."""
        own = {rank for rank, index in self.written if isinstance(index, Affine)}
        return tuple((rank, index) for rank, index in self.projection if self.gathered and rank not in own)

    def stored(self, values: Any, extents: Mapping[RankVar, int]) -> Any:
        """Values that the outermost holder keeps of a tile of so many: all rows of a table of which these are fetched.

        `extents`: those of the Einsum, which no loop above that holder cuts in these ranks.
        """
        if self.kept is not None:
            rank, most = self.kept
            used = dict(self.projection)[rank].extent(extents)
            return values // used * min(used, most)
        if not self.gathered:
            return values
        return values * prod(one.size for one in self.lookups.values()) // footprint(self.fetching, extents)

    @cached_property
    def variables(self) -> frozenset[RankVar]:
        """The rank variables that index the tensor."""
        return frozenset(v for _, index in self.projection for v, _ in index.terms)

    def relevance(self, variable: RankVar) -> Relevance:
        """Whether `variable` indexes the tensor alone, inside a sum, or not at all."""
        return self._relevances.get(variable, Relevance.NONE)

    @cached_property
    def _relevances(self) -> Mapping[RankVar, Relevance]:
        return {v: relevance(self.projection, v) for v in self.variables}

    def footprint(self, extents: Mapping[RankVar, int]) -> int:
        """Values touched by a tile of these extents (a box)."""
        return footprint(self.projection, extents)


@dataclass(frozen=True)
class Einsum:
    """An Einsum of the cascade. `bounds`: number of values of each rank variable, in order of first use.

    `n_points` is the number of points of the iteration space where it is known and differs from the
    box of the bounds; counts of the model are those of the box.
    """

    __repr__ = brief

    name: str
    accesses: tuple[TensorAccess, ...]
    bounds: tuple[tuple[RankVar, int], ...]
    operation: Operation
    is_copy: bool = False
    n_instances: int = 1
    n_points: int | None = None
    first_values: tuple[tuple[RankVar, int], ...] = ()
    """Smallest value of the rank variables for which it is not 0."""
    cuts: tuple[str, ...] = ()
    """Constraints that cut points off the box of the bounds, such as `4*k1 + k0 < 10`; none where it is a box."""
    computes: tuple[str, ...] = ()
    """The computes that may do it; without any, all that the architecture enables for it."""
    part: Part | None = None
    """The part of a training step that it is in (see `gradients.gradient`); None outside of one."""

    @cached_property
    def extents(self) -> Mapping[RankVar, int]:
        """`bounds` as a mapping."""
        return dict(self.bounds)

    @cached_property
    def by_tensor(self) -> Mapping[TensorName, TensorAccess]:
        """The access of each tensor, outputs last as written."""
        return {access.tensor: access for access in self.accesses}

    @cached_property
    def tensors(self) -> frozenset[TensorName]:
        """All tensors of the Einsum."""
        return frozenset(self.by_tensor)

    @cached_property
    def inputs(self) -> frozenset[TensorName]:
        """Tensors that are read."""
        return frozenset(access.tensor for access in self.accesses if not access.output)

    @cached_property
    def gathers(self) -> tuple[TensorAccess, ...]:
        """Accesses of which ranks are looked up in other tensors."""
        return tuple(access for access in self.accesses if access.gathered)

    @cached_property
    def partial_bits(self) -> Mapping[TensorName, float]:
        """Bits of a partial sum of the outputs for which they are not those of a result."""
        return {a.tensor: a.partial_bits for a in self.accesses if a.partial_bits is not None}

    @cached_property
    def outputs(self) -> frozenset[TensorName]:
        """Tensors that are written."""
        return frozenset(access.tensor for access in self.accesses if access.output)

    @cached_property
    def rank_variables(self) -> tuple[RankVar, ...]:
        """In order of first use."""
        return tuple(v for v, _ in self.bounds)

    def index_range(self, access: TensorAccess) -> dict[Rank, tuple[int, int]]:
        """The smallest and the largest index of each rank of an access, both included (see `space.index_ends`).

        Ranks that are looked up are there as a whole.
        """
        return {
            rank: (0, index.size - 1) if isinstance(index, Lookup) else self.index_range_of(index)
            for rank, index in access.written
        }

    def index_range_of(self, index: Affine) -> tuple[int, int]:
        """The smallest and the largest value of an index of rank variables of the Einsum."""
        if len(index.terms) == 1:
            # the bounds are as small as they can be, so that one variable reaches both of its ends
            return index_ends(index, dict(self.first_values), self.extents, ())
        return index_ends(index, dict(self.first_values), self.extents, self.cuts)

    @cached_property
    def n_computes(self) -> int:
        """Operations of the box of the bounds; 0 for a copy."""
        total = 1
        for _, bound in self.bounds:
            total *= bound
        return 0 if self.is_copy else total
