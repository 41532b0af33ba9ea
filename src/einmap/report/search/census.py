"""The terminal report of a census: sizes, parts with their intervals, ties, and a histogram."""

from __future__ import annotations

from rich.console import RenderableType

from einmap.report.text.formatting import NONE, UNITS
from einmap.report.text.layout import Table, section, stacked
from einmap.search.census import Census, Interval, Tie
from einmap.units import format_count, format_si

WIDTH = 36
"""Characters of the longest bar."""
PARTS = {"best": 0.0, "1 %": 0.01, "10 %": 0.1, "median": 0.5, "90 %": 0.9, "worst": 1.0}
"""Quantiles that are shown."""


def census_report(census: Census) -> RenderableType:
    """Sizes and parts, quantiles of the objective, ties, and a histogram."""
    problem, best = census.problem, census.optimum
    unit, objective = UNITS[problem.objective], problem.objective.replace("_", " ")
    proven = "proven optimal" if best.proven else "the best known"
    looked = "all" if census.complete else f"{format_count(census.sample.drawn)} uniform draws"
    facts = [
        ("mappings", _size(census)),
        ("looked at", f"{looked}, {format_count(census.n_valid)} valid"),
        ("valid", _interval(census.valid, census)),
        (f"{proven} {objective}", format_si(best.value, unit)),
        ("within 1 % of it", f"{_interval(census.near_best, census)} of the valid ones"),
    ]
    if census.fastest is not None and census.least_traffic is not None:
        facts.append((f"least latency {format_si(census.fastest.least, 's')}", _tie(census.fastest)))
        fewest = format_count(census.least_traffic.least)
        facts.append((f"fewest actions of {census.memory} {fewest}", _tie(census.least_traffic)))
    table = Table(("", ""), facts, left=(0, 1))
    values = census.quantiles(tuple(PARTS.values()))
    quantiles = [
        (objective, *(format_si(value, unit) for value in values)),
        ("x optimum", *(f"{value / best.value:.4g}" if best.value > 0 else NONE for value in values)),
    ]
    return stacked(
        [
            section(problem.name, table),
            section("Valid mappings that are no worse", Table(("", *PARTS), quantiles)),
            section(f"Valid mappings by {objective} over the optimum", _histogram(census)),
        ]
    )


def _size(census: Census) -> str:
    space = census.problem.space
    if not space.truncated:
        return format_count(space.size) + ("" if space.size_is_exact else ", rounded")
    estimate = space.estimated_size
    if estimate is None:
        return f"more than {format_count(space.size)}"
    value, low, high = (format_count(x) for x in estimate)
    return f"about {value} (95 %: {low} to {high}); draws are from {format_count(space.size)} of them"


def _interval(part: Interval, census: Census) -> str:
    if census.complete:
        return f"{100 * part.value:.3g} %"
    return f"{100 * part.value:.3g} % (95 %: {100 * part.low:.2g} to {100 * part.high:.2g} %)"


def _tie(tie: Tie) -> str:
    if tie.count == 1:
        return "1 mapping"
    return f"{format_count(tie.count)} mappings, up to {tie.spread:.3g} times apart in energy"


def times_text(ratio: float) -> str:
    """How many times something is as large, to three digits: 1.94 x, 5,590 x.

    >>> [times_text(x) for x in (1.944, 5589.0)]
    ['1.94 x', '5,590 x']
    """
    rounded = f"{ratio:.3g}"
    return f"{float(rounded):,.0f} x" if ratio >= 1000 else f"{rounded} x"


def _histogram(census: Census) -> Table:
    rows = census.histogram()
    most = max((count for _, _, count in rows), default=1)
    texts = [
        (times_text(low), times_text(high), format_count(n), "█" * max(round(WIDTH * n / most), 1 if n else 0))
        for low, high, n in rows
    ]
    return Table(("from", "to", "mappings", ""), texts, left=(3,))
