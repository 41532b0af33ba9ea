"""Whether an Einsum has any mapping on an architecture: the first one found, or the proof of none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.brute_force import brute_force
from einmap.mapper.einsum_search import EinsumSearch, Request, why_not
from einmap.mapping.mapping import Mapping
from einmap.model.occupancy import Buffer, buffers_of
from einmap.model.path import path_of
from einmap.model.traffic import EinsumTraffic
from einmap.progress import Progress

ANY = 1e30
"""A tolerance so large that the first mapping found beats all others."""
EVALUATIONS = 50_000
"""Mappings that are tried to answer one question where only brute force can."""


class UndecidedError(Exception):
    """A question took more time or evaluations than there are."""


class _FirstFound(EinsumSearch):
    """A search that ends with the first mapping, and in time whether it has one or not."""

    @property
    def stopped(self) -> bool:
        return self.archive.n > 0 or self.progress.stopped

    def say(self) -> None:
        """Nothing: the oracle reports by itself."""


@dataclass
class Oracle:
    """Answers for one Einsum. `instances`: how often it runs; `asked`: questions so far."""

    einsum: Einsum
    request: Request
    progress: Progress
    instances: int = 1
    asked: int = 0

    def __post_init__(self) -> None:
        self.request = replace(self.request, goals=("latency",), tolerance=ANY)

    def mapping(self, arch: Architecture) -> Mapping | None:
        """Some mapping, None if there is none.

        Raises UndecidedError when the question was not answered in time.
        """
        if self.progress.stopped:
            raise UndecidedError
        self.asked += 1
        self.progress.report(f"{self.einsum.name}: nothing fits, looking for the least change", self.asked)
        if why_not(self.einsum, arch) is None:
            search = _FirstFound(self.einsum, arch, self.request, self.progress, self.instances)
            search.prepare()
            found = search.run()
        else:
            rng = np.random.default_rng(0)
            found = brute_force(self.einsum, arch, self.request, self.progress, EVALUATIONS, rng)
        if not found.mappings and not found.complete:
            raise UndecidedError
        return found.mappings[0] if found.mappings else None

    def admits(self, arch: Architecture) -> bool:
        """Whether there is a mapping. Raises UndecidedError."""
        return self.mapping(arch) is not None

    def held(self, mapping: Mapping, arch: Architecture, memory: str) -> Sequence[Buffer]:
        """The space that a mapping of the Einsum needs in one memory, tensor by tensor."""
        path = path_of(mapping, self.einsum, arch)
        counts = {t.access.tensor: t.counts for t in EinsumTraffic(path, self.request.rules).tensors}
        found = buffers_of(path, self.request.rules, counts, self.instances)
        return [buffer for buffer in found if buffer.memory.name == memory]


def bits_in(buffers: Sequence[Buffer]) -> int:
    """Bits that buffers need together, rounded up."""
    return math.ceil(math.fsum(float(buffer.bits) for buffer in buffers) - 1e-9)


def resized(arch: Architecture, memory: str, size: float) -> Architecture:
    """The same architecture with a memory of another size (bits)."""
    leaf = arch.find(memory)
    assert isinstance(leaf, Memory)
    return arch.with_leaf(replace(leaf, size_bits=size))
