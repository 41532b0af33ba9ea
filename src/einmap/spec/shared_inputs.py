"""Copy Einsums for graph inputs that several Einsums read: one fill then serves them all.

A[m, n] = X[m, k] * V[k, n]              X_shared[m, k] = X[m, k]  (a copy)
B[m, n] = X[m, k] * W[k, n]     -->      A[m, n] = X_shared[m, k] * V[k, n]
                                         B[m, n] = X_shared[m, k] * W[k, n]

A copy that stays in the memory of its source is free, so that nothing is lost. In expressions of the specification the
name of the input goes on to mean what its Einsums read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.workload import Workload
from einmap.errors import SpecError, did_you_mean
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, from_python, get_value, place, set_value, to_python
from einmap.visible import short

KEY = "shared_inputs"
"""The key under `mapping` that names the copies which the mapping is made for: `{X: X_shared}`."""


def shareable(workload: Workload) -> dict[str, str]:
    """Graph inputs that can be copied once for all their users, and a free name for each copy.

    Several Einsums read them, none of them a copy, all equally often; each index is a rank variable by itself, and all
    users see the same shape. Persistent tensors are left alone: they stay where they are anyway.
    """
    taken = {*workload.tensors, *workload.einsum_names}
    copies: dict[str, str] = {}
    for tensor in workload.tensors:
        users = [workload.by_name[name] for name in workload.users[tensor]]
        if len(users) < 2 or tensor in workload.producers or any(e.is_copy for e in users):
            continue
        shapes = [_shape(e, e.by_tensor[tensor]) for e in users]
        if shapes[0] is None or any(shape != shapes[0] for shape in shapes) or len({e.n_instances for e in users}) > 1:
            continue
        copies[tensor] = _free(f"{tensor}_shared", taken)
        taken.add(copies[tensor])
    return copies


def _shape(einsum: Einsum, access: TensorAccess) -> dict[str, int] | None:
    """Extent of each rank; None where an index is more than a rank variable that counts from 0."""
    if access.persistent or access.gathered:
        return None
    late = dict(einsum.first_values)
    shape: dict[str, int] = {}
    for rank, index in access.projection:
        if index.constant or len(index.terms) != 1 or index.terms[0][1] != 1 or index.terms[0][0] in late:
            return None
        shape[rank] = einsum.extents[index.terms[0][0]]
    variables = {index.terms[0][0] for _, index in access.projection}
    return shape if len(variables) == len(access.projection) else None


def _free(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def with_copies(root: RawMap, workload: Workload, names: Sequence[str], copies: Mapping[str, str]) -> RawMap:
    """The raw specification with a copy Einsum for each of these inputs, right before its first user.

    `workload`: that of `root`; `names`: its Einsums that stand there; `copies`: the copy's name by that of the input.
    The list of Einsums gets flat.
    """
    flat = list(flat_einsums(get_value(root, ("workload", "einsums"))))
    first = {t: workload.users[t][0] for t in copies}
    einsums: list[Raw] = []
    for name, raw in zip(names, flat, strict=True):
        einsum = workload.by_name[name]
        copied = {t: name for t, name in copies.items() if t in einsum.tensors}
        einsums += [_copy(einsum, raw, t, copy, root) for t, copy in copied.items() if first[t] == einsum.name]
        einsums.append(_reading(raw, copied))
    changed = set_value(root, ("workload", "einsums"), RawList(tuple(einsums)))
    assert isinstance(changed, RawMap)
    return _with_renames(changed, copies)


def expanded(root: RawMap, workload: Workload, names: Sequence[str]) -> RawMap:
    """The raw specification with the copies that its mapping names under `shared_inputs`; the key is taken out.

    `workload`: that of `root`; `names`: its Einsums that stand there. Raises SpecError for tensors that are no such
    inputs, and for names that are taken.
    """
    possible = shareable(workload)
    copies: dict[str, str] = {}
    for tensor, name in _named(root).items():
        at = place(root, ("mapping", KEY, tensor))
        if name in workload.producers and workload.by_name[workload.producers[name]].inputs == {tensor}:
            continue  # the workload has the copy already
        if tensor not in possible:
            hint = did_you_mean(tensor, possible, listing="inputs that can be shared")
            raise SpecError(f"{tensor!r} is not a graph input that several Einsums read alike", at=at, hint=hint)
        if name in {*workload.tensors, *workload.einsum_names, *copies.values()}:
            raise SpecError(f"the name {name!r} of the copy of {tensor!r} is taken", at=at, hint="choose another name")
        copies[tensor] = name
    mapping = root.get("mapping")
    assert isinstance(mapping, RawMap)
    bare = set_value(root, ("mapping",), without(mapping, KEY))
    assert isinstance(bare, RawMap)
    return with_copies(bare, workload, names, copies) if copies else bare


def put_in(root: RawMap, workload: Workload) -> dict[str, str]:
    """The copies that loading has put into a workload for its mapping: the name of each by its input.

    They stand in no file, unlike the Einsums that somebody has written.
    """
    given = root.get("workload")
    written = list(flat_einsums(given.get("einsums") or RawList(()))) if isinstance(given, RawMap) else []
    if len(written) != len(workload.einsums):
        return {}
    pairs = zip(written, workload.einsums, strict=True)
    return {min(einsum.inputs): einsum.name for raw, einsum in pairs if einsum.is_copy and raw.at is None}


def names_copies(root: RawMap) -> bool:
    """Whether there is a workload, and a mapping that is made for copies of its inputs."""
    mapping = root.get("mapping")
    return root.get("workload") is not None and isinstance(mapping, RawMap) and mapping.get(KEY) is not None


def _named(root: RawMap) -> dict[str, str]:
    copies = to_python(get_value(root, ("mapping", KEY)))
    if isinstance(copies, dict) and all(isinstance(name, str) for name in copies.values()):
        return copies
    at = place(root, ("mapping", KEY))
    raise SpecError(
        f"expected names of copies by input, found {short(copies)}", at=at, hint="for example {X: X_shared}"
    )


def without(raw: RawMap, key: str) -> RawMap:
    """A dictionary without one of its keys."""
    kept = [name for name, _ in raw.items if name != key]
    items = tuple((name, value) for name, value in raw.items if name != key)
    return replace(raw, items=items, key_at=tuple(raw.place_of(name) for name in kept))


def flat_einsums(raw: Raw) -> Iterator[Raw]:
    """Einsums as written, nested lists opened."""
    if isinstance(raw, RawList):
        for item in raw.items:
            yield from flat_einsums(item)
    else:
        yield raw


def _copy(einsum: Einsum, written: Raw, tensor: str, name: str, root: RawMap) -> Raw:
    """The copy Einsum, with rank variables and renames of the first user, which is `written`, and sizes as numbers."""
    access = einsum.by_tensor[tensor]
    projection = {rank: str(index) for rank, index in access.projection}
    sizes = {rank: einsum.extents[index.terms[0][0]] for rank, index in access.projection}
    bits = access.bits_per_value
    fields = {"projection": projection, "bits_per_value": int(bits) if bits == int(bits) else bits}
    # what a specification expects of the number of weights, say, holds for its own Einsums
    sources = dict(_counted_renames(root))
    own = to_python(written.get("renames") or RawMap(())) if isinstance(written, RawMap) else {}
    sources |= {r["name"]: r["source"] for r in (*_renames_of(root, einsum.name)[1], *listed_renames(own))}
    renames = [{"name": rename, "source": source} for rename, source in sources.items()]
    return from_python({
        "name": name,
        "is_copy_operation": True,
        **({"n_instances": einsum.n_instances} if einsum.n_instances != 1 else {}),
        "rank_sizes": sizes,
        "tensor_accesses": [{"name": tensor, **fields}, {"name": name, **fields, "output": True}],
        **({"renames": renames} if renames else {}),
    })  # fmt: skip


def _reading(raw: Raw, copies: Mapping[str, str]) -> Raw:
    """An Einsum as written that reads the copies in place of the inputs."""
    if not copies:
        return raw
    if isinstance(raw, RawScalar):
        return _replaced(raw, copies, r"(?=\s*\[)")
    assert isinstance(raw, RawMap)
    ends = {"einsum": r"(?=\s*\[)", "operation": r"(?!\w)"}
    items: list[tuple[str, Raw]] = []
    for key, value in raw.items:
        changed = _replaced(value, copies, ends[key]) if key in ends else value
        if key == "tensor_accesses" and isinstance(value, RawList):
            changed = replace(value, items=tuple(_renamed_access(item, copies) for item in value.items))
        items.append((key, changed))
    return replace(raw, items=tuple(items))


def _replaced(raw: Raw, copies: Mapping[str, str], end: str) -> Raw:
    if not isinstance(raw, RawScalar) or not isinstance(raw.value, str):
        return raw
    words = "|".join(map(re.escape, copies))
    text = re.sub(rf"(?<!\w)(?:{words}){end}", lambda match: copies[match.group()], raw.value)
    return replace(raw, value=text, text=text)


def _renamed_access(raw: Raw, copies: Mapping[str, str]) -> Raw:
    name = to_python(get_value(raw, ("name",)))
    return set_value(raw, ("name",), copies[name]) if name in copies else raw


# renames: dictionaries, or lists of {name, source, expected_count}


def _renames_of(root: RawMap, einsum: str) -> tuple[int, list[dict[str, Any]]]:
    """Where the renames of an Einsum stand in the list of all, -1 if nowhere, and those of tensors.

    `einsum`: a name, or `default` for the renames of all Einsums.
    """
    listed = to_python(root.get("renames") or RawMap(())).get("einsums", [])
    for position, entry in enumerate(listed):
        if entry.get("name") == einsum:
            return position, listed_renames(entry.get("tensor_accesses", {}))
    return -1, []


def listed_renames(renames: Any) -> list[dict[str, Any]]:
    """Renames as a list, whichever of the two ways they are written in."""
    if isinstance(renames, dict):
        return [{"name": name, "source": source} for name, source in renames.items()]
    return list(renames)


def _counted_renames(root: RawMap) -> list[tuple[str, Any]]:
    return [(r["name"], r["source"]) for r in _renames_of(root, "default")[1] if r.get("expected_count") is not None]


def _with_renames(root: RawMap, copies: Mapping[str, str]) -> RawMap:
    """The name of an input means its copy, too: renames and the architecture may speak of it."""
    position, given = _renames_of(root, "default")
    added = [{"name": tensor, "source": f"{tensor} | {name}"} for tensor, name in copies.items()]
    taken = {rename["name"] for rename in given}
    renames = from_python([*(rename for rename in added if rename["name"] not in taken), *given])
    if position >= 0:
        changed = set_value(root, ("renames", "einsums", position, "tensor_accesses"), renames)
    else:
        written = root.get("renames")
        listed = written.get("einsums") if isinstance(written, RawMap) else None
        others = listed.items if isinstance(listed, RawList) else ()
        default = RawMap((("name", from_python("default")), ("tensor_accesses", renames)))
        changed = set_value(root, ("renames", "einsums"), RawList((default, *others)))
    assert isinstance(changed, RawMap)
    return changed
