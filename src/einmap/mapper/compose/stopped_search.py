"""Fallback when a fused search is stopped: map each Einsum by itself, and report a lower bound."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from einmap.errors import MappingError, NoMappingError
from einmap.mapper.compose.fused_result import bound_of, not_searched_by
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.independent.einsum_result import statistics_of
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, MapStats, best_of
from einmap.mapper.result.verdict import Coverage, judged
from einmap.mapping.mapping import Mapping
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec

RESERVE = 0.4
"""Part of a limited time that is kept for the Einsums one by one, should the fused search not be done by then."""
MOST_RESERVED = 3.0
"""Seconds that are enough for that."""
AT_LEAST = 1.0
"""Seconds that it is given in any case, also where somebody has stopped the search."""
OF_EVALUATIONS = 0.25
"""Part of limited evaluations that is kept for it."""


def all_but_reserve(token: Progress) -> Progress:
    """The token for the time that a fused search may take."""
    if token.deadline is None:
        return token
    left = max(token.deadline - time.monotonic(), 0.0)
    return token.within(left - min(left * RESERVE, MOST_RESERVED))


def reserved(token: Progress) -> Progress:
    """The token for the time that is kept for the Einsums one by one; the same one where time is not limited."""
    if token.deadline is None:
        return token
    return token.within(min(max(token.deadline - time.monotonic(), 0.0) * RESERVE, MOST_RESERVED))


def begun(spec: Spec, asked: Options, token: Progress) -> tuple[IndependentSearch, bool]:
    """The Einsums one by one; with good mappings of them, as far as these are found soon, where time is limited.

    They take little work, but how long that takes is not known to who comes to it at the end of the time. Also whether
    a fused search is worth trying: not where time is so short that not even they are found in their part of it.
    """
    whole = IndependentSearch(spec, asked)
    if token.deadline is not None and asked.max_evaluations is None:
        left = max(token.deadline - time.monotonic(), 0.0)
        part = reserved(token)
        try:
            whole.soon(part, late=False)
        except (MappingError, NoMappingError):
            # where there is none at all one that fuses may fit
            return whole, left * RESERVE >= MOST_RESERVED or not part.stopped
    return whole, True


def for_fused(asked: Options) -> float:
    """Evaluations that a fused search may take."""
    return math.inf if asked.max_evaluations is None else max(asked.max_evaluations * (1 - OF_EVALUATIONS), 1.0)


@dataclass
class Early:
    """Results of searches that were stopped. `start`: when the call of the mapper began (a performance counter)."""

    spec: Spec
    asked: Options
    searches: Sequence[FusedSearch]
    token: Progress
    start: float
    whole: IndependentSearch
    """The Einsums one by one, with what was found of them before the search."""

    def unfused(self) -> MapResult:
        """Good mappings that fuse nothing, not proven. Raises NoMappingError when there is none, or none in time."""
        whole = self.whole
        try:
            front = self.best_unfused(whole)
        except (MappingError, NoMappingError) as error:
            text = f"the search was stopped before any fused mapping was found; Einsum by Einsum: {error.message}"
            remedies = error.remedies if isinstance(error, NoMappingError) else ()
            raise NoMappingError(text, at=error.at, hint=error.hint, remedies=remedies) from None
        by_einsum = {name: {**row, "complete": False} for name, row in statistics_of(whole.parts).items()}
        distinct = [part for part in by_einsum.values() if part["same_as"] is None]
        stats = MapStats(
            mapspace_size=float(sum(part["mapspace_size"] for part in by_einsum.values())),
            templates=sum(part["templates"] for part in distinct),
            evaluated=sum(search.budget.work for search in self.searches) + sum(part["evaluated"] for part in distinct),
            seconds=time.perf_counter() - self.start,
            by_einsum=by_einsum,
        )
        reason = "stopped before any fused mapping was found, so each Einsum is mapped by itself"
        return self.judged(front, reason, stats)

    def judged(self, front: Sequence[Found], reason: str, stats: MapStats) -> MapResult:
        """What may be claimed of some mappings."""
        covered = Coverage(
            "fused mapping", ended=reason, pruned=not_searched_by(self.searches), bound=bound_of(self.searches)
        )
        return judged(front, self.asked.goals, covered, stats)

    def best_unfused(self, whole: IndependentSearch) -> list[Found]:
        """What a search of each Einsum by itself comes to in a second, or in the time that is left."""
        now = time.monotonic()
        token = self.token
        if token.stopped or token.deadline is not None:
            until = now + AT_LEAST if token.stopped or token.deadline is None else token.deadline
            token = Progress(token.callback).within(max(until - now, AT_LEAST))
        mappings = self.of_each_metric(whole, share_of(token, 0.5))
        if not token.stopped and self.asked.max_evaluations is None:
            try:
                whole.run(token)
                mappings += whole.best()
            except (MappingError, NoMappingError):
                pass
        evaluated: list[Found] = []
        wrong: MappingError | None = None
        for mapping in mappings:
            try:
                cost = evaluate(self.spec, mapping, self.asked.rules, strict=True)
                evaluated.append(Found(cost, mapping, self.spec))
            except MappingError as error:
                wrong = error
        if wrong is not None and not evaluated:
            text = f"each has a mapping, but these do not fit together: {wrong.message}"
            raise NoMappingError(text, at=wrong.at, hint="give it more time or evaluations")
        return best_of(evaluated, self.asked.goals)

    def of_each_metric(self, whole: IndependentSearch, token: Progress) -> list[Mapping]:
        """A good mapping for each metric, each for its part of the time and of the evaluations that are left.

        Raises NoMappingError where some Einsum has none.
        """
        goals, mappings = self.asked.goals, list[Mapping]()
        for number, goal in enumerate(goals):
            left = len(goals) - number
            if mappings and token.stopped:
                break
            mappings.append(whole.soon(share_of(token, 1 / left), self.evaluations() / len(goals), goal))
        return mappings

    def evaluations(self) -> float:
        """Evaluations that are left."""
        if self.asked.max_evaluations is None:
            return math.inf
        return max(self.asked.max_evaluations - sum(search.budget.work for search in self.searches), 0)

    def better(self, result: MapResult) -> MapResult:
        """What a search found before it was stopped, or mappings that fuse nothing where these are better."""
        try:
            other = self.unfused()
        except NoMappingError:
            return result
        front = best_of([*result.front, *other.front], self.asked.goals)
        if not any(mapping in other.front for mapping in front):
            return replace(result, stats=replace(result.stats, seconds=other.stats.seconds))
        if not any(mapping in result.front for mapping in front):
            reason = "stopped; each Einsum mapped by itself is better than what was found fused"
            return self.judged(front, reason, other.stats)
        return replace(result, front=tuple(front), stats=replace(result.stats, seconds=other.stats.seconds))
