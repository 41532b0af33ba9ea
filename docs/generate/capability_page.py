"""The page of what goes together in a search, from the table that the mapper asks."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.mapper.capabilities import FEATURES, REFUSED_LATER, UNKNOWN, Unknown


def capabilities() -> str:
    """The table of pairs."""
    features = ", ".join(feature.words for name, feature in FEATURES.items() if name != "search")
    return f"""# What goes together

The mapper searches these features in every combination but those below: {features}.

A pair that is listed is refused by its sentence, with a place and a hint; nothing is left out without a word.
`einmap examples --features` prints the same.

| feature | not yet with | why |
|---|---|---|
{_rows(UNKNOWN)}

The model, or the search of an Einsum, refuses these by itself:

| feature | not yet with | why |
|---|---|---|
{_rows(REFUSED_LATER)}
"""


def _rows(unknown: Sequence[Unknown]) -> str:
    return "\n".join(f"| {FEATURES[row.feature].words} | {FEATURES[row.other].words} | {row.why} |" for row in unknown)
