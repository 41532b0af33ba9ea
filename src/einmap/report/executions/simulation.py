"""The terminal report of `einmap simulate`: outputs, counts of both sides, occupancy over time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.text import Text

from einmap.execute.results.result import Execution
from einmap.report.executions.comparison import ComparedCount, ComparedMean, Comparison, OutputError
from einmap.report.executions.occupancy import Series, series_of
from einmap.report.text.formatting import NONE, exact, percent
from einmap.report.text.layout import STYLES, Table, Tone, new_table, section, stacked
from einmap.spec.spec import Spec
from einmap.units import format_bits

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = ".:-=+*#@"
_BAD: Tone = "bad"
_NARROW = 64
"""Below this width numbers are broken into lines, rather than cut off; above it names are."""


def simulation_report(comparison: Comparison, execution: Execution, spec: Spec, width: int = 80) -> RenderableType:
    """Everything about one simulation: whether outputs are right, what differs, all numbers, occupancy."""
    series = series_of(execution, spec)
    capacities = {curve.memory: curve.capacity_bits for curve in series}
    return stacked(
        [
            outputs_section(comparison.outputs),
            verdict_section(comparison),
            counts_section((*comparison.actions, *comparison.steps, *comparison.routes), width),
            section("Memories: bits in use at most", usage_table(comparison.usage, capacities)),
            occupancy_section(series, width),
        ]
    )


def outputs_section(outputs: tuple[OutputError, ...]) -> RenderableType:
    """One line for each written tensor."""
    return Group(*(Text(output_line(row), style=STYLES["good" if row.agrees else _BAD]) for row in outputs))


def output_line(row: OutputError) -> str:
    """`Z: equal to the plain einsum, max error 0`."""
    if not row.max_abs_error:
        return f"{row.tensor}: equal to the plain einsum, max error 0"
    word = "equal to the plain einsum but for rounding" if row.agrees else "DIFFERS from the plain einsum"
    return f"{row.tensor}: {word}, max error {row.max_abs_error:.3g} (relative {row.max_relative_error:.3g})"


def verdict_section(comparison: Comparison) -> RenderableType:
    """One line: how many numbers were compared, how many differ."""
    compared, differ = len(comparison.rows), len(comparison.mismatches)
    if any(isinstance(row, ComparedMean) for row in comparison.actions):
        return Text("the model's numbers are means over masks of zeros, those of the execution are of one mask")
    if not differ:
        return Text(f"model and execution agree in all {compared:,} numbers", style="bold green")
    return Text(f"model and execution differ in {differ:,} of {compared:,} numbers", style=STYLES[_BAD])


def counts_section(rows: tuple[ComparedCount, ...], width: int = 80) -> RenderableType:
    """Actions of all instances, steps of the busiest one; what differs comes first."""
    several = len({row.einsum for row in rows}) > 1
    names = ("Einsum", "component", "tensor", "action")[not several :]
    ordered, n = _mismatches_first(rows), len(names)
    texts = [
        (
            *(row.einsum, row.component, row.tensor or NONE, row.action)[not several :],
            *(exact(row.model), exact(row.simulated), _difference(row, row.difference)),
        )
        for row in ordered
    ]
    whole = range(n, n + 3) if width >= _NARROW else ()
    columns = (*names, "model", "simulated", "difference")
    return section("Counts", Table(columns, texts, left=range(n), whole=whole, tones=_tones(ordered)))


def _tones(rows: list[ComparedCount]) -> dict[int, Tone]:
    return {place: _BAD for place, row in enumerate(rows) if not row.agrees}


def usage_table(rows: tuple[ComparedCount, ...], capacities: dict[str, float]) -> Table:
    """The fullest instance of each finite memory at its fullest, in bits."""
    ordered, texts = _mismatches_first(rows), []
    for row in ordered:
        capacity = capacities.get(row.component, math.inf)
        numbers = NONE, NONE, _difference(row, row.difference), "unlimited", NONE
        if math.isfinite(capacity):
            model, simulated, difference = (
                round(part * capacity, 6) for part in (row.model, row.simulated, row.difference)
            )
            full = exact(capacity), percent(row.simulated)
            numbers = exact(model), exact(simulated), _difference(row, difference), *full
        texts.append((row.component, *numbers))
    return Table(("", "model", "simulated", "difference", "capacity", "full"), texts, tones=_tones(ordered))


def occupancy_section(series: tuple[Series, ...], width: int) -> RenderableType:
    """One line for each memory: its course, full height at its own peak."""
    table = new_table("", "", "peak", "capacity")
    table.columns[1].justify = "left"
    names = max((len(curve.memory) for curve in series), default=0)
    cells = max(10, min(60, width - names - 28))
    for curve in series:
        capacity = "unlimited" if math.isinf(curve.capacity_bits) else format_bits(curve.capacity_bits)
        table.add_row(curve.memory, Course(curve, cells), format_bits(curve.peak), capacity)
    end = max((curve.end for curve in series), default=0)
    return section(f"Occupancy over {end:,} operations, in the fullest instance", table)


@dataclass(frozen=True, slots=True)
class Course:
    """A series as `width` small bars, each as high as the peak of its part of the time; ASCII where need be."""

    series: Series
    width: int
    style: str = "cyan"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(course(self.series, self.width, _ASCII_LEVELS if options.ascii_only else _LEVELS), style=self.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(self.width, self.width)


def course(series: Series, width: int, levels: str = _LEVELS) -> str:
    """`▁▄█▄`: one character for each part of the time, a blank where nothing is held."""
    highest = series.peak
    if not highest:
        return " " * width
    parts: NDArray[np.float64] = np.ceil(series.peaks(width) / highest * len(levels))
    return "".join(levels[int(part) - 1] if part else " " for part in parts)


def _difference(row: ComparedCount, difference: float) -> str:
    if row.agrees and not (difference and isinstance(row, ComparedMean)):
        return NONE
    return ("+" if difference > 0 else "") + exact(difference)


def _mismatches_first(rows: tuple[ComparedCount, ...]) -> list[ComparedCount]:
    return sorted(rows, key=lambda row: row.agrees)
