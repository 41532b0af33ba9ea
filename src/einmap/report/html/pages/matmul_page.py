"""The page of `einmap plan-matmul`: blocks, time, traffic against the bound, roofline, and the loop nest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from einmap.frontends.yaml.spec import dump
from einmap.matmul.machine.machine import TENSORS
from einmap.matmul.result import MatmulPlan
from einmap.matmul.to_mapping import loop_tree, to_mapping
from einmap.model.roofline import Point, Roof, Roofline
from einmap.report.frames.products import traffic_by_tensor
from einmap.report.html.charts import Amount, colours_of, stacked, tooltip
from einmap.report.html.parts import Code, Figure, Folded, Page, Paragraph, Part, Section, Tile, Tiles
from einmap.report.html.sections.drawings import plain_loop_tree
from einmap.report.html.sections.roofline import roofline_figure
from einmap.report.matmul.matmul import (
    ORDERS_NOTE,
    blocks_table,
    how_found,
    layouts_table,
    rule_texts,
    share,
    space_table,
    traffic_table,
    types_text,
)
from einmap.report.matmul.matmul_measured import measured_table
from einmap.report.text.formatting import Scale, data_unit, percent
from einmap.report.text.layout import Table, Tone
from einmap.units import format_bits, format_si

if TYPE_CHECKING:
    from einmap.matmul.measured.measure import Measured


def matmul_page(plan: MatmulPlan, measured: Measured | None = None) -> Page:
    """Everything about one plan; `measured`: what it came to on the processor at hand."""
    m, k, n = plan.product.size
    sections = [
        _summary(plan, measured),
        _blocks(plan),
        _time(plan),
        _traffic(plan),
        _roofline(plan),
        _layouts(plan),
        Section("looptree", "Loop nest", plain_loop_tree(loop_tree(plan))),
        Section("inputs", "Inputs", (Folded("the plan as a specification", (Code(dump(to_mapping(plan))),)),)),
    ]
    title = f"Matrix product {m:,} x {k:,} x {n:,} on {plan.machine.name}"
    subtitle = f"C <- A B + C in {types_text(plan)}; {', '.join(rule_texts(plan))}"
    return Page.of(title, subtitle, sections, plan.notes)


def _summary(plan: MatmulPlan, measured: Measured | None) -> Section:
    tone: Tone = "good" if plan.optimal else "plain"
    tiles = Tiles(
        (
            Tile("time", format_si(plan.seconds, "s"), f"computing {share(plan.compute_seconds, plan)}"),
            Tile("rate", format_si(plan.flops_per_s, "flop/s"), f"{percent(plan.peak_part)} of the peak"),
            Tile("plan", "proven best" if plan.optimal else plan.method, how_found(plan), tone),
            Tile("operations", format_si(plan.product.flops, "flop")),
        )
    )
    return Section("summary", "Summary", (tiles, *([] if measured is None else [_measured(plan, measured)])))


def _measured(plan: MatmulPlan, measured: Measured) -> Table:
    verdict = "results are correct" if measured.correct else "results are WRONG"
    tones: dict[int, Tone] = {len(measured.plain): "strong"}
    return replace(measured_table(plan, measured), tones=tones, caption=f"Measured; {verdict}.")


def _blocks(plan: MatmulPlan) -> Section:
    caption = "Space of the blocks in the memory of one worker, and time that transfers and computing add."
    lead = "Each memory, the outermost one first, keeps one block while the others stream by."
    return Section("blocks", "Blocks", (blocks_table(plan), replace(space_table(plan), caption=caption)), lead)


def _time(plan: MatmulPlan) -> Section | None:
    if not plan.seconds:
        return None
    parts = {f"into {row.stage.level.name}": row.seconds for row in plan.levels} | {"computing": plan.compute_seconds}
    scale = Scale.of([plan.seconds], "s")
    amounts = [
        Amount("the product", name, seconds / scale.factor, seconds / plan.seconds) for name, seconds in parts.items()
    ]
    plot = stacked(amounts, scale.unit, "time", "is for")
    longest = max(parts, key=lambda name: parts[name])
    text = f"Of {format_si(plan.seconds, 's')} most is for {longest}, {share(parts[longest], plan)}."
    return Section("time", "Time", (Figure("time", "What the time is for", plot, text, text),))


def _traffic(plan: MatmulPlan) -> Section:
    most = max((row.traffic.bits for row in plan.levels), default=0.0)
    size, unit = data_unit(most)
    rows, least, texts = [], [], []
    for row in plan.levels:
        name, bound = f"into {row.stage.level.name}", format_bits(row.least)
        rows += [
            Amount(name, tensor, bits / size, bits / row.traffic.bits if row.traffic.bits else 0.0)
            for tensor, bits in zip(TENSORS, traffic_by_tensor(plan, row), strict=True)
        ]
        least.append({"row": name, "least": row.least / size, "text": bound})
        texts.append(f"{name} {format_bits(row.traffic.bits)}, at least {bound}")
    parts: list[Part] = [traffic_table(plan)]
    if most:
        plot = _with_bounds(stacked(rows, unit, "traffic", "operand", colours_of(TENSORS)), least)
        title, lines = "Traffic with the level above", "Lines: what must be moved at least."
        parts.insert(0, Figure("traffic", title, plot, f"Traffic: {'; '.join(texts)}.", lines))
    lead = "What crosses each link, all workers together, in both directions."
    return Section("traffic", "Traffic", tuple(parts), lead)


def _with_bounds(plot: dict[str, Any], least: list[dict[str, Any]]) -> dict[str, Any]:
    """A line across each bar where the lower bound is."""
    line = {
        "data": {"values": least},
        "mark": {"type": "tick", "thickness": 3, "color": "var(--ink)", "height": {"band": 1}},
        "encoding": {
            "y": {"field": "row", "type": "nominal", "sort": None},
            "x": {"field": "least", "type": "quantitative"},
            "tooltip": tooltip(text="at least"),
        },
    }
    bars = {key: plot[key] for key in ("data", "mark", "encoding")}
    return {"height": plot["height"], "layer": [bars, line]}


def _roofline(plan: MatmulPlan) -> Section | None:
    machine = plan.machine
    peak = machine.peak(plan.product.types[0].name)
    roofs, points = [], []
    for position, row in enumerate(plan.levels):
        level = row.stage.level
        rate = max(level.load_bandwidth, level.store_bandwidth) * machine.instances(position) / 8
        if rate < float("inf"):
            roofs.append(Roof(level.name, rate))
        if row.traffic.bits and plan.seconds:
            points.append(Point("the plan", level.name, plan.product.flops / (row.traffic.bits / 8), plan.flops_per_s))
    roofs_and_points = Roofline((Roof(machine.compute.name, peak),), tuple(roofs), tuple(points))
    figure = roofline_figure(roofs_and_points, colours_of([row.stage.level.name for row in plan.levels]), "the plan")
    lead = "A point for each memory: operations for a byte that crosses its link, and for a second."
    return None if figure is None else Section("roofline", "Roofline", (figure,), lead)


def _layouts(plan: MatmulPlan) -> Section | None:
    if not plan.layouts:
        return None
    note = f"{ORDERS_NOTE.capitalize()}. The plan's time takes blocks that lie in one piece."
    return Section("layouts", f"Order in {plan.machine.main}", (layouts_table(plan), Paragraph(note)))
