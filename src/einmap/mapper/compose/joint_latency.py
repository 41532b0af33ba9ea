"""Cascades whose latency is not a sum over their Einsums: bounds that are, and what they find, evaluated.

The search of a cascade adds up what its Einsums cost. Where fused Einsums overlap (`model.overlap`), or wait for their
split (`model.ways`), the whole is not such a sum. But

- Einsums that overlap take at least as long as any one component is busy for all of them. On a machine on which nothing
  else takes time, that is a sum over Einsums: the least one is a lower bound, and so is the largest of these for all
  components. A port of a memory counts as a component. Besides, mappings are taken that are best without overlap, or
  if all counts for nothing that may be moved at any time. Where that is not enough, the front of all these sums is
  found for small cascades.
- What Einsums wait for once are sums of a few pipeline latencies. So mappings are searched by how long any Einsum waits
  on the way in, and on the way out, at most: no longer than the one, no less in all than the next smaller one. That is
  exact where no two splits wait differently, and a lower bound elsewhere.

What is best by a bound is evaluated as it is; the best of all is proven where it reaches the least it can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from einmap.arch.component import Action, Compute, Leaf, Memory, Network, Toll
from einmap.arch.ports import Share
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.errors import NoMappingError
from einmap.mapper.compose.combinators import NoneInTimeError, Search, attempted, bounded_by, relaxed
from einmap.mapper.compose.ways import with_shared_inputs
from einmap.mapper.cost_bounds.columns import columns_of
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.objective.objectives import OWN, busy_form, operations_of
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.problem import Budget, Known, Problem, distinct_archs
from einmap.mapper.problem.searchable import why_not_fused
from einmap.mapper.result.outcome import Outcome
from einmap.mapper.result.result import Found, MapStats
from einmap.spec.spec import Spec

ENERGY = "energy"
MOST_MAPPINGS = 1_000_000
"""Mappings of the Einsums of a cascade, in all, of which the front of all that overlaps is made."""
MOST_CHOICES = 3_000_000
"""Choices that are looked at for it."""
MOST_INTERVALS = 5
"""Times, other than 0, by which what is waited for is told apart in each direction."""


def overlapping(search: Search) -> Search:
    """Fused Einsums that overlap: the largest bound of one component that is busy for all Einsums, until a mapping
    reaches it.
    """

    def run(problem: Problem, budget: Budget) -> Outcome:
        kept = dict.fromkeys(
            (name, i)
            for arch in distinct_archs(problem.spec)
            for name, unit in arch.components.items()
            if not isinstance(unit, Network)
            for i in range(len(_shares(unit)))
        )
        # without overlap, and with that of nodes that work ahead: good mappings, no bounds
        searches = [(relaxed(search, partial(_one_by_one, overlapping=ahead)), False) for ahead in (True, False)]
        searches += [(relaxed(search, partial(_of_one, keeping=one)), True) for one in kept]
        outcomes: list[Outcome] = []
        bounds: list[float] = []
        found: Outcome | None = None
        for number, (one, is_bound) in enumerate(searches):
            outcome = attempted(one, problem, budget.share(1 / (len(searches) - number)))
            if isinstance(outcome, NoMappingError):
                if not outcomes:
                    raise outcome
                continue
            outcomes.append(outcome)
            budget = budget.after(outcome.stats.evaluated)
            bounds += [outcome.bound] if is_bound and outcome.bound is not None else []
            found = bounded_by(outcomes, max(bounds, default=None), problem)
            if found.is_complete:
                return found
        assert found is not None
        if found.stats.mapspace_size > MOST_MAPPINGS or found.ended is not None:
            return found
        front = _busy_front(problem, found.value, replace(budget, work=min(budget.work, MOST_CHOICES)))
        bounds += [] if front is None or front.bound is None else [front.bound]
        return bounded_by([*outcomes, *([front] if front else [])], max(bounds, default=None), problem)

    return run


def _busy_front(problem: Problem, best: float, budget: Budget) -> Outcome | None:
    """The front of all sums that the latency of Einsums that overlap is the largest of.

    A cascade takes at least as long as each component is busy for all Einsums, and as long as they take in turn with
    what is their own (`model.overlap`); with one split it takes no longer. Each of these is a sum over Einsums: the
    seconds of each latency form of a component, of the operations on each compute, and what is own of each. So the
    search of cascades finds the front of these sums, and the least largest sum on it is a lower bound.

    The points are the mappings of the front, as they are; the bound is None where the search did not end. `best`: the
    least value known. None for other metrics than latency and the energy-delay product, and Einsums without tables.
    """
    spec, options = problem.spec, problem.options
    if options.goals not in (("latency",), ("energy_delay_product",)):
        return None
    einsums = [einsum for einsum in spec.workload.einsums if not einsum.is_copy]
    if any(why_not_fused(e, spec.bound[e.name].arch, options.goals) for e in einsums):
        return None
    with_energy = options.goals != ("latency",)
    goals = ((ENERGY,) if with_energy else ()) + (OWN, *_forms(spec))
    known = Known(rows=_seeds(spec, goals, best))
    found: list[Found] = []
    bounds, work, ways = [best], 0, with_shared_inputs(problem)
    whole = not ways.left_out
    for way in ways.ways:
        search = way.search(replace(options, goals=goals), known)
        found += [way.point(tree, options) for tree in search.run(budget.progress, budget.work / len(ways.ways))]
        values = search.reached_rows
        if len(values):
            seconds = values[:, with_energy:].max(axis=1)
            bounds.append(float((seconds * values[:, 0] if with_energy else seconds).min()))
        whole &= search.complete and search.impossible is None
        work += search.meter.work
    return Outcome(options.goals, tuple(found), MapStats(evaluated=work), bound=min(bounds) if whole else None)


def _forms(spec: Spec) -> list[str]:
    """The names of all sums of seconds."""
    names: dict[str, None] = {}
    for einsum in spec.workload.einsums:
        arch = spec.bound[einsum.name].arch
        for unit in arch.computes:
            if not unit.enabled:
                continue
            leaves = arch.path(unit.name)
            for component, places in columns_of(einsum, leaves).of_components(leaves).items():
                names |= dict.fromkeys(busy_form(component, number) for number in range(len(places)))
            names[operations_of(unit.name)] = None
    return list(names)


def _seeds(spec: Spec, goals: tuple[str, ...], best: float) -> Floats:
    """Points: what is not better than one of them is not better than the best known value.

    That is all of which one sum of seconds is as long as the best, or with the least energy has its product.
    """
    if not math.isfinite(best):
        return np.zeros((0, len(goals)))
    least, timed = 1.0, [i for i, goal in enumerate(goals) if goal != ENERGY]
    if ENERGY in goals:
        least = sum(
            least_costs(e, spec.bound[e.name].arch, (ENERGY,))[0] * spec.workload.n_instances * e.n_instances
            for e in spec.workload.einsums
        )
    rows = np.zeros((len(timed) if least > 0 else 0, len(goals)))
    for row, i in zip(rows, timed, strict=False):
        row[i] = best / least * (1 + TIE)
    return rows


def waiting(search: Search) -> Search:
    """Fused Einsums that wait once for values on their way: the least bound of all ways to wait."""

    def run(problem: Problem, budget: Budget) -> Outcome:
        spec, goals = problem.spec, problem.options.goals
        inward, outward = (_intervals(_waits(spec, output=output)) for output in (False, True))
        ways = sorted(product(inward, outward), key=lambda pair: (pair[0].least + pair[1].least, pair))
        runs = [einsum.n_instances for einsum in spec.workload.einsums if not einsum.is_copy]
        free = relaxed(search, lambda it: replace(it, spec=spec.with_waiting(0.0)))
        outcomes = [free(problem, budget.share(1 / (len(ways) + 1)))]
        budget = budget.after(outcomes[0].stats.evaluated)
        floor, bounds = outcomes[0].bound, list[float | None]()
        for number, (into, out) in enumerate(ways):
            # in each run of the first Einsum, whoever waits
            seconds = (into.least + out.least) * min(runs) / runs[0]
            together = None if floor is None else floor + seconds * runs[0] * spec.workload.n_instances
            if goals == ("latency",) and together is not None and together >= min(o.value for o in outcomes):
                bounds.append(together)
                continue
            one = relaxed(search, partial(_within, most=(into.most, out.most, seconds)))
            outcome = attempted(one, problem, budget.share(1 / (len(ways) - number)))
            if isinstance(outcome, NoMappingError):
                bounds.append(None if isinstance(outcome, NoneInTimeError) else math.inf)
                continue
            outcomes.append(outcome)
            budget = budget.after(outcome.stats.evaluated)
            bounds.append(outcome.bound)
        bound = None if None in bounds else min(bound for bound in bounds if bound is not None)
        return bounded_by(outcomes, bound, problem)

    return run


def _one_by_one(problem: Problem, overlapping: bool) -> Problem:
    """Einsums one after the other. `overlapping`: what nodes take that work ahead counts for nothing."""
    return replace(problem.asking(overlapping=overlapping), spec=problem.spec.with_altered_archs(lambda arch: arch))


def _of_one(problem: Problem, keeping: tuple[str, int]) -> Problem:
    """The machine on which one component alone takes time."""
    return replace(problem, spec=problem.spec.with_altered_archs(partial(_alone, keeping=keeping)))


def _within(problem: Problem, most: tuple[float, float, float]) -> Problem:
    """Mappings that wait no longer than this inward and outward, and in any case so many seconds."""
    return replace(problem.asking(waiting=most), spec=problem.spec.with_waiting(most[2]))


class _Interval(NamedTuple):
    """Seconds that are waited for: some that occur, from the `least` one to the one that is `most`."""

    least: float
    most: float


def _intervals(seconds: Sequence[float]) -> list[_Interval]:
    """Times in order, each by itself as long as these are few."""
    step = max(1, -(-(len(seconds) - 1) // MOST_INTERVALS))
    rest = seconds[1:]
    groups = [rest[i : i + step] for i in range(0, len(rest), step)]
    return [_Interval(0.0, 0.0), *(_Interval(group[0], group[-1]) for group in groups)]


def _waits(spec: Spec, *, output: bool) -> list[float]:
    """All times that a value may need through nodes that work ahead, in order; the first one is 0."""
    found = {0.0}
    for arch in distinct_archs(spec):
        for unit in arch.computes:
            memories = [leaf for leaf in arch.path(unit.name) if isinstance(leaf, Memory)][:-1]
            times = [(m.action("read").pipeline_latency, m.action("write").pipeline_latency) for m in memories]
            for i, (read, write) in enumerate(times):
                sums = {write if output else read}
                for inside in times[i + 1 :]:
                    sums |= {seconds + math.fsum(inside) for seconds in sums}
                found |= sums
    return sorted(found)


def _shares(leaf: Leaf) -> Sequence[Share | None]:
    """The limits of a component's ports, each of which is busy for a sum of reads and writes; None for no ports."""
    return leaf.ports.shares if isinstance(leaf, Memory) and leaf.ports is not None else (None,)


def _alone(arch: Architecture, keeping: tuple[str, int]) -> Architecture:
    """The machine on which one component, or one of the limits of its ports, alone takes time.

    `keeping`: its name and the number of the limit.
    """
    for leaf in arch.leaves.values():
        if not isinstance(leaf, Memory | Toll | Compute):
            continue
        if leaf.name != keeping[0] or keeping[1] >= len(_shares(leaf)):
            idle = replace(leaf, actions=tuple(map(_at_once, leaf.actions)), total_latency=None)
            arch = arch.with_leaf(idle if not isinstance(idle, Memory) else replace(idle, ports=None))
        elif isinstance(leaf, Memory) and (share := _shares(leaf)[keeping[1]]) is not None:
            served = {"read": share.reads, "write": share.writes}
            actions = tuple(
                replace(a, throughput=a.throughput * share.at_once, startup=a.startup / share.at_once)
                if served.get(a.name, True)
                else _at_once(a)
                for a in leaf.actions
            )
            arch = arch.with_leaf(replace(leaf, actions=actions, ports=None))
    return arch


def _at_once(action: Action) -> Action:
    return replace(action, throughput=math.inf, startup=0.0)
