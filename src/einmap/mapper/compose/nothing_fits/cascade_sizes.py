"""Why no mappings of a cascade fit together although each Einsum has some, and the least sizes that would do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from einmap.arch.component import Memory
from einmap.errors import CapacityError, EinmapError, MappingError, NoMappingError, Remedy
from einmap.mapper.compose.nothing_fits.whether import Whether
from einmap.mapper.infeasibility.diagnosis import REPORTED, hint_of
from einmap.mapper.infeasibility.oracle import UndecidedError
from einmap.mapper.infeasibility.remedy_steps import bits, grain
from einmap.mapper.problem.problem import Problem
from einmap.mapper.result.outcome import evaluated
from einmap.progress import Progress
from einmap.spec.raw import format_path
from einmap.spec.spec import Spec

UNLIMITED = 2**60
"""Bits of a memory in which everything fits; a power of two, so that its used part is known exactly."""
ROOM = 2.0
"""By how much a size grows from one try to the next while nothing fits."""
LONGEST = 10.0
"""Seconds for what would help."""


def explain_infeasible_cascade(
    problem: Problem, error: MappingError | NoMappingError, token: Progress, *, fuse: bool
) -> NoMappingError:
    """The error for a workload that has no mapping, with changes of which each was tried on the whole workload.

    `error`: what is wrong where each Einsum is mapped by itself. For each finite memory the least size is searched
    with which there is a mapping; that takes no longer than is left of the time, and 10 s where there is no limit.
    """
    spec, limit = problem.spec, min(max(token.seconds_left(), 1.0), LONGEST)
    whether = Whether(problem.options, fuse, token.within(limit))
    single = len(spec.workload.einsums) == 1
    sizes = Sizes(spec, whether)
    remedies: list[Remedy] = []
    complete = True
    if isinstance(error, NoMappingError):
        # first, because one look at the whole workload decides each
        remedies, complete = checked(spec, error.remedies, whether)
        complete = complete and error.complete
    if not single:
        # of several Einsums each may need another size, and fused less than by itself
        remedies = [remedy for remedy in remedies if not sizes.may_be_less(remedy)]
        more, decided = sizes.remedies(without={name for remedy in remedies for name, _ in remedy.settings})
        remedies, complete = remedies + more, complete and decided
    remedies = sorted(remedies, key=lambda remedy: remedy.size)[:REPORTED]
    at = remedies[0].at if remedies else error.at
    return NoMappingError(
        _text(error, fuse), at=at, hint=hint_of(remedies, complete), remedies=remedies, complete=complete
    )


def _text(error: MappingError | NoMappingError, fuse: bool) -> str:
    if isinstance(error, NoMappingError):
        return f"no fused mapping fits, and Einsum by Einsum: {error.message}" if fuse else error.message
    if isinstance(error, CapacityError):
        return f"each Einsum has mappings, but none of them fit together: {error.message}"
    return "each Einsum has mappings, but none of them fit together"


def checked(spec: Spec, remedies: Sequence[Remedy], whether: Whether) -> tuple[list[Remedy], bool]:
    """The changes with which the whole workload has a mapping, and whether that was decided for each."""
    kept, complete = [], True
    for remedy in remedies:
        changed = spec
        try:
            for path, value in remedy.settings:
                changed = changed.set(path, value)
            if whether.mapping(changed) is not None:
                kept.append(remedy)
        except UndecidedError:
            complete = False
        except EinmapError:
            # another expression speaks of what was changed, and is wrong now
            continue
    return kept, complete


@dataclass(frozen=True)
class Sizes:
    """Looks for sizes of memories with which a workload has a mapping."""

    spec: Spec
    whether: Whether

    def remedies(self, without: AbstractSet[str]) -> tuple[list[Remedy], bool]:
        """One for each memory whose size alone helps, and whether all were tried; fields of `without` are not."""
        remedies: list[Remedy] = []
        complete = True
        for field, memory in self.memories().items():
            if field in without:
                continue
            try:
                least = self.least(field, memory)
            except UndecidedError:
                complete = False
                continue
            if least is not None:
                shown = self.spec.provenance(field)
                size = least * memory.parts
                text = f"{shown.path}: {bits(size)} instead of {bits(memory.size_bits * memory.parts)}"
                ratio = least / memory.size_bits if memory.size_bits else math.inf
                remedies.append(Remedy(text, ((field, size),), ratio, shown))
        return remedies, complete

    def may_be_less(self, remedy: Remedy) -> bool:
        """Whether it is the size of a memory, and no Einsum needs that much by itself; not where time is over."""
        (field, value), *others = remedy.settings
        memory = self.memories().get(field)
        if memory is None or others:
            return False
        assert isinstance(value, int | float)
        try:
            return not self.whether.needs(self.spec, memory.name, value / memory.parts)
        except UndecidedError:
            return False

    def memories(self) -> dict[str, Memory]:
        """The finite memories by the path of their size, with the least size that any Einsum sees."""
        smallest: dict[str, Memory] = {}
        for leaf in self.spec.arch_inputs.leaves:
            finite = [memory for memory in self.everywhere(leaf.given.name) if math.isfinite(memory.size_bits)]
            if finite:
                smallest[format_path((*leaf.path, "size"))] = min(finite, key=lambda memory: memory.size_bits)
        return smallest

    def least(self, field: str, memory: Memory) -> int | None:
        """The least bits (of each half) with which there is a mapping; None if no size is enough.

        No size below what some Einsum needs by itself will do, and mostly that is enough. Else it is bisected.
        """
        # what mappings need is a multiple of the grain, so no other sizes need be tried
        step = math.gcd(*(grain(other) for other in self.everywhere(memory.name)))
        low, alone = math.floor(memory.size_bits / step), -(-self.whether.least(self.spec, memory.name) // step)
        if alone > low:
            # mostly enough: one look at the whole workload instead of many
            if self.whether.mapping(self.spec.set(field, alone * step * memory.parts)) is not None:
                return alone * step
            low = alone
        enough = self.needed(self.spec.set(field, UNLIMITED), memory.name)
        if enough is None:
            return None
        high = max(-(-enough // step), low + 1)
        while high - low > 1:
            # sizes that do are mostly near the one that is there: the first tries are
            middle = min((low + high) // 2, max(int(low * ROOM), low + 1))
            needed = self.needed(self.spec.set(field, middle * step * memory.parts), memory.name)
            if needed is None:
                low = middle
            else:
                high = min(middle, max(-(-needed // step), low + 1))
        return high * step

    def needed(self, spec: Spec, memory: str) -> int | None:
        """The bits of a memory that some mapping needs; None if there is no mapping.

        Raises UndecidedError when time is over.
        """
        mapping = self.whether.mapping(spec)
        if mapping is None:
            return None
        size = max(each.size_bits for each in self.everywhere(memory, spec))
        usage = evaluated(spec, mapping, self.whether.options.rules).cost.memory_usage
        part = max((row.usage for row in usage if row.component == memory), default=0.0)
        return math.ceil(round(part * size, 6))

    def everywhere(self, memory: str, spec: Spec | None = None) -> list[Memory]:
        """A memory as each Einsum sees it; nothing where the name is that of something else."""
        components = (bound.arch.find(memory) for bound in (spec or self.spec).bound.values())
        return [component for component in components if isinstance(component, Memory)]
