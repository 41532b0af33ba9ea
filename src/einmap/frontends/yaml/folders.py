"""Which files a specification may include: those in the folders of its own files, and below."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from einmap.errors import SpecError, closest
from einmap.frontends.yaml.work import FOLDER_STEPS, Work

_HINT = (
    "files see the folders of the files that you name, and what is below them; "
    "to include from another folder name a file there as well"
)
_MAGIC = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Roots:
    """The folders of the files that the user named: as they are, and as they were written."""

    folders: tuple[tuple[Path, Path], ...] = ()

    @staticmethod
    def of(files: Iterable[Path]) -> Roots:
        """The folders of `files`. Raises OSError where a folder cannot be found out."""
        return Roots(tuple({file.absolute().parent.resolve(): file.parent for file in files}.items()))

    def check(self, path: Path, written: str) -> Path:
        """`path` without links. Raises SpecError, which quotes it as `written`, when it is outside."""
        real = path.resolve()
        if not any(real.is_relative_to(folder) for folder, _ in self.folders):
            raise self.outside(written, real if real != path else None)
        return real

    def outside(self, written: str, real: Path | None = None) -> SpecError:
        """The error for a path that leaves the folders."""
        target = f" (it is {real})" if real is not None else ""
        folders = ", ".join(str(folder) for folder, _ in self.folders)
        return SpecError(f"the path {written!r} leads out of {folders}{target}", hint=_HINT)

    def shown(self, path: Path) -> str:
        """A path below one of the folders, as the user would write it."""
        for folder, written in self.folders:
            if path.is_relative_to(folder):
                return str(written / path.relative_to(folder))
        return str(path)


NO_ROOTS = Roots()
"""Those of a text that is no file: it includes nothing."""


class IncludePath:
    """Where one file looks for others: its own folder, then those that it adds."""

    def __init__(self, home: Path | None, roots: Roots, work: Work) -> None:
        self._home = home
        self._folders = [] if home is None else [home]
        self._roots = roots
        self._work = work

    def cwd(self) -> str:
        """The folder of the current file, not of the process."""
        return str(self.home())

    def add_to_path(self, pattern: str) -> str:
        """Search the matching folders too; renders as nothing."""
        found = [path for path in self.matches(pattern) if path.is_dir()]
        if not found:
            raise SpecError(f"add_to_path: no folder matches {pattern!r}", hint=f"searched below {self.home()}")
        self._folders += [path for path in found if path not in self._folders]
        return ""

    def find_paths(self, pattern: str) -> list[str]:
        """All matching paths: those in the file's folder first, then along the include path."""
        return [str(path) for path in self.matches(pattern)]

    def find_path(self, pattern: str) -> str:
        """The first of `find_paths`; an error if there is none."""
        paths = self.find_paths(pattern)
        if not paths:
            raise self.missing(pattern, "find_path: nothing matches")
        return paths[0]

    def path_exists(self, pattern: str) -> bool:
        """Whether `find_path` finds something."""
        return bool(self.matches(pattern))

    def files(self, pattern: str) -> list[Path]:
        """The matching files, in the order of `find_paths`. Raises SpecError when there are none."""
        found = [path for path in self.matches(pattern) if path.is_file()]
        if not found:
            raise self.missing(pattern, "no file matches")
        return found

    def home(self) -> Path:
        """The folder of the file. Raises SpecError for a text that has none."""
        if self._home is None:
            text = "a specification that is not read from a file has no folder"
            raise SpecError(text, hint="write it into a file and load that")
        return self._home

    def missing(self, pattern: str, problem: str) -> SpecError:
        """The error for a pattern without matches, with a name like it."""
        names = [entry.name for folder in self._folders for entry in _entries(folder)]
        guess = closest(Path(pattern).name, names)
        hint = f"did you mean {guess!r}? " if guess else ""
        return SpecError(f"{problem} {pattern!r}", hint=f"{hint}searched: {', '.join(map(str, self._folders))}")

    def matches(self, pattern: str) -> list[Path]:
        """All paths that a pattern names, each once. Raises SpecError when one is outside the roots."""
        self.home()
        if not isinstance(pattern, str):
            raise SpecError(f"a path is a text, found {pattern!r}")
        self._work.step()
        found: dict[Path, None] = {}
        for folder in self._folders:
            # "a/../b" is taken for "b" here and where the file is read, so that links cannot matter
            target = Path(os.path.normpath(folder / pattern))
            root = next((root for root, _ in self._roots.folders if target.is_relative_to(root)), None)
            if root is None:
                raise self._roots.outside(pattern)
            found.update(dict.fromkeys(self._below(root, target.relative_to(root).parts)))
        for path in found:
            self._roots.check(path, pattern)
        return list(found)

    def _below(self, folder: Path, parts: tuple[str, ...]) -> Iterator[Path]:
        """What `parts` match in a folder, sorted; each entry looked at is counted as work."""
        if not parts:
            yield folder
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._below(folder, rest)
            for entry in self._counted(folder):
                if entry.is_dir(follow_symlinks=False):
                    yield from self._below(folder / entry.name, parts)
        elif not _MAGIC & set(first) or (folder / first).exists():
            if (folder / first).exists():
                yield from self._below(folder / first, rest)
        else:
            for entry in self._counted(folder):
                if fnmatchcase(entry.name, first) and not entry.name.startswith("."):
                    yield from self._below(folder / entry.name, rest)

    def _counted(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        self._work.step(FOLDER_STEPS)
        for entry in _entries(folder):
            self._work.step()
            yield entry


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
