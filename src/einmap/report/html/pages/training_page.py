"""The page of `einmap train-plan`: the best plan, when each stage runs, what a device holds, and why others lose."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.distribute.training.document import training_text
from einmap.distribute.training.search import BestTraining
from einmap.frontends.yaml.spec import dump
from einmap.report.html.charts import Amount, stacked
from einmap.report.html.parts import Code, Drawing, Figure, Folded, Page, Paragraph, Part, Section, Tile, Tiles
from einmap.report.html.sections.drawings import workload_section
from einmap.report.mesh.pictures.pipeline import pipeline_svg
from einmap.report.mesh.training import (
    changes_table,
    kinds_table,
    known_of,
    left_out_of,
    memory_of,
    parts_of,
    runs_of,
    time_table,
)
from einmap.report.text.formatting import Scale, data_unit, percent
from einmap.spec.spec import Spec
from einmap.units import format_bytes, format_si

MOST_DRAWN = 8_000
"""Actions of a pipeline that a page draws; `--svg` draws any number."""


def training_page(best: BestTraining, spec: Spec, names: Sequence[str] = ()) -> Page:
    """Page on the plan of a training step. `names`: of the files that it was made from, for the title."""
    plan = Folded("the plan as YAML", (Code(training_text(best.plan)),))
    changes = changes_table(best)
    sections = (
        _summary(best),
        _timeline(best),
        _time(best),
        _memory(best),
        Section("others", "Other plans", (kinds_table(best),), "The best plan of each way to divide devices."),
        None if changes is None else Section("what-if", "What one change would cost", (changes,)),
        workload_section(spec.workload),
        Section("inputs", "Inputs", (plan, Folded("specification", (Code(dump(spec)),)))),
    )
    head = f"Training plan: {', '.join(names) or ', '.join(spec.workload.by_name)}"
    return Page.of(head, f"{best.plan}", sections, spec.distribution_notes)


def _summary(best: BestTraining) -> Section:
    step, limit = best.step, memory_of(best)
    known = f"{known_of(best)}; {left_out_of(best)}" if best.left_out else known_of(best)
    verdict = Paragraph(f"{known[0].upper()}{known[1:]}.", "good" if best.proven else "warning")
    of = f"of {format_bytes(limit)}" if limit != float("inf") else "at most, no limit"
    tiles = Tiles(
        (
            Tile("step", format_si(step.seconds, "s"), f"{step.micro_batches:,} micro-batches in each group"),
            Tile("rate", format_si(step.rate, "op/s"), "of the model on each device"),
            Tile("bubble", percent(_bubble(best)), "of the step, on the device that is done last"),
            Tile("held by a device", format_bytes(step.peak.total), of),
        )
    )
    return Section("summary", "Summary", (verdict, tiles))


def _bubble(best: BestTraining) -> float:
    return sum(part.seconds for part in best.step.parts if part.what == "bubble") / best.step.seconds


def _timeline(best: BestTraining) -> Section | None:
    step, plan = best.step, best.plan
    if plan.pp == 1:
        return None
    timeline = step.timeline
    count = sum(len(actions) for row in timeline.schedule.steps for actions in row)
    part: Part = Paragraph(f"{count:,} actions are not drawn here; --svg and --trace write all of them.")
    if count <= MOST_DRAWN:
        part = Drawing(
            "timeline", "When each stage runs", lambda theme: pipeline_svg(timeline, theme=theme, held=_held)
        )
    lead = f"Layers of the stages: {runs_of(step.stages)}. Numbers are those of micro-batches, bubbles are yellow."
    return Section("timeline", "When", (part,), lead)


def _held(most: float) -> str:
    return f"{format_bytes(most)} of activations"


def _time(best: BestTraining) -> Section:
    whole = best.step.seconds
    scale = Scale.of([whole], "s")
    shown = sorted((part for part in best.step.parts if part.seconds), key=lambda part: -part.seconds)
    amounts = [
        Amount("the step", part.what.replace("_", "-"), part.seconds / scale.factor, part.seconds / whole)
        for part in shown
    ]
    plot = stacked(amounts, scale.unit, "time", "is for")
    text = f"Of {format_si(whole, 's')} most is {amounts[0].part}, {percent(amounts[0].share)}." if amounts else ""
    figure = Figure("time", "What the step is for", plot, text, text)
    lead = "The device that is done last; what is hidden runs while it computes."
    return Section("time", "Time", (figure, time_table(best)), lead)


def _memory(best: BestTraining) -> Section:
    size, unit = data_unit(8 * max(held.total for held in best.step.held))
    amounts = [
        Amount(f"device {device}", what, 8 * held / size, held / row.total if row.total else 0.0)
        for device, row in enumerate(best.step.held)
        for what, held in parts_of(row).items()
    ]
    peak, limit = best.step.peak, memory_of(best)
    of = f" of {format_bytes(limit)}" if limit != float("inf") else ""
    text = f"Bytes on each device of a pipeline at its peak; the fullest one holds {format_bytes(peak.total)}{of}."
    return Section(
        "memory", "Memory", (Figure("memory", "What devices hold", stacked(amounts, unit, "held", "is"), text, text),)
    )
