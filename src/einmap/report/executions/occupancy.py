"""Occupancy over time as arrays: one series for each memory, and its peaks in equal intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Compute, Memory
from einmap.execute.results.result import Execution
from einmap.spec.spec import Spec


@dataclass(frozen=True, eq=False)
class Series:
    """Bits in the fullest instance of a memory: `bits[i]` from operation `steps[i]` on, until `end`.

    Starts at step 0; several values at one step are states between two operations. `capacity_bits` may be inf.
    """

    memory: str
    capacity_bits: float
    steps: NDArray[np.int64]
    bits: NDArray[np.float64]
    end: int

    @property
    def peak(self) -> float:
        """The most bits at one time."""
        return float(self.bits.max())

    def peaks(self, intervals: int) -> NDArray[np.float64]:
        """The most bits in each of `intervals` equal parts of the time from 0 to `end`, which is in the last one.

        Steps 0, 2, 3 with 8, 0, 4 bits until 4, in two intervals: 8 and 4.
        """
        edges = np.arange(intervals) * (self.end / intervals)
        before = np.searchsorted(self.steps, edges, side="left")  # the first change in the interval or after it
        carried = self.bits[np.searchsorted(self.steps, edges, side="right") - 1]
        bounds = np.append(before, len(self.bits))
        return np.array(
            [
                max(held, self.bits[lo:hi].max(initial=0.0))
                for held, lo, hi in zip(carried, bounds, bounds[1:], strict=False)
            ]
        )


def series_of(execution: Execution, spec: Spec) -> tuple[Series, ...]:
    """One series for each memory, outermost first; a memory that holds nothing has zero bits throughout."""
    changes: dict[str, list[tuple[int, float]]] = {}
    for row in execution.occupancy:
        changes.setdefault(row.component, []).append((row.step, row.bits))
    last = max((step for rows in changes.values() for step, _ in rows), default=0)
    end = max(last, operations(execution, spec), 1)
    return tuple(
        _series(name, unit.size_bits, changes.get(name, []), end)
        for name, unit in spec.arch().components.items()
        if isinstance(unit, Memory)
    )


def operations(execution: Execution, spec: Spec) -> int:
    """Operations of the whole run, all instances together: the time over which occupancy changes."""
    total = 0.0
    for (einsum, component, tensor, _), counts in execution.per_instance.items():
        unit = spec.arch(einsum).components[component]
        if tensor is None and isinstance(unit, Compute) and unit.actions_scale:
            total += sum(counts.values()) / unit.actions_scale
    return round(total)


def _series(name: str, capacity: float, changes: list[tuple[int, float]], end: int) -> Series:
    if not changes or changes[0][0] > 0:
        changes = [(0, 0.0), *changes]
    steps, bits = zip(*changes, strict=True)
    return Series(name, capacity, np.array(steps, np.int64), np.array(bits, float), end)
