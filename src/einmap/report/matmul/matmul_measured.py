"""The terminal report of a plan that was run: rates beside those of plain loops, BLAS and the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from einmap.matmul.result import MatmulPlan
from einmap.report.text.formatting import NONE, percent
from einmap.units import format_si

if TYPE_CHECKING:
    from einmap.matmul.measured.measure import Measured, Run


def measured_section(plan: MatmulPlan, measured: Measured) -> RenderableType:
    """One row for each contender and limit, and whether the result is correct."""
    table = Table(box=None, header_style="dim", pad_edge=True, padding=(0, 0, 0, 1))
    for index, header in enumerate(
        ("measured on one core", "Gflop/s", "of plain", "of BLAS", "of peak", "time", "rows")
    ):
        table.add_column(header, justify="right" if index else "left", no_wrap=True)
    m = plan.product.size[0]
    for run in measured.plain:
        table.add_row(f"plain loops {run.name}", *_cells(measured, run.flops_per_s), *_time(run, m))
    planned, blas = measured.planned, measured.blas
    table.add_row("the plan", *_cells(measured, planned.flops_per_s), *_time(planned, m))
    table.add_row("NumPy's BLAS", *_cells(measured, blas.flops_per_s), *_time(blas, m))
    table.add_row("the plan as predicted", *_cells(measured, plan.flops_per_s), format_si(plan.seconds, "s"), NONE)
    table.add_row("roofline", *_cells(measured, measured.roofline), NONE, NONE)
    verdict = "correct" if measured.correct else "WRONG"
    text = (
        f"best of {measured.rounds} runs in turn: plan, BLAS, and the two best plain loops (the others ran once), "
        f"plain loops on so many rows of C; peak {format_si(measured.peak, 'flop/s')}, copy of main memory "
        f"{format_si(measured.bandwidth, 'B/s')}; {verdict}: largest error {measured.error:.2g} of what rounding "
        "explains"
    )
    style = "dim" if measured.correct else "bold red"
    return Group(Text(""), table, Padding(Text(text, style=style), (0, 0, 0, 2)))


def _cells(measured: Measured, rate: float) -> tuple[str, ...]:
    plain, blas = measured.plain[0].flops_per_s, measured.blas.flops_per_s
    return f"{rate / 1e9:.2f}", f"{rate / plain:.2f}x", percent(rate / blas), percent(rate / measured.peak)


def _time(run: Run, m: int) -> tuple[str, str]:
    return format_si(run.seconds, "s"), "all" if run.rows == m else str(run.rows)
