"""Pictures, drawn with Matplotlib: how full each memory is over time."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from einmap.execute.results.result import Execution
from einmap.optional import require
from einmap.report.executions.occupancy import Series, series_of
from einmap.report.text.formatting import data_unit, percent
from einmap.spec.spec import Spec
from einmap.units import format_bits
from einmap.visible import listed

EXTRA = "plots"
"""The extra of the package that brings Matplotlib."""
MOST_CHANGES = 4_000
"""A series that changes more often is drawn as the peaks of this many intervals: finer ones cannot be seen."""
_LINE, _FILL, _CAPACITY = "#1f5a96", "#a9c8e8", "#b03a2e"
_LOW = 0.25
"""A capacity of which less is used is told in words: a line so far up would press the curve flat."""


def check_plots() -> None:
    """Raise SpecError when Matplotlib is missing: before long work, not after it."""
    require("matplotlib.figure", EXTRA)


def plotted_occupancy(execution: Execution, spec: Spec) -> bytes:
    """A PNG: bits in the fullest instance of each memory over operations, with its capacity.

    Raises SpecError when Matplotlib is missing.
    """
    return occupancy_png(series_of(execution, spec), _title(spec))


def occupancy_png(series: tuple[Series, ...], title: str) -> bytes:
    """One panel for each memory, outermost on top, all over the same time."""
    figure = require("matplotlib.figure", EXTRA).Figure(figsize=(9, 1.2 + 1.9 * max(1, len(series))), dpi=150)
    figure.set_layout_engine("constrained")
    figure.suptitle(title, fontsize=12)
    panels = figure.subplots(max(1, len(series)), 1, sharex=True, squeeze=False)[:, 0]
    for axes, curve in zip(panels, series, strict=False):
        _draw(axes, curve)
    panels[-1].set_xlabel("time (operations done, all instances together)")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def _draw(axes: Any, series: Series) -> None:
    size, unit = data_unit(series.peak)
    steps, bits, thinned = _points(series)
    axes.fill_between(steps, bits / size, step="post", color=_FILL, linewidth=0)
    axes.step(steps, bits / size, where="post", color=_LINE, linewidth=1.2)
    top = max(series.peak / size, 1 if unit == "bits" else 0) * 1.12
    capacity = series.capacity_bits / size
    shown = math.isfinite(capacity) and series.peak >= _LOW * series.capacity_bits
    if shown:
        axes.axhline(capacity, color=_CAPACITY, linewidth=1.2, linestyle="--")
        top = max(top, capacity * 1.12)
    axes.set_ylim(0, top)
    axes.set_xlim(0, series.end)
    axes.set_title(_heading(series, thinned), loc="left", fontsize=10)
    axes.set_title(_capacity(series, shown), loc="right", fontsize=9, color=_CAPACITY if shown else "#555555")
    axes.set_ylabel(f"in use ({unit})")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _points(series: Series) -> tuple[Any, Any, bool]:
    """Corners of the step curve, up to the end; thinned where there are more than can be seen."""
    if len(series.steps) > MOST_CHANGES:
        peaks = series.peaks(MOST_CHANGES)
        edges = np.linspace(0, series.end, MOST_CHANGES + 1)
        return edges, np.append(peaks, peaks[-1]), True
    return np.append(series.steps, series.end), np.append(series.bits, series.bits[-1]), False


def _heading(series: Series, thinned: bool) -> str:
    return f"{series.memory}: peak {format_bits(series.peak)}" + (" (peaks of short intervals)" if thinned else "")


def _capacity(series: Series, shown: bool) -> str:
    if math.isinf(series.capacity_bits):
        return "capacity unlimited"
    used = percent(series.peak / series.capacity_bits) if series.capacity_bits else "0%"
    line = "– – " if shown else ""
    return f"{line}capacity {format_bits(series.capacity_bits)}, {used} used"


def _title(spec: Spec) -> str:
    names = [einsum.name for einsum in spec.workload.einsums]
    noun = "Einsums" if len(names) > 1 else "Einsum"
    return f"Occupancy of the fullest instance of each memory, {noun} {listed(names, most=4)}"
