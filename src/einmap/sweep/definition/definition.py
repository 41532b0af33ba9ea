"""A sweep, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from einmap.frontends.yaml.folders import FolderNames
from einmap.mapper.objective.metrics import METRICS, OF_ENERGY_AND_LATENCY
from einmap.sweep.definition.points.grid import Grid
from einmap.visible import brief

OBJECTIVES = {
    **{name: METRICS[name].unit for name in OF_ENERGY_AND_LATENCY},
    "area": "m^2",
    **{name: METRICS[name].unit for name in ("dynamic_energy", "leak_energy")},
    "sent_bytes": "B",
    "peak_memory": "B",
    "processing_elements": "",
}
"""Objectives of points, each with its unit; smaller is better."""
OF_PLANS = ("sent_bytes", "peak_memory", "processing_elements")
"""Objectives that plans alone have."""
NOT_OF_PLANS = ("area", "dynamic_energy", "leak_energy")
"""Objectives that plans do not have."""


@dataclass(frozen=True, slots=True)
class SweptWorkload:
    """A workload that runs at each point, `weight` times: files, and values of template variables."""

    name: str
    files: tuple[str, ...] = ()
    define: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The action on each specification; `metric`: of mappings, or of plans; `time_limit` in seconds, None: none."""

    action: str
    metric: str
    semantics: str | None = None
    fuse: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    time_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """A whole sweep. `files`: of all points; `content`: what was written, to tell sweeps from each other."""

    __repr__ = brief

    name: str
    files: tuple[str, ...]
    define: Mapping[str, Any]
    grid: Grid
    workloads: tuple[SweptWorkload, ...]
    asked: Asked
    objectives: tuple[str, ...]
    content: str
    read: tuple[str, ...] = ()
    """The files that were read for it, beside those of specifications."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Upper limits of objectives, by their names."""
    mesh: Mapping[str, int] = field(default_factory=dict)
    """Of the action `plan`: the PEs along each axis; empty where specifications have them."""
    root: FolderNames = ()
    """Folders from which specifications may include files, beside their own."""
