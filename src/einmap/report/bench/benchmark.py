"""The terminal report of a benchmark: the mapping's code beside libraries, and beside what the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.bench.result import Spread
from einmap.report.text.formatting import percent
from einmap.report.text.layout import Table, indented, section
from einmap.units import format_bits, format_si
from einmap.visible import visible

if TYPE_CHECKING:
    from einmap.bench.result import Benchmark


def benchmark_report(found: Benchmark) -> RenderableType:
    """Times of each contender, warm and cold, then what the model says."""
    cores = "one core" if found.cores == 1 else f"{found.cores} cores"
    pinned = ", pinned" if found.is_pinned else ""
    right = "all values exact" if found.exact else "all values right but for their last digits"
    verdict = right if found.correct else f"WRONG: {found.runs[0].differ:,} values differ"
    rounds = len(found.runs[0].times.warm)
    note = f"medians of {rounds} runs in turn, {found.clock}, {cores}{pinned}; {found.compiler}; {verdict}"
    return Group(
        Text(visible(found.einsum), style="bold"),
        section("Measured", runs_table(found)),
        indented(note, style="dim" if found.correct else "bold red"),
        section("Predicted", predicted_table(found)),
    )


def runs_table(found: Benchmark) -> Table:
    """Median, quartiles and rate of each contender, with warm and cold caches."""
    rows = []
    ours = found.rate(found.runs[0])
    for run in found.runs:
        warm, cold = Spread.of(run.times.warm), Spread.of(run.times.cold)
        rows.append(
            (
                run.name,
                f"{found.rate(run) / 1e9:.2f}",
                percent(ours / found.rate(run)),
                format_si(warm.median, "s"),
                f"{format_si(warm.lower, 's')} to {format_si(warm.upper, 's')}",
                format_si(cold.median, "s"),
                ("exact" if found.exact else "right") if run.differ == 0 else f"{run.differ:,} differ",
            )
        )
    head = ("", "Gflop/s", "einmap", "warm", "quartiles", "cold", "values")
    tones = {0: "strong" if found.correct else "bad"}
    return Table(head, rows, tones=tones, whole=range(7))  # type: ignore[arg-type]


def predicted_table(found: Benchmark) -> Table:
    """Seconds of the model beside the measured median, and bits that it moves by memory."""
    warm = Spread.of(found.runs[0].times.warm).median
    times = [("all waits, one after another", found.waiting), ("busiest component alone", found.roofline)]
    if found.by_nest is not None:
        times.insert(0, ("its code, caches keeping what fits", found.by_nest))
    rows = [(what, format_si(seconds, "s"), percent(seconds / warm)) for what, seconds in times]
    moved: dict[str, dict[str, float]] = {}
    for m in found.moved:
        by_action = moved.setdefault(m.memory, {"read": 0.0, "write": 0.0})
        by_action[m.action] += m.bits
    for memory, bits in moved.items():
        rows.append((f"{memory} reads, writes", f"{format_bits(bits['read'])}, {format_bits(bits['write'])}", ""))
    return Table(("the model", "", "of measured"), rows, whole=range(3))
