"""The terminal report of `einmap diff`: what is different in structure, and what that does to the cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.mapping.difference import NodeChange, tree_changes
from einmap.mapping.nodes import format_address
from einmap.model.cost import Cost
from einmap.model.cost_difference import Changed, row_changes, total_changes
from einmap.report.text.formatting import NONE, area, percent
from einmap.report.text.layout import new_table
from einmap.spec.forms.spec_difference import FieldChange, field_changes
from einmap.spec.raw import to_python
from einmap.spec.spec import TOP_LEVEL, Spec
from einmap.units import format_count, format_si
from einmap.visible import short

SCHEMA = 1
"""Version of `Difference.to_dict()`."""
MOST_ROWS = 8
"""Rows of each kind that are shown; all of them are in the JSON document."""
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
    sections: list[RenderableType] = []
    if difference.fields:
        sections.append(fields_section(difference.fields))
    if difference.nodes:
        sections.append(nodes_section(difference.nodes))
    if not sections:
        sections.append(Text("no difference in structure"))
    if difference.costs is not None:
        sections.append(totals_section(difference.totals))
        for kind, title in (
            ("energy", "Energy: what changed most"),
            ("actions", "Actions: what changed most"),
            ("latency", "Latency of components"),
            ("usage", "Usage of memories and fanouts"),
        ):
            rows = [row for row in difference.rows if row.kind == kind]
            if rows:
                sections.append(rows_section(title, rows))
    return Group(*[part for section in sections for part in (section, Text(""))][:-1])


def fields_section(changes: tuple[FieldChange, ...]) -> RenderableType:
    """Field by field, with paths."""
    table = new_table("field", "A", "B", left=range(3))
    table.columns[0].ratio, table.columns[1].ratio, table.columns[2].ratio = 2, 1, 1
    for change in changes:
        before = NONE if change.added else _value(change.before)
        after = NONE if change.removed else _value(change.after)
        table.add_row(change.path, before, after)
    return Group(Text("Fields", style="bold"), table)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        name = value.get("name")
        kind = value.get("type") or "a dictionary"
        written = ", ".join(f"{key}: {_value(part)}" for key, part in value.items())
        if len(written) <= 40:
            return f"{{{written}}}"
        return f"{kind} {name}" if name else f"{kind} of {len(value)} fields"
    if isinstance(value, str) and len(value) <= 60:
        return value
    return short(value, 60)


def nodes_section(changes: tuple[NodeChange, ...]) -> RenderableType:
    """Node by node."""
    table = new_table("", "LoopTree A", "LoopTree B", left=range(3))
    for change in changes:
        kind = Text(change.kind, style=_STYLES[change.kind])
        table.add_row(kind, _node(change.before, change.before_at), _node(change.after, change.after_at))
    return Group(Text("LoopTree", style="bold"), table)


def _node(text: str | None, at: tuple[int, ...] | None) -> str:
    return NONE if text is None or at is None else f"{text}\n{format_address(at)}"


def totals_section(rows: tuple[Changed, ...]) -> RenderableType:
    """Totals of both, equal or not."""
    units = {"energy": "J", "latency": "s", "edp": "J*s"}
    names = {"edp": "EDP"}
    table = new_table("", "A", "B", "B / A")
    for row in rows:
        (name,) = row.name
        shown = [area(n) if name == "area" else format_si(n, units[name]) for n in (row.before, row.after)]
        table.add_row(names.get(name, name), *shown, _ratio(row))
    return Group(Text("Cost", style="bold"), table)


def rows_section(title: str, rows: list[Changed]) -> RenderableType:
    """The rows of one kind that changed most."""
    table = new_table("", "A", "B", "difference", "B / A")
    for row in rows[:MOST_ROWS]:
        sign = "+" if row.difference > 0 else ""
        numbers = [_shown(row.kind, n) for n in (row.before, row.after, row.difference)]
        table.add_row(_label(row), *numbers[:2], sign + numbers[2], _ratio(row))
    more = len(rows) - MOST_ROWS
    rest = [Text(f"  ... and {more} more (--json has them all)")] if more > 0 else []
    return Group(Text(title, style="bold"), table, *rest)


def _label(row: Changed) -> str:
    """`T1: MainMemory T1 write`: the Einsum, where the row is about one, before its component, tensor and action."""
    if row.kind not in ("actions", "latency"):
        return " ".join(row.name)
    einsum, *rest = row.name
    return f"{einsum}: {' '.join(rest)}"


def _shown(kind: str, n: float) -> str:
    match kind:
        case "energy":
            return format_si(n, "J")
        case "latency":
            return format_si(n, "s")
        case "usage":
            return percent(n) if n >= 0 else f"-{percent(-n)}"
        case _:
            return format_count(n)


def _ratio(row: Changed) -> str:
    return NONE if row.ratio is None else f"{row.ratio:,.3g}"
