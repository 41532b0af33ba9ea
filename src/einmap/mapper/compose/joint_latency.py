"""Cascades whose latency is not a sum over their Einsums: bounds that are, and what they find, evaluated.

The search of a cascade adds up what its Einsums cost. Where fused Einsums overlap (`model.overlap`), or wait for their
split (`model.ways`), the whole is not such a sum. But

- Einsums that overlap take at least as long as any one component is busy for all of them. On a machine on which nothing
  else takes time, that is a sum over Einsums: the least one is a lower bound, and so is the largest of these for all
  components. A port of a memory counts as a component. Besides, mappings are taken that are best without overlap, or
  if all counts for nothing that may be moved at any time. Where that is not enough, the front of all these sums is
  found for small cascades (`busy_fronts`).
- What Einsums wait for once are sums of a few pipeline latencies. So mappings are searched by how long any Einsum waits
  on the way in, and on the way out, at most: no longer than the one, no less in all than the next smaller one. That is
  exact where no two splits wait differently, and a lower bound elsewhere.

What is best by a bound is evaluated as it is; the best of all is proven where it reaches the least it can be.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import NamedTuple

from einmap.arch.component import Action, Compute, Leaf, Memory, Network, Toll
from einmap.arch.ports import Share
from einmap.arch.tree import Architecture
from einmap.errors import NoMappingError
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, best_of, objective
from einmap.mapper.result.verdict import Coverage, ending, judged, narrowed_by, with_ties
from einmap.model.evaluate import evaluate
from einmap.model.timing.overlap import check_overlap
from einmap.model.timing.ways import has_ways
from einmap.progress import Progress
from einmap.spec.spec import Spec

type Search = Callable[[Spec, Options], MapResult]
"""Searches a specification with some options."""
MOST_MAPPINGS = 1_000_000
"""Mappings of the Einsums of a cascade, in all, of which the front of all that overlaps is made."""
MOST_CHOICES = 3_000_000
"""Choices that are looked at for it."""
MOST_INTERVALS = 5
"""Times, other than 0, by which what is waited for is told apart in each direction."""


def is_joint(spec: Spec, asked: Options) -> bool:
    """Whether what is asked for is not a sum over Einsums. Raises NotSupportedError where Einsums cannot overlap."""
    archs = _archs(spec)
    leaks = any(unit.constant_power for arch in archs for unit in arch.components.values())
    timed = any(METRICS[goal].is_timed or (leaks and goal == "energy") for goal in asked.goals)
    if spec.model_options.overlap_einsums:
        for arch in archs:
            for unit in arch.computes:
                check_overlap(arch, arch.path(unit.name), asked.rules)
        return timed
    return timed and any(has_ways(arch.components.values()) for arch in archs)


def joint_result(spec: Spec, asked: Options, search: Search, token: Progress) -> MapResult:
    """The best mapping found, or the front, with the bound. Raises NoMappingError when no mapping fits.

    `token`: when to stop what is not a search of its own.
    """
    joint = (_Overlapping if spec.model_options.overlap_einsums else _Waiting)(spec, asked, search, token)
    start = time.monotonic()
    bound = joint.bound(start)
    return joint.result(bound, time.monotonic() - start)


@dataclass
class _Joint:
    """Searches whose costs are sums over Einsums, and all that they found as it is."""

    spec: Spec
    asked: Options
    search: Search
    token: Progress
    found: list[Found] = field(default_factory=list)
    results: list[MapResult] = field(default_factory=list)
    work: int = 0
    """Choices that were looked at beside those of results."""

    def result(self, bound: float | None, seconds: float) -> MapResult:
        """The best of all, and whether it reaches the bound."""
        proven = self.reaches(bound)
        stopped = [ending(result) for result in self.results if result.stopped]
        covered = Coverage(
            every="fused mapping" if proven else "fused mapping below the bound",
            narrowed=narrowed_by(self.asked, fused=True),
            ended=None if proven else next(iter(stopped), None),
            pruned=() if proven else self.left(),
            bound=bound,
        )
        evaluated = self.work + sum(result.stats.evaluated for result in self.results)
        stats = replace(self.results[0].stats, evaluated=evaluated, seconds=seconds)
        result = judged(best_of(self.found, self.asked.goals), self.asked.goals, covered, stats)
        return with_ties(result, broken=False)

    @property
    def best(self) -> float:
        """The least value of the first metric so far."""
        return min((objective(found.cost, self.asked.goals[0]) for found in self.found), default=math.inf)

    def reaches(self, bound: float | None) -> bool:
        """Whether the best mapping of one metric is as good as a bound."""
        return bound is not None and len(self.asked.goals) == 1 and self.best <= bound * (1 + ROUNDING)

    def left(self) -> tuple[str, ...]:
        """What of the mapspace was not searched, in words."""
        own = [text for result in self.results for text in result.not_searched]
        why = "fused mappings between the bound and the best one, since their latency is not a sum over Einsums"
        return (*dict.fromkeys(own), why)

    def share(self, start: float, left: int) -> Options:
        """The options of one of the searches that are left, with its part of what is limited."""
        limit, most = self.asked.time_limit, self.asked.max_evaluations
        seconds = limit if math.isinf(limit) else max(limit - (time.monotonic() - start), 0.0) / left
        return replace(self.asked, time_limit=seconds, max_evaluations=most and max(most // left, 1))

    def take(self, spec: Spec, options: Options) -> float | None:
        """The lower bound of a search; what is best in it is evaluated as it is. Infinite where nothing fits."""
        # sums that are equal are not latencies that are
        try:
            result = self.search(spec, replace(options, breaks_ties=False))
        except NoMappingError:
            if self.found:
                return math.inf
            raise
        self.results.append(result)
        for point in result.front:
            own = self.spec.with_shared_inputs(point.copies) if point.shared_inputs else self.spec
            cost = evaluate(own, point.mapping, self.asked.rules)
            self.found.append(Found(cost, point.mapping, own, point.shared_inputs))
        return result.lower_bound


@dataclass
class _Overlapping(_Joint):
    """Fused Einsums that overlap."""

    def bound(self, start: float) -> float | None:
        """The largest lower bound of one component that is busy for all Einsums."""
        archs = _archs(self.spec)
        kept = dict.fromkeys(
            (name, i)
            for arch in archs
            for name, unit in arch.components.items()
            if not isinstance(unit, Network)
            for i in range(len(_shares(unit)))
        )
        one_by_one = self.spec.with_altered_archs(_as_it_is)
        for number, overlapping in enumerate((True, False)):
            options = self.share(start, len(kept) + 2 - number)
            self.take(one_by_one, replace(options, overlapping=overlapping))
        bounds: list[float] = []
        for number, one in enumerate(kept):
            altered = self.spec.with_altered_archs(partial(_alone, keeping=one))
            bound = self.take(altered, self.share(start, len(kept) - number))
            bounds += [] if bound is None else [bound]
            if self.reaches(max(bounds, default=None)):
                return max(bounds)
        bounds += self.of_front(start)
        return max(bounds, default=None)

    def of_front(self, start: float) -> list[float]:
        """What all mappings take at least by the front of all that overlaps, where the cascade is small."""
        # Here, not above: it imports the compiler, which only a search needs
        from einmap.mapper.compose.busy_fronts import busy_front

        if self.results[0].stats.mapspace_size > MOST_MAPPINGS or any(result.stopped for result in self.results):
            return []
        left, most = self.share(start, 1), MOST_CHOICES
        if left.max_evaluations is not None:
            most = min(most, left.max_evaluations - sum(result.stats.evaluated for result in self.results))
        token = self.token.within(left.time_limit if math.isfinite(left.time_limit) else None)
        front = busy_front(self.spec, self.asked, self.best, token, most) if most > 0 else None
        if front is None:
            return []
        self.work += front.work
        self.found += front.found
        return [] if front.bound is None else [front.bound]


@dataclass
class _Waiting(_Joint):
    """Fused Einsums that wait once for values on their way."""

    def bound(self, start: float) -> float | None:
        """The least lower bound of all ways to wait."""
        inward, outward = (_intervals(_waits(self.spec, output=output)) for output in (False, True))
        ways = sorted(product(inward, outward), key=lambda pair: (pair[0].least + pair[1].least, pair))
        floor = self.take(self.spec.with_waiting(0.0), self.share(start, len(ways) + 1))
        runs = [einsum.n_instances for einsum in self.spec.workload.einsums if not einsum.is_copy]
        bounds: list[float | None] = []
        for number, (into, out) in enumerate(ways):
            # in each run of the first Einsum, whoever waits
            seconds = (into.least + out.least) * min(runs) / runs[0]
            together = None if floor is None else floor + seconds * runs[0] * self.spec.workload.n_instances
            if self.asked.goals == ("latency",) and together is not None and together >= self.best:
                bounds.append(together)
                continue
            options = replace(self.share(start, len(ways) - number), waiting=(into.most, out.most, seconds))
            bounds.append(self.take(self.spec.with_waiting(seconds), options))
        return None if None in bounds else min(bound for bound in bounds if bound is not None)


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
    for arch in _archs(spec):
        for unit in arch.computes:
            memories = [leaf for leaf in arch.path(unit.name) if isinstance(leaf, Memory)][:-1]
            times = [(m.action("read").pipeline_latency, m.action("write").pipeline_latency) for m in memories]
            for i, (read, write) in enumerate(times):
                sums = {write if output else read}
                for inside in times[i + 1 :]:
                    sums |= {seconds + math.fsum(inside) for seconds in sums}
                found |= sums
    return sorted(found)


def _archs(spec: Spec) -> list[Architecture]:
    """The architectures of Einsums that are not the same as others."""
    return [spec.bound[name].arch for name, bound in spec.bound.items() if bound.like == name]


def _as_it_is(arch: Architecture) -> Architecture:
    return arch


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
