"""Text of others made safe to show: what they wrote steers no terminal and looks like nothing that it is not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

LONGEST = 200
"""Characters of a value that is quoted in a message."""
MOST_LISTED = 7
"""Names of one list in a message or report."""
LINE, FIELD = 120, 40
"""Characters of the `repr` of a public object, and of one of its fields."""
_PLAIN = re.compile(r"[\n -~]*")
_WORD = re.compile(r"\w+")
_LETTERS = re.compile("[A-Za-z]")
_ALIKE = ("ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "DESERET", "FULLWIDTH", "GREEK", "LISU", "MATHEMATICAL")
"""Scripts with letters that look like Latin ones; Unicode's names of their letters begin so."""
_MOST_MARKS = 2
"""Marks on one letter: of more, a pile of them covers the lines around."""


def visible(text: str) -> str:
    """`text` with escapes for what would steer a terminal or deceive a reader; line breaks stay.

    Escaped are control characters, invisible ones and those that change the direction of writing; marks that pile up
    on a letter; and letters that look like Latin ones within a word that has Latin letters too.

    >>> visible("\x1b[31mred")
    '\\\\x1b[31mred'
    >>> visible("M\N{CYRILLIC SMALL LETTER A}in")
    'M\\\\u0430in'
    """
    if _PLAIN.fullmatch(text):
        return text
    shown, marks = [], 0
    for char in _WORD.sub(_without_look_alikes, text):
        marks = marks + 1 if unicodedata.combining(char) else 0
        fine = char == "\n" or (char.isprintable() and marks <= _MOST_MARKS)
        shown.append(char if fine else _escaped(char))
    return "".join(shown)


def short(value: object, longest: int = LONGEST) -> str:
    """`repr(value)` for a message: of something large only the kind and the size, or both ends.

    >>> short("a" * 1000, 20)
    "'aaaaaaa... (1000 characters)"
    >>> short({"a": 1, "b": [1] * 1000}, 20)
    'a dictionary of 2 entries'
    """
    match value:
        case str():
            text = repr(value[: longest + 1])
            return text if len(text) <= longest else f"{text[: longest // 2 - 2]}... ({len(value)} characters)"
        case int() if value.bit_length() > 3 * longest:
            return f"an integer of about {int(value.bit_length() * 0.30103) + 1} digits"
        case dict() | list() | tuple() | set() | frozenset() if (
            len(value) > longest // 2 or len(repr_of(value)) > longest
        ):
            return f"a {_kind(value)} of {len(value)} {'entry' if len(value) == 1 else 'entries'}"
        case _:
            text = repr_of(value)
            return text if len(text) <= longest else f"{text[: longest - 4]}... "


def cut(text: str, longest: int) -> str:
    """`text`, its middle left out where it has more than `longest` characters."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"


def listed(names: Iterable[object], most: int = MOST_LISTED, between: str = ", ") -> str:
    """Names in one line, the first ones of many: `A, B, C and 107 more`.

    >>> listed(["A", "B", "C", "D"], most=2)
    'A, B and 2 more'
    """
    texts = [str(name) for name in names]
    shown = between.join(texts[:most])
    return f"{shown} and {len(texts) - most:,} more" if len(texts) > most else shown


def brief(self: Any) -> str:
    """`repr` of a dataclass: one line of at most 120 characters, whatever its fields hold.

    Use it as `__repr__ = brief` in the class.
    """
    parts = [f"{f.name}={_brief(getattr(self, f.name))}" for f in fields(self) if f.repr]
    head, room = type(self).__name__, LINE - len(type(self).__name__) - 7
    shown: list[str] = []
    for part in parts:
        if sum(map(len, shown)) + 2 * len(shown) + len(part) > room:
            shown.append("...")
            break
        shown.append(part)
    return f"{head}({', '.join(shown)})"


def _brief(value: object) -> str:
    match value:
        case dict() | list() | tuple() | set() | frozenset() if len(value) > 3 or len(repr_of(value)) > FIELD:
            return f"<{len(value)} {'entry' if len(value) == 1 else 'entries'}>"
        case _ if is_dataclass(value):
            return f"{type(value).__name__}(...)"
        case _:
            text = short(value, FIELD)
            return text if len(text) <= 2 * FIELD else f"<{type(value).__name__}>"


def repr_of(value: object) -> str:
    """`repr(value)`, or the class where that fails: an integer of too many digits, a value nested too deeply."""
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"


def _kind(value: object) -> str:
    return {"dict": "dictionary"}.get(type(value).__name__, type(value).__name__)


def _without_look_alikes(word: re.Match[str]) -> str:
    text = word[0]
    if text.isascii() or not _LETTERS.search(text):
        return text
    return "".join(_escaped(c) if unicodedata.name(c, "").startswith(_ALIKE) else c for c in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
