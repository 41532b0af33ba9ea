"""Results of a benchmark: times beside those of libraries and beside what the model says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.bench.timing import Times
from einmap.visible import brief


@dataclass(frozen=True, slots=True)
class Run:
    """One contender: its times, and how many of its values differ from what is to come out."""

    name: str
    times: Times
    differ: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds of runs: the least, the quartiles with the median between them."""

    least: float
    lower: float
    median: float
    upper: float

    @staticmethod
    def of(seconds: Sequence[float]) -> Spread:
        """The spread of at least one run."""
        lower, median, upper = np.quantile(seconds, (0.25, 0.5, 0.75)).tolist()
        return Spread(min(seconds), lower, median, upper)


@dataclass(frozen=True, slots=True)
class Moved:
    """Bits of a tensor that a memory reads and writes in one run, as the model counts."""

    memory: str
    tensor: str
    action: str
    bits: float


@dataclass(frozen=True)
class Benchmark:
    """A workload on this processor. `flops` of one run, `cores` that it uses; `runs`: the mapping first.

    `roofline` in s: the busiest component of the model alone. `waiting` in s: the model's energy on one core, which on
    an architecture of `einmap machine --this-cpu` is the time that transfers and computing take together. `clock`: what
    was measured. `code`: what was compiled.
    """

    __repr__ = brief

    einsum: str
    code: str
    compiler: str
    clock: str
    is_pinned: bool
    cores: int
    flops: float
    roofline: float
    waiting: float
    moved: tuple[Moved, ...]
    runs: tuple[Run, ...]
    exact: bool = True
    """Whether all values are compared exactly; else a map rounds, and the last digits may differ."""
    by_nest: float | None = None
    """Seconds predicted from the emitted nest (`einmap.bench.predict`): warm, without a map of the values."""

    @property
    def correct(self) -> bool:
        """Whether all values of the mapping's code are what the Einsum says."""
        return self.runs[0].differ == 0

    def rate(self, run: Run, *, warm: bool = True) -> float:
        """Operations in a second at the median, in flop/s."""
        return self.flops / Spread.of(run.times.warm if warm else run.times.cold).median

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON: s, bits, flop/s."""
        runs = [
            {
                "name": run.name,
                "differing_values": run.differ,
                "flops_per_s": self.rate(run),
                "warm_s": list(run.times.warm),
                "cold_s": list(run.times.cold),
            }
            for run in self.runs
        ]
        moved = [{"memory": m.memory, "tensor": m.tensor, "action": m.action, "bits": m.bits} for m in self.moved]
        return {
            "einsum": self.einsum,
            "cores": self.cores,
            "flops": self.flops,
            "correct": self.correct,
            "compiler": self.compiler,
            "clock": self.clock,
            "pinned": self.is_pinned,
            "predicted": {
                "roofline_s": self.roofline,
                "waiting_s": self.waiting,
                "by_nest_s": self.by_nest,
                "moved": moved,
            },
            "runs": runs,
        }
