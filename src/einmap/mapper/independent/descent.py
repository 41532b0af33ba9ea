"""A good mapping of one Einsum, soon: the best of a few choices, and then of all that differ from it in one place.

A choice says what each memory keeps, in which order, and how the fanouts are used; its tiles are the best ones, found
with tables. So the work does not grow with the mapspace, but with the number of memories, tensors and fanouts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from einmap.arch.component import Leaf, Memory, Toll
from einmap.arch.constraint import Names
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch, SearchRun
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.mapspace.dataplacement import Dataplacement
from einmap.mapper.mapspace.enumeration import InOrder
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.lanes.lane_moves import first_uses, moved
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.request import Remainder, Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapping.mapping import Mapping
from einmap.progress import Progress

MOST_ORDERS = 64
"""Orders of storage nodes that are looked at for one choice of what memories keep."""

type Around = tuple[Iterable[ChainTemplate], LaneTable]
"""Some choices: each of some dataplacements with each of some uses of the fanouts."""


class Kept(InOrder):
    """A walk in which each memory and toll keeps what is wanted, as far as it may, beside what it must."""

    def __init__(self, wanted: Sequence[Names]) -> None:
        self.wanted = iter(wanted)

    def subsets(self, ordered: Sequence[str]) -> Iterator[Names]:
        """One set: the tensors that the next holder is to keep and may."""
        yield next(self.wanted).intersection(ordered)


@dataclass(frozen=True)
class Point:
    """A mapping with its value (J, s, J*s), its dataplacement and its use of the fanouts."""

    value: float
    mapping: Mapping
    plan: ChainTemplate
    lanes: LaneTable


@dataclass
class Descent:
    """The search of one Einsum on the path to a compute. `request`: with one objective.

    `budget`: choices that may be looked at to improve the first mapping, `work`: that were. `best`: the best so far.
    """

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    request: Request
    instances: int
    budget: float
    best: Point | None = None
    work: int = 0
    _plans: dict[Dataplacement, ChainTemplate] = field(default_factory=dict, init=False, repr=False)
    _tried: set[tuple[Dataplacement, bytes]] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        path = Path(self.einsum, self.arch, self.leaves, self.request)
        self.uses = first_uses(self.einsum, path.leaves, path.lattice, path.fused_dimensions)
        self.path = path.with_lanes(self.uses)
        self.path.hurried = True
        self.holders = [leaf for leaf in path.leaves if isinstance(leaf, Memory | Toll) and leaf.enabled]

    def keeping_outside(self) -> Descent:
        """This search before it has begun, but with all tensors in the outermost memory that may keep them."""
        other = copy(self)
        other.request = replace(self.request, intermediates=frozenset())
        other.path, other._plans, other._tried = self.path.with_plans(other.request, []), {}, set()
        return other

    def begin(self, progress: Progress) -> None:
        """Find the best of a few first choices."""
        self.look_at(progress, (self.first(), self.uses), math.inf)

    def improve(self, progress: Progress) -> None:
        """Go on from the best mapping to better neighbours, as long as there are any.

        What memories keep, lanes and orders change by themselves first, and together where that brings nothing.
        """

        def near(best: Point) -> LaneTable:
            return moved(self.einsum, best.lanes, self.path.lattice)

        ways: list[Callable[[Point], Around]] = [
            lambda best: (self.neighbours(best.plan.placement), best.lanes),
            lambda best: ([best.plan], near(best)),
            lambda best: (self.keeping(self.held(best.plan.placement), MOST_ORDERS), best.lanes),
            lambda best: (self.neighbours(best.plan.placement), near(best)),
            lambda best: (self.neighbours(best.plan.placement), self.uses),
        ]
        number = 0
        while self.best is not None and number < len(ways) and not progress.stopped:
            before = self.best
            while self.work < self.budget and self.look_at(progress, ways[number](self.best), self.budget - self.work):
                pass
            number = number + 1 if self.best is before else 0

    def look_at(self, progress: Progress, around: Around, most: float) -> bool:
        """Find the best of some choices that were not looked at before; whether it is better than the best so far.

        `most`: choices of tiles that may be looked at.
        """
        plans, lanes = around
        key = lanes.tobytes()
        new = [plan for plan in dict.fromkeys(plans) if (plan.placement, key) not in self._tried]
        self._tried.update((plan.placement, key) for plan in new)
        if not new or not len(lanes):
            return False
        request = self.request
        if self.best is not None:
            request = replace(request, remainder=Remainder(np.zeros((1, 1)), self.best.value * (1 - TIE)))
        path = self.path.with_plans(request, new).with_lanes(lanes)
        if path.lanes_above():
            return False  # tables do not know these
        run = SearchRun(EinsumSearch(self.einsum, self.arch, request, progress, [path], self.instances, most))
        optimum = run.optimum()
        self.work += optimum.work if most < math.inf else 0
        if not optimum.mappings or (self.best is not None and optimum.values[0][0] >= self.best.value):
            return False
        chosen = chosen_in(run, int(np.argmin(run.archive.values[: run.archive.n, 0])))
        self.best = Point(optimum.values[0][0], optimum.mappings[0], *chosen)
        return True

    # choices

    def first(self) -> Iterator[ChainTemplate]:
        """Dataplacements to begin with: those that keep least, and as much as memories have room for."""
        yield from self.keeping([frozenset()] * len(self.holders))
        tensors = [access.tensor for access in self.einsum.accesses]
        for i in range(len(tensors)):
            turned = [*tensors[i:], *tensors[:i]]
            yield from self.keeping([_with_room(holder, turned) for holder in self.holders])

    def keeping(self, wanted: Sequence[Names], most: int = 1) -> Iterator[ChainTemplate]:
        """Dataplacements in which memories and tolls keep what is wanted, as far as they may; the first `most`."""
        for placement in islice(self.path.walked(Kept(wanted)), most):
            if placement not in self._plans:
                self._plans[placement] = self.path.planner.plan(placement)
            yield self._plans[placement]

    def held(self, placement: Dataplacement) -> list[Names]:
        """Tensors that each memory and toll keeps."""
        tolls = dict(placement.tolls)
        return [
            frozenset(t for memory, t in placement.nodes if memory == holder.name) | tolls.get(holder.name, frozenset())
            for holder in self.holders
        ]

    def neighbours(self, placement: Dataplacement) -> Iterator[ChainTemplate]:
        """Dataplacements that differ in a tensor of one memory or toll, or in one in place of another."""
        held = self.held(placement)
        tensors = [access.tensor for access in self.einsum.accesses]
        for i, kept in enumerate(held):
            ways = [kept ^ {tensor} for tensor in tensors]
            ways += [kept - {out} | {into} for out in tensors for into in tensors if out in kept and into not in kept]
            for way in ways:
                yield from self.keeping([*held[:i], way, *held[i + 1 :]])


def chosen_in(run: SearchRun, row: int) -> tuple[ChainTemplate, LaneTable]:
    """The dataplacement and the use of the fanouts of a mapping in the archive of a search."""
    number, prefix = (int(x) for x in run.archive.paths[row, :2])
    search, compiled = run.decoders[number]
    return compiled.plan, search.prefixes.tables[-1].only(np.array([prefix - search.prefixes.first[-2]]))


def _with_room(holder: Memory | Toll, tensors: Sequence[str]) -> Names:
    """As many of some tensors as a memory has room for a value of each; nothing of a toll."""
    kept: set[str] = set()
    if isinstance(holder, Memory):
        left = holder.size_bits
        for tensor in tensors:
            if holder.bits.get(tensor, 0) <= left:
                kept.add(tensor)
                left -= holder.bits.get(tensor, 0)
    return frozenset(kept)
