"""The best fused mappings of a cascade: what is asked of the search, and the trees of what it finds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from weakref import proxy

import numpy as np

from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import Renaming
from einmap.mapper.fusion.cascade_objective import LimitedSum
from einmap.mapper.fusion.few_choices import chosen_anew, few_choices, has_far_too_many
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.meter import Meter, StoppedError
from einmap.mapper.fusion.neighbours import NEARER, USES, map_anew
from einmap.mapper.fusion.paths.kernel_records import Labels
from einmap.mapper.fusion.paths.label_setting import Answer
from einmap.mapper.fusion.paths.state_graph import Stage
from einmap.mapper.fusion.problem import CascadeProblem, PlannedCascade
from einmap.mapper.fusion.refinement.all_at_once import list_all
from einmap.mapper.fusion.refinement.einsum_floors import floors_before_plans, floors_in_time, least_apart
from einmap.mapper.fusion.refinement.floors_with_room import FloorsBeforePlans
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement
from einmap.mapper.fusion.refinement.option_floors import OptionFloors
from einmap.mapper.fusion.refinement.sample import LATE, Sample
from einmap.mapper.fusion.tree import LinearNest, tree_of
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.objective.pareto_sums import PARTS
from einmap.mapper.objective.tolerances import ROUNDING, tied
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.problem import Known
from einmap.mapper.problem.request import Request
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.pareto import nondominated
from einmap.progress import Progress

AT_ONCE = 1_100
"""Dataplacements with uses of the fanouts, of all Einsums, for each second of a limited time: where there are no more
what is simpler takes little, and comes first. A clock would have the work depend on the machine.
"""
SOON, FOR_FIRST, LONGER, FIRST_OF_FEW = 0.15, 0.3, 0.5, 0.75
"""Parts of a limited time. Where the choices of the Einsums take longer to list than the first one what is simpler
comes first, too. Else something fused comes before, within the second. It has the third as long as what is found is far
above the bound of what is looked at, and the fourth where there was time for a few choices of each Einsum alone, of
which nothing is proven.
"""
SHORT = 15.0
"""Seconds that are too few for more than what is simpler: it comes first."""
FOR_FEW_CHOICES, FOR_LOOPS, FOR_ANEW = 0.25, 0.5, 0.3
"""Parts of what is left then, in which a few choices of far too many are looked at; more fused loops; choices anew."""
FOR_SIZES = 0.4
"""Part of what is left then in which tile shapes are looked at for tensors that are kept where they were best."""
FOR_NEIGHBOURS = 0.5
"""Part of what is left then in which some neighbours at a time are mapped anew."""
FIRST_APART, FIRST_USES = 64, 32
"""Which tile shapes of fused loops are looked at then, and how many uses of the fanouts."""
FOR_FEW, FOR_HALF = 0.95, 0.5
"""Part of a limited time for cascades with few fused loops: before all, and before what is simpler."""
FOR_BOUNDS, FOR_LAST_BOUNDS = 0.4, 0.8
"""Part of what is left of a limited time in which all are bounded where a few choices are listed; at the end."""
NEARLY_BEATEN = 1.02
"""How far above the bound of what is simpler something fused may be that is made better before that is asked for."""
FOR_APART = 0.05
"""Part of the time that is left for that bound where a few choices of each Einsum are all that is listed."""
FOR_TIE = 20_000
"""Outer nests that are listed for a tie once something as good is known: half a second, mostly enough to prove it."""
HURRIED = 0.2
"""Part of a limited time in which the Einsums are planned where there is time for a search."""


@dataclass
class FusedSearch(CascadeProblem):
    """The search of a whole cascade. `optional`: copy Einsums that may be left out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known_bound = 0.0
        self.value = self.known.value
        """The least objective that is known; before the search too where it has to be less than something."""
        self.floors: dict[str, Floats] = {}
        """Least costs of one instance by its own search, by the name of the first that is alike."""
        # a cycle would keep the search until garbage is collected
        self.floors_before_plans = FloorsBeforePlans(proxy(self))
        """Of all choices, where there was no time to list them."""
        self.option_floors: OptionFloors | None = None
        """Of the last search of all."""
        self.seconds: dict[str, float] = {}
        self.best_so_far: list[LoopTree] = []
        self.soon_left = self.late_left = 0.0
        """Seconds that are left where it is still soon; where what is simpler has waited long enough."""

    def reached(self) -> Known:
        """Knowledge for another search of the same Einsums."""
        return replace(self.known, value=self.value, rows=self.known_rows)

    @property
    def reached_rows(self) -> Floats:
        """Costs of all mappings that were found for several objectives, one row each."""
        return self.known_rows[0 if self.known.rows is None else len(self.known.rows) :]

    def run(self, progress: Progress, most: float = math.inf) -> list[LoopTree]:
        """The best mappings, or the front; best first by the first objective. Empty when there is none, or no time.

        `most`: choices that may be looked at.
        """
        if self.members:
            self.meter.progress, self.meter.most = progress, most
        else:
            self.meter = Meter(progress, most)
        self.best_so_far = []
        if math.isfinite(self.known.value):
            self.end_tie_soon()
        try:
            return self._run(progress)
        except StoppedError:
            return self.best_so_far

    def _run(self, progress: Progress) -> list[LoopTree]:
        self.begin(progress)
        if self.impossible is not None:
            return []
        if len(self.options.goals) > 1 or self.least_value() <= 0:
            if len(self.options.goals) > 1 and self.options.most_fused > 1 and self.options.goals == self.goals:
                # what is reached with few loops rules most of the others out
                few = self.with_few_loops()
                mappings = few + self.within(None)
                return [mappings[i] for i in nondominated(self.reached_rows)]
            return self.within(None)
        if self.options.most_fused > 1:
            few = self.with_few_loops()
            if self.known.doubtful and not few and self.meter.progress.deadline is not None:
                return []  # other searches have more use for limited time
        self.best_so_far = self.within(self.value) or self.best_so_far
        if self.floors_before_plans.cut or self.lists.hurried:
            self.bound_all(FOR_LAST_BOUNDS)
        return self.best_so_far

    def begin(self, progress: Progress) -> None:
        """The chains of each distinct Einsum, bounded; once."""
        if self.members:
            return
        begin, left = time.perf_counter(), progress.seconds_left()
        self.soon_left, self.late_left = (1 - SOON) * left, LATE * left
        if left < SHORT:
            self.ask_simple()
        self.plan(progress)
        of_each = (member.chains.statistics for member in self.distinct)
        if sum(of.templates * of.lanes for of in of_each) <= AT_ONCE * left < math.inf:
            self.ask_simple()
        self.ask_simple_unless_soon()
        if math.isfinite(left) and progress.seconds_left() < (1 - HURRIED) * left:
            # where that takes long there is hardly time for a search, but for bounds that are better than tables'
            self.floors = floors_in_time(self, share_of(progress, 0.5))
        self.bound()
        self.passed("listing", begin + sum(self.seconds.values()))

    def limit_to_bound(self, progress: Progress, most: float) -> float | None:
        """Limit the other metric to what it is at least by the first bounds: its value there.

        None where nothing fits, something is left out, or there is no time.
        """
        assert self.known.limit is not None
        self.meter = Meter(progress, most)
        try:
            self.begin(progress)
            relaxed = None if self.impossible else LazyRefinement(self, self.passed, self.found).bound()
        except StoppedError:
            return None
        has_all = all(member.chains.covers_mapspace for member in self.members)
        least = math.inf if relaxed is None else float(relaxed.paths.least[1])
        if not has_all or not 0 < least < math.inf:
            return None
        limit = tied(math.inf, least).most
        self.known = replace(self.known, limit=(self.known.limit[0], limit))
        self.objective = LimitedSum(limit)
        return least

    @property
    def plans(self) -> PlannedCascade:
        """The Einsums with all their dataplacements."""
        parts = {name: part for name, part in self.parts.items() if isinstance(part, PlannedEinsum)}
        return PlannedCascade(tuple(self.firsts), parts)

    def with_few_loops(self) -> list[LoopTree]:
        """The best with one fused loop for each Einsum at most: soon found, and nothing worse need be looked at.

        Where nothing is known, those without any fused loop come before.
        """
        self.proving = False
        if self.known.simple is not None or self.lists.are_few:
            if not self.lists.are_few and has_far_too_many(self):
                self.best_so_far = self.in_part(FOR_FEW_CHOICES, self.of_few_choices)
            if self.lists.are_few or not self.best_so_far:
                self.first_pass()
            if self.lists.are_few and self.options.most_fused > 1:
                self.begin_again(self.options.most_fused, FIRST_APART, FIRST_USES)
                self.best_so_far = self.in_part(FOR_LOOPS, lambda: self.within(self.value)) or self.best_so_far
            least = self.apart_value()
            if self.lists.are_few or not least < self.value <= NEARLY_BEATEN * least:
                self.ask_simple()
            if self.lists.are_few:
                self.bound_all()
        if len(self.options.goals) == 1 and math.isinf(self.value):
            self.begin_again(0)
            self.best_so_far = self.within(self.value)
        self.begin_again(1)
        if len(self.options.goals) > 1:
            mappings = self.best_so_far = self.within(None)
        else:
            part = FOR_FEW if self.known.simple is None else FOR_HALF
            mappings = self.best_so_far = self.in_part(part, lambda: self.within(self.value)) or self.best_so_far
            if not self.value <= NEARLY_BEATEN * self.apart_value():
                self.ask_simple()
        self.begin_again(self.options.most_fused)
        self.proving = True
        return mappings

    def first_pass(self) -> None:
        """Find something with few fused loops, soon: it is in a part of the time most of what there is."""
        self.begin_again(1, FIRST_APART, FIRST_USES)
        soon, most = (FIRST_OF_FEW,) * 2 if self.lists.are_few else (FOR_FIRST, LONGER)
        self.hurry = share_of(self.meter.progress, soon)
        self.best_so_far = self.in_part(most, lambda: self.within(self.value))
        self.hurry = Progress()
        if self.classes and not self.lists.are_few:
            self.with_other_sizes()
            self.best_so_far = self.in_part(FOR_NEIGHBOURS, self.with_neighbours_anew)

    def with_other_sizes(self) -> None:
        """Make the best so far better with tensors kept where it keeps them, unless that hardly can be."""
        self.begin_again(1)
        self.only, self.hurry = self.classes, Progress().within(0)
        self.best_so_far = self.in_part(FOR_SIZES, lambda: self.within(self.value)) or self.best_so_far
        self.only, self.hurry = None, Progress()

    def with_neighbours_anew(self) -> list[LoopTree]:
        """The best so far, made better for some neighbours at a time."""
        self.begin_again(1, NEARER, USES)

        def improve() -> float:
            self.best_so_far = self.within(self.value) or self.best_so_far
            return self.value

        map_anew(self, self.value, improve)
        return self.best_so_far

    def bound_all(self, fraction: float = FOR_BOUNDS) -> None:
        """Bound all choices where a few are searched, in a part of the time."""
        begin, floors = time.perf_counter(), self.floors_before_plans
        floors.learn(share_of(self.meter.progress, FOR_BOUNDS))
        few = replace(self.options, most_fused=min(self.options.most_fused, 1))
        self.best_so_far = self.in_part(FOR_ANEW, lambda: self.of_some(chosen_anew(self, floors), few))
        token = share_of(self.meter.progress, fraction)
        floors.learn_room(self.value, token)
        floors.learn_room(self.value, token, closely=True)
        self.best_so_far = self.in_part(FOR_LOOPS, lambda: self.of_some(floors.best, self.options))
        self.passed("bounds", begin)

    def of_few_choices(self) -> list[LoopTree]:
        """The best cascade of a few choices, with one fused loop at most, if it is better than others."""
        few = few_choices(self, share_of(self.meter.progress, FOR_HALF))
        return self.of_some(few, replace(self.options, most_fused=1))

    def of_some(self, parts: Mapping[str, PlannedEinsum], options: Options) -> list[LoopTree]:
        """The best cascade with some choices of some Einsums, if it is better than others; `options`: of its search."""
        if not parts:
            return self.best_so_far
        planned = replace(self.plans, parts={**self.plans.parts, **parts})
        known = replace(self.known, value=self.value, simple=None, planned={self.names: planned})
        search = replace(self, known=known, options=options)
        trees = search.run(self.meter.progress, self.meter.left)
        self.meter.work += search.meter.work
        if trees:
            self.value, self.costs = search.value, search.costs
        return trees or self.best_so_far

    def in_part(self, fraction: float, what: Callable[[], list[LoopTree]]) -> list[LoopTree]:
        """Mappings that are found in a part of the time that is left, the best so far where that is over."""
        meter, whole = self.meter, self.meter.progress
        meter.progress = share_of(whole, fraction)
        try:
            return what()
        except StoppedError:
            meter.progress, meter.cut = whole, False
            meter.go_on()
            return self.best_so_far
        finally:
            meter.progress = whole

    def begin_again(self, most: float, apart: int = 1, uses: float = math.inf) -> None:
        """Look at chains with so many fused loops from here on; `apart`, `uses`: see Fronts."""
        self.most_fused = most
        for member in self.distinct:
            member.chains.begin_again(most, apart, uses)

    def planned(self, einsum: Einsum, arch: Architecture, request: Request, position: int) -> PlannedEinsum | Fronts:
        """The dataplacements of one Einsum; before them what is simpler, where these take long."""
        if not self.lists.are_few:
            self.ask_simple_unless_soon()
        return super().planned(einsum, arch, request, position)

    def ask_simple_unless_soon(self) -> None:
        """Have what is simpler looked for where there is no time for more before it."""
        if self.meter.progress.seconds_left() <= self.soon_left:
            self.lists.without(self.ask_simple)

    def ask_simple(self) -> None:
        """Have what is simpler looked for, unless that was asked for, or can be no better than what is found."""
        simple, self.known = self.known.simple, replace(self.known, simple=None)
        if simple is not None:
            least, begin = self.apart_value(), time.perf_counter()
            self.value = min(self.value, simple(self.value, least, self.lists.alone))
            self.passed("einsums", begin)

    def apart_value(self) -> float:
        """Lower bound of the objective where all that Einsums share lies in the outermost memory.

        A few choices of each Einsum bound nothing: then it is what they cost before choices are listed.
        """
        total, rows, begin = np.zeros(len(self.weights)), dict[str, Floats](), time.perf_counter()
        if self.prepared and self.lists.are_few:
            rows = floors_before_plans(self, share_of(self.meter.progress, FOR_APART), frozenset())
            self.passed("bounds", begin)
        for member in self.members:
            if not self.lists.are_few:
                total += self.times(member.einsum) * least_apart(member.chains, self.weights)
            elif member.einsum.name in rows:
                total += self.times(member.einsum) * (rows[member.einsum.name] @ self.weights.T).min(axis=0)
        return float(self.objective.values(self.weights, total[None])[0]) if self.prepared else -math.inf

    def within(self, most: float | None, *, at_once: bool = False) -> list[LoopTree]:
        """The best mappings whose objective is at most `most`, or all good ones; `at_once`: all nests are listed."""
        if most is not None and self.known_bound >= most * (1 - ROUNDING):
            return []  # fewer loops have reached what nothing is below
        refinement = LazyRefinement(self, self.passed, self.found)
        if at_once and most is not None:
            list_all(refinement, most)
        try:
            few = Sample(self, self.late_left)
            asked = self.proving and self.options.most_fused > 1 and self.known.limit is None
            answer = refinement.everything() if most is None else refinement.within(most, few if asked else None)
        finally:
            # what is known of few loops says nothing of all, but before any are listed
            self.known_bound = max(self.known_bound, refinement.bound_of_all)
            if self.proving:
                self.known_bound = max(self.known_bound, refinement.known_bound)
                # the floors outlive the refinement, and may not keep the search that keeps them
                self.option_floors = replace(refinement.floors, cascade=proxy(self))
        return [] if answer is None else self.trees(answer)

    def found(self, answer: Answer) -> float:
        """Keep a good answer, for when the search is stopped; its objective."""
        self.best_so_far = self.trees(answer)
        return self.value

    def trees(self, answer: Answer) -> list[LoopTree]:
        """The mappings of an answer; what they reach is kept."""
        rows = self.best(answer.reached[-1])
        if rows:
            values = answer.reached[-1].costs[rows]
            self.value = float(self.objectives(values[:1])[0, 0])
            self.costs = answer.costs_of(rows[0])
            self.classes = {}
            for member, option in zip(self.members, answer.options_of(rows[0]), strict=True):
                self.classes.setdefault(member.chains, set()).add(option.signature.signature_class)
            if len(self.options.goals) > 1 and self.options.goals == self.goals:
                self.known_rows = np.concatenate([self.known_rows, values])
            self.end_tie_soon()
        return [self.tree(answer, row) for row in rows]

    def end_tie_soon(self) -> None:
        """Have the search of a tie end after some more outer nests, unless its proof is asked for."""
        if self.known.limit is not None and not self.options.proves_ties:
            self.meter.allow(FOR_TIE)

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""
        return not self.meter.cut and all(member.chains.complete for member in self.members)

    def lower_bound(self) -> float:
        """Lower bound of the objective."""
        return max(self.known_bound, self.least_value())

    @property
    def knows_nearly_best(self) -> bool:
        """Whether the search came to its end and to a mapping; recurrences are planned anew."""
        is_done = self.prepared and self.impossible is None and self.complete
        return is_done and math.isfinite(self.value) and not self.steps.of

    def nearly_best(self) -> PlannedCascade:
        """The Einsums with the dataplacements that mappings as good as the best one by the one objective may have."""
        most, (least, *_) = self.value + abs(self.value) * ROUNDING, self.sums(self.least)
        own = {fronts: float(costs[0]) for fronts, costs in self.least.items()}
        limits: dict[Fronts, float] = {}
        for member in self.members:
            limit = own[member.chains] + (most - float(least)) / self.times(member.einsum)
            limits[member.chains] = max(limits.get(member.chains, limit), limit + abs(limit) * ROUNDING)
        parts = {}
        for member in self.distinct:
            if isinstance(member.chains, EinsumFronts):
                planned, kept = member.chains.planned, member.chains.plans_within(limits[member.chains])
                parts[member.einsum.name] = planned.asked(planned.request, kept)
        floors = None if self.option_floors is None else self.option_floors.of_first(most)
        return PlannedCascade(tuple(self.firsts), parts, floors)

    def passed(self, step: str, begin: float) -> None:
        """Count the time since `begin`."""
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - begin

    def best(self, labels: Labels) -> list[int]:
        """The best row, or all that no other one beats."""
        if not len(labels.costs):
            return []
        values = self.objectives(labels.costs)
        return [int(np.argmin(values[:, 0]))] if values.shape[1] == 1 else [int(i) for i in nondominated(values)]

    def objectives(self, costs: Floats) -> Floats:
        """The objectives that were asked for, from sums of what they are made of."""
        parts = ([self.goals.index(part) for part in PARTS.get(goal, (goal,))] for goal in self.options.goals)
        return np.stack([costs[:, of_goal].prod(axis=1) for of_goal in parts], axis=1)

    def tree(self, answer: Answer, row: int) -> LoopTree:
        """The LoopTree of one row."""
        chains: list[LinearNest] = []
        made: dict[tuple[Stage, int, int], LinearNest] = {}
        for k in reversed(range(len(self.members))):
            before, option, front_row = (int(x) for x in answer.reached[k + 1].back[row])
            key = answer.graph.stages[k], option, front_row
            if key not in made:
                made[key] = self.chain(answer, k, option, front_row)
            chains.append(made[key].renamed(Renaming(self.members[k].chains.einsum, self.members[k].einsum)))
            row = before
        return tree_of(chains[::-1], [(t, first, self.slots.last[t]) for t, first in self.slots.first.items()])

    def chain(self, answer: Answer, k: int, option: int, row: int) -> LinearNest:
        """One Einsum's chain."""
        chains, signature = self.members[k].chains, answer.graph.stages[k].step.options[option].signature
        nodes, n_outer = chains.nodes_of(signature, answer.parts[k].fronts[option], row)
        backed = {chains.einsum.accesses[t].tensor: len(key.loops) for t, key in signature.keys}
        return LinearNest(chains.einsum.name, nodes, n_outer, len(signature.loops), backed)
