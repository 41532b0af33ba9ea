"""Where templates write: a page that remembers the lines of the file, and captures for parts of it."""

from __future__ import annotations

from array import array
from typing import Protocol

from einmap.frontends.yaml.parsing.places import Places
from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.tools import MAX_LENGTH, stop

_LINES = 2
"""Lines whose places are kept in the time of one step."""


class Out(Protocol):
    """Where a template writes."""

    def write(self, text: str, line: int | None = None) -> None:
        """Add a value; `line` is where the template writes it."""
        ...

    def data(self, text: str, line: int) -> None:
        """Add constant text of the template, which starts in `line`."""
        ...


class Capture:
    """The text that a macro, a filter block or a block assignment gives."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._pieces: list[str] = []
        self._length = 0

    def write(self, text: str, line: int | None = None) -> None:  # noqa: ARG002 - a page keeps it
        """Add a text."""
        self._length += len(text)
        if self._length > MAX_LENGTH:
            stop(f"a text in the template is longer than {MAX_LENGTH:,}")
        self._work.step(len(text) // 32)
        self._pieces.append(text)

    def data(self, text: str, line: int) -> None:
        """Add constant text of the template."""
        self.write(text, line)

    def text(self) -> str:
        """The whole text."""
        return "".join(self._pieces)


class Page:
    """The text that a file renders to, and from which of its lines what begins where."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._pieces: list[str] = []
        self._length = 0
        self._offsets = array("q")
        self._lines = array("q")

    def write(self, text: str, line: int | None = None) -> None:
        """Add a value; `line` is where the template writes it."""
        if line is not None:
            self._mark(0, line)
        self._work.write(len(text))
        self._work.step(len(text) // 32 + text.count("\n") // _LINES)
        self._length += len(text)
        self._pieces.append(text)

    def data(self, text: str, line: int) -> None:
        """Add constant text of the template, which starts in `line`."""
        self._mark(0, line)
        end = text.find("\n")
        while end >= 0:
            line += 1
            self._mark(end + 1, line)
            end = text.find("\n", end + 1)
        self.write(text)

    def _mark(self, ahead: int, line: int) -> None:
        self._offsets.append(self._length + ahead)
        self._lines.append(line)

    def text(self) -> str:
        """The whole text."""
        return "".join(self._pieces)

    def places(self, source: str, file: str) -> Places:
        """Where the lines of the text come from; `source` is the template."""
        of_source = source.split("\n")
        lines, columns = array("q"), array("q")
        start = mark = 0
        for text in self.text().split("\n"):
            line, mark = self._source_line(text, start, mark)
            lines.append(line)
            columns.append(_agreeing(text, of_source[line - 1]) if 0 < line <= len(of_source) else 0)
            start += len(text) + 1
        return Places(file, lines, columns)

    def _source_line(self, text: str, start: int, mark: int) -> tuple[int, int]:
        """The line that the last mark before visible text names, or the first mark after it; and the next mark."""
        line, seen, is_found = 0, 0, False
        end = start + len(text)
        while mark < len(self._offsets) and self._offsets[mark] <= end:
            at = self._offsets[mark] - start
            is_found = is_found or bool(line and text[seen:at].strip())
            if not is_found:
                line, seen = self._lines[mark], at
            mark += 1
        return line, mark


def _agreeing(text: str, source: str) -> int:
    """The last column up to which two lines are the same, the one after it included."""
    length = min(len(text), len(source))
    if text[:length] == source[:length]:
        return length + 1
    return next(i for i in range(length) if text[i] != source[i]) + 1
