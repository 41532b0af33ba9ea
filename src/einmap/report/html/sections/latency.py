"""Where time goes: how long each component works, which one limits each Einsum, and both together."""

from __future__ import annotations

from typing import Any

from einmap.model.cost import Cost, PipelineRow
from einmap.report.costs import rows as report_rows
from einmap.report.costs.pipelines import paces, summary
from einmap.report.html.charts import MOST_ROWS, STEP, Amount, colour, colours_of, stacked
from einmap.report.html.charts import bars as bar_plot
from einmap.report.html.parts import Figure, Folded, Option, Paragraph, Part, Section, Table, Tabs
from einmap.report.text.formatting import NONE, Scale, percent

LEAST_LIMITING = 0.01
"""Parts of the latency below this are not marked."""
_LEAD = "An Einsum takes as long as its busiest component, or longer where components wait for one another."
_MOST_MARKS = 2_000


def latency_section(cost: Cost) -> Section | None:
    """The section, or None where nothing takes time."""
    if not cost.latency:
        return None
    views = [Option("by component", (_by_component(cost),))]
    if len(cost.latency_by_einsum) > 1:
        views.append(Option("by Einsum", (_by_einsum(cost),)))
    if len(cost.latency_by_einsum) > 1 and len(cost.latencies) <= _MOST_MARKS:
        views.append(Option("Einsums and components", (_both(cost),)))
    parts: list[Part] = [Tabs(tuple(views)) if len(views) > 1 else views[0].parts[0]]
    if len(cost.latency_by_einsum) > 1:
        parts.append(Folded("numbers", (_table(cost),)))
    for number, row in enumerate(cost.pipelines, start=1):
        which = f"Pipeline {number}" if len(cost.pipelines) > 1 else "Pipeline"
        parts += [Paragraph(f"{which}: {summary(row)}."), _stages(row)]
    return Section("latency", "Latency", tuple(parts), _LEAD)


def _by_component(cost: Cost) -> Figure:
    rows = report_rows.busy_rows(cost)
    scale = Scale.of((row.busy for row in rows), "s")
    several = len(cost.latency_by_einsum) > 1
    values = [
        {
            "row": row.component,
            "value": row.busy / scale.factor,
            "marked": row.limits >= LEAST_LIMITING,
            "text": percent(row.share),
            "limits": _limits(row, several),
            "share": percent(row.share),
        }
        for row in rows
    ]
    end = max(row.busy for row in rows) / scale.factor * 1.12
    plot = bar_plot(
        values,
        f"time at work ({scale.unit})",
        tooltip=(("row", "component"), ("share", "at work"), ("limits", "limits")),
        domain=end,
    )
    limiting = [row.component for row in rows if row.limits >= LEAST_LIMITING] or [
        max(rows, key=lambda r: r.limits).component
    ]
    text = f"How long each component works. The latency is limited by {', '.join(limiting)}."
    return Figure(
        "latency-by-component",
        "How long each component works",
        plot,
        text,
        f"Orange: what limits for {percent(LEAST_LIMITING)} of the time or more.",
    )


def _limits(row: report_rows.BusyRow, several: bool) -> str:
    if not row.limits:
        return NONE
    return f"{percent(row.limits)} of the time" if several else "the latency"


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
    limiting = cost.limited_by
    values: list[dict[str, Any]] = []
    for row in cost.latencies:
        whole = cost.latency_by_einsum[row.einsum]
        if whole:
            share = row.latency / whole
            limits = row.component in limiting[row.einsum]
            shown = percent(share) if share >= 0.005 else ""
            values.append(
                {"einsum": row.einsum, "component": row.component, "share": share, "text": shown, "limits": limits}
            )
    few = len(cost.latency_by_einsum) <= MOST_ROWS
    used = {value["component"] for value in values}
    components = [row.component for row in cost.components if row.component in used]
    quiet = {"title": None, "grid": False, "ticks": False, "domain": False}
    by_component: dict[str, Any] = {"field": "component", "type": "nominal", "sort": components}
    by_einsum: dict[str, Any] = {"field": "einsum", "type": "nominal", "sort": None}
    if few:
        by_component["axis"] = {**quiet, "orient": "top", "labelAngle": 0, "labelLimit": 110}
        x, y, rows = by_component, {**by_einsum, "axis": quiet}, len(cost.latency_by_einsum)
    else:
        n = len(cost.latency_by_einsum)
        by_einsum["axis"] = {**quiet, "labels": False, "title": f"{n:,} Einsums in order of execution"}
        x, y, rows = by_einsum, {**by_component, "axis": quiet}, len(components)
    plot: dict[str, Any] = {
        "data": {"values": values},
        "height": STEP * rows,
        "encoding": {
            "x": x,
            "y": y,
            "tooltip": [
                {"field": "einsum", "title": "Einsum"},
                {"field": "component", "title": "component"},
                {"field": "share", "type": "quantitative", "format": ".1%", "title": "at work"},
            ],
        },
        "layer": [_tiles(few)],
    }
    if few:
        plot["layer"].append({"mark": {"type": "text"}, "encoding": {"text": {"field": "text"}}})
    text = "The part of each Einsum's time for which each component works; what limits is marked."
    return Figure(
        "latency-einsums-components", "Part of each Einsum's time at work", plot, text, "Orange: what limits."
    )


def _tiles(few: bool) -> dict[str, Any]:
    return {
        "mark": {"type": "rect", "stroke": "var(--paper)", "strokeWidth": 1.5 if few else 0},
        "encoding": {
            "color": {"condition": {"test": "datum.limits", "value": colour(5)}, "value": colour(0)},
            "opacity": {
                "field": "share",
                "type": "quantitative",
                "scale": {"domain": [0, 1], "range": [0.04, 0.85]},
                "legend": None,
            },
        },
    }


def _stages(row: PipelineRow) -> Table:
    scale = Scale.of((stage.latency for stage in row.stages), "s")
    shares = tuple(stage.latency / row.latency if row.latency else 0.0 for stage in row.stages)
    lines = tuple(
        (f"stage {number}", scale.show(stage.latency), percent(share), ", ".join(stage.einsums), pace or NONE)
        for number, (stage, share, pace) in enumerate(zip(row.stages, shares, paces(row), strict=True), start=1)
    )
    head = ("", f"latency ({scale.unit})", "at work", "Einsums", "pace")
    return Table(head, lines, left=(3, 4), bars={2: tuple(min(share, 1.0) for share in shares)})


def _table(cost: Cost) -> Table:
    rows = report_rows.einsum_rows(cost)
    energy, latency = Scale.of((r.energy for r in rows), "J"), Scale.of((r.latency for r in rows), "s")
    head = ("", f"energy ({energy.unit})", "part", f"latency ({latency.unit})", "part", "limited by", "fills most")
    lines = [
        (
            row.einsum,
            energy.show(row.energy),
            percent(row.energy_share),
            latency.show(row.latency),
            percent(row.latency_share),
            " + ".join(row.limited_by) or NONE,
            f"{row.memory} {percent(row.usage)}" if row.memory else NONE,
        )
        for row in rows
    ]
    bars = {2: tuple(row.energy_share for row in rows), 4: tuple(row.latency_share for row in rows)}
    return Table(head, tuple(lines), left=(5, 6), bars=bars)
