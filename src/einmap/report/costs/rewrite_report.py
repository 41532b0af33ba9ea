"""Effect of a change of the mapping: energy, latency and space before and after."""

from __future__ import annotations

from math import inf, isfinite

from rich.console import RenderableType

from einmap.mapping.mapping import Mapping
from einmap.model.cost import Cost
from einmap.report.costs.cost_report import loop_tree_section
from einmap.report.costs.rows import memory_rows
from einmap.report.frames.frame import Frame, columns
from einmap.report.frames.shown import shown
from einmap.report.text.formatting import UNITS, changed, title
from einmap.report.text.layout import section, stacked
from einmap.spec.spec import Spec


def change_report(before: Cost | None, after: Cost, spec: Spec, mapping: Mapping, width: int = 80) -> RenderableType:
    """The new LoopTree, and what it costs beside what the old one did (None: it has no cost).

    That is energy, latency, EDP and, for each memory of limited size, the most bits at one time.
    """
    old, new = _numbers(before, spec) if before else {}, _numbers(after, spec)
    rows = tuple((*key, old.get(key), value, _ratio(old.get(key), value)) for key, value in new.items())
    frame = Frame("changes", columns("text name | unit; number before | after | ratio"), rows)
    titles = {"name": "", "before": "before", "after": "after", "ratio": "change"}
    table = shown(frame, None, titles, formats={"ratio": changed})
    return stacked([loop_tree_section(mapping, spec, width), section("Change", table)])


def _ratio(old: float | None, new: float) -> float | None:
    return None if old is None else new / old if old else inf if new else 1.0


def _numbers(cost: Cost, spec: Spec) -> dict[tuple[str, str], float]:
    """Energy, latency, EDP, and the most bits at one time in each memory of limited size, by name and unit."""
    limited = [row for row in memory_rows(cost, spec) if row.size_bits is not None and isfinite(row.size_bits)]
    totals = {(title(name), UNITS[name]): getattr(cost, name) for name in ("energy", "latency", "edp")}
    return totals | {(f"in {row.component}", "bits"): row.usage * (row.size_bits or 0.0) for row in limited}
