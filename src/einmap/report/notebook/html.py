"""Tables and sections as HTML, with every text escaped: what specifications say stays text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from einmap.report.frames.frame import Cell, Column, Frame
from einmap.report.text.formatting import NONE, area
from einmap.units import format_bits, format_count, format_si
from einmap.visible import cut, visible

MOST_ROWS = 100
"""Rows of a table that are shown; all of them are in `to_frame`."""
LONGEST = 300
"""Characters of a cell that are shown."""
_SI = ("J", "s", "J*s", "W", "flop/s")
_BITS = {"bits": 1, "bytes": 8}
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
    # a column without any value says nothing
    used = [n for n, _ in enumerate(frame.columns) if any(row[n] is not None for row in frame.rows)]
    columns = [frame.columns[n] for n in used]
    rows = [[row[n] for n in used] for row in frame.rows[:MOST_ROWS]]
    head = "".join(_cell("th", _title(column), column) for column in columns)
    more = len(frame.rows) - MOST_ROWS
    rest = line(f"... and {more:,} more rows, all of them in einmap.to_frame") if more > 0 else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{_body(columns, rows)}</tbody>"
    return f'<div style="{_SCROLL}"><table>{body}</table></div>{rest}'


def facts(frame: Frame) -> str:
    """The only row of a table as lines of names and values."""
    (row,) = frame.rows
    lines = [
        f'<tr><th style="{_LEFT}">{shown(_title(column))}</th><td style="{_LEFT}">{_value(cell, column)}</td></tr>'
        for cell, column in zip(row, frame.columns, strict=True)
        if cell is not None
    ]
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def whole(parts: Iterable[str]) -> str:
    """The display of one value."""
    return f"<div>{''.join(parts)}</div>"


def _body(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> str:
    lines = (
        "".join(f'<td style="{_side(c)}">{_value(cell, c)}</td>' for cell, c in zip(row, columns, strict=True))
        for row in rows
    )
    return "".join(f"<tr>{cells}</tr>" for cells in lines)


def _cell(tag: str, text: str, column: Column) -> str:
    return f'<{tag} style="{_side(column)}">{shown(text)}</{tag}>'


def _side(column: Column) -> str:
    return _RIGHT if column.kind in ("integer", "number") else _LEFT


def _unit(column: Column) -> str:
    return column.name.rpartition(" [")[2].rstrip("]") if column.name.endswith("]") else ""


def _title(column: Column) -> str:
    """Without a unit that stands with each number."""
    has_units = _unit(column) in (*_SI, *_BITS, "m^2")
    return column.name.rpartition(" [")[0] if has_units else column.name


def _value(cell: Cell, column: Column) -> str:
    match cell:
        case None:
            return NONE
        case bool():
            return "yes" if cell else "no"
        case str():
            return shown(cut(cell, LONGEST))
        case _:
            return shown(_number(cell, _unit(column)))


def _number(value: float, unit: str) -> str:
    if unit in _SI and math.isfinite(value):
        return format_si(value, unit)
    if unit == "m^2" and math.isfinite(value):
        return area(value)
    if unit in _BITS:
        return format_bits(value * _BITS[unit])
    return format_count(value)
