"""Results of commands: a report or JSON on stdout, and files of tables, pages and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from einmap.cli.options import OUTPUT, Without, flag, force_option, group, option
from einmap.cli.output import print_json, print_report
from einmap.cli.writing.html_report import ReportFiles
from einmap.cli.writing.table_files import TableFiles

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA = 1
"""Version of the JSON documents of commands."""
INTERRUPTED = 130
"""Exit status of work that was interrupted before there was a result."""


@group
class Output:
    """Files for a result, and how it is printed."""

    ctx: typer.Context
    csv: Path | None = option("FILE", "Write the numbers as a CSV table.", panel=OUTPUT)
    parquet: Path | None = option("FILE", "Write them as Parquet; needs the extra tables.", panel=OUTPUT)
    table: str | None = option("NAME", "Which table of the result (docs/tables.md).", panel=OUTPUT)
    html: Path | None = option(
        "FILE.html", "Write a report with plots and drawings as one file (extra html).", panel=OUTPUT
    )
    figures: Path | None = option(
        "DIR", "Write its figures as SVG and PNG into this folder (extra html).", panel=OUTPUT
    )
    force: bool = force_option()
    as_json: bool = flag("Print one JSON document instead of the report.", "--json", panel=OUTPUT)

    def files(self, kind: str, inputs: Sequence[str | Path]) -> ResultFiles:
        """The files that are asked for, checked before anything is read.

        `kind`: the full name of the class of the result; `inputs`: words for files that may not be replaced. Raises
        SpecError for what is in the way, and usage errors for options that do not go together.
        """
        report = ReportFiles.of(self.ctx, self.html, self.figures, self.force, inputs)
        tables = TableFiles.of(kind, self.csv, self.parquet, self.table, force=self.force, inputs=inputs)
        return ResultFiles(tables, report)

    @property
    def has_page(self) -> bool:
        """Whether an HTML report or its figures are wanted."""
        return self.html is not None or self.figures is not None

    def show(self, document: Callable[[], Mapping[str, Any]], report: Callable[[], RenderableType]) -> None:
        """Print the result: one JSON document, or the report."""
        if self.as_json:
            print_json(document())
        else:
            print_report(report())


Tables = Annotated[Output, Without({"html", "figures"})]
"""The options of a command that has no HTML report."""
JsonAlone = Annotated[Output, Without({"csv", "parquet", "table", "html", "figures", "force"})]


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Files of tables, a page and figures, as far as they are wanted."""

    tables: TableFiles
    report: ReportFiles

    def spare(self, files: Sequence[Path]) -> None:
        """Raise SpecError when one of `files` would be replaced."""
        self.tables.spare(files)
        self.report.spare(files)

    def write(self, result: Any, page: str = "", *arguments: Any) -> None:
        """Write what is wanted, and say so. Raises SpecError for what is in the way.

        `page`: the full name of the function that makes the HTML report of these arguments; it is imported for one.
        """
        self.tables.write(result)
        if page:
            module, _, name = page.rpartition(".")
            self.report.write(lambda: getattr(import_module(module), name)(*arguments))
