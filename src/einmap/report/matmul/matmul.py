"""The terminal report of a matmul plan: levels, time, traffic against the bound, layouts, and the loop nest."""

from __future__ import annotations

import math

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from einmap.mapping.pretty import pretty
from einmap.matmul.layout import ORDERS, LayoutCost
from einmap.matmul.machine.machine import DIMENSIONS, TENSORS
from einmap.matmul.result import MatmulPlan
from einmap.matmul.to_mapping import loop_tree
from einmap.report.frames.kinds import frame_of
from einmap.report.frames.shown import shown
from einmap.report.text.formatting import percent
from einmap.report.text.layout import Table, Tone, indented, laid_out, section, stacked
from einmap.units import format_bits, format_count, format_si

_BLOCKS = {
    "level": "memory", "number": "level", "workers used": "workers", "workers": "of", "resident": "keeps",
    "algorithm": "algorithm",
    **{f"block {dimension} [values]": dimension for dimension in DIMENSIONS},
    **{f"parts {dimension}": f"parts {dimension}" for dimension in DIMENSIONS},
}  # fmt: skip
_SPACE = {
    "level": "memory", **{f"block of {tensor} [bits]": tensor for tensor in TENSORS},
    "needed [bits]": "needed", "size [bits]": "of", "full [part]": "full", "time [s]": "time", "share": "",
}  # fmt: skip
_TRAFFIC = {
    "level": "into", **{f"traffic of {tensor} [bits]": tensor for tensor in TENSORS},
    "traffic [bits]": "in all", "least traffic [bits]": "at least", "times the least": "times",
}  # fmt: skip


def plan_report(plan: MatmulPlan) -> RenderableType:
    """Everything about one plan."""
    order = f"Order in {plan.machine.main}; the plan's time takes blocks that lie in one piece"
    layouts = [laid_out(layouts_table(plan), gap=1), indented(ORDERS_NOTE, style="dim")]
    nest = Text(pretty(loop_tree(plan)), no_wrap=True, overflow="fold")
    loops = ", ".join(f"{name} {format_count(size)}" for name, size in zip(DIMENSIONS, plan.product.size, strict=True))
    titles = {
        "Blocks; each memory keeps one while the others stream by": blocks_table(plan),
        "Space of one worker, and time that transfers and computing add": space_table(plan),
        "Traffic with the level above, all workers, both directions": traffic_table(plan),
    }
    return stacked(
        [
            totals_section(plan),
            *(section(title, laid_out(table, gap=1)) for title, table in titles.items()),
            section(order, *(layouts if plan.layouts else [indented("nothing crosses this link")])),
            section(f"Loop nest ({loops})", Padding(nest, (0, 0, 0, 2))),
        ]
    )


def totals_section(plan: MatmulPlan) -> RenderableType:
    """Time and rate, how the plan was found, and by which rules."""
    m, k, n = plan.product.size
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column()
    grid.add_row("product", f"{m:,} x {k:,} x {n:,} in {types_text(plan)} on {plan.machine.name}")
    whole = zip(TENSORS, plan.product.bits, (m * k, k * n, m * n), strict=True)
    operands = ", ".join(f"{tensor} {format_bits(bits * values)}" for tensor, bits, values in whole)
    grid.add_row(plan.machine.main, operands)
    computing = f"{format_si(plan.compute_seconds, 's')}, {share(plan.compute_seconds, plan)}"
    grid.add_row("time", f"{format_si(plan.seconds, 's')}, of which computing {computing}")
    grid.add_row("rate", f"{format_si(plan.flops_per_s, 'flop/s')}, {percent(plan.peak_part)} of the peak")
    grid.add_row("plan", f"{how_found(plan)}; {', '.join(rule_texts(plan))}")
    return grid


def types_text(plan: MatmulPlan) -> str:
    """`fp16, sums in fp32`."""
    return ", sums in ".join(dict.fromkeys(t.name for t in plan.product.types))


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


def blocks_table(plan: MatmulPlan) -> Table:
    """Algorithm, blocks and partition counts of each level."""
    return shown(frame_of(plan), None, _BLOCKS)


def space_table(plan: MatmulPlan) -> Table:
    """Bytes of the blocks, how full memories are, and the part of the time."""
    tones: dict[int, Tone] = {place: "bad" for place, row in enumerate(plan.levels) if row.used > 1}
    return shown(frame_of(plan), None, _SPACE, tones=tones)


def traffic_table(plan: MatmulPlan) -> Table:
    """Traffic of each link, all workers together, against the least."""
    return shown(frame_of(plan), None, _TRAFFIC, formats={"times the least": "{:.2f}".format})


ORDERS_NOTE = "columns: time against the best, and the useful part of the lines that are moved"
"""Meaning of the columns of `layouts_table`."""


def layouts_table(plan: MatmulPlan) -> Table:
    """How each operand should lie in main memory, and what the other orders cost."""
    texts = []
    for layout in plan.layouts:
        best = layout.best
        by_order = {cost.order: cost for cost in layout.costs}
        cells = (_times(by_order[order], best) for order in ORDERS)
        texts.append((layout.tensor, best.order, format_bits(best.run_bits), format_si(best.seconds, "s"), *cells))
    orders = (f"by {order}" if order != "blocked" else order for order in ORDERS)
    return Table(("", "best", "in runs of", "time", *orders), texts, whole=range(4 + len(ORDERS)))


def _times(cost: LayoutCost, best: LayoutCost) -> str:
    ratio = cost.seconds / best.seconds if best.seconds else 1.0 if not cost.seconds else math.inf
    return f"{ratio:.2f}x ({percent(cost.full)})"


def share(seconds: float, plan: MatmulPlan) -> str:
    """A part of a plan's time in percent; 0% where the plan takes no time."""
    return percent(seconds / plan.seconds if plan.seconds else 0.0)
