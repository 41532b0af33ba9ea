"""The best fused mappings of a cascade.

The graph of interfaces gives a lower bound of the whole. The search then asks whether there is anything within a little
of that bound, and looks only at chains that can be a part of it; whatever it finds there is the best. If there is
nothing, it asks again with more room.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.einsum.einsum import Einsum
from einmap.mapper.canonical import canonical_key, renamed_nodes
from einmap.mapper.cascade import PARTS, nondominated
from einmap.mapper.einsum_search import why_not
from einmap.mapper.fusion.chains import Chains, Effort, Front, Space, StoppedError
from einmap.mapper.fusion.copies import CopyChains
from einmap.mapper.fusion.fixed import FixedChains
from einmap.mapper.fusion.heads import Key, Outline
from einmap.mapper.fusion.interfaces import Graph, Option, Relaxed, Stage, corners
from einmap.mapper.fusion.join import Join, Joined, Rows
from einmap.mapper.fusion.tree import Chain, TreeBuilder
from einmap.mapper.options import Options
from einmap.mapper.request import Others, Request
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress
from einmap.spec.spec import Spec

type Floats = NDArray[np.float64]
type AnyChains = Chains | CopyChains | FixedChains

GUESSES = (1.02, 1.2, 2.0, 8.0, math.inf)
"""How far above the lower bound the best may be, one try after the other."""
SLOPES = (1 / 16, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 16.0)
"""Weights of latency against energy at which the whole is bounded, in units of the ratio of their least values."""
ROUNDING = 1e-9


@dataclass
class Member:
    """One Einsum of the cascade and the chains that it has, or shares with one that is alike."""

    einsum: Einsum
    chains: AnyChains
    same_as: str | None
    outlines: list[Outline] = field(default_factory=list)


@dataclass
class FusedSearch:
    """The search of a whole cascade."""

    spec: Spec
    options: Options

    def __post_init__(self) -> None:
        self.workload = self.spec.workload
        self.goals = tuple(dict.fromkeys(part for goal in self.options.goals for part in PARTS[goal]))
        names = [e.name for e in self.workload.einsums]
        users = {t: [names.index(u) for u in self.workload.users[t]] for t in self.workload.shared}
        self.first_user = {t: min(own) for t, own in users.items()}
        self.last_user = {t: max(own) for t, own in users.items()}
        self.impossible: str | None = None

    def times(self, einsum: Einsum) -> int:
        """How often an Einsum runs."""
        return self.workload.n_instances * einsum.n_instances

    def run(self, progress: Progress) -> list[LoopTree]:
        """The best mappings, or the front; best first by the first objective. Empty when there is none, or no time."""
        self.effort = Effort(progress, self.options.max_evaluations or math.inf)
        self.seconds: dict[str, float] = {}
        try:
            return self._run(progress)
        except StoppedError:
            return []

    def _run(self, progress: Progress) -> list[LoopTree]:
        begin = time.perf_counter()
        self.prepare(progress)
        self.seconds["listing"] = time.perf_counter() - begin
        self.members_by_name = {member.einsum.name: member for member in self.members}
        begin = time.perf_counter()
        graph = Graph([Stage(m.einsum.name, self.options_of(m)) for m in self.members], self.last_user)
        graph.build(self.watch("ways to fuse neighbours: {}"))
        self.graph = graph
        if not graph.exists:
            return []
        self.space, self.capacity = self.look_at()
        self.relaxed = Relaxed(graph, self.weights(graph), [self.times(m.einsum) for m in self.members])
        self.seconds["bounds"] = time.perf_counter() - begin
        for guess in GUESSES if len(self.options.goals) == 1 else (math.inf,):
            begin = time.perf_counter()
            within = f" within {guess - 1:.0%} of the lower bound" if math.isfinite(guess) else ""
            self.looking = f"chains{within}"
            found = self.attempt(self.lower_bound() * guess * (1 + ROUNDING))
            self.seconds["search"] = self.seconds.get("search", 0.0) + time.perf_counter() - begin
            if found or self.effort.stopped:
                return found
        return []

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
                "heads": sum(map(len, chains.outlines.values())),
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
            what = f"{einsum.name}: where its tensors may be kept, and below which loops"
            progress.report(what, position, len(self.workload.einsums))
            arch = self.spec.bound[einsum.name].arch
            request = self.request(einsum)
            most = self.options.most_fused, self.options.most_fused_per_variable
            why = why_not(einsum, arch)
            chains: AnyChains
            if einsum.is_copy:
                chains = CopyChains(einsum, arch, request, *most)
            elif why is None:
                chains = Chains(einsum, arch, request, *most, self.effort)
                chains.prepare()
                if any(path.lanes_above() for path in chains.paths):
                    why = "lanes may stand above its outermost memory"
            if why is not None and not einsum.is_copy:
                chains = FixedChains(einsum, arch, request, why, self.effort, (self.options.seed, position))
            shared = [(a.tensor in request.shared, a.tensor in request.intermediates) for a in einsum.accesses]
            paths = chains.paths if isinstance(chains, Chains) else []
            key = (canonical_key(einsum, arch, paths), tuple(shared))
            same = known.get(key)
            if same is None:
                chains.survey()
                if not chains.outlines:
                    self.impossible = einsum.name
                known[key] = einsum.name, chains
                self.members.append(Member(einsum, chains, None))
            else:
                self.members.append(Member(einsum, same[1], same[0]))

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
        )

    def options_of(self, member: Member) -> list[Option]:
        """The outlines of an Einsum with the names that its tensors and their ranks have."""
        einsum, chains = member.einsum, member.chains
        member.outlines = list(chains.outlines)
        found = []
        for outline in member.outlines:
            self.effort.go_on()
            names = {t: einsum.accesses[t].tensor for t, _ in outline.keys}
            keys = {}
            for t, key in outline.keys:
                ranks = [rank for rank, _ in einsum.accesses[t].projection]
                loops = tuple((kind, str(ranks[int(rank)]), tile) for kind, rank, tile in key.loops)
                keys[names[t]] = Key(key.memory, loops)
            held: dict[str, tuple[int, ...]] = {}
            for t, depth in outline.held:
                held[names[t]] = (*held.get(names[t], ()), depth)
            backed = {names[t]: space for t, space in chains.backed(outline).items()}
            found.append(Option(outline, keys, held, backed, chains.bounds(outline)))
        return found

    def look_at(self) -> tuple[Space, Floats]:
        """Memories that can be too small for what Einsums keep at the same time, and their sizes in bits."""
        sizes: dict[str, float] = {}
        crowded = {m for s in self.graph.stages for option in s.options for m, _ in option.backed.values()}
        for member in self.members:
            sizes |= member.chains.sizes()
            crowded |= member.chains.keeps_in()
        names = tuple(sorted(crowded & set(sizes)))
        by_tree = self.options.rules.lifetimes == "tree"
        return Space(names, by_tree), np.array([sizes[name] for name in names])

    def weights(self, graph: Graph) -> Floats:
        """Weights of the costs at which the whole is bounded; those of one cost alone first."""
        n = len(self.goals)
        unit = np.eye(n)
        if n != 2 or len(self.options.goals) != 1:
            return unit
        least = Relaxed(graph, unit, [self.times(m.einsum) for m in self.members]).least
        ratio = least[0] / least[1] if least[0] > 0 and least[1] > 0 else 1.0
        return np.concatenate([unit, [[1.0, slope * ratio] for slope in SLOPES]])

    def lower_bound(self) -> float:
        """What the objective is at least."""
        return float(corners(self.relaxed.weights, self.relaxed.least).prod(axis=1).min())

    # one attempt

    def attempt(self, most: float) -> list[LoopTree]:
        """The best mappings whose objective is at most `most`; empty when there are none."""
        self.fronts: dict[tuple[int, Outline, int], Front] = {}
        parts = [
            Joined(self.times(m.einsum), fronts, self.own(m))
            for m, fronts in zip(self.members, self.chosen(most), strict=True)
        ]
        always = np.array([sum(p.own[i] * p.times for p in parts) for i in range(len(self.capacity))])
        bound = most if math.isfinite(most) else None
        join = Join(
            self.graph, parts, self.space, self.capacity, always, self.first_user, len(self.goals), self.relaxed, bound
        )
        reached = join.run(self.watch(self.looking + ": joining {}"))
        self.parts = parts
        self.reached = reached
        self.values = [reached[-1][i].costs[row] for i, row in self.best(reached[-1])]
        return [self.tree(reached, *row) for row in self.best(reached[-1])]

    def own(self, member: Member) -> Floats:
        """Bits of each memory of the space that an Einsum's persistent tensors take."""
        taken = member.chains.persistent()
        return np.array([taken.get(name, 0.0) for name in self.space.memories])

    def chosen(self, most: float) -> Iterator[Mapping[int, Front]]:
        """For each Einsum the fronts of the outlines that can be a part of something good, by number."""
        limits: list[dict[int, Floats]] = []
        for k, (member, stage) in enumerate(zip(self.members, self.graph.stages, strict=True)):
            times = self.times(member.einsum)
            own: dict[int, Floats] = {}
            for edge in stage.edges:
                rest = self.relaxed.rest_of(k, edge)
                own[edge.option] = np.minimum(own.get(edge.option, np.full(len(rest), np.inf)), rest)
            rows = {o: corners(self.relaxed.weights, rest) / times for o, rest in own.items()}
            limit = most / times ** len(self.goals)
            limits.append(
                {o: r for o, r in rows.items() if not Others(r, limit).hopeless(stage.options[o].bounds).all()}
            )
        together: dict[tuple[int, Outline, int], list[Floats]] = {}
        for member, own in zip(self.members, limits, strict=True):
            for o, rows_of in own.items():
                key = id(member.chains), member.outlines[o], self.times(member.einsum)
                together.setdefault(key, []).append(rows_of)
        progress = self.effort.progress
        for member, own in zip(self.members, limits, strict=True):
            times = self.times(member.einsum)
            fronts = {}
            for o in own:
                outline = member.outlines[o]
                key = id(member.chains), outline, times
                if key not in self.fronts:
                    done = len(self.fronts)
                    progress.report(f"{self.looking}: {member.einsum.name}", done, len(together))
                    others = Others(np.concatenate(together[key]), most / times ** len(self.goals))
                    known = others if math.isfinite(most) else None
                    self.fronts[key] = member.chains.front(outline, self.space, known)
                fronts[o] = self.fronts[key]
            yield fronts

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
        for k in range(1, len(chains)):
            shared[k] = max(
                (c.backed[t] for t in self.first_user if self.first_user[t] < k <= self.last_user[t]
                 for c in chains if t in c.backed), default=0,
            )  # fmt: skip
        return TreeBuilder(chains, shared).build()

    def chain(self, k: int, option: int, row: int) -> Chain:
        """One Einsum's chain, with its own names."""
        member = self.members[k]
        outline = member.outlines[option]
        front = self.parts[k].fronts[option]
        nodes, n_outer = member.chains.nodes_of(outline, front, row)
        if member.same_as is not None:
            nodes = renamed_nodes(nodes, member.chains.einsum, member.einsum)
        backed = {member.einsum.accesses[t].tensor: len(key.loops) for t, key in outline.keys}
        return Chain(member.einsum.name, nodes, n_outer, len(outline.loops), backed)
