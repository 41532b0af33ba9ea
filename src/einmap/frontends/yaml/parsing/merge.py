"""Merge keys: `<<` (shallow), `<<<` (deep), and `!nomerge` values that take part in neither."""

from __future__ import annotations

from dataclasses import replace
from operator import is_

from einmap.errors import At, SpecError
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar

MERGE_KEYS = ("<<", "<<<")
# The tag stays on the value while the document is read; `without_nomerge` takes it off.
NOMERGE = "nomerge"


def merged(local: RawMap, merges: list[tuple[RawScalar, Raw]]) -> RawMap:
    """`local` with the dictionaries of its merge key; where the merge key stands makes no difference.

    {a: 1, x: [1], <<<: {a: 2, b: 3, x: [2]}}  -->  {a: 1, x: [1, 2], b: 3}
    """
    if not merges:
        return local
    if len(merges) > 1:
        (first, _), (second, _) = merges[:2]
        line = first.at.line if first.at else None
        raise SpecError(
            f"only one merge key is allowed in a dictionary: {second.text}, and {first.text} in line {line}",
            at=second.at,
            hint=f"merge several dictionaries with a list: {second.text}: [*first, *second]",
        )
    key, value = merges[0]
    sources = _sources(key, value)
    if key.text == "<<":
        return _shallow([local, *sources])
    return _deep([local, _deep(sources)]) if sources else local


def without_nomerge(raw: Raw) -> Raw:
    """The tree without the marks of `!nomerge`; parts without any stay the same objects."""
    match raw:
        case RawScalar():
            return raw
        case RawList(items=items):
            plain = tuple(without_nomerge(item) for item in items)
            is_same = raw.tag != NOMERGE and all(map(is_, plain, items))
            return raw if is_same else replace(raw, items=plain, tag=_plain(raw.tag))
        case RawMap(items=pairs):
            values = tuple(without_nomerge(value) for _, value in pairs)
            is_same = raw.tag != NOMERGE and all(map(is_, values, (value for _, value in pairs)))
            named = tuple((key, value) for (key, _), value in zip(pairs, values, strict=True))
            return raw if is_same else replace(raw, items=named, tag=_plain(raw.tag))


def _plain(tag: str | None) -> str | None:
    return None if tag == NOMERGE else tag


def _sources(key: RawScalar, value: Raw) -> list[RawMap]:
    """Dictionaries to merge."""
    listed = value.items if isinstance(value, RawList) else (value,)
    sources = []
    for source in listed:
        if not isinstance(source, RawMap):
            kind = "a list" if isinstance(source, RawList) else source.text or "null"
            raise SpecError(
                f"the value of the merge key {key.text} must be a dictionary or a list of them, got {kind}",
                at=source.at or key.at,
                hint=f"name an anchor that stands at a dictionary, e.g. {key.text}: *defaults",
            )
        sources.append(source)
    return sources


def _shallow(maps: list[RawMap]) -> RawMap:
    """All keys of `maps`, those of earlier ones first; the first value of a key counts."""
    items: dict[str, Raw] = {}
    places: dict[str, At | None] = {}
    for source in maps:
        for (key, value), at in zip(source.items, source.key_at, strict=True):
            if key not in items:
                items[key], places[key] = value, at
    return replace(maps[0], items=tuple(items.items()), key_at=tuple(places.values()))


def _deep(maps: list[RawMap]) -> RawMap:
    """The keys of all maps, the values of a key merged: all of them at once, since there may be thousands."""
    values: dict[str, list[Raw]] = {}
    for source in maps:
        for key, value in source.items:
            values.setdefault(key, []).append(value)
    first = _shallow(maps)
    return replace(first, items=tuple((key, _combined(values[key])) for key, _ in first.items))


def _combined(values: list[Raw]) -> Raw:
    """The value of a key from all that have it, the nearest first: what is of its kind joins it."""
    first = values[0]
    others = [value for value in values[1:] if type(value) is type(first) and _tag(value) != NOMERGE]
    if not others or _tag(first) == NOMERGE:
        return first
    if isinstance(first, RawMap):
        return _deep([first, *(value for value in others if isinstance(value, RawMap))])
    if isinstance(first, RawList):
        lists = [first, *(value for value in others if isinstance(value, RawList))]
        return replace(first, items=tuple(item for raw_list in lists for item in raw_list.items))
    return first


def _tag(value: Raw) -> str | None:
    return None if isinstance(value, RawScalar) else value.tag
