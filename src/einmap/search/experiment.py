"""Strategies side by side on one problem: many seeds, in parallel processes, each run once.

Processes rebuild the problem from the specification: nothing but plain values goes back and forth. A run that is
finished is handed to the caller at once, who may keep it in a journal.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import TimeoutError as NotYet
from multiprocessing import get_context
from typing import Any

import numpy as np

from einmap.mapper.mapspace.mapspace import Point
from einmap.mapper.warm import warm
from einmap.progress import Progress
from einmap.search.cost_model.cost_model import MOST_ROWS, CostModel, Learnt, training_data
from einmap.search.problem import SearchProblem, problem_of
from einmap.search.run import SearchResult, check_budget, search
from einmap.search.strategy import Budget, strategy_named
from einmap.spec.spec import Spec

POLL = 0.2
"""Seconds between two looks at the progress token."""
MOST_BEST = 32
"""The best mappings of a run that are kept."""


@dataclass(frozen=True)
class Question:
    """A problem as plain values, to be made anew in another process; see `problem_of`."""

    spec: Spec
    einsum: str
    objective: str
    semantics: str
    seed: int = 0

    def problem(self) -> SearchProblem:
        """The problem."""
        return problem_of(
            self.spec, einsum=self.einsum, metrics=self.objective, semantics=self.semantics, seed=self.seed
        )


@dataclass(frozen=True)
class Run:
    """Record of one run: `improvements` are (evaluations so far, s, objective in J, s or J*s).

    `evaluations`, `seconds`: of the whole run; `valid`: evaluated mappings that are valid. `best_points`: its best
    mappings, each once, with their objective. `evaluated`: what a cost model learns from the run (`training_data`),
    where that was asked for; not kept in journals.
    """

    strategy: str
    seed: int
    evaluations: int
    seconds: float
    valid: int
    improvements: tuple[tuple[int, float, float], ...]
    best_points: tuple[tuple[float, Point], ...] = ()
    evaluated: Learnt | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(strategy: str, seed: int, result: SearchResult, *, evaluated: bool = False) -> Run:
        """Record of a history."""
        seconds = float(result.seconds[-1]) if len(result.seconds) else 0.0
        valid = sum(math.isfinite(value) for value in result.values.tolist())
        best = tuple((one.value, one.point) for one in result.candidates(MOST_BEST) if one.point is not None)
        data = _learnt(result) if evaluated else None
        return Run(strategy, seed, len(result.values), seconds, valid, tuple(result.improvements()), best, data)

    @property
    def best(self) -> float:
        """The least objective; inf where no valid mapping was found."""
        return self.improvements[-1][2] if self.improvements else math.inf

    def best_after(self, evaluations: float) -> float:
        """The least objective of the first evaluations."""
        return next((value for n, _, value in reversed(self.improvements) if n <= evaluations), math.inf)

    def best_within(self, seconds: float) -> float:
        """The least objective of the first seconds."""
        return next((value for _, s, value in reversed(self.improvements) if s <= seconds), math.inf)

    def reached(self, value: float) -> tuple[float, float]:
        """Evaluations and seconds until the objective was no more than `value`; inf where it never was."""
        return next(((float(n), s) for n, s, v in self.improvements if v <= value), (math.inf, math.inf))

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "strategy": self.strategy,
            "seed": self.seed,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "valid": self.valid,
            "improvements": [list(row) for row in self.improvements],
            "best_points": [[value, number, list(digits)] for value, (number, digits) in self.best_points],
        }

    @staticmethod
    def from_dict(plain: Any) -> Run:
        """The inverse of `to_dict`. Raises KeyError, TypeError or ValueError for anything else."""
        rows = tuple((int(n), float(s), float(v)) for n, s, v in plain["improvements"])
        counts = int(plain["seed"]), int(plain["evaluations"]), float(plain["seconds"]), int(plain["valid"])
        best = tuple((float(v), (int(n), tuple(map(int, digits)))) for v, n, digits in plain["best_points"])
        return Run(str(plain["strategy"]), *counts, rows, best)


@dataclass(frozen=True)
class Terms:
    """Terms of all runs. `model`: a cost model that they begin with; `evaluated`: see `Run`."""

    budget: Budget
    model: CostModel | None = None
    evaluated: bool = False

    def run(self, problem: SearchProblem, name: str, seed: int, progress: Progress | None = None) -> Run:
        """Make one."""
        result = search(problem, name, self.budget, seed=seed, model=self.model, progress=progress)
        return Run.of(name, seed, result, evaluated=self.evaluated)


def _learnt(result: SearchResult) -> Learnt:
    """Training data from a run: each mapping once, of more than a model holds an even part."""
    rows = list({point: row for row, point in enumerate(result.points)}.values())
    if len(rows) > MOST_ROWS:
        rows = [rows[i] for i in np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(np.int64).tolist()]
    features, targets = training_data(result.problem, [result.points[row] for row in rows], result.values[rows])
    # as they are written to files
    return features.astype(np.float32), targets.astype(np.float32)


def runs_of(
    question: Question,
    tasks: Sequence[tuple[str, int]],
    terms: Terms,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Run]:
    """Each (strategy, seed) once, as it is finished; ends early when the progress token says stop.

    `workers`: processes, by default one for each processor; with 1 all runs are made here. Raises SpecError for an
    unknown strategy and a budget of nothing, before anything is run.
    """
    check_budget(terms.budget)
    for name in dict.fromkeys(name for name, _ in tasks):
        strategy_named(name)
    token = progress or Progress()
    # compiling is not searching: the kernels of the mapper are made ready before its run begins
    maps = any(name == "optimal" for name, _ in tasks)
    count = min(workers or os.cpu_count() or 1, len(tasks))
    if count <= 1:
        if maps:
            warm(everything=False)
        yield from _runs_here(question.problem(), tasks, terms, token)
        return
    with get_context("spawn").Pool(count, _begin, (question, terms, maps)) as pool:
        finished = pool.imap_unordered(_run, tasks)
        done = 0
        while done < len(tasks) and not token.stopped:
            try:
                run = finished.next(POLL)
            except NotYet:
                continue
            done += 1
            token.report(f"{run.strategy}, seed {run.seed}", done, len(tasks))
            yield run


def _runs_here(
    problem: SearchProblem, tasks: Sequence[tuple[str, int]], terms: Terms, token: Progress
) -> Iterator[Run]:
    for done, (name, seed) in enumerate(tasks):
        run = terms.run(problem, name, seed, Progress(None, None, token._stop))
        if token.stopped:
            return
        token.report(f"{name}, seed {seed}", done + 1, len(tasks))
        yield run


_here: dict[str, Any] = {}
"""Facts that a worker process knows: the problem, and the terms of its runs."""


def _begin(question: Question, terms: Terms, maps: bool) -> None:
    """Make the problem once in a worker process, which leaves Ctrl-C to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    if maps:
        warm(everything=False)
    _here.update(problem=question.problem(), terms=terms)


def _run(task: tuple[str, int]) -> Run:
    name, seed = task
    run: Run = _here["terms"].run(_here["problem"], name, seed)
    return run
