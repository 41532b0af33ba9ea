"""The terminal report of a ski slope: traffic by capacity, beside the lower bound."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.report.text.layout import Table, laid_out, stacked
from einmap.search.skislope import SkiSlope
from einmap.units import format_bits, format_count
from einmap.visible import listed

WIDTH = 20
"""Characters of the longest bar."""


def skislope_report(curve: SkiSlope) -> RenderableType:
    """A line about the curve, and a row for each corner; values where all tensors have one width, else bits."""
    names = curve.workload.einsum_names
    how = "fused where that is better" if curve.fused else "each by itself" if len(names) > 1 else "by itself"
    proof = "proven least" if curve.proven else "least known"
    what = unit_of(curve)[1]
    compulsory = format_count(curve.compulsory / unit_of(curve)[0])
    lines = [
        f"{listed(names, most=6)}, {how}: {proof} traffic to and from main memory by capacity ({what}) of the buffer",
        f"compulsory traffic {compulsory} {what}; bars: logarithm of traffic over it",
    ]
    if curve.spacing > 1 and len(names) > 1:
        lines.append(f"capacities at least {curve.spacing:g} times apart: a smaller one may do for a row")
    if math.isfinite(curve.max_fused_loops) and curve.fused:
        lines.append(f"Einsums share at most {curve.max_fused_loops:g} loop{'s' * (curve.max_fused_loops != 1)}")
    if not curve.complete:
        lines.append("stopped: corners of smaller capacities are missing")
    return stacked([Group(*map(Text, lines)), laid_out(corners_table(curve))])


def unit_of(curve: SkiSlope) -> tuple[float, str]:
    """Bits of what is counted, and its name: values where all tensors have one width, else bits."""
    return (curve.width, "values") if curve.width else (1.0, "bits")


def corners_table(curve: SkiSlope) -> Table:
    """A row for each corner, with the logarithm of its traffic over the compulsory one as a bar."""
    (unit, what), texts = unit_of(curve), []
    most, compulsory = max(corner.traffic for corner in curve.corners), curve.compulsory
    for corner in curve.corners:
        least = curve.least(corner.capacity)
        share = math.log(corner.traffic / compulsory) / math.log(most / compulsory) if most > compulsory > 0 else 0.0
        texts.append(
            (
                f"{corner.capacity / unit:,.0f}", format_bits(corner.capacity), f"{corner.traffic / unit:,.0f}",
                format_bits(corner.traffic), f"{corner.traffic / least:.3g}" if least > 0 else "",
                "█" * max(round(WIDTH * share), 0),
            )
        )  # fmt: skip
    head = ("capacity", "", f"traffic, {what}", "", "x bound", "")
    return Table(head, texts, left=(5,), whole=(0, 1, 2, 3, 5))
