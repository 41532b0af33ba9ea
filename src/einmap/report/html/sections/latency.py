"""Where time goes: how long each component works, which one limits each Einsum, and both together."""

from __future__ import annotations

from typing import Any

from einmap.model.cost import Cost
from einmap.report.costs import rows as report_rows
from einmap.report.costs.pipelines import stages_table, summary
from einmap.report.costs.tables import einsums_table
from einmap.report.html.charts import MOST_ROWS, STEP, Amount, colour, colours_of, name, quantitative, stacked, tooltip
from einmap.report.html.charts import bars as bar_plot
from einmap.report.html.parts import Figure, Folded, Option, Paragraph, Part, Section, Tabs
from einmap.report.text.formatting import NONE, Scale, percent

LEAST_LIMITING = 0.01
"""Parts of the latency below this are not marked."""
_LEAD = "An Einsum takes as long as its busiest component, or longer where components wait for one another."
_MOST_MARKS = 2_000


def latency_section(cost: Cost) -> Section | None:
    """The section, or None where nothing takes time."""
    if not cost.latency:
        return None
    several = len(cost.latency_by_einsum) > 1
    views = [Option("by component", (_by_component(cost),))]
    views += [Option("by Einsum", (_by_einsum(cost),))] if several else []
    if several and len(cost.latencies) <= _MOST_MARKS:
        views.append(Option("Einsums and components", (_both(cost),)))
    parts: list[Part] = [Tabs(tuple(views)) if len(views) > 1 else views[0].parts[0]]
    parts += [Folded("numbers", (einsums_table(cost),))] if several else []
    for number, row in enumerate(cost.pipelines, start=1):
        which = f"Pipeline {number}" if len(cost.pipelines) > 1 else "Pipeline"
        parts += [Paragraph(f"{which}: {summary(row)}."), stages_table(row)]
    return Section("latency", "Latency", tuple(parts), _LEAD)


def _by_component(cost: Cost) -> Figure:
    rows = report_rows.busy_rows(cost)
    scale = Scale.of((row.busy for row in rows), "s")
    values = [
        {"row": row.component, "value": row.busy / scale.factor, "marked": row.limits >= LEAST_LIMITING}
        | {"text": percent(row.share), "limits": percent(row.limits) if row.limits else NONE}
        for row in rows
    ]
    end = max(row.busy for row in rows) / scale.factor * 1.12
    titles = {"row": "component", "text": "at work", "limits": "limits, part of the time"}
    plot = bar_plot(values, f"time at work ({scale.unit})", end, **titles)
    limiting = [row.component for row in rows if row.limits >= LEAST_LIMITING]
    limiting = limiting or [max(rows, key=lambda row: row.limits).component]
    text = f"How long each component works. The latency is limited by {', '.join(limiting)}."
    caption = f"Orange: what limits for {percent(LEAST_LIMITING)} of the time or more."
    return Figure("latency-by-component", "How long each component works", plot, text, caption)


def _by_einsum(cost: Cost) -> Figure:
    rows = report_rows.einsum_rows(cost)
    scale = Scale.of((row.latency for row in rows), "s")
    colours = colours_of([row.component for row in cost.components])
    several = [" + ".join(row.limited_by) for row in rows if len(row.limited_by) > 1]
    colours |= {name: colour(place + 6) for place, name in enumerate(dict.fromkeys(several))}
    colours[NONE] = colour(11)
    amounts = [
        Amount(row.einsum, " + ".join(row.limited_by) or NONE, row.latency / scale.factor, row.latency_share)
        for row in rows
    ]
    plot = stacked(amounts, scale.unit, "latency", "limited by", colours)
    longest = max(rows, key=lambda row: row.latency)
    text = f"Latency of each Einsum in the colour of what limits it; {longest.einsum} takes longest."
    return Figure("latency-by-einsum", "Latency by Einsum, in the colour of what limits it", plot, text)


def _both(cost: Cost) -> Figure:
    values: list[dict[str, Any]] = []
    for row in cost.latencies:
        whole = cost.latency_by_einsum[row.einsum]
        if whole:
            share, limits = row.latency / whole, row.component in cost.limited_by[row.einsum]
            shown = percent(share) if share >= 0.005 else ""
            names = {"einsum": row.einsum, "component": row.component}
            values.append({**names, "share": share, "text": shown, "limits": limits})
    n = len(cost.latency_by_einsum)
    used = {value["component"] for value in values}
    components = [row.component for row in cost.components if row.component in used]
    if n <= MOST_ROWS:
        x, y = name("component", orient="top", labelAngle=0, labelLimit=110), name("einsum")
        x["sort"] = components
    else:
        x, y = name("einsum", labels=False, title=f"{n:,} Einsums in order of execution"), name("component")
        y["sort"] = components
    shown_share = quantitative("share", "at work", format=".1%")
    plot: dict[str, Any] = {
        "data": {"values": values},
        "height": STEP * (n if n <= MOST_ROWS else len(components)),
        "encoding": {"x": x, "y": y, "tooltip": [*tooltip(einsum="Einsum", component="component"), shown_share]},
        "layer": [_tiles(n <= MOST_ROWS)],
    }
    if n <= MOST_ROWS:
        plot["layer"].append({"mark": {"type": "text"}, "encoding": {"text": {"field": "text"}}})
    text = "The part of each Einsum's time for which each component works; what limits is marked."
    title = "Part of each Einsum's time at work"
    return Figure("latency-einsums-components", title, plot, text, "Orange: what limits.")


def _tiles(few: bool) -> dict[str, Any]:
    scale = {"domain": [0, 1], "range": [0.04, 0.85]}
    return {
        "mark": {"type": "rect", "stroke": "var(--paper)", "strokeWidth": 1.5 if few else 0},
        "encoding": {
            "color": {"condition": {"test": "datum.limits", "value": colour(5)}, "value": colour(0)},
            "opacity": {"field": "share", "type": "quantitative", "scale": scale, "legend": None},
        },
    }
