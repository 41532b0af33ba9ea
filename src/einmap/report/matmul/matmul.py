"""The terminal report of a matmul plan: levels, time, traffic against the bound, layouts, and the loop nest."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from einmap.mapping.pretty import pretty
from einmap.matmul.layout import ORDERS, LayoutCost
from einmap.matmul.machine.machine import DIMENSIONS, TENSORS
from einmap.matmul.result import MatmulPlan
from einmap.matmul.to_mapping import loop_tree
from einmap.report.text.formatting import NONE, percent
from einmap.report.text.layout import new_table, section_title
from einmap.units import format_bits, format_count, format_si


def plan_report(plan: MatmulPlan) -> RenderableType:
    """Everything about one plan."""
    return Group(
        totals_section(plan),
        Text(""),
        levels_section(plan),
        Text(""),
        space_section(plan),
        Text(""),
        traffic_section(plan),
        Text(""),
        layout_section(plan),
        Text(""),
        nest_section(plan),
    )


def totals_section(plan: MatmulPlan) -> RenderableType:
    """Time and rate, how the plan was found, and by which rules."""
    m, k, n = plan.product.size
    types = dict.fromkeys(t.name for t in plan.product.types)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    grid.add_row("product", f"{m:,} x {k:,} x {n:,} in {', sums in '.join(types)} on {plan.machine.name}")
    computing = share(plan.compute_seconds, plan)
    grid.add_row("time", f"{format_si(plan.seconds, 's')}, of which computing {computing}")
    grid.add_row("rate", f"{format_si(plan.flops_per_s, 'flop/s')}, {percent(plan.peak_part)} of the peak")
    grid.add_row("plan", f"{how_found(plan)}; {', '.join(rule_texts(plan))}")
    return grid


def rule_texts(plan: MatmulPlan) -> list[str]:
    """The rules of a plan in words: `fit all`, `owned accumulation`."""
    rules = plan.rules
    texts = [f"fit {rules.fit}", f"{rules.accumulate} accumulation"]
    texts += ["double buffering"] if rules.double_buffer else []
    return texts + [f"{tensor} lies in {level}" for tensor, level in rules.resident]


def how_found(plan: MatmulPlan) -> str:
    """By which search a plan was found, and whether it is proven best."""
    if plan.method == "level by level":
        return plan.method
    return "joint, proven best" if plan.optimal else "joint, best so far: stopped before the proof"


def levels_section(plan: MatmulPlan) -> RenderableType:
    """Algorithm, blocks and partition counts of each level."""
    table = _narrow_table("memory", "level", "workers", "keeps", "algorithm", "m", "k", "n", "parts m x k x n")
    top = str(plan.machine.number(-1))
    table.add_row(plan.machine.main, top, NONE, NONE, NONE, *(str(size) for size in plan.product.size), NONE)
    for row in plan.levels:
        level, choice = row.stage.level, row.choice
        used = f"{choice.workers} of {level.workers}" if choice.workers < level.workers else str(level.workers)
        parts = " x ".join(str(count) for count in row.parts)
        head = (level.name, str(row.number), used, choice.algorithm.resident, str(choice.algorithm.value))
        table.add_row(*head, *(str(size) for size in choice.block), parts)
    return Group(section_title("Blocks; each memory keeps one while the others stream by"), table)


def space_section(plan: MatmulPlan) -> RenderableType:
    """Bytes of the blocks, how full memories are, and the part of the time."""
    table = _narrow_table("memory", "A", "B", "C", "needed", "of", "full", "time", "")
    m, k, n = plan.product.size
    whole = (rows * columns for rows, columns in ((m, k), (k, n), (m, n)))
    blocks = (format_bits(bits * values) for bits, values in zip(plan.product.bits, whole, strict=True))
    table.add_row(plan.machine.main, *blocks, NONE, NONE, NONE, NONE, NONE)
    for row in plan.levels:
        full = Text(percent(row.used), style="bold red" if row.used > 1 else "")
        shown = [format_bits(bits) if bits else NONE for bits in row.bits]
        sizes = format_bits(row.needed_bits), format_bits(row.stage.level.size_bits)
        times = format_si(row.seconds, "s"), share(row.seconds, plan)
        table.add_row(row.stage.level.name, *shown, *sizes, full, *times)
    times = format_si(plan.compute_seconds, "s"), share(plan.compute_seconds, plan)
    table.add_row(plan.machine.compute.name, *[NONE] * 6, *times)
    return Group(section_title("Space of one worker, and time that transfers and computing add"), table)


def traffic_section(plan: MatmulPlan) -> RenderableType:
    """What crosses each link, all workers together, against what must."""
    table = _narrow_table("into", *TENSORS, "in all", "at least", "times")
    for row in plan.levels:
        cells = [
            format_bits(bits * row.traffic.of(tensor).values) if row.traffic.of(tensor).values else NONE
            for tensor, bits in zip(TENSORS, plan.product.bits, strict=True)
        ]
        times = f"{row.traffic.bits / row.least:.2f}" if row.least else NONE
        table.add_row(row.stage.level.name, *cells, format_bits(row.traffic.bits), format_bits(row.least), times)
    return Group(section_title("Traffic with the level above, all workers, both directions"), table)


def layout_section(plan: MatmulPlan) -> RenderableType:
    """How each operand should lie in main memory, and what the other orders cost."""
    head = section_title(f"Order in {plan.machine.main}; the plan's time takes blocks that lie in one piece")
    if not plan.layouts:
        return Group(head, Padding(Text("nothing crosses this link"), (0, 0, 0, 2)))
    table = _narrow_table(
        "", "best", "in runs of", "time", *(f"by {order}" if order != "blocked" else order for order in ORDERS)
    )
    for layout in plan.layouts:
        best = layout.best
        by_order = {cost.order: cost for cost in layout.costs}
        cells = (_times(by_order[order], best) for order in ORDERS)
        table.add_row(layout.tensor, best.order, format_bits(best.run_bits), format_si(best.seconds, "s"), *cells)
    note = "columns: time against the best, and the useful part of the lines that are moved"
    return Group(head, table, Padding(Text(note, style="dim"), (0, 0, 0, 2)))


def _times(cost: LayoutCost, best: LayoutCost) -> str:
    ratio = cost.seconds / best.seconds if best.seconds else 1.0 if not cost.seconds else math.inf
    return f"{ratio:.2f}x ({percent(cost.full)})"


def nest_section(plan: MatmulPlan) -> RenderableType:
    """The loops, `einmap`'s LoopTree of the plan."""
    nest = Text(pretty(loop_tree(plan)), no_wrap=True, overflow="fold")
    loops = ", ".join(f"{name} {format_count(size)}" for name, size in zip(DIMENSIONS, plan.product.size, strict=True))
    return Group(section_title(f"Loop nest ({loops})"), Padding(nest, (0, 0, 0, 2)))


def share(seconds: float, plan: MatmulPlan) -> str:
    """A part of a plan's time in percent; 0% where the plan takes no time."""
    return percent(seconds / plan.seconds if plan.seconds else 0.0)


def _narrow_table(*headers: str) -> Table:
    """No column wraps, with one space between columns."""
    return new_table(*headers, whole=range(len(headers)), gap=1)
