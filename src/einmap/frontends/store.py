"""A directory that keeps texts under keys, for several processes at a time, any of which may be killed."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import einmap.errors
from einmap.errors import At, EinmapError, SpecError
from einmap.frontends.files import MAX_TEXT, put_file, read_text_file
from einmap.visible import short

_HINT = "name a directory in which files may be written; it is made if there is none"


@dataclass(frozen=True)
class Store:
    """One file for each key. An entry that cannot be read counts as missing, and is replaced when it is written."""

    directory: Path

    @staticmethod
    def opened(directory: object) -> Store:
        """The store in `directory`, which is made if there is none. SpecError if no file can be written there."""
        if not isinstance(directory, str | Path) or directory == "":
            raise SpecError(f"a cache is a directory, found {short(directory)}", hint=_HINT)
        path = Path(directory)
        try:
            path.mkdir(parents=True, exist_ok=True)
            # asked of the system by trying: permissions alone do not tell for every user and file system
            with tempfile.TemporaryFile(dir=path):
                pass
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise SpecError(f"cannot keep results in this directory: {why}", at=At(str(path)), hint=_HINT) from error
        return Store(path)

    def file(self, key: str) -> Path:
        """Where the text of `key` is kept."""
        return self.directory / f"{key}.json"

    def read(self, key: str) -> str | None:
        """The text of `key`; None when there is none, or none that can be read."""
        try:
            return read_text_file(self.file(key))
        except EinmapError:
            return None

    def write(self, key: str, text: str) -> None:
        """Keep `text`, or nothing at all: readers see all of it or what was there before, and no error is raised.

        The caller has a result in hand, which a full disk must not lose.
        """
        content = text.encode()
        if len(content) <= MAX_TEXT:
            with suppress(EinmapError):
                put_file(self.file(key), content)


@cache
def own_code() -> str:
    """A hash of einmap's own source files: what an edited or another einmap found is not taken for its result."""
    package = Path(einmap.errors.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()
