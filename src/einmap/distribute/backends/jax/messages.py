"""Messages between a parent and its processes: one JSON document and named arrays, over a pipe.

Nothing in them is code: numbers, text and raw values of arrays, so an answer is data, whoever wrote it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct(">Q")
MAX_DOCUMENT = 2**30
"""Bytes of one document; a longer one is not a message of ours."""


@dataclass(frozen=True)
class Message:
    """One document with the arrays that belong to it."""

    document: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def write_message(stream: BinaryIO, message: Message) -> None:
    """Write and flush one message. Raises BrokenPipeError when nobody reads."""
    arrays = {name: np.asarray(values) for name, values in message.arrays.items()}
    described = [[name, values.dtype.str, list(values.shape)] for name, values in arrays.items()]
    head = json.dumps({"document": message.document, "arrays": described}).encode()
    stream.write(_LENGTH.pack(len(head)) + head)
    for values in arrays.values():
        stream.write(values.tobytes())
    stream.flush()


def read_message(stream: BinaryIO) -> Message:
    """The next message. Raises EOFError at the end of the stream, also in the middle of a message."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > MAX_DOCUMENT:
        raise ValueError("this is not a message")
    head = json.loads(_exactly(stream, length))
    arrays: dict[str, NDArray[Any]] = {}
    for name, kind, shape in head["arrays"]:
        dtype = np.dtype(kind)
        if dtype.kind not in "biuf":
            raise ValueError(f"an array of {dtype} is not a message of ours")
        values = np.empty(shape, dtype)
        values.reshape(-1).view(np.uint8)[:] = np.frombuffer(_exactly(stream, values.nbytes), np.uint8)
        arrays[name] = values
    return Message(head["document"], arrays)


def _exactly(stream: BinaryIO, n: int) -> bytes:
    parts: list[bytes] = []
    while n:
        part = stream.read(min(n, 2**24))
        if not part:
            raise EOFError
        parts.append(part)
        n -= len(part)
    return b"".join(parts)
