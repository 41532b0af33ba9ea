"""The terminal report of `einmap run`: the partitioned Einsums, what they exchange, and whether results are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from einmap.distribute.backends.base import Run
from einmap.distribute.check import OutputCheck
from einmap.distribute.collectives import Traffic
from einmap.distribute.cost import communication, plan_cost
from einmap.distribute.notation import Line, lines
from einmap.distribute.plan import Plan
from einmap.report.simulation import exact

SCHEMA = 1
"""Version of the JSON document."""


def plan_report(plan: Plan) -> RenderableType:
    """The Einsums of a plan, its predicted communication, and its totals."""
    parts = (head_section(plan), einsums_section(lines(plan)), traffic_section(communication(plan)))
    return Group(*[part for section in parts for part in (section, Text(""))], totals_section(plan))


def run_report(engine: str, run: Run, checks: Sequence[OutputCheck]) -> RenderableType:
    """What an engine found: facts, the traffic that it saw, and outputs against the unpartitioned ones."""
    parts: list[RenderableType] = []
    if run.traffic is not None:
        parts += [traffic_section(run.traffic, f"Communication of the engine {engine}, per PE"), Text("")]
    parts += [Text(f"{name}: {value}") for name, value in run.facts.items()]
    parts += [Text(check_line(one, engine), style="green" if one.agrees else "bold red") for one in checks]
    return Group(*parts)


def head_section(plan: Plan) -> RenderableType:
    """`mesh x=2, y=2: 4 PEs, float64`."""
    n = plan.mesh.n_devices
    return Text(f"mesh {plan.mesh}: {n:,} {'PE' if n == 1 else 'PEs'}, {plan.dtype}", style="bold")


def einsums_section(found: Sequence[Line]) -> RenderableType:
    """One row for each step: what it is, the Einsum, which index is which."""
    table = Table(box=None, show_header=False, pad_edge=True, padding=(0, 0, 0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for line in found:
        where = f"   {line.where}" if line.where else ""
        table.add_row("  " * line.depth + line.what, Text.assemble(line.einsum, (where, "dim")))
    return Group(Text("Einsums of each PE", style="bold"), table)


def traffic_section(rows: Sequence[Traffic], title: str = "Predicted communication, per PE") -> RenderableType:
    """One row for each collective: bytes are those of one PE in one execution, the last column those of all."""
    if not rows:
        return Text(f"{title}: none", style="bold")
    table = Table(box=None, header_style="dim", pad_edge=True, padding=(0, 0, 0, 2))
    for name in ("collective", "tensor", "groups"):
        table.add_column(name, no_wrap=True)
    for name in ("times", "operand B", "result B", "sent B", "in all B"):
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        groups = f"{', '.join(row.axes)}: {len(row.groups)} of {len(row.groups[0])}"
        figures = (row.count, row.operand_bytes, row.result_bytes, row.sent_bytes, row.total_sent_bytes)
        table.add_row(row.kind.replace("_", "-"), row.tensor, groups, *map(exact, figures))
    return Group(Text(title, style="bold"), table)


def totals_section(plan: Plan) -> RenderableType:
    """What each PE sends, computes and holds."""
    cost = plan_cost(plan)
    return Text(
        f"each PE sends {exact(cost.sent_bytes)} bytes, evaluates {exact(cost.points)} points, "
        f"and has buffers of {exact(cost.buffer_bytes)} bytes"
    )


def check_line(check: OutputCheck, engine: str) -> str:
    """`Z: equal to the unpartitioned result, max error 1.1e-16 (relative 3e-17)`."""
    word = "equal to the unpartitioned result" if check.agrees else "DIFFERS from the unpartitioned result"
    error = f"max error {check.max_abs_error:.3g} (relative {check.max_relative_error:.3g})"
    return f"{check.tensor} of the engine {engine}: {word}, {error}"


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan as plain data: mesh, Einsums, placements of buffers, predicted traffic and cost."""
    return {
        "schema": SCHEMA,
        "mesh": dict(plan.mesh.axes),
        "dtype": plan.dtype,
        "einsums": [asdict(line) for line in lines(plan)],
        "buffers": [
            {"name": one.name, "tensor": one.tensor, "shape": one.shape, "placement": str(one.placement)}
            for one in plan.buffers
        ],
        "predicted": [traffic_document(row) for row in communication(plan)],
        "cost": asdict(plan_cost(plan)),
    }


def run_document(engine: str, run: Run, checks: Sequence[OutputCheck]) -> dict[str, Any]:
    """A run as plain data; `actual` is null where the engine cannot tell."""
    return {
        "engine": engine,
        "agrees": all(check.agrees for check in checks),
        "outputs": [asdict(check) for check in checks],
        "actual": None if run.traffic is None else [traffic_document(row) for row in run.traffic],
        "facts": dict(run.facts),
    }


def traffic_document(row: Traffic) -> dict[str, Any]:
    """One collective; `groups` lists the PEs of each group."""
    return {**asdict(row), "total_sent_bytes": row.total_sent_bytes}
