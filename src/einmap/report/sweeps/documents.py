"""Sweeps and points for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from einmap.report.sweeps.points import best_points, effects
from einmap.sweep.definition.definition import OBJECTIVES
from einmap.sweep.result import PointResult, front_of
from einmap.sweep.store.store import KeptSweep

SCHEMA = 1
"""Version of the JSON documents."""


def sweep_document(kept: KeptSweep, points: Sequence[PointResult]) -> dict[str, Any]:
    """A sweep as far as it got, for JSON."""
    return {
        "schema": SCHEMA,
        **status_document(kept),
        "front": [point.number for point in front_of(points)],
        "best": {name: point.number for name, point in best_points(points).items()},
        "effects": [{"axis": e.axis, "objective": e.objective, "ratio": e.ratio} for e in effects(points)],
        "points": [point_document(point) for point in points],
    }


def status_document(kept: KeptSweep) -> dict[str, Any]:
    """Facts of a sweep in the store, for JSON."""
    return {"sweep": asdict(kept.outline), "total": kept.total}


def point_document(point: PointResult) -> dict[str, Any]:
    """One point, for JSON."""
    return {
        "point": point.number,
        "values": dict(point.values),
        "status": point.status,
        "reason": point.reason,
        **{name: point.value(name) for name in OBJECTIVES},
        "optimal": point.optimal,
        "outcomes": {name: _without_time(asdict(outcome)) for name, outcome in point.outcomes.items()},
    }


def _without_time(outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome without what is not the same each time."""
    return {name: value for name, value in outcome.items() if name != "seconds"}
