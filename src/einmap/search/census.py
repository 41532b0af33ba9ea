"""The shape of a mapspace: how many mappings there are, and what valid ones cost.

Small mapspaces are covered, of others uniform draws are taken until there are enough valid ones. Draws come in chunks
with seeds of their own, so that the result does not depend on the number of processes.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from multiprocessing import TimeoutError as NotYet
from multiprocessing import get_context
from typing import Any

import numpy as np

from einmap.arch.tree import outermost_memory
from einmap.arrays import Floats, Ints
from einmap.mapper.objective.metrics import of_energy_and_latency
from einmap.progress import Progress
from einmap.search.experiment import POLL, Question
from einmap.search.problem import Optimum, SearchProblem

SMALL_CHUNK, LARGE_CHUNK = 16_384, 262_144
"""Draws of a chunk, for samples of fewer or more than LARGE."""
LARGE = 50_000
MOST_DRAWS = 200
"""Draws for each valid mapping that is wanted before drawing ends."""
NEAR = 0.01
"""Mappings within this of the best are counted."""
EQUAL = 1e-9
"""Values that differ by less, relative to the smaller one, are equal: sums in another order round."""


@dataclass(frozen=True)
class Sample:
    """Some mappings of a mapspace: `drawn` of them, and for each valid one J, s, and accesses of the main memory."""

    drawn: int
    energy: Floats
    latency: Floats
    accesses: Floats

    @staticmethod
    def joined(samples: list[Sample]) -> Sample:
        """Several samples as one."""
        columns = [np.concatenate([getattr(s, name) for s in samples]) for name in ("energy", "latency", "accesses")]
        return Sample(sum(sample.drawn for sample in samples), *columns)


@dataclass(frozen=True)
class Interval:
    """An estimated part of a whole with a 95 % interval (Wilson, 1927); all three are equal where all was looked at."""

    low: float
    value: float
    high: float


@dataclass(frozen=True)
class Tie:
    """Valid mappings with the least latency, or the fewest main-memory accesses: how many, and J from least to most."""

    least: float
    count: int
    lowest_energy: float
    highest_energy: float

    @property
    def spread(self) -> float:
        """How many times as much energy the worst one takes as the best one."""
        return self.highest_energy / self.lowest_energy if self.lowest_energy > 0 else math.inf


@dataclass(frozen=True)
class Census:
    """The counts. `complete`: every mapping was looked at, so that nothing is estimated."""

    problem: SearchProblem
    optimum: Optimum
    sample: Sample
    complete: bool
    memory: str
    seconds: float

    @cached_property
    def values(self) -> Floats:
        """The objective of each valid mapping, in its unit, from the least on."""
        values = of_energy_and_latency(self.problem.objective, self.sample.energy, self.sample.latency)
        ordered: Floats = np.sort(values)
        return ordered

    @property
    def n_valid(self) -> int:
        """Valid mappings that were looked at."""
        return len(self.values)

    @cached_property
    def valid(self) -> Interval:
        """The part of all mappings that is valid."""
        return self.part(self.n_valid, self.sample.drawn)

    @cached_property
    def near_best(self) -> Interval:
        """The part of the valid mappings that is within 1 % of the optimum."""
        limit = self.optimum.value * (1 + NEAR) * (1 + EQUAL)
        return self.part(int(np.searchsorted(self.values, limit, side="right")), self.n_valid)

    def part(self, count: int, total: int) -> Interval:
        """A part with its interval."""
        if self.complete or not total:
            share = count / total if total else 0.0
            return Interval(share, share, share)
        return wilson(count, total)

    def quantiles(self, parts: tuple[float, ...]) -> list[float]:
        """The objective that so large parts of the valid mappings do not exceed, in its unit."""
        if not self.n_valid:
            return [math.inf] * len(parts)
        return [float(x) for x in np.quantile(self.values, parts, method="inverted_cdf")]

    @cached_property
    def fastest(self) -> Tie | None:
        """The valid mappings of the least latency, and how far apart they are in energy."""
        return _tie(self.sample.latency, self.sample.energy)

    @cached_property
    def least_traffic(self) -> Tie | None:
        """The valid mappings with the fewest accesses of the main memory, and how far apart they are in energy."""
        return _tie(self.sample.accesses, self.sample.energy)

    def histogram(self, bins: int = 16) -> list[tuple[float, float, int]]:
        """(from, to, count): valid mappings by their objective over the optimum, on a logarithmic scale."""
        if not self.n_valid or self.optimum.value <= 0:
            return []
        ratios = np.maximum(self.values / self.optimum.value, 1.0)
        # an edge above the largest value: the last bin holds it, too
        edges = np.geomspace(1.0, max(float(ratios[-1]), 1.001) * (1 + EQUAL), bins + 1)
        counts = np.histogram(ratios, edges)[0]
        return [(float(edges[i]), float(edges[i + 1]), int(counts[i])) for i in range(bins)]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        space = self.problem.space
        estimate = space.estimated_size if space.truncated else (space.size,) * 3

        def interval(part: Interval) -> dict[str, float]:
            return {"low": part.low, "value": part.value, "high": part.high}

        def tie(found: Tie | None) -> dict[str, float] | None:
            return None if found is None else {
                "least": found.least, "mappings": found.count, "lowest_energy": found.lowest_energy,
                "highest_energy": found.highest_energy, "spread": found.spread,
            }  # fmt: skip

        parts = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
        return {
            "einsum": self.problem.name,
            "objective": self.problem.objective,
            "size": list(estimate) if estimate is not None else None,
            "size_is_exact": space.size_is_exact,
            "complete": self.complete,
            "drawn": self.sample.drawn,
            "valid_mappings": self.n_valid,
            "valid_part": interval(self.valid),
            "within_1_percent": interval(self.near_best),
            "optimum": self.optimum.value,
            "optimum_is_proven": self.optimum.proven,
            "quantiles": dict(zip(map(str, parts), self.quantiles(parts), strict=True)),
            "least_latency": tie(self.fastest),
            "main_memory": self.memory,
            "fewest_main_memory_accesses": tie(self.least_traffic),
            "histogram": [{"from": low, "to": high, "count": n} for low, high, n in self.histogram()],
            "seconds": self.seconds,
        }


def wilson(count: int, total: int, z: float = 1.96) -> Interval:
    """The part `count` / `total` with its 95 % score interval."""
    share, n = count / total, float(total)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Interval(max(centre - half, 0.0) if count else 0.0, share, min(centre + half, 1.0) if count < total else 1.0)


def _tie(values: Floats, energy: Floats) -> Tie | None:
    if not len(values):
        return None
    least = float(values.min())
    tied = energy[values <= least * (1 + EQUAL)]
    return Tie(least, len(tied), float(tied.min()), float(tied.max()))


def main_memory(problem: SearchProblem) -> str:
    """The outermost memory of the path to the first compute."""
    unit = next(unit for unit in problem.arch.computes if unit.enabled)
    memory = outermost_memory(problem.arch.path(unit.name))
    return memory.name if memory is not None else ""


def take_census(
    question: Question, samples: int, *, workers: int | None = None, progress: Progress | None = None
) -> Census:
    """Look at every mapping where there are no more than `samples`, else at uniform draws until so many are valid.

    `workers`: processes, by default one for each processor. Ends early when the progress token says stop.
    """
    token = progress or Progress()
    problem = question.problem()
    optimum = problem.optimum()
    begin = time.perf_counter()
    memory = main_memory(problem)
    if problem.space.size <= samples and not problem.space.truncated:
        return _whole(problem, optimum, memory, begin)
    gathered: list[Sample] = []
    n_valid = drawn = 0
    for sample in _chunks(question, samples, workers, token):
        kept = _first(sample, samples - n_valid)
        gathered.append(kept)
        n_valid += len(kept.energy)
        drawn += kept.drawn
        token.report("drawing mappings", n_valid, samples)
        if n_valid >= samples or drawn >= MOST_DRAWS * samples:
            break
    sample = Sample.joined(gathered) if gathered else Sample(0, *(np.zeros(0),) * 3)
    return Census(problem, optimum, sample, False, memory, time.perf_counter() - begin)


def _whole(problem: SearchProblem, optimum: Optimum, memory: str, begin: float) -> Census:
    space = problem.space
    numbers = np.flatnonzero(space.sizes).tolist()
    arrays = ((n, space.subspace(n).points_at(np.arange(int(space.sizes[n]), dtype=np.int64))) for n in numbers)
    sample = _sampled(problem, arrays, int(space.size), memory)
    return Census(problem, optimum, sample, True, memory, time.perf_counter() - begin)


def _sampled(problem: SearchProblem, arrays: Iterator[tuple[int, Ints]], drawn: int, memory: str) -> Sample:
    columns: list[list[Floats]] = [[], [], []]
    for cost in problem.costs_of_arrays(arrays):
        accesses = cost.accesses(memory)
        for column, values in zip(columns, (cost.energy, cost.latency, accesses), strict=True):
            column.append(values[cost.fits])
    return Sample(drawn, *(np.concatenate(column) if column else np.zeros(0) for column in columns))


def _first(sample: Sample, most: int) -> Sample:
    """A part of a sample with no more than `most` valid mappings, the draws in proportion."""
    if len(sample.energy) <= most:
        return sample
    # the order within a chunk is by subspace: a random part is as uniform as the whole
    rows = np.random.default_rng(0).permutation(len(sample.energy))[:most]
    drawn = round(sample.drawn * most / len(sample.energy))
    return Sample(drawn, sample.energy[rows], sample.latency[rows], sample.accesses[rows])


def _chunks(question: Question, samples: int, workers: int | None, token: Progress) -> Iterator[Sample]:
    """Chunks of draws in order, made ahead by several processes."""
    draws = LARGE_CHUNK if samples >= LARGE else SMALL_CHUNK
    seeds = iter(range(MOST_DRAWS * samples // draws + 1))
    count = workers or os.cpu_count() or 1
    if count == 1 or samples < LARGE:
        _here.update(problem=question.problem(), seed=question.seed)
        for seed in seeds:
            if token.stopped:
                return
            yield _chunk(seed, draws)
        return
    with get_context("spawn").Pool(count, _begin, (question,)) as pool:
        waiting = [pool.apply_async(_chunk, (next(seeds), draws)) for _ in range(count + 1)]
        while waiting and not token.stopped:
            try:
                sample = waiting[0].get(POLL)
            except NotYet:
                continue
            waiting.pop(0)
            waiting += [pool.apply_async(_chunk, (seed, draws)) for seed in islice(seeds, 1)]
            yield sample


_here: dict[str, Any] = {}
"""Facts that a worker process knows."""


def _begin(question: Question) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _here.update(problem=question.problem(), seed=question.seed)


def _chunk(number: int, draws: int) -> Sample:
    problem: SearchProblem = _here["problem"]
    rng = np.random.default_rng([_here["seed"], number])
    return _sampled(problem, problem.space.draw_arrays(rng, draws), draws, main_memory(problem))
