"""A workload: a cascade of Einsums in execution order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from einmap.einsum.einsum import Einsum, TensorName


@dataclass(frozen=True)
class Workload:
    """Einsums in execution order; the whole cascade runs `n_instances` times."""

    einsums: tuple[Einsum, ...]
    n_instances: int = 1

    @cached_property
    def by_name(self) -> Mapping[str, Einsum]:
        """Einsums by name."""
        return {einsum.name: einsum for einsum in self.einsums}

    @cached_property
    def tensors(self) -> tuple[TensorName, ...]:
        """All tensors, in order of first use."""
        return tuple(dict.fromkeys(access.tensor for einsum in self.einsums for access in einsum.accesses))

    @cached_property
    def users(self) -> Mapping[TensorName, tuple[str, ...]]:
        """For each tensor the Einsums that access it, in execution order."""
        return {t: tuple(e.name for e in self.einsums if t in e.tensors) for t in self.tensors}

    @cached_property
    def producers(self) -> Mapping[TensorName, str]:
        """The Einsum that writes each tensor; graph inputs are missing."""
        return {t: e.name for e in self.einsums for t in e.outputs}

    @cached_property
    def intermediates(self) -> frozenset[TensorName]:
        """Tensors written by one Einsum and read by another."""
        read = {t for e in self.einsums for t in e.inputs}
        return frozenset(t for t in self.producers if t in read)

    @cached_property
    def shared(self) -> frozenset[TensorName]:
        """Tensors that more than one Einsum accesses, shared inputs included."""
        return frozenset(t for t, users in self.users.items() if len(users) > 1)
