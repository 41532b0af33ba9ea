"""Layouts that were chosen where the architecture leaves them open: in the architecture, and for a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from einmap.errors import SpecError, did_you_mean
from einmap.spec.binding.bind_arch import ArchInputs
from einmap.spec.raw import RawMap, from_python, get_value, place, set_value, to_python
from einmap.spec.schema.arch import MemoryInput
from einmap.spec.shared_inputs import without
from einmap.visible import short

KEY = "layouts"
"""The key under `mapping` that holds the layouts which the mapping is made for: `{DRAM: {A: [M, K]}}`."""

type Lies = list[str] | dict[str, Any]
"""An order of ranks, or values of a line along each rank; an empty list: no lines."""
type Chosen = Mapping[str, Mapping[str, Lies]]
"""By memory and tensor."""


def with_chosen(root: RawMap, inputs: ArchInputs, chosen: Chosen) -> RawMap:
    """The raw specification in which some layouts are chosen, beside those that are already."""
    raw: Any = root
    for leaf in inputs.leaves:
        if leaf.given.name in chosen and isinstance(leaf.given, MemoryInput) and leaf.given.layout is not None:
            every = {**leaf.given.layout.chosen, **chosen[leaf.given.name]}
            raw = set_value(raw, (*leaf.path, "layout", "chosen"), from_python(every))
    assert isinstance(raw, RawMap)
    return raw


def chosen_layouts(inputs: ArchInputs) -> dict[str, dict[str, Lies]]:
    """Layouts chosen where the architecture leaves them open, by memory and tensor."""
    leaves = (leaf.given for leaf in inputs.leaves if isinstance(leaf.given, MemoryInput))
    return {given.name: dict(given.layout.chosen) for given in leaves if given.layout and given.layout.chosen}


def names_layouts(root: RawMap) -> bool:
    """Whether there is an architecture, and a mapping that is made for layouts of its memories."""
    mapping = root.get("mapping")
    return root.get("arch") is not None and isinstance(mapping, RawMap) and mapping.get(KEY) is not None


def with_layouts_of_mapping(root: RawMap, inputs: ArchInputs) -> RawMap:
    """The raw specification with the layouts that its mapping is made for. Raises SpecError for other memories."""
    chosen: Any = to_python(get_value(root, ("mapping", KEY)))
    at = place(root, ("mapping", KEY))
    if not isinstance(chosen, dict) or not all(isinstance(by_tensor, dict) for by_tensor in chosen.values()):
        text = f"expected layouts by memory and tensor, found {short(chosen)}"
        raise SpecError(text, at=at, hint="for example {DRAM: {A: [M, K]}}")
    memories = [leaf.given.name for leaf in inputs.leaves if isinstance(leaf.given, MemoryInput)]
    having = [leaf.given.name for leaf in inputs.leaves if _has_layout(leaf.given)]
    for memory in chosen:
        if memory not in having:
            what = "has no layout" if memory in memories else "is not a memory of the architecture"
            hint = did_you_mean(memory, having, listing="memories with layouts")
            raise SpecError(f"{memory!r} {what}", at=place(root, ("mapping", KEY, memory)), hint=hint)
    raw = with_chosen(root, inputs, chosen)
    mapping = raw.get("mapping")
    assert isinstance(mapping, RawMap)
    bare = set_value(raw, ("mapping",), without(mapping, KEY))
    assert isinstance(bare, RawMap)
    return bare


def _has_layout(given: object) -> bool:
    return isinstance(given, MemoryInput) and given.layout is not None
