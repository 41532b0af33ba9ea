"""Each Einsum as a point below the roofs of computes and memories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from einmap.model.cost import Cost
from einmap.model.roofline import Point, Roof, Roofline, roofline
from einmap.report.html.charts import colours_of, legend, logarithmic, tooltip
from einmap.report.html.parts import Figure, Section
from einmap.spec.spec import Spec
from einmap.units import format_si

_LEAD = (
    "An Einsum is a point for each memory: how many operations it does for a byte that the memory moves, and for a "
    "second. It cannot rise above the slope of that memory's bandwidth, nor above the peak of the computes."
)
_MOST_NAMES = 12
"""Points with their names beside them."""
_MOST_POINTS = 1_500


class _Frame(NamedTuple):
    """The least and the largest value of both axes."""

    left: float
    right: float
    low: float
    high: float


def roofline_section(cost: Cost, spec: Spec) -> Section | None:
    """The section, or None where there is nothing that limits."""
    limits = roofline(cost, spec)
    colours = colours_of([row.component for row in cost.components])
    figure = roofline_figure(limits, colours)
    return None if figure is None else Section("roofline", "Roofline", (figure,), _LEAD)


def roofline_figure(
    limits: Roofline, colours: Mapping[str, str], noun: str = "each Einsum", told: str = "at the memory"
) -> Figure | None:
    """The plot, or None without a point or without a roof. `noun`: what the points are; `told`: what colours tell."""
    if not limits.points or not (limits.peaks or limits.bandwidths):
        return None
    frame = _frame(limits)
    axes = _axes(frame)
    points = [_point(point) for point in limits.points[:_MOST_POINTS]]
    layers = [_lines(limits, frame, axes, colours), _marks(points, axes, told)]
    names = _named(limits.points)
    if names:
        text = {"mark": {"type": "text", "align": "left", "dx": 2, "dy": -12}}
        encoding = {**axes, "text": {"field": "einsum"}}
        layers.append({"data": {"values": names}, "encoding": encoding, **text})
    peaks = ", ".join(f"{roof.component} {_operations(roof.rate)}" for roof in limits.peaks)
    memories = ", ".join(f"{roof.component} {format_si(roof.rate, 'B/s')}" for roof in limits.bandwidths)
    texts = (f"Peak (dashed): {peaks}" if peaks else "", f"bandwidth: {memories}" if memories else "")
    caption = "; ".join(text for text in texts if text) + "."
    title = f"What {noun} does, and what it could do at most"
    description = f"Roofline of {len(limits.points)} points. {caption}"
    return Figure("roofline", title, {"height": 380, "layer": layers}, description, caption)


def _lines(limits: Roofline, frame: _Frame, axes: dict[str, Any], colours: Mapping[str, str]) -> dict[str, Any]:
    """The roofs; those of memories have the colours of their points."""
    roofs = [*_slopes(limits, frame), *_peaks(limits.peaks, limits, frame)]
    used = {roof["memory"] for roof in roofs if roof["kind"] == "bandwidth"} | {p.memory for p in limits.points}
    peaks = {roof["memory"]: "var(--ink)" for roof in roofs if roof["kind"] == "peak"}
    return {
        "data": {"values": roofs},
        "mark": {"type": "line", "strokeWidth": 2, "clip": True},
        "encoding": {
            **axes,
            "color": legend({**colours, **peaks}, used, "memory"),
            "detail": {"field": "line"},
            "strokeDash": {"condition": {"test": "datum.kind === 'peak'", "value": [6, 3]}, "value": [1, 0]},
            "tooltip": tooltip(text="roof"),
        },
    }


def _marks(points: list[dict[str, Any]], axes: dict[str, Any], told: str) -> dict[str, Any]:
    mark = {"type": "point", "filled": True, "size": 90, "opacity": 0.9, "stroke": "var(--paper)", "strokeWidth": 1}
    return {
        "data": {"values": points},
        "mark": mark,
        "encoding": {
            **axes,
            "color": {"field": "memory", "type": "nominal"},
            "tooltip": tooltip(
                einsum="Einsum" if told == "at the memory" else "of",
                memory=told,
                intensity="operations per byte",
                rate="operations per second",
            ),
        },
    }


def _point(point: Point) -> dict[str, Any]:
    return {"einsum": point.einsum, "memory": point.memory, "x": point.intensity, "y": point.rate} | {
        "intensity": f"{point.intensity:.4g}", "rate": format_si(point.rate, "")
    }  # fmt: skip


def _named(points: Iterable[Point]) -> list[dict[str, Any]]:
    """The leftmost point of each Einsum, where there are few, at different places."""
    first: dict[str, Point] = {}
    for point in points:
        if point.einsum not in first or point.intensity < first[point.einsum].intensity:
            first[point.einsum] = point
    if len(first) > _MOST_NAMES:
        return []
    places: dict[tuple[float, float], list[str]] = {}
    for name, point in first.items():
        places.setdefault((_near(point.intensity), _near(point.rate)), []).append(name)
    return [
        {"einsum": ", ".join(names), "x": first[names[0]].intensity, "y": first[names[0]].rate}
        for names in places.values()
    ]


def _near(value: float) -> float:
    """Points closer than this share their label."""
    return round(math.log10(value) * 4)


def _frame(limits: Roofline) -> _Frame:
    peak = max((roof.rate for roof in limits.peaks), default=max(point.rate for point in limits.points))
    ridges = [peak / roof.rate for roof in limits.bandwidths]
    across = [point.intensity for point in limits.points]
    left, right = min([*across, *ridges]) / 3, max([*across, *ridges]) * 3
    low = min(point.rate for point in limits.points) / 3
    high = max([peak, *(point.rate for point in limits.points)]) * 2
    return _Frame(left, right, low, high)


def _slopes(limits: Roofline, frame: _Frame) -> list[dict[str, Any]]:
    """Each bandwidth from the left up to the highest peak."""
    rows = []
    top = max((roof.rate for roof in limits.peaks), default=frame.high)
    for roof in limits.bandwidths:
        text = f"{roof.component}: {format_si(roof.rate, 'B/s')}"
        start = max(frame.left, frame.low / roof.rate)
        for x in (start, max(start, top / roof.rate)):
            y = min(roof.rate * x, top)
            rows.append({"line": text, "memory": roof.component, "kind": "bandwidth", "x": x, "y": y, "text": text})
    return rows


def _peaks(peaks: tuple[Roof, ...], limits: Roofline, frame: _Frame) -> list[dict[str, Any]]:
    """Each peak from where the fastest memory reaches it."""
    rows = []
    fastest = max((roof.rate for roof in limits.bandwidths), default=math.inf)
    for roof in peaks:
        text = f"{roof.component}: {_operations(roof.rate)}"
        start = max(frame.left, roof.rate / fastest)
        rows += [
            {"line": text, "memory": roof.component, "kind": "peak", "x": x, "y": roof.rate, "text": text}
            for x in (start, frame.right)
        ]
    return rows


def _axes(frame: _Frame) -> dict[str, Any]:
    return {
        "x": logarithmic("x", "operations per byte", frame.left, frame.right, format=",~g"),
        "y": logarithmic("y", "operations per second", frame.low, frame.high, format="~s"),
    }


def _operations(rate: float) -> str:
    """`68.8 T operations/s`"""
    return f"{format_si(rate, '')} operations/s"
