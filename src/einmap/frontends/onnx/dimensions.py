"""Names of dimensions that a model leaves open: exporters write sums of others, as `past_sequence_length + 1`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

_TERM = re.compile(r"([+-]?)([^+-]+)")


def _terms(text: str) -> list[tuple[int, list[str]]]:
    """Sums and differences of products, each with its sign; nothing for a name alone."""
    plain = re.sub(r"\s", "", text)
    if len(plain) > 200 or not re.fullmatch(r"[+-]?[^+*-]+(?:[+*-][^+*-]+)*", plain) or not re.search(r"[+*-]", plain):
        return []
    return [(-1 if sign == "-" else 1, term.split("*")) for sign, term in _TERM.findall(plain)]


def parts_of_sum(text: str) -> list[str]:
    """The names in a sum, difference or product, as `past_sequence_length + 1`; none for a name alone."""
    return list(dict.fromkeys(part for _, term in _terms(text) for part in term if not part.isdecimal()))


def sum_of(text: str, sizes: Mapping[str, object]) -> int | None:
    """The value of a sum, difference or product of sizes and numbers; None where it is none, or one is not known."""
    terms = _terms(text)
    if not terms:
        return None
    total = 0
    for sign, term in terms:
        factors = [int(part) if part.isdecimal() else sizes.get(part) for part in term]
        if not all(isinstance(factor, int) for factor in factors):
            return None
        total += sign * prod(factor for factor in factors if isinstance(factor, int))
    return total
