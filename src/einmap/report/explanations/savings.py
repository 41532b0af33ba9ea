"""Savings of zeros in words: for each action what formats and savings leave out of what dense tensors would take."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType

from einmap.model.explanation.values import SavingCause
from einmap.report.text.formatting import exact, percent
from einmap.report.text.layout import indented, more, section
from einmap.units import format_si

SAVED = ("not stored", "gated", "skipped")


def savings_section(rows: Sequence[SavingCause], most: int | None = None) -> RenderableType | None:
    """Each action that zeros change, those that save most energy first; None where zeros change nothing."""
    changed, several = _changed(rows)
    parts: list[RenderableType] = []
    for causes in changed[:most]:
        parts.append(indented(action_line(causes, several=several), style="cyan"))
        parts += [indented(cause_line(row), 6) for row in _told(causes)]
    rest = 0 if most is None else len(changed) - most
    return section("Zeros: what saves how many actions", *parts, *more(rest)) if parts else None


def savings_lines(rows: Sequence[SavingCause]) -> list[str]:
    """Lines of text that say what each format and saving leaves out."""
    changed, several = _changed(rows)
    lines: list[str] = []
    for causes in changed:
        lines.append(action_line(causes, several=several))
        lines += [f"    {cause_line(row)}" for row in _told(causes)]
    return lines


def _changed(rows: Sequence[SavingCause]) -> tuple[list[list[SavingCause]], bool]:
    """The causes of each action that zeros change, the largest saving first, and whether there are several Einsums."""
    actions: dict[tuple[str, str, str | None, str], list[SavingCause]] = {}
    for row in rows:
        actions.setdefault((row.einsum, row.component, row.tensor, row.action), []).append(row)
    changed = [causes for causes in actions.values() if _told(causes)]
    changed.sort(key=lambda causes: -sum(row.energy for row in causes if row.state in SAVED))
    return changed, len({row.einsum for row in rows}) > 1


def _told(causes: Sequence[SavingCause]) -> list[SavingCause]:
    return [row for row in causes if row.state not in ("dense", "done")]


def action_line(causes: Sequence[SavingCause], *, several: bool = False) -> str:
    """`Buffer read B: 65,536 of 262,144 done (25%)`."""
    count = {row.state: row.count for row in causes}
    first = causes[0]
    who = f"{first.einsum}: " if several else ""
    name = f"{who}{first.component} {first.action}" + (f" {first.tensor}" if first.tensor else "")
    done, dense = count.get("done", 0.0), count.get("dense", 0.0)
    part = f" ({percent(done / dense)})" if dense else ""
    return f"{name}: {exact(done, 6)} of {exact(dense, 6)} done{part}"


def cause_line(row: SavingCause) -> str:
    """`196,608 skipped by Buffer since A is zero, 197 nJ saved`."""
    match row.state:
        case "metadata":
            return f"{exact(row.count, 6)} more for metadata in {row.at}, {format_si(row.energy, 'J')}"
        case "not stored":
            what = f"not stored: zeros of {row.leader} in {row.at}"
        case _:
            what = f"{row.state} by {row.at} since {row.leader} is zero"
    saved = f", {format_si(row.energy, 'J')} saved" if row.energy else ""
    return f"{exact(row.count, 6)} {what}{saved}"
