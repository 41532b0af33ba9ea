"""The terminal report of search strategies side by side: gaps to the optimum, and how soon they are small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.report.text.formatting import NONE, UNITS
from einmap.report.text.layout import Table, indented, section, stacked
from einmap.search.problem import Optimum, SearchProblem
from einmap.search.remeasure import Remeasured
from einmap.search.summary import StrategySummary
from einmap.units import format_count, format_si

SHOWN = (10, 100, 1_000, 10_000, 100_000)
"""Evaluations whose gaps have a column, beside the last ones."""


def search_report(
    problem: SearchProblem, optimum: Optimum, summaries: Sequence[StrategySummary], evaluations: int
) -> RenderableType:
    """A line about the problem, a table of gaps, and one of how soon gaps are reached."""
    note = f"medians over seeds; {NONE}: fewer than half of the seeds got there, in brackets how many did"
    return stacked(
        [
            _about(problem, optimum),
            section("Gap to the optimum, median [quartiles]", gaps_table(summaries, evaluations)),
            section("Evaluations, and seconds, until the gap is", soon_table(summaries), indented(note, style="dim")),
        ]
    )


def _about(problem: SearchProblem, optimum: Optimum) -> RenderableType:
    space = problem.space
    size = format_count(space.size) if space.size < 1e15 else f"{space.size:.3g}"
    kind = "" if space.size_is_exact else "at least " if space.truncated else "about "
    proven = "proven optimal" if optimum.proven else "the best known"
    value = format_si(optimum.value, UNITS[problem.objective])
    objective = problem.objective.replace("_", " ")
    text = (
        f"{problem.name}: {kind}{size} mappings; {proven} {objective} {value}, found by the mapper in "
        f"{format_si(optimum.seconds, 's')}"
    )
    return Text(text)


def gap_text(gap: float) -> str:
    """A gap as reports write it: 0, 3.2 %, 12 x (the value is 12 times the optimum), or none.

    >>> [gap_text(g) for g in (0.0, 0.0321, 11.0, float("inf"))]
    ['0', '3.2 %', '12 x', '-']
    """
    if math.isinf(gap):
        return NONE
    if gap == 0:
        return "0"
    if gap < 0.001:
        return f"{100 * gap:.1g} %"
    if gap < 1:
        return f"{100 * gap:.1f} %"
    return f"{gap + 1:,.0f} x" if 999.5 <= gap + 1 < 1e6 else f"{gap + 1:.3g} x"


def gaps_table(summaries: Sequence[StrategySummary], evaluations: int) -> Table:
    """Seeds, valid mappings, gaps after so many evaluations, and the time of a run, strategy by strategy."""
    steps = [n for n in SHOWN if n < evaluations]
    texts = []
    for summary in summaries:
        gaps, final = dict(summary.by_evaluations), summary.final
        cells = [gap_text(gaps[n].median) if n in gaps else NONE for n in steps]
        last = f"{gap_text(final.median)} [{gap_text(final.low)}, {gap_text(final.high)}]"
        seconds = format_si(summary.seconds.median, "s")
        texts.append((summary.strategy, str(summary.seeds), f"{100 * summary.valid:.0f} %", *cells, last, seconds))
    after = (f"after {format_count(n)}" for n in (*steps, evaluations))
    return Table(("strategy", "seeds", "valid", *after, "time of a run"), texts)


def soon_table(summaries: Sequence[StrategySummary]) -> Table:
    """After how many evaluations and seconds the gap of each strategy is how small."""
    thresholds = [reached.gap for reached in summaries[0].reached] if summaries else []
    texts = []
    for summary in summaries:
        cells = []
        for reached in summary.reached:
            n, seconds = reached.evaluations.median, format_si(reached.seconds.median, "s")
            few = f"{NONE} ({reached.seeds} of {summary.seeds})"
            cells.append(few if math.isinf(n) else f"{format_count(int(n))}, {seconds}")
        texts.append((summary.strategy, *cells))
    return Table(("strategy", *(f"{100 * gap:g} %" for gap in thresholds)), texts)


def executed_report(
    problem: SearchProblem, by: str, reference: Remeasured, strategies: Mapping[str, Sequence[Remeasured]]
) -> RenderableType:
    """A table of mappings that were executed, after a blank line."""
    what = "by the simulator" if by == "simulator" else "as C on this machine"
    table = Table(*executed_rows(problem, by, reference, strategies))
    return Group(Text(""), section(f"The best mappings of each strategy, executed {what}", table))


def executed_rows(
    problem: SearchProblem, by: str, reference: Remeasured, strategies: Mapping[str, Sequence[Remeasured]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns, and a row for each mapping: what the cost model says of it, and what was measured.

    The last column is what was measured over the same for the mapping of the mapper.
    """
    predicted, measured = UNITS[problem.objective], UNITS[problem.objective] if by == "simulator" else "s"
    columns = ("strategy", "place by model", "predicted", "measured", "over the mapper's")
    named = [("the mapper", reference), *((name, one) for name, of_one in strategies.items() for one in of_one)]
    rows: list[tuple[str, ...]] = [
        (
            name,
            str(one.place) if one is not reference else NONE,
            format_si(one.predicted, predicted),
            format_si(one.measured, measured),
            f"{one.measured / reference.measured:.3g} x" if reference.measured > 0 else NONE,
        )
        for name, one in named
    ]
    return columns, rows
