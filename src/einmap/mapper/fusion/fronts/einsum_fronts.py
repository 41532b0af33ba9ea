"""Pareto fronts of one Einsum, one for each fusion signature: of the mappings that look the same to other Einsums the
best ones.

First the outer nests of all dataplacements are listed, with bounds from the tables: enough to see which signatures can
be a part of anything good. Only their outer nests are then completed, by branch and bound, to fronts of cost and space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Floats
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.branch_and_bound.decode import nodes_of
from einmap.mapper.branch_and_bound.path_search import Descent, PathSearch, TemplateTables
from einmap.mapper.branch_and_bound.stalled import offer_stalled, settled
from einmap.mapper.fusion.fronts.nests.growing import ClassList, GrowingFront, KeyList, Listed, by_search
from einmap.mapper.fusion.fronts.nests.loops import Kind, loop_nodes
from einmap.mapper.fusion.fronts.nests.met_loops import ANYTHING, MetLoops
from einmap.mapper.fusion.fronts.nests.nest_keys import NestKeys
from einmap.mapper.fusion.fronts.nests.nest_plan import plan_of
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules
from einmap.mapper.fusion.fronts.nests.outer_nests import OuterNest
from einmap.mapper.fusion.fronts.nests.pruned_bounds import PrunedBounds
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, SignatureClass, SignatureStore
from einmap.mapper.fusion.fronts.nests.twins import paths_of, twins_of
from einmap.mapper.fusion.fronts.own_seconds import take_own
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.fronts.protocol import EVERYTHING, FrontMemories, FrontStatistics, FusedFront, Surveyed
from einmap.mapper.fusion.fronts.table_store import Groups, TableStore, with_few_tables
from einmap.mapper.fusion.meter import Meter
from einmap.mapper.mapspace.dataplacement import outermost
from einmap.mapper.objective import objective_kernels
from einmap.mapper.objective.objectives import OWN
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.request import Remainder, united
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapping import nodes as tree
from einmap.pareto import nondominated

CHOICES_AT_A_TIME = 1_000_000
"""Choices that one call of the kernel looks at, about 20 ms."""
FIRST_POINTS = 64
"""Points of a front that are made room for at first."""


@dataclass(eq=False)
class EinsumFronts:
    """All chains of one Einsum. `most`, `most_per_axis`: fused loops; `tables`: those that the cascade keeps.

    `planned`: its dataplacements; where tables are those of `table_owner`, with the names of that one.
    """

    planned: PlannedEinsum
    most: float
    most_per_axis: float
    meter: Meter
    tables: TableStore
    table_owner: EinsumFronts | None = None
    """The fronts whose tables these use, with their names of tensors and rank variables; see `table_sharing`."""
    crossed: frozenset[str] = field(default=frozenset(), init=False)
    """Memories that may keep the whole of a shared tensor while the Einsum runs that does not use it."""
    listed: dict[SignatureClass, dict[FusionSignature, list[Listed]]] = field(default_factory=dict, init=False)
    """The outer nests of each signature class, as far as they were asked for."""
    completed: list[Listed] = field(default_factory=list, init=False)
    """Outer nests whose completions were searched: those that rows of fronts have, by number."""
    signature_classes: dict[SignatureClass, Floats] = field(default_factory=dict, init=False)
    """Lower bounds of the chains of each signature class: in all, none of them is below each of these rows."""
    apart: int = field(default=1, init=False)
    space: FrontMemories = field(default_factory=FrontMemories, init=False)
    """The memories of the columns of fronts, once they are known."""
    _bounded: bool = field(default=False, init=False)
    _pruned: dict[SignatureClass, PrunedBounds] = field(default_factory=dict, init=False)
    _signatures: dict[PathSearch, SignatureStore] = field(default_factory=dict, init=False)
    _whole: dict[int, dict[str, float]] = field(default_factory=dict, init=False)
    _outer_nest_rows: dict[FusionSignature, Floats] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.einsum, self.arch, self.request = self.planned.einsum, self.planned.arch, self.planned.request
        self.paths, self.complete = self.planned.paths, self.planned.has_all
        self._by_plan = {p: self.planned.signature_class(p) for path in self.paths for p in path.plans}
        """Signature classes of the dataplacements."""

    @cached_property
    def groups(self) -> Groups:
        """The dataplacements with their tables; at first they are bounded without tables."""
        if self.table_owner is not None:
            return self.table_owner.groups
        return self.planned.tabled(self.meter, self.tables)

    @property
    def covers_mapspace(self) -> bool:
        """Whether the chains are all that the mapspace of the Einsum has."""
        return self.complete and not any(path.machine and path.machine.has_more_orders for path in self.paths)

    @property
    def why_brute_force(self) -> None:
        """Nothing: the Einsum is searched with tables."""
        return None

    @property
    def omissions(self) -> tuple[str, ...]:
        """Mappings that were not searched, in words."""
        return tuple(text for path in self.paths for text in path.pruned)

    @property
    def is_cut(self) -> bool:
        """Whether there was no time to list all dataplacements."""
        return any(path.cut for path in self.paths)

    @property
    def tables_of(self) -> EinsumFronts:
        """The fronts whose tables these use: others, or themselves."""
        return self.table_owner or self

    @property
    def statistics(self) -> FrontStatistics:
        """How much there is to search."""
        templates, lanes = sum(len(path.plans) for path in self.paths), sum(len(path.lanes) for path in self.paths)
        return FrontStatistics(self.planned.mapping_counts, templates, lanes, self.outer_nests)

    def may_stand_below_loops(self, memory: str) -> bool:
        """Whether fused loops may stand above the outermost node of a shared tensor in a memory."""
        return any(outermost(path.leaves) != memory for path in self.paths)

    def is_absent(self, signature: FusionSignature) -> bool:
        """Whether the Einsum is left out with this signature: never."""
        del signature
        return False

    def select(self, space: FrontMemories, crossed: frozenset[str]) -> None:
        """Say which memories have columns in fronts, and which of them may keep a shared tensor beside the Einsum."""
        self.space, self.crossed = space, crossed

    def least(self, weights: Floats) -> Floats:
        """For each row of weights what every chain costs at least."""
        if not self._bounded:
            self._bound_signature_classes()
        minima = [(rows @ weights.T).min(axis=0) for rows in self.signature_classes.values()]
        least: Floats = np.min([np.full(len(weights), np.inf), *minima], axis=0)
        return least

    def plans_within(self, most: float) -> set[ChainTemplate]:
        """Dataplacements whose chains may cost at most so much by the first objective, as far as that is known."""
        least = {plan: float(bounds[:, 0].min(initial=np.inf)) for plan, bounds in self.groups.bounds}
        of_class = {each: float(rows[:, 0].min()) for each, rows in self.signature_classes.items()}
        kept = ((p, max(least.get(p, -np.inf), of_class.get(f, -np.inf))) for p, f in self._by_plan.items())
        return {plan for plan, cost in kept if cost <= most}

    def _bound_signature_classes(self) -> None:
        """Bound the chains of each signature class from below."""
        self._bounded = True
        rows: dict[SignatureClass, list[Floats]] = {}
        for plan, bounds in self.groups.bounds:
            if plan in self._by_plan:
                rows.setdefault(self._by_plan[plan], []).append(bounds)
        every = {signature_class: np.concatenate(bounds) for signature_class, bounds in rows.items()}
        few = len(self.request.goals) <= 2
        self.signature_classes = {
            f: bounds[nondominated(bounds)] if few else bounds for f, bounds in every.items() if len(bounds)
        }

    def kept_searches(
        self, signature_class: SignatureClass
    ) -> Iterator[tuple[PathSearch, list[TemplateTables]]] | None:
        """Searches with tables of all dataplacements of a signature class, and these; None where some are not kept."""
        return self.tables_of.groups.kept({plan for plan, of in self._by_plan.items() if of == signature_class})

    def begin_again(self, most: float, apart: int = 1, uses: float = math.inf) -> None:
        """Forget what is listed, and look at chains with so many fused loops from here on; see Fronts."""
        self.most, self.apart, self.groups.uses = most, apart, uses
        self.listed, self._pruned, self._outer_nest_rows, self._signatures = {}, {}, {}, {}
        self.completed = []

    def put_aside(self) -> Callable[[], None]:
        """Begin again later: what is listed so far is there again, and nothing else, once the result is called."""
        rows, completed = dict(self._outer_nest_rows), list(self.completed)
        state = self.most, self.apart, dict(self.listed), dict(self._pruned), rows, completed

        def back() -> None:
            self.most, self.apart, self.listed, self._pruned, self._outer_nest_rows, self.completed = state

        return back

    def survey(
        self,
        limits: Mapping[SignatureClass, Remainder | None],
        met: Mapping[SignatureClass, MetLoops] = EVERYTHING,
        most: float = math.inf,
    ) -> Surveyed:
        """List the outer nests of some signature classes, all that can be a part of something good.

        `met`: the keys that others can meet, where these are known. A class that has more than `most` stays as it was.
        Raises StoppedError.
        """
        anew = {f: o for f, o in limits.items() if f not in self._pruned or not self._pruned[f].stays_out(o)}
        floors = {f: self.signature_classes[f].min(axis=0) for f in anew}
        lists = {f: ClassList(o, met.get(f, ANYTHING), floors[f], most) for f, o in anew.items()}
        self._list_all(lists)
        postponed = {f: listed.bounds() for f, listed in lists.items() if listed.is_full}
        # in the order in which they are asked for: that of a set differs from process to process
        for signature_class in (each for each in anew if each not in postponed):
            for signature in self.listed.get(signature_class, ()):
                self._outer_nest_rows.pop(signature, None)
            self.listed[signature_class] = lists[signature_class].by_signature(self.meter)
            self._pruned[signature_class] = lists[signature_class].pruned
        return Surveyed(anew.keys() - postponed.keys(), postponed)

    def keys(self, of: SignatureClass, remainder: Remainder | None, met: MetLoops, most: int) -> NestKeys | None:
        """Loops above shared tensors in what of a signature class can be a part of something good.

        None where that is more than `most` outer nests. Raises StoppedError.
        """
        keys = KeyList(remainder, met, self.signature_classes[of].min(axis=0), most)
        self._list_all({of: keys})
        return None if keys.is_full else keys.keys

    def _list_all(self, lists: Mapping[SignatureClass, ClassList]) -> None:
        """List the outer nests of some signature classes."""
        of_plan = {plan: lists[f] for plan, f in self._by_plan.items() if f in lists}
        limits_of = {p: of.remainder for p, of in of_plan.items()}
        pruned_of = {p: of.pruned for p, of in of_plan.items()}
        for search in self.groups.searches(limits_of, pruned_of) if of_plan else ():
            self._list(search, of_plan)
            for plan in [plan for plan in limits_of if of_plan[plan].is_full]:
                del limits_of[plan]

    def _list(self, search: PathSearch, of_plan: Mapping[ChainTemplate, ClassList]) -> None:
        """List the outer nests of one search, by dataplacement into lists that are not full."""
        known = self._signatures.setdefault(search, SignatureStore())
        rules = NestRules(search, self.request, self.most, self.most_per_axis, self.apart, known)
        for compiled in search.compiled:
            listed = of_plan.get(compiled.plan)
            if listed is None or listed.is_full:
                continue
            if (left_out := self.groups.left_out(compiled.plan, listed.remainder, (search, compiled))) is not None:
                listed.pruned.add(np.maximum(left_out, listed.floor))
            else:
                listed.add(rules, plan_of(rules, compiled), self.meter)

    def complete_outer_nests(
        self, limits: Mapping[FusionSignature, Remainder | None]
    ) -> dict[FusionSignature, FusedFront]:
        """The fronts of some signatures, as far as their chains can be a part of something good."""
        growing: dict[FusionSignature, GrowingFront] = {}
        nests = {signature: self.listed[signature.signature_class][signature] for signature in limits}
        twins = twins_of(nests, limits)
        limit_of = {first: united([limits[twin] for twin in alike]) for first, alike in twins.items()}
        for of_search in by_search(nests, limit_of):
            plans = of_search if of_search[0][0][0].has_tables else with_few_tables(of_search)
            self.groups.fill(plans[0][0][0])
            for outer_nests in plans:
                walk = self._walk(*outer_nests[0])
                for search, outer_nest in outer_nests:
                    if not self.meter.stopped:
                        remainder = limit_of[outer_nest.signature]
                        search.remainder = remainder or Remainder(np.zeros((0, len(search.goal_codes))), math.inf)
                        front = growing.get(outer_nest.signature) or self._empty(outer_nest.signature)
                        growing[outer_nest.signature] = front
                        self._complete(search, outer_nest, front, walk)
        self.groups.release()
        fronts = {signature: self._front(front) for signature, front in growing.items() if front.archive.n}
        for first, known in list(fronts.items()):
            for twin in twins[first][1:]:
                fronts[twin] = FusedFront(known.values, paths_of(nests[twin], known.paths, self.completed))
        return fronts

    def _empty(self, signature: FusionSignature) -> GrowingFront:
        """The front of a signature at the beginning."""
        kept = len(self.space.memories) * len(signature.loops)
        width = len(self.request.goals) + len(self._counted(signature)) + kept
        return GrowingFront(signature, Archive(width, FIRST_POINTS))

    def _counted(self, signature: FusionSignature) -> list[int]:
        """Memories of the space, by number, where it matters how much an Einsum itself needs.

        Something else may be kept there at the same time: below fused loops, or the whole of a tensor.
        """
        return [m for m, name in enumerate(self.space.memories) if signature.loops or name in self.crossed]

    def _front(self, growing: GrowingFront) -> FusedFront:
        """The front with columns for what the Einsum needs, also where that does not matter."""
        archive, n = growing.archive, len(self.request.goals)
        values = archive.values[: archive.n].copy()
        counted = self._counted(growing.signature)
        used = np.zeros((len(values), len(self.space.memories)))
        used[:, counted] = values[:, n : n + len(counted)]
        values = np.concatenate([values[:, :n], used, values[:, n + len(counted) :]], axis=1)
        return FusedFront(values, archive.paths[: archive.n].copy())

    @property
    def signatures(self) -> list[FusionSignature]:
        """Fusion signatures of the chains, which other Einsums see."""
        return [signature for listed in self.listed.values() for signature in listed]

    @property
    def outer_nests(self) -> int:
        """How many outer nests are listed."""
        return sum(len(outer_nests) for listed in self.listed.values() for outer_nests in listed.values())

    def bounds(self, signature: FusionSignature) -> Floats:
        """Costs that no chain of a signature is below, a row for each outer nest."""
        return self.outer_nest_rows(signature)[:, : len(self.request.goals)].copy()

    def backed(self, signature: FusionSignature) -> dict[int, tuple[str, float]]:
        """For each shared tensor (by its position) the memory that backs it, and the bits that its tile takes there."""
        search, outer_nest = self.listed[signature.signature_class][signature][0]
        return {t: (search.leaves[search.memories[p.memory]].name, p.bits) for t, p in outer_nest.backed}

    def sizes(self) -> dict[str, float]:
        """Bits of each memory that is not boundless."""
        memories = [leaf for path in self.paths for leaf in path.leaves if isinstance(leaf, Memory)]
        return {memory.name: memory.size_bits for memory in memories if math.isfinite(memory.size_bits)}

    def whole(self, t: int) -> dict[str, float]:
        """Bits that the whole of a tensor (by its position) takes in each memory that may back it."""
        if t not in self._whole:
            tensor, bits = self.einsum.accesses[t].tensor, self._whole.setdefault(t, {})
            backing = {memory for each in set(self._by_plan.values()) for u, memory in each if u == t}
            for path in self.paths:
                values = float(path.lattice.values(self.einsum, tensor)[path.lattice.top])
                values = float(self.einsum.accesses[t].stored(round(values), self.einsum.extents))
                memories = [leaf for leaf in path.leaves if isinstance(leaf, Memory) and leaf.name in backing]
                bits |= {memory.name: values * memory.bits[tensor] for memory in memories}
        return self._whole[t]

    def kept_in(self) -> set[str]:
        """Memories of the nodes of outer nests: of what stands further in nothing is there while others run."""
        return self.planned.kept_in

    def persistent(self) -> dict[str, float]:
        """Bits of each memory that persistent tensors take (one instance)."""
        bits: dict[str, float] = {}
        for path in self.paths[:1]:
            for plan in path.plans[:1]:
                for held in plan.outer:
                    memory = path.leaves[held.level]
                    assert isinstance(memory, Memory)
                    access = self.einsum.by_tensor[held.tensor]
                    if access.persistent and held.tensor not in self.request.shared:
                        values = path.lattice.values(self.einsum, held.tensor)[path.lattice.top]
                        values = access.stored(values, self.einsum.extents)
                        bits[memory.name] = bits.get(memory.name, 0.0) + float(values) * memory.bits[held.tensor]
        return bits

    def outer_nest_rows(self, signature: FusionSignature) -> Floats:
        """Rows as of a front that every chain of a signature has one of: none of them is below its outer nest's."""
        if signature not in self._outer_nest_rows:
            self._outer_nest_rows |= self._rows_of_class(self.listed[signature.signature_class])
        return self._outer_nest_rows[signature]

    def _rows_of_class(
        self, listed: Mapping[FusionSignature, Sequence[Listed]]
    ) -> Iterator[tuple[FusionSignature, Floats]]:
        """Rows of all signatures of a class, many of which have one outer nest alone."""
        alike: dict[tuple[PathSearch, tuple[Kind, ...]], list[FusionSignature]] = {}
        for signature, outer_nests in listed.items():
            for search in {search: None for search, _ in outer_nests}:
                alike.setdefault((search, tuple(kind for kind, _ in signature.loops)), []).append(signature)
        parts: dict[FusionSignature, list[Floats]] = {}
        for (search, _), signatures in alike.items():
            every = [[outer_nest for of, outer_nest in listed[s] if of is search] for s in signatures]
            together = [outer_nest for some in every for outer_nest in some]
            staying = self._staying(together, self._numbers(search))
            occupied = np.array([outer_nest.occupied for outer_nest in together])[:, self._numbers(search)]
            rows = np.hstack([[outer_nest.least for outer_nest in together], occupied, staying])
            ends = np.cumsum([len(some) for some in every])
            for signature, part in zip(signatures, np.split(rows, ends[:-1]), strict=True):
                parts.setdefault(signature, []).append(part)
        return ((s, of_each[0] if len(of_each) == 1 else np.concatenate(of_each)) for s, of_each in parts.items())

    def _numbers(self, search: PathSearch) -> list[int]:
        """For each memory of the space its number in a search, that of memories of other paths where it has none."""
        names = {search.leaves[level].name: number for number, level in enumerate(search.memories)}
        return [names.get(memory, len(names)) for memory in self.space.memories]

    def _complete(self, search: PathSearch, outer_nest: OuterNest, growing: GrowingFront, walk: Descent) -> None:
        """Search the completions of one outer nest."""
        numbers = self._numbers(search)
        kept = self._staying([outer_nest], numbers)[0]
        used = [objective_kernels.BITS + numbers[m] for m in self._counted(outer_nest.signature)]
        codes = [*search.goal_codes, *used, *(objective_kernels.KEPT + i for i in range(kept.size))]
        search.value_codes = np.array(codes, dtype=np.int64)
        depth = len(outer_nest.points)
        growing.archive.widen(len(outer_nest.compiled.levels))
        has_own = OWN in self.request.goals
        archive = growing.archive.like() if has_own else growing.archive
        walk.kept = kept
        walk.state[:] = depth
        walk.acc[depth], walk.occupied[depth] = outer_nest.costs, outer_nest.occupied
        walk.point_at[0] = search.lattice.top
        walk.point_at[1 : depth + 1] = outer_nest.points
        walk.prefix_at[depth] = outer_nest.prefix
        walk.cand_n[:] = -1
        nodes = walk.nodes
        self.completed.append((search, outer_nest))
        ended = None
        while ended != kernels.DONE:
            before, left = walk.work, self.meter.left
            budget = CHOICES_AT_A_TIME if left > CHOICES_AT_A_TIME else -int(left)
            ended = search.step(outer_nest.compiled, len(self.completed) - 1, walk, archive, TIE, budget)
            if ended == kernels.LEAF:
                self.offer(archive, search, outer_nest, walk)
            self.meter.work += walk.work - before
            if self.meter.stopped:
                break
        if has_own:
            take_own(growing.archive, archive, self.request.goals, search.goal_codes, outer_nest.ahead)
        self.meter.nodes += walk.nodes - nodes

    def offer(self, archive: Archive, search: PathSearch, outer_nest: OuterNest, walk: Descent) -> None:
        """Put the chain that a walk has come to into an archive, where columns of cost are lower bounds."""
        offer_stalled(archive, search, outer_nest.compiled, walk, len(self.completed) - 1)

    def _staying(self, outer_nests: Sequence[OuterNest], numbers: Sequence[int]) -> Floats:
        """Bits of each memory that stay while other Einsums run below the first, the first two, ... fused loops.

        A row for each outer nest; all have loops of the same kinds.
        """
        signature = outer_nests[0].signature
        alive = signature.alive(self.space.by_tree)[:, 1:]
        kept = np.array([outer_nest.kept[:, : 1 + len(signature.loops)] for outer_nest in outer_nests])[:, numbers]
        staying: Floats = (kept @ alive).reshape(len(kept), -1)
        return staying

    def _walk(self, search: PathSearch, outer_nest: OuterNest) -> Descent:
        n, widest = len(outer_nest.compiled.levels), max(search.lattice.size, len(search.children) + 1)
        return Descent(n, search.columns, len(search.capacity), widest)

    def nodes_of(self, signature: FusionSignature, front: FusedFront, row: int) -> tuple[list[tree.Node], int]:
        """A chain from the outside in, each storage node with one tensor; how many are in the outermost memory."""
        del signature
        number, prefix = (int(x) for x in front.paths[row, :2])
        search, outer_nest = self.completed[number]
        compiled = outer_nest.compiled
        points = [int(x) for x in front.paths[row, 2 : 2 + len(compiled.levels)]]
        loops = {level: loop_nodes(order) for level, order in outer_nest.gaps.items()}
        return settled(search, nodes_of(search, compiled, prefix, points, loops)), len(compiled.plan.outer)
