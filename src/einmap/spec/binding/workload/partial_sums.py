"""Bits of a partial sum, where it is wider than a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.errors import At, NotSupportedError, SpecError
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet
from einmap.spec.binding.per_tensor import per_tensor
from einmap.spec.binding.workload.read_workload import WrittenAccess, WrittenEinsum
from einmap.spec.raw import RawMap, place
from einmap.spec.schema.workload import WorkloadInput

_FIELD = "partial_bits_per_value"


@dataclass(frozen=True)
class PartialSums:
    """The fields `partial_bits_per_value` of one Einsum. `extents`: of its rank variables; `bits`: of its results."""

    root: RawMap
    workload: WorkloadInput
    einsum: WrittenEinsum
    extents: Mapping[str, int]
    bits: Mapping[str, float]

    def widths(self, scope: Scope) -> dict[str, float]:
        """Bits of a partial sum by output, for those that are reduced and have other bits as results.

        Raises SpecError for fewer bits than results have, and for sums over tensors that are read or copied;
        NotSupportedError for an output that is indexed by sums of rank variables.
        """
        everything = scope.lookup("All")
        assert isinstance(everything, NameSet)
        at = lambda key: place(self.root, ("workload", _FIELD, key))  # noqa: E731
        table = per_tensor(self.workload.partial_bits_per_value, everything, scope, at)
        found: dict[str, float] = {}
        for access in self.einsum.accesses:
            own = access.given.partial_bits_per_value
            where = place(self.root, (*access.path, _FIELD))
            if own is not None and not access.output:
                raise SpecError(
                    f"Einsum {self.einsum.name!r} reads {access.name!r}; partial sums are made where it is written",
                    at=where,
                    hint=f"give {_FIELD} with the Einsum that writes it",
                )
            value, where = (own, where) if own is not None or access.name not in table else table[access.name]
            if value is None or not access.output or not self._is_summed(access):
                continue
            wide = number(value, scope, at=where, what=f"{_FIELD} of {access.name!r}", allow_inf=False)
            if wide < self.bits[access.name]:
                raise SpecError(
                    f"partial sums of {access.name!r} have {wide:g} bits, fewer than the {self.bits[access.name]:g} of "
                    "its results",
                    at=where,
                )
            self._refuse_windows(access, where)
            if wide != self.bits[access.name]:
                found[access.name] = wide
        return found

    def _is_summed(self, access: WrittenAccess) -> bool:
        indexed = {v for _, index in access.projection for v, _ in index.terms}
        return not self.einsum.given.is_copy_operation and any(
            n > 1 for v, n in self.extents.items() if v not in indexed
        )

    def _refuse_windows(self, access: WrittenAccess, where: At) -> None:
        if any(len(index.terms) > 1 for _, index in access.projection):
            raise NotSupportedError(
                f"{_FIELD} of {access.name!r}, which Einsum {self.einsum.name!r} indexes by sums of rank variables, is "
                "not supported yet",
                at=where,
                hint="leave it out for this tensor",
            )
