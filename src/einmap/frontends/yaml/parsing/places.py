"""Where the lines of a text come from: a rendered template remembers the lines of its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from einmap.errors import At


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a text read from `file`.

    `lines` is None where the text is the file itself; else it gives, for each line of the text, the line
    of the file that it comes from (0: from a macro, an included text or a value of several lines).
    `columns` says up to which column text and file agree in that line.
    """

    file: str
    lines: Sequence[int] | None = None
    columns: Sequence[int] = ()

    def at(self, line: int, column: int | None = None) -> At:
        """The place of a 1-based line and column of the text."""
        if self.lines is None:
            return At(self.file, line, column)
        source = self.lines[line - 1] if line <= len(self.lines) else 0
        if source == 0:
            return At(f"{self.file} (rendered)", line, column)
        return At(self.file, source, column if column is not None and column <= self.columns[line - 1] else None)
