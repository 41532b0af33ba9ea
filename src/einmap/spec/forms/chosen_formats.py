"""Formats that were chosen where `sparsity.formats` has lists of them: in the specification, and for a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from einmap.errors import SpecError
from einmap.spec.raw import RawMap, from_python, get_value, place, set_value, to_python
from einmap.spec.shared_inputs import without
from einmap.visible import short

KEY = "formats"
"""The key under `mapping` that holds the formats which the mapping is made for: `{DRAM: {A: csr}}`."""
_CHOSEN = ("sparsity", "chosen")

type ChosenFormats = Mapping[str, Mapping[str, Any]]
"""Formats as they are written, by memory and tensor."""


def chosen_formats(root: RawMap) -> dict[str, dict[str, Any]]:
    """Formats chosen where they are left open, by memory and tensor."""
    sparsity = root.get("sparsity")
    raw = sparsity.get("chosen") if isinstance(sparsity, RawMap) else None
    if not isinstance(raw, RawMap):
        return {}
    return {memory: to_python(of_memory) for memory, of_memory in raw.items if isinstance(of_memory, RawMap)}


def with_chosen_formats(root: RawMap, chosen: ChosenFormats) -> RawMap:
    """The raw specification in which some formats are chosen, beside those that are already."""
    before = chosen_formats(root)
    every = {name: {**before.get(name, {}), **chosen.get(name, {})} for name in dict.fromkeys((*before, *chosen))}
    raw = set_value(root, _CHOSEN, from_python(every))
    assert isinstance(raw, RawMap)
    return raw


def names_formats(root: RawMap) -> bool:
    """Whether there is an architecture, and a mapping that is made for formats of its memories."""
    mapping = root.get("mapping")
    return root.get("arch") is not None and isinstance(mapping, RawMap) and mapping.get(KEY) is not None


def with_formats_of_mapping(root: RawMap) -> RawMap:
    """The raw specification with the formats that its mapping is made for.

    Raises SpecError where tensors have no formats.
    """
    at = place(root, ("mapping", KEY))
    chosen: Any = to_python(get_value(root, ("mapping", KEY)))
    if not isinstance(chosen, dict) or not all(isinstance(of_memory, dict) for of_memory in chosen.values()):
        text = f"expected formats by memory and tensor, found {short(chosen)}"
        raise SpecError(text, at=at, hint="for example {DRAM: {A: csr}}")
    if root.get("sparsity") is None:
        raise SpecError(
            "the mapping is made for formats of tensors, and the specification has no key sparsity",
            at=at,
            hint="load it together with the key sparsity, or leave out mapping.formats",
        )
    raw = root
    if chosen_formats(root):
        raw = with_chosen_formats(root, chosen)
    else:
        # as it was written, with its places
        whole = set_value(root, _CHOSEN, get_value(root, ("mapping", KEY)))
        assert isinstance(whole, RawMap)
        raw = whole
    mapping = raw.get("mapping")
    assert isinstance(mapping, RawMap)
    bare = set_value(raw, ("mapping",), without(mapping, KEY))
    assert isinstance(bare, RawMap)
    return bare
