"""The bytes of a model file without the numbers of large tensors, which are never read into memory.

ONNX files are protocol buffers: messages of fields, each with a key (number and wire type) and a value. The scan knows
which fields hold messages that may contain tensors (onnx.proto), copies all others as they are, and leaves out the
payload of tensors above MOST_PAYLOAD bytes.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from einmap.errors import At, SpecError
from einmap.frontends.files import reading

MOST_PAYLOAD = 2**16
"""Bytes of numbers of one tensor that are kept: enough for shapes, axes, masks of constants."""
MOST_KEPT = 200_000_000
"""Bytes of a model without the numbers of large tensors."""
DEEPEST = 30
"""Messages within messages."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PAYLOAD = frozenset({4, 5, 6, 7, 9, 10, 11})
_INNER: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
"""Fields of each kind of message that hold messages with tensors in them."""


def compact_model(path: Path) -> bytes:
    """The model in a file, without the numbers of large tensors. Raises SpecError with the byte that is wrong."""
    at = At(str(path))
    if (noted := reading()) is not None:
        noted.files.append(path)
    try:
        if not path.is_file():
            raise SpecError("there is no such file" if not path.exists() else "this is not a regular file", at=at)
        if not path.stat().st_size:
            raise SpecError("the file is empty, so it is not an ONNX model", at=at)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Scan(content, at).message("model", 0, len(content), 0)
    except OSError as error:
        raise SpecError(f"cannot read the file: {error.strerror or error}", at=at) from error


@dataclass(slots=True)
class _Scan:
    """One pass over a file. `kept`: bytes copied so far, counted once for each level of messages."""

    content: mmap.mmap
    at: At
    kept: int = 0

    def message(self, kind: str, start: int, end: int, depth: int) -> bytes:
        """The fields of a message that begins at `start`, copied."""
        if depth > DEEPEST:
            raise self._wrong(start, f"messages are nested more than {DEEPEST} deep")
        inner = _INNER[kind]
        parts: list[bytes] = []
        position = start
        while position < end:
            key, value = self._varint(position, end, kind)
            number, wire = key >> 3, key & 7
            if number == 0 or wire not in (_VARINT, _FIXED64, _BYTES, _FIXED32):
                raise self._wrong(position, f"this is not a field of a {kind}")
            after, length = self._end_of(wire, value, end, kind, position)
            if wire == _BYTES and number in inner and length > MOST_PAYLOAD:
                content = self.message(inner[number], after - length, after, depth + 1)
                parts += [self.content[position:value], _written(len(content)), content]
            elif not (kind == "tensor" and wire == _BYTES and number in _PAYLOAD and length > MOST_PAYLOAD):
                parts.append(self.content[position:after])
                self.kept += after - position
            if self.kept > MOST_KEPT:
                raise self._wrong(position, f"the model has more than {MOST_KEPT:,} bytes beside its weights")
            position = after
        return b"".join(parts)

    def _end_of(self, wire: int, value: int, end: int, kind: str, key: int) -> tuple[int, int]:
        """Where a field ends, and how many bytes its content has."""
        if wire == _VARINT:
            return self._varint(value, end, kind)[1], 0
        length = {_FIXED64: 8, _FIXED32: 4}.get(wire, 0)
        if wire == _BYTES:
            length, value = self._varint(value, end, kind)
        if value + length > end:
            missing = f"{length:,} bytes are announced, {end - value:,} are left of the {kind}"
            raise self._wrong(key, f"the file is cut short or damaged: {missing}")
        return value + length, length

    def _varint(self, position: int, end: int, kind: str) -> tuple[int, int]:
        """A number in pieces of seven bits, and where it ends."""
        number = 0
        for i in range(10):
            if position + i >= end:
                raise self._wrong(position, f"the file is cut short or damaged: the {kind} ends within a number")
            byte = self.content[position + i]
            number |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return number, position + i + 1
        raise self._wrong(position, f"the {kind} has a number of more than 10 bytes")

    def _wrong(self, position: int, text: str) -> SpecError:
        return SpecError(f"this is not a readable ONNX model: {text}", at=At(self.at.file, path=f"byte {position:,}"))


def text_of(value: Any) -> str:
    """A text of a message; bytes where it is not UTF-8, of which parts are replaced."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _written(number: int) -> bytes:
    pieces = bytearray()
    while number >= 0x80:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)
