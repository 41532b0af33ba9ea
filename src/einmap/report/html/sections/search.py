"""Work of a search: how much of the mapspace it covered, what was ruled out by what, and where its time went."""

from __future__ import annotations

from dataclasses import replace

from einmap.mapper.result.result import MapResult, MapStats
from einmap.report.costs.cost_report import fates_table, quality, shared_texts, sizes_table
from einmap.report.html.charts import bars
from einmap.report.html.parts import Figure, Paragraph, Part, Section, Tile, Tiles
from einmap.report.text.formatting import NONE, Scale, excess, percent
from einmap.report.text.layout import Tone
from einmap.units import format_count, format_si, powers_of_ten

_MOST_ROWS = 60


def verdict(result: MapResult) -> tuple[Part, ...]:
    """How far the result can be trusted, in the words of the terminal's report."""
    lines = quality(result).splitlines()
    tone: Tone = "good" if result.optimal else "warning"
    return (
        *(Paragraph(_sentence(line), "warning") for line in lines[:-1]),
        Paragraph(_sentence(lines[-1]), tone),
        *(Paragraph(_sentence(text)) for text in shared_texts(result.front[0])),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def search_section(result: MapResult) -> Section:
    """Size of the mapspace, what was looked at, and for how long. The only part of a page with wall times."""
    stats = result.stats
    rate = f"{format_si(stats.evaluated / stats.steps['search'], '')}/s" if stats.steps.get("search") else ""
    tiles = [
        Tile("mapspace", powers_of_ten(stats.mapspace_size), "mappings before any pruning"),
        Tile("evaluated", format_count(stats.evaluated), rate),
        Tile("dataplacements", format_count(stats.templates)),
        Tile("time", format_si(stats.seconds, "s"), "from the cache" if result.cached else ""),
        _proof(result),
    ]
    parts: list[Part] = [Tiles(tuple(tiles))]
    if result.reason:
        parts.append(Paragraph(f"Why it ended: {result.reason}."))
    parts += [Paragraph(f"Not searched: {text}.", "warning") for text in result.not_searched]
    if stats.steps and stats.seconds:
        parts.append(_times(stats))
    parts += _by_einsum(stats)
    return Section("search", "Search", tuple(parts))


def _proof(result: MapResult) -> Tile:
    if result.optimal:
        return Tile("proven", "optimal", "nothing better exists", "good")
    if result.gap is None:
        return Tile("proven", NONE, "no bound is known", "warning")
    return Tile("gap", f"{result.gap:.1%}", excess(result.gap), "warning")


def _times(stats: MapStats) -> Figure:
    scale = Scale.of(stats.steps.values(), "s")
    rows = [
        {"row": step, "value": seconds / scale.factor, "marked": False, "text": percent(seconds / stats.seconds)}
        for step, seconds in stats.steps.items()
    ]
    end = max(stats.steps.values()) / scale.factor * 1.15 or 1.0
    plot = bars(rows, f"time ({scale.unit})", end, row="step", text="of the whole")
    return Figure("search-time", "Time of the steps", plot, "Wall time of the steps of the search.")


def _by_einsum(stats: MapStats) -> list[Part]:
    rows = [(name, row) for name, row in stats.by_einsum.items() if not row.get("same_as")]
    if not rows:
        return []
    alike, shown = len(stats.by_einsum) - len(rows), rows[:_MOST_ROWS]
    more = f" {alike:,} more Einsums are like one of these but for names, and share its search." if alike else ""
    parts: list[Part] = [replace(sizes_table(shown), caption=f"Mapspace of each Einsum.{more}")]
    fates = fates_table(shown)
    parts += [replace(fates, caption="What became of the mappings.")] if fates.rows else []
    if len(rows) > _MOST_ROWS:
        parts.append(Paragraph(f"{len(rows) - _MOST_ROWS:,} more Einsums are left out here; --json has them all."))
    return parts
