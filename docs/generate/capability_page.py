"""The page of features that are not searched together, from the table that the mapper asks."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.mapper.capabilities import FEATURES, REFUSED_LATER, UNKNOWN, Unknown


def capabilities() -> str:
    """Each feature with those that are not searched beside it."""
    return f"""# What goes together

The mapper searches all of its features in every combination but those below. A pair that is listed is refused by its
sentence, with a place and a hint; nothing is left out without a word. `einmap examples --features` prints the same.

{_pairs(UNKNOWN)}

The model, or the search of an Einsum, refuses these by itself:

{_pairs(REFUSED_LATER)}
"""


def _pairs(unknown: Sequence[Unknown]) -> str:
    """Each feature with a list of those that it is not searched beside, and why."""
    lines = []
    for feature in dict.fromkeys(row.feature for row in unknown):
        lines.append(f"- **{FEATURES[feature].words}**, not with")
        lines += [f"  - {FEATURES[row.other].words}: {row.why}" for row in unknown if row.feature == feature]
    return "\n".join(lines)
