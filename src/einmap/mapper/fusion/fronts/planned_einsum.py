"""An Einsum with the dataplacements of all its paths, before its fronts are made."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from functools import cached_property

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.fusion.fronts.nests.nest_rules import TOKEN
from einmap.mapper.fusion.fronts.nests.signatures import SignatureClass
from einmap.mapper.problem.request import Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.groups import Group
from einmap.progress import Progress


@dataclass(frozen=True, eq=False)
class PlannedEinsum:
    """The dataplacements of an Einsum. `request`: its goals are what is added up over Einsums."""

    einsum: Einsum
    arch: Architecture
    request: Request
    paths: tuple[Path, ...]

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
            if not path.has_all_uses(progress):
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
