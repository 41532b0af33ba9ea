"""A workload as text: its Einsums with the sizes of their ranks, or one loop nest for each Einsum."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from einmap.einsum.einsum import Einsum
from einmap.einsum.notation.names import level_of
from einmap.einsum.notation.parse import format_projection
from einmap.einsum.spaces.projection import Projection, RankVar, Written
from einmap.einsum.spaces.recurrence import refuse_recurrences
from einmap.einsum.workload import Workload
from einmap.errors import SpecError, did_you_mean

_NAME = re.compile(r"[A-Za-z_]\w*")


def equation(einsum: Einsum, write: Callable[[Written], str] = format_projection) -> str:
    """`Z[m, n] = A[m, k] * B[k, n]`; `write` gives the text between the brackets."""
    left, right = _sides(einsum, write)
    return f"{left} = {right}"


def _sides(einsum: Einsum, write: Callable[[Written], str]) -> tuple[str, str]:
    shown = {access.tensor: f"{access.tensor}[{write(access.written)}]" for access in einsum.accesses}
    right = _NAME.sub(lambda match: shown.get(match[0], match[0]), _operation(einsum))
    return ", ".join(shown[access.tensor] for access in einsum.accesses if access.output), right


def _operation(einsum: Einsum) -> str:
    return min(einsum.inputs) if einsum.is_copy else str(einsum.operation)


def reduced(einsum: Einsum) -> tuple[RankVar, ...]:
    """The rank variables that index no output: the Einsum reduces over them."""
    kept = {v for access in einsum.accesses if access.output for v in access.variables}
    return tuple(v for v in einsum.rank_variables if v not in kept)


def pretty_einsums(workload: Workload) -> str:
    """One Einsum a line, and above them the size of each rank, with tensors where it differs between them.

    K1 = 3, K0 = 4, M = 8
    Z[m] = A[k1, k0, m] * B[k1, k0]   where 4*k1 + k0 < 10

    The size of a rank counts from index 0 to the largest that any Einsum uses. Reductions other than the sum, copies,
    and instances are named.
    """
    lines = [_with_remarks(einsum) for einsum in workload.einsums]
    return "\n".join([", ".join(_sizes(workload)), *lines])


def _with_remarks(einsum: Einsum) -> str:
    remarks = ["copy"] * einsum.is_copy
    if einsum.operation.reduction != "sum" and reduced(einsum):
        remarks.append(einsum.operation.reduction)
    if einsum.name not in einsum.outputs:
        remarks.append(f"Einsum {einsum.name}")
    if einsum.n_instances > 1:
        remarks.append(f"{einsum.n_instances:,} instances")
    text = equation(einsum) + (f"   ({', '.join(remarks)})" if remarks else "")
    return text + (f"   where {_bounds(einsum)}" if einsum.cuts or einsum.first_values else "")


def _bounds(einsum: Einsum) -> str:
    return " and ".join([*(f"{v} >= {low}" for v, low in einsum.first_values), *einsum.cuts])


def _sizes(workload: Workload) -> list[str]:
    texts = []
    for rank, by_tensor in workload.rank_sizes.items():
        sizes: dict[int, list[str]] = {}
        for tensor, size in by_tensor.items():
            sizes.setdefault(size, []).append(tensor)
        same = len(sizes) == 1
        texts.append(f"{rank} = " + " | ".join(f"{n}" if same else f"{n} ({' '.join(t)})" for n, t in sizes.items()))
    return texts


def pretty_loops(workload: Workload, order: Sequence[RankVar] = (), parallel: Iterable[RankVar] = ()) -> str:
    """A loop nest for each Einsum, one below the other.

    spatial-for m1 in [0, 4)
      for k1 in [0, 3)
        for m0 in [0, 2)
          for k0 in [0, 4)
            if 4*k1 + k0 < 10: Z[m1, m0] += A[k1, k0, m1, m0] * B[k1, k0]

    `order`: rank variables from the outermost loop inwards; each Einsum takes those that it has, the others follow.
    Without an order, outer partitions come first, and kept rank variables before reduced ones. `parallel`: the rank
    variables whose loops are spatial. Raises SpecError for names that no Einsum has, and for one given twice;
    NotSupportedError for recurrences, whose Einsums have one nest.
    """
    parallel = tuple(parallel)
    refuse_recurrences(workload.recurrences, "a loop nest for each Einsum")
    check_variables(workload, order, "the order")
    check_variables(workload, parallel, "the parallel loops")
    return "\n\n".join("\n".join(_nest(einsum, order, parallel)) for einsum in workload.einsums)


def loop_order(einsum: Einsum, order: Sequence[RankVar] = ()) -> tuple[RankVar, ...]:
    """The rank variables of an Einsum from the outermost loop inwards: those of `order`, then the others.

    m1, k1, m0, k0: outer partitions first, at one level those that are kept before those that are reduced.
    """
    ordered = [v for v in order if v in einsum.extents]
    last = set(reduced(einsum))
    others = [v for v in _outputs_first(einsum) if v not in ordered]
    return (*ordered, *sorted(others, key=lambda v: (-level_of(v, einsum.rank_variables), v in last)))


def _outputs_first(einsum: Einsum) -> tuple[RankVar, ...]:
    accesses = sorted(einsum.accesses, key=lambda access: not access.output)
    return tuple(dict.fromkeys(v for access in accesses for _, index in access.projection for v, _ in index.terms))


def _nest(einsum: Einsum, order: Sequence[RankVar], parallel: Sequence[RankVar]) -> list[str]:
    first = dict(einsum.first_values)
    lines = []
    for depth, v in enumerate(loop_order(einsum, order)):
        word = "spatial-for" if v in parallel else "for"
        low = first.get(v, 0)
        lines.append(f"{'  ' * depth}{word} {v} in [{low}, {low + einsum.extents[v]})")
    guard = f"if {' and '.join(einsum.cuts)}: " if einsum.cuts else ""
    return [*lines, "  " * len(lines) + guard + _statement(einsum)]


def _statement(einsum: Einsum) -> str:
    left, right = _sides(einsum, format_projection)
    if einsum.is_copy or not reduces(einsum):
        return f"{left} = {right}"
    match einsum.operation.reduction:
        case "sum":
            return f"{left} += {right}"
        case "max" | "min" as function:
            return f"{left} = {function}({left}, {right})"


def reduces(einsum: Einsum) -> bool:
    """Whether several points may fall on one element of an output, which are then reduced to one value."""
    outputs = [access for access in einsum.accesses if access.output]
    return any(not _is_one_to_one(einsum, access.projection) for access in outputs)


def _is_one_to_one(einsum: Einsum, projection: Projection) -> bool:
    """Whether every rank variable is an index of its own, or has one value: then no two points share an element."""
    alone = {index.terms[0][0] for _, index in projection if len(index.terms) == 1}
    return all(v in alone or extent == 1 for v, extent in einsum.bounds)


def check_variables(workload: Workload, names: Sequence[RankVar], what: str) -> None:
    """Raise SpecError for a name that is not a rank variable of any Einsum, and for one that is given twice."""
    variables = workload.rank_variables
    for position, name in enumerate(names):
        if name not in variables:
            hint = did_you_mean(name, variables, listing="rank variables")
            raise SpecError(f"{what}: the workload has no rank variable {name!r}", hint=hint)
        if name in names[:position]:
            raise SpecError(f"{what}: rank variable {name!r} is given twice")
