"""The best of a cascade by what is listed lazily: of each Einsum only what can be a part of something good.

What is not listed yet takes part in the graph of interfaces as a wild option: it fits whatever its memories fit, and
costs at least so much. So the graph bounds the whole from below all the time, and what it says of the rest of the
cascade tells how much an Einsum may cost by itself. The slack that is left is that of a few neighbours, however long
the cascade is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.cascade import nondominated
from einmap.mapper.fusion.chains import Chains, Front
from einmap.mapper.fusion.heads import Family, Outline
from einmap.mapper.fusion.interfaces import Graph, Option, Relaxed, Stage, corners
from einmap.mapper.fusion.join import Join, Joined, Rows
from einmap.mapper.fusion.whole import ROUNDING, Cascade, Member
from einmap.mapper.request import Others

type Floats = NDArray[np.float64]

STEP = 1 / 16
"""How far above the lower bound the best may be at first, in parts of what the dearest Einsum costs at least."""
AHEAD = 2.0
"""So many times as far chains are looked at whenever there is a need to look at them."""
FAR = 100.0
"""Where the best is so far above the bound there is no limit any more."""
NEAR = 1.02
"""Ratio of two weights that are as good as one."""


@dataclass(frozen=True)
class Known:
    """All chains that cascades up to `limit` can have are listed, or in the front; others are hopeless with `left_out`."""

    limit: float
    left_out: tuple[Others, ...]
    front: Front | None = None


@dataclass
class Answer:
    """The best rows of a join, with what they are made of."""

    graph: Graph
    parts: Sequence[Joined]
    reached: Sequence[Mapping[int, Rows]]


class Narrowing:
    """The search of one cascade. `passed` counts the time since it began for a step."""

    def __init__(self, cascade: Cascade, passed: Callable[[str, float], None]) -> None:
        self.cascade, self.passed = cascade, passed
        self.members = cascade.members
        self.times = [cascade.times(member.einsum) for member in self.members]
        self.families: dict[tuple[int, Family], Known] = {}
        self.fronts: dict[tuple[int, Outline], Known] = {}
        self.named: dict[tuple[int, Outline], Option] = {}
        self.options: list[list[Option]] = [[] for _ in self.members]
        self.changed = {id(member.chains) for member in self.members}
        self.known_bound = 0.0

    # one cascade, one objective

    def within(self, most: float) -> Answer | None:
        """The best whose objective is at most `most`; None when there is none."""
        step = STEP
        while True:
            self.bound()
            if not self.graph.exists:
                return None
            least = self.value(self.relaxed.least)
            if least >= most * (1 - ROUNDING):
                self.known_bound = most
                return None
            self.known_bound = max(self.known_bound, least)
            slack = step * self.share()
            limit, ahead = (self.above(least, s, most) for s in (slack, slack * AHEAD))
            near = self.near(limit)
            if self.list_more(near, limit, ahead) or self.complete(near, limit, ahead):
                continue
            answer = self.join(near, limit)
            if answer.reached[-1] or limit >= most:
                return answer if answer.reached[-1] else None
            self.known_bound = max(self.known_bound, limit)
            step *= 2

    def above(self, least: float, slack: float, most: float) -> float:
        """A limit that is so far above a bound."""
        return min(least * (1 + slack) * (1 + ROUNDING), most) if slack < FAR else most

    def everything(self) -> Answer | None:
        """All that may be a part of something good, by what is reached already."""
        cascade = self.cascade
        total = cascade.sums(cascade.least)
        wanted: dict[int, dict[Family, list[Others | None]]] = {}
        for member, times in zip(self.members, self.times, strict=True):
            others = cascade.others(total - times * cascade.least[id(member.chains)], times, None)
            if isinstance(member.chains, Chains):
                wanted[id(member.chains)] = {family: [others] for family in member.chains.families}
        self.survey(wanted, math.inf)
        self.bound()
        if not self.graph.exists:
            return None
        near = [[o for o in self.relaxed.rests(k) if self.may_help(k, o)] for k in range(len(self.members))]
        self.complete(near, math.inf, math.inf)
        return self.join(near, None)

    def may_help(self, k: int, o: int) -> bool:
        others = self.cascade.others(self.rests[k][o], self.times[k], None)
        return others is None or not bool(others.hopeless(self.graph.stages[k].options[o].bounds).all())

    # bounds

    def bound(self) -> None:
        """The graph of all that is listed and of all that is not, and what cascades cost at least."""
        begin = time.perf_counter()
        cascade = self.cascade
        for k, member in enumerate(self.members):
            if id(member.chains) in self.changed:
                self.options[k] = list(self.options_of(k, member))
        self.changed.clear()
        stages = [Stage(m.einsum.name, own) for m, own in zip(self.members, self.options, strict=True)]
        self.graph = Graph(stages, cascade.last_user, cascade.workload.intermediates)
        self.graph.build(cascade.watch("ways to fuse {}"))
        self.relax()
        if self.graph.exists and len(cascade.goals) == 2 and len(cascade.options.goals) == 1:
            slope = slope_at_best(cascade.weights, self.relaxed.least)
            if slope is not None:
                cascade.steeper(slope)
                self.relax()
        self.passed("heads", begin)

    def relax(self) -> None:
        """What cascades cost at least, and what is left of that without each option."""
        self.relaxed = Relaxed(self.graph, self.cascade.weights, self.times)
        self.rests = [self.relaxed.rests(k) for k in range(len(self.members))] if self.graph.exists else []

    def options_of(self, k: int, member: Member) -> Iterator[Option]:
        """What is listed of an Einsum, and what is not."""
        chains = member.chains
        for family in chains.families if isinstance(chains, Chains) else ():
            known = self.families.get((id(chains), family))
            if known is None:
                yield self.cascade.wild_option(member, family)
            elif known.left_out:
                yield replace(self.cascade.wild_option(member, family), left_out=known.left_out)
        for outline in chains.outlines:
            self.cascade.effort.go_on()
            option = self.named.get((k, outline))
            if option is None:
                option = self.named[k, outline] = self.cascade.option_of(member, outline)
            known = self.fronts.get((id(chains), outline))
            if known is None or known.front is None:
                yield replace(option, bounds=chains.bounds(outline))
            else:
                costs = known.front.values[:, : len(self.cascade.goals)]
                yield replace(option, bounds=chains.bounds(outline), costs=costs, left_out=known.left_out)

    def value(self, least: Floats) -> float:
        """The least objective of cascades whose weighted costs are at least so much."""
        if len(self.cascade.goals) == 1:
            return float(least[0])
        return float(corners(self.cascade.weights, least).prod(axis=1).min())

    def share(self) -> float:
        """How large a part of the objective the dearest Einsum makes up."""
        n = len(self.cascade.goals)
        whole = self.relaxed.least[:n]
        own = np.array([t * self.cascade.least[id(m.chains)][:n] for t, m in zip(self.times, self.members, strict=True)])
        parts = np.divide(own, whole, out=np.zeros_like(own), where=whole > 0)
        return float(parts.sum(axis=1).max())

    def near(self, limit: float) -> list[list[int]]:
        """Of each Einsum the options that cascades up to a limit can have, as far as the bounds tell."""
        found = []
        n = len(self.cascade.goals)
        for rests, costs in zip(self.rests, self.relaxed.costs, strict=True):
            own = []
            for o, rest in rests.items():
                least = costs[o] + rest
                if least[:n].prod() <= limit and self.value(least) <= limit:
                    own.append(o)
            found.append(own)
        return found

    # listing and completing

    def list_more(self, near: Sequence[Sequence[int]], limit: float, ahead: float) -> bool:
        """List the families of which something may be missing; whether there was any."""
        wanted: dict[int, dict[Family, list[Others | None]]] = {}
        for k, own in enumerate(near):
            chains = self.members[k].chains
            for o in own:
                option = self.graph.stages[k].options[o]
                if option.wild:
                    family = self.family(k, option)
                    known = self.families.get((id(chains), family))
                    if known is None or known.limit < limit:
                        wanted.setdefault(id(chains), {}).setdefault(family, [])
        for k, member in enumerate(self.members):
            for o, rest in self.rests[k].items() if id(member.chains) in wanted else ():
                option = self.graph.stages[k].options[o]
                lists = wanted[id(member.chains)]
                if option.wild and self.family(k, option) in lists:
                    lists[self.family(k, option)].append(self.cascade.others(rest, self.times[k], ahead if math.isfinite(ahead) else None))
        self.survey(wanted, ahead)
        return bool(wanted)

    def family(self, k: int, option: Option) -> Family:
        """The family that a wild option stands for."""
        accesses = self.members[k].einsum.accesses
        return tuple((t, option.keys[a.tensor].memory) for t, a in enumerate(accesses) if a.tensor in option.keys)

    def survey(self, wanted: Mapping[int, Mapping[Family, Sequence[Others | None]]], limit: float) -> None:
        """List families up to a limit."""
        begin = time.perf_counter()
        listing = self.cascade.watch("loops above the tensors of {}")
        members = [member for member in self.cascade.distinct if id(member.chains) in wanted]

        def survey(member: Member, position: int) -> None:
            listing(member.einsum.name, position)
            own = {family: united(others) for family, others in wanted[id(member.chains)].items()}
            member.chains.survey(own)
            for family, others in own.items():
                before = self.families.get((id(member.chains), family))
                self.families[id(member.chains), family] = Known(limit, () if others is None else (others,))
                for outline in member.chains.outlines if before is not None else ():
                    front = self.fronts.get((id(member.chains), outline))
                    if front is not None and outline.family == family:
                        self.fronts[id(member.chains), outline] = replace(front, limit=min(front.limit, before.limit))

        self.changed |= set(wanted)
        with ThreadPoolExecutor(self.cascade.workers) as executor:
            list(executor.map(survey, members, range(len(members))))
        self.passed("heads", begin)

    def complete(self, near: Sequence[Sequence[int]], limit: float, ahead: float) -> bool:
        """Find the fronts of outlines that are not known up to a limit; whether there was any."""
        begin = time.perf_counter()
        wanted: dict[int, dict[Outline, list[Others | None]]] = {}
        for k, own in enumerate(near):
            chains = self.members[k].chains
            for o in own:
                option = self.graph.stages[k].options[o]
                known = self.fronts.get((id(chains), option.outline))
                if not option.wild and (known is None or known.limit < limit):
                    wanted.setdefault(id(chains), {}).setdefault(option.outline, [])
        for k, member in enumerate(self.members):
            for o, rest in self.rests[k].items() if id(member.chains) in wanted else ():
                outline, outlines = self.graph.stages[k].options[o].outline, wanted[id(member.chains)]
                if outline in outlines:
                    outlines[outline].append(self.cascade.others(rest, self.times[k], ahead if math.isfinite(ahead) else None))
        searching = self.cascade.watch("the best chains of {}")
        members = [member for member in self.cascade.distinct if id(member.chains) in wanted]

        def complete(member: Member, position: int) -> None:
            chains = member.chains
            searching(member.einsum.name, position)
            own = {outline: united(others) for outline, others in wanted[id(chains)].items()}
            fronts = chains.complete_heads(own, self.cascade.space)
            for outline, others in own.items():
                of_family = self.families.get((id(chains), outline.family), Known(math.inf, ()))
                left_out = (*of_family.left_out, *((others,) if others is not None else ()))
                front = fronts.get(outline) or Front(np.zeros((0, len(self.cascade.goals))), np.zeros((0, 0), np.int64))
                self.fronts[id(chains), outline] = Known(ahead, left_out, front)

        self.changed |= set(wanted)
        with ThreadPoolExecutor(self.cascade.workers) as executor:
            list(executor.map(complete, members, range(len(members))))
        self.passed("chains", begin)
        return bool(wanted)

    def join(self, near: Sequence[Sequence[int]], most: float | None) -> Answer:
        """Put together what is complete."""
        begin = time.perf_counter()
        cascade, parts = self.cascade, []
        for k, member in enumerate(self.members):
            fronts = {}
            for o in near[k]:
                known = self.fronts.get((id(member.chains), self.graph.stages[k].options[o].outline))
                if known is not None and known.front is not None and len(known.front.values):
                    fronts[o] = known.front
            parts.append(Joined(self.times[k], fronts, cascade.own(member)))
        always = np.array([sum(p.own[i] * p.times for p in parts) for i in range(len(cascade.capacity))])
        join = Join(
            self.graph, parts, cascade.space, cascade.capacity, always, cascade.first_user, len(cascade.goals),
            self.relaxed, most if most is not None and math.isfinite(most) else None, cascade.reached_values * (1 + ROUNDING),
        )  # fmt: skip
        reached = join.run(cascade.watch("putting together Einsums up to {}"))
        self.passed("join", begin)
        return Answer(self.graph, parts, reached)


def united(all_others: Sequence[Others | None]) -> Others | None:
    """What has no hope with any of several others."""
    known = [others for others in all_others if others is not None]
    if len(known) < len(all_others):
        return None
    rows = np.concatenate([others.rows for others in known])
    if known[0].most < 0 or rows.shape[1] > 2:
        return Others(np.unique(rows, axis=0), known[0].most)
    # with less of everything a product is smaller
    return Others(rows[nondominated(rows)], known[0].most)


def slope_at_best(weights: Floats, least: Floats) -> float | None:
    """Of two costs: the weight that may lift the corner with the least product most; None when there is none."""
    best = min(corners(weights, least), key=lambda corner: float(corner.prod()))
    slopes = np.concatenate([[0.0], weights[2:, 1] / weights[2:, 0]])
    lines = np.concatenate([[least[0]], least[2:] / weights[2:, 0]]) - slopes * best[1]
    active = slopes[lines >= best[0] * (1 - 1e-9)]
    low, high = float(active.min()), float(active.max())
    if best[1] <= least[1] * (1 + ROUNDING):
        low, high = high, high * 16
    slope = high / 4 if low == 0 else math.sqrt(low * high)
    known = slopes[1:]
    if slope <= 0 or not math.isfinite(slope) or (np.maximum(known / slope, slope / known) < NEAR).any():
        return None
    return slope
