"""The terminal report of `einmap diff`: what is different in structure, and what that does to the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.mapping.difference import NodeChange, tree_changes
from einmap.mapping.nodes import format_address
from einmap.model.cost import Cost
from einmap.model.cost_difference import Changed, row_changes, total_changes
from einmap.report.frames.frame import Cell
from einmap.report.frames.kinds import frames_of
from einmap.report.frames.shown import shown, toned
from einmap.report.text.formatting import title
from einmap.report.text.layout import Tone, filled, stacked
from einmap.spec.forms.spec_difference import FieldChange, field_changes
from einmap.spec.raw import to_python
from einmap.spec.spec import TOP_LEVEL, Spec

SCHEMA = 1
"""Version of `Difference.to_dict()`."""
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


@dataclass(frozen=True)
class Difference:
    """Two specifications side by side. `costs` is None where one of them cannot be evaluated."""

    fields: tuple[FieldChange, ...]
    nodes: tuple[NodeChange, ...]
    costs: tuple[Cost, Cost] | None

    @property
    def totals(self) -> tuple[Changed, ...]:
        """Energy, latency, EDP, area of both."""
        return total_changes(*self.costs) if self.costs else ()

    @property
    def rows(self) -> tuple[Changed, ...]:
        """Rows of the costs that are not the same."""
        return row_changes(*self.costs) if self.costs else ()

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON."""
        return {
            "schema": SCHEMA,
            "fields": [asdict(change) for change in self.fields],
            "nodes": [
                {
                    **asdict(change),
                    "before_at": None if change.before_at is None else format_address(change.before_at),
                    "after_at": None if change.after_at is None else format_address(change.after_at),
                }
                for change in self.nodes
            ],
            "totals": [_plain(row) for row in self.totals],
            "rows": [_plain(row) for row in self.rows],
        }


def _plain(row: Changed) -> dict[str, Any]:
    return {**asdict(row), "difference": row.difference, "ratio": row.ratio}


def compare_specs(before: Spec, after: Spec, costs: tuple[Cost, Cost] | None) -> Difference:
    """What is different: LoopTrees node by node, everything else field by field."""
    fields: list[FieldChange] = []
    for key in TOP_LEVEL:
        if key != "mapping":
            fields += field_changes(before.raw.get(key), after.raw.get(key), (key,))
    old, new = before.mapping, after.mapping
    nodes = tree_changes(old, new) if old is not None and new is not None else ()
    for side, other in ((old, new), (new, old)):
        if side is not None and other is None:
            raw = (before if side is old else after).raw.get("mapping")
            plain = None if raw is None else to_python(raw)
            gone = side is old
            fields.append(FieldChange("mapping", plain if gone else None, None if gone else plain, not gone, gone))
    return Difference(tuple(fields), nodes, costs)


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
