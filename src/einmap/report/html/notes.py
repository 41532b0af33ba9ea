"""Notes of results on a page: it is passed on, so that files are told by their names, without their folders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath

from einmap.errors import Note

MOST = 200
"""Notes on a page; how many more there are stands below them."""


def note_texts(notes: Iterable[Note]) -> tuple[str, ...]:
    """The notes as text."""
    texts = [_text(note) for note in notes]
    more = len(texts) - MOST
    return (*texts[:MOST], *([f"... and {more:,} more"] if more > 0 else []))


def _text(note: Note) -> str:
    if note.at is None or note.at.file is None:
        return str(note)
    return str(replace(note, at=replace(note.at, file=PurePath(note.at.file).name)))
