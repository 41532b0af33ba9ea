"""The pages of the search lab: strategies side by side, the shape of a mapspace, a ski slope."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from einmap.report.html.charts import bars, colours_of, legend, log_ticks, number, tooltip
from einmap.report.html.parts import Figure, Page, Section, Tile, Tiles
from einmap.report.search.census import times_text
from einmap.report.search.skislope import corners_table, unit_of
from einmap.report.search.strategies import gap_text, gaps_table, soon_table
from einmap.report.text.formatting import UNITS
from einmap.report.text.layout import Table
from einmap.search.census import Census
from einmap.search.problem import Optimum, SearchProblem
from einmap.search.skislope import SkiSlope
from einmap.search.summary import Quartiles, StrategySummary
from einmap.units import format_count, format_si

SMALLEST = 1e-4
"""Gaps below this stand at the lower end of the plot: a logarithm has no zero."""
GAP_LABEL = "datum.value < 1 ? format(100 * datum.value, '~g') + ' %' : format(datum.value + 1, ',.0f') + ' x'"
"""How the axis of gaps writes one, as `gap_text` does."""
TIME_LABEL = {"evaluations": "format(datum.value, ',')", "seconds": "format(datum.value, '~s') + 's'"}
"""How the other axis writes its values."""
LEAST, BOUND = "least traffic", "lower bound"
"""The curves of a ski slope."""


def search_page(
    problem: SearchProblem,
    optimum: Optimum,
    summaries: Sequence[StrategySummary],
    name: str = "",
    executed: tuple[tuple[str, ...], Sequence[tuple[str, ...]]] | None = None,
) -> Page:
    """Gaps by evaluations and seconds, and how soon they are small; `executed`: columns and rows of mappings."""
    tiles = Tiles(
        (
            Tile("mappings", format_count(problem.space.size)),
            Tile(
                f"optimum, {problem.objective.replace('_', ' ')}",
                format_si(optimum.value, UNITS[problem.objective]),
                "proven" if optimum.proven else "the best known",
                "good" if optimum.proven else "plain",
            ),
            Tile("found by the mapper in", format_si(optimum.seconds, "s")),
        )
    )
    evaluations = max((at for summary in summaries for at, _ in summary.by_evaluations), default=0)
    tables = (
        replace(gaps_table(summaries, int(evaluations)), caption="Gap to the optimum, median [quartiles]."),
        replace(soon_table(summaries), caption="Evaluations, and seconds, until the gap is this; medians over seeds."),
    )
    figures = (
        _gaps("gap-by-evaluations", "evaluations", {s.strategy: s.by_evaluations for s in summaries}),
        _gaps("gap-by-seconds", "seconds", {s.strategy: s.by_seconds for s in summaries}),
    )
    lead = "How far the best mapping so far is above the optimum: medians over seeds, quartiles as bands."
    sections = [Section("summary", "Summary", (tiles, *tables)), Section("gaps", "Gaps", figures, lead)]
    if executed is not None:
        told = "The best mappings of each strategy, in the order of what was measured when they were executed."
        sections.append(Section("executed", "Executed", (Table(executed[0], tuple(executed[1])),), told))
    return Page(f"Search strategies: {name or problem.name}", f"Einsum {problem.name}", tuple(sections))


def gap_ticks(largest: float) -> list[float]:
    """Gaps that an axis from `SMALLEST` up has labels for: parts of the optimum, then whole multiples of it.

    >>> gap_ticks(50)
    [0.0001, 0.001, 0.01, 0.1, 1.0, 9.0]
    """
    multiples = (10.0**exponent - 1 for exponent in range(1, 16))
    return [SMALLEST, 0.001, 0.01, 0.1, 1.0, *(gap for gap in multiples if gap <= largest)]


def _gaps(key: str, unit: str, curves: Mapping[str, Sequence[tuple[float, Quartiles]]]) -> Figure:
    rows: list[dict[str, Any]] = [
        {
            "strategy": strategy,
            "at": at,
            "median": max(quartiles.median, SMALLEST),
            "low": max(quartiles.low, SMALLEST),
            "high": max(quartiles.high, SMALLEST) if math.isfinite(quartiles.high) else None,
            "text": gap_text(quartiles.median),
        }
        for strategy, points in curves.items()
        for at, quartiles in points
        if math.isfinite(quartiles.median)
    ]
    colours = legend(colours_of(list(curves)), curves, "strategy")
    if colours["legend"] is not None:
        # otherwise as pale as the bands
        colours["legend"]["symbolOpacity"] = 1

    times = [at for points in curves.values() for at, _ in points]
    scale, ticks = {"type": "log", "nice": False}, log_ticks(min(times, default=1), max(times, default=1))
    across = "wall time" if unit == "seconds" else unit
    largest = max((float(row["high"] or row["median"]) for row in rows), default=1)
    looks = {"values": gap_ticks(largest), "labelExpr": GAP_LABEL}
    median, low = (
        number(field, "gap to the optimum; 10 x: ten times the optimum", scale, **looks) for field in ("median", "low")
    )
    shown = tooltip(strategy="strategy", at=unit, text="gap")
    plot: dict[str, Any] = {
        "data": {"values": rows},
        "height": 320,
        "encoding": {"x": number("at", across, scale, labelExpr=TIME_LABEL[unit], values=ticks), "color": colours},
        "layer": [
            {"mark": {"type": "area", "opacity": 0.12}, "encoding": {"y": low, "y2": {"field": "high"}}},
            {"mark": {"type": "line", "point": True}, "encoding": {"y": median, "tooltip": shown}},
        ],
    }
    description = f"Median gap to the optimum by {unit} of {', '.join(curves)}."
    caption = f"Gaps below {SMALLEST:.2%}, also none at all, stand at the lower end."
    return Figure(key, f"Gap by {unit}", plot, description, caption)


def census_page(census: Census, name: str = "") -> Page:
    """Sizes and parts, and a histogram of the objective."""
    problem = census.problem
    objective = problem.objective.replace("_", " ")
    tiles = Tiles(
        (
            Tile("mappings", format_count(problem.space.size)),
            Tile("valid", f"{100 * census.valid.value:.3g} %", f"of {format_count(census.sample.drawn)} looked at"),
            Tile("within 1 % of the optimum", f"{100 * census.near_best.value:.2g} %", "of the valid ones"),
            Tile(f"optimum, {objective}", format_si(census.optimum.value, UNITS[problem.objective])),
        )
    )
    rows = [
        {"row": f"{times_text(low).removesuffix(' x')} to {times_text(high)}", "value": count, "marked": False}
        | {"text": format_count(count)}
        for low, high, count in census.histogram()
    ]
    plot = bars(rows, "valid mappings", row="over the optimum", text="mappings")
    title = f"Valid mappings by {objective} over the optimum"
    text = f"Histogram of {census.n_valid:,} valid mappings by {objective}, on a logarithmic scale."
    figure = Figure("histogram", title, plot, text)
    sections = (Section("summary", "Summary", (tiles,)), Section("distribution", "Distribution", (figure,)))
    return Page(f"Census: {name or problem.name}", f"Einsum {problem.name}", sections)


def skislope_page(curve: SkiSlope, name: str = "") -> Page:
    """Traffic by capacity with the lower bound, and a row for each corner."""
    unit, what = unit_of(curve)
    colours = colours_of((LEAST, BOUND))
    rows = [
        {"curve": label, "capacity": corner.capacity / unit, "traffic": traffic / unit}
        for corner in curve.corners
        for label, traffic in ((LEAST, corner.traffic), (BOUND, curve.least(corner.capacity)))
        if traffic > 0
    ]

    scale = {"type": "log", "nice": False}
    plot: dict[str, Any] = {
        "data": {"values": rows},
        "height": 340,
        "layer": [
            {
                "transform": [{"filter": f"datum.curve == '{label}'"}],
                "mark": {"type": "line", "interpolate": interpolate, "point": label == LEAST},
            }
            # the least traffic is a step down at each corner, the bound has a value for each capacity
            for label, interpolate in ((LEAST, "step-after"), (BOUND, "linear"))
        ],
        "encoding": {
            "x": number("capacity", f"capacity of the buffer, {what}", scale, format="~s"),
            "y": number("traffic", f"traffic to and from main memory, {what}", scale, format="~s"),
            "color": legend(colours, colours, "curve"),
            "tooltip": [{"field": field} for field in ("curve", "capacity", "traffic")],
        },
    }
    names = ", ".join(curve.workload.einsum_names)
    figure = Figure("skislope", "Least traffic by capacity", plot, f"Least traffic of {names} by capacity of a buffer.")
    corners = corners_table(curve)
    table = replace(corners, columns=corners.columns[:-1], rows=[row[:-1] for row in corners.rows])
    lead = "Every corner is the smallest capacity for its traffic" + (", proven." if curve.proven else ".")
    return Page(f"Ski slope: {name or names}", names, (Section("curve", "Curve", (figure, table), lead),))
