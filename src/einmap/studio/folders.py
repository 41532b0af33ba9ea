"""The folders that a studio may read from and write to: those that its user named, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from einmap.errors import At, SpecError
from einmap.frontends.files import read_text_file, write_atomically
from einmap.visible import short

ENDINGS = (".yaml", ".yml")
LONGEST_NAME = 200
"""Bytes of a name."""
MOST_FILES = 500
"""Files that are listed."""


@dataclass(frozen=True)
class Folders:
    """Folders by their place in the list; a file in one is named relative to it, below the first that has it."""

    places: tuple[Path, ...] = ()

    @staticmethod
    def of(places: Sequence[Path]) -> Folders:
        """The folders. Raises SpecError for one that is not there."""
        for place in places:
            if not place.is_dir():
                raise SpecError("this is not a folder", at=At(str(place)), hint="name a folder that exists")
        return Folders(tuple(dict.fromkeys(place.resolve() for place in places)))

    def names(self) -> list[str]:
        """YAML files directly in the folders, those of the first one first."""
        return list(dict.fromkeys(islice(self._files(), MOST_FILES)))

    def _files(self) -> Iterator[str]:
        for place in self.places:
            try:
                entries = sorted(place.iterdir())
            except OSError:
                continue
            yield from (entry.name for entry in entries if entry.suffix in ENDINGS and entry.is_file())

    def read(self, name: str) -> str:
        """The text of a file. Raises SpecError for one that is not in the folders."""
        for place in self.places:
            path = self._within(place, name)
            if path.is_file():
                return read_text_file(path)
        raise SpecError(f"the folders of the studio have no file {short(name)}")

    def write(self, name: str, text: str, *, force: bool) -> Path:
        """Write a file into the first folder. Raises SpecError for a name that leads elsewhere or is taken."""
        if not self.places:
            raise SpecError("this studio writes no files", hint="begin it with a folder")
        path = self._within(self.places[0], name)
        if path.exists() and not force:
            raise SpecError(f"the file {short(name)} is there already", hint="tick 'replace' to write over it")
        write_atomically(path, text, replace=force)
        return path

    def _within(self, place: Path, name: str) -> Path:
        """The file of a name directly in a folder, links followed."""
        is_plain = name == Path(name).name and not name.startswith(".") and not {"\0", "\\"} & {*name}
        if not (name and is_plain and len(os.fsencode(name)) <= LONGEST_NAME):
            raise SpecError(
                f"{short(name)} is not the name of a file", hint="a name such as mine.yaml, without folders"
            )
        if Path(name).suffix not in ENDINGS:
            raise SpecError(f"{short(name)} does not end with .yaml", hint=f"write {Path(name).stem}.yaml")
        path = (place / name).resolve()
        if path.parent != place:
            raise SpecError(f"{short(name)} leads out of the folders of the studio")
        return path
