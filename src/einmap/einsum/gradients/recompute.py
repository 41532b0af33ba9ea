"""Intermediates that a backward pass computes again from what is kept, in place of keeping them."""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import replace

from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.gradients.names import Names
from einmap.einsum.operation import with_operands
from einmap.einsum.spaces.projection import Lookup, Written
from einmap.einsum.workload import Workload
from einmap.errors import At, NotSupportedError, SpecError, did_you_mean


def recomputed(
    workload: Workload,
    groups: Sequence[Sequence[Einsum]],
    tensors: Collection[TensorName],
    names: Names,
    origins: MutableMapping[str, str],
    at_of: Callable[[str], At | None],
) -> list[Einsum]:
    """The backward Einsums, which read copies of these intermediates; copies stand before the group that needs them.

    `origins` is given the forward Einsum of each copy. Raises SpecError for a tensor that no Einsum writes,
    NotSupportedError for one whose copy would need itself.
    """
    for tensor in tensors:
        if tensor not in workload.producers:
            known = tensor in workload.tensors
            raise SpecError(
                f"{tensor!r} cannot be computed again: no Einsum that the gradient needs writes it",
                hint="leave it out: it is an input" if known else did_you_mean(tensor, workload.producers),
            )
    again: dict[TensorName, TensorName] = {}
    written: list[Einsum] = []

    def compute(tensor: TensorName, waiting: tuple[TensorName, ...]) -> None:
        if tensor in waiting:
            raise NotSupportedError(
                f"{tensor!r} cannot be computed again from what is kept: its Einsums form the recurrence of "
                f"{', '.join(waiting)}",
                at=at_of(workload.producers[tensor]),
                hint=f"keep one of {', '.join(waiting)}",
            )
        if tensor in again:
            return
        einsum = workload.by_name[workload.producers[tensor]]
        for operand in sorted(einsum.inputs & {*tensors}):
            compute(operand, (*waiting, tensor))
        for output in sorted(einsum.outputs):
            again[output] = names.free(f"{output}_again")
        name = again[einsum.name] if einsum.name in einsum.outputs else names.free(f"{einsum.name}_again")
        origins[name] = einsum.name
        written.append(replace(_renamed(einsum, again), name=name, part=None))

    for group in groups:
        for einsum in group:
            for tensor in sorted(einsum.inputs & {*tensors}):
                compute(tensor, ())
        written += [_renamed(einsum, {t: again[t] for t in einsum.inputs & {*tensors}}) for einsum in group]
    return written


def _renamed(einsum: Einsum, names: dict[TensorName, TensorName]) -> Einsum:
    """The Einsum with other names of tensors."""

    def looked_up(written: Written) -> Written:
        return tuple(
            (r, replace(i, tensor=names.get(i.tensor, i.tensor)) if isinstance(i, Lookup) else i) for r, i in written
        )

    accesses = tuple(
        replace(access, tensor=names.get(access.tensor, access.tensor), gathered=looked_up(access.gathered))
        for access in einsum.accesses
    )
    return replace(einsum, accesses=accesses, operation=with_operands(einsum.operation, names))
