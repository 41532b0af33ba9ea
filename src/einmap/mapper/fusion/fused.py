"""The best fused mappings of a cascade.

The graph of interfaces gives a lower bound of the whole. The search then asks whether there is anything within a little
of that bound, and looks only at chains that can be a part of it; whatever it finds there is the best. If there is
nothing, it asks again with more room.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.canonical import canonical_key, renamed_nodes, rules_key
from einmap.mapper.cascade import PARTS, nondominated
from einmap.mapper.einsum_search import why_not
from einmap.mapper.fusion.chains import Chains, Effort, Front, Space, StoppedError
from einmap.mapper.fusion.copies import CopyChains, OptionalCopyChains
from einmap.mapper.fusion.fixed import FixedChains
from einmap.mapper.fusion.heads import Outline
from einmap.mapper.fusion.interfaces import Graph, Relaxed, corners
from einmap.mapper.fusion.join import Join, Joined, Rows
from einmap.mapper.fusion.steps import AnyChains, Slots, Steps
from einmap.mapper.fusion.tree import Chain, TreeBuilder
from einmap.mapper.lattice import is_plain
from einmap.mapper.options import Options
from einmap.mapper.request import Others, Request
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress
from einmap.spec.spec import Spec

type Floats = NDArray[np.float64]

GUESSES = (1.02, 1.3, 2.0, 4.0, 16.0)
"""How far above the lower bound the best may be, one try after the other."""
ROUGH = 1.5
"""The first of them where the lower bound does not come from tables."""
STEPS = (1.001, 1.02, 1.04, 1.07, 1.1, 1.14, 1.2, 1.3, 1.5, 2.0, 8.0, math.inf)
"""The same above the bound that says which chains fit."""
TABLES = 100_000_000
"""Bytes of tables that are kept for all Einsums together."""
SLOPES = (1 / 16, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 16.0)
"""Weights of latency against energy at which the whole is bounded, in units of the ratio of their least values."""
ROUNDING = 1e-9


@dataclass
class Member:
    """One Einsum of the cascade and the chains that it has, or shares with one that is alike."""

    einsum: Einsum
    chains: AnyChains
    same_as: str | None


@dataclass
class FusedSearch:
    """The search of a whole cascade. `optional`: copy Einsums that may be left out."""

    spec: Spec
    options: Options
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.workload = self.spec.workload
        self.goals = tuple(dict.fromkeys(part for goal in self.options.goals for part in PARTS[goal]))
        self.slots = Slots(self.workload)
        self.impossible: str | None = None
        self.known_bound = 0.0
        self.value = math.inf
        self.reached_values: Floats = np.zeros((0, len(self.goals)))

    @property
    def joint(self) -> frozenset[str]:
        """Inputs that several Einsums may hold in the same node: each fills it for itself, and has its own space."""
        if self.options.rules.buffer_above_split == "one":
            return frozenset()
        copied = frozenset(t for name in self.optional for t in self.workload.by_name[name].outputs)
        return self.workload.shared - self.workload.intermediates | copied

    @cached_property
    def uncut(self) -> frozenset[tuple[str, str]]:
        """Ranks of shared tensors that not all their users index by a rank variable alone."""
        return frozenset(
            (access.tensor, rank)
            for einsum in self.workload.einsums
            for access in einsum.accesses
            for rank, index in access.projection
            if access.tensor in self.workload.shared
            and not (len(index.terms) == 1 and is_plain(access, index.terms[0][0]))
        )

    def times(self, einsum: Einsum) -> int:
        """How often an Einsum runs."""
        return self.workload.n_instances * einsum.n_instances

    def run(self, progress: Progress) -> list[LoopTree]:
        """The best mappings, or the front; best first by the first objective. Empty when there is none, or no time."""
        self.effort = Effort(progress, self.options.max_evaluations or math.inf)
        self.seconds: dict[str, float] = {}
        self.best_so_far: list[LoopTree] = []
        try:
            return self._run(progress)
        except StoppedError:
            return self.best_so_far

    def _run(self, progress: Progress) -> list[LoopTree]:
        begin = time.perf_counter()
        self.prepare(progress)
        self.seconds["listing"] = time.perf_counter() - begin
        if self.impossible is not None:
            return []
        if len(self.options.goals) > 1 or self.least_value() <= 0:
            if len(self.options.goals) > 1 and self.options.most_fused > 1 and self.options.goals == self.goals:
                # what is reached with few loops rules most of the others out
                few = self.best_so_far = self.with_few_loops()
                values, found = self.reached_values, self.within(None)
                values = np.concatenate([values, self.reached_values]) if found else values
                return [(few + found)[i] for i in nondominated(values)]
            return self.within(None)
        first: list[LoopTree] = []
        if self.options.most_fused > 1:
            first = self.best_so_far = self.with_few_loops()
            if first and self.value <= self.least_value() * (1 + ROUNDING):
                return first
        most = self.value if first else math.inf
        for limit in [*(limit for limit in self.limits() if limit < most), most]:
            found = self.within(limit if math.isfinite(limit) else None)
            if found:
                return found
            self.known_bound = max(self.known_bound, min(limit, most))
        return first

    @property
    def workers(self) -> int:
        """Threads; one where the search ends after so many evaluations, so that it ends at the same one."""
        return 1 if self.options.max_evaluations else self.options.workers

    def limits(self) -> list[float]:
        """What the best may be at most, one try after the other."""
        rough = not all(m.chains.all_ready for m in self.distinct if isinstance(m.chains, Chains))
        return [self.least_value() * guess * (1 + ROUNDING) for guess in GUESSES if guess >= (ROUGH if rough else 1)]

    def with_few_loops(self) -> list[LoopTree]:
        """The best with one fused loop for each Einsum at most: soon found, and nothing worse need be looked at."""
        own = [member.chains for member in self.distinct if isinstance(member.chains, Chains)]
        for chains in own:
            chains.most = 1
        found: list[LoopTree] = []
        for limit in [*(self.limits() if len(self.options.goals) == 1 else ()), math.inf]:
            found = self.within(limit if math.isfinite(limit) else None)
            if found:
                break
        for chains in own:
            chains.most = self.options.most_fused
        # what is known of the few says nothing of all
        self.known_bound = 0.0
        return found

    def watch(self, what: str) -> Callable[[str, int], None]:
        """Tell the listener what is done for which Einsum, and end the work when time is over."""

        def go_on(name: str, position: int) -> None:
            self.effort.go_on()
            self.effort.progress.report(what.format(name), position, len(self.members))

        return go_on

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""
        return not self.effort.cut and all(member.chains.complete for member in self.members)

    def stats(self) -> dict[str, dict[str, Any]]:
        """How the search of each Einsum went."""
        found: dict[str, dict[str, Any]] = {}
        for member in self.members:
            chains = member.chains
            plans = [path.plans for path in chains.paths] if isinstance(chains, Chains) else []
            found[member.einsum.name] = {
                "mapspace_size": chains.census if isinstance(chains, Chains) else float(len(chains.outlines)),
                "templates": sum(map(len, plans)),
                "lanes": sum(len(path.lanes) for path in chains.paths) if isinstance(chains, Chains) else 0,
                "outlines": len(chains.outlines),
                "heads": chains.heads if isinstance(chains, Chains) else len(chains.outlines),
                "complete": chains.complete and not self.effort.cut,
                "same_as": member.same_as,
                "brute_force": chains.why if isinstance(chains, FixedChains) else None,
            }
        return found

    def prepare(self, progress: Progress) -> None:
        """The chains of each distinct Einsum."""
        known: dict[Any, tuple[str, AnyChains]] = {}
        self.members: list[Member] = []
        for position, einsum in enumerate(self.workload.einsums):
            progress.report(f"{einsum.name}: where its tensors may be kept", position, len(self.workload.einsums))
            arch, request = self.spec.bound[einsum.name].arch, self.request(einsum)
            kinds = request.shared, request.intermediates, request.joint
            shared = [
                (*(a.tensor in kind for kind in kinds), *((a.tensor, r) in self.uncut for r, _ in a.projection))
                for a in einsum.accesses
            ]
            asked = tuple(shared), einsum.n_instances, einsum.name in self.optional
            written = rules_key(einsum, arch), asked
            if written not in known:
                chains = self.chains_of(einsum, arch, request, position)
                paths = chains.paths if isinstance(chains, Chains) else []
                key = canonical_key(einsum, arch, paths), asked
                known[written] = known.setdefault(key, (einsum.name, chains))
            first, own = known[written]
            self.members.append(Member(einsum, own, None if first == einsum.name else first))
        self.distinct = [member for member in self.members if member.same_as is None]
        for member in self.distinct:
            if isinstance(member.chains, Chains):
                member.chains.tables.room = min(TABLES, self.options.memory) / len(self.distinct)
                member.chains.begin()
        self.weights = np.eye(len(self.goals))
        if len(self.goals) == 2 and len(self.options.goals) == 1:
            least = self.sums(self.minima())
            ratio = least[0] / least[1] if least[0] > 0 and least[1] > 0 else 1.0
            self.weights = np.concatenate([self.weights, [[1.0, slope * ratio] for slope in SLOPES]])
        self.least = self.minima()
        self.look_at()
        for member in self.distinct:
            if not np.isfinite(self.least[id(member.chains)]).all():
                self.impossible = member.einsum.name

    def chains_of(self, einsum: Einsum, arch: Architecture, request: Request, position: int) -> AnyChains:
        """The chains of one Einsum, not searched yet."""
        most = self.options.most_fused, self.options.most_fused_per_variable
        if einsum.is_copy:
            kind = OptionalCopyChains if einsum.name in self.optional else CopyChains
            return kind(einsum, arch, request, *most)
        why = why_not(einsum, arch)
        if why is None:
            chains = Chains(einsum, arch, request, *most, self.effort)
            chains.prepare()
            if not any(path.lanes_above() for path in chains.paths):
                return chains
            why = "lanes may stand above its outermost memory"
        return FixedChains(einsum, arch, request, why, self.effort, (self.options.seed, position))

    def minima(self) -> dict[int, Floats]:
        """For the chains of each distinct Einsum the least weighted costs of one instance."""
        return {id(member.chains): member.chains.least(self.weights) for member in self.distinct}

    def sums(self, least: Mapping[int, Floats]) -> Floats:
        """Least weighted costs of the whole."""
        found = np.zeros(len(self.weights))
        for member in self.members:
            found += self.times(member.einsum) * least[id(member.chains)]
        return found

    def least_value(self) -> float:
        """What the objective is at least, each Einsum at its best."""
        return float(corners(self.weights, self.sums(self.least)[None])[0].prod(axis=1).min())

    def request(self, einsum: Einsum) -> Request:
        """What is asked of an Einsum's chains."""
        options = self.options
        return Request(
            self.goals,
            options.rules,
            options.force_memory_hierarchy_order,
            coarseness=options.coarseness,
            most_plans=options.most_plans,
            memory=options.memory / options.workers,
            shared=self.workload.shared & einsum.tensors,
            intermediates=self.workload.intermediates & einsum.tensors,
            uncut=self.uncut,
            joint=self.joint & einsum.tensors,
        )

    def look_at(self) -> None:
        """Find the memories that can be too small for what several Einsums keep at the same time."""
        sizes: dict[str, float] = {}
        backs: set[str] = set()
        for member in self.distinct:
            sizes |= member.chains.sizes()
            backs |= member.chains.backs_in()
        order = {leaf: i for i, leaf in enumerate(self.spec.bound[self.members[0].einsum.name].arch.components)}
        deepest = max((order[memory] for memory in backs), default=-1)
        names = tuple(name for name in sizes if order[name] <= deepest)
        self.space = Space(names, self.options.rules.lifetimes == "tree")
        self.capacity = np.array([sizes[name] for name in names])
        before = frozenset[int]()
        for member, behind in zip(self.members, self.slots.behind, strict=True):
            own = {self.slots.of.get(t) for t in member.einsum.tensors}
            if isinstance(member.chains, Chains) and (before & behind) - own:
                member.chains.crossed = True
            before = behind

    def lower_bound(self) -> float:
        """What the objective is at least."""
        return max(self.known_bound, self.least_value())

    # one attempt

    def within(self, most: float | None) -> list[LoopTree]:
        """The best mappings whose objective is at most `most`; empty when there are none."""
        begin = time.perf_counter()
        total = self.sums(self.least)
        above = f", at most {most / self.least_value() - 1:.0%} above the lower bound" if most else ""
        listing, fitting = self.watch("loops above the tensors of {}" + above), self.watch("ways to fuse {}" + above)

        def survey(member: Member, position: int) -> None:
            listing(member.einsum.name, position)
            times = self.times(member.einsum)
            rest = total - times * self.least[id(member.chains)]
            member.chains.survey(self.others(rest, times, most))

        with ThreadPoolExecutor(self.workers) as executor:
            list(executor.map(survey, self.distinct, range(len(self.distinct))))
        steps = Steps(self.slots, self.effort.go_on)
        self.graph = Graph(
            [member.einsum.name for member in self.members],
            [steps.of(k, member.chains, self.times(member.einsum)) for k, member in enumerate(self.members)],
        )
        self.graph.build(fitting)
        self.relaxed = Relaxed(self.graph, self.weights)
        self.passed("heads", begin)
        if not self.graph.exists:
            return []
        if most is None:
            return self.attempt(None)
        least = float(corners(self.weights, self.relaxed.least[None])[0].prod(axis=1).min())
        # nothing is below the least that the graph says, and nothing up to `most` is missing in it
        for factor in STEPS:
            limit = min(least * factor * (1 + ROUNDING), most)
            found = self.attempt(limit)
            if found or limit >= most:
                return found
            self.known_bound = max(self.known_bound, limit)
        return []

    def attempt(self, most: float | None) -> list[LoopTree]:
        """The same with the heads that are listed."""
        begin = time.perf_counter()
        fronts = self.fronts(most)
        known = {
            id(stage): Joined(fronts[id(stage)], self.own(member))
            for member, stage in zip(self.members, self.graph.stages, strict=True)
        }
        parts = [known[id(stage)] for stage in self.graph.stages]
        self.passed("chains", begin)
        begin = time.perf_counter()
        always = np.zeros(len(self.capacity))
        for stage, part in zip(self.graph.stages, parts, strict=True):
            always += part.own * stage.step.times
        join = Join(
            self.graph,
            parts,
            self.space,
            self.capacity,
            always,
            len(self.goals),
            self.relaxed,
            most,
            self.reached_values * (1 + ROUNDING),
        )
        self.parts, self.reached = parts, join.run(self.watch("putting together Einsums up to {}"))
        rows = self.best(self.reached[-1])
        found = [self.tree(self.reached, *row) for row in rows]
        if rows and len(self.options.goals) > 1 and self.options.goals == self.goals:
            self.reached_values = np.stack([self.reached[-1][interface].costs[row] for interface, row in rows])
        if rows:
            interface, row = rows[0]
            self.value = float(self.objectives(self.reached[-1][interface].costs[row : row + 1])[0, 0])
        self.passed("join", begin)
        return found

    def fronts(self, most: float | None) -> Mapping[int, Mapping[int, Front]]:
        """For each stage (by id) the fronts of the options that can be a part of something good, by number."""
        wanted: dict[int, dict[Outline, list[Others | None]]] = {id(member.chains): {} for member in self.members}
        chosen: dict[int, tuple[int, dict[int, Outline]]] = {}
        for member, stage in zip(self.members, self.graph.stages, strict=True):
            if id(stage) in chosen:
                continue
            own, outlines = wanted[id(member.chains)], dict[int, Outline]()
            chosen[id(stage)] = id(member.chains), outlines
            for o, rest in self.relaxed.rests[id(stage)].items():
                option, others = stage.step.options[o], self.others(rest, stage.step.times, most)
                if others is None or not others.hopeless(option.bounds).all():
                    own.setdefault(option.outline, []).append(others)
                    outlines[o] = option.outline

        searching = self.watch("the best chains of {}")

        def complete(member: Member, position: int) -> dict[Outline, Front]:
            searching(member.einsum.name, position)
            own = {outline: united(others) for outline, others in wanted[id(member.chains)].items()}
            return member.chains.complete_heads(own, self.space)

        with ThreadPoolExecutor(self.workers) as executor:
            fronts = executor.map(complete, self.distinct, range(len(self.distinct)))
            found = dict(zip((id(m.chains) for m in self.distinct), fronts, strict=True))
        return {
            stage: {o: found[chains][outline] for o, outline in outlines.items() if outline in found[chains]}
            for stage, (chains, outlines) in chosen.items()
        }

    def passed(self, step: str, begin: float) -> None:
        """Count the time since `begin`."""
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - begin

    def others(self, rest: Floats, times: float, most: float | None) -> Others | None:
        """What the rest of the cascade adds, in units of one instance of an Einsum that runs so often."""
        if most is not None:
            return Others(corners(self.weights, rest[None])[0] / times, most / times ** len(self.goals))
        if len(self.reached_values):
            return Others((self.reached_values - rest[: len(self.goals)]) / times * (1 + ROUNDING), -1.0)
        return None

    def own(self, member: Member) -> Floats:
        """Bits of each memory of the space that an Einsum's persistent tensors take."""
        taken = member.chains.persistent()
        return np.array([taken.get(name, 0.0) for name in self.space.memories])

    def best(self, found: Mapping[int, Rows]) -> list[tuple[int, int]]:
        """Interface and row of the best, or of all that no other one beats."""
        places = [(i, row) for i, rows in found.items() for row in range(len(rows.costs))]
        if not places:
            return []
        values = self.objectives(np.concatenate([rows.costs for rows in found.values()]))
        order = [int(np.argmin(values[:, 0]))] if values.shape[1] == 1 else [int(i) for i in nondominated(values)]
        return [places[i] for i in order]

    def objectives(self, costs: Floats) -> Floats:
        """The objectives that were asked for, from sums of what they are made of."""
        columns = []
        for goal in self.options.goals:
            columns.append(np.prod([costs[:, self.goals.index(part)] for part in PARTS[goal]], axis=0))
        return np.stack(columns, axis=1)

    def tree(self, reached: Sequence[Mapping[int, Rows]], interface: int, row: int) -> LoopTree:
        """The LoopTree of one row."""
        chains: list[Chain] = []
        for k in reversed(range(len(self.members))):
            before, row_before, option, own = (int(x) for x in reached[k + 1][interface].back[row])
            chains.append(self.chain(k, option, own))
            interface, row = before, row_before
        chains.reverse()
        shared = [0] * len(chains)
        for t, first in self.slots.first.items():
            depth = max((c.backed[t] for c in chains[first : self.slots.last[t] + 1] if t in c.backed), default=0)
            for k in range(first + 1, self.slots.last[t] + 1):
                shared[k] = max(shared[k], depth)
        present = [k for k, chain in enumerate(chains) if chain.nodes]
        return TreeBuilder([chains[k] for k in present], [shared[k] for k in present]).build()

    def chain(self, k: int, option: int, row: int) -> Chain:
        """One Einsum's chain, with its own names."""
        member = self.members[k]
        outline = self.graph.stages[k].step.options[option].outline
        front = self.parts[k].fronts[option]
        nodes, n_outer = member.chains.nodes_of(outline, front, row)
        if member.same_as is not None:
            nodes = renamed_nodes(nodes, member.chains.einsum, member.einsum)
        backed = {member.einsum.accesses[t].tensor: len(key.loops) for t, key in outline.keys}
        return Chain(member.einsum.name, nodes, n_outer, len(outline.loops), backed)


def united(all_others: Sequence[Others | None]) -> Others | None:
    """What has no hope with any of several others."""
    known = [others for others in all_others if others is not None]
    if len(known) < len(all_others):
        return None
    return Others(np.unique(np.concatenate([others.rows for others in known]), axis=0), known[0].most)
