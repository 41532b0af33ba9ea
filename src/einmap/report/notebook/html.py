"""Tables and sections as HTML, with every text escaped: what specifications say stays text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from einmap.report.frames.frame import Frame
from einmap.report.frames.shown import shown as frame_table
from einmap.visible import visible

MOST_ROWS = 100
"""Rows of a table that are shown; all of them are in `to_frame`."""
_SCROLL = "overflow:auto;max-height:40em"
_LEFT, _RIGHT = "text-align:left", "text-align:right;white-space:nowrap"


def shown(text: object) -> str:
    """Text as HTML: deceptive characters made visible, markup escaped."""
    return escape(visible(str(text)))


def line(text: object, *, bold: bool = False) -> str:
    """A paragraph."""
    return f"<p>{'<b>' if bold else ''}{shown(text)}{'</b>' if bold else ''}</p>"


def block(text: str) -> str:
    """Text line by line, in one width."""
    return f"<pre>{shown(text)}</pre>"


def picture(svg: str) -> str:
    """A drawing in its own size; what does not fit is scrolled."""
    return f'<div style="{_SCROLL}">{svg[svg.index("<svg") :]}</div>'


def folded(title: str, content: str, *, is_open: bool = False) -> str:
    """A section that unfolds."""
    return f"<details{' open' if is_open else ''}><summary>{shown(title)}</summary>{content}</details>"


def table(frame: Frame) -> str:
    """A table; numbers with prefixes of their units, to the right."""
    if not frame.rows:
        return line(f"{frame.name}: none")
    made, more = frame_table(frame, MOST_ROWS), len(frame.rows) - MOST_ROWS
    sides = [_LEFT if place in made.left else _RIGHT for place in range(len(made.columns))]
    head = _cells("th", made.columns, sides)
    body = "".join(f"<tr>{_cells('td', row, sides)}</tr>" for row in made.rows)
    rest = line(f"... and {more:,} more rows, all of them in einmap.to_frame") if more > 0 else ""
    return f'<div style="{_SCROLL}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{rest}'


def facts(frame: Frame) -> str:
    """The only row of a table as lines of names and values."""
    made = frame_table(frame)
    lines = (
        f"<tr>{_cells('th', [name], [_LEFT])}{_cells('td', [text], [_LEFT])}</tr>"
        for name, text in zip(made.columns, made.rows[0], strict=True)
    )
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def _cells(tag: str, texts: Sequence[str], sides: Sequence[str]) -> str:
    return "".join(f'<{tag} style="{side}">{shown(text)}</{tag}>' for text, side in zip(texts, sides, strict=True))


def whole(parts: Iterable[str]) -> str:
    """The display of one value."""
    return f"<div>{''.join(parts)}</div>"
