"""`einmap search --remeasure`: the best mappings of each strategy, and the mapper's, executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from einmap.cli.progress_bar import searching
from einmap.errors import EinmapError, SpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from einmap.search.experiment import Run
    from einmap.search.problem import Optimum, SearchProblem
    from einmap.search.remeasure import Remeasured
    from einmap.search.run import Candidate

SAME = 1e-9
"""Objectives whose ratio is nearer to 1 are of one mapping."""


@dataclass(frozen=True)
class Executed:
    """The best mappings by strategy, each strategy's best by execution first, and the `reference` of the mapper."""

    by: str
    reference: Remeasured
    strategies: dict[str, list[Remeasured]]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "by": self.by,
            "optimum": _plain(self.reference),
            "strategies": {name: [_plain(one) for one in of_one] for name, of_one in self.strategies.items()},
        }


@dataclass(frozen=True)
class Remeasuring:
    """Which mappings to measure again, and how: the `top` ones of each strategy."""

    top: int
    by: str

    @staticmethod
    def of(top: int | None, by: str | None) -> Remeasuring | None:
        """The request, None without one. A usage error for an unknown way, and for one without a number."""
        from einmap.search.remeasure import WAYS

        if by is not None and by not in WAYS:
            hint = did_you_mean(by, WAYS, listing="ways")
            raise typer.BadParameter(f"mappings cannot be measured by {by!r}; {hint}", param_hint="--remeasure-by")
        if top is None:
            if by is not None:
                raise typer.BadParameter("it says how --remeasure N measures", param_hint="--remeasure-by")
            return None
        return Remeasuring(top, by or "simulator")

    def reference(self, problem: SearchProblem, optimum: Optimum) -> Remeasured:
        """The mapping of the mapper, executed before anything is searched: what cannot be done is known at once."""
        from einmap.search.remeasure import measured
        from einmap.search.run import Candidate

        try:
            (one,) = measured(problem, [Candidate(optimum.point, optimum.mapping, optimum.value)], self.by)
        except EinmapError as error:
            raise SpecError(f"--remeasure: {error.message}", hint=error.hint) from None
        return one

    def of_runs(self, problem: SearchProblem, reference: Remeasured, runs: Sequence[Run]) -> Executed:
        """The best mappings of each strategy over all its seeds; strategies that found none, or none that can be
        executed, are left out. Ctrl-C ends it with what was measured.
        """
        from einmap.search.remeasure import measured

        found: dict[str, list[Remeasured]] = {}
        with searching() as search:
            for name in dict.fromkeys(run.strategy for run in runs):
                candidates = _candidates(problem, [run for run in runs if run.strategy == name], self.top)
                if not candidates or search.interrupted:
                    continue
                try:
                    found[name] = measured(problem, candidates, self.by, progress=search.progress)
                except EinmapError:
                    continue
        return Executed(self.by, reference, found)


def _candidates(problem: SearchProblem, runs: Sequence[Run], top: int) -> list[Candidate]:
    """The best mappings of some runs, each once. Raises SpecError where a journal keeps others than it says."""
    from einmap.search.run import Candidate

    found: dict[Any, Candidate] = {}
    for value, point in sorted({best for run in runs for best in run.best_points}):
        if len(found) == top:
            break
        if not problem.space.has(point) or abs(float(problem.evaluate([point])[0]) / value - 1) > SAME:
            raise SpecError(
                "the best mappings that the journal keeps have other objectives here",
                hint="another version of einmap has written it; name another file",
            )
        mapping = problem.space.decode(point)
        found.setdefault(mapping, Candidate(point, mapping, value))
    return list(found.values())


def _plain(one: Remeasured) -> dict[str, Any]:
    from einmap.spec.forms.loop_tree import write_mapping
    from einmap.spec.raw import to_python

    numbers = {"place_by_model": one.place, "predicted": one.predicted, "measured": one.measured}
    return {**numbers, "mapping": to_python(write_mapping(one.mapping))}
