"""The page of `einmap plan-matmul`: blocks, time, traffic against the bound, roofline, and the loop nest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from einmap.frontends.yaml.spec import dump
from einmap.matmul.machine.machine import DIMENSIONS, TENSORS
from einmap.matmul.result import MatmulPlan
from einmap.matmul.to_mapping import loop_tree, to_mapping
from einmap.model.roofline import Point, Roof, Roofline
from einmap.report.html.charts import Amount, colours_of, stacked
from einmap.report.html.notes import note_texts
from einmap.report.html.parts import Code, Figure, Folded, Page, Paragraph, Part, Section, Table, Tile, Tiles, Tone
from einmap.report.html.sections.drawings import plain_loop_tree
from einmap.report.html.sections.roofline import roofline_figure
from einmap.report.matmul.matmul import how_found, rule_texts, share
from einmap.report.text.formatting import NONE, Scale, data_unit, percent
from einmap.units import format_bits, format_si

if TYPE_CHECKING:
    from einmap.matmul.measured.measure import Measured


def matmul_page(plan: MatmulPlan, measured: Measured | None = None) -> Page:
    """Everything about one plan; `measured`: what it came to on the processor at hand."""
    m, k, n = plan.product.size
    types = dict.fromkeys(t.name for t in plan.product.types)
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
    subtitle = f"C <- A B + C in {', sums in '.join(types)}; {', '.join(rule_texts(plan))}"
    shown = tuple(section for section in sections if section is not None)
    return Page(title, subtitle, shown, notes=note_texts(plan.notes))


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
    runs = [
        *((f"plain loops {run.name}", run.flops_per_s) for run in measured.plain),
        ("the plan", measured.planned.flops_per_s),
        ("NumPy's BLAS", measured.blas.flops_per_s),
        ("the plan as predicted", plan.flops_per_s),
        ("roofline", measured.roofline),
    ]
    rows = tuple((name, f"{rate / 1e9:.2f}", percent(rate / measured.peak)) for name, rate in runs)
    verdict = "results are correct" if measured.correct else "results are WRONG"
    head = ("measured on one core", "Gflop/s", "of the peak")
    bars = {2: tuple(min(1.0, rate / measured.peak) for _, rate in runs)}
    return Table(head, rows, bars=bars, strong=(len(measured.plain),), caption=f"Measured; {verdict}.")


def _blocks(plan: MatmulPlan) -> Section:
    head = ("memory", "workers", "keeps", "algorithm", *DIMENSIONS, "parts m x k x n")
    rows = []
    for row in plan.levels:
        level, choice = row.stage.level, row.choice
        used = f"{choice.workers} of {level.workers}" if choice.workers < level.workers else str(level.workers)
        sizes = (f"{size:,}" for size in choice.block)
        parts = " x ".join(str(count) for count in row.parts)
        algorithm = choice.algorithm
        rows.append((level.name, used, algorithm.resident, str(algorithm.value), *sizes, parts))
    space = ("memory", *TENSORS, "needed", "of", "full")
    needs = tuple(
        (
            row.stage.level.name,
            *(format_bits(bits) if bits else NONE for bits in row.bits),
            format_bits(row.needed_bits),
            format_bits(row.stage.level.size_bits),
            percent(row.used),
        )
        for row in plan.levels
    )
    bars = {len(space) - 1: tuple(min(1.0, row.used) for row in plan.levels)}
    tables = (
        Table(head, tuple(rows)),
        Table(space, needs, bars=bars, caption="Space of the blocks in the memory of one worker."),
    )
    lead = "Each memory, the outermost one first, keeps one block while the others stream by."
    return Section("blocks", "Blocks", tables, lead)


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
    colours = colours_of(TENSORS)
    rows, least = [], []
    table = []
    for row in plan.levels:
        name = f"into {row.stage.level.name}"
        cells = [bits * row.traffic.of(tensor).values for tensor, bits in zip(TENSORS, plan.product.bits, strict=True)]
        rows += [
            Amount(name, tensor, cell / size, cell / row.traffic.bits if row.traffic.bits else 0.0)
            for tensor, cell in zip(TENSORS, cells, strict=True)
        ]
        least.append({"row": name, "least": row.least / size, "text": format_bits(row.least)})
        times = f"{row.traffic.bits / row.least:.2f}" if row.least else NONE
        shown = [format_bits(cell) if cell else NONE for cell in cells]
        table.append((row.stage.level.name, *shown, format_bits(row.traffic.bits), format_bits(row.least), times))
    head = ("into", *TENSORS, "in all", "at least", "times")
    parts: list[Part] = [Table(head, tuple(table))]
    if most:
        bars = stacked(rows, unit, "traffic", "operand", colours)
        parts.insert(
            0,
            Figure(
                "traffic",
                "Traffic with the level above",
                _with_bounds(bars, least),
                _traffic_text(plan),
                "Lines: what must be moved at least.",
            ),
        )
    return Section(
        "traffic", "Traffic", tuple(parts), "What crosses each link, all workers together, in both directions."
    )


def _with_bounds(plot: dict[str, Any], least: list[dict[str, Any]]) -> dict[str, Any]:
    """A line across each bar where the lower bound is."""
    encoding = plot["encoding"]
    line = {
        "data": {"values": least},
        "mark": {"type": "tick", "thickness": 3, "color": "var(--ink)", "height": {"band": 1}},
        "encoding": {
            "y": {"field": "row", "type": "nominal", "sort": None},
            "x": {"field": "least", "type": "quantitative"},
            "tooltip": [{"field": "text", "title": "at least"}],
        },
    }
    bars = {"data": plot["data"], "mark": plot["mark"], "encoding": encoding}
    return {"height": plot["height"], "layer": [bars, line]}


def _traffic_text(plan: MatmulPlan) -> str:
    parts = (
        f"into {row.stage.level.name} {format_bits(row.traffic.bits)}, at least {format_bits(row.least)}"
        for row in plan.levels
    )
    return f"Traffic: {'; '.join(parts)}."


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


def _by(order: str) -> str:
    return order if order == "blocked" else f"by {order}"


def _layouts(plan: MatmulPlan) -> Section | None:
    if not plan.layouts:
        return None
    head = ("operand", "best order", "in runs of", "time", *(_by(cost.order) for cost in plan.layouts[0].costs))
    rows = []
    for layout in plan.layouts:
        best = layout.best
        ratios = (cost.seconds / best.seconds if best.seconds else 1.0 for cost in layout.costs)
        cells = (f"{ratio:.2f} x" for ratio in ratios)
        rows.append((layout.tensor, best.order, format_bits(best.run_bits), format_si(best.seconds, "s"), *cells))
    note = Paragraph(
        "Columns of orders: time against the best one. The plan's time takes blocks that lie in one piece."
    )
    return Section("layouts", f"Order in {plan.machine.main}", (Table(head, tuple(rows), left=(1,)), note))
