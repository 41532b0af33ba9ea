"""The terminal report of `einmap run`: the partitioned Einsums, what they exchange, and whether results are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.distribute.backends.base import Run
from einmap.distribute.backends.check import OutputCheck
from einmap.distribute.backends.checked_extent import Check
from einmap.distribute.backends.compare import matches
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.plans.collectives import Traffic
from einmap.distribute.plans.plan import Plan
from einmap.distribute.steps.notation import lines
from einmap.report.mesh.collectives import (
    agreement,
    comparison_document,
    comparison_section,
    compilation_section,
    traffic_section,
)
from einmap.report.text.formatting import NONE, exact
from einmap.report.text.layout import Table, section, section_title, stacked
from einmap.units import counted

SCHEMA = 1
"""Version of the JSON document."""


@dataclass(frozen=True)
class PlanRun:
    """A plan, what an engine found (None: it was not run), and how far its outputs are off."""

    plan: Plan
    run: Run | None = None
    checks: tuple[OutputCheck, ...] = ()
    extent: str = ""
    """Extent of the check, where it is not the whole result."""


def plan_report(plan: Plan) -> RenderableType:
    """The Einsums of a plan, its predicted communication, and its totals."""
    steps = [
        (what, f"{einsum}   {where}".removesuffix(f"   {NONE}")) for what, einsum, where in einsums_table(plan).rows
    ]
    return stacked(
        [
            section_title(f"{mesh_text(plan.mesh)}, {plan.dtype}"),
            section("Einsums of each PE", Table(("", ""), steps, left=range(2), whole=(0,))),
            traffic_section(communication(plan)),
            totals_section(plan),
        ]
    )


def run_report(engine: str, outcome: PlanRun) -> RenderableType:
    """The result of a run: the communication of its program, facts, and outputs against the unpartitioned ones."""
    plan, run, checks = outcome.plan, outcome.run, outcome.checks
    assert run is not None
    parts: list[RenderableType] = []
    if run.lowered is not None:
        parts += [Text(""), comparison_section(matches(communication(plan), run.lowered)), Text("")]
        if run.compiled is not None:
            parts += [compilation_section(plan.mesh, run.lowered, run.compiled), Text("")]
    if run.facts:
        parts += [Text(", ".join(f"{name} {_short(value)}" for name, value in run.facts.items()), style="dim")]
    parts += [Text(check_line(check, engine), style="green" if check.agrees else "bold red") for check in checks]
    parts += [Text(outcome.extent, style="yellow")] if outcome.extent else []
    return Group(*parts)


def _short(fact: object) -> str:
    return f"{fact:.3g}" if isinstance(fact, float) else str(fact)


def mesh_text(mesh: Mesh) -> str:
    """`mesh x=2, y=2: 4 PEs`."""
    return f"mesh {mesh}: {counted(mesh.n_devices, 'PE')}"


def einsums_table(plan: Plan) -> Table:
    """One row for each step: what it is, the Einsum, which index is which."""
    texts = [("  " * line.depth + line.what, line.einsum, line.where or NONE) for line in lines(plan)]
    return Table(("step", "Einsum", "where"), texts, left=range(3))


def totals_section(plan: Plan) -> RenderableType:
    """Totals that each PE sends, computes and holds."""
    cost = plan_cost(plan)
    busy = "" if cost.mean_points == cost.points else f" at most ({cost.points / cost.mean_points:.3g} times the mean)"
    return Text(
        f"each PE sends {exact(cost.sent_bytes)} bytes, evaluates {exact(cost.points)} points{busy}, "
        f"and has buffers of {exact(cost.buffer_bytes)} bytes"
    )


def check_line(check: OutputCheck, engine: str) -> str:
    """`Z: equal to the unpartitioned result, max error 1.1e-16 (relative 3e-17)`."""
    word = "equal to" if check.agrees else "DIFFERS from"
    if not check.is_whole:
        equal = "equal what" if check.agrees else "DIFFER from what"
        word = f"{check.checked:,} of {check.values:,} values checked, they {equal} the definition gives"
    else:
        word += " the unpartitioned result"
    error = f"max error {check.max_abs_error:.3g} (relative {check.max_relative_error:.3g})"
    return f"{check.tensor} of the engine {engine}: {word}, {error}"


def extent_line(check: Check) -> str:
    """Extent of the check, where it is not the whole result; else empty."""
    match check.extent:
        case "whole":
            return ""
        case "none":
            return "nothing was checked: --check none"
        case "sample":
            why = f" ({check.why})" if check.why else ""
            return f"checked on a sample, drawn with seed {check.seed}{why}"


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan as plain data: mesh, Einsums, placements of buffers, predicted traffic and cost."""
    return {
        "schema": SCHEMA,
        "mesh": dict(plan.mesh.axes),
        "dtype": plan.dtype,
        "einsums": [asdict(line) for line in lines(plan)],
        "buffers": [
            {"name": buffer.name, "tensor": buffer.tensor, "shape": buffer.shape, "placement": str(buffer.placement)}
            for buffer in plan.buffers
        ],
        "predicted": [traffic_document(row) for row in communication(plan)],
        "cost": asdict(plan_cost(plan)),
    }


def run_agrees(plan: Plan, run: Run, checks: Sequence[OutputCheck]) -> bool:
    """Whether all outputs are right, and what was sent is what was predicted (where the engine can tell)."""
    as_predicted = run.lowered is None or agreement(matches(communication(plan), run.lowered))
    return as_predicted and all(check.agrees for check in checks)


def run_document(engine: str, outcome: PlanRun, check: Check) -> dict[str, Any]:
    """A run as plain data; what concerns communication is missing where nothing really moves."""
    plan, run, checks = outcome.plan, outcome.run, outcome.checks
    assert run is not None
    compared = {}
    if run.lowered is not None:
        compared = comparison_document(matches(communication(plan), run.lowered), run.compiled)
    return {
        "engine": engine,
        "agrees": run_agrees(plan, run, checks),
        "check": {"extent": check.extent, "seed": check.seed, "why": check.why or None},
        "outputs": [asdict(check) for check in checks],
        **compared,
        "facts": dict(run.facts),
    }


def traffic_document(row: Traffic) -> dict[str, Any]:
    """One collective. `groups`: their count and size, and steps (count, stride) from PE 0 to the others of its group
    and to the first PEs of the other groups, so that it stays short for thousands of PEs; `rounds`: who sends to
    whom in what goes from single PEs to single PEs, places in a group; those of a shift are left out.
    """
    groups = {"count": row.groups.count, "size": row.groups.size, **asdict(row.groups)}
    rounds = () if row.kind == "shift" else row.rounds
    return {**asdict(row), "rounds": rounds, "groups": groups, "total_sent_bytes": row.total_sent_bytes}
