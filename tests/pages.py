"""Pages of docs/ that are run: their files are written, their commands and programs executed, what they print compared.

A page is run in an empty folder, from top to bottom:

- a block of YAML, JSON or text becomes the file that is named first in the paragraph before, if that ends with a colon;
- a `console` block holds commands (`$ einmap ...`, `$ cat FILE`, `$ python FILE`) with what they print, on 80 columns;
  a line "..." stands for any lines, and how long a search took ("in 1.2 s") may differ;
- Python blocks are one program; a plain block after "prints" is what the one before it prints.

`python -m tests.pages docs/PAGE.md` writes into the page what its commands print, blocks with "..." excepted.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from einmap.cli.main import main

FENCE = re.compile(r"^```([\w-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"`([\w-]+\.(?:yaml|json|txt|csv|py))`")
TIMES = re.compile(r"(?:\(\d[\d,]* evaluated )?\bin \d[\d.]* (?:m?s|min)\b")
TERMINAL = {"COLUMNS": "80", "NO_COLOR": "1"}


@dataclass
class Page:
    """One run of a page: `differences` are triples (block number, expected, printed)."""

    text: str
    program: dict[str, object] = field(default_factory=dict)
    differences: list[tuple[int, str, str]] = field(default_factory=list)
    printed: str = ""

    def run(self) -> str:
        """Run every block in the working folder; returns the page with what was printed in place of what it shows."""
        end, parts = 0, []
        for number, block in enumerate(FENCE.finditer(self.text)):
            before = self.text[end : block.start()]
            parts += [before, f"```{block[1]}\n{self.block(number, block[1], block[2], before)}```"]
            end = block.end()
        return "".join(parts) + self.text[end:]

    def block(self, number: int, kind: str, body: str, before: str) -> str:
        """Do what a block says; returns its text as it should be."""
        paragraph = before.rstrip().rpartition("\n\n")[2]
        file = FILE_NAME.search(paragraph) if paragraph.endswith(":") else None
        if file is not None and kind in ("yaml", "json", "text"):
            Path(file[1]).write_text(body)
        elif kind == "console":
            return "".join(
                self.command(number, text) for text in re.split(r"^(?=\$ )", body, flags=re.MULTILINE) if text
            )
        elif kind == "python":
            self.printed = captured(lambda: exec(compile(body, f"block {number}", "exec"), self.program))
        elif re.search(r"\bprints\b[^`]*\Z", before):
            return self.compared(number, body, self.printed)
        return body

    def command(self, number: int, text: str) -> str:
        """Run one command and compare what it prints with what stands below it."""
        line, _, shown = text.removeprefix("$ ").partition("\n")
        return f"$ {line}\n{self.compared(number, shown, output_of(shlex.split(line)))}"

    def compared(self, number: int, shown: str, printed: str) -> str:
        """Note a difference; returns what the page should show."""
        if not matches(shown, printed):
            self.differences.append((number, shown, printed))
        return shown if matches(shown, printed) or "..." in shown.splitlines() else printed


def output_of(words: list[str]) -> str:
    """What a command prints, on both streams."""
    match words:
        case ["einmap", *arguments]:
            return captured(lambda: main(arguments))
        case ["cat", file]:
            return Path(file).read_text()
        case ["python", file]:
            return captured(lambda: exec(compile(Path(file).read_text(), file, "exec"), {"__name__": "__main__"}))
    raise AssertionError(f"pages run einmap, cat and python, not {words}")


def captured(action) -> str:
    """What is printed meanwhile."""
    stream = io.StringIO()
    streams = contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream)
    with mock.patch.dict(os.environ, TERMINAL), streams[0], streams[1], contextlib.suppress(SystemExit):
        action()
    return stream.getvalue()


def matches(shown: str, printed: str) -> bool:
    """Whether a text is as shown, where a line "..." stands for any lines; times, and what was evaluated in them, may
    differ.
    """
    timeless = [TIMES.sub("TIME", text) for text in (shown, printed)]
    parts = re.split(r"^\.\.\.\n", timeless[0], flags=re.MULTILINE)
    pattern = r"(?:.*\n)*?".join(map(re.escape, parts))
    return re.fullmatch(pattern, timeless[1]) is not None


def run(path: Path) -> Page:
    """A page, run in a folder of its own."""
    page = Page(path.read_text())
    page.run()
    return page


def write_files(path: Path) -> str:
    """Write the files of a page into the working folder, and run nothing; returns the text of the page."""
    page = Page(path.read_text())
    end = 0
    for block in FENCE.finditer(page.text):
        if block[1] in ("yaml", "json", "text"):
            page.block(0, block[1], block[2], page.text[end : block.start()])
        end = block.end()
    return page.text


if __name__ == "__main__":
    for name in map(Path, sys.argv[1:]):
        target = name.resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            target.write_text(Page(target.read_text()).run())
