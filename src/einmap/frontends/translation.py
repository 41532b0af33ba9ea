"""What files of another tool become here, and what becomes of ours there: texts, and a list of what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.errors import At, Note

GIVEN_FILE = "given.yaml"
"""A partly given mapping: not a part of the specification, but what `einmap map --given` takes."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that the other format cannot say: its place in the file that was read, its key, and why."""

    at: At
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Translation:
    """`files`: texts by the names of their files; `left_out`: what has no counterpart; `notes`: what was assumed."""

    files: Mapping[str, str]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[Note, ...] = ()
