"""Outcomes of searches, and what may be claimed of them.

Each search says what it covered; the best of several searches is made of what each of them says, and `reason`,
`optimal` and the lower bound of a result are made here, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from einmap.mapper.objective.pareto_sums import PARTS
from einmap.mapper.objective.tolerances import tie_breaker
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, MapStats, best_of, objective
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.counting.semantics import Semantics
from einmap.model.evaluate import evaluate
from einmap.spec.spec import Spec
from einmap.visible import listed


@dataclass(frozen=True)
class Outcome:
    """Outcome of a search: mappings, and what it covered.

    `points`: the best mapping, or the front; empty where none was found. `every`: the mappings that were searched, in
    words that stand behind "every"; `by_trying`: each was evaluated, none ruled out by a bound. `narrowed`: in words,
    what mappings have that the options of the call ask for. `ended`: why the search ended before all of them were
    covered, None where they were. `left_out`: what of the mapspace that was asked for was not searched, in words.
    `bound`: what the one metric is at least for every mapping that was asked for (J, s, J*s), None where that is not
    known; where nothing is left out it is the best found. `tolerance`: mappings that are better by no more than this
    part may have been ignored. `ties_broken`: of the mappings that are as good by the one metric, energy or latency,
    none is better by the other one. `notes`: what else was searched, in words. `cached`: it was kept by an earlier
    call. `unfit`: an Einsum that does not fit by itself, whatever the others do. `unfused`: what the same search found
    that fuses nothing, where it looked for that beside fused mappings. `planned`: see `Known`. `tie_bound`: what the
    other metric is at least for mappings that are as good, where the search for them ended since it took long.
    """

    goals: tuple[str, ...]
    points: tuple[Found, ...]
    stats: MapStats
    every: str = "fused mapping"
    by_trying: bool = False
    narrowed: tuple[str, ...] = ()
    ended: str | None = None
    left_out: tuple[str, ...] = ()
    bound: float | None = None
    tolerance: float = 0.0
    ties_broken: bool = False
    tie_bound: float | None = None
    notes: tuple[str, ...] = ()
    cached: bool = False
    unfit: str | None = None
    unfused: Outcome | None = None
    planned: Mapping[tuple[str, ...], object] = field(default_factory=dict, compare=False)

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for was covered."""
        return self.ended is None and not self.left_out

    @property
    def value(self) -> float:
        """The least value of the first metric; inf where nothing was found."""
        return min((objective(point.cost, self.goals[0]) for point in self.points), default=math.inf)

    @property
    def lower_bound(self) -> float | None:
        """Lower bound of the one metric, whatever was not covered; None for several, or where it is not known."""
        if len(self.goals) > 1:
            return None
        least = self.bound
        if self.is_complete:
            least = self.value if not self.tolerance else self._eased()
        return None if least is None else min(least, self.value)

    def _eased(self) -> float | None:
        """Lower bound of the optimum if each of its factors may be better by the tolerance."""
        factors = len(PARTS.get(self.goals[0], self.goals))
        return self.value / (1 + self.tolerance) ** factors if self.value >= 0 else None

    def result(self) -> MapResult:
        """Result that the mapper returns."""
        optimal, bound = self.is_complete and not self.tolerance, self.lower_bound
        texts = [self._covered()]
        if self.left_out:
            texts.append(f"not searched: {listed(self.left_out, between=', nor ')}")
        if not optimal and (bound is None or bound <= 0):
            texts.append(f"no gap is known: {self._no_gap(bound)}")
        if len(self.goals) > 1 and self.ended is not None:
            texts.append("a search for one of the metrics alone may find better")
        breaker = tie_breaker(self.goals) if self.ended is None else None
        if breaker is not None and not self.ties_broken:
            worse = f"{self._how_much_less(breaker)}less {'energy' if breaker == 'energy' else 'time'}"
            texts.append(f"another mapping with the same {self.goals[0]} may take {worse}")
        return MapResult(
            tuple(map(without_advice, self.points)),
            self.goals,
            optimal,
            bound,
            "; ".join([*texts, *self.notes]),
            self.stats,
            cached=self.cached,
            not_searched=self.left_out,
            stopped=self.ended is not None,
            ties_broken=self.ties_broken and breaker is not None,
            unfused=None if self.unfused is None else self.unfused.result(),
        )

    def _how_much_less(self, breaker: str) -> str:
        """At most how much less another mapping that is as good may take, as far as known."""
        if not self.tie_bound or not self.points:
            return ""
        part = 1 - self.tie_bound / objective(self.points[0].cost, breaker)
        return f"up to {max(math.ceil(part * 1e4), 1) / 100:g} % "

    def _covered(self) -> str:
        """Why the search ended, and for which mappings it speaks."""
        if self.ended is not None:
            return self.ended
        kept = " and ".join(self.narrowed)
        text = f"every {self.every}{f' with {kept}' if kept else ''} was evaluated"
        text += "" if self.by_trying else " or ruled out by a bound"
        return text + (f", but for what objective_tolerance {self.tolerance:g} allows" if self.tolerance else "")

    def _no_gap(self, bound: float | None) -> str:
        if len(self.goals) > 1:
            return "there are several metrics"
        if bound is not None:
            return f"the lower bound is {bound:g}"
        return f"there is no lower bound of {self.goals[0].replace('_', ' ')} for what was not searched"


def united(outcomes: Sequence[Outcome], every: str | None = None) -> Outcome:
    """The outcome of searches that cover different mappings, as of one that covers them all.

    Its points are the best of all points, its bound is the least of the bounds, and it is complete, or proves ties,
    where each of them does. `every`: the mappings in words, in place of those that the best one was found in.
    """
    goals = outcomes[0].goals
    points = [point for outcome in outcomes for point in outcome.points]
    best = min(outcomes, key=lambda outcome: (not outcome.stats.by_einsum, outcome.value))
    bounds = [outcome.lower_bound for outcome in outcomes]
    steps: dict[str, float] = {}
    for outcome in outcomes:
        for step, seconds in outcome.stats.steps.items():
            steps[step] = steps.get(step, 0.0) + seconds
    return replace(
        best,
        points=tuple(best_of(points, goals)) if len(points) > 1 else tuple(points),
        stats=replace(best.stats, evaluated=sum(outcome.stats.evaluated for outcome in outcomes), steps=steps),
        every=every or best.every,
        ended=next((outcome.ended for outcome in (best, *outcomes) if outcome.ended is not None), None),
        left_out=tuple(dict.fromkeys(text for outcome in outcomes for text in outcome.left_out)),
        bound=None if None in bounds else min(bound for bound in bounds if bound is not None),
        tolerance=max(outcome.tolerance for outcome in outcomes),
        ties_broken=all(outcome.ties_broken for outcome in outcomes),
        tie_bound=_tie_bound(outcomes),
        unfit=next((outcome.unfit for outcome in outcomes if outcome.unfit is not None), None),
        notes=tuple(dict.fromkeys(text for outcome in outcomes for text in outcome.notes)),
        planned={names: planned for outcome in outcomes for names, planned in outcome.planned.items()},
        unfused=next((outcome.unfused for outcome in outcomes if outcome.unfused is not None), None),
    )


def _tie_bound(outcomes: Sequence[Outcome]) -> float | None:
    """Bound of what breaks a tie for searches that cover different mappings, 0 where some know none."""
    bounds = [outcome.tie_bound for outcome in outcomes]
    return None if all(bound is None for bound in bounds) else min(bound or 0.0 for bound in bounds)


def evaluated(
    spec: Spec, mapping: LoopTree, rules: Semantics, inputs: Sequence[str] = (), *, strict: bool = False
) -> Found:
    """A mapping that some search came to, with its cost on a specification. `inputs`: those that have a copy there.

    Raises MappingError where it is not valid; `strict`: also where it breaks a constraint.
    """
    return Found(evaluate(spec, mapping, rules, strict=strict), mapping, spec, tuple(inputs))


def ended_after(work: int) -> str:
    """Why a search ended that had looked at so many choices, and not at all."""
    return f"stopped after {work:,} choice{'' if work == 1 else 's'}"


def narrowed_by(options: Options, fused: bool) -> tuple[str, ...]:
    """Limits by the options of a call: mappings with nothing but this."""
    limits = []
    if options.coarseness > 1:
        limits.append(f"the tile shapes that tiling_coarseness {options.coarseness:g} keeps")
    if options.stalls:
        limits.append("stalls that can be counted turn by turn")
    elif fused and math.isfinite(options.most_fused):
        loops = "loop" if options.most_fused == 1 else "loops"
        limits.append(f"at most {options.most_fused:g} fused {loops} (max_fused_loops)")
    if fused and options.most_fused_per_variable not in (1, math.inf):
        most = options.most_fused_per_variable
        limits.append(f"at most {most:g} fused loops over each rank variable (max_fused_loops_per_rank_variable)")
    return tuple(limits)


def without_advice(point: Found) -> Found:
    """A mapping that a search found, without what would make one better that somebody wrote."""
    notes = tuple(note for note in point.cost.notes if note.kind != "advice")
    return replace(point, cost=replace(point.cost, notes=notes)) if len(notes) < len(point.cost.notes) else point
