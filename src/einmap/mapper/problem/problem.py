"""The problem of a search, and how long it may take."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace

from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.mapper.given.pattern import GivenStage, Pattern
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.problem.options import Options
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.timing.overlap import check_overlap
from einmap.model.timing.ways import has_ways
from einmap.progress import Progress
from einmap.spec.open_formats import FormatChoice
from einmap.spec.shared_inputs import shareable
from einmap.spec.spec import Spec


@dataclass(frozen=True)
class Known:
    """Knowledge before a search of a cascade: it looks for nothing that is no better.

    `value`: of the one objective (J, s, J*s). `rows`: costs of mappings, a column for each objective; None for none.
    `limit`: another metric, and what each mapping must have less of (J, s). `doubtful`: there may well be none, and
    the search may give up. `planned`: by the names of the Einsums of a cascade these with the dataplacements that
    mappings within the limit may have, as its search plans them. `simple`: gives the objective of what is found in a
    simpler way, or what is known if that is no more than such mappings cost at least; it takes both, and mappings of
    Einsums by themselves that were found, by name. To be asked once.
    """

    value: float = math.inf
    rows: Floats | None = None
    limit: tuple[str, float] | None = None
    doubtful: bool = False
    planned: Mapping[tuple[str, ...], object] = field(default_factory=dict, compare=False)
    simple: Callable[[float, float, Mapping[str, LoopTree]], float] | None = field(default=None, compare=False)


NOTHING = Known()


class NotTogetherError(Exception):
    """Formats that are left open cannot be searched together, but one combination after another."""


@dataclass(frozen=True)
class Problem:
    """A workload on an architecture, and what is asked of its mapping.

    `given`: what is given, by Einsum; those not named are free. `fuse`: whether Einsums may share loops. `formats`:
    those that are left open, of which `spec` has the first ones. `kept`: searches of Einsums by themselves, for
    problems that differ in formats of other tensors alone.
    """

    spec: Spec
    options: Options
    given: Mapping[str, Pattern] = field(default_factory=dict)
    fuse: bool = True
    known: Known = NOTHING
    formats: tuple[FormatChoice, ...] = ()
    kept: dict[Hashable, object] | None = field(default=None, compare=False, repr=False)

    def asking(self, **options: object) -> Problem:
        """The problem with some options changed."""
        return replace(self, options=replace(self.options, **options))  # type: ignore[arg-type]

    def has_ways_of(self, other: Problem) -> bool:
        """Whether this is the same cascade, of which the same ways are asked for (`ways`)."""
        asked = self.fuse == other.fuse and self.options.share_inputs == other.options.share_inputs
        return asked and self.spec is other.spec and self.given is other.given

    @property
    def choices(self) -> int:
        """How many combinations of formats are left open."""
        return math.prod(len(choice.alternatives) for choice in self.formats)

    @property
    def given_stage(self) -> GivenStage | None:
        """The first stage of a Pipeline that is given."""
        return next((pattern.stage for pattern in self.given.values() if pattern.stage is not None), None)

    @property
    def has_zeros(self) -> bool:
        """Whether zeros of tensors change what mappings cost."""
        return any(sparsity.saves for sparsity in self.spec.sparsity.values())

    @property
    def knows_cascades(self) -> bool:
        """Whether the options are such that a cascade can be searched as a whole."""
        options = self.options
        simple = not (options.brute_force or self.given or options.uneven_loops or options.uneven_lanes)
        return simple and "resource_usage" not in options.goals

    @property
    def may_fuse(self) -> bool:
        """Whether fused mappings are asked for, there is anything to fuse, and the search of cascades knows it."""
        workload = self.spec.workload
        several = workload.intermediates or (self.options.share_inputs and shareable(workload))
        return self.fuse and bool(several) and self.knows_cascades

    @property
    def adds_up(self) -> bool:
        """Whether what is asked for is a sum over Einsums. Raises NotSupportedError where Einsums cannot overlap."""
        archs, goals = distinct_archs(self.spec), self.options.goals
        leaks = any(unit.constant_power for arch in archs for unit in arch.components.values())
        timed = any(METRICS[goal].is_timed or (leaks and goal == "energy") for goal in goals)
        if self.spec.model_options.overlap_einsums:
            for arch in archs:
                for unit in arch.computes:
                    check_overlap(arch, arch.path(unit.name), self.options.rules)
            return not timed
        return not (timed and any(has_ways(arch.components.values()) for arch in archs))


def distinct_archs(spec: Spec) -> list[Architecture]:
    """The architectures of Einsums that are not the same as others."""
    return [spec.bound[name].arch for name, bound in spec.bound.items() if bound.like == name]


@dataclass(frozen=True)
class Budget:
    """Budget of a search. `progress`: says when to stop; `work`: choices that may be looked at."""

    progress: Progress
    work: float = math.inf

    @classmethod
    def of(cls, options: Options, progress: Progress | None) -> Budget:
        """Budget by the options of a call, from now on."""
        limit = options.time_limit if math.isfinite(options.time_limit) else None
        return cls((progress or Progress()).within(limit), options.max_evaluations or math.inf)

    def share(self, part: float) -> Budget:
        """A part of what is left of the time and of the choices."""
        return Budget(share_of(self.progress, part), max(self.work * part, 1.0))

    def after(self, work: float) -> Budget:
        """Budget left once so many choices have been looked at; at least one."""
        return replace(self, work=max(self.work - work, 1.0))

    @property
    def is_over(self) -> bool:
        """Whether a search had better not begin."""
        return self.progress.stopped or self.work <= 1
