"""The numbers that come first: energy, latency, EDP, area, and what is in them."""

from __future__ import annotations

from einmap.model.cost import Cost
from einmap.report.costs import rows as report_rows
from einmap.report.html.parts import Paragraph, Part, Section, Tile, Tiles
from einmap.report.text.formatting import area, largest, limited, rates
from einmap.units import format_count, format_si


def summary_section(cost: Cost, *verdict: Part) -> Section:
    """`verdict`: how far a result can be trusted, before its numbers."""
    return Section("summary", "Summary", (*verdict, cost_tiles(cost), *_counted(cost)))


def cost_tiles(cost: Cost) -> Tiles:
    """Energy, latency, EDP, area and computes of one result."""
    total = report_rows.totals(cost)
    parts = {row.component: row.share for row in report_rows.energy_rows(cost)}
    limits = {row.component: row.limits for row in report_rows.busy_rows(cost)}
    tiles = [
        Tile("energy", format_si(total.energy, "J"), largest(parts)),
        Tile("latency", format_si(total.latency, "s"), limited(limits)),
        Tile("energy-delay product", format_si(total.edp, "J*s")),
    ]
    if total.area:
        areas = {row.component: (row.total_area or 0.0) / total.area for row in cost.components}
        tiles.append(Tile("area", area(total.area), largest(areas)))
    if total.computes:
        tiles.append(Tile("computes", format_count(total.computes), rates(total)))
    return Tiles(tuple(tiles))


def _counted(cost: Cost) -> tuple[Part, ...]:
    return () if cost.semantics == "exact" else (Paragraph(f"Counted as the preset {cost.semantics} does."),)
