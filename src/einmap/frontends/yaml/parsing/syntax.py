"""YAML syntax errors in the words of a specification's author: where, what, and what to try."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from einmap.errors import At, SpecError
from einmap.frontends.yaml.parsing.places import Places

QUOTE_EINSUM = 'put quotes around Einsum strings that contain ": ", e.g. - "O[p] = I[W: p+r] * F[r]"'
QUOTE_OPERATOR = 'put quotes around the operator, e.g. operator: ">="'
_OPERATOR = re.compile(r":[ \t]+>(?:=|[ \t]|$|,)")
_EINSUM = re.compile(r"\w\s*\[[^\]]*\]\s*=")
_BAD_START = re.compile(r"character '([@`%>|])' that cannot start")


def at_mark(mark: Any, places: Places) -> At:
    """The place of a ruamel mark, which counts lines and columns from 0."""
    return At(places.file) if mark is None else places.at(mark.line + 1, mark.column + 1)


def explain(error: Exception, text: str, places: Places) -> SpecError:
    """The SpecError for what the YAML library raised."""
    match error:
        case ReaderError():
            return _bad_character(error, text, places)
        case MarkedYAMLError():
            return _bad_syntax(error, text, places)
        case RecursionError():
            return SpecError("lists, dictionaries and includes are nested too deeply", at=At(places.file))
        case YAMLError():
            return SpecError(f"not valid YAML: {error}", at=At(places.file))
        case _:  # the library's scanner fails in its own ways on a few malformed directives and escapes
            return SpecError(f"not valid YAML: {str(error) or type(error).__name__}", at=At(places.file))


def _bad_character(error: Any, text: str, places: Places) -> SpecError:
    before = text[: error.position]
    at = places.at(before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1)
    return SpecError(
        f"the character U+{ord(text[error.position]):04X} is not allowed in YAML",
        at=at,
        hint='remove it, or write it as an escape in double quotes, e.g. "\\u0007"',
    )


def _bad_syntax(error: Any, text: str, places: Places) -> SpecError:
    mark = error.problem_mark or error.context_mark
    at = at_mark(mark, places)
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or r"'\t'" in str(error.problem):
        return SpecError("tabs are not allowed for indentation", at=at, hint="indent with spaces")
    problem = " ".join(part for part in (error.problem, error.context and f"({error.context})") if part)
    return SpecError(f"not valid YAML: {problem}", at=at, hint=_hint(line, problem))


def _hint(line: str, problem: str) -> str | None:
    if _OPERATOR.search(line):
        return QUOTE_OPERATOR
    if _EINSUM.search(line):
        return QUOTE_EINSUM
    if start := _BAD_START.search(problem):
        return f"put quotes around text that starts with {start.group(1)}"
    if "mapping values are not allowed" in problem:
        return 'put quotes around text that contains ": ", or check the indentation'
    return None
