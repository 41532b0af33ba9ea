"""Lower bounds of an Einsum before its choices are listed that know what memories have room for.

The search of the Einsum by itself, its intermediate tensors free above their outermost nodes, on a machine whose outer
lanes are merged where there are many uses of the fanouts. What memories keep is bounded without room first, and orders
of storage nodes, of which there are hundreds, are listed for what promises most, as long as that may be better than
what was found: a product on six levels has 17,664 dataplacements, of which some hundreds are looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from einmap.arch.component import Memory, Toll
from einmap.arch.constraint import Names
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch, SearchRun
from einmap.mapper.cost_bounds.before_plans.floors import MOST_CHOICES, uses_of, ways_held, with_few_uses
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.relaxed_bounds import bounds_of_each
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.fusion.fronts.copy_fronts import OptionalCopyFronts
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.einsum_floors import by_size, floors_before_plans
from einmap.mapper.independent.descent import chosen_in
from einmap.mapper.mapspace.dataplacement import every_choice
from einmap.mapper.mapspace.enumeration import InOrder, share_of
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.lanes.lane_moves import distinct_uses, with_outer_lanes
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.request import Remainder, Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.pareto import nondominated
from einmap.progress import Progress

TOLERANCE = 0.005
"""How far bounds may be below the least cost."""
MOST_USES = 2_000
"""Uses of the fanouts where no more lanes may be merged."""
CLOSELY, ALL_LANES = 100_000, 10_000_000
"""Uses of the fanouts, as the ways of each dimension say, up to which close bounds are those of all lanes; and where
those with merged lanes are known, and there is time.
"""
FIRST_INNER, TOGETHER = 4, 5_000
"""Of lanes that are not merged, uses that are looked at first with all outer lanes; uses of all lanes at a time."""
AT_FIRST, AT_A_TIME = 32, 512
"""Dataplacements that are searched first, and then."""
OF_EACH = 0.5
"""Part of what is left of a limited time that one Einsum may take."""
MOST_BYTES = 4_000_000
"""Bytes of the objectives of all choices of an Einsum that are kept for the next bound; more are worked out again."""
MOST_WORK = 20_000_000
"""Choices of tiles that are looked at."""


@dataclass(frozen=True)
class FloorsOfEinsum:
    """Rows of objectives such that each mapping of an Einsum is no better than some row in all of them.

    No row: no mapping is of use. `paths`: those of the machine itself on which mappings were found that are as good as
    a row, each with their dataplacements and uses of the fanouts. `merged`: lanes are merged that need not be.
    """

    rows: Floats
    paths: tuple[Path, ...] = ()
    merged: bool = False


def floors_with_room(
    einsum: Einsum,
    arch: Architecture,
    request: Request,
    progress: Progress,
    closely: bool = False,
    spaces: dict[Hashable, _Space | None] | None = None,
    most_uses: int = CLOSELY,
) -> FloorsOfEinsum | None:
    """Lower bounds of an Einsum that know what memories have room for; None where none are known.

    Intermediate tensors (`request.intermediates`) come for free to their outermost nodes, wherever these are; what
    `request.remainder` rules out may be better. `progress`: when it is time for whatever is known by then. `closely`:
    without tolerance, and lanes are merged only where there are more than `most_uses` of the fanouts. `spaces`: what
    was found out of the Einsum before, whatever was asked then.
    """
    spaces = {} if spaces is None else spaces
    asked = replace(
        request, tolerance=TIE if closely else TOLERANCE, coarseness=1.0, given=None,
        shared=request.intermediates, uncut=frozenset(), awaited=frozenset(), few_orders=True,
    )  # fmt: skip
    rows, paths, merged = [], list[Path](), False
    for unit in (unit for unit in arch.computes if unit.enabled):
        key = einsum.name, unit.name, asked.intermediates
        if key not in spaces:
            spaces[key] = _Space.of(einsum, arch, unit.name, asked)
        space = spaces[key]
        if space is None:
            return None
        search = _Search(space.path.with_plans(asked, []), progress, space.choices, space.least(progress))
        own = space.own.with_plans(asked, [])
        on_own = closely and search.machine is not arch and uses_of(own) <= most_uses
        found = search.rows_on(own, space.choices_of_own) if on_own else None
        found = search.rows() if found is None else found
        if found is None:
            return None
        rows.append(found)
        merged |= search.machine is not arch and uses_of(own) <= ALL_LANES
        if closely and search.found and search.machine is arch:
            exact = found_on(own, request, search.found)
            paths += [] if exact is None else [exact]
    every = np.concatenate(rows) if rows else np.zeros((0, len(request.goals)))
    return FloorsOfEinsum(every[nondominated(every)], tuple(paths), merged)


type Chosen = tuple[ChainTemplate, LaneTable]
"""A dataplacement with one use of the fanouts."""


def found_on(path: Path, request: Request, found: Sequence[Chosen]) -> Path | None:
    """The path, as a request sees it, with some dataplacements and uses of the fanouts; None where its axes differ."""
    asked = Path(path.einsum, path.arch, path.leaves, replace(request, remainder=None))
    if asked.lattice.axes != path.lattice.axes:
        return None
    asked = asked.with_lanes(distinct_uses(found[0][1], [use.bounds for _, use in found]))
    placements = dict.fromkeys(plan.placement for plan, _ in found)
    return asked.with_plans(asked.request, [asked.planner.plan(placement) for placement in placements])


def _is_bounded(path: Path, arch: Architecture) -> bool:
    """Whether all that the path may have is searched, and limits are those of the machine."""
    placed = [leaf.placement for leaf in path.leaves if isinstance(leaf, Memory | Toll) and leaf.placement is not None]
    is_limited = any(placement.tile_shape for placement in placed)  # of one lane, not of merged ones
    if path.machine is not None or path.tile_shapes.is_coarse or (is_limited and path.arch is not arch):
        return False
    return path.lanes.complete and len(path.lanes) > 0


class _Choices:
    """Choices of what memories and tolls of a path keep, those that have room, and how each tensor is held then."""

    def __init__(self, path: Path, every: Sequence[Mapping[str, Names]]) -> None:
        memories = [leaf for leaf in path.leaves if isinstance(leaf, Memory) and leaf.enabled]
        self.held = [
            held for held in every if all(sum(m.bits[t] for t in held[m.name]) <= m.size_bits for m in memories)
        ]
        self.ways = [ways_held(path.einsum, path.leaves, held) for held in self.held]

    def least(self, path: Path, progress: Progress) -> tuple[Floats, bool]:
        """Least objectives of each with each use of the fanouts, without room; whether there was time for all."""
        return bounds_of_each(path, self.ways, path.lanes, progress)


@dataclass
class _Space:
    """The choices of an Einsum on the path to a compute, whatever is asked of tolerances and of the rest.

    `path`: on a machine of few uses of the fanouts, `own`: on the machine itself.
    """

    path: Path
    own: Path
    every: Sequence[Mapping[str, Names]]

    @staticmethod
    def of(einsum: Einsum, arch: Architecture, unit: str, asked: Request) -> _Space | None:
        """The choices; None where what bounds them is not known, or there are too many."""
        relaxed = with_few_uses(einsum, arch, unit, asked, MOST_USES)
        if relaxed is None:
            return None
        machine, own = relaxed[0], Path(einsum, arch, arch.path(unit), asked)
        path = own if machine is arch else Path(einsum, machine, machine.path(unit), asked)
        every = every_choice(einsum, path.leaves, path.backed_outside, MOST_CHOICES)
        return _Space(path, own, every) if every and _is_bounded(path, arch) else None

    @cached_property
    def choices(self) -> _Choices:
        """Choices on the machine of few uses."""
        return _Choices(self.path, self.every)

    @cached_property
    def choices_of_own(self) -> _Choices:
        """Choices on the machine itself."""
        return _Choices(self.own, self.every)

    def least(self, progress: Progress) -> Floats:
        """Least objectives of each choice with each use of the fanouts, without room."""
        if self._least is None:
            least, is_whole = self.choices.least(self.path, progress)
            self._least = least if is_whole and least.nbytes <= MOST_BYTES else None
            return least
        return self._least

    _least: Floats | None = field(default=None, init=False)


@dataclass
class _Search:
    """The search of a path of which not all dataplacements are listed.

    `choices`: of what memories keep; `least`: objectives of each with each use of the fanouts, without room.
    """

    path: Path
    progress: Progress
    choices: _Choices
    least: Floats

    def __post_init__(self) -> None:
        self.found: list[Chosen] = []
        """Choices of the best mappings that were found on `machine`."""
        self.machine = self.path.arch

    def rows(self) -> Floats | None:
        """Rows of objectives that nothing is better than; None where none are known."""
        run = self.new_run()
        return self.rows_of(run, self.path, self.left(run))

    def rows_on(self, own: Path, choices: _Choices) -> Floats | None:
        """Rows of objectives that nothing on the machine itself (`own`) is better than; None where none are known.

        Each use of the fanouts here stands for those with all uses of the lanes that are merged here. Those that
        promise most come first; those that can be no better than what was found are left out. `choices`: of what the
        memories of the machine itself keep.
        """
        if not self.choices.held or own.lattice.axes != self.path.lattice.axes or own.tile_shapes.is_coarse:
            return None
        run, size, least = self.new_run(), FIRST_INNER, self.least
        waiting, left = _by_promise(least.transpose(1, 0, 2)), list[Floats]()
        while waiting:
            waiting = [use for use in waiting if not run.ruled_out(least[:, use]).all()]
            if run.stopped or not waiting:
                break
            lanes = self.with_outer_lanes(own, waiting[:size])
            if lanes is None and size == 1:
                return None
            if lanes is None:
                size //= 2
                continue
            part = own.with_lanes(lanes)
            some = _Search(part, self.progress, choices, choices.least(part, self.progress)[0]).left(run)
            if some is None:
                return None
            left, waiting, size = left + some, waiting[size:], 2 * size
        return self.rows_of(run, own, left + [least[:, use] for use in waiting])

    def with_outer_lanes(self, own: Path, uses: Sequence[int]) -> LaneTable | None:
        """Some uses of the fanouts with all uses of the merged lanes; None where these are too many."""
        inner = self.path.lanes.only(np.array(uses))
        return with_outer_lanes(own.einsum, own.leaves, own.lattice, inner, TOGETHER)

    def new_run(self) -> SearchRun:
        """A run without any choices yet."""
        path = self.path
        return SearchRun(EinsumSearch(path.einsum, path.arch, path.request, self.progress, [path], max_work=MOST_WORK))

    def rows_of(self, run: SearchRun, path: Path, left: list[Floats] | None) -> Floats | None:
        """Rows of objectives that nothing is better than, with those of what was `left`; None where none are known."""
        if left is None:
            return None
        found, slack = run.archive.values[: run.archive.n], path.request.tolerance
        self.found, self.machine = [chosen_in(run, row) for row in range(run.archive.n)], path.arch
        none = np.zeros((0, found.shape[1]))
        every = np.concatenate(
            [none, found - np.abs(found) * slack, *(np.atleast_2d(rows) for rows in (*run.left, *left))]
        )
        return every[nondominated(every)]

    def plans(self, held: Mapping[str, Names]) -> Iterator[ChainTemplate]:
        """The dataplacements of one choice of what memories and tolls keep, in all orders."""
        return map(self.path.planner.plan, self.path.placements_of(held, InOrder()))

    def left(self, run: SearchRun) -> list[Floats] | None:
        """Search all choices of what memories keep: rows of objectives of those left out; None where none are known.

        Those that promise most come first; those that can be no better than what was found are left out.
        """
        if not self.choices.held:
            return None
        path, least, size = self.path, self.least, AT_FIRST
        waiting = _by_promise(least)
        while waiting:
            waiting = [number for number in waiting if not run.ruled_out(least[number]).all()]
            if run.stopped:
                break
            plans: list[ChainTemplate] = []
            while waiting and len(plans) < size:
                plans += self.plans(self.choices.held[waiting.pop(0)])
            if not plans:
                break
            some, size = path.with_plans(path.request, plans), AT_A_TIME
            if some.lanes_above() or any(some.leaves_out(plan) for plan in plans):
                return None
            for group in some.groups():
                run.search_group(some, group)
        return [least[number] for number in waiting]


def least_weighted(weights: Floats, rows: Floats) -> Floats:
    """The least weighted costs of some rows, for each row of weights.

    What is infinite counts for nothing where its weight is 0, as a sum of products would not have it.
    """
    each = [np.multiply(weights, row, where=weights > 0, out=np.zeros(weights.shape)).sum(axis=1) for row in rows]
    least: Floats = np.min(each, axis=0)
    return least


def _by_promise(least: Floats) -> list[int]:
    """Numbers of choices, by the least objectives that each has."""
    lowest = np.maximum(least.min(axis=(0, 1)), np.finfo(float).tiny)
    return [int(i) for i in np.argsort((least / lowest).sum(axis=2).min(axis=1), kind="stable")]


@dataclass
class FloorsBeforePlans:
    """Rows of costs of one instance that the Einsums of a cascade are no better than, without lists of choices.

    `rows`: without room, by Einsum; `roomy`, `close`: those that know of it, with a tolerance and without, as far as
    there was time; `closest`: those with all lanes where `close` has merged ones. What is better than these is a part
    of no cascade that is better than one known then. `best`: by the first Einsum that is alike, the choices of mappings
    that are as good as these say.
    """

    cascade: CascadeProblem
    rows: dict[str, Floats] = field(default_factory=dict)
    roomy: dict[str, Floats] = field(default_factory=dict)
    close: dict[str, Floats] = field(default_factory=dict)
    closest: dict[str, Floats] = field(default_factory=dict)
    best: dict[str, PlannedEinsum] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    """Einsums whose close rows may rise further; `merged`: since they have merged lanes."""
    merged: set[str] = field(default_factory=set)
    without: dict[tuple[str, str], Floats] = field(default_factory=dict)
    """Close rows of an Einsum where the copy of an input that it reads is left out, by Einsum and copy."""
    spaces: dict[Hashable, _Space | None] = field(default_factory=dict)
    """Choices of Einsums that were looked at."""

    def learn(self, token: Progress) -> None:
        """Find the rows without room, unless they are known."""
        if not self.rows:
            self.rows = floors_before_plans(self.cascade, token)

    def learn_room(self, most: float, token: Progress, closely: bool = False) -> None:
        """Find those that know of room where there are others. `most`: objective of the best cascade known.

        `closely`: without tolerance.
        """
        cascade, known = self.cascade, self.close if closely else self.roomy
        alike: dict[Any, list[Einsum]] = {}
        for einsum in cascade.workload.einsums:
            if einsum.name in self.rows and (einsum.name not in known or (closely and einsum.name in self.cut)):
                alike.setdefault(cascade.written(einsum), []).append(einsum)
        every = {einsum.name: cascade.times(einsum) * self.least(einsum) for einsum in cascade.workload.einsums}
        for key in by_size(cascade, [(key, einsum) for key, einsums in alike.items() for einsum in einsums]):
            first, part = alike[key][0], share_of(token, OF_EACH)
            if token.stopped:
                break
            request = replace(cascade.request(first), remainder=self.remainder(first, every, most))
            arch = cascade.spec.bound[first.name].arch
            is_last = closely and first.name in self.merged
            most_uses = ALL_LANES if is_last else CLOSELY
            found = floors_with_room(first, arch, request, part, closely, self.spaces, most_uses)
            if found is None:
                continue
            if closely and found.paths:
                self.best[first.name] = PlannedEinsum(first, arch, cascade.request(first), found.paths)
            # with all lanes one look has to do: it takes what time there is
            names, is_merged = {einsum.name for einsum in alike[key]}, closely and found.merged and not is_last
            is_cut = is_merged or (closely and part.stopped and not is_last)
            self.cut = self.cut | names if is_cut else self.cut - names
            self.merged = self.merged | names if is_merged and not part.stopped else self.merged - names
            if closely and not is_last:
                self.learn_without_copies(alike[key], request, part)
            for einsum in alike[key]:
                (self.closest if is_last else known)[einsum.name] = self.or_none(found.rows)
                every[einsum.name] = np.maximum(every[einsum.name], cascade.times(einsum) * self.least(einsum))

    def learn_without_copies(self, alike: Sequence[Einsum], request: Request, token: Progress) -> None:
        """Find close rows of Einsums that are alike without copies of inputs. `request`: to the first one."""
        first, workload = alike[0], self.cascade.workload
        for number, access in enumerate(first.accesses):
            copy = next((name for name in self.cascade.optional if access.tensor in workload.by_name[name].outputs), "")
            if not copy or access.tensor not in first.inputs:
                continue
            asked = replace(request, intermediates=request.intermediates - {access.tensor})
            arch = self.cascade.spec.bound[first.name].arch
            found = floors_with_room(first, arch, asked, token, closely=True, spaces=self.spaces)
            if found is not None:
                rows = self.or_none(found.rows)
                self.without |= {(einsum.name, einsum.accesses[number].tensor): rows for einsum in alike}

    def of_copies(self, weights: Floats, least: Mapping[str, Floats]) -> Floats:
        """Costs of the cascade beside those of each Einsum at its `least`, at least, for each row of weights.

        A copy of an input costs something, or all that read it do without.
        """
        cascade, seen, more = self.cascade, set[str](), np.zeros(len(weights))
        for member in cascade.members:
            (copied,) = member.einsum.outputs if member.einsum.name in cascade.optional else ("",)
            users = [einsum for einsum in cascade.workload.einsums if copied in einsum.inputs]
            names = {einsum.name for einsum in users}
            if not isinstance(member.chains, OptionalCopyFronts) or names & seen or not member.chains.covers_mapspace:
                continue
            if all((name, copied) in self.without for name in names):
                apart = np.zeros(len(weights))
                for user in users:
                    rows = least_weighted(weights, self.without[user.name, copied])
                    apart += cascade.times(user) * np.maximum(rows - least[user.name], 0.0)
                more += np.minimum(apart, cascade.times(member.einsum) * member.chains.least_present(weights))
                seen |= names
        return more

    def or_none(self, rows: Floats) -> Floats:
        """Rows of objectives; an infinite one where no mapping is of use."""
        return rows if len(rows) else np.full((1, len(self.cascade.goals)), np.inf)

    def remainder(self, einsum: Einsum, every: Mapping[str, Floats], most: float) -> Remainder | None:
        """Costs that the other Einsums add at least, with those of `every` one, in units of one instance."""
        cascade, n = self.cascade, len(self.cascade.goals)
        times, rest = cascade.times(einsum), np.sum([c for name, c in every.items() if name != einsum.name], axis=0)
        if len(cascade.options.goals) > 1 or not np.isfinite(rest).all():
            return None
        return Remainder(np.reshape(rest, (1, n)) / times, most / times**n)

    @property
    def every(self) -> tuple[Mapping[str, Floats], ...]:
        """All rows, by Einsum."""
        return self.rows, self.roomy, self.close, self.closest

    def of(self, einsum: Einsum) -> list[Floats]:
        """Sets of rows: an Einsum is no better than some row of each of them."""
        return [rows[einsum.name] for rows in self.every if einsum.name in rows]

    def least(self, einsum: Einsum) -> Floats:
        """Least costs of one instance, one by one."""
        costs = least_costs(einsum, self.cascade.spec.bound[einsum.name].arch, self.cascade.goals)
        least: Floats = np.max([costs, *(rows.min(axis=0) for rows in self.of(einsum))], axis=0)
        return least
