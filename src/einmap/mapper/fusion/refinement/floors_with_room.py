"""Lower bounds of an Einsum before its choices are listed that know what memories have room for.

The search of the Einsum by itself, its intermediate tensors free above their outermost nodes, on a machine whose outer
lanes are merged where there are many uses of the fanouts. What memories keep is bounded without room first, and orders
of storage nodes, of which there are hundreds, are listed for what promises most, as long as that may be better than
what was found: a product on six levels has 17,664 dataplacements, of which some hundreds are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from einmap.arch.component import Memory, Toll
from einmap.arch.constraint import Names
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch, SearchRun
from einmap.mapper.cost_bounds.before_plans.floors import MOST_CHOICES, with_few_uses
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.relaxed_bounds import Bounds
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.einsum_floors import by_size, floors_before_plans
from einmap.mapper.independent.descent import Kept
from einmap.mapper.mapspace.dataplacement import Dataplacement, choices
from einmap.mapper.mapspace.enumeration import InOrder, share_of
from einmap.mapper.problem.request import Remainder, Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.pareto import nondominated
from einmap.progress import Progress

TOLERANCE = 0.005
"""How far bounds may be below the least cost."""
MOST_USES = 2_000
"""Uses of the fanouts where no more lanes may be merged."""
AT_FIRST, AT_A_TIME = 32, 512
"""Dataplacements that are searched first, and then."""
OF_EACH = 0.5
"""Part of what is left of a limited time that one Einsum may take."""
MOST_WORK = 20_000_000
"""Choices of tiles that are looked at."""


def floors_with_room(einsum: Einsum, arch: Architecture, request: Request, progress: Progress) -> Floats | None:
    """Rows of objectives such that each mapping is no better than some row in all of them; None where none are known.

    Intermediate tensors (`request.intermediates`) come for free to their outermost nodes, wherever these are; what
    `request.remainder` rules out may be better. No row: it rules out all. `progress`: when it is time for whatever is
    known by then.
    """
    asked = replace(
        request, tolerance=TOLERANCE, coarseness=1.0, given=None,
        shared=request.intermediates, uncut=frozenset(), awaited=frozenset(), few_orders=True,
    )  # fmt: skip
    rows = []
    for unit in (unit for unit in arch.computes if unit.enabled):
        relaxed = with_few_uses(einsum, arch, unit.name, asked, MOST_USES)
        machine = arch if relaxed is None else relaxed[0]
        path = Path(einsum, machine, machine.path(unit.name), asked)
        found = _Search(path, progress).rows() if relaxed is not None and _is_bounded(path, arch) else None
        if found is None:
            return None
        rows.append(found)
    every = np.concatenate(rows) if rows else np.zeros((0, len(request.goals)))
    return every[nondominated(every)]


def _is_bounded(path: Path, arch: Architecture) -> bool:
    """Whether all that the path may have is searched, and limits are those of the machine."""
    placed = [leaf.placement for leaf in path.leaves if isinstance(leaf, Memory | Toll) and leaf.placement is not None]
    is_limited = any(placement.tile_shape for placement in placed)  # of one lane, not of merged ones
    if path.machine is not None or path.tile_shapes.is_coarse or (is_limited and path.arch is not arch):
        return False
    return path.lanes.complete and len(path.lanes) > 0


@dataclass
class _Search:
    """The search of a path of which not all dataplacements are listed."""

    path: Path
    progress: Progress

    def __post_init__(self) -> None:
        leaves = self.path.leaves
        self.holders = [leaf for leaf in leaves if isinstance(leaf, Memory | Toll) and leaf.enabled]
        self.memories = {leaf.name: leaf for leaf in leaves if isinstance(leaf, Memory)}

    def rows(self) -> Floats | None:
        """Rows of objectives that nothing is better than; None where none are known."""
        path, einsum = self.path, self.path.einsum
        walked = choices(einsum, path.leaves, einsum.tensors - path.request.intermediates, InOrder())
        every = list(islice(walked, MOST_CHOICES + 1))
        if len(every) > MOST_CHOICES:
            return None
        wanted = [[held[holder.name] for holder in self.holders] for held in every]
        firsts = [(number, plan) for number, kept in enumerate(wanted) for plan in islice(self.plans(kept), 1)]
        if not firsts:
            return None
        bounds = Bounds(path, [plan for _, plan in firsts], path.lanes, self.progress, needed=True)
        least = bounds.values[bounds.way_of]
        return self.searched([wanted[number] for number, _ in firsts], least)

    def plans(self, wanted: Sequence[Names]) -> Iterator[ChainTemplate]:
        """The dataplacements in which memories and tolls keep what is wanted, in all orders."""
        for placement in self.path.walked(Kept(wanted)):
            if self.has_room(placement):
                yield self.path.planner.plan(placement)

    def has_room(self, placement: Dataplacement) -> bool:
        """Whether memories have room for a value of each tensor that they hold."""
        return placement.has_room(self.memories)

    def searched(self, wanted: Sequence[Sequence[Names]], least: Floats) -> Floats | None:
        """Rows of objectives of choices of what memories keep, with the `least` of each with each use of the fanouts.

        Those that promise most come first; those that can be no better than what was found are left out.
        """
        path = self.path
        search = EinsumSearch(path.einsum, path.arch, path.request, self.progress, [path], max_work=MOST_WORK)
        run, size = SearchRun(search), AT_FIRST
        lowest = np.maximum(least.min(axis=(0, 1)), np.finfo(float).tiny)
        waiting = [int(i) for i in np.argsort((least / lowest).sum(axis=2).min(axis=1), kind="stable")]
        while waiting:
            waiting = [number for number in waiting if not run.ruled_out(least[number]).all()]
            if run.stopped:
                break
            plans: list[ChainTemplate] = []
            while waiting and len(plans) < size:
                plans += self.plans(wanted[waiting.pop(0)])
            if not plans:
                break
            some, size = path.with_plans(path.request, plans), AT_A_TIME
            if some.lanes_above() or any(some.leaves_out(plan) for plan in plans):
                return None
            for group in some.groups():
                run.search_group(some, group)
        found = run.archive.values[: run.archive.n]
        left = [rows[nondominated(rows)] for rows in (least[number] for number in waiting)]
        every = np.concatenate(
            [found - np.abs(found) * TOLERANCE, np.array(run.left).reshape(-1, found.shape[1]), *left]
        )
        return every[nondominated(every)]


@dataclass
class FloorsBeforePlans:
    """Rows of costs of one instance that the Einsums of a cascade are no better than, without lists of choices.

    `rows`: without room, by Einsum; `roomy`: those that know of it, as far as there was time. What is better than
    `roomy` is a part of no cascade that is better than one known then.
    """

    cascade: CascadeProblem
    rows: dict[str, Floats] = field(default_factory=dict)
    roomy: dict[str, Floats] = field(default_factory=dict)

    def learn(self, token: Progress) -> None:
        """Find the rows without room, unless they are known."""
        if not self.rows:
            self.rows = floors_before_plans(self.cascade, token)

    def learn_room(self, most: float, token: Progress) -> None:
        """Find those that know of room where there are others. `most`: objective of the best cascade known."""
        cascade, n = self.cascade, len(self.cascade.goals)
        alike: dict[Any, list[Einsum]] = {}
        for einsum in cascade.workload.einsums:
            if einsum.name in self.rows and einsum.name not in self.roomy:
                alike.setdefault(cascade.written(einsum), []).append(einsum)
        every = {einsum.name: cascade.times(einsum) * self.least(einsum) for einsum in cascade.workload.einsums}
        for key in by_size(cascade, [(key, einsum) for key, einsums in alike.items() for einsum in einsums]):
            first, part = alike[key][0], share_of(token, OF_EACH)
            if token.stopped:
                break
            times, rest = cascade.times(first), np.sum([c for name, c in every.items() if name != first.name], axis=0)
            remainder = None
            if len(cascade.options.goals) == 1 and np.isfinite(rest).all():
                remainder = Remainder(np.reshape(rest, (1, n)) / times, most / times**n)
            request = replace(cascade.request(first), remainder=remainder)
            found = floors_with_room(first, cascade.spec.bound[first.name].arch, request, part)
            if found is None:
                continue
            for einsum in alike[key]:
                self.roomy[einsum.name] = found if len(found) else np.full((1, n), np.inf)
                every[einsum.name] = np.maximum(every[einsum.name], cascade.times(einsum) * self.least(einsum))

    def of(self, einsum: Einsum) -> list[Floats]:
        """Sets of rows: an Einsum is no better than some row of each of them."""
        return [rows[einsum.name] for rows in (self.rows, self.roomy) if einsum.name in rows]

    def least(self, einsum: Einsum) -> Floats:
        """Least costs of one instance, one by one."""
        costs = least_costs(einsum, self.cascade.spec.bound[einsum.name].arch, self.cascade.goals)
        least: Floats = np.max([costs, *(rows.min(axis=0) for rows in self.of(einsum))], axis=0)
        return least
