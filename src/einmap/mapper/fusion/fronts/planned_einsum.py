"""An Einsum with the dataplacements of all its paths, before its fronts are made."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.cost_bounds.before_plans.floors import uses_of
from einmap.mapper.cost_bounds.compute_path import PLANNING, Path
from einmap.mapper.fusion.fronts.nests.nest_rules import TOKEN
from einmap.mapper.fusion.fronts.nests.signatures import SignatureClass
from einmap.mapper.fusion.fronts.table_store import Groups, TableStore
from einmap.mapper.fusion.meter import Meter
from einmap.mapper.mapspace.dataplacement import every_choice
from einmap.mapper.mapspace.enumeration import InOrder
from einmap.mapper.mapspace.lanes.fanout_table import MOST_USES
from einmap.mapper.problem.request import Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.groups import Group
from einmap.progress import Progress

PROBED, MOST_CHOICES = 8, 2_000
"""Choices of what memories keep of which all dataplacements are listed to see how long all of them take; choices of
which that is asked at all.
"""
MOST_PRODUCTS = 15 * MOST_USES
"""Ways to use each dimension by itself, multiplied, of which few enough uses of the fanouts hardly remain."""
FAR = 1.5
"""How much longer than there is time for it has to look: some take much less than others."""


@dataclass(frozen=True, eq=False)
class PlannedEinsum:
    """The dataplacements of an Einsum. `request`: its goals are what is added up over Einsums."""

    einsum: Einsum
    arch: Architecture
    request: Request
    paths: tuple[Path, ...]
    has_floors: ClassVar[bool] = True
    """Whether a search of the Einsum by itself may bound its chains."""

    @staticmethod
    def of(einsum: Einsum, arch: Architecture, request: Request, progress: Progress) -> PlannedEinsum:
        """The dataplacements of all paths, listed."""
        paths = tuple(Path(einsum, arch, arch.path(unit.name), request) for unit in arch.computes if unit.enabled)
        for path in paths:
            path.make_plans(progress)
        return PlannedEinsum(einsum, arch, request, paths)

    @staticmethod
    def whole(einsum: Einsum, arch: Architecture, request: Request, progress: Progress) -> PlannedEinsum | None:
        """All dataplacements of all paths; None where there are too many uses of the fanouts, or too little time."""
        paths = tuple(Path(einsum, arch, arch.path(unit.name), request) for unit in arch.computes if unit.enabled)
        for path in paths:
            is_hopeless = uses_of(path) > MOST_PRODUCTS and progress.deadline is not None
            if is_hopeless or not path.has_all_uses(progress) or _takes_too_long(path, progress):
                return None
            path.make_plans(progress)
            if path.cut:
                return None
        return PlannedEinsum(einsum, arch, request, paths)

    def asked(self, request: Request, kept: Container[ChainTemplate] | None = None) -> PlannedEinsum:
        """This Einsum for other objectives, with all its dataplacements or those of them that are `kept`."""
        paths = (path.with_plans(request, [p for p in path.plans if kept is None or p in kept]) for path in self.paths)
        return replace(self, request=request, paths=tuple(path for path in paths if path.plans))

    @cached_property
    def groups(self) -> tuple[tuple[Path, Group], ...]:
        """The dataplacements by the uses of the fanouts that they admit."""
        return tuple((path, group) for path in self.paths for group in path.groups())

    @cached_property
    def mapping_counts(self) -> float:
        """How many mappings there are."""
        return sum(group.size for _, group in self.groups)

    @property
    def kept_in(self) -> set[str]:
        """Memories of the nodes of outer nests."""
        memories = set[str]()
        for plan in (plan for path in self.paths for plan in path.plans):
            nodes, backed = plan.placement.nodes, dict[str, int]()
            for i, (_, tensor) in enumerate(nodes):
                backed.setdefault(tensor, i)
            lowest = max((i for tensor, i in backed.items() if tensor in self.request.shared), default=-1)
            memories.update(memory for memory, _ in nodes[: lowest + 1])
        return memories

    def tabled(self, meter: Meter, tables: TableStore) -> Groups:
        """The dataplacements with tables that are kept."""
        return self.added_to(Groups(meter, self.request.memory, tables))

    def added_to(self, groups: Groups) -> Groups:
        """Groups with all dataplacements."""
        for path, group in self.groups:
            groups.add(path, group)
        return groups

    @property
    def has_all(self) -> bool:
        """Whether all dataplacements and all tile shapes are there."""
        return all(path.all_plans and not path.tile_shapes.is_coarse for path in self.paths)

    def signature_class(self, plan: ChainTemplate) -> SignatureClass:
        """The memories in which a dataplacement backs shared tensors."""
        backing: dict[str, str] = {}
        for memory, tensor in plan.placement.nodes:
            backing.setdefault(tensor, memory)
        if self.request.steps is not None:
            backing[self.request.steps.token] = TOKEN
        accesses = enumerate(self.einsum.accesses)
        return tuple((t, backing[a.tensor]) for t, a in accesses if a.tensor in self.request.shared)


def _takes_too_long(path: Path, progress: Progress) -> bool:
    """Whether there is far too little time to list all dataplacements of a path, as some choices tell.

    What memories keep is chosen in a few ways, orders of storage nodes in many: those of a few choices soon tell.
    """
    if progress.deadline is None:
        return False
    every = every_choice(path.einsum, path.leaves, path.backed_outside, MOST_CHOICES)
    some = (every or [])[:: max(len(every or []) // PROBED, 1)]
    begin, listed = time.monotonic(), [list(path.placements_of(held, InOrder())) for held in some]
    middle, firsts = time.monotonic(), [placements[0] for placements in listed if placements]
    for placement in firsts:
        path.planner.plan(placement)
    if not every or not firsts:
        return False
    times, plans = len(every) / len(some), sum(map(len, listed)) / len(firsts)
    seconds = max((middle - begin) * times * 2, (time.monotonic() - middle) * times * plans)
    return seconds > FAR * PLANNING * progress.seconds_left()
