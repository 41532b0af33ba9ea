"""Meaning of an unquoted YAML word: the YAML 1.2 core rules, with `_` between digits and `0b`."""

from __future__ import annotations

import math
import re

from einmap.spec.raw import Scalar

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_DIGITS = "[0-9]+(?:_[0-9]+)*"
_INT = re.compile(f"[-+]?{_DIGITS}")
_BASED_INT = re.compile("([-+]?)0(?:o([0-7_]+)|x([0-9a-fA-F_]+)|b([01_]+))")
_FLOAT = re.compile(f"[-+]?(?:\\.{_DIGITS}|{_DIGITS}(?:\\.(?:{_DIGITS})?)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_BASES = (8, 16, 2)


def resolve(text: str) -> Scalar:
    """The value of a plain scalar; text that is not a number, boolean or null stays text.

    `yes`, `no`, `on`, `off` are text and `010` is ten. Raises ValueError for a number that does not
    fit a float, or that has thousands of digits.

    >>> [resolve(text) for text in ("0x10", "1_000", "1e9", "yes", "~")]
    [16, 1000, 1000000000.0, 'yes', None]
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] in "+-.0123456789":
        return _number(text)
    return text


def _number(text: str) -> Scalar:
    if _INT.fullmatch(text):
        return int(text)
    if based := _BASED_INT.fullmatch(text):
        return _based_int(text, based)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise ValueError("the number is too large for a float; write .inf for infinity")
        return value
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite.group(1) == "-" else math.inf
    return math.nan if text in _NAN else text


def _based_int(text: str, match: re.Match[str]) -> Scalar:
    for digits, base in zip(match.groups()[1:], _BASES, strict=True):
        if digits is not None and re.fullmatch("[^_]+(?:_[^_]+)*", digits):
            return int(match.group(1) + digits, base)
    return text
