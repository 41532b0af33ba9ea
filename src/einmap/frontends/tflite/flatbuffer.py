"""Tables of a flatbuffer (https://flatbuffers.dev/internals): no byte outside of the file is read, none too often.

A table begins with the distance to its vtable, which has the place of each field within the table, 0 for one that is
left out. Texts, vectors and other tables are distances to further on. Parts may be shared, so what is read is counted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.errors import At, SpecError
from einmap.frontends.cascade.program import Array

MOST_READ = 100_000_000
"""Bytes that are read in all, those of shared parts each time; numbers of weights are not."""


@dataclass(slots=True)
class Buffer:
    """The bytes of a file (`bytes` or a map of it) and how many of them were read."""

    content: Any
    file: str
    read: int = 0

    def root(self, identifier: bytes) -> Table:
        """The first table. Raises SpecError for a file that is not of this kind."""
        if self.taken(0, 8)[4:] != identifier:
            text = f"this is not a readable model: bytes 4 to 8 are not {identifier.decode()}"
            raise SpecError(text, at=At(self.file, path="byte 4"))
        return Table(self, self.place(0))

    def taken(self, start: int, length: int) -> bytes:
        """Bytes of the file. Raises SpecError outside of it, and where too much is read."""
        self.check(start, length)
        self.read += length + 8
        if self.read > MOST_READ:
            raise SpecError(f"more than {MOST_READ:,} bytes are read beside weights", at=At(self.file))
        return bytes(self.content[start : start + length])

    def check(self, start: int, length: int) -> None:
        """Raise SpecError for a part that is not in the file."""
        if start < 0 or length < 0 or start + length > len(self.content):
            text = f"the file is cut short or damaged: it ends before byte {start + length:,}"
            raise SpecError(text, at=At(self.file, path=f"byte {min(max(start, 0), len(self.content)):,}"))

    def number(self, start: int, kind: str) -> Any:
        """One number, by the letter that `struct` has for it."""
        return struct.unpack(f"<{kind}", self.taken(start, struct.calcsize(f"<{kind}")))[0]

    def place(self, start: int) -> int:
        """Where a distance leads that stands at `start`."""
        return start + int(self.number(start, "I"))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of fields by number; each may be left out."""

    buffer: Buffer
    start: int

    def _field(self, number: int) -> int | None:
        """The place of a field."""
        vtable = self.start - int(self.buffer.number(self.start, "i"))
        if 4 + 2 * number >= self.buffer.number(vtable, "H"):
            return None
        distance = int(self.buffer.number(vtable + 4 + 2 * number, "H"))
        return self.start + distance if distance else None

    def scalar(self, number: int, kind: str, default: Any = 0) -> Any:
        """A number, or `default`."""
        place = self._field(number)
        return default if place is None else self.buffer.number(place, kind)

    def table(self, number: int) -> Table | None:
        """Another table."""
        place = self._field(number)
        return None if place is None else Table(self.buffer, self.buffer.place(place))

    def span(self, number: int, size: int = 1) -> tuple[int, int] | None:
        """Where the items of a vector begin, and how many there are, of `size` bytes each."""
        place = self._field(number)
        if place is None:
            return None
        start = self.buffer.place(place)
        length = int(self.buffer.number(start, "I"))
        self.buffer.check(start + 4, length * size)
        return start + 4, length

    def numbers(self, number: int, kind: str) -> Array:
        """A vector of numbers, by the letter of their type; of none where it is left out."""
        form = np.dtype(f"<{kind}")
        start, length = self.span(number, form.itemsize) or (0, 0)
        found: Array = np.frombuffer(self.buffer.taken(start, length * form.itemsize), form)
        return found

    def tables(self, number: int) -> Sequence[Table]:
        """A vector of tables."""
        start, length = self.span(number, 4) or (0, 0)
        self.buffer.taken(start, 4 * length)
        return [Table(self.buffer, self.buffer.place(start + 4 * i)) for i in range(length)]

    def text(self, number: int) -> str:
        """A text; what is not UTF-8 in it is replaced."""
        start, length = self.span(number) or (0, 0)
        return self.buffer.taken(start, length).decode("utf-8", "replace")
