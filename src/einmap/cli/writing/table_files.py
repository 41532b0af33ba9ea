"""`--csv`, `--parquet` and `--table`: the numbers of a result as files of tables, for every command that has some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from einmap.cli.output import print_hint
from einmap.cli.writing.target import Target
from einmap.errors import SpecError
from einmap.optional import require


@dataclass(frozen=True)
class TableFiles:
    """The files of tables that a command is to write, and which table of its result."""

    csv: Target | None
    parquet: Target | None
    table: str | None

    @staticmethod
    def of(
        kind: str, csv: Path | None, parquet: Path | None, table: str | None, *, force: bool, inputs: Iterable[Any]
    ) -> TableFiles:
        """The files that options name, checked before anything is read or computed.

        `kind`: the full name of the class of the result. Raises SpecError for a table that it does not have, for files
        that cannot be written and for a missing library; a usage error for a table without a file.
        """
        inputs = list(inputs)
        if csv is None and parquet is None:
            if table is not None:
                raise typer.BadParameter("it chooses what --csv or --parquet writes", param_hint="--table")
            return TableFiles(None, None, None)
        from einmap.report.frames.kinds import table_named
        from einmap.report.frames.write import EXTRA

        try:
            table_named(kind, table)
        except SpecError as error:
            raise typer.BadParameter(f"{error.message}; {error.hint}", param_hint="--table") from None
        if parquet is not None:
            require("pyarrow.parquet", EXTRA)
        if csv is not None and parquet is not None and csv.resolve() == parquet.resolve():
            raise typer.BadParameter("--csv names the same file", param_hint="--parquet")
        return TableFiles(Target.of(csv, force, inputs), Target.of(parquet, force, inputs), table)

    def spare(self, files: Sequence[Path]) -> None:
        """Raise SpecError when one of `files` would be replaced."""
        for target in (self.csv, self.parquet):
            if target is not None:
                target.spare(files)

    def write(self, result: Any) -> None:
        """Write what was asked for, and say so. Raises SpecError when a file cannot be written."""
        if self.csv is None and self.parquet is None:
            return
        from einmap.report.frames.kinds import frame_of
        from einmap.report.frames.write import csv_text, parquet_bytes

        frame = frame_of(result, self.table)
        for target, content in ((self.csv, csv_text), (self.parquet, parquet_bytes)):
            if target is not None:
                target.write(content(frame))
                print_hint(f"wrote the table {frame.name} to {target.path}")
