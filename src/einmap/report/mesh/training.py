"""The terminal report and the JSON document of `einmap train-plan`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.distribute.training.held import Held
from einmap.distribute.training.search import BestTraining
from einmap.report.mesh.training_words import what_changes, why_dearer
from einmap.report.text.formatting import changed, percent
from einmap.report.text.layout import Table, section, stacked
from einmap.units import format_bytes, format_count, format_si

SCHEMA = 1
"""Version of the JSON document."""


def training_report(best: BestTraining) -> RenderableType:
    """The best plan: how good it is, what its step is spent on, what a device holds, and why others lose."""
    changes = changes_table(best)
    return stacked(
        [
            _head(best),
            section("What a step is spent on, on the device that is done last", time_table(best)),
            _memory(best),
            section("The best plan of each way to divide devices", kinds_table(best)),
            None if changes is None else section("What one change would cost", changes),
        ]
    )


def known_of(best: BestTraining) -> str:
    """How it is known that no plan of the space is better, or what any of them takes at least."""
    looked, ran = best.looked
    if best.proven:
        return f"best: proven of {format_count(looked)} plans without their cuts into stages, of which {ran:,} were run"
    gap = best.step.seconds / best.bound - 1 if best.bound else float("inf")
    return f"best so far, not proven: none takes less than {format_si(best.bound, 's')}, {percent(gap)} less"


def left_out_of(best: BestTraining) -> str:
    """Plans that are not in the space, and what they take at least where that is known."""
    bounds = [f", which take {format_si(one.bound, 's')} or more" if one.bound else "" for one in best.left_out]
    return "left out: " + "; ".join(f"{one.what}{bound}" for one, bound in zip(best.left_out, bounds, strict=True))


def _head(best: BestTraining) -> RenderableType:
    step, plan = best.step, best.plan
    rows = [Text(f"{plan}"), Text(known_of(best))]
    if plan.pp > 1:
        rows.insert(1, Text(f"layers of the stages: {runs_of(step.stages)}"))
    if best.left_out:
        rows.append(Text(left_out_of(best)))
    rate = format_si(step.rate, "op/s")
    return section(f"A step takes {format_si(step.seconds, 's')}, {rate} of the model on each device", *rows)


def runs_of(counts: tuple[int, ...]) -> str:
    """`6, 6, 6, 7` as `3 x 6, 7`."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][1] == count:
            runs[-1][0] += 1
        else:
            runs.append([1, count])
    return ", ".join(f"{times} x {count}" if times > 1 else f"{count}" for times, count in runs)


def time_table(best: BestTraining) -> Table:
    """Parts of a step on the device that is done last, the longest one first."""
    whole = best.step.seconds
    parts = sorted(best.step.parts, key=lambda part: -part.seconds)
    rows = [
        (
            part.what.replace("_", "-"),
            format_si(part.seconds, "s"),
            percent(part.seconds / whole),
            format_si(part.hidden, "s") if part.hidden else "",
            format_bytes(part.sent) if part.sent else "",
        )
        for part in parts
    ]
    return Table(("", "of the step", "part", "hidden", "sent by a device"), rows)


def _memory(best: BestTraining) -> RenderableType:
    peak = best.step.peak
    rows = [(name, format_bytes(value), percent(value / peak.total)) for name, value in parts_of(peak).items() if value]
    limit = memory_of(best)
    of = f" of {format_bytes(limit)}" if limit != float("inf") else ""
    return section(f"What a device holds: {format_bytes(peak.total)}{of}", Table(("", "bytes", "part"), rows))


def memory_of(best: BestTraining) -> float:
    """Bytes of a device that no plan exceeds."""
    return best.request.memory if best.request.memory is not None else best.costs.cluster.pe.memory


def parts_of(held: Held) -> dict[str, float]:
    """Bytes that a device holds, by words."""
    return {"state of the optimiser" if name == "state" else name: value for name, value in asdict(held).items()}


def kinds_table(best: BestTraining) -> Table:
    """The best plan of each way to divide devices, the best of all first."""
    rows = []
    for kind in best.kinds:
        if kind.best is None:
            rows.append((kind.name, "", "", f"does not fit: {format_bytes(kind.least)} or more", ""))
            continue
        ratio = kind.best.seconds / best.step.seconds
        why = "" if kind.best.plan == best.plan else why_dearer(best.step, kind.best).replace("_", "-")
        against = changed(ratio) if ratio != 1 else ""
        rows.append((kind.name, format_si(kind.best.seconds, "s"), against, f"{kind.best.plan}", why))
    return Table(("parallel", "step", "", "plan", "dearer in"), rows, left=(0, 3, 4))


def changes_table(best: BestTraining) -> Table | None:
    """Costs of single changes of the best plan; None where there is nothing to change."""
    rows = []
    for change in what_changes(best):
        seconds, ratio = "", ""
        if change.step is not None:
            seconds, ratio = format_si(change.step.seconds, "s"), changed(change.step.seconds / best.step.seconds)
        rows.append((change.what, seconds, ratio, change.why.replace("_", "-")))
    return Table(("", "step", "", ""), rows, left=(0, 3)) if rows else None


def training_document(best: BestTraining) -> dict[str, Any]:
    """Numbers of the best plan and of the best of each kind; seconds, and bytes of a device."""
    step = best.step
    return {
        "schema": SCHEMA,
        "seconds": step.seconds,
        "lower_bound": best.bound,
        "proven": best.proven,
        "left_out": [asdict(one) for one in best.left_out],
        "plans": best.looked[0],
        "run": best.looked[1],
        "operations_per_second": step.rate,
        "plan": asdict(best.plan) | {"stages": list(step.stages)},
        "parts": [asdict(part) for part in step.parts],
        "held": [asdict(held) | {"total": held.total} for held in step.held],
        "kinds": [
            {
                "parallel": kind.name,
                "seconds": None if kind.best is None else kind.best.seconds,
                "plan": None if kind.best is None else asdict(kind.best.plan),
                "least_memory": kind.least,
            }
            for kind in best.kinds
        ],
    }
