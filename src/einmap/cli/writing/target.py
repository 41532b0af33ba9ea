"""The file that a command is to write: nothing of the user's is overwritten unasked, and an input never."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Protocol

from einmap.cli.output import print_file, print_hint
from einmap.errors import At, SpecError
from einmap.frontends.files import (
    check_target,
    exists,
    file_exists,
    write_atomically,
    write_bytes_atomically,
    write_pieces_atomically,
)
from einmap.frontends.yaml.spec import example_paths


class Writes(Protocol):
    """Something that is written after files were read."""

    def spare(self, files: Sequence[Path]) -> None:
        """Raise SpecError when one of `files` would be replaced."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """A place where a file may be written; `force`: what stands there may be replaced, unless it is an input."""

    path: Path
    force: bool = False

    @staticmethod
    def of(path: Path | None, force: bool, inputs: Iterable[str | Path] = ()) -> Target | None:
        """The target that an option names, checked before anything is read; None where the option is not given.

        `inputs`: the words of the command line that stand for files. Raises SpecError when no file can be written
        there, when one of `inputs` would be replaced, and when a file is there without `force`.
        """
        if path is None:
            return None
        target = Target(path, force)
        if str(path) in (".", "-"):
            hint = "leave the option out to print" if str(path) == "-" else "write a name after the option"
            raise SpecError("this is not the name of a file", at=At(str(path)), hint=hint)
        check_target(path)
        target.spare([file for word in inputs for file in paths_of(str(word))])
        if path.exists() and not force:
            raise file_exists(path)
        return target

    @staticmethod
    def several(paths: Sequence[Path | None], force: bool, inputs: Sequence[str | Path] = ()) -> list[Target | None]:
        """The targets of several options, as `of` gives them. Raises SpecError where two are one file, too."""
        seen: set[Path] = set()
        for path in paths:
            if path is not None and path.absolute() in seen:
                raise SpecError(f"two outputs name the same file {str(path)!r}", hint="give each a name of its own")
            seen |= {path.absolute()} if path is not None else set()
        return [Target.of(path, force, inputs) for path in paths]

    def spare(self, files: Sequence[Path]) -> None:
        """Raise SpecError when one of `files`, under any name or link, or a file of einmap would be replaced."""
        if any(_is_same(self.path, file) for file in files):
            text = "the output would replace a file of the specification"
            raise SpecError(text, at=At(str(self.path)), hint="choose another name")
        package = Path(str(resources.files("einmap"))).resolve()
        if self.path.resolve().is_relative_to(package):
            text = "the output would go into einmap's own directory"
            raise SpecError(text, at=At(str(self.path)), hint="choose another directory")

    def write(self, content: str | bytes) -> None:
        """Write the whole file, or nothing; SpecError says what is in the way."""
        if isinstance(content, str):
            write_atomically(self.path, content, replace=self.force)
        else:
            write_bytes_atomically(self.path, content, replace=self.force)

    def write_pieces(self, pieces: Iterable[bytes]) -> None:
        """Write a file that is made piece by piece: all of it, or nothing."""
        write_pieces_atomically(self.path, pieces, replace=self.force)


def write_or_print(text: str, target: Target | None) -> None:
    """Write `text` into the file, and say so, or print it."""
    if target is None:
        print_file(text)
        return
    target.write(text)
    print_hint(f"wrote {target.path}")


def paths_of(file: str) -> list[Path]:
    """The files that a word of the command line stands for: a path, the name of an example, or a pattern."""
    if exists(file):
        return [Path(file)]
    shipped = example_paths()
    if file in shipped:
        return [shipped[file]]
    # Path.glob takes no absolute patterns.
    return [Path(path) for path in glob.glob(file, recursive=True) if Path(path).is_file()]  # noqa: PTH207


def _is_same(target: Path, file: Path) -> bool:
    """Whether both are one file: the same place, also through links of either kind."""
    try:
        return target.resolve() == file.resolve() or target.samefile(file)
    except OSError:  # one of them is not there
        return False
