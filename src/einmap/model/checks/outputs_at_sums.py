"""Outputs that are written at sums of rank variables: which of them the search can count."""

from __future__ import annotations

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.errors import NotSupportedError
from einmap.model.counting.reuse import groups_of
from einmap.model.counting.semantics import Semantics
from einmap.spec.spec import Spec


def check_outputs(spec: Spec, rules: Semantics) -> None:
    """Raise NotSupportedError for an output whose first touches no formula over all tile shapes gives.

    Its tiles may have holes, as in a transposed convolution: `Z[H: 2*p + r]`. Copies do not count first touches.
    """
    if rules.lane_first_touch == "every lane" and rules.partial_first_touch == "one position":
        return
    for einsum in spec.workload.einsums:
        for access in einsum.accesses:
            odd = [group for group in groups_of(access) if not (group.is_plain or group.is_dense)]
            if access.output and odd and not einsum.is_copy:
                sums = ", ".join(str(index) for group in odd for index in group.indices)
                raise NotSupportedError(
                    f"the output {access.tensor!r} of Einsum {einsum.name!r} is indexed by sums ({sums}): such an "
                    "output cannot be mapped yet",
                    at=spec.place_of_einsum(einsum.name),
                    hint=_remedy(einsum, access),
                )


def _remedy(einsum: Einsum, access: TensorAccess) -> str:
    """Advice on what to write instead."""
    name = access.tensor
    if all(_is_written_once(einsum, access, rank) for rank, _ in access.projection):
        return (
            f"write {name}_parts, with a rank for each of these rank variables, then copy it: an Einsum with "
            f"is_copy_operation: true that writes {name} at the sums; or give a whole mapping, which can be evaluated"
        )
    return (
        "a transposed convolution can be an Einsum for each remainder of its stride, which reads at sums instead; or "
        "give a whole mapping, which can be evaluated"
    )


def _is_written_once(einsum: Einsum, access: TensorAccess, rank: str) -> bool:
    """Whether the index of a rank tells the values of its rank variables, as digits do."""
    terms = sorted(dict(access.projection)[rank].terms, key=lambda term: abs(term[1]))
    reach = 0
    for variable, a in terms:
        if abs(a) <= reach:
            return False
        reach += abs(a) * (einsum.extents[variable] - 1)
    return True
