"""Fields in which two specifications differ, with their paths; list elements are told by their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from einmap.spec.raw import Path, Raw, RawList, RawMap, RawScalar, format_path, tag_of, to_python


@dataclass(frozen=True, slots=True)
class FieldChange:
    """`before` and `after` in plain Python; None (and `added` or `removed`) where the field is missing."""

    path: str
    before: Any
    after: Any
    added: bool = False
    removed: bool = False


def field_changes(before: Raw | None, after: Raw | None, path: Path = ()) -> Iterator[FieldChange]:
    """All differences, in the order of `before`, what is new behind it.

    {name: GLB, size: 8} -> {name: GLB, size: 16}   gives   nodes.GLB.size: 8 -> 16
    """
    if before is None or after is None:
        if before is not after:
            yield _of(path, before, after)
        return
    if isinstance(before, RawMap) and isinstance(after, RawMap):
        if tag_of(before) != tag_of(after):
            yield FieldChange(format_path((*path, "type")), tag_of(before), tag_of(after))
        for key in dict.fromkeys((*before.keys(), *after.keys())):
            if key != "type" or tag_of(before) is None:
                yield from field_changes(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, RawList) and isinstance(after, RawList):
        old, new = _named(before), _named(after)
        for step in dict.fromkeys((*old, *new)):
            yield from field_changes(old.get(step), new.get(step), (*path, step))
        if [s for s in old if s in new] != [s for s in new if s in old]:
            yield FieldChange(f"{format_path(path)} (order)", list(old), list(new))
    elif to_python(before) != to_python(after):
        yield _of(path, before, after)


def _of(path: Path, before: Raw | None, after: Raw | None) -> FieldChange:
    old = None if before is None else to_python(before)
    new = None if after is None else to_python(after)
    return FieldChange(format_path(path), old, new, added=before is None, removed=after is None)


def _named(items: RawList) -> dict[str | int, Raw]:
    """Elements by name; by position where one has none or two have the same."""
    names = [_name(item) for item in items.items]
    if None in names or len(set(names)) < len(names):
        return dict(enumerate(items.items))
    return {str(name): item for name, item in zip(names, items.items, strict=True)}


def _name(raw: Raw) -> str | None:
    name = raw.get("name") if isinstance(raw, RawMap) else None
    return str(name.value) if isinstance(name, RawScalar) else None
