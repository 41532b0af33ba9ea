"""What is told of Pipelines: which stage is the slowest, and how long it takes to fill and to drain."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from einmap.model.cost import Cost, PipelineRow
from einmap.report.text.formatting import Bar, Scale, percent
from einmap.report.text.layout import new_table, section_title
from einmap.units import format_count, format_si


def summary(row: PipelineRow) -> str:
    """`16 tiles, 18.2 µs: 16.4 µs of stage 1, 1.79 µs to fill and drain; 45.1 µs in turns`."""
    longest = max(row.stages, key=lambda stage: stage.latency)
    alone = format_si(math.fsum(stage.latency for stage in row.stages), "s")
    number = row.stages.index(longest) + 1
    if row.limited_by is None:
        filling = format_si(row.filling - longest.latency, "s")
        why = f"{format_si(longest.latency, 's')} of stage {number}, {filling} to fill and drain"
    else:
        why = f"{row.limited_by} is busy for all stages; without it {format_si(row.filling, 's')}"
    tiles = "1 tile" if row.tiles == 1 else f"{format_count(row.tiles)} tiles"
    return f"{tiles}, {format_si(row.latency, 's')}: {why}; {alone} in turns"


def paces(row: PipelineRow) -> list[str]:
    """For each stage whether it is the slowest one, the slowest of its step, or waits for others."""
    slowest = row.slowest.values()
    longest = max(slowest, key=lambda stage: stage.latency)
    return [
        "slowest" if stage is longest else "" if stage in slowest else f"beside a slower one after {stage.awaits}"
        for stage in row.stages
    ]


def pipelines_section(cost: Cost) -> RenderableType:
    """Each Pipeline: tiles, seconds of its stages as part of its own, and which is the slowest."""
    parts: list[RenderableType] = [section_title("Pipelines: stages that work at one time")]
    for row in cost.pipelines:
        scale = Scale.of((stage.latency for stage in row.stages), "s")
        table = new_table("", scale.unit, "busy", "", "", "")
        for number, (stage, pace) in enumerate(zip(row.stages, paces(row), strict=True), start=1):
            share = stage.latency / row.latency if row.latency else 0.0
            bar = Bar(share, 20, "yellow" if pace == "slowest" and row.limited_by is None else "cyan")
            names = Text(", ".join(stage.einsums), overflow="fold")
            table.add_row(f"stage {number}", scale.show(stage.latency), percent(share), bar, names, pace)
        for column in (3, 4, 5):
            table.columns[column].justify = "left"
        parts += [Padding(Text(summary(row)), (0, 0, 0, 2)), table]
    return Group(*parts)
