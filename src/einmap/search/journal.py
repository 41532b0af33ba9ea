"""The journal of an experiment: finished runs, a line of JSON each, so that one that was killed goes on.

The first line says of what the runs are. Lines that cannot be read are kept aside in a file of their own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from einmap.errors import At, SpecError
from einmap.search.experiment import Run

VERSION = 1
"""Version of the format."""
LARGEST = 200_000_000
"""Bytes of a journal that is read."""


@dataclass(frozen=True)
class Journal:
    """A file with the runs of one experiment. `set_aside`: where a copy with unreadable lines was kept, if any."""

    path: Path
    runs: tuple[Run, ...] = ()
    set_aside: Path | None = None

    def append(self, run: Run) -> None:
        """Write a finished run, to the disk itself."""
        line = json.dumps(run.to_dict(), allow_nan=False)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())


def open_journal(path: Path, experiment: Mapping[str, Any]) -> Journal:
    """The journal of an experiment, made if there is none.

    `experiment`: what the runs depend on, as plain values. A file that cannot be read in full is kept aside unchanged,
    and the journal goes on with what can be read. Raises SpecError where the file is the journal of another
    experiment, or cannot be read or written.
    """
    header = json.dumps({"einmap_search_journal": VERSION, **experiment}, sort_keys=True)
    try:
        if not path.exists():
            path.write_text(header + "\n", encoding="utf-8")
            return Journal(path)
        if path.stat().st_size > LARGEST:
            raise SpecError(f"the journal is larger than {LARGEST:,} bytes", at=At(str(path)))
        text = path.read_bytes().decode("utf-8", errors="replace")
        lines = text.splitlines()
        if lines and lines[0] != header and _is_header(lines[0]):
            raise SpecError(
                "this is the journal of another experiment", at=At(str(path)), hint=_difference(lines[0], header)
            )
        runs = [_run_of(line) for line in lines[1:]] if lines and lines[0] == header else [None]
        readable = tuple(run for run in runs if run is not None)
        if len(readable) == len(runs) and text.endswith("\n"):
            return Journal(path, readable)
        aside = _free_name(path)
        path.rename(aside)
        path.write_text("".join(f"{line}\n" for line in (header, *(json.dumps(r.to_dict()) for r in readable))))
        return Journal(path, readable, aside)
    except OSError as error:
        raise SpecError(f"cannot keep a journal: {error.strerror or error}", at=At(str(path))) from error


def _run_of(line: str) -> Run | None:
    try:
        return Run.from_dict(json.loads(line))
    except (ValueError, KeyError, TypeError):
        return None


def _is_header(line: str) -> bool:
    try:
        return "einmap_search_journal" in json.loads(line)
    except (ValueError, TypeError):
        return False


def _difference(before: str, now: str) -> str:
    """Which values of two headers differ."""
    old, new = json.loads(before), json.loads(now)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return f"it differs in {', '.join(names)}; name another file"


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.unreadable{'' if i == 1 else f'-{i}'}") for i in range(1, 10_000))
    return next(name for name in names if not name.exists())
