"""A folder that a command is to write: nothing of the user's is overwritten unasked, and an input never."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from einmap.cli.writing.target import Target
from einmap.errors import At, SpecError
from einmap.frontends.files import check_target, file_exists, write_folder


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder for several files; `force`: files that stand there may be replaced, unless they are inputs."""

    path: Path
    force: bool = False

    @staticmethod
    def of(path: Path | None, force: bool) -> Folder | None:
        """The folder that an option names; None where it is not given. Raises SpecError when it cannot be one."""
        if path is None:
            return None
        if path.exists() and not path.is_dir():
            raise SpecError("this is a file, not a folder", at=At(str(path)), hint="name a folder, or a new one")
        if not path.resolve().parent.is_dir():
            raise SpecError("the folder above it does not exist", at=At(str(path)), hint="create it first")
        return Folder(path, force)

    def write(self, files: Mapping[str, str], inputs: Iterable[Path]) -> None:
        """Write all files, or none. Raises SpecError when one is there without `force`, or is one of `inputs`."""
        read = list(inputs)
        for name in files:
            target = Target(self.path / name, self.force)
            target.spare(read)
            if target.path.parent.exists():
                check_target(target.path)
            if target.path.exists() and not self.force:
                raise file_exists(target.path)
        write_folder(self.path, files, replace=self.force)
