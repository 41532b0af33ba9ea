"""Outcome of one specification; a failure is an outcome too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from einmap.errors import EinmapError, ManyErrors
from einmap.visible import brief, cut

DONE = "done"
NO_MAPPING, NO_PLAN, INVALID, MEMORY, TIME, CRASH, BUG = (
    "no mapping", "no plan", "invalid", "out of memory", "time-out", "crash", "internal error",
)  # fmt: skip
TRANSIENT = frozenset({MEMORY, TIME, CRASH, BUG})
"""Failures that depend on the machine: they may be gone when tried again."""
LONGEST_REASON = 2_000
"""Characters of a reason."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one specification.

    `status`: `done`, or a kind of failure with its `reason`. `energy` in J, leakage (`leak_energy`) included, `latency`
    in s, `area` in m^2, None where a component gives none. `optimal`: whether the mapping is proven best; None where it
    was only evaluated. `lower_bound` is that of the metric. `mapping`: as YAML, the key `mapping`, or of a plan the key
    `distribution`. `seconds` of wall time do not count when outcomes are compared.

    Of plans: `sent_bytes` that a PE sends on average, `peak_memory` in bytes, the number of PEs, and what each step
    takes (`seconds_by_step`).
    """

    __repr__ = brief

    status: str
    reason: str = ""
    energy: float | None = None
    latency: float | None = None
    leak_energy: float | None = None
    area: float | None = None
    optimal: bool | None = None
    lower_bound: float | None = None
    sent_bytes: float | None = None
    peak_memory: float | None = None
    processing_elements: int | None = None
    energy_by_component: Mapping[str, float] = field(default_factory=dict)
    seconds_by_step: Mapping[str, float] = field(default_factory=dict)
    mapping: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def done(self) -> bool:
        """Whether there is a cost."""
        return self.status == DONE


def told(error: EinmapError) -> str:
    """The text of an error, files without their folders: what is kept is the same on another machine."""
    text = str(error)
    for problem in error.problems if isinstance(error, ManyErrors) else (error,):
        if problem.at is not None and problem.at.file:
            text = text.replace(problem.at.file, Path(problem.at.file).name)
    return text


def failure(status: str, reason: str, seconds: float = 0.0) -> Outcome:
    """An outcome without a cost."""
    return Outcome(status, cut(reason, LONGEST_REASON), seconds=seconds)
