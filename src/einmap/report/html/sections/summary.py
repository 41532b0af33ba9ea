"""The numbers that come first: energy, latency, EDP, area, and what is in them."""

from __future__ import annotations

from einmap.model.cost import Cost
from einmap.report.costs.tables import totals
from einmap.report.html.parts import Part, Section, Tile, Tiles


def summary_section(cost: Cost, *verdict: Part) -> Section:
    """`verdict`: how far a result can be trusted, before its numbers."""
    return Section("summary", "Summary", (*verdict, cost_tiles(cost)))


def cost_tiles(cost: Cost) -> Tiles:
    """Energy, latency, EDP, area and computes of one result."""
    return Tiles(tuple(Tile(*fact) for fact in totals(cost)))
