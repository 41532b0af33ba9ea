"""Costs of the Einsums of a workload on the architecture of a PE, remembered by shape."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property

from einmap.arch.tree import Architecture
from einmap.distribute.costs.cluster import ArchGoal
from einmap.einsum.einsum import Einsum
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, MappingError, NoMappingError
from einmap.mapper.capabilities import refuse_unknown
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.mapper import best_mappings
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import Problem
from einmap.mapper.result.result import objective
from einmap.progress import Progress
from einmap.spec.binding.isomorphism import Likeness, names_ranks
from einmap.spec.raw import content
from einmap.spec.spec import Spec
from einmap.visible import brief

_SIZES = re.compile(r"\bspec\b")
"""By this name expressions see the sizes of a workload."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The cost of the best mapping, s or J: inf where there is none, for `why_not`. `optimal`: it is proven least."""

    cost: float
    optimal: bool
    why_not: EinmapError | None = None


@dataclass(frozen=True, eq=False)
class MappedPe:
    """An architecture whose mapper says what Einsums cost on one PE (`cluster.PeArch`).

    `spec`: the architecture together with a workload, whose renames hold. Each Einsum is mapped by itself, as what
    `einmap map` does with a workload of that Einsum alone with the extents of the PE; its tensors come from the
    outermost memory and go back there. Einsums that are equal but for names, with equal extents, are mapped once.
    """

    __repr__ = brief

    spec: Spec
    costs: dict[Hashable, Mapped] = field(default_factory=dict, repr=False)
    """Costs found so far."""
    _wholes: dict[Einsum, Spec] = field(default_factory=dict, repr=False)
    _firsts: dict[Hashable, Einsum] = field(default_factory=dict, repr=False)

    def check(self) -> None:
        """Raise SpecError where the architecture or the options of the mapper are wrong."""
        self._arch(self.spec.workload.einsums[0])
        refuse_unknown(Problem(self.spec, read_options(self.spec)))

    @cached_property
    def memory(self) -> float:
        """Bytes of the outermost memory of the architecture; inf: enough for everything."""
        outermost = self._arch(self.spec.workload.einsums[0]).memories[:1]
        return min((unit.size_bits for unit in outermost), default=math.inf) / 8

    @property
    def proven(self) -> bool:
        """Whether all costs so far are proven least."""
        return all(found.optimal for found in self.costs.values())

    def like(self, einsum: Einsum) -> Einsum:
        """The first Einsum that was asked for and costs the same but for names."""
        workload = self.spec.workload
        if workload.by_name.get(einsum.name) == einsum and not self._sees_sizes:
            # few of many equal layers are looked at closely
            einsum = workload.by_name[self.spec.bound[einsum.name].like]
        extents = tuple(extent for _, extent in einsum.bounds)
        return self._firsts.setdefault(self._key(einsum, extents, "latency"), einsum)

    def least(self, einsum: Einsum, extents: tuple[int, ...], goal: ArchGoal) -> float:
        """A lower bound of the cost, s or J: every operation is done once, on all lanes, and every tensor passes its
        outermost memory once.
        """
        local = _local(einsum, extents)
        arch = self._alone(local).bound[local.name].arch if self._sees_sizes else self._arch(einsum)
        return max(0.0, least_costs(local, arch, (goal,))[0])

    def known(self, einsum: Einsum, extents: tuple[int, ...], goal: ArchGoal) -> float | None:
        """The cost in s or J, if the mapper has been asked for it or for that of an Einsum that is like it."""
        found = self.costs.get(self._key(einsum, extents, goal))
        return None if found is None else found.cost

    def cost(self, einsum: Einsum, extents: tuple[int, ...], goal: ArchGoal, progress: Progress | None = None) -> float:
        """Cost of the best mapping: s or J; inf where there is none. `progress` may end the search of the mapper,
        which then gives its best so far, that is not proven. Raises SpecError where the architecture is wrong.
        """
        return self._mapped(einsum, extents, goal, progress).cost

    def why_not(self, einsum: Einsum, extents: tuple[int, ...]) -> EinmapError | None:
        """Why there is no mapping; None where there is one."""
        return self._mapped(einsum, extents, "latency").why_not

    def _mapped(
        self, einsum: Einsum, extents: tuple[int, ...], goal: ArchGoal, progress: Progress | None = None
    ) -> Mapped:
        key = self._key(einsum, extents, goal)
        if key not in self.costs:
            token = None if progress is None else progress.quiet()
            try:
                result = best_mappings(self._alone(_local(einsum, extents)), metrics=goal, progress=token)
            except (MappingError, NoMappingError) as error:
                ended = token is not None and token.stopped
                self.costs[key] = Mapped(math.inf, optimal=not ended, why_not=error)
            else:
                self.costs[key] = Mapped(objective(result.cost, goal), result.optimal)
        return self.costs[key]

    def _alone(self, einsum: Einsum) -> Spec:
        """The specification of that Einsum alone."""
        return self.spec.with_workload(Workload((einsum,)))

    def _whole(self, einsum: Einsum) -> Spec:
        """The specification of an Einsum alone, not cut."""
        if einsum not in self._wholes:
            self._wholes[einsum] = self._alone(_local(einsum, tuple(extent for _, extent in einsum.bounds)))
        return self._wholes[einsum]

    def _arch(self, einsum: Einsum) -> Architecture:
        return self._whole(einsum).bound[einsum.name].arch

    def _key(self, einsum: Einsum, extents: tuple[int, ...], goal: ArchGoal) -> Hashable:
        symbols = self._whole(einsum).bound_workload.einsums[einsum.name].symbols
        return self._likeness.key(_local(einsum, extents), symbols), extents, goal

    @cached_property
    def _likeness(self) -> Likeness:
        # sizes are those of an Einsum alone here, by the names of its ranks
        by_name = names_ranks(self.spec.arch_inputs) or self._sees_sizes
        return Likeness(self.spec.raw, self.spec.functions, by_name=by_name)

    @cached_property
    def _sees_sizes(self) -> bool:
        """Whether the architecture may be another one for other sizes."""
        arch, variables = self.spec.raw.get("arch"), self.spec.raw.get("variables")
        texts = [content(part) for part in (arch, variables) if part is not None]
        return bool(self.spec.functions) or any(map(_SIZES.search, texts))


def _local(einsum: Einsum, extents: tuple[int, ...]) -> Einsum:
    """The Einsum as one PE has it, once; a box, as mappings count it, where some points take no part."""
    bounds = tuple(zip(einsum.rank_variables, extents, strict=True))
    return replace(einsum, bounds=bounds, n_points=None, n_instances=1, cuts=())
