"""Numbers of tensors in files beside a model: small ones are read, as shapes, axes and scales are known by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from einmap.frontends.files import reading
from einmap.frontends.onnx.wire import MOST_PAYLOAD, text_of


def load_small(tensor: Any, folder: Path) -> None:
    """Put the numbers of a tensor in its place, if they are at most MOST_PAYLOAD bytes of a file below the folder.

    The tensor stays as it is where there is no such file, or not as much in it: a model is imported without weights.
    """
    entries = {text_of(entry.key): text_of(entry.value) for entry in tensor.external_data}
    offset, length = entries.get("offset", "0"), entries.get("length", "")
    if not (offset.isdecimal() and length.isdecimal()) or not 0 < int(length) <= MOST_PAYLOAD or len(offset) > 18:
        return
    try:
        path = (folder / entries.get("location", "")).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            return
        with path.open("rb") as file:
            file.seek(int(offset))
            content = file.read(int(length))
    except (OSError, ValueError):
        return
    if len(content) == int(length):
        if (noted := reading()) is not None:
            noted.files.append(path)
        tensor.raw_data = content
        tensor.data_location = 0
