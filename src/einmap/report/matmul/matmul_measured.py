"""The terminal report of a plan that was run: rates beside those of plain loops, BLAS and the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.matmul.result import MatmulPlan
from einmap.report.text.formatting import NONE, percent
from einmap.report.text.layout import Table, indented, laid_out
from einmap.units import format_si

if TYPE_CHECKING:
    from einmap.matmul.measured.measure import Measured


def measured_section(plan: MatmulPlan, measured: Measured) -> RenderableType:
    """One row for each contender and limit, and whether the result is correct."""
    verdict = "correct" if measured.correct else "WRONG"
    text = (
        f"best of {measured.rounds} runs in turn: plan, BLAS, and the two best plain loops (the others ran once), "
        f"plain loops on so many rows of C; peak {format_si(measured.peak, 'flop/s')}, copy of main memory "
        f"{format_si(measured.bandwidth, 'B/s')}; {verdict}: largest error {measured.error:.2g} of what rounding "
        "explains"
    )
    note = indented(text, style="dim" if measured.correct else "bold red")
    return Group(Text(""), laid_out(measured_table(plan, measured), gap=1), note)


def measured_table(plan: MatmulPlan, measured: Measured) -> Table:
    """The rate of each contender and limit, against plain loops, BLAS and the peak; the plan stands out."""
    plain, blas = measured.plain[0].flops_per_s, measured.blas.flops_per_s
    runs = [(f"plain loops {run.name}", run) for run in measured.plain]
    runs += [("the plan", measured.planned), ("NumPy's BLAS", measured.blas)]
    lines = [
        (
            name,
            run.flops_per_s,
            format_si(run.seconds, "s"),
            "all" if run.rows == plan.product.size[0] else str(run.rows),
        )
        for name, run in runs
    ]
    lines.append(("the plan as predicted", plan.flops_per_s, format_si(plan.seconds, "s"), NONE))
    lines.append(("roofline", measured.roofline, NONE, NONE))
    texts = [
        (name, f"{rate / 1e9:.2f}", f"{rate / plain:.2f}x", percent(rate / blas), percent(rate / measured.peak), *times)
        for name, rate, *times in lines
    ]
    head = ("measured on one core", "Gflop/s", "of plain", "of BLAS", "of peak", "time", "rows")
    return Table(head, texts, whole=range(7))
