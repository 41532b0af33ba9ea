"""Summary of the runs of several seeds: gaps to the optimum by evaluations and seconds, and how soon they are small."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.search.experiment import Run

THRESHOLDS = (0.1, 0.01, 0.0)
"""Gaps whose first evaluation is told."""
ROUNDING = 1e-9
"""A gap up to this counts as none: sums in another order round."""
RESAMPLES = 2_000
"""Samples of the bootstrap."""


@dataclass(frozen=True)
class Quartiles:
    """Median and quartiles, each one of the values; inf is larger than all others."""

    low: float
    median: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Quartiles:
        """The quartiles of some values."""
        low, median, high = np.quantile(np.array(values), [0.25, 0.5, 0.75], method="inverted_cdf")
        return Quartiles(float(low), float(median), float(high))


@dataclass(frozen=True)
class Reached:
    """How soon a gap is reached: `evaluations` and `seconds` over all seeds, inf for one that did not reach it.

    `seeds`: how many did.
    """

    gap: float
    evaluations: Quartiles
    seconds: Quartiles
    seeds: int


@dataclass(frozen=True)
class StrategySummary:
    """One strategy over all seeds. Gaps are relative to the optimum: 0.1 is 10 % above it.

    `final`: gap at the end; `interval`: 95 % bootstrap interval of its median; `seconds`: of a whole run; `valid`: part
    of the evaluated mappings that are valid. `by_evaluations`, `by_seconds`: gap at some points of each.
    """

    strategy: str
    seeds: int
    final: Quartiles
    interval: tuple[float, float]
    seconds: Quartiles
    valid: float
    reached: tuple[Reached, ...]
    by_evaluations: tuple[tuple[float, Quartiles], ...]
    by_seconds: tuple[tuple[float, Quartiles], ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "strategy": self.strategy,
            "seeds": self.seeds,
            "final_gap": _plain(self.final),
            "median_interval": list(self.interval),
            "seconds": _plain(self.seconds),
            "valid": self.valid,
            "reached": [
                {"gap": r.gap, "seeds": r.seeds, "evaluations": _plain(r.evaluations), "seconds": _plain(r.seconds)}
                for r in self.reached
            ],
            "by_evaluations": [{"evaluations": n, **_plain(q)} for n, q in self.by_evaluations],
            "by_seconds": [{"seconds": s, **_plain(q)} for s, q in self.by_seconds],
        }


def _plain(quartiles: Quartiles) -> dict[str, float]:
    return {"low": quartiles.low, "median": quartiles.median, "high": quartiles.high}


def summarised(runs: Sequence[Run], optimum: float, evaluations: int) -> list[StrategySummary]:
    """Each strategy over its seeds, in the order of the runs. `evaluations`: the budget of a run."""
    by_strategy: dict[str, list[Run]] = {}
    for run in runs:
        by_strategy.setdefault(run.strategy, []).append(run)
    longest = max((run.seconds for run in runs), default=1.0)
    steps = [float(n) for n in checkpoints(evaluations)]
    times = [float(f"{t:.2g}") for t in np.geomspace(max(longest / 1000, 1e-3), longest, 10)]

    def summary(name: str, of_one: list[Run]) -> StrategySummary:
        def gaps(best: Callable[[Run], float]) -> Quartiles:
            return Quartiles.of([gap(best(run), optimum) for run in of_one])

        final = [gap(run.best, optimum) for run in of_one]
        return StrategySummary(
            name,
            len(of_one),
            Quartiles.of(final),
            bootstrap_median(final),
            Quartiles.of([run.seconds for run in of_one]),
            sum(run.valid for run in of_one) / max(sum(run.evaluations for run in of_one), 1),
            tuple(_reached(of_one, optimum, threshold) for threshold in THRESHOLDS),
            tuple((n, gaps(lambda run, n=n: run.best_after(n))) for n in steps),  # type: ignore[misc]
            tuple((s, gaps(lambda run, s=s: run.best_within(s))) for s in times),  # type: ignore[misc]
        )

    return [summary(name, of_one) for name, of_one in by_strategy.items()]


def gap(value: float, optimum: float) -> float:
    """How far above the optimum a value is, relative to it; 0 within rounding."""
    if value == optimum:
        return 0.0
    if optimum == 0:
        return math.inf
    relative = value / optimum - 1
    return 0.0 if abs(relative) <= ROUNDING else relative


def checkpoints(evaluations: int) -> list[int]:
    """Numbers of evaluations at which gaps are told: 1, 2, 5, 10, ..., and the last one."""
    steps = [m * 10**e for e in range(len(str(evaluations))) for m in (1, 2, 5)]
    return [*(n for n in steps if n < evaluations), evaluations]


def bootstrap_median(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """The percentile interval of the median of `values` by resampling them with a fixed seed."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(np.array(values), (RESAMPLES, len(values)))
    medians = np.quantile(drawn, 0.5, axis=1, method="inverted_cdf")
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return float(low), float(high)


def _reached(runs: Sequence[Run], optimum: float, threshold: float) -> Reached:
    limit = optimum * (1 + threshold + ROUNDING)
    both = [run.reached(limit) for run in runs]
    return Reached(
        threshold,
        Quartiles.of([n for n, _ in both]),
        Quartiles.of([s for _, s in both]),
        sum(math.isfinite(n) for n, _ in both),
    )
