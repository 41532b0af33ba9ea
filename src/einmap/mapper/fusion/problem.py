"""A cascade whose best fused mapping is asked for: its Einsums with their chains, and what each costs at least."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.errors import NotSupportedError
from einmap.mapper.branch_and_bound.isomorphism import canonical_key, rules_key
from einmap.mapper.branch_and_bound.smallest_tiles import fits_nowhere
from einmap.mapper.fusion.cascade_objective import CascadeObjective, LimitedSum, ProductOfSums, with_slopes
from einmap.mapper.fusion.fronts.copy_fronts import CopyFronts, OptionalCopyFronts
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.fronts.hulls import Hulls
from einmap.mapper.fusion.fronts.nests.signatures import SignatureClass
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.fronts.protocol import FrontMemories, Fronts
from einmap.mapper.fusion.fronts.table_sharing import table_owners
from einmap.mapper.fusion.fronts.table_store import TableStore
from einmap.mapper.fusion.fronts.unfused_fronts import UnfusedFronts
from einmap.mapper.fusion.meter import Meter
from einmap.mapper.fusion.paths.first_floors import FirstFloors
from einmap.mapper.fusion.paths.options import SlotAssignment
from einmap.mapper.fusion.steps import NO_STEPS, CascadeSteps
from einmap.mapper.fusion.thin_plans import ListsInTime
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.mapspace.tile_lattice import is_plain, rank_of, ranks_not_plain
from einmap.mapper.objective.pareto_sums import PARTS
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.problem import NOTHING, Known
from einmap.mapper.problem.request import Remainder, Request, Waiting
from einmap.mapper.problem.searchable import check_stalls_searchable, why_not_fused
from einmap.progress import Progress
from einmap.spec.spec import Spec

TABLES = 250_000_000
"""Bytes of tables kept for all Einsums together."""
MADE_WHOLE, OF_EACH = 100_000_000, 2_000_000
"""Bytes of tables that are made whole of all Einsums where these are few, and of each where they are many; those that
use tables of others have none."""
DECIDING = 5.0
"""Seconds for whether an Einsum fits by itself; mostly milliseconds are enough."""


@dataclass(frozen=True)
class PlannedCascade:
    """Plan of a cascade. `firsts`: for each Einsum the first that is alike; `parts`: those with tables.

    `floors`: what cascades with each option cost at least by the metric of the search that has made it.
    """

    firsts: tuple[str, ...]
    parts: Mapping[str, PlannedEinsum]
    floors: FirstFloors | None = None


@dataclass(frozen=True)
class Member:
    """One Einsum of the cascade and the chains that it has, or shares with one that is alike."""

    einsum: Einsum
    chains: Fronts
    same_as: str | None


@dataclass
class CascadeProblem:
    """The Einsums of a cascade and what each can do. `optional`: copy Einsums that may be left out.

    `inside`: whether intermediate tensors may be kept inside of the outermost memory that may keep them. `steps`: of
    its recurrences, with the `spec` that they give it. `known`: what is no better than this is not looked for. `given`:
    what chains must be like, by Einsum.
    """

    spec: Spec
    options: Options
    optional: frozenset[str] = frozenset()
    inside: bool = True
    steps: CascadeSteps = NO_STEPS
    known: Known = NOTHING
    given: Mapping[str, Pattern] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workload = self.spec.workload
        self.goals = tuple(dict.fromkeys(part for goal in self.options.goals for part in PARTS.get(goal, (goal,))))
        self.objective: CascadeObjective = ProductOfSums()
        if self.known.limit is not None:
            name, limit = self.known.limit
            self.goals, self.objective = (*self.goals, name), LimitedSum(limit)
        self.slots = SlotAssignment(self.workload)
        self.most_fused = self.options.most_fused
        """Fused loops that an Einsum may have by now."""
        self.impossible: str | None = None
        self.prepared = False
        self.meter = Meter(Progress())
        self.lists = ListsInTime(Progress(), "", 0)
        """The dataplacements of Einsums, as long as there is time for them."""
        self.known_rows: Floats = np.zeros((0, len(self.goals))) if self.known.rows is None else self.known.rows
        """Costs of mappings that are known, and of those found for several objectives; no better ones are wanted."""
        self.costs: Floats | None = None
        """Costs of each Einsum in the best cascade that is known, where one is; `classes`: of signatures there."""
        self.classes: dict[Fronts, set[SignatureClass]] = {}
        self.only: dict[Fronts, set[SignatureClass]] | None = (
            None  # classes that are looked at, where these are not all
        )
        self._persistent_bits: dict[Fronts, Floats] = {}
        self._rules: dict[Any, int] = {}
        self._rules_of: dict[str, int] = {}
        self.firsts: list[str] = []
        """For each Einsum, as far as they are planned, the name of the first that is alike; `parts`: by that name."""
        self.parts: dict[str, PlannedEinsum | Fronts] = {}
        self.members: list[Member] = []
        self.distinct: list[Member] = []
        self.weights = np.eye(len(self.goals))
        self.least: dict[Fronts, Floats] = {}
        self.first_floors: FirstFloors | None = None
        """Of options by the metric that has a limit, where they are known."""
        self.floored: dict[Fronts, dict[SignatureClass, bool]] = {}
        """Signature classes that were bounded by searches of their own: whether these say more than tables do."""
        self.proving = True
        """Whether all that was asked for is searched: what is known of few loops says nothing of all."""
        self.hurry = Progress()
        """When it is time to end what proves nothing with whatever is not far above its bound."""
        self.space = FrontMemories()
        """Memories that can be too small for what several Einsums keep at the same time, once they are known."""
        self.capacity: Floats = np.zeros(0)
        """Bits of each of them."""

    @property
    def joint(self) -> frozenset[str]:
        """Inputs that several Einsums may hold in the same node: each fills it for itself, and has its own space."""
        if self.options.rules.buffer_above_split == "one":
            return frozenset()
        copied = frozenset(t for name in self.optional for t in self.workload.by_name[name].outputs)
        return self.workload.shared - self.workload.intermediates | copied

    @cached_property
    def uncut(self) -> frozenset[tuple[str, str]]:
        """Ranks of shared tensors that not all their users index by a rank variable alone, over the same range."""
        shared = self.workload.shared
        accesses = [access for einsum in self.workload.einsums for access in einsum.accesses]
        not_plain = frozenset(
            (access.tensor, rank) for access in accesses if access.tensor in shared for rank in ranks_not_plain(access)
        )
        looked_up = frozenset((access.tensor, rank) for access in accesses for rank in access.lookups)
        return (not_plain | looked_up | self.hulls.uneven | self.steps.uncut) - self.steps.cut

    @cached_property
    def awaited(self) -> frozenset[tuple[str, str]]:
        """Ranks of shared tensors that no loop above their outermost nodes cuts in time.

        Such a loop is open from the first user of the tensor to the last. Where one of them reduces the rank, a later
        Einsum would read results that are not complete: the sum of a softmax below a loop over its keys.
        """
        workload, slots = self.workload, self.slots
        position = {name: k for k, name in enumerate(self.names)}
        ranks = set[tuple[str, str]]()
        for tensor, last in slots.last.items() if self.steps is NO_STEPS else ():
            for einsum in (workload.by_name[name] for name in workload.users[tensor]):
                read = [
                    access
                    for access in einsum.accesses
                    if access.output and access.tensor in slots.last
                    if any(position[einsum.name] < position[user] <= last for user in workload.users[access.tensor])
                ]
                uses = [access for access in einsum.accesses if access.tensor == tensor]
                variables = {v for use in uses for v in use.by_rank if any(v not in access.by_rank for access in read)}
                if len(uses) == 1:
                    ranks |= {(tensor, rank_of(uses[0], v)) for v in variables if is_plain(uses[0], v)}
        return frozenset(ranks)

    @cached_property
    def hulls(self) -> Hulls:
        """The space of the outermost storage of shared tensors."""
        return Hulls(self.spec, self.options.rules.buffer_above_split == "one")

    @property
    def first_of(self) -> dict[Fronts, str]:
        """For chains the name of the first Einsum that has them."""
        return {member.chains: first for member, first in zip(self.members, self.firsts, strict=True)}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the Einsums, with copies."""
        return tuple(einsum.name for einsum in self.workload.einsums)

    def times(self, einsum: Einsum) -> int:
        """How often an Einsum runs."""
        return self.workload.n_instances * einsum.n_instances

    @property
    def workers(self) -> int:
        """Threads; one where the search ends after so many evaluations, so that it ends at the same one."""
        return 1 if self.options.max_evaluations else self.options.workers

    def watch(self, what: str) -> Callable[[str, int], None]:
        """Tell the listener what is done for which Einsum, and end the work when time is over."""

        told: str | None = None

        def go_on(name: str, position: int) -> None:
            nonlocal told
            self.meter.go_on()
            if name != told:
                told = name
                self.meter.progress.report(what.format(name), position, len(self.members))

        return go_on

    def prepare(self, progress: Progress) -> None:
        """The chains of each distinct Einsum, bounded."""
        self.plan(progress)
        self.bound()

    def plan(self, progress: Progress) -> None:
        """The chains of each distinct Einsum."""
        known = self.known.planned.get(self.names)
        if isinstance(known, PlannedCascade):
            self.firsts, self.parts, self.first_floors = [*known.firsts], self.planned_as(known), known.floors
        else:
            self.plan_anew(progress)
        planned = {name: part for name, part in self.parts.items() if isinstance(part, PlannedEinsum)}
        self.impossible = self.unfit(planned)
        fronts = self.with_tables(list(planned.values()))
        for einsum, first in zip(self.workload.einsums, self.firsts, strict=True):
            part = self.parts[first]
            chains = fronts[part] if isinstance(part, PlannedEinsum) else part
            self.members.append(Member(einsum, chains, None if first == einsum.name else first))
        self.distinct = [member for member in self.members if member.same_as is None]

    def planned_as(self, known: PlannedCascade) -> dict[str, PlannedEinsum | Fronts]:
        """Plan of each distinct Einsum as far as known, for the objectives of this search; the others anew."""
        parts: dict[str, PlannedEinsum | Fronts] = {}
        for position, einsum in enumerate(self.workload.einsums):
            if einsum.name in known.firsts:
                arch, part = self.spec.bound[einsum.name].arch, known.parts.get(einsum.name)
                if part is None or why_not_fused(einsum, arch, self.goals) is not None:
                    parts[einsum.name] = self.planned(einsum, arch, self.request(einsum), position)
                else:
                    parts[einsum.name] = part.asked(replace(part.request, goals=self.goals))
        return parts

    def plan_anew(self, progress: Progress) -> None:
        """The dataplacements of each distinct Einsum."""
        by_key: dict[Any, tuple[str, PlannedEinsum | Fronts]] = {}
        firsts, parts = self.firsts, self.parts
        is_plain = len(self.options.goals) == 1 and self.steps is NO_STEPS and not self.given
        self.lists = ListsInTime(progress, self.options.goals[0] if is_plain else "", len(self.workload.einsums))
        for position, einsum in enumerate(self.workload.einsums):
            self.meter.go_on()
            progress.report(f"{einsum.name}: where its tensors may be kept", position, len(self.workload.einsums))
            written = self.written(einsum)
            if written not in by_key:
                arch = self.spec.bound[einsum.name].arch
                self.lists.waiting = len(self.workload.einsums) - position
                part = self.planned(einsum, arch, self.request(einsum), position)
                paths = part.paths if isinstance(part, PlannedEinsum) else []
                key = canonical_key(einsum, arch, paths), written[1]
                by_key[written] = by_key.setdefault(key, (einsum.name, part))
            first, part = by_key[written]
            firsts.append(first)
            parts[first] = part
        listed = {name: part for name, part in parts.items() if isinstance(part, PlannedEinsum)}
        parts |= {name: self.lists.thinner(part, self.times(part.einsum)) for name, part in listed.items()}

    def written(self, einsum: Einsum) -> tuple[int, tuple[Any, ...]]:
        """Equal for Einsums that are written alike and of which the same is asked."""
        kinds = self.workload.shared, self.workload.intermediates, self.joint
        bound = self.spec.bound[einsum.name]
        tensors = tuple([tuple([a.tensor in kind for kind in kinds]) for a in einsum.accesses])
        ranks = ((a.tensor, rank) for a in einsum.accesses for rank, _ in a.projection)
        uncut = tuple([(i, rank in self.uncut) for i, rank in enumerate(ranks) if rank in self.uncut | self.awaited])
        wider = tuple([self.hulls.wider(einsum).get(a.tensor) for a in einsum.accesses])
        asked = (
            *(tensors, uncut, wider, einsum.n_instances, einsum.name in self.optional, self.waiting(einsum)),
            self.steps.key(einsum),
            self.given[einsum.name].said if einsum.name in self.given else None,
        )
        if bound.like not in self._rules_of:
            rules = rules_key(einsum, bound.arch)
            self._rules_of[bound.like] = self._rules.setdefault(rules, len(self._rules))
        return self._rules_of[bound.like], asked

    def bound(self) -> None:
        """Bound each distinct Einsum from below, by tables, and find memories that can be too small."""
        if self.impossible is not None:
            return
        if len(self.goals) == 2 and len(self.options.goals) == 1:
            self.weights = with_slopes(self.weights, self.sums(self.minima()))
        self.least = self.minima()
        self.prepared = True
        self.select_contended_memories()
        for member in self.distinct:
            if not np.isfinite(self.least[member.chains]).all():
                self.impossible = member.einsum.name

    def unfit(self, planned: Mapping[str, PlannedEinsum]) -> str | None:
        """An Einsum of which not even the smallest tiles fit, whatever the others do; None where none is known."""
        for name, part in planned.items():
            token = self.meter.progress.within(DECIDING)
            if fits_nowhere(part.einsum, part.request, self.times(part.einsum), part.paths, token):
                return name
        return None

    def with_tables(self, planned: Sequence[PlannedEinsum]) -> dict[PlannedEinsum, EinsumFronts]:
        """The fronts of Einsums that are searched with tables; some use the tables of others."""
        most = self.options.most_fused, self.options.most_fused_per_variable
        owners = table_owners([part for part in planned if part.request.given is None]) if not self.impossible else {}
        n_tables = max(len(planned) - len(owners), 1)
        each = min(max(MADE_WHOLE / n_tables, OF_EACH), self.options.memory / n_tables)
        tables = TableStore(min(TABLES, self.options.memory), each)
        fronts = {part: EinsumFronts(part, *most, self.meter, tables) for part in planned if part not in owners}
        for part, owner in owners.items():
            renamed_part = owner.planned_as(part)
            fronts[part] = EinsumFronts(renamed_part, *most, self.meter, tables, fronts[owner.planned])
        return fronts

    def planned(self, einsum: Einsum, arch: Architecture, request: Request, position: int) -> PlannedEinsum | Fronts:
        """The dataplacements of one Einsum; its fronts where these need no tables."""
        most = self.options.most_fused, self.options.most_fused_per_variable
        if einsum.is_copy and einsum.name not in self.given:
            kind = OptionalCopyFronts if einsum.name in self.optional else CopyFronts
            return kind(einsum, arch, request, *most)
        why = "it is a copy" if einsum.is_copy else why_not_fused(einsum, arch, self.goals)
        if why is None:
            planned = self.lists.of(einsum, arch, request, self.times(einsum))
            if not any(path.lanes_above() for path in planned.paths):
                return planned
            why = "lanes may stand above its outermost memory"
        if einsum.name in self.given:
            text = f"Einsum {einsum.name!r} is given a mapping, and is searched mapping by mapping ({why})"
            raise NotSupportedError(f"{text}; that is not supported yet", at=self.spec.place_of_einsum(einsum.name))
        check_stalls_searchable(einsum, arch, why)
        # brute force takes every factor that divides
        every = replace(request, coarseness=1.0)
        return UnfusedFronts(einsum, arch, every, why, self.meter, (self.options.seed, position))

    def minima(self) -> dict[Fronts, Floats]:
        """For the chains of each distinct Einsum the least weighted costs of one instance."""
        return {member.chains: member.chains.least(self.weights) for member in self.distinct}

    def sums(self, least: Mapping[Fronts, Floats]) -> Floats:
        """Least weighted costs of the whole."""
        total = np.zeros(len(self.weights))
        for member in self.members:
            total += self.times(member.einsum) * least[member.chains]
        return total

    def least_value(self) -> float:
        """Lower bound of the objective, each Einsum at its best."""
        return float(self.objective.values(self.weights, self.sums(self.least)[None])[0])

    def request(
        self, einsum: Einsum, goals: tuple[str, ...] | None = None, inside: frozenset[str] | None = None
    ) -> Request:
        """Request to an Einsum's chains; `goals`, `inside`: in place of those of the cascade."""
        options = self.options
        steps = self.steps.of.get(einsum.name)
        kept = self.workload.intermediates & einsum.tensors if self.inside else frozenset()
        kept |= frozenset() if steps is None else steps.single
        return Request(
            self.goals if goals is None else goals,
            options.rules,
            options.force_memory_hierarchy_order,
            coarseness=options.coarseness,
            most_plans=options.most_plans,
            memory=options.memory / options.workers,
            ceiling=options.ceiling,
            shared=self.workload.shared & einsum.tensors,
            intermediates=kept if inside is None else inside,
            uncut=self.uncut,
            awaited=self.awaited,
            joint=self.joint & einsum.tensors,
            fused_per_axis=options.most_fused_per_variable,
            wider=self.hulls.wider(einsum),
            waiting=self.waiting(einsum),
            steps=steps,
            given=self.given.get(einsum.name),
            made=self.workload.intermediates & einsum.inputs,
            few_orders=self.steps is not NO_STEPS,
        )

    def waiting(self, einsum: Einsum) -> Waiting:
        """For what its splits may wait; what is waited for in any case is added to the first one."""
        inward, outward, seconds = self.options.waiting
        first = next((e.name for e in self.workload.einsums if not e.is_copy), None)
        return Waiting(inward, outward, seconds if einsum.name == first else 0.0, self.options.overlapping)

    def select_contended_memories(self) -> None:
        """Find the memories that can be too small for what several Einsums keep at the same time."""
        sizes: dict[str, float] = {}
        kept_in: set[str] = set()
        for member in self.distinct:
            sizes |= member.chains.sizes()
            kept_in |= member.chains.kept_in()
        order = {leaf: i for i, leaf in enumerate(self.spec.bound[self.members[0].einsum.name].arch.components)}
        deepest = max((order[memory] for memory in kept_in), default=-1)
        names = tuple(name for name in sizes if order[name] <= deepest)
        self.space = FrontMemories(names, self.options.rules.lifetimes == "tree")
        self.capacity = np.array([sizes[name] for name in names], dtype=np.float64)
        crossing: dict[Fronts, set[str]] = {}
        for t, first in self.slots.first.items():
            users = [self.members[k] for k in range(first, self.slots.last[t] + 1)]
            kept = self.may_keep_whole(t, [member for member in users if t in member.einsum.tensors])
            for member in users if kept else ():
                if t not in member.einsum.tensors:
                    crossing.setdefault(member.chains, set()).update(kept)
        # what persistent tensors of all Einsums take is taken all the time
        always = {name for member in self.distinct for name, bits in member.chains.persistent().items() if bits > 0}
        for member in self.distinct:
            member.chains.select(self.space, frozenset(crossing.get(member.chains, set()) | always))

    def may_keep_whole(self, tensor: str, users: Sequence[Member]) -> list[str]:
        """Memories of the space that may back a tensor in all its users, and have room for the whole of it."""
        bits = dict.fromkeys(self.space.memories, math.inf)
        for user in users:
            (t,) = (t for t, access in enumerate(user.einsum.accesses) if access.tensor == tensor)
            sizes = user.chains.whole(t)
            bits = {name: min(least, sizes[name]) for name, least in bits.items() if name in sizes}
        room = zip(self.space.memories, self.capacity, strict=True)
        return [name for name, capacity in room if bits.get(name, math.inf) <= capacity]

    def steeper(self, slope: float) -> None:
        """Bound the whole at one more weight of the second cost against the first."""
        self.weights = np.concatenate([self.weights, [[1.0, slope]]])
        self.least = self.minima()

    def remainder(self, rest: Floats, times: float, most: float | None) -> Remainder | None:
        """Costs that the rest of the cascade adds, in units of one instance of an Einsum that runs so often."""
        if most is not None:
            return self.objective.remainder(self.weights, rest, times, most)
        if len(self.known_rows):
            return Remainder((self.known_rows - rest[: len(self.goals)]) / times * (1 + ROUNDING), -1.0)
        return None

    def persistent_bits(self, chains: Fronts) -> Floats:
        """Bits of each memory of the space that an Einsum's persistent tensors take."""
        if chains not in self._persistent_bits:
            taken = chains.persistent()
            self._persistent_bits[chains] = np.array([taken.get(name, 0.0) for name in self.space.memories])
        return self._persistent_bits[chains]
