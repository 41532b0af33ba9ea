"""Report of Pipelines: which stage is the slowest, and how long it takes to fill and to drain."""

from __future__ import annotations

import math

from rich.console import RenderableType

from einmap.model.cost import Cost, PipelineRow
from einmap.report.text.formatting import Scale, percent
from einmap.report.text.layout import Table, indented, laid_out, section
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


def stages_table(row: PipelineRow) -> Table:
    """Seconds of the stages of a Pipeline as part of its own, and which is the slowest."""
    scale = Scale.of((stage.latency for stage in row.stages), "s")
    shares = [stage.latency / row.latency if row.latency else 0.0 for stage in row.stages]
    slow = paces(row)
    texts = [
        (f"stage {number}", scale.show(stage.latency), percent(share), ", ".join(stage.einsums), pace)
        for number, (stage, share, pace) in enumerate(zip(row.stages, shares, slow, strict=True), start=1)
    ]
    marked = [n for n, pace in enumerate(slow) if pace == "slowest" and row.limited_by is None]
    return Table(("", scale.unit, "busy", "", ""), texts, left=(0, 3, 4), bars={2: shares}, marked=marked)


def pipelines_section(cost: Cost) -> RenderableType | None:
    """Each Pipeline: tiles, its stages, and which is the slowest; None where there is none."""
    if not cost.pipelines:
        return None
    parts = [part for row in cost.pipelines for part in (indented(summary(row)), laid_out(stages_table(row), 20))]
    return section("Pipelines: stages that work at one time", *parts)
