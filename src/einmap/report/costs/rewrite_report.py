"""What a change of the mapping does: energy, latency and space before and after."""

from __future__ import annotations

import math

from rich.console import RenderableType

from einmap.mapping.mapping import Mapping
from einmap.model.cost import Cost
from einmap.report.costs.cost_report import loop_tree_section
from einmap.report.costs.rows import memory_rows
from einmap.report.text.formatting import NONE, quantity, title
from einmap.report.text.layout import Table, section, stacked
from einmap.spec.spec import Spec
from einmap.units import format_bits


def change_report(before: Cost | None, after: Cost, spec: Spec, mapping: Mapping, width: int = 80) -> RenderableType:
    """The new LoopTree, and what it costs beside what the old one did (None: it has no cost).

    That is energy, latency, EDP and, for each memory of limited size, the most bits at one time.
    """
    texts = []
    for name in ("energy", "latency", "edp"):
        old, new = getattr(before, name) if before else None, getattr(after, name)
        texts.append((title(name), quantity(old, name), quantity(new, name), _changed(old, new)))
    earlier = _bits(before, spec) if before else {}
    for memory, bits in _bits(after, spec).items():
        old = earlier.get(memory)
        shown = NONE if old is None else format_bits(old)
        texts.append((f"in {memory}", shown, format_bits(bits), _changed(old, bits)))
    table = Table(("", "before", "after", "change"), texts)
    return stacked([loop_tree_section(mapping, spec, width), section("Change", table)])


def _changed(before: float | None, after: float) -> str:
    """`equal`, `-37.5%`, `+2.1%`, `8.4 x`; empty where there is nothing to compare with."""
    if before is None:
        return ""
    if math.isclose(before, after, rel_tol=1e-12):
        return "equal"
    if not before:
        return "new"
    ratio = after / before
    if ratio >= 2:
        return f"{ratio:,.3g} x"
    shown = f"{100 * (ratio - 1):+.1f}%"
    return "<0.1%" if shown in ("+0.0%", "-0.0%") else shown


def _bits(cost: Cost, spec: Spec) -> dict[str, float]:
    """The most bits at one time in each memory of limited size."""
    limited = [row for row in memory_rows(cost, spec) if row.size_bits is not None and math.isfinite(row.size_bits)]
    return {row.component: row.usage * (row.size_bits or 0.0) for row in limited}
