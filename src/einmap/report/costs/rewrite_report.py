"""What a change of the mapping does: energy, latency and space before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from einmap.mapping.mapping import Mapping
from einmap.model.cost import Cost
from einmap.report.costs.cost_report import loop_tree_section
from einmap.report.text.formatting import NONE
from einmap.report.text.report_rows import memory_rows
from einmap.spec.spec import Spec
from einmap.units import format_bits, format_si


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """One number before (None: the mapping before has no cost) and after; `unit` is `bits` for space."""

    name: str
    before: float | None
    after: float
    unit: str

    @property
    def change(self) -> str:
        """`equal`, `-37.5%`, `+2.1%`, `8.4 x`; empty where there is nothing to compare with."""
        if self.before is None:
            return ""
        if math.isclose(self.before, self.after, rel_tol=1e-12):
            return "equal"
        if not self.before:
            return "new"
        ratio = self.after / self.before
        if ratio >= 2:
            return f"{ratio:,.3g} x"
        shown = f"{100 * (ratio - 1):+.1f}%"
        return "<0.1%" if shown in ("+0.0%", "-0.0%") else shown

    def shown(self, value: float | None) -> str:
        """A value in its unit."""
        if value is None:
            return NONE
        return format_bits(value) if self.unit == "bits" else format_si(value, self.unit)


def changed_rows(before: Cost | None, after: Cost, spec: Spec) -> tuple[ChangedRow, ...]:
    """Energy (J), latency (s), EDP (J*s) and, for each memory of limited size, the most bits at one time."""
    whole = [("energy", "J"), ("latency", "s")]
    rows = [ChangedRow(n, getattr(before, n) if before else None, getattr(after, n), unit) for n, unit in whole]
    rows.append(ChangedRow("EDP", before.edp if before else None, after.edp, "J*s"))
    earlier = dict(_bits(before, spec)) if before else {}
    rows += [ChangedRow(f"in {name}", earlier.get(name), bits, "bits") for name, bits in _bits(after, spec)]
    return tuple(rows)


def _bits(cost: Cost, spec: Spec) -> Iterator[tuple[str, float]]:
    for row in memory_rows(cost, spec.arch()):
        if row.size_bits is not None and math.isfinite(row.size_bits):
            yield row.component, row.usage * row.size_bits


def change_report(before: Cost | None, after: Cost, spec: Spec, mapping: Mapping, width: int = 80) -> RenderableType:
    """The new LoopTree, and what it costs beside what the old one did."""
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    for title in ("", "before", "after", "change"):
        table.add_column(title, justify="right" if title else "left")
    for row in changed_rows(before, after, spec):
        table.add_row(row.name, row.shown(row.before), row.shown(row.after), row.change)
    return Group(loop_tree_section(mapping, spec, width), Text(""), Text("Change", style="bold"), table)
