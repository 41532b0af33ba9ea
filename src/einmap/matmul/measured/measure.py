"""Speed of a plan on the processor at hand, against plain loops, NumPy's BLAS and the roofline. One core, always.

Every contender is timed several times in turn with the others, so that what else the machine does hits all of them,
and its best time counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.matmul.measured.kernel import DTYPES, ROWS, multiply, multiply_adds, operand_dtype
from einmap.matmul.measured.plain_loops import PLAIN_LOOPS, Loops
from einmap.matmul.measured.registers import TILE
from einmap.matmul.measured.this_cpu import Processor, Rates
from einmap.matmul.result import MatmulPlan
from einmap.optional import require
from einmap.progress import Progress

type Matrix = NDArray[Any]

PLAN, BLAS = "plan", "BLAS"
ROUNDS = 5
PASSES = 4
"""How often each bandwidth is measured, in turn with the others: caches that others use, too, are slow for a while."""
SHORT = 0.1
"""Seconds of one run that measures a rate, and of the first look at a plain loop order."""
LONG = 2.0
"""Seconds that one run of a plain loop order should take at most; where it would take more it gets fewer rows."""
MOST_COPIED = 2**27
"""Bytes of the copy that measures the main memory."""


class Stopped(Exception):
    """The measurement was stopped before there was anything to tell."""


@dataclass(frozen=True, slots=True)
class Run:
    """One contender: best time in s of the first `rows` rows of C, of all `m`, and flop/s."""

    name: str
    seconds: float
    rows: int
    flops_per_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """`runs`: plain loops with the best one first, the plan, BLAS. `peak` in flop/s, `bandwidth` in bytes/s of a copy.

    `error`: the largest error of a value of C as part of its bound, 2 k u |A| |B| with the unit roundoff u (Higham,
    "Accuracy and Stability of Numerical Algorithms", section 3.5); correct results are below 1. `rounds` were made.
    """

    plain: tuple[Run, ...]
    planned: Run
    blas: Run
    peak: float
    bandwidth: float
    least_bytes: float
    error: float
    rounds: int

    @property
    def correct(self) -> bool:
        """Whether all values of C are as close to the truth as rounding explains."""
        return self.error <= 1

    @property
    def roofline(self) -> float:
        """flop/s that no program exceeds that moves every operand once (Williams, Waterman, Patterson 2009)."""
        seconds = self.least_bytes / self.bandwidth
        return min(self.peak, self.planned.seconds * self.planned.flops_per_s / seconds)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON: seconds, flop/s and bytes/s."""
        runs = [*self.plain, self.planned, self.blas]
        return {
            "runs": [
                {"name": r.name, "seconds": r.seconds, "rows": r.rows, "flops_per_s": r.flops_per_s} for r in runs
            ],
            "peak_flops_per_s": self.peak,
            "copy_bytes_per_s": self.bandwidth,
            "roofline_flops_per_s": self.roofline,
            "error": self.error,
            "correct": self.correct,
            "rounds": self.rounds,
        }


def measured_rates(processor: Processor, progress: Progress) -> Rates:
    """Peak and bandwidths of one core by short loops; about a second, more when kernels have to be compiled."""
    flops = {}
    for name in DTYPES:
        _check(progress, f"measuring the peak in {name}")
        flops[name] = peak(name)
    sizes = [cache.size_bytes for cache in processor.caches]
    best = [0.0 for _ in sizes]
    for _ in range(PASSES):
        for place, outer in enumerate([*sizes[1:], 2 * MOST_COPIED]):
            _check(progress, f"measuring the bandwidth into L{processor.caches[place].level}")
            # half of the next cache, or main memory: source and target of the copy lie there together
            found = 8 * copied_bytes_per_s(min(outer // 4, MOST_COPIED))
            best[place] = max(best[place], found)
    return Rates(tuple(flops.items()), tuple(best), "measured")


def peak(dtype: str) -> float:
    """flop/s of multiply-adds in registers."""
    values = np.full(TILE.columns(8 * DTYPES[dtype].itemsize), 0.5, DTYPES[dtype])
    multiply_adds(values, 1)
    steps = 100_000
    seconds = best_of(lambda: multiply_adds(values, steps))
    steps = max(steps, int(steps * SHORT / seconds / 2))
    seconds = best_of(lambda: multiply_adds(values, steps))
    return 2 * ROWS * len(values) * steps / seconds


def copied_bytes_per_s(size: int) -> float:
    """Bytes/s of a copy of `size` bytes, each byte counted once as it is read and once as it is written."""
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    repeats = max(1, MOST_COPIED // 4 // size)

    def copy() -> None:
        for _ in range(repeats):
            np.copyto(target, source)

    return 2 * size * repeats / best_of(copy)


def best_of(work: Callable[[], object], runs: int = ROUNDS) -> float:
    """The least processor time of the thread in s: what else the machine does is left out."""
    return min(_timed(work) for _ in range(runs))


def _timed(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def measure(plan: MatmulPlan, progress: Progress | None = None, rounds: int = ROUNDS) -> Measured:
    """Run plan, the two best plain loop orders and BLAS in turn, all on one core, and check the result.

    All loop orders are timed once before, on so few rows that it takes a moment. Raises SpecError for a plan that the
    kernel cannot run and without threadpoolctl, `Stopped` when stopped before the first round has ended.
    """
    progress = progress or Progress()
    threadpoolctl = require("threadpoolctl", "cpu")
    dtype = operand_dtype(plan)
    m, k, n = plan.product.size
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, dtype=dtype.type) - dtype.type(0.5) for shape in ((m, k), (k, n)))
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        plain = sorted(_plain_runs(a, b, progress), key=lambda run: -run.flops_per_s)
        _check(progress, "checking the result")
        error = error_of(multiply(plan, a, b), a, b)
        # two, since a short first look may take the second best for the best
        rows = {r.name: min(m, max(r.rows, int(LONG * r.flops_per_s / (2 * k * n)))) for r in plain[:2]}
        contenders: dict[str, Callable[[], object]] = {
            name: _plain_work(PLAIN_LOOPS[name], a, b, some) for name, some in rows.items()
        }
        contenders |= {PLAN: lambda: multiply(plan, a, b), BLAS: lambda: a @ b}
        times, done = _in_turn(contenders, rounds, progress)
        _check(progress, "measuring the roofline")
        peak_rate, bandwidth = peak(plan.product.types[0].name), copied_bytes_per_s(MOST_COPIED)
    runs = {name: _run(name, times[name], rows.get(name, m), k, n) for name in contenders}
    ranked = sorted((runs[name] for name in rows), key=lambda run: -run.flops_per_s)
    least_bytes = dtype.itemsize * (m * k + k * n + m * n)
    return Measured(
        (*ranked, *plain[2:]),
        runs[PLAN],
        runs[BLAS],
        peak_rate,
        bandwidth,
        least_bytes,
        error,
        done,
    )


def _plain_runs(a: Matrix, b: Matrix, progress: Progress) -> list[Run]:
    """Every order on the first rows: few at first, then as many as take a moment."""
    runs = []
    (m, k), n = a.shape, b.shape[1]
    for name, loops in PLAIN_LOOPS.items():
        _check(progress, f"measuring the loop order {name}")
        loops(a[:1, :1].copy(), b[:1, :1].copy(), np.zeros((1, 1), a.dtype))  # compiled
        rows = min(m, 8)
        seconds = _timed(_plain_work(loops, a, b, rows))
        more = min(m, 128, int(rows * 5 * SHORT / seconds))
        if more > rows:
            rows, seconds = more, _timed(_plain_work(loops, a, b, more))
        runs.append(_run(name, seconds, rows, k, n))
    return runs


def _plain_work(loops: Loops, a: Matrix, b: Matrix, rows: int) -> Callable[[], object]:
    def work() -> None:
        loops(a[:rows], b, np.zeros((rows, b.shape[1]), a.dtype))

    return work


def _run(name: str, seconds: float, rows: int, k: int, n: int) -> Run:
    return Run(name, seconds, rows, 2 * rows * k * n / seconds)


def _in_turn(
    contenders: dict[str, Callable[[], object]], rounds: int, progress: Progress
) -> tuple[dict[str, float], int]:
    """The best time of each, and how many rounds were made before the measurement was stopped."""
    best: dict[str, float] = {}
    for done in range(rounds):
        for name, work in contenders.items():
            if progress.stopped:
                if done == 0:
                    raise Stopped
                return best, done
            progress.report(f"round {done + 1} of {rounds}: {name}", done, rounds)
            best[name] = min(best.get(name, np.inf), _timed(work))
    return best, rounds


def error_of(c: Matrix, a: Matrix, b: Matrix) -> float:
    """The largest error of a value of C = A B as part of its bound; 1 and less is what rounding explains."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    # the product that it is compared with is rounded too, hence the 2
    bound = 2 * a.shape[1] * (np.finfo(a.dtype).eps / 2) * (np.abs(wide_a) @ np.abs(wide_b))
    error = np.abs(c - wide_a @ wide_b)
    return float(np.max(np.divide(error, bound, out=np.where(error > 0, np.inf, 0.0), where=bound > 0)))


def _check(progress: Progress, what: str) -> None:
    if progress.stopped:
        raise Stopped
    progress.report(what, 0)
