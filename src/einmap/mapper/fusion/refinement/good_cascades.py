"""A good cascade of what is listed by now, long before the best one is known: its cost is a limit for the rest of the
search, and it is the answer where the search is stopped.

The graph has listed options alone. Fronts on its cheapest paths are completed until there are none that are not, and
Einsums are joined with a few rows behind each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.paths.boundary_states import EinsumOptions, Option
from einmap.mapper.fusion.paths.label_setting import Answer
from einmap.mapper.fusion.paths.shortest_paths import PackedOptions
from einmap.mapper.fusion.paths.state_graph import Stage, StateGraph
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.front_listing import FrontListing, RefinementRequest, above
from einmap.mapper.fusion.refinement.option_bounds import OptionBounds
from einmap.mapper.fusion.refinement.relaxation import Relaxation
from einmap.mapper.problem.request import Remainder

FIRST = 6
"""Graphs that are bounded before the first try; again when there are twice as many."""
STEPS = 16
"""Graphs after which all nests are listed at once where nothing is to be proven."""
ROUNDS = 6
"""How often fronts are completed before what is known is joined."""
NEAR = 1 / 8
"""How far above the cheapest path options may be whose fronts are completed, in parts of the mean of the Einsums."""
AHEAD = 1 / 4
"""How far their fronts are looked for."""
OUTSIDE = 2.0
"""How far those of what keeps nothing inside are looked for where nothing is known."""
GOOD, FAIR = 0.02, 0.05
"""How far a good cascade may be above the bound where the search of all is still to come, and where time presses."""
IN_VAIN = 2.0
"""Where the bound has risen by this factor there is hardly any cascade within a doubtful limit."""
RISEN = 1.02
"""Where the bound of cascades without fused loops has risen by this factor loops are looked at first."""
OF_MEAN = 1 / 64
"""An Einsum counts as costing this part of the mean at least where its fronts are looked for: those of what costs next
to nothing have thousands of rows.
"""
BEAM = 500
"""Rows that are kept behind each Einsum."""


class Refinement(Protocol):
    """The search that a good cascade is looked for in, as far as that has to know it."""

    cascade: CascadeProblem
    graph: StateGraph
    option_bounds: OptionBounds
    listing: FrontListing
    shares: list[float]

    @property
    def mean_share(self) -> float:
        """How large a part of the objective an Einsum makes up on average."""

    def relaxed(self, graph: StateGraph, before: Mapping[Stage, PackedOptions]) -> Relaxation:
        """Lower bounds of cascades. `before`: facts of the options of stages of a graph before."""

    def remainder(self, k: int, rest: Floats, most: float) -> Remainder | None:
        """Costs that the rest of the cascade adds to an Einsum's chains."""


@dataclass
class Turns:
    """When it is time for a good cascade, by the number of graphs: the work must not go into that.

    `at_once`: it is time, whatever the number, and nothing suffices before.
    """

    now: int = 0
    next: int = FIRST
    at_last: bool = False
    hurried: bool = False
    at_once: bool = False
    first: float = math.inf
    """The bound of the first graph."""

    def is_due(self, *, last: bool, hurries: bool = False) -> bool:
        """Whether it is time, one more graph being bounded. `last`: the cheapest paths hold nothing unknown.

        `hurries`: it is time in any case, once.
        """
        self.now += 1
        due = self.now >= (FIRST if last and not self.at_last else self.next) or (hurries and not self.hurried)
        due, self.at_once = due or self.at_once, False
        if due:
            self.next, self.at_last = 2 * self.now, self.at_last or last
            self.hurried = self.hurried or hurries
        return due

    def is_long(self, cascade: CascadeProblem, reached: float) -> bool:
        """Whether so many graphs were bounded that all is to be listed at once, where nothing is to be proven; once.

        Where a few choices of each Einsum are all that there is, lists are short anyway.
        """
        due = self.now == STEPS and math.isfinite(reached) and not (cascade.proving or cascade.lists.are_few)
        self.now += due
        return due

    @property
    def tried(self) -> bool:
        """Whether a good cascade was looked for."""
        return self.next > FIRST

    def suffices(self, cascade: CascadeProblem, reached: float, bound: float) -> bool:
        """Whether nothing better than what is reached need be looked for, where nothing is to be proven.

        Where time presses and nothing is found at once, nothing is expected, nor where a limit seems to leave nothing.
        """
        self.first = min(self.first, bound)
        if cascade.known.doubtful and math.isinf(reached) and bound > IN_VAIN * self.first:
            return True
        if cascade.proving or self.at_once:
            return False
        if not cascade.most_fused and bound > RISEN * self.first:
            return True
        if not cascade.hurry.stopped:
            return reached <= bound * (1 + GOOD)
        return reached <= bound * (1 + FAIR) or (self.hurried and math.isinf(reached))


def good_cascade(refinement: Refinement, steps: Sequence[EinsumOptions], most: float) -> Answer | None:
    """A cascade that costs less than `most`; None where there is none, or none is found.

    `steps`: the options of each Einsum that a cascade within `most` may have.
    """
    listed = _graph(refinement, steps, lambda _, option: not option.unexpanded)
    if not listed.exists:
        return None
    if math.isinf(most):
        # what is near the best need not fit together: what lies outside does
        outside = _graph(refinement, steps, _is_outside)
        if outside.exists:
            apart = refinement.relaxed(outside, {})
            _complete(
                refinement, apart, apart.everywhere(apart.possible), apart.value(apart.paths.least), most, OUTSIDE
            )
    relaxed = refinement.relaxed(listed, {})
    for _ in range(ROUNDS):
        least = relaxed.value(relaxed.paths.least)
        if least >= most:
            return None
        share = refinement.mean_share
        near = relaxed.all_near(above(least, NEAR * share, most))
        if not _complete(refinement, relaxed, near, least, most):
            break
        relaxed = refinement.relaxed(listed, relaxed.packed)
    answer = relaxed.join(relaxed.everywhere(relaxed.possible), most, BEAM, known=True)
    return answer if len(answer.reached[-1].costs) else None


def _graph(
    refinement: Refinement, steps: Sequence[EinsumOptions], allowed: Callable[[Fronts, Option], bool]
) -> StateGraph:
    """The graph of some options of each Einsum."""
    members, fewer = refinement.cascade.members, dict[EinsumOptions, EinsumOptions]()
    for step, member in zip(steps, members, strict=True):
        if step not in fewer:
            fewer[step] = replace(step, options=tuple(o for o in step.options if allowed(member.chains, o)))
    graph = StateGraph([member.einsum.name for member in members], refinement.graph.numbers)
    graph.build([fewer[step] for step in steps], refinement.cascade.watch("a good way to fuse {}"))
    return graph


def _is_outside(chains: Fronts, option: Option) -> bool:
    """Whether a listed option keeps all shared tensors in the outermost memory."""
    return not option.unexpanded and not any(chains.may_stand_below_loops(key.memory) for key in option.keys.values())


def apart(relaxed: Relaxation, most: float) -> dict[tuple[int, int], float]:
    """Signature classes that keep no tensor inside, as far as they are not listed: they fit beside anything.

    With each Einsum by its place and the option comes the limit up to which they are to be known.
    """
    return {
        (k, o): most
        for k in relaxed.places
        for o in relaxed.near(k, most)
        if (option := relaxed.stages[k].step.options[o]).unexpanded
        and not any(key.loops for key in option.keys.values())
    }


def _complete(
    refinement: Refinement,
    relaxed: Relaxation,
    near: Sequence[Sequence[int]],
    least: float,
    most: float,
    ahead: float = AHEAD,
) -> bool:
    """Find the fronts of some options that have none, `ahead` of the bound `least`; whether there were such.

    Where nothing is known yet those of small Einsums are looked for less far.
    That they are known up to the limit holds beside what is listed alone, so it is not said of them.
    """
    requests: dict[Fronts, dict[FusionSignature, RefinementRequest]] = {}
    small = (OF_MEAN if math.isinf(most) else 1.0) * refinement.mean_share
    for k in relaxed.places:
        chains = refinement.cascade.members[k].chains
        for o in near[k]:
            option = relaxed.stages[k].step.options[o]
            if refinement.option_bounds.refined(chains, option) is None:
                request = requests.setdefault(chains, {}).setdefault(option.signature, RefinementRequest())
                share = min(refinement.mean_share, max(refinement.shares[k], small))
                request.remainder.append(
                    refinement.remainder(k, relaxed.rests[k][o], above(least, ahead * share, most))
                )
    refinement.listing.complete(requests)
    return bool(requests)
