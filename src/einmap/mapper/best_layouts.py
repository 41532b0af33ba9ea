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
from einmap.mapper.options import Options
from einmap.mapper.result import MapResult, best_of, objective
from einmap.mapper.tolerances import TIE
from einmap.mapper.verdict import with_ties
from einmap.spec.chosen_layouts import Lies
from einmap.spec.open_layouts import Choice
from einmap.spec.spec import Spec

type Search = Callable[[Spec, Options], MapResult]
"""Searches a specification whose layouts are settled, with some options."""
PART = 1 / 4
"""Part of what is left of time and choices that one search may take."""


def best_layouts(spec: Spec, choices: Sequence[Choice], asked: Options, search: Search) -> MapResult:
    """The best mapping, or the front, over all layouts; the `spec` of each point has those that it is for.

    `choices`: what is open, at least one. Raises NoMappingError when no mapping fits, whatever the layouts are.
    """
    # what has fewest alternatives first: its bounds rule out most
    run = _Run(spec, sorted(choices, key=lambda c: len(c.alternatives)), asked, search)
    run.settle({})
    if not run.results:
        run.leaf({choice: choice.alternatives[0] for choice in choices})
    return run.result()


type Settled = dict[Choice, Lies]


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

    @property
    def is_over(self) -> bool:
        """Whether time or choices are used up."""
        most = math.inf if self.asked.max_evaluations is None else self.asked.max_evaluations
        return self.work >= most or time.monotonic() - self.start >= self.asked.time_limit

    def chosen(self, settled: Settled) -> Spec:
        """The specification with some layouts settled; the others move value by value."""
        by_memory: dict[str, dict[str, Lies]] = {}
        for choice in self.choices:
            by_memory.setdefault(choice.memory, {})[choice.tensor] = settled.get(choice, [])
        return self.spec.with_layouts(by_memory)

    def searched(self, settled: Settled) -> MapResult:
        """The result for some layouts, with a part of what is left of time and choices."""
        left = self.asked.time_limit - (time.monotonic() - self.start)
        most = self.asked.max_evaluations
        result = self.search(
            self.chosen(settled),
            replace(
                self.asked,
                time_limit=left if math.isinf(left) else max(left * PART, 0.0),
                max_evaluations=None if most is None else max(int((most - self.work) * PART), 1),
            ),
        )
        self.work += result.stats.evaluated
        return result

    def leaf(self, settled: Settled) -> float:
        """Search the mappings for layouts that are all settled; what they cost at least."""
        result = self.searched(settled)
        self.results.append(result)
        return self.least(result)

    def least(self, result: MapResult) -> float:
        """What all mappings of a result cost at least, 0 where that is not known."""
        return result.lower_bound if result.lower_bound is not None else 0.0

    @property
    def best(self) -> float:
        """The least value of the first metric so far."""
        costs = [result.cost for result in self.results]
        return min((objective(cost, self.asked.goals[0]) for cost in costs), default=math.inf)

    def settle(self, settled: Settled) -> None:
        """Search all layouts of the tensors that are not settled yet."""
        if len(settled) == len(self.choices):
            return
        choice = self.choices[len(settled)]
        is_last = len(settled) + 1 == len(self.choices)
        ways: list[tuple[float, int, Settled]] = []
        for number, lies in enumerate(choice.alternatives):
            if self.is_over:
                self.bounds.append(0.0)
                self.left_out = True
                break
            way = {**settled, choice: lies}
            if is_last:
                self.leaf(way)
                continue
            ways.append((self.least(self.searched(way)) if self.bounded else 0.0, number, way))
        for least, _, way in sorted(ways, key=lambda each: each[:2]):
            if self.bounded and least >= self.best * (1 - TIE):
                self.bounds.append(least)
            elif self.is_over:
                self.bounds.append(least)
                self.left_out = True
            else:
                self.settle(way)

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
