"""The terminal report of a ski slope: traffic by capacity, beside the lower bound."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.report.text.layout import new_table
from einmap.search.skislope import SkiSlope
from einmap.units import format_bits, format_count

WIDTH = 20
"""Characters of the longest bar."""


def skislope_report(curve: SkiSlope) -> RenderableType:
    """A line about the curve, and a row for each corner; values where all tensors have one width, else bits."""
    names = curve.workload.einsum_names
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    how = "fused where that is better" if curve.fused else "each by itself" if len(names) > 1 else "by itself"
    proof = "proven least" if curve.proven else "least known"
    unit = curve.width or 1.0
    what = "values" if curve.width else "bits"
    table = new_table("capacity", "", f"traffic, {what}", "", "x bound", "", left=(5,), whole=(0, 1, 2, 3, 5))
    most = max(corner.traffic for corner in curve.corners)
    for corner in curve.corners:
        least = curve.least(corner.capacity)
        ratio = f"{corner.traffic / least:.3g}" if least > 0 else ""
        share = math.log(corner.traffic / curve.compulsory) / math.log(most / curve.compulsory) if (
            most > curve.compulsory > 0
        ) else 0.0  # fmt: skip
        bar = "█" * max(round(WIDTH * share), 0)
        capacity = f"{corner.capacity / unit:,.0f}", format_bits(corner.capacity)
        table.add_row(*capacity, f"{corner.traffic / unit:,.0f}", format_bits(corner.traffic), ratio, bar)
    lines = [
        f"{shown}, {how}: {proof} traffic to and from main memory by capacity ({what}) of the buffer",
        f"compulsory traffic {format_count(curve.compulsory / unit)} {what}; bars: logarithm of traffic over it",
    ]
    if curve.spacing > 1 and len(names) > 1:
        lines.append(f"capacities at least {curve.spacing:g} times apart: a smaller one may do for a row")
    if math.isfinite(curve.max_fused_loops) and curve.fused:
        lines.append(f"Einsums share at most {curve.max_fused_loops:g} loop{'s' * (curve.max_fused_loops != 1)}")
    if not curve.complete:
        lines.append("stopped: corners of smaller capacities are missing")
    return Group(*(Text(line) for line in lines), Text(""), table)
