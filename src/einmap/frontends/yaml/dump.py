"""Raw tree -> YAML text that reads back as an equal tree, and reads well."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import replace
from functools import lru_cache

from einmap.frontends.yaml.parsing.merge import MERGE_KEYS
from einmap.frontends.yaml.parsing.scalars import resolve
from einmap.spec.raw import FREE_FORM, Raw, RawList, RawMap, RawScalar, Scalar, could_be_expression

WIDTH = 110
LONGEST_KEY = 1000
"""Characters of a key that a colon follows in the same line."""
# The root and its sections are written in block style, however small.
_BLOCK_LEVELS = 2
_INDICATORS = frozenset("?:,[]{}#&*!|>'\"%@`")
_FLOW_MARKS = re.compile(r"[,\[\]{}?:]")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def to_yaml(raw: Raw) -> str:
    """`raw` as YAML text: `parse_yaml(to_yaml(raw), "") == raw`.

    Numbers keep the spelling of the user. In free-form places, where quoted text is never an expression,
    unquoted text stays unquoted: what YAML takes for something else becomes a block of text.
    """
    raw = _with_quotes(raw, is_free=False)
    inline = _inline(raw, level=0)
    lines = [inline] if inline is not None else _tag_line(raw) + _block(raw, level=0, indent=0)
    return "\n".join(lines) + "\n"


def _with_quotes(raw: Raw, *, is_free: bool) -> Raw:
    """The tree with quotes around all text that needs them and may have them.

    size: [1024]*2 --> size: "[1024]*2"
    """
    match raw:
        case RawScalar(value=str(text)) if not raw.quoted and not _is_plain(text):
            return replace(raw, quoted=not (is_free and could_be_expression(text)))
        case RawList(items=items):
            quoted = tuple([_with_quotes(item, is_free=is_free) for item in items])
            return raw if all(map(operator.is_, quoted, items)) else replace(raw, items=quoted)
        case RawMap(items=pairs):
            values = [_with_quotes(value, is_free=is_free or key in FREE_FORM) for key, value in pairs]
            if all(quoted_value is value for quoted_value, (_, value) in zip(values, pairs, strict=True)):
                return raw
            return replace(
                raw, items=tuple((key, quoted_value) for quoted_value, (key, _) in zip(values, pairs, strict=True))
            )
        case _:
            return raw


def _is_block(raw: Raw) -> bool:
    """Whether a scalar is written as a block of text: without quotes, and not readable as a plain word."""
    return isinstance(raw, RawScalar) and isinstance(raw.value, str) and not raw.quoted and not _is_plain(raw.value)


def _block(raw: Raw, level: int, indent: int) -> list[str]:
    """The elements of a list or dictionary, or the lines of a text, each on lines of its own."""
    margin = " " * indent
    match raw:
        case RawList(items=items):
            return [line for item in items for line in _element(f"{margin}-", item, level + 1, indent + 2)]
        case RawMap(items=pairs):
            return [line for key, value in pairs for line in _entry(margin, _key(key), value, level + 1, indent)]
        case RawScalar():
            return [f"{margin}{line}" if line else "" for line in str(raw.value).split("\n")]


def _element(dash: str, value: Raw, level: int, indent: int) -> list[str]:
    inline = _inline(value, level)
    if inline is not None and _fits(f"{dash} {inline}", value):
        return [f"{dash} {inline}"]
    body = _block(value, level, indent)
    if isinstance(value, RawMap) and value.tag is None:
        return [f"{dash} {body[0].lstrip()}", *body[1:]]
    return [" ".join([dash, *_tag_line(value)]), *body]


def _entry(margin: str, key: str, value: Raw, level: int, indent: int) -> list[str]:
    """A key and its value. A long key has a line of its own: before a colon YAML finds keys of 1,024 characters only.

    ? A | B | ...
    : 8
    """
    if len(key) <= LONGEST_KEY:
        return _field(f"{margin}{key}:", value, level, indent)
    return [f"{margin}? {key}", *_field(f"{margin}:", value, level, indent)]


def _field(key: str, value: Raw, level: int, indent: int) -> list[str]:
    inline = _inline(value, level)
    if inline is not None and _fits(f"{key} {inline}", value):
        return [f"{key} {inline}"]
    return [" ".join([key, *_tag_line(value)]), *_block(value, level, indent + 2)]


def _fits(line: str, value: Raw) -> bool:
    """Only what has a block style can be broken into shorter lines."""
    return len(line) <= WIDTH or isinstance(value, RawScalar) or not value.items


def _tag_line(raw: Raw) -> list[str]:
    """Texts after the key of a value that fills the lines below."""
    if _is_block(raw):
        return ["|-"]
    return [f"!{raw.tag}"] if isinstance(raw, RawMap) and raw.tag else []


def _inline(raw: Raw, level: int) -> str | None:
    """Text after a key or dash where the value fits: scalars, empty collections, below the sections small ones."""
    if isinstance(raw, RawScalar):
        return None if _is_block(raw) else _scalar(raw)
    if raw.items and (level < _BLOCK_LEVELS or not _is_small(raw)):
        return None
    return _flow(raw)


def _is_small(raw: RawList | RawMap) -> bool:
    """Scalars only, or in a dictionary also collections of scalars."""
    if isinstance(raw, RawList):
        return all(not isinstance(item, RawMap) and _is_leaf(item) for item in raw.items)
    return all(_is_leaf(value) for _, value in raw.items)


def _is_leaf(raw: Raw) -> bool:
    match raw:
        case RawScalar():
            return True
        case RawList(items=items):
            return all(isinstance(item, RawScalar) for item in items)
        case RawMap(items=pairs):
            return all(isinstance(value, RawScalar) for _, value in pairs)


def _flow(raw: Raw) -> str | None:
    """In one line, or None where that would need quotes around text that has none."""
    match raw:
        case RawScalar():
            if _is_block(raw):
                return None
            text = _scalar(raw)
            return None if not text.startswith('"') and _FLOW_MARKS.search(text) else text
        case RawList(items=items):
            return _bracketed("[", [_flow(item) for item in items], "]")
        case RawMap(items=pairs):
            fields = [(_key(key), _flow(value)) for key, value in pairs]
            texts = [None if value is None or len(key) > LONGEST_KEY else f"{key}: {value}" for key, value in fields]
            return _bracketed(" ".join([*_tag_line(raw), "{"]), texts, "}")


def _bracketed(start: str, texts: list[str | None], end: str) -> str | None:
    written = [text for text in texts if text is not None]
    return start + ", ".join(written) + end if len(written) == len(texts) else None


def _key(key: str) -> str:
    is_plain = _is_plain(key) and not _FLOW_MARKS.search(key) and key not in MERGE_KEYS
    return key if is_plain else _quoted(key)


def _scalar(raw: RawScalar) -> str:
    value = raw.value
    if isinstance(value, str):
        return _quoted(value) if raw.quoted or not re.sub(r"[\n\t]", "", value).isprintable() else value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if raw.text and _reads_as(raw.text, value):
        return raw.text
    match value:
        case int():
            # Decimal output is limited to some thousand digits, hexadecimal is not.
            return str(value) if value.bit_length() < 10_000 else f"{value:#x}"
        case float():
            return _float(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return repr(value)


def _reads_as(text: str, value: Scalar) -> bool:
    try:
        resolved = resolve(text)
    except ValueError:
        return False
    return type(resolved) is type(value) and resolved == value


@lru_cache(maxsize=10_000)
def _is_plain(text: str) -> bool:
    """Whether `text` without quotes reads as the same text in block style."""
    if not could_be_expression(text) or not text.isprintable():
        return False
    if text[0] in _INDICATORS or text == "-" or text.startswith(("- ", "---", "...")):
        return False
    return ": " not in text and " #" not in text and not text.endswith(":") and _reads_as(text, text)


def _quoted(text: str) -> str:
    escaped = "".join(_ESCAPES.get(char) or _escaped(char) for char in text)
    # what looks like a template would be rendered when the text is loaded
    return '"' + re.sub(r"\{(?=[{%#])", r"\\x7b", escaped) + '"'


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
