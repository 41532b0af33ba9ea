"""Ways to search a cascade as a whole: specifications that the search takes in its place, and trees of it again.

A way may have copies of inputs that several Einsums read, or loops over the steps of recurrences with or without the
Einsums that read their states. What is found on all ways together is what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from einmap.mapper.compose.shared_inputs import not_shared, sharing
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.fusion.steps import NO_STEPS, CascadeSteps, has_readers, with_steps, without_tokens
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.problem import NOTHING, Known, Problem
from einmap.mapper.result.outcome import evaluated
from einmap.mapper.result.result import Found
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.spec.spec import Spec

type Settled = tuple[Spec, LoopTree, tuple[str, ...]]
"""A tree with the specification that it belongs to, and the inputs that have a copy there."""


@dataclass(frozen=True)
class Way:
    """One specification of a cascade. `settled`: what a tree of it is in the workload that was given.

    `optional`, `inside`, `steps`, `given`: see `CascadeProblem`.
    """

    spec: Spec
    settled: Callable[[LoopTree], Settled]
    optional: frozenset[str] = frozenset()
    inside: bool = True
    steps: CascadeSteps = NO_STEPS
    given: Mapping[str, Pattern] = field(default_factory=dict)

    def search(self, options: Options, known: Known = NOTHING) -> FusedSearch:
        """The search of its mappings; what keeps nothing inside has no fused loops."""
        options = options if self.inside else replace(options, most_fused=0)
        return FusedSearch(self.spec, options, self.optional, self.inside, self.steps, known, self.given)

    def point(self, tree: LoopTree, options: Options) -> Found:
        """A tree that its search found, evaluated."""
        spec, mapping, inputs = self.settled(tree)
        return evaluated(spec, mapping, options.rules, inputs)


@dataclass(frozen=True)
class Ways:
    """The ways of a cascade, those with most mappings first. `left_out`: what is on none of them, in words."""

    ways: tuple[Way, ...]
    left_out: tuple[str, ...] = field(default=())


def as_it_is(problem: Problem) -> Ways:
    """The cascade itself."""
    return Ways((Way(problem.spec, lambda tree: (problem.spec, tree, ())),))


def unfused_whole(problem: Problem) -> Ways:
    """The cascade itself, without intermediate tensors inside of the outermost memory that may keep them."""
    return Ways(tuple(replace(way, inside=False) for way in as_it_is(problem).ways))


def with_shared_inputs(problem: Problem) -> Ways:
    """A cascade with copies of the inputs that several Einsums read, where these are asked for, and as it is."""
    spec = problem.spec
    shared = sharing(spec) if problem.options.share_inputs else None
    ways = [] if shared is None else [Way(shared.spec, shared.settled, frozenset(shared.copies.values()))]
    if shared is None or not shared.covers:
        ways += as_it_is(problem).ways
    return Ways(tuple(ways), not_shared(spec, shared) if problem.options.share_inputs else ())


def with_recurrences(problem: Problem) -> Ways:
    """A cascade with loops over the steps of its recurrences, and that with the Einsums that read their states.

    Where nothing may be fused all that Einsums share lies in the outermost memory, and only a recurrence has a loop.
    """
    spec, inside = problem.spec, problem.fuse

    def way(readers: bool) -> Way:
        extended, steps = with_steps(spec, readers=readers, fuse=inside)
        asked = frozenset[str](), inside, steps, problem.given
        return Way(extended, lambda tree: (spec, without_tokens(tree, steps), ()), *asked)

    ways = tuple(map(way, (False, True) if inside and has_readers(spec) else (False,)))
    wanted = problem.options.share_inputs and inside
    return Ways(ways, not_shared(spec, None, "the cascade has a recurrence") if wanted else ())
