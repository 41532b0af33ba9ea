"""`--html` and `--figures`: a report as one HTML file, and its figures as files, for every command that has them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import einmap
from einmap.cli.output import print_hint
from einmap.cli.writing.target import Target
from einmap.errors import At, SpecError
from einmap.frontends.files import file_exists

if TYPE_CHECKING:
    from einmap.report.html.parts import Page

_ENDINGS = (".html", ".htm")
_OF_REPORT = ("html", "figures", "force", "as_json")
"""Parameters of the commands that change nothing in a report."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder for figures. `force`: files of these names are replaced, unless one was read."""

    path: Path
    force: bool

    @staticmethod
    def of(path: Path, force: bool) -> Folder:
        """The folder, checked before long work. Raises SpecError when it cannot be one, or has files without force."""
        if path.exists() and not path.is_dir():
            raise SpecError("this is not a folder", at=At(str(path)), hint="name a new one")
        if not path.exists() and not path.absolute().parent.is_dir():
            raise SpecError("the folder in which it is to be made does not exist", at=At(str(path)))
        if path.is_dir() and any(path.iterdir()) and not force:
            hint = "name a new folder, or let figures be replaced with --force"
            raise SpecError("the folder is not empty", at=At(str(path)), hint=hint)
        return Folder(path, force)

    def spare(self, files: Sequence[Path]) -> None:
        """Raise SpecError when one of `files` is a picture in the folder, which a figure might replace."""
        for path in self.path.glob("*"):
            if path.suffix in (".svg", ".png"):
                Target(path).spare(files)

    def write(self, files: Iterable[tuple[str, bytes]]) -> int:
        """Write the files, each whole or not at all, and say how many. Raises SpecError for what is in the way."""
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise SpecError(f"cannot make the folder: {error.strerror or error}", at=At(str(self.path))) from error
        count = 0
        for name, content in files:
            path = self.path / name
            if path.exists() and not self.force:
                raise file_exists(path)
            Target(path, self.force).write(content)
            count += 1
        return count


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Where a report is wanted; `command`: the words that make it again."""

    page: Target | None
    folder: Folder | None
    command: tuple[str, ...] = ()

    @staticmethod
    def of(
        ctx: typer.Context, html: Path | None, figures: Path | None, force: bool, inputs: Iterable[str | Path] = ()
    ) -> ReportFiles:
        """Files that the options name, checked before anything is read.

        Raises SpecError where a file cannot be written, is there without `force`, or is an input, and where
        vl-convert is missing. A usage error for an HTML file of another ending.
        """
        if html is not None and html.suffix.lower() not in _ENDINGS:
            raise typer.BadParameter(f"{html}: the report is HTML, name it {html.stem}.html", param_hint="--html")
        if html is not None or figures is not None:
            from einmap.report.html.vega import check_html

            check_html()
        folder = None if figures is None else Folder.of(figures, force)
        return ReportFiles(Target.of(html, force, inputs), folder, tuple(command_words(ctx, without=_OF_REPORT)))

    def spare(self, files: Sequence[Path]) -> None:
        """Raise SpecError when one of `files` would be replaced."""
        for one in (self.page, self.folder):
            if one is not None:
                one.spare(files)

    def write(self, make: Callable[[], Page]) -> None:
        """Make the page where it is wanted, and write it. Raises SpecError for what is in the way."""
        if self.page is None and self.folder is None:
            return
        page = replace(make(), command=shlex.join(self.command), version=einmap.__version__)
        if self.page is not None:
            from einmap.report.html.page import to_html

            self.page.write(to_html(page))
            print_hint(f"wrote the report to {self.page.path}")
        if self.folder is not None:
            from einmap.report.html.figures import figure_files

            count = self.folder.write(figure_files(page))
            print_hint(f"wrote {count} figures to {self.folder.path}")


def command_words(ctx: typer.Context, without: Sequence[str] = ()) -> list[str]:
    """The words of the command line that runs, options by their long names, but for the parameters `without`."""
    values: list[str] = []
    options: list[str] = []
    for parameter in ctx.command.params:
        name, value = str(parameter.name), ctx.params.get(str(parameter.name))
        if name in without or not _is_given(ctx, name):
            continue
        if parameter.param_type_name == "argument":
            values += [str(part) for part in _several(value)]
        else:
            options += _option_words(parameter, value)
    return ["einmap", str(ctx.command.name), *values, *options]


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option_words(parameter: Any, value: object) -> list[str]:
    """`--define M=4 --define N=2`; a flag by the name that stands for its value."""
    if isinstance(value, bool):
        names = parameter.opts if value else parameter.secondary_opts
        return [_long(names)]
    return [word for part in _several(value) for word in (_long(parameter.opts), str(part))]


def _long(names: Sequence[str]) -> str:
    return next((name for name in names if re.match("--", name)), names[0])


def _several(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value]
