"""Why no mappings of a cascade fit together although each Einsum has some, and the least sizes that would do."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from einmap.arch.component import Memory
from einmap.errors import CapacityError, MappingError, NoMappingError, Remedy
from einmap.mapper.changes import bits, grain
from einmap.mapper.fusion.fused import FusedSearch
from einmap.mapper.options import Options
from einmap.mapper.oracle import UndecidedError
from einmap.mapper.reasons import MOST_SECONDS, REPORTED, hint_of
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.raw import format_path
from einmap.spec.spec import Spec

UNLIMITED = 2**60
"""Bits of a memory in which everything fits; a power of two, so that its used part is known exactly."""
ROOM = 2.0
"""By how much a size grows from one try to the next while nothing fits."""


def misfit(spec: Spec, asked: Options, found: MappingError | NoMappingError, token: Progress) -> NoMappingError:
    """The error for a cascade that has no mapping, fused or not.

    `found`: what is wrong where each Einsum is mapped by itself. For each finite memory the least size is searched
    with which there is a mapping; that takes no longer than is left of the time, and 20 s where there is no limit.
    """
    limit = MOST_SECONDS if token.deadline is None else min(max(token.deadline - time.monotonic(), 1.0), MOST_SECONDS)
    sizes = Sizes(spec, replace(asked, goals=("energy",), max_evaluations=None), token.within(limit))
    remedies, complete = sizes.remedies()
    if isinstance(found, NoMappingError):
        text = f"no fused mapping fits, and Einsum by Einsum: {found.message}"
        # sizes are larger there, since intermediate tensors are kept whole
        fields = sizes.memories()
        remedies += [one for one in found.remedies if not any(name in fields for name, _ in one.settings)]
    elif isinstance(found, CapacityError):
        text = f"each Einsum has mappings, but none of them fit together: {found.message}"
    else:
        text = "each Einsum has mappings, but none of them fit together"
    remedies = sorted(remedies, key=lambda remedy: remedy.size)[:REPORTED]
    at = remedies[0].at if remedies else found.at
    return NoMappingError(text, at=at, hint=hint_of(remedies, complete), remedies=remedies)


@dataclass(frozen=True)
class Sizes:
    """Looks for sizes of memories with which a cascade has a mapping."""

    spec: Spec
    options: Options
    token: Progress

    def remedies(self) -> tuple[list[Remedy], bool]:
        """One for each memory whose size alone helps, and whether all were tried."""
        found: list[Remedy] = []
        complete = True
        for field, memory in self.memories().items():
            try:
                least = self.least(field, memory)
            except UndecidedError:
                complete = False
                continue
            if least is not None:
                shown = self.spec.provenance(field)
                text = f"{shown.path}: {bits(least)} instead of {bits(memory.size_bits)}"
                ratio = least / memory.size_bits if memory.size_bits else math.inf
                found.append(Remedy(text, ((field, least),), ratio, shown))
        return found, complete

    def memories(self) -> dict[str, Memory]:
        """The finite memories by the path of their size, with the least size that any Einsum sees."""
        found: dict[str, Memory] = {}
        for leaf in self.spec.arch_inputs.leaves:
            finite = [one for one in self.everywhere(leaf.given.name) if math.isfinite(one.size_bits)]
            if finite:
                found[format_path((*leaf.path, "size"))] = min(finite, key=lambda one: one.size_bits)
        return found

    def least(self, field: str, memory: Memory) -> int | None:
        """The least bits with which there is a mapping, by bisection; None if no size is enough."""
        # what mappings need is a multiple of the grain, so no other sizes need be tried
        step = math.gcd(*(grain(one) for one in self.everywhere(memory.name)))
        needed = self.needed(field, UNLIMITED, memory.name)
        if needed is None:
            return None
        low, high = math.floor(memory.size_bits / step), max(-(-needed // step), 1)
        while high - low > 1:
            # sizes that do are mostly near the one that is there: the first tries are
            middle = min((low + high) // 2, max(int(low * ROOM), low + 1))
            needed = self.needed(field, middle * step, memory.name)
            if needed is None:
                low = middle
            else:
                high = min(middle, -(-needed // step))
        return high * step

    def needed(self, field: str, size: int, memory: str) -> int | None:
        """The bits of a memory that some mapping needs if it has this size; None if there is no mapping.

        Raises UndecidedError when time is over.
        """
        spec = self.spec.set(field, size)
        search = FusedSearch(spec, self.options)
        found = search.run(self.token)
        if not found:
            if search.effort.cut or self.token.stopped:
                raise UndecidedError
            return None
        usage = evaluate(spec, found[0], self.options.rules).memory_usage
        part = max((row.usage for row in usage if row.component == memory), default=0.0)
        return math.ceil(round(part * size, 6))

    def everywhere(self, memory: str) -> list[Memory]:
        """A memory as each Einsum sees it; nothing where the name is that of something else."""
        own = (bound.arch.find(memory) for bound in self.spec.bound.values())
        return [one for one in own if isinstance(one, Memory)]
