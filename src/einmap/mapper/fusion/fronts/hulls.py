"""The space of a shared tensor's outermost storage: it has room for all that any of its users uses there.

Users may differ: one reads every second row, or none of the last ones, or the memory has other bits for each value of
an output than of an input. What they differ in is the same wherever the storage stands, since no fused loop is over
such a rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from einmap.arch.component import Memory
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine, Lookup, Rank
from einmap.spec.spec import Spec

type Interval = tuple[int, int]
type Scales = tuple[tuple[int, str, Fraction], ...]
"""For tensors (by position in the Einsum) and memories what bits as others see them are in terms of an Einsum's own."""


@dataclass
class Hulls:
    """The shared tensors of a cascade. `one_buffer`: the users of each have one buffer in common, else a tile each."""

    spec: Spec
    one_buffer: bool

    @cached_property
    def _users(self) -> Mapping[str, list[tuple[Einsum, dict[Rank, Interval]]]]:
        """For each shared tensor its users in their order, and the first and last index of each rank that they use."""
        workload = self.spec.workload
        users: dict[str, list[tuple[Einsum, dict[Rank, Interval]]]] = {t: [] for t in workload.shared}
        for einsum in workload.einsums:
            for access in einsum.accesses:
                if access.tensor in users:
                    users[access.tensor].append((einsum, _ranges(einsum, access)))
        return users

    @cached_property
    def uneven(self) -> frozenset[tuple[str, Rank]]:
        """Ranks of which users of a tensor use different parts: no tile of them is the same for all."""
        return frozenset(
            (tensor, rank)
            for tensor, users in self._users.items()
            for rank in (users[0][1] if self.one_buffer and users else ())
            if len({ranges[rank] for _, ranges in users}) > 1
        )

    def wider(self, einsum: Einsum) -> dict[str, Fraction]:
        """How much larger the common tile is than an Einsum's own, for the tensors of which it is larger."""
        uneven = {tensor for tensor, _ in self.uneven} | {a.tensor for a in einsum.gathers if a.tensor in self._users}
        factors = {}
        for access in einsum.accesses:
            if access.tensor in uneven:
                users = (
                    [ranges for _, ranges in self._users[access.tensor]]
                    if self.one_buffer
                    else [_ranges(einsum, access)]
                )
                common = {rank: (min(r[rank][0] for r in users), max(r[rank][1] for r in users)) for rank in users[0]}
                if access.tensor in self.spec.workload.ending and self.one_buffer:
                    ((rank, steps),) = self.spec.workload.steps_held(access.tensor).items()
                    common[rank] = common[rank][0], min(common[rank][1], common[rank][0] + steps - 1)
                factors[access.tensor] = Fraction(_size(common), _own(einsum, access))
        return {tensor: factor for tensor, factor in factors.items() if factor != 1}

    def scales(self, einsum: Einsum) -> Scales:
        """Bits of shared tensors while Einsums run that do not use them: those of the first user."""
        scales = []
        for t, access in enumerate(einsum.accesses):
            if access.tensor not in self._users:
                continue
            first, ranges = self._users[access.tensor][0]
            tiles = Fraction(1) if self.one_buffer else Fraction(_size(ranges), _size(_ranges(einsum, access)))
            if self.spec.bound[first.name].arch is self.spec.bound[einsum.name].arch and tiles == 1:
                continue
            theirs = self._bits(first, access.tensor)
            for memory, bits in self._bits(einsum, access.tensor).items():
                if bits and (tiles != 1 or bits != theirs[memory]):
                    scales.append((t, memory, tiles * Fraction(theirs[memory]) / Fraction(bits)))
        return tuple(scales)

    def _bits(self, einsum: Einsum, tensor: str) -> dict[str, float]:
        """Bits for each value of a tensor in each memory while an Einsum runs."""
        components = self.spec.bound[einsum.name].arch.components
        return {name: memory.bits[tensor] for name, memory in components.items() if isinstance(memory, Memory)}


def _ranges(einsum: Einsum, access: TensorAccess) -> dict[Rank, Interval]:
    return {
        rank: (0, index.size - 1) if isinstance(index, Lookup) else _range(einsum, index)
        for rank, index in access.written
    }


def _own(einsum: Einsum, access: TensorAccess) -> int:
    """Values of a tensor as its Einsum moves it: by position where rows are looked up."""
    return _size({rank: _range(einsum, index) for rank, index in access.projection})


def _range(einsum: Einsum, index: Affine) -> Interval:
    """The first and the last value of an index in the box of the bounds."""
    first = dict(einsum.first_values)
    low = high = index.constant
    for variable, a in index.terms:
        begin = a * first.get(variable, 0)
        end = begin + a * (einsum.extents[variable] - 1)
        low, high = low + min(begin, end), high + max(begin, end)
    return low, high


def _size(ranges: Mapping[Rank, Interval]) -> int:
    return math.prod(high - low + 1 for low, high in ranges.values())
