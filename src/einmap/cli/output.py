"""Printed output of commands: reports and JSON on stdout, errors and notes on stderr."""

from __future__ import annotations

import io
import json
import math
import numbers
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.errors import MOST_PROBLEMS, EinmapError, ManyErrors, Note
from einmap.report.text.console import SafeConsole
from einmap.visible import visible

MOST_NOTES = 10
"""Notes that are printed; all of them are in the JSON document."""
MOST_BITS = 10_000
"""Integers of more are text in JSON, in hexadecimal digits."""


def console() -> SafeConsole:
    """Where reports go. Characters that the stream cannot write are replaced."""
    _tolerate(sys.stdout)
    return SafeConsole()


def error_console() -> SafeConsole:
    """Where errors, notes and progress go."""
    _tolerate(sys.stderr)
    return SafeConsole(stderr=True)


def print_report(report: RenderableType) -> None:
    """Print a report in the width of the terminal, without the blanks that fill its lines."""
    shown = console()
    with shown.capture() as captured:
        shown.print(report)
    sys.stdout.write("".join(f"{line.rstrip(' ')}\n" for line in captured.get().splitlines()))
    sys.stdout.flush()


def print_text(text: str) -> None:
    """Print text as it is, lines of any length; what could steer the terminal is escaped."""
    _tolerate(sys.stdout)
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


def print_file(text: str) -> None:
    """Print the content of a file, character by character; in UTF-8 where the stream cannot write it otherwise."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)
    sys.stdout.flush()


def print_json(document: Mapping[str, Any]) -> None:
    """Print exactly one JSON document; infinities and NaN, which JSON lacks, become null."""
    sys.stdout.write(json.dumps(plain(document), indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """`value` in the types of JSON."""
    match value:
        case None | bool() | str():
            return value
        case numbers.Integral():
            # Python writes no decimal numbers of more digits
            return int(value) if int(value).bit_length() < MOST_BITS else hex(value)
        case numbers.Real():
            return float(value) if math.isfinite(value) else None
        case Mapping():
            return {str(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _:
            return str(value)


def print_error(error: EinmapError) -> None:
    """Print the first problems of `error`, each with its place and hint, and how many more there are."""
    problems = _problems(error)
    for problem in problems[:MOST_PROBLEMS]:
        _print("error", "bold red", str(problem))
    if (more := len(problems) - MOST_PROBLEMS) > 0:
        _print("error", "bold red", f"... and {more:,} more problems")


def print_notes(notes: Iterable[Note]) -> None:
    """Print the first notes, and how many more there are."""
    notes = list(notes)
    for note in notes[:MOST_NOTES]:
        _print("note", "bold yellow", str(note))
    if len(notes) > MOST_NOTES:
        _print("note", "bold yellow", f"... and {len(notes) - MOST_NOTES} more (--json has them all)")


def print_hint(text: str) -> None:
    """Print a hint for the user on stderr."""
    _print("einmap", "bold", text)


def _problems(error: EinmapError) -> list[EinmapError]:
    if isinstance(error, ManyErrors):
        return [inner for problem in error.problems for inner in _problems(problem)]
    return [error]


def _print(word: str, style: str, text: str) -> None:
    error_console().print(Text.assemble((f"{word}: ", style), text), soft_wrap=True)


def _tolerate(stream: Any) -> None:
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
