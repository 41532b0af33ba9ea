"""YAML text -> raw tree, straight from the parser's events: no object is ever constructed.

Aliases share the node they name, so a small file could stand for an endless tree. The size and the
height of every anchored node are therefore remembered, counted again at each alias, and bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ruamel.yaml import YAML
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from einmap.errors import At, EinmapError, SpecError
from einmap.frontends.yaml.parsing.merge import MERGE_KEYS, NOMERGE, merged, without_nomerge
from einmap.frontends.yaml.parsing.places import Places
from einmap.frontends.yaml.parsing.scalars import resolve
from einmap.frontends.yaml.parsing.syntax import QUOTE_EINSUM, QUOTE_OPERATOR, at_mark, explain
from einmap.frontends.yaml.parsing.work import MAX_DOCUMENT, MAX_NODES, MAX_PARSED, NODE_STEPS, Work
from einmap.spec.raw import MAX_DEPTH, Raw, RawList, RawMap, RawScalar, Scalar

_NODE_TAG = re.compile(r"![A-Z]\w*")
_STANDARD = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}
_INCLUDES = ("!include", "!includedir")


class Includes(Protocol):
    """References to other documents in the one that is read; trees keep the marks of `!nomerge`."""

    work: Work

    def by_tag(self, tag: str, path: str) -> Raw:
        """The document, or list of documents, that `!include PATH` or `!includedir PATH` names."""
        ...

    def by_placeholder(self, text: str) -> Raw | None:
        """Tree that a template function included, when `text` is its placeholder; None for any other text."""
        ...


@dataclass(frozen=True, slots=True)
class _Built:
    """A node with the number of nodes in it and the number of levels, aliases expanded."""

    raw: Raw
    size: int
    height: int


def parse_yaml(
    text: str,
    file: str | Places,
    includes: Includes | None = None,
    anchored: dict[str, bool] | None = None,
    repeated: list[RawScalar] | None = None,
) -> Raw:
    """The tree of the one document in `text`, every node and key with its place in `file`.

    An empty document is a null. Without `includes` the document cannot include others. `anchored` gets the keys of
    the top level whose value has an anchor, and whether an alias names it. `repeated` gets the keys that are given
    again further down in one dictionary, of which the last value counts; without it they are an error.
    Raises SpecError with the place.
    """
    return without_nomerge(_parsed(text, file, includes, 0, anchored, repeated))


def parse_part(text: str, file: Places, includes: Includes) -> Raw:
    """Parse a document that others include: marks of `!nomerge` stay, and every node costs steps."""
    return _parsed(text, file, includes, NODE_STEPS)


def _parsed(
    text: str,
    file: str | Places,
    includes: Includes | None,
    steps: int,
    anchored: dict[str, bool] | None = None,
    repeated: list[RawScalar] | None = None,
) -> Raw:
    text = text.removeprefix("\ufeff")
    places = Places(file) if isinstance(file, str) else file
    if len(text) > MAX_DOCUMENT:
        raise SpecError(f"the document has {len(text):,} characters, more than {MAX_DOCUMENT:,}", at=places.at(1))
    try:
        builder = _Builder(_events(text), places, includes, steps, repeated)
        raw = builder.document()
        if anchored is not None:
            anchored |= {key: anchor in builder.used for key, anchor in builder.anchored.items()}
        return raw
    except EinmapError:
        raise
    except Exception as error:
        raise explain(error, text, places) from error


def _events(text: str) -> Iterator[Any]:
    events: Iterator[Any] = YAML(typ="safe", pure=True, plug_ins=[]).parse(text)
    return events


class _Builder:
    """Builds the tree of one document in a single pass over its events."""

    def __init__(
        self,
        events: Iterator[Any],
        places: Places,
        includes: Includes | None,
        steps: int,
        repeated: list[RawScalar] | None,
    ) -> None:
        self._events = events
        self._repeated = repeated
        self._places = places
        self._includes = includes
        self._work = includes.work if includes else Work()
        self._steps = steps
        self._outside = self._work.depth
        self._anchors: dict[str, _Built] = {}
        self._open: set[str] = set()
        self.anchored: dict[str, str] = {}
        """Keys of the top level whose value has an anchor, with that anchor."""
        self.used: set[str] = set()
        self._nodes = 0

    def document(self) -> Raw:
        """The only document of the stream."""
        next(self._events)
        start = next(self._events)
        if isinstance(start, StreamEndEvent):
            return RawScalar(None, at=At(self._places.file))
        raw = self._node(next(self._events), depth=1).raw
        next(self._events)
        after = next(self._events)
        if isinstance(after, DocumentStartEvent):
            hint = "put the second document into a file of its own"
            raise SpecError("only one document per file is allowed", at=self._at(after), hint=hint)
        return raw

    def _at(self, event: Any) -> At:
        return at_mark(event.start_mark, self._places)

    def _node(self, event: Any, depth: int) -> _Built:
        if isinstance(event, AliasEvent):
            return self._alias(event, depth)
        self._count(1, event)
        self._work.parsed += 1
        if self._work.parsed > MAX_PARSED:
            text = f"more than {MAX_PARSED:,} values are written in the document, with all that it includes"
            raise SpecError(text, at=self._at(event), hint="let aliases or includes repeat what is alike")
        self._work.step(self._steps)
        self._check_depth(depth, event)
        before = self._nodes
        if event.anchor:
            self._open.add(event.anchor)
        raw, height = self._content(event, depth)
        built = _Built(raw, self._nodes - before + 1, height + 1)
        if event.anchor:
            self._open.discard(event.anchor)
            self._anchors[event.anchor] = built
        return built

    def _content(self, event: Any, depth: int) -> tuple[Raw, int]:
        match event:
            case ScalarEvent():
                included = self._included(event, depth)
                return (self._scalar(event), 0) if included is None else self._counted(included, event, depth)
            case SequenceStartEvent():
                return self._list(event, depth)
            case MappingStartEvent():
                return self._map(event, depth)
            case _:
                raise SpecError(f"unexpected {type(event).__name__}", at=self._at(event))

    def _alias(self, event: Any, depth: int) -> _Built:
        name = event.anchor
        if name in self._open:
            raise SpecError(f"the alias *{name} stands inside the node that it names", at=self._at(event))
        if name not in self._anchors:
            hint = f"put &{name} at the node it should repeat, above this line; quote the value if it is text"
            raise SpecError(f"the alias *{name} is not defined", at=self._at(event), hint=hint)
        built = self._anchors[name]
        self.used.add(name)
        self._count(built.size, event)
        self._check_depth(depth + built.height - 1, event)
        return built

    def _included(self, event: Any, depth: int) -> Raw | None:
        """The document that stands for `event`, None when that is an ordinary scalar."""
        if self._includes is None or not (event.tag in _INCLUDES or event.tag is None):
            return None
        try:
            if event.tag is None:
                included = self._includes.by_placeholder(str(event.value))
                if included is not None and event.style not in (None, ""):
                    raise SpecError("what include gives is a value, not text", hint="leave out the quotes around it")
                return included
            path = str(event.value).rstrip().removesuffix(",").rstrip()
            if not path:
                raise SpecError(f"{event.tag} needs a path, e.g. {event.tag} parts/buffer.yaml")
            self._work.depth = self._outside + depth - 1
            try:
                return self._includes.by_tag(event.tag, path)
            finally:
                self._work.depth = self._outside
        except SpecError as error:
            error.at = error.at or self._at(event)
            raise

    def _counted(self, raw: Raw, event: Any, depth: int) -> tuple[Raw, int]:
        size, height = _measure(raw, {})
        self._count(size - 1, event)
        self._check_depth(depth + height - 1, event)
        return raw, height - 1

    def _count(self, nodes: int, event: Any) -> None:
        self._nodes += nodes
        self._work.nodes += nodes
        if self._work.nodes > MAX_NODES:
            text = f"the document has more than {MAX_NODES:,} values, aliases and includes expanded"
            raise SpecError(text, at=self._at(event), hint="split it, or let fewer aliases repeat aliases")

    def _check_depth(self, depth: int, event: Any) -> None:
        if self._outside + depth > MAX_DEPTH:
            text = f"lists and dictionaries are nested more than {MAX_DEPTH} deep"
            raise SpecError(text, at=self._at(event), hint="check for a missing closing bracket")

    def _list(self, event: Any, depth: int) -> tuple[Raw, int]:
        tag = self._collection_tag(event, "seq")
        at = self._at(event)
        if tag not in (None, NOMERGE):
            raise _misplaced_tag(f"!{tag}", "a list", at)
        items: list[Raw] = []
        height = 0
        while not isinstance(item := next(self._events), SequenceEndEvent):
            built = self._node(item, depth + 1)
            items.append(built.raw)
            height = max(height, built.height)
        return RawList(tuple(items), tag=tag, at=at), height

    def _map(self, event: Any, depth: int) -> tuple[Raw, int]:
        tag = self._collection_tag(event, "map")
        pairs: dict[str, Raw] = {}
        key_at: list[At | None] = []
        merges: list[tuple[RawScalar, Raw]] = []
        height = 0
        while not isinstance(item := next(self._events), MappingEndEvent):
            key = self._key(item, depth + 1)
            event_of_value = next(self._events)
            value = self._node(event_of_value, depth + 1)
            if depth == 1 and event_of_value.anchor and not isinstance(event_of_value, AliasEvent):
                self.anchored[key.text] = event_of_value.anchor
            height = max(height, value.height)
            raw = value.raw
            if isinstance(raw, RawScalar) and _is_nothing(event_of_value):
                raw = replace(raw, at=key.at)  # YAML tells the place of what comes next
            if key.text in MERGE_KEYS and not key.quoted:
                merges.append((key, value.raw))
                continue
            if key.text in pairs:
                first = list(pairs).index(key.text)
                if self._repeated is None:
                    raise _duplicate_key(key, key_at[first])
                self._repeated.append(RawScalar(key.text, key.text, at=key_at[first]))
                key_at[first] = key.at
            else:
                key_at.append(key.at)
            pairs[key.text] = raw
        local = RawMap(tuple(pairs.items()), tag=tag, at=self._at(event), key_at=tuple(key_at))
        return merged(local, merges), height

    def _key(self, event: Any, depth: int) -> RawScalar:
        key = self._node(event, depth).raw
        if not isinstance(key, RawScalar):
            raise SpecError("a list or dictionary cannot be a key", at=self._at(event), hint="quote the key")
        if not key.quoted and key.text.count("[") != key.text.count("]"):
            raise SpecError(f"{key.text!r} is not a key", at=self._at(event), hint=QUOTE_EINSUM)
        return RawScalar(key.value, key.text, key.quoted, at=self._at(event))

    def _collection_tag(self, event: Any, kind: str) -> str | None:
        """`!Memory` -> "Memory"; the standard tag of the collection says nothing."""
        tag = event.tag
        if tag in (None, "!", _STANDARD + kind):
            return None
        if tag == f"!{NOMERGE}":
            return NOMERGE
        if _NODE_TAG.fullmatch(tag):
            return str(tag[1:])
        raise _unknown_tag(tag, self._at(event))

    def _scalar(self, event: Any) -> Raw:
        at = self._at(event)
        text, tag = str(event.value), event.tag
        plain = event.style in (None, "")
        if event.style == ">" and not text:
            raise SpecError("> starts a block of text, but no text follows", at=at, hint=QUOTE_OPERATOR)
        if not text and plain and event.anchor:
            hint = 'quote the value if it is text; write ~ after the anchor for "no value"'
            raise SpecError(f"the anchor &{event.anchor} stands at nothing", at=at, hint=hint)
        if tag is None and plain:
            return RawScalar(_resolved(text, at), text, at=at)
        if tag in (None, "!", _STANDARD + "str"):
            # a block of text (`|`, `>`) is how long expressions are written: it has no quotes
            is_block = tag is None and event.style in ("|", ">")
            text = text.strip() if is_block else text
            return RawScalar(text, text, quoted=not is_block, at=at)
        return self._tagged_scalar(tag, text, plain, at)

    def _tagged_scalar(self, tag: str, text: str, plain: bool, at: At) -> Raw:
        kind = tag.removeprefix(_STANDARD)
        if kind in _SCALAR_TAGS:
            value = _resolved(text, at)
            if type(value) not in _SCALAR_TAGS[kind]:
                raise SpecError(f"{text!r} is not of the type that its tag !!{kind} says", at=at)
            return RawScalar(float(value) if kind == "float" and value is not None else value, text, at=at)
        if tag == f"!{NOMERGE}":
            shown = repr(text) if text else "nothing"
            raise SpecError(f"!{NOMERGE} is only for lists and dictionaries, it stands at {shown}", at=at)
        if _NODE_TAG.fullmatch(tag):
            if text or not plain:
                raise _misplaced_tag(tag, repr(text), at)
            return RawMap((), tag=tag[1:], at=at)
        raise _unknown_tag(tag, at)


def _measure(raw: Raw, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Nodes and levels of a tree; parts that it shares are counted each time, but looked at once."""
    if isinstance(raw, RawScalar):
        return 1, 1
    if id(raw) not in sizes:
        children = raw.items if isinstance(raw, RawList) else [value for _, value in raw.items]
        parts = [_measure(child, sizes) for child in children]
        sizes[id(raw)] = 1 + sum(size for size, _ in parts), 1 + max((height for _, height in parts), default=0)
    return sizes[id(raw)]


def _is_nothing(event: Any) -> bool:
    """Whether a key has no value."""
    return isinstance(event, ScalarEvent) and event.tag is None and event.style in (None, "") and not event.value


def _resolved(text: str, at: At) -> Scalar:
    try:
        return resolve(text)
    except ValueError as error:
        shown = text if len(text) < 40 else text[:40] + "..."
        raise SpecError(f"cannot read the number {shown}: {error}", at=at) from error


def _duplicate_key(key: RawScalar, first: At | None) -> SpecError:
    place = f"line {first.line}" if first else "the same dictionary"
    if key.at and first and first.line == key.at.line:
        place += f", column {first.column}"
    text = f"the key {key.text!r} is given twice, first in {place}"
    return SpecError(text, at=key.at, hint="remove or rename one of them")


def _misplaced_tag(tag: str, node: str, at: At) -> SpecError:
    hint = f"write {tag} before a dictionary, e.g. {tag} {{name: X}}; quote the value if it is text"
    return SpecError(f"the tag {tag} needs a dictionary, it stands at {node}", at=at, hint=hint)


def _unknown_tag(tag: str, at: At) -> SpecError:
    shown = "!!" + tag.removeprefix(_STANDARD) if tag.startswith(_STANDARD) else tag
    if tag in _INCLUDES:
        return SpecError(f"the tag {shown} needs a path and a file to stand in, e.g. {shown} parts/buffer.yaml", at=at)
    hint = "tags of nodes start with a capital, e.g. !Memory; quote the value if it is text"
    return SpecError(f"the tag {shown} is not known", at=at, hint=hint)
