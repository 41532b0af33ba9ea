"""Layouts that are left open: which one is best for each tensor in each memory, with the mapping that is best for it.

Tensors are settled one after another, depth first. What is not settled yet moves value by value, which costs no more
than any lines of it: the best mapping of such a specification is a lower bound for all layouts that are still open,
and rules them out where something as good is known. Where that is not a bound (lanes that share lines, banks among
which these are dealt out, energies below 0, several metrics) every choice of layouts is searched by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from einmap.arch.component import Component
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.problem import Budget
from einmap.mapper.result.outcome import Outcome, united
from einmap.spec.forms.chosen_layouts import Lies
from einmap.spec.open_layouts import Choice
from einmap.spec.spec import Spec


class OfLayouts(Protocol):
    """Searches a specification whose layouts are settled, for some seconds and choices; None for no limit of these."""

    def __call__(self, spec: Spec, /, *, time_limit_s: float, max_evaluations: int | None) -> Outcome:
        """The outcome. Raises NoMappingError."""


STOPPED = "stopped before all choices of layouts were searched"
"""Why a search ended that was done for some choices."""


def best_layouts(spec: Spec, choices: Sequence[Choice], asked: Options, search: OfLayouts) -> Outcome:
    """The best mapping, or the front, over all layouts; the `spec` of each point has those that it is for.

    `choices`: what is open, at least one. Raises NoMappingError when no mapping fits, whatever the layouts are.
    """
    # what has fewest alternatives first: its bounds rule out most
    run = _Run(spec, sorted(choices, key=lambda c: len(c.alternatives)), asked, search)
    run.settle({}, run.budget, -math.inf)
    if not run.results:
        run.leaf({choice: choice.alternatives[0] for choice in choices}, run.budget)
    return run.result()


type Settled = dict[Choice, Lies]
type Way = tuple[float, int, Settled]
"""Settled state, as the alternative of this number of the last tensor, and what costs at least (J, s, J*s)."""


@dataclass
class _Run:
    """One search over layouts."""

    spec: Spec
    choices: list[Choice]
    asked: Options
    search: OfLayouts
    results: list[Outcome] = field(default_factory=list)
    """Of each choice of layouts that was searched."""
    bounds: list[float] = field(default_factory=list)
    """Lower bounds of everything that was ruled out or left out."""
    left_out: bool = False
    work: int = 0

    def __post_init__(self) -> None:
        self.budget = Budget.of(self.asked, None)
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
        return self.budget.after(self.work).is_over

    def chosen(self, settled: Settled) -> Spec:
        """The specification with some layouts settled; the others move value by value."""
        by_memory: dict[str, dict[str, Lies]] = {}
        for choice in self.choices:
            by_memory.setdefault(choice.memory, {})[choice.tensor] = settled.get(choice, [])
        return self.spec.with_layouts(by_memory)

    def searched(self, settled: Settled, budget: Budget) -> Outcome:
        """The result for some layouts."""
        most = None if math.isinf(budget.work) else int(budget.work)
        result = self.search(self.chosen(settled), time_limit_s=budget.progress.seconds_left(), max_evaluations=most)
        self.work += result.stats.evaluated
        return result

    def leaf(self, settled: Settled, budget: Budget) -> None:
        """Search the mappings for layouts that are all settled."""
        self.results.append(self.searched(settled, budget))

    @property
    def best(self) -> float:
        """The least value of the first metric so far."""
        return min((result.value for result in self.results), default=math.inf)

    def settle(self, settled: Settled, budget: Budget, least: float) -> None:
        """Search all layouts of the tensors that are not settled yet; `least`: what they cost at least.

        Each has an even part of what those before it left.
        """
        if len(settled) == len(self.choices):
            self.leaf(settled, budget)
            return
        begin = self.work
        choice = self.choices[len(settled)]
        ways = [(least, number, {**settled, choice: lies}) for number, lies in enumerate(choice.alternatives)]
        if self.bounded and len(ways) > 1 and len(settled) + 1 < len(self.choices):
            ways = self.with_bounds(ways, budget.share(1 / 2))
        for done, (least_of_way, _, way) in enumerate(sorted(ways, key=lambda each: each[:2])):
            if self.bounded and least_of_way >= self.best * (1 - TIE):
                self.bounds.append(least_of_way)
            elif self.is_over:
                self.bounds.append(max(least_of_way, 0.0))
                self.left_out = True
            else:
                left = budget.after(self.work - begin)
                self.settle(way, left.share(1 / (len(ways) - done)), least_of_way)

    def with_bounds(self, ways: list[Way], budget: Budget) -> list[Way]:
        """Each way with what it costs at least: as much as where all that is not settled moves value by value."""
        found: list[Way] = []
        begin = self.work
        for least, number, way in ways:
            share = budget.after(self.work - begin).share(1 / (len(ways) - number))
            bound = least if self.is_over else self.searched(way, share).lower_bound or 0.0
            found.append((max(bound, least), number, way))
        return found

    def result(self) -> Outcome:
        """The best of all layouts that were searched."""
        found = united(self.results)
        n = math.prod(len(choice.alternatives) for choice in self.choices)
        note = f"{'not ' * self.left_out}all {'of ' * self.left_out}{n:,} choices of layouts were"
        return replace(
            found,
            ended=found.ended or (STOPPED if self.left_out else None),
            bound=min(self.bounds + [result.lower_bound or 0.0 for result in self.results]) or None,
            # bounds rule out layouts that are as good as others
            ties_broken=False,
            stats=replace(found.stats, evaluated=self.work),
            notes=(*found.notes, note),
        )
