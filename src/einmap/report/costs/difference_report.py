"""The terminal report of `einmap diff`: what is different in structure, and what that does to the cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.mapping.difference import NodeChange, tree_changes
from einmap.mapping.nodes import format_address
from einmap.model.cost import Cost
from einmap.model.cost_difference import Changed, row_changes, total_changes
from einmap.report.text.formatting import NONE, quantity, title
from einmap.report.text.layout import Table, laid_out, more, new_table, section, stacked
from einmap.spec.forms.spec_difference import FieldChange, field_changes
from einmap.spec.raw import to_python
from einmap.spec.spec import TOP_LEVEL, Spec
from einmap.visible import short

SCHEMA = 1
"""Version of `Difference.to_dict()`."""
MOST_ROWS = 8
"""Rows of each kind that are shown; all of them are in the JSON document."""
_TITLES = {
    "energy": "Energy: what changed most",
    "actions": "Actions: what changed most",
    "latency": "Latency of components",
    "usage": "Usage of memories and fanouts",
}
_STYLES = {"added": "green", "removed": "red", "moved": "yellow", "changed": "cyan"}


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
    sections = [fields_section(difference.fields), nodes_section(difference.nodes)]
    if not difference.fields and not difference.nodes:
        sections.append(Text("no difference in structure"))
    if difference.costs is not None:
        totals = [(title(row.name[0]), *_shown(row, row.name[0])[:2], _ratio(row)) for row in difference.totals]
        sections.append(section("Cost", Table(("", "A", "B", "B / A"), totals)))
    for kind, head in _TITLES.items():
        rows = [row for row in difference.rows if row.kind == kind]
        lines = [(_label(row), *_shown(row, kind), _ratio(row)) for row in rows[:MOST_ROWS]]
        table = Table(("", "A", "B", "difference", "B / A"), lines)
        rest = more(len(rows) - MOST_ROWS, " (--json has them all)")
        sections.append(section(head, table, *rest) if rows else None)
    return stacked(sections)


def fields_section(changes: tuple[FieldChange, ...]) -> RenderableType | None:
    """Field by field, with paths."""
    lines = [(c.path, NONE if c.added else _value(c.before), NONE if c.removed else _value(c.after)) for c in changes]
    table = laid_out(Table(("field", "A", "B"), lines, left=range(3)))
    table.columns[0].ratio, table.columns[1].ratio, table.columns[2].ratio = 2, 1, 1
    return section("Fields", table) if lines else None


def _value(value: Any) -> str:
    if isinstance(value, dict):
        name = value.get("name")
        kind = value.get("type") or "a dictionary"
        written = ", ".join(f"{key}: {_value(part)}" for key, part in value.items())
        if len(written) <= 40:
            return f"{{{written}}}"
        return f"{kind} {name}" if name else f"{kind} of {len(value)} fields"
    return value if isinstance(value, str) and len(value) <= 60 else short(value, 60)


def nodes_section(changes: tuple[NodeChange, ...]) -> RenderableType | None:
    """Node by node."""
    table = new_table("", "LoopTree A", "LoopTree B", left=range(3))
    for change in changes:
        kind = Text(change.kind, style=_STYLES[change.kind])
        table.add_row(kind, _node(change.before, change.before_at), _node(change.after, change.after_at))
    return section("LoopTree", table) if changes else None


def _node(text: str | None, at: tuple[int, ...] | None) -> str:
    return NONE if text is None or at is None else f"{text}\n{format_address(at)}"


def _label(row: Changed) -> str:
    """`T1: MainMemory T1 write`: the Einsum, where the row is about one, before its component, tensor and action."""
    if row.kind not in ("actions", "latency"):
        return " ".join(row.name)
    einsum, *rest = row.name
    return f"{einsum}: {' '.join(rest)}"


def _shown(row: Changed, name: str) -> tuple[str, str, str]:
    """Before, after, and the difference with its sign, in the unit of `name`."""
    sign = "+" if row.difference > 0 else ""
    return quantity(row.before, name), quantity(row.after, name), sign + quantity(row.difference, name)


def _ratio(row: Changed) -> str:
    return NONE if row.ratio is None else f"{row.ratio:,.3g}"
