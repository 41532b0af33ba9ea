"""Layouts that are left open: which one is best for each tensor in each memory, with the mapping that is best for it.

Tensors are settled one after another, depth first. What is not settled yet moves value by value, which costs no more
than any lines of it: the best mapping of such a specification is a lower bound for all layouts that are still open,
and rules them out where something as good is known. Where that is not a bound (lanes that share lines, banks among
which these are dealt out, energies below 0, several metrics) every choice of layouts is searched by itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from einmap.arch.component import Component
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import MapResult, best_of, objective
from einmap.mapper.result.verdict import with_ties
from einmap.spec.chosen_layouts import Lies
from einmap.spec.open_layouts import Choice
from einmap.spec.spec import Spec

type Search = Callable[[Spec, Options], MapResult]
"""Searches a specification whose layouts are settled, with some options."""


@dataclass(frozen=True, slots=True)
class Ends:
    """When a part of the work ends: seconds since the whole began, and choices that were looked at by then."""

    seconds: float
    work: float


def best_layouts(spec: Spec, choices: Sequence[Choice], asked: Options, search: Search) -> MapResult:
    """The best mapping, or the front, over all layouts; the `spec` of each point has those that it is for.

    `choices`: what is open, at least one. Raises NoMappingError when no mapping fits, whatever the layouts are.
    """
    # what has fewest alternatives first: its bounds rule out most
    run = _Run(spec, sorted(choices, key=lambda c: len(c.alternatives)), asked, search)
    run.settle({}, run.ends, -math.inf)
    if not run.results:
        run.leaf({choice: choice.alternatives[0] for choice in choices}, run.ends)
    return run.result()


type Settled = dict[Choice, Lies]
type Way = tuple[float, int, Settled]
"""What is settled so far, as the alternative of this number of the last tensor, and what costs at least (J, s, J*s)."""


@dataclass
class _Run:
    """One search over layouts."""

    spec: Spec
    choices: list[Choice]
    asked: Options
    search: Search
    results: list[MapResult] = field(default_factory=list)
    """Of each choice of layouts that was searched."""
    bounds: list[float] = field(default_factory=list)
    """What was ruled out, or left out, costs at least."""
    left_out: bool = False
    work: int = 0

    def __post_init__(self) -> None:
        self.start = time.monotonic()
        units: list[Component] = [
            unit for bound in self.chosen({}).bound.values() for unit in bound.arch.components.values()
        ]
        energies_add_up = all(action.energy >= 0 for unit in units for action in unit.actions)
        self.bounded = (
            energies_add_up
            and len(self.asked.goals) == 1
            and not self.spec.model_options.overlap_einsums
            and all(choice.adds_up for choice in self.choices)
        )

        self.ends = Ends(self.asked.time_limit, self.asked.max_evaluations or math.inf)

    @property
    def is_over(self) -> bool:
        """Whether time or choices are used up."""
        return self.work >= self.ends.work or time.monotonic() - self.start >= self.ends.seconds

    def share(self, ends: Ends, parts: int) -> Ends:
        """The end of the first of so many parts of what is left; what a part leaves goes on to the next ones."""
        now = time.monotonic() - self.start
        return Ends(now + (ends.seconds - now) / parts, self.work + (ends.work - self.work) / parts)

    def chosen(self, settled: Settled) -> Spec:
        """The specification with some layouts settled; the others move value by value."""
        by_memory: dict[str, dict[str, Lies]] = {}
        for choice in self.choices:
            by_memory.setdefault(choice.memory, {})[choice.tensor] = settled.get(choice, [])
        return self.spec.with_layouts(by_memory)

    def searched(self, settled: Settled, ends: Ends) -> MapResult:
        """The result for some layouts."""
        most = None if math.isinf(ends.work) else max(int(ends.work - self.work), 1)
        left = max(ends.seconds - (time.monotonic() - self.start), 0.0)
        result = self.search(self.chosen(settled), replace(self.asked, time_limit=left, max_evaluations=most))
        self.work += result.stats.evaluated
        return result

    def leaf(self, settled: Settled, ends: Ends) -> None:
        """Search the mappings for layouts that are all settled."""
        self.results.append(self.searched(settled, ends))

    def least(self, result: MapResult) -> float:
        """What all mappings of a result cost at least, 0 where that is not known."""
        return result.lower_bound if result.lower_bound is not None else 0.0

    @property
    def best(self) -> float:
        """The least value of the first metric so far."""
        costs = [result.cost for result in self.results]
        return min((objective(cost, self.asked.goals[0]) for cost in costs), default=math.inf)

    def settle(self, settled: Settled, ends: Ends, least: float) -> None:
        """Search all layouts of the tensors that are not settled yet; `least`: what they cost at least."""
        if len(settled) == len(self.choices):
            self.leaf(settled, ends)
            return
        choice = self.choices[len(settled)]
        ways = [(least, number, {**settled, choice: lies}) for number, lies in enumerate(choice.alternatives)]
        if self.bounded and len(ways) > 1 and len(settled) + 1 < len(self.choices):
            ways = self.with_bounds(ways, self.share(ends, 2))
        for done, (least_of_way, _, way) in enumerate(sorted(ways, key=lambda each: each[:2])):
            if self.bounded and least_of_way >= self.best * (1 - TIE):
                self.bounds.append(least_of_way)
            elif self.is_over:
                self.bounds.append(max(least_of_way, 0.0))
                self.left_out = True
            else:
                self.settle(way, self.share(ends, len(ways) - done), least_of_way)

    def with_bounds(self, ways: list[Way], ends: Ends) -> list[Way]:
        """Each way with what it costs at least: as much as where all that is not settled moves value by value."""
        found: list[Way] = []
        for least, number, way in ways:
            bound = least if self.is_over else self.least(self.searched(way, self.share(ends, len(ways) - number)))
            found.append((max(bound, least), number, way))
        return found

    def result(self) -> MapResult:
        """The best of all layouts that were searched."""
        goals = self.asked.goals
        front = best_of([point for result in self.results for point in result.front], goals)
        first = min(self.results, key=lambda result: objective(result.cost, goals[0]))
        optimal = not self.left_out and all(result.optimal for result in self.results)
        n = math.prod(len(choice.alternatives) for choice in self.choices)
        text = f"not all of {n:,} choices of layouts were" if self.left_out else f"all {n:,} choices of layouts were"
        least: float | None = None
        if len(goals) == 1:
            least = min(self.bounds + [self.least(result) for result in self.results])
            least = objective(front[0].cost, goals[0]) if optimal else least or None
        others = dict.fromkeys(text for result in self.results for text in result.not_searched)
        unproven = next((result for result in self.results if not result.optimal), first)
        stats = replace(first.stats, evaluated=self.work, seconds=time.monotonic() - self.start)
        result = MapResult(
            tuple(front),
            goals,
            optimal,
            least,
            f"{unproven.reason}; {text}",
            stats,
            not_searched=tuple(others),
            stopped=self.left_out or any(result.stopped for result in self.results),
        )
        # bounds rule out layouts that are as good as others
        return with_ties(result, broken=False)
