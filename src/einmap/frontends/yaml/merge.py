"""Merge keys: `<<` (shallow), `<<<` (deep), and `!nomerge` values that take part in neither."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import is_

from einmap.errors import SpecError
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
    return reduce(_deep if key.text == "<<<" else _shallow, sources, local)


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
    """What is merged, as dictionaries; for a deep merge already merged among themselves."""
    listed = value.items if isinstance(value, RawList) else (value,)
    sources = []
    for source in listed:
        if not isinstance(source, RawMap):
            found = "a list" if isinstance(source, RawList) else source.text or "null"
            raise SpecError(
                f"the value of the merge key {key.text} must be a dictionary or a list of them, got {found}",
                at=source.at or key.at,
                hint=f"name an anchor that stands at a dictionary, e.g. {key.text}: *defaults",
            )
        sources.append(source)
    return [reduce(_deep, sources)] if key.text == "<<<" and sources else sources


def _shallow(local: RawMap, source: RawMap) -> RawMap:
    present = set(local.keys())
    pairs = zip(source.items, source.key_at, strict=True)
    added = [(pair, at) for pair, at in pairs if pair[0] not in present]
    return replace(
        local,
        items=local.items + tuple(pair for pair, _ in added),
        key_at=local.key_at + tuple(at for _, at in added),
    )


def _deep(local: RawMap, source: RawMap) -> RawMap:
    theirs = dict(source.items)
    both = tuple((key, _combined(value, theirs[key]) if key in theirs else value) for key, value in local.items)
    return _shallow(replace(local, items=both), source)


def _combined(local: Raw, source: Raw) -> Raw:
    """The value of a key that both sides have."""
    if NOMERGE in (local.tag, source.tag):
        return local
    if isinstance(local, RawMap) and isinstance(source, RawMap):
        return _deep(local, source)
    if isinstance(local, RawList) and isinstance(source, RawList):
        return replace(local, items=local.items + source.items)
    return local
