"""The terminal report of `einmap diff`: what is different in structure, and what that does to the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.model.cost_difference import Difference
from einmap.report.frames.frame import Cell
from einmap.report.frames.kinds import frames_of
from einmap.report.frames.shown import shown, toned
from einmap.report.text.formatting import title
from einmap.report.text.layout import Tone, filled, stacked

MOST_ROWS = 8
"""Rows of each kind that are shown; all of them are in the JSON document."""
_TITLES = {
    "total": "Cost",
    "energy": "Energy: what changed most",
    "actions": "Actions: what changed most",
    "latency": "Latency of components",
    "usage": "Usage of memories and fanouts",
}
_COLUMNS = {"name": "", "before": "A", "after": "B", "difference": "difference", "ratio": "B / A"}
_TONES: dict[Cell, Tone] = {"added": "good", "removed": "bad", "moved": "warning"}
_WORDS: dict[str, Callable[[Any], str]] = {"name": title, "ratio": "{:,.3g}".format}


def difference_report(difference: Difference) -> RenderableType:
    """Structure first, then totals, then what changed most."""
    costs, structure = frames_of(difference)
    n, sides = len(difference.fields), {"where": "", "before": "A", "after": "B"}
    fields, nodes = replace(structure, rows=structure.rows[:n]), replace(structure, rows=structure.rows[n:])
    tones = toned(nodes.column("change"), _TONES)
    sections = [
        filled("Fields", shown(fields, None, sides)),
        filled("LoopTree", shown(nodes, None, {"change": ""} | sides, tones=tones)),
        None if structure.rows else Text("no difference in structure"),
    ]
    for kind, head in _TITLES.items():
        table = shown(costs.only("kind", kind), MOST_ROWS, _COLUMNS, formats=_WORDS)
        sections.append(filled(head, table))
    return stacked(sections)
