"""A workload: a cascade of Einsums in execution order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.spaces.projection import Affine, Rank, RankVar
from einmap.einsum.spaces.recurrence import Recurrence, recurrences
from einmap.errors import SpecError, did_you_mean
from einmap.visible import brief


@dataclass(frozen=True)
class Workload:
    """Einsums in execution order; the whole cascade runs `n_instances` times."""

    __repr__ = brief

    einsums: tuple[Einsum, ...]
    n_instances: int = 1

    @cached_property
    def by_name(self) -> Mapping[str, Einsum]:
        """Einsums by name."""
        return {einsum.name: einsum for einsum in self.einsums}

    @property
    def einsum_names(self) -> tuple[str, ...]:
        """Names in execution order."""
        return tuple(self.by_name)

    def find(self, name: str) -> Einsum:
        """The Einsum of that name. Raises SpecError with the closest name."""
        if name not in self.by_name:
            hint = did_you_mean(str(name), self.by_name, listing="Einsums")
            raise SpecError(f"the workload has no Einsum {name!r}", hint=hint)
        return self.by_name[name]

    @cached_property
    def n_computes(self) -> int:
        """Operations of the whole workload, all its instances and those of its Einsums."""
        return self.n_instances * sum(einsum.n_computes * einsum.n_instances for einsum in self.einsums)

    @cached_property
    def tensors(self) -> tuple[TensorName, ...]:
        """All tensors, in order of first use."""
        return tuple(dict.fromkeys(access.tensor for einsum in self.einsums for access in einsum.accesses))

    @cached_property
    def users(self) -> Mapping[TensorName, tuple[str, ...]]:
        """For each tensor the Einsums that access it, in execution order."""
        return self._einsums_of(lambda _: True)

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

    @cached_property
    def recurrences(self) -> tuple[Recurrence, ...]:
        """The parts of the cascade that run once for each value of a rank variable, in order."""
        listed = [(e.name, [(a.tensor, a.projection, a.output) for a in e.accesses]) for e in self.einsums]
        return recurrences(listed, lambda *_: None)

    @cached_property
    def states(self) -> Mapping[TensorName, Recurrence]:
        """Tensors that a recurrence reads before they are written, each with its recurrence."""
        return {tensor: recurrence for recurrence in self.recurrences for tensor in recurrence.states}

    def reads_earlier_step(self, einsum: str, tensor: TensorName) -> bool:
        """Whether an Einsum of a recurrence reads of one of its states what earlier steps have written."""
        recurrence = self.states.get(tensor)
        if recurrence is None or einsum not in recurrence.einsums or einsum == self.producers[tensor]:
            return False
        rank = recurrence.states[tensor]
        read, written = (self.by_name[e].by_tensor[tensor].projection for e in (einsum, self.producers[tensor]))
        return dict(read)[rank].constant < dict(written)[rank].constant

    def steps_held(self, tensor: TensorName) -> dict[Rank, int]:
        """For the rank of time of a state how many steps its Einsums read and write in one step; else nothing."""
        recurrence = self.states.get(tensor)
        if recurrence is None:
            return {}
        rank = recurrence.states[tensor]
        indices = [dict(access.projection)[rank] for _, access in self._accesses(tensor)]
        at = [index.constant for index in indices if index.terms]
        return {rank: max(at) - min(at) + 1}

    def kept(self, tensor: TensorName, rank: Rank, used: int) -> int:
        """How many indices of a rank the outermost node of a tensor keeps below which an Einsum uses `used` of them.

        Of a state steps that others read or write in the same step are kept, too, or these alone where it is `ending`.
        """
        held = self.steps_held(tensor).get(rank, 1)
        return min(used + held - 1, held) if tensor in self.ending and held > 1 else used + held - 1

    @cached_property
    def ending(self) -> frozenset[TensorName]:
        """States of which Einsums outside of the recurrence read what the last step has left, and nothing else.

        So wherever they are kept, the steps that are read and written in one step are enough.
        """
        return frozenset(tensor for tensor in self.states if self._is_ending(tensor))

    def _is_ending(self, tensor: TensorName) -> bool:
        recurrence = self.states[tensor]
        rank, writer = recurrence.states[tensor], self.by_name[self.producers[tensor]]
        last = Affine((), writer.index_range(writer.by_tensor[tensor])[rank][1])
        read = [dict(a.projection)[rank] for e, a in self._accesses(tensor) if e.name not in recurrence.einsums]
        return bool(read) and all(index == last for index in read)

    @cached_property
    def consumers(self) -> Mapping[TensorName, tuple[str, ...]]:
        """For each tensor the Einsums that read it, in execution order."""
        return self._einsums_of(lambda access: not access.output)

    def _einsums_of(self, counts: Callable[[TensorAccess], bool]) -> Mapping[TensorName, tuple[str, ...]]:
        """For each tensor the Einsums with an access that counts, in execution order."""
        einsums: dict[str, dict[str, None]] = {}
        for einsum in self.einsums:
            for access in einsum.accesses:
                names = einsums.setdefault(access.tensor, {})
                if counts(access):
                    names[einsum.name] = None
        return {tensor: tuple(names) for tensor, names in einsums.items()}

    @cached_property
    def rank_sizes(self) -> Mapping[Rank, Mapping[TensorName, int]]:
        """The size of each rank in each tensor that has it: the largest index that any Einsum uses, plus 1."""
        by_rank: dict[Rank, dict[TensorName, int]] = {}
        for einsum in self.einsums:
            for access in einsum.accesses:
                for rank, (_, high) in einsum.index_range(access).items():
                    sizes = by_rank.setdefault(rank, {})
                    sizes[access.tensor] = max(high + 1, sizes.get(access.tensor, 0))
        return by_rank

    @cached_property
    def rank_variables(self) -> tuple[RankVar, ...]:
        """The rank variables of all Einsums, in order of first use."""
        return tuple(dict.fromkeys(v for einsum in self.einsums for v in einsum.rank_variables))

    @property
    def without_gathers(self) -> Workload:
        """The workload without accesses of which rows are looked up: what is used of tensors by indices alone."""
        if not any(einsum.gathers for einsum in self.einsums):
            return self
        einsums = [replace(e, accesses=tuple(a for a in e.accesses if not a.gathered)) for e in self.einsums]
        return replace(self, einsums=tuple(einsums))

    def tensor_shape(self, tensor: TensorName) -> dict[Rank, int]:
        """For each rank the number of indices from the smallest to the largest that any Einsum uses.

        Raises SpecError for an unknown tensor, with the closest name.
        """
        ends: dict[Rank, tuple[int, int]] = {}
        for einsum, access in self._accesses(tensor):
            for rank, (low, high) in einsum.index_range(access).items():
                least, most = ends.get(rank, (low, high))
                ends[rank] = min(low, least), max(high, most)
        return {rank: high - low + 1 for rank, (low, high) in ends.items()}

    def tensor_size(self, tensor: TensorName) -> int:
        """Values of a tensor: the product of its shape. Raises SpecError for an unknown tensor."""
        return prod(self.tensor_shape(tensor).values())

    def tensor_bits(self, tensor: TensorName) -> float:
        """Bits of a tensor, as wide as the workload says. Raises SpecError for an unknown tensor."""
        return self.tensor_size(tensor) * self._accesses(tensor)[0][1].bits_per_value

    def _accesses(self, tensor: TensorName) -> list[tuple[Einsum, TensorAccess]]:
        if tensor not in self.tensors:
            hint = did_you_mean(str(tensor), self.tensors, listing="tensors")
            raise SpecError(f"the workload has no tensor {tensor!r}", hint=hint)
        return [(e, e.by_tensor[tensor]) for e in self.einsums if tensor in e.by_tensor]
