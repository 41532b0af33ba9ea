"""Which files a specification may include: those in the folders of its own files, and below; above them only parts.

A part is a YAML file that is made to be included and says so: its name, or that of a folder on the way down to it,
begins with `_`. Nobody keeps secrets in such files, so a specification from a stranger may name them in the folders
above its own, up to where the user's own tree ends.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from einmap.errors import SpecError, closest
from einmap.frontends.yaml.parsing.work import FOLDER_STEPS, Work
from einmap.visible import short

_HINT = (
    "files see the folders of the files that you name, and what is below them; above them only YAML files whose name, "
    "or that of their folder, begins with _; for others add --root DIR (in Python root=DIR), or name a file there"
)
_MAGIC = frozenset("*?[")
_PART_SUFFIXES = frozenset({".yaml", ".yml", ".jinja", ".jinja2"})

type FolderNames = str | Path | Iterable[str | Path]


@dataclass(frozen=True, slots=True)
class Roots:
    """The folders that may be included from, as they are and as they were written.

    `folders`: those of the files that the user named, and those that he named as roots. `tops`: for each file's
    folder the outermost one above it that may hold parts.
    """

    folders: tuple[tuple[Path, Path], ...] = ()
    tops: tuple[tuple[Path, Path], ...] = ()

    @staticmethod
    def of(files: Iterable[Path], also: FolderNames = ()) -> Roots:
        """The folders of `files`, and those named in `also`.

        Raises OSError where a folder cannot be found out, SpecError for one in `also` that is not a folder.
        """
        homes = {file.absolute().parent.resolve(): file.parent for file in files}
        named = {folder.resolve(): folder for folder in _folders(also)}
        return Roots(tuple({**named, **homes}.items()), tuple((home, _top(home)) for home in homes))

    def above(self, target: Path) -> Path | None:
        """The folder below which a pattern may be searched for; None when it is outside."""
        for folder, _ in self.folders:
            if target.is_relative_to(folder):
                return folder
        return next((top for home, top in self.tops if _is_part(target, home, top)), None)

    def check(self, path: Path, written: str) -> Path:
        """`path` without links. Raises SpecError, which quotes it as `written`, when it is outside."""
        real = path.resolve()
        if any(real.is_relative_to(folder) for folder, _ in self.folders) or self._is_open_part(path, real):
            return real
        raise self.outside(written, real if real != path else None)

    def _is_open_part(self, path: Path, real: Path) -> bool:
        """Whether a path is a part, or a folder of parts, and no link is on the way to it."""
        is_plain = real == Path(os.path.normpath(path))
        fits = real.suffix in _PART_SUFFIXES or real.is_dir()
        return is_plain and fits and any(_is_part(real, home, top) for home, top in self.tops)

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
        for home, top in self.tops:
            if path.is_relative_to(top):
                return os.path.normpath(dict(self.folders)[home] / os.path.relpath(path, home))
        return str(path)


NO_ROOTS = Roots()
"""Those of a text that is not a file: it includes nothing."""


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
        folders = [path for path in self.matches(pattern) if path.is_dir()]
        if not folders:
            raise SpecError(f"add_to_path: no folder matches {pattern!r}", hint=f"searched below {self.home()}")
        self._folders += [path for path in folders if path not in self._folders]
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
        files = [path for path in self.matches(pattern) if path.is_file()]
        if not files:
            raise self.missing(pattern, "no file matches")
        return files

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
            raise SpecError(f"a path is a text, found {short(pattern)}")
        self._work.step()
        matches: dict[Path, None] = {}
        for folder in self._folders:
            # "a/../b" is taken for "b" here and where the file is read, so that links cannot matter
            target = Path(os.path.normpath(folder / pattern))
            root = self._roots.above(target)
            if root is None and folder != self._home:
                continue  # a folder of parts sees less than the file that added it
            if root is None:
                raise self._roots.outside(pattern)
            matches.update(dict.fromkeys(self._below(root, target.relative_to(root).parts)))
        for path in matches:
            self._roots.check(path, pattern)
        return list(matches)

    def _below(self, folder: Path, parts: tuple[str, ...]) -> Iterator[Path]:
        """Files that `parts` match in a folder, sorted; each entry looked at is counted as work."""
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


def _folders(folders: FolderNames) -> Iterator[Path]:
    for folder in [folders] if isinstance(folders, str | Path) else folders:
        if "\0" in str(folder) or not Path(folder).is_dir():
            raise SpecError(f"a root is a folder, found {str(folder)!r:.200}", hint="name a folder that exists")
        yield Path(folder)


def _top(home: Path) -> Path:
    """The outermost folder above `home` that still belongs to its tree.

    Never the root of the file system, a user's home folder or what is above that, nor a folder in which everybody
    may write, such as that of temporary files: there others could put parts.
    """
    try:
        users = Path.home().resolve()
    except (OSError, RuntimeError):
        users = home
    top = home
    for folder in home.parents:
        if folder == folder.parent or users.is_relative_to(folder) or _is_open_to_all(folder):
            break
        top = folder
    return top


def _is_open_to_all(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return True


def _is_part(target: Path, home: Path, top: Path) -> bool:
    """Whether a path below `top` says by a name that it is made to be included from elsewhere.

    What counts are the names on the way down from the innermost folder that holds both `target` and `home`. Down to
    the first that begins with `_` they are plain names: no pattern makes the folders above be searched.
    """
    if not target.is_relative_to(top):
        return False
    shared = len(Path(os.path.commonpath([target, home])).parts)
    names = target.parts[shared:]
    marked = next((i for i, name in enumerate(names) if name.startswith("_")), None)
    if marked is None or any(name.startswith(".") for name in names):
        return False
    return not any(_MAGIC & set(name) for name in names[: marked + 1])
