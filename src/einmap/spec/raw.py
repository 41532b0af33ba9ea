"""The raw stage of a specification: a tree of values that remember where they come from.

Frontends make this tree; `spec/schema` checks its shape; `spec/binding` evaluates its expressions
for one Einsum. It is immutable: `set_value` returns a new tree. Two trees are equal when their content
is, wherever it was written.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from einmap.errors import At, EinmapError, SpecError, did_you_mean
from einmap.visible import brief, short

type Scalar = bool | int | float | str | None
type Raw = RawScalar | RawList | RawMap
type Step = str | int
type Path = tuple[Step, ...]


FREE_FORM = frozenset(
    {"variables", "extra_attributes_for_component_model", "extra_attributes_for_all_component_models"}
)
"""Keys whose values may be text as well as expressions; only there quotes make a difference."""

_TEMPLATE_MARK = re.compile(r"\{[{%#]")


class LiteralString(str):
    """A string that is text, never an expression (quoted in YAML).

    It makes a difference in free-form places only: `variables` and the extra attributes of components.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RawScalar:
    """One value. `text` is what the user wrote; `quoted` marks text that is never an expression."""

    value: Scalar
    text: str = field(default="", compare=False)
    quoted: bool = field(default=False, compare=False)
    tag: str | None = None
    at: At | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RawList:
    """A list; `tag` is the YAML tag without its `!`, e.g. None for plain data."""

    __repr__ = brief

    items: tuple[Raw, ...]
    tag: str | None = None
    at: At | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RawMap:
    """A dictionary in written order; `key_at` are the places of its keys."""

    __repr__ = brief

    items: tuple[tuple[str, Raw], ...]
    tag: str | None = None
    at: At | None = field(default=None, compare=False)
    key_at: tuple[At | None, ...] = field(default=(), compare=False)

    def get(self, key: str) -> Raw | None:
        """The value of `key`, or None."""
        for name, value in self.items:
            if name == key:
                return value
        return None

    def keys(self) -> tuple[str, ...]:
        """The keys in written order."""
        return tuple(name for name, _ in self.items)

    def place_of(self, key: str) -> At | None:
        """Where `key` itself is written."""
        for (name, _), at in zip(self.items, self.key_at, strict=False):
            if name == key:
                return at
        return self.at


def tag_of(raw: Raw) -> str | None:
    """The tag of a node: `!Memory {...}`, or its synonym `{type: Memory, ...}`; None when it has none."""
    if not isinstance(raw, RawMap) or raw.tag:
        return raw.tag
    kind = raw.get("type")
    return kind.value if isinstance(kind, RawScalar) and isinstance(kind.value, str) else None


MAX_DEPTH = 100
"""Values in one another, in a file and in a dictionary."""


def from_python(value: Any, at: At | None = None, depth: int = 0) -> Raw:
    """Plain dicts, lists and scalars as a raw tree; a dict key `type` becomes the node tag.

    Only a capitalised `type` is a tag (`{"type": "Memory", ...}`), as in `!Memory`. Numbers may be numpy's.
    Raises SpecError for what a file could not hold, such as more than `MAX_DEPTH` values in one another.
    """
    if depth > MAX_DEPTH:
        raise SpecError(f"values are nested more than {MAX_DEPTH} deep", at=at)
    match value:
        case RawScalar() | RawList() | RawMap():
            return value
        case None | bool() | int() | float() | str():
            return RawScalar(value, text=_text(value), quoted=isinstance(value, LiteralString), at=at)
        case list() | tuple():
            return RawList(tuple(from_python(v, at, depth + 1) for v in value), at=at)
        case Mapping():
            tag = value.get("type")
            is_tag = isinstance(tag, str) and tag[:1].isupper()
            kept = [(str(k), v) for k, v in value.items() if not (is_tag and k == "type")]
            items = tuple((k, from_python(v, at, depth + 1)) for k, v in kept)
            return RawMap(items, tag=tag if is_tag else None, at=at, key_at=tuple(at for _ in items))
        case numbers.Integral():
            return from_python(int(value), at)
        case numbers.Real():
            return from_python(float(value), at)
        case _:
            hint = "functions are given beside it: Spec.from_dict(..., functions={...})" if callable(value) else None
            raise SpecError(f"a specification cannot hold a {type(value).__name__}: {value!r}", at=at, hint=hint)


def _text(value: Scalar) -> str:
    """The text that a user would have written; endless digits are left to whoever writes them."""
    return "" if isinstance(value, int) and value.bit_length() > 10_000 else str(value)


def to_python(raw: Raw) -> Any:
    """The tree as plain dicts, lists and scalars; tags become the key `type`, quoted text `LiteralString`."""
    match raw:
        case RawScalar(value=value, quoted=quoted):
            return LiteralString(value) if quoted and isinstance(value, str) else value
        case RawList(items=items):
            return [to_python(item) for item in items]
        case RawMap(items=pairs, tag=tag):
            plain = {key: to_python(value) for key, value in pairs}
            return {"type": tag, **plain} if tag else plain


_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def parse_path(path: str) -> Path:
    """`arch.nodes[2].size` -> ("arch", "nodes", 2, "size")."""
    if not isinstance(path, str):
        raise SpecError(f"a path is a text such as arch.nodes[2].size, found {short(path)}")
    steps: list[Step] = []
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise SpecError(f"{path!r} is not a path; write for example arch.nodes[2].size or arch.nodes.MAC.area")
        steps.append(step.group(1) if step.group(1) is not None else int(step.group(2)))
        position = step.end()
    return tuple(steps)


def format_path(path: Path) -> str:
    """The inverse of `parse_path`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _name_of(raw: Raw) -> Scalar:
    name = raw.get("name") if isinstance(raw, RawMap) else None
    return name.value if isinstance(name, RawScalar) else None


def _index(items: tuple[Raw, ...], step: Step, path: Path) -> int:
    """List elements are found by position or by their `name`."""
    if isinstance(step, int) or step.isdigit():
        if int(step) < len(items):
            return int(step)
        raise SpecError(f"{format_path(path)}: index {step} of a list of {len(items)}")
    names = [_name_of(item) for item in items]
    if step not in names:
        texts = [name for name in names if isinstance(name, str)]
        raise SpecError(f"{format_path(path)}: no element named {step!r}", hint=did_you_mean(step, texts))
    return names.index(step)


def _found_index(items: tuple[Raw, ...], step: Step) -> Step:
    """The position of the element that `step` names, or `step` itself when there is none."""
    if isinstance(step, int) or step.isdigit():
        return int(step)
    return next((index for index, item in enumerate(items) if _name_of(item) == step), step)


def get_value(raw: Raw, path: Path) -> Raw:
    """The sub-tree at `path`. Raises SpecError naming the step that does not exist."""
    for depth, step in enumerate(path):
        done = path[: depth + 1]
        if isinstance(raw, RawList):
            raw = raw.items[_index(raw.items, step, done)]
            continue
        value = raw.get(str(step)) if isinstance(raw, RawMap) else None
        if value is None:
            keys = raw.keys() if isinstance(raw, RawMap) else ()
            raise SpecError(f"{format_path(done)} does not exist", hint=did_you_mean(str(step), keys))
        raw = value
    return raw


def set_value(raw: Raw, path: Path, value: Any) -> Raw:
    """A new tree with `value` (plain Python or raw) at `path`; missing dictionary keys are added."""
    if not path:
        return from_python(value)
    step, rest = path[0], path[1:]
    if isinstance(raw, RawList):
        index = _index(raw.items, step, path[:1])
        changed = set_value(raw.items[index], rest, value)
        return replace(raw, items=(*raw.items[:index], changed, *raw.items[index + 1 :]))
    if not isinstance(raw, RawMap):
        raise SpecError(f"cannot set {format_path(path)}: {raw.text or raw.value!r} has no fields", at=raw.at)
    key = str(step)
    old = raw.get(key)
    if old is None:
        added = set_value(RawMap(()), rest, value)
        return replace(raw, items=(*raw.items, (key, added)), key_at=(*raw.key_at, None))
    changed = set_value(old, rest, value)
    return replace(raw, items=tuple((k, changed if k == key else v) for k, v in raw.items))


def place(raw: Raw, path: Path) -> At:
    """Where `path` was written, as far as known: the deepest existing part of it.

    The path of the answer names list elements: `arch.nodes[2] "Register".size`.
    """
    return Places(raw).of(path)


class Places:
    """The places of the paths of a tree, as `place` gives them; what many paths begin with is looked up once."""

    def __init__(self, raw: Raw) -> None:
        self._reached: dict[Path, tuple[Raw, At, str]] = {(): (raw, raw.at or At(), "")}

    def of(self, path: Path) -> At:
        """The place of `path`."""
        _, at, text = self._reach(path)
        return At(at.file, at.line, at.column, text.removeprefix("."))

    def _reach(self, path: Path) -> tuple[Raw, At, str]:
        """The value at a path, the place of the deepest part of it that exists, and the path in words."""
        if path not in self._reached:
            self._reached[path] = self._below(*self._reach(path[:-1]), path[-1])
        return self._reached[path]

    def _below(self, raw: Raw, at: At, text: str, key: Step) -> tuple[Raw, At, str]:
        """One step further: value, place and words."""
        child: Raw | None = None
        step = _found_index(raw.items, key) if isinstance(raw, RawList) else key
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
        if isinstance(raw, RawList) and isinstance(step, int) and 0 <= step < len(raw.items):
            child = raw.items[step]
            if isinstance(name := _name_of(child), str):
                text += f' "{name}"'
        elif isinstance(raw, RawMap):
            child = raw.get(str(step))
        if child is None:
            return RawScalar(None), at, text
        # what was set in Python has no place; it does not stand where its parent does
        return child, child.at or At(), text


def could_be_expression(text: str) -> bool:
    """Whether `text` may stand without quotes: not empty, printable, and nothing that a template would change."""
    lines = text.replace("\t", " ").split("\n")
    is_printable = all(line.isprintable() for line in lines)
    return bool(text) and text == text.strip() and is_printable and not _TEMPLATE_MARK.search(text)


def content(raw: Raw) -> str:
    """Content of `raw`, as a text that is equal for equal content, wherever and however it was written.

    The order of keys counts (renames may use those before them), and so do quotes in free-form places.
    A tag is the same as its synonym `type`, and 4.0 is 4.
    """
    return json.dumps(_content(raw, is_free=False), separators=(",", ":"))


def _content(raw: Raw, *, is_free: bool) -> Any:
    match raw:
        case RawScalar(value=str(text), quoted=quoted):
            is_text = is_free and (quoted or not could_be_expression(text))
            return {"text": text} if is_text else text
        case RawScalar(value=value):
            return _number_content(value)
        case RawList(items=items):
            return [_content(item, is_free=is_free) for item in items]
        case RawMap(items=pairs):
            tag = tag_of(raw)
            named = raw.tag is None and tag is not None and tag[:1].isupper()
            fields = [
                [key, _content(value, is_free=is_free or key in FREE_FORM)]
                for key, value in pairs
                if not (named and key == "type")
            ]
            return {"tag": tag if raw.tag or named else None, "fields": fields}


def _number_content(value: Scalar) -> Any:
    match value:
        case bool() | None:
            return value
        case float() if value.is_integer() and abs(value) <= 2**53:
            return int(value)
        case int() if abs(value) > 2**53:
            # decimal output is limited to some thousand digits
            return {"integer": hex(value)}
        case float() if not math.isfinite(value):
            return {"float": str(value)}
        case _:
            return value


@contextmanager
def placed(raw: Raw, path: Path) -> Iterator[None]:
    """Errors that leave this block without a place get the one of `path`."""
    try:
        yield
    except EinmapError as problem:
        problem.at = problem.at or place(raw, path)
        raise


def content_hash(raw: Raw) -> str:
    """A hash of the content (not of places or comments): 16 hexadecimal digits."""
    return hashlib.sha256(content(raw).encode()).hexdigest()[:16]
