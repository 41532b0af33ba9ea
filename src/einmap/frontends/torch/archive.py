"""The graph of a file that `torch.export.save` writes: a zip archive, of which one member is JSON.

Weights, constants and sample inputs beside it, some of them pickles, are never opened.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from einmap.errors import At, SpecError
from einmap.frontends.files import reading

MOST_BYTES = 2**26
"""Bytes of the graph, unpacked."""
_OLD = "serialized_exported_program.json"
"""The member with the graph in files of older versions of PyTorch; 2.13 writes models/NAME.json."""


def graph_of_file(path: Path) -> Any:
    """The JSON of the graph in an archive, or in a file that is the JSON alone. Raises SpecError."""
    at = At(str(path))
    if (noted := reading()) is not None:
        noted.files.append(path)
    try:
        if not path.is_file():
            raise SpecError("there is no such file" if not path.exists() else "this is not a regular file", at=at)
        if zipfile.is_zipfile(path):
            content = _member(path, at)
        else:
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SpecError(f"cannot read the file: {error.strerror or error}", at=at) from error
    if len(content) > MOST_BYTES:
        raise SpecError(f"the graph has more than {MOST_BYTES:,} bytes", at=at)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        hint = "a program is saved with torch.export.save(torch.export.export(module, inputs), 'model.pt2')"
        raise SpecError(f"this is not a program of torch.export: {error}", at=at, hint=hint) from None


def _member(path: Path, at: At) -> bytes:
    """The member of an archive that has the graph, of at most one byte too many."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if _is_graph(name)]
            if len(names) != 1:
                listed = ", ".join(names[:5]) or f"none, it has {', '.join(archive.namelist()[:5]) or 'no files'}"
                text = f"an archive of torch.export has one graph, models/NAME.json; here are {listed}"
                hint = "weights alone (torch.save) have no graph: torch.export.save writes one"
                raise SpecError(text, at=at, hint=hint)
            with archive.open(names[0]) as member:
                return member.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise SpecError(f"the archive is damaged: {error}", at=at) from None


def _is_graph(name: str) -> bool:
    parts = name.split("/")
    return parts[-1] == _OLD or (len(parts) > 1 and parts[-2] == "models" and name.endswith(".json"))
