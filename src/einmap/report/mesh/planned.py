"""The terminal report of `einmap plan`: what was chosen, what it costs, and why other plans lose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.distribute.costs.cost import PlanCost, plan_cost
from einmap.distribute.costs.cost_model import PlanMetric
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.planner.differences import turns_in_words, what_differs, why_dearer
from einmap.distribute.planner.document import distribution_document
from einmap.distribute.planner.padding import UnevenLoop, padded_moves, uneven_loops
from einmap.distribute.planner.patterns import patterns
from einmap.distribute.planner.planner import Planned
from einmap.distribute.planner.what_if import Change
from einmap.distribute.plans.plan import Buffer
from einmap.report.mesh.distribution import mesh_text
from einmap.report.mesh.steps import ShownStep, shown_steps
from einmap.report.text.formatting import in_unit
from einmap.report.text.layout import Table, laid_out, section, stacked
from einmap.units import format_bytes, format_si
from einmap.visible import listed

SCHEMA = 1
"""Version of the JSON document."""
SAME = 5e-4
"""Part of the cost below which a difference is not spoken of."""


def planned_report(planned: Planned) -> RenderableType:
    """All sections, the best plan first."""
    others, changes = (_lines(f"  {line}" for line in lines) for lines in (other_lines(planned), change_lines(planned)))
    return stacked(
        [
            head_section(planned),
            laid_out(placements_table(planned.best)),
            Group(*_lines(named_lines(planned))),
            section("The best plans that differ", *others) if others else None,
            section("What one change would alter", *changes) if changes else None,
        ]
    )


def _lines(texts: Iterable[str]) -> list[Text]:
    return [Text(text, overflow="fold") for text in texts]


def head_section(planned: Planned) -> RenderableType:
    """The mesh, the cost, and whether it is proven."""
    best, metric = planned.best, planned.request.metric
    limit = f" of {format_bytes(planned.memory)}" if planned.memory is not None else ""
    texts = [
        f"cost {amount(best.cost, metric)} ({known_of(planned)}){_with_work(metric)}",
        *([] if best.turns is None else [f"in turns: {turns_in_words(best.turns)}"]),
        overlap_line(planned),
        f"each PE sends {format_bytes(best.sent_bytes)} and holds at most {format_bytes(best.peak.bytes)}{limit}",
        *(f"{result} lies as {tensor} does: layers may follow one another" for result, tensor in planned.same),
    ]
    return section(mesh_text(planned.request.mesh), *map(Text, texts))


def _with_work(metric: PlanMetric) -> str:
    """Remark on operations in a cost in bytes."""
    return ", 1 byte for a million operations of a PE counted among them" if metric == "bytes" else ""


def known_of(planned: Planned) -> str:
    """How it is known that no plan is better, or what any plan costs or needs at least."""
    best, metric = planned.best, planned.request.metric
    if best.turns is not None:
        without = f"no plan without turns {'keeps' if planned.only_turns else 'was found that keeps'} to the memory"
        if metric == "memory":
            without = least_memory(planned)
        return "; ".join(text for text in ("not proven least, of turns only some were tried", without) if text)
    if best.proven and metric == "memory":
        return "proven least without turns; the turns that were tried need no less"
    if best.proven:
        return "proven least" if planned.unlimited is None else "proven least without turns"
    if planned.least_peak is not None:
        known = least_memory(planned)
        return f"not proven least: {known}" if known else "not proven least"
    return f"not proven least, at least {amount(best.bound, metric)}" if best.bound > 0 else "not proven least"


def least_memory(planned: Planned) -> str:
    """Lower bound of the memory of any plan; empty where none but 0 is known."""
    if not planned.least_peak:
        return ""
    return f"any plan without turns needs at least {format_bytes(planned.least_peak)} of memory"


def overlap_line(planned: Planned) -> str:
    """How long the plan takes, without and with overlap of its steps, and a plan that differs if it then takes less."""
    cost = _times(planned, planned.best)
    alone, together = (format_si(seconds, "s") for seconds in (cost.latency, cost.overlapped_latency))
    if alone == together:
        said = f"time {alone} with and without overlap"
    else:
        said = f"time {alone} without overlap, {together} where what need not wait runs at once"
    if planned.request.metric == "energy" and planned.request.cluster.pe.arch is not None:
        said += ", with other mappings on each PE: those of least latency"
    others = [(_times(planned, other).overlapped_latency, other) for other in planned.others]
    quickest, other = min(others, key=lambda one: one[0], default=(cost.overlapped_latency, planned.best))
    if quickest < cost.overlapped_latency * (1 - SAME):
        said += f"; with overlap {format_si(quickest, 's')} for {what_differs(planned.best, other)}"
    return said


def _times(planned: Planned, chosen: ChosenPlan) -> PlanCost:
    return plan_cost(chosen.plan, planned.request.cluster, chosen.bits)


def placements_table(best: ChosenPlan) -> Table:
    """Where each tensor is kept, and how each Einsum is spread."""
    written = {t: name for name, einsum in best.plan.workload.by_name.items() for t in einsum.outputs}
    texts = []
    for tensor, homes in best.homes.items():
        einsum = written.get(tensor, "")
        spread = ", ".join(f"{variable}: {'*'.join(axes)}" for variable, axes in best.loops.get(einsum, {}).items())
        texts.append((tensor, " and ".join(map(str, homes)), einsum, spread or ("on every PE" if einsum else "")))
    return Table(("tensor", "kept", "Einsum", "spread"), texts, left=range(4))


def named_lines(planned: Planned) -> Sequence[str]:
    """Lines on the plan's name along each axis, bytes sent, padding, and where memory binds."""
    best, metric = planned.best, planned.request.metric
    said = list(patterns(best))
    sent = [part for part in best.parts if part.sent]
    if sent:
        moves = sorted(sent, key=lambda part: -part.sent)
        said.append(f"sent: {listed((f'{part.what} {format_bytes(part.sent)}' for part in moves), most=4)}")
    else:
        said.append("sent: nothing")
    said += padding_lines(best)
    unlimited = planned.unlimited
    if unlimited is not None and planned.memory is not None and best.cost > unlimited.cost * (1 + SAME):
        step = best.peak.buffers
        said.append(
            f"memory binds: without the limit the cost would be {amount(unlimited.cost, metric)}, with "
            f"{format_bytes(unlimited.peak.bytes)} on each PE; at the peak {len(step)} buffers are held"
        )
        said.append(f"  the limit costs {why_dearer(unlimited, best, lambda cost: amount(cost, metric))}")
    return said


def padding_lines(best: ChosenPlan) -> Sequence[str]:
    """Which PEs have nothing or little to do, and which moves send padding."""
    said = [_uneven(loop) for loop in uneven_loops(best)]
    for move in padded_moves(best):
        times = move.sent / move.needed
        said.append(
            f"padding: {move.what} sends {times:.3g} times what it has, {format_bytes(move.sent)} instead of "
            f"{format_bytes(move.needed)}"
        )
    return said


def _uneven(loop: UnevenLoop) -> str:
    axes = "*".join(loop.axes)
    less = [f"{loop.empty} of {loop.parts} PEs along {axes} have none"] if loop.empty else []
    less += [f"{'the last that has some' if loop.empty else 'the last PE'} has {loop.last}"] * (loop.last < loop.block)
    return (
        f"idle: {loop.variable} of {loop.extent:,} in blocks of {loop.block:,} over {axes}: {', '.join(less)}; "
        f"{100 * loop.idle:.2g} % of the time of {listed(loop.einsums, most=4)} is lost"
    )


def change_lines(planned: Planned) -> Sequence[str]:
    """For each change how the cost and the plan change."""
    return [f"{change.what}: {_altered(planned, change)}" for change in planned.changes]


def _altered(planned: Planned, change: Change) -> str:
    best, other = planned.best, change.best
    if other is None:
        return "no plan keeps to it" if change.tried else "not tried, the time was over"
    excess = other.cost - best.cost
    if abs(excess) <= SAME * best.cost:
        cost = "the same cost"
    else:
        cost = f"{100 * excess / best.cost:+.3g} %, {amount(other.cost, planned.request.metric)}"
    differs = what_differs(best, other)
    if differs:
        return f"{cost}; then {differs}"
    homes = [t for t in other.homes if other.homes[t] != best.homes[t]]
    return f"{cost}, the same loops" + (f", {', '.join(homes[:4])} kept elsewhere" if homes and excess else "")


def other_lines(planned: Planned) -> Sequence[str]:
    """For each other plan how it differs and why it loses."""
    metric = planned.request.metric
    return [
        f"{what_differs(planned.best, other)}: {why_dearer(planned.best, other, lambda cost: amount(cost, metric))}"
        for other in planned.others
    ]


def amount(cost: float, metric: PlanMetric) -> str:
    """A cost with its unit."""
    return in_unit(cost, {"bytes": "bytes", "energy": "J"}.get(metric, "s"))


def planned_document(planned: Planned) -> dict[str, Any]:
    """Plain data: costs, placements, loops, moves, names, and the other plans."""
    times = _times(planned, planned.best)
    return {
        "schema": SCHEMA,
        "metric": planned.request.metric,
        "memory_limit_bytes": planned.memory,
        "least_peak_bytes": planned.least_peak,
        "same": dict(planned.same),
        **_plan(planned.best),
        "latency_seconds": times.latency,
        "overlapped_latency_seconds": times.overlapped_latency,
        "patterns": list(patterns(planned.best)),
        "steps": [_shown_step(step) for step in steps_of(planned)],
        "idle": [
            {"variable": loop.variable, "axes": list(loop.axes), "extent": loop.extent, "block": loop.block}
            | {"empty_pes": loop.empty, "last_values": loop.last, "idle": loop.idle, "einsums": list(loop.einsums)}
            for loop in uneven_loops(planned.best)
        ],
        "padding": [
            {"what": move.what, "sent_bytes": move.sent, "needed_bytes": move.needed}
            for move in padded_moves(planned.best)
        ],
        "what_if": [
            {"what": change.what, "tried": change.tried, "plan": None if change.best is None else _plan(change.best)}
            | {"altered": line}
            for change, line in zip(planned.changes, change_lines(planned), strict=True)
        ],
        "others": [
            {**_plan(other), "why": line} for other, line in zip(planned.others, other_lines(planned), strict=True)
        ],
        "unlimited": None if planned.unlimited is None else _plan(planned.unlimited),
    }


def steps_of(planned: Planned) -> tuple[ShownStep, ...]:
    """The steps of the best plan, with their times on the cluster."""
    return shown_steps(planned.best.plan, planned.request.cluster, planned.best.bits)


def _shown_step(step: ShownStep) -> dict[str, Any]:
    return {
        "what": step.name, "how": step.how, "kind": step.kind, "axes": list(step.axes),
        "reads": [_buffer(buffer) for buffer in step.reads], "writes": [_buffer(buffer) for buffer in step.writes],
        "lanes": list(step.lanes), "start_seconds": step.start, "end_seconds": step.end, "sent_bytes": step.sent,
        "held_bytes": step.held, "critical": step.is_critical,
    }  # fmt: skip


def _buffer(buffer: Buffer) -> dict[str, Any]:
    return {"tensor": buffer.tensor, "placement": str(buffer.placement), "shape": list(buffer.shape)}


def _plan(chosen: ChosenPlan) -> dict[str, Any]:
    return {
        "cost": chosen.cost,
        "bound": chosen.bound,
        "proven": chosen.proven,
        "sent_bytes": chosen.sent_bytes,
        "peak_bytes": chosen.peak.bytes,
        "homes": {tensor: [str(home) for home in homes] for tensor, homes in chosen.homes.items()},
        "parts": [{"what": part.what, "cost": part.cost, "sent_bytes": part.sent} for part in chosen.parts],
        **distribution_document(chosen),
    }
