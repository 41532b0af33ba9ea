"""Markdown of the reference pages: paragraphs, lists of fields, tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from einmap.spec.schema.base import Input
from einmap.spec.schema.fields import FieldText, example_texts, fields_of

WIDTH = 140
CHOICES = ("true or false", "one of ")
"""How the kind of a field begins whose values are listed there."""
_BLANK = "\0"
"""Stands for a blank within code."""
NOTE = "<!-- Written by `make reference`: change the input models or docs/generate instead. -->"


def paragraph(text: str, begin: str = "", then: str = "") -> str:
    """Text in lines, none of which ends within code; `begin` before the first, `then` before the others."""
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", _BLANK), " ".join(text.split()))
    lines = textwrap.fill(
        whole, WIDTH, initial_indent=begin, subsequent_indent=then, break_on_hyphens=False, break_long_words=False
    )
    return lines.replace(_BLANK, " ")


def field_item(field: FieldText) -> str:
    """One field: what it may be, unit, default, meaning, an example if it says more than these."""
    default = "required" if field.default == "required" else f"default: {field.default}"
    parts = [", ".join([field.kind, *([field.unit] if field.unit else [])]), default]
    about = "(refused)" if field.is_refused else f"({'; '.join(parts)})"
    plain = re.compile(rf"{field.name}: [\d.e-]+")
    telling = (
        [] if field.kind.startswith(CHOICES) else [text for text in example_texts(field) if not plain.fullmatch(text)]
    )
    head = paragraph(f"**`{field.name}`** {about}", "- ", "  ")
    body = paragraph(f"{field.description} {f'Example: `{telling[-1]}`' if telling else ''}".strip(), "  ", "  ")
    return f"{head}\\\n{body}"


def fields_list(model: type[Input], *, inherited: bool = False) -> str:
    """The fields of a model, by default without those of its bases."""
    return "\n".join(field_item(field) for field in fields_of(model, inherited=inherited))


def meaning(model: type[Input]) -> str:
    """What the docstring of a model says."""
    return paragraph(" ".join((model.__doc__ or "").split()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars within cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def listed(between: str, rows: Iterable[Sequence[str]]) -> str:
    """A list of items, whose parts are joined."""
    return "\n".join(paragraph(between.join(row), "- ", "  ") for row in rows)


def page(title: str, *parts: str) -> str:
    """A whole page."""
    return "\n\n".join([f"# {title}", NOTE, *(part.strip("\n") for part in parts)]) + "\n"


def code(text: str) -> str:
    """Text as inline code, also where it holds a backtick."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
