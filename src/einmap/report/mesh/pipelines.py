"""The terminal report and the JSON document of `einmap pipeline`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.distribute.pipelines.search import BestPipeline
from einmap.distribute.pipelines.timeline import Timeline
from einmap.report.text.formatting import percent
from einmap.report.text.layout import Table, section, stacked
from einmap.units import counted, format_si

SCHEMA = 1
"""Version of the JSON document."""


def compared_report(timelines: Sequence[Timeline]) -> RenderableType:
    """Schedules side by side, the shortest first; of equal ones the one that holds least."""
    rows = sorted(timelines, key=lambda each: (each.makespan, max(each.peaks) / each.schedule.stages))
    texts = [
        (
            timeline.schedule.name,
            format_si(timeline.makespan, "s"),
            percent(timeline.bubble),
            format_si(max(timeline.spans), "s"),
            f"{max(timeline.peaks) * timeline.schedule.devices / timeline.schedule.stages:.3g}",
            f"{timeline.schedule.stages // timeline.schedule.devices}",
        )
        for timeline in rows
    ]
    first = rows[0].schedule
    columns = ("schedule", "makespan", "bubble", "longest span", "micro-batches held", "stages a device")
    title = f"{counted(first.micro_batches, 'micro-batch')} on {counted(first.devices, 'device')}"
    return section(title, Table(columns, texts))


def known_of(best: BestPipeline) -> str:
    """How it is known that no schedule is better, or what any schedule takes at least."""
    if best.proven:
        return "best: proven, no schedule with these stages on these devices is shorter"
    least = format_si(best.lower_bound, "s")
    return f"best: not proven; none takes less than {least}, so at most {percent(best.gap)} are to be gained"


def timeline_report(timeline: Timeline, best: BestPipeline | None = None) -> RenderableType:
    """One schedule, device by device."""
    schedule = timeline.schedule
    rows = [
        (
            f"{device}",
            ", ".join(str(stage) for stage, at in enumerate(schedule.device_of) if at == device),
            format_si(timeline.busy[device], "s"),
            format_si(timeline.spans[device], "s"),
            percent(1 - timeline.busy[device] / timeline.makespan if timeline.makespan else 0.0),
            f"{timeline.peaks[device]:g}",
        )
        for device in range(schedule.devices)
    ]
    table = Table(("device", "stages", "busy", "span", "idle", "activations"), rows, left=(0, 1))
    head = f"{schedule.name}: {format_si(timeline.makespan, 's')}, bubble {percent(timeline.bubble)}"
    return stacked([section(head, table), None if best is None else Text(known_of(best))])


def pipeline_document(timelines: Sequence[Timeline], best: BestPipeline | None = None) -> dict[str, Any]:
    """Numbers of each schedule; seconds, and activations as the costs give them."""
    rows: Sequence[dict[str, Any]] = [
        {
            "schedule": timeline.schedule.name,
            "devices": timeline.schedule.devices,
            "stages": timeline.schedule.stages,
            "micro_batches": timeline.schedule.micro_batches,
            "makespan": timeline.makespan,
            "bubble": timeline.bubble,
            "spans": list(timeline.spans),
            "busy": list(timeline.busy),
            "peak_activations": list(timeline.peaks),
        }
        for timeline in timelines
    ]
    known = {} if best is None else {"lower_bound": best.lower_bound, "proven": best.proven, "gap": best.gap}
    return {"schema": SCHEMA, "schedules": rows} | known
