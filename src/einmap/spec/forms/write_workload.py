"""A frozen workload -> the key `workload` of a specification that means the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.notation.parse import format_projection
from einmap.einsum.notation.pretty import equation
from einmap.einsum.operation import operands
from einmap.einsum.rewrites.edit import box
from einmap.einsum.spaces.projection import Affine, Lookup, Rank
from einmap.einsum.workload import Workload
from einmap.spec.raw import LiteralString, Raw, RawMap, from_python, get_value, set_value, to_python
from einmap.spec.shared_inputs import flat_einsums, listed_renames

_NAME = re.compile(r"[A-Za-z_]\w*")


def with_written(root: RawMap, old: Workload, names: Sequence[str], new: Workload) -> RawMap:
    """The raw specification of workload `old` with workload `new` in it, whose Einsums keep the renames they had.

    `names`: the Einsums of `old` that stand in the specification.
    """
    written = write_workload(new)
    given = dict(zip(names, flat_einsums(get_value(root, ("workload", "einsums"))), strict=True))
    for einsum, fields in zip(new.einsums, written["einsums"], strict=True):
        same = [e.name for e in old.einsums if e.inputs == einsum.inputs]
        source = einsum.name if einsum.name in same else next(iter(same), None)
        raw = given.get(source) if source else None
        renames = raw.get("renames") if isinstance(raw, RawMap) else None
        if renames is not None:
            fields["renames"] = to_python(renames)
        elif source is None and (roles := _roles_by_place(einsum, old, given)):
            fields["renames"] = roles
    changed = set_value(root, ("workload",), from_python(written))
    assert isinstance(changed, RawMap)
    return changed


def _roles_by_place(einsum: Einsum, old: Workload, given: Mapping[str, Raw]) -> dict[str, str]:
    """Renames of an Einsum that is new, for each input those of the one in its place in an Einsum that has as many.

    Where none has as many, that with most: its last role is that of all further inputs. Nothing where there is one
    input, or where no Einsum that stood there names its inputs one by one.
    """
    inputs = [access.tensor for access in einsum.accesses if not access.output]
    best: dict[str, str] = {}
    for name, raw in given.items() if len(inputs) > 1 else ():
        renames = raw.get("renames") if isinstance(raw, RawMap) else None
        before = [access.tensor for access in old.by_name[name].accesses if not access.output]
        if renames is None or not len(best) < len(before) <= len(inputs):
            continue
        sources = {rename["name"]: rename["source"] for rename in listed_renames(to_python(renames))}
        if sorted(map(str, sources.values())) == sorted(before):
            of_place = [*inputs[: len(before) - 1], " | ".join(inputs[len(before) - 1 :])]
            best = {role: of_place[before.index(source)] for role, source in sources.items()}
    return best if len(best) > 1 else {}


def write_workload(workload: Workload) -> dict[str, Any]:
    """The workload as plain dictionaries, for `Spec.from_dict(workload=...)`.

    Sizes of ranks and widths of values are numbers; what the sizes do not say of an iteration space is under the
    Einsum's `iteration_space_shape`.
    """
    sizes = _common_sizes(workload)
    bits = {a.tensor: a.bits_per_value for e in workload.einsums for a in e.accesses}
    same = len(set(bits.values())) == 1
    plain: dict[str, Any] = {"rank_sizes": sizes} if sizes else {}
    plain["bits_per_value"] = {"All": _number(next(iter(bits.values())))} if same else _numbers(bits)
    if workload.n_instances > 1:
        plain["n_instances"] = workload.n_instances
    plain["einsums"] = [_einsum(einsum, sizes) for einsum in workload.einsums]
    return plain


def _common_sizes(workload: Workload) -> dict[Rank, int]:
    """The ranks that have one size everywhere, which says of no iteration space more than its box."""
    common: dict[Rank, int] = {}
    for rank, by_tensor in workload.rank_sizes.items():
        sizes = set(by_tensor.values())
        if len(sizes) == 1 and all(_box_is_within(e, i, max(sizes)) for e, i in _indices(workload, rank)):
            common[rank] = max(sizes)
    return common


def _indices(workload: Workload, rank: Rank) -> list[tuple[Einsum, Affine]]:
    accesses = ((e, a) for e in workload.einsums for a in e.accesses)
    return [(e, i) for e, a in accesses for r, i in a.written if r == rank and isinstance(i, Affine)]


def _box_is_within(einsum: Einsum, index: Affine, size: int) -> bool:
    first = dict(einsum.first_values)
    low = high = index.constant
    for v, a in index.terms:
        ends = a * first.get(v, 0), a * (first.get(v, 0) + einsum.extents[v] - 1)
        low, high = low + min(ends), high + max(ends)
    return low >= 0 and high < size


def _einsum(einsum: Einsum, sizes: dict[Rank, int]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    output = next(access.tensor for access in einsum.accesses if access.output)
    if _is_concise(einsum):
        fields |= {} if einsum.name == output else {"name": einsum.name}
        fields["einsum"] = LiteralString(equation(einsum))
        more = [{"name": a.tensor, **_more(a)} for a in einsum.accesses if _more(a)]
        fields |= {"tensor_accesses": more} if more else {}
    else:
        fields |= {"name": einsum.name, "tensor_accesses": [_access(access) for access in einsum.accesses]}
        fields |= {} if einsum.is_copy else {"operation": LiteralString(str(einsum.operation))}
    if einsum.is_copy:
        fields["is_copy_operation"] = True
    if einsum.operation.reduction != "sum":
        fields["reduction"] = einsum.operation.reduction
    constraints = [*_box_beyond(einsum, sizes), *einsum.cuts]
    if constraints:
        fields["iteration_space_shape"] = [LiteralString(text) for text in constraints]
    if einsum.n_instances > 1:
        fields["n_instances"] = einsum.n_instances
    if einsum.computes:
        fields["compute"] = einsum.computes[0] if len(einsum.computes) == 1 else list(einsum.computes)
    if einsum.part:
        fields["part"] = einsum.part
    return fields


def _is_concise(einsum: Einsum) -> bool:
    """Whether one line says it: one output, after the inputs, and each input once in the operation, in order."""
    if einsum.is_copy:
        return len(einsum.accesses) == 2 and einsum.accesses[-1].output
    *inputs, last = einsum.accesses
    if not last.output or any(access.output for access in inputs) or not inputs or einsum.operation.map is None:
        return False
    indices = {index.tensor for access in inputs for index in access.lookups.values()}
    names = [access.tensor for access in inputs if access.tensor not in indices]
    written = [word for word in _NAME.findall(str(einsum.operation)) if word in einsum.tensors]
    return written == names and operands(einsum.operation.map) == set(names) and max(Counter(written).values()) == 1


def _access(access: TensorAccess) -> dict[str, Any]:
    projection = {
        rank: LiteralString(
            f"{index.tensor}[{format_projection(index.projection)}]" if isinstance(index, Lookup) else str(index)
        )
        for rank, index in access.written
    }
    fields: dict[str, Any] = {"name": access.tensor, "projection": projection}
    fields |= {"output": True} if access.output else {}
    return fields | _more(access)


def _more(access: TensorAccess) -> dict[str, Any]:
    """Fields of a tensor that are neither in the projection nor in the table of bits."""
    fields: dict[str, Any] = {"persistent": True} if access.persistent else {}
    return fields | ({} if access.partial_bits is None else {"partial_bits_per_value": _number(access.partial_bits)})


def _box_beyond(einsum: Einsum, sizes: dict[Rank, int]) -> list[str]:
    """The bounds of the rank variables that no size of a rank gives."""
    first = dict(einsum.first_values)
    said = {
        index.terms[0][0]
        for access in einsum.accesses
        for rank, index in access.written
        if isinstance(index, Affine) and len(index.terms) == 1 and index.terms[0][1] == 1 and not index.constant
        if rank in sizes and not first.get(index.terms[0][0]) and sizes[rank] == einsum.extents[index.terms[0][0]]
    }
    return box(einsum, [v for v in einsum.rank_variables if v not in said])


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _numbers(values: dict[str, float]) -> dict[str, int | float]:
    return {name: _number(value) for name, value in values.items()}
