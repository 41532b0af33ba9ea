"""Where the lines of a text come from: a rendered template remembers the lines of its source.

Invisible marks stand at the start of every piece and line of constant text while a template is
rendered; `unmarked` takes them out again and keeps which line each of them named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from einmap.errors import At

# Characters for private use: allowed in YAML, and written by nobody.
_START, _END = "\ue002", "\ue003"
_MARK = re.compile(f"{_START}([0-9]+){_END}")


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a text read from `file`.

    `lines` is None where the text is the file itself; else it gives, for each line of the text, the line
    of the file that it comes from (None: from a macro, an included text or a value of several lines).
    `columns` says up to which column text and file agree in that line.
    """

    file: str
    lines: tuple[int | None, ...] | None = None
    columns: tuple[int, ...] = ()

    def at(self, line: int, column: int | None = None) -> At:
        """The place of a 1-based line and column of the text."""
        if self.lines is None:
            return At(self.file, line, column)
        source = self.lines[line - 1] if line <= len(self.lines) else None
        if source is None:
            return At(f"{self.file} (rendered)", line, column)
        return At(self.file, source, column if column is not None and column <= self.columns[line - 1] else None)


def marked(text: str, line: int) -> str:
    """`text`, which starts in `line` of its file, with a mark at its start and after each line break."""
    first, *rest = text.split("\n")
    return "\n".join([_mark(line) + first, *(_mark(line + i) + part for i, part in enumerate(rest, start=1))])


def unmarked(text: str, source: str, file: str) -> tuple[str, Places]:
    """The text without its marks, and where its lines come from; `source` is the template."""
    rendered, lines, columns = [], [], []
    of_source = source.split("\n")
    for marked_line in text.split("\n"):
        plain = _MARK.sub("", marked_line)
        line = _source_line(marked_line)
        rendered.append(plain)
        lines.append(line)
        columns.append(_agreeing(plain, of_source[line - 1]) if line and line <= len(of_source) else 0)
    return "\n".join(rendered), Places(file, tuple(lines), tuple(columns))


def _mark(line: int) -> str:
    return f"{_START}{line}{_END}"


def _source_line(text: str) -> int | None:
    """The line that the last mark before visible text names, or the first mark after it."""
    line, end = None, 0
    for mark in _MARK.finditer(text):
        if line is not None and text[end : mark.start()].strip():
            break
        line, end = int(mark.group(1)), mark.end()
    return line


def _agreeing(text: str, source: str) -> int:
    """The last column up to which two lines are the same, the one after it included."""
    length = min(len(text), len(source))
    same = next((i for i in range(length) if text[i] != source[i]), length)
    return same + 1
