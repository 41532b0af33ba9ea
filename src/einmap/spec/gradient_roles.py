"""A specification of a workload with its backward pass: what the renames of the forward Einsums mean in the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from einmap.einsum.einsum import Einsum
from einmap.einsum.gradients.gradient import Gradient
from einmap.spec.raw import Raw, RawList, RawMap, from_python, set_value, to_python
from einmap.spec.shared_inputs import flat_einsums
from einmap.spec.spec import Spec


def with_gradient(spec: Spec, gradient: Gradient) -> Spec:
    """The specification with the workload of a gradient, which is of its own workload, and no mapping.

    Backward Einsums have the names that renames give to tensors of the forward Einsum which they are made from: those
    of outputs for their outputs; of inputs for the same inputs, while others take names that are free then, the last
    one where none is. `weight` of Z = A * B, which is B, is B in d_A = d_Z * B, and d_Z in d_B = d_Z * A.
    """
    made = spec.with_workload(gradient.workload)
    raw = made.raw
    given = _given(spec)
    known = {*gradient.workload.einsum_names, "default"}
    renames = raw.get("renames")
    listed = renames.get("einsums") if isinstance(renames, RawMap) else None
    if isinstance(listed, RawList):
        kept = [entry for entry in to_python(listed) if entry.get("name") in known]
        raw = _set(raw, ("renames", "einsums"), kept)
    for number, einsum in enumerate(gradient.workload.einsums):
        origin = gradient.origins.get(einsum.name)
        if origin is None or not given:
            continue
        symbols = spec.bound_workload.symbols[origin]
        meanings = {name: symbols[name] for name in given if name in symbols}
        members = {name: set(found.members) for name, found in meanings.items() if found.kind == "tensors"}
        roles = dict(_roles(spec.workload.by_name[origin], einsum, members))
        raw = _set(raw, ("workload", "einsums", number, "renames"), roles)
    return replace(made, raw=raw)


def _set(raw: RawMap, path: tuple[str | int, ...], value: object) -> RawMap:
    changed = set_value(raw, path, from_python(value))
    assert isinstance(changed, RawMap)
    return changed


def _given(spec: Spec) -> list[str]:
    """The names that renames of Einsums and of the top level give to sets of tensors."""
    names: dict[str, None] = {}
    workload, top = spec.raw.get("workload"), spec.raw.get("renames")
    listed = top.get("einsums") if isinstance(top, RawMap) else None
    entries = to_python(listed) if listed is not None else []
    written: list[object] = [entry.get("tensor_accesses", {}) for entry in entries]
    for einsum in flat_einsums(workload.get("einsums") or RawList(())) if isinstance(workload, RawMap) else ():
        own: Raw | None = einsum.get("renames") if isinstance(einsum, RawMap) else None
        written.append(to_python(own) if own is not None else {})
    for one in written:
        found = one if isinstance(one, dict) else [entry["name"] for entry in one] if isinstance(one, list) else []
        names |= dict.fromkeys(found)
    return [*names]


def _roles(origin: Einsum, einsum: Einsum, members: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """For each name the set that it stands for in a backward Einsum, as an expression."""
    inputs = [access.tensor for access in einsum.accesses if not access.output]
    of_inputs = {name: tensors & origin.inputs for name, tensors in members.items() if tensors & origin.inputs}
    # a copy of an intermediate that is computed again stands for the intermediate
    same = {t: t if t in origin.inputs else t.rpartition("_again")[0] for t in inputs}
    kept = {name: [t for t in inputs if same[t] in tensors] for name, tensors in of_inputs.items()}
    rest = [t for t in inputs if not any(t in tensors for tensors in kept.values())]
    for name in [name for name, tensors in kept.items() if not tensors]:
        kept[name] = rest[:1]
        rest = rest[1:]
    if kept:
        kept[[*kept][-1]] += rest
    for name, tensors in members.items():
        outputs = sorted(einsum.outputs) if tensors & origin.outputs else []
        yield name, " | ".join([*kept.get(name, ()), *outputs]) or "Nothing"
