"""Whether an Einsum has any mapping on an architecture: the first one found, or the proof of none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.smallest_tiles import Fit, Smallest, why_not_smallest
from einmap.mapper.exhaustive.brute_force import brute_force
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_searchable
from einmap.mapping.mapping import Mapping
from einmap.model.counting.path import path_of
from einmap.model.occupancy.occupancy import buffers_of
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.progress import Progress

ANY = 1e30
"""A tolerance so large that the first mapping found beats all others."""
EVALUATIONS = 50_000
"""Mappings that are tried to answer one question where only brute force can."""


class UndecidedError(Exception):
    """A question took more time or evaluations than there are."""


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
        self.smallest = Smallest(self.einsum, self.request, self.instances)

    def fit(self, arch: Architecture, least: str | None = None) -> Fit | None:
        """Some mapping that fits, None if there is none; with `least`, one that needs few bits in that memory.

        Raises UndecidedError when the question was not answered in time.
        """
        if self.progress.stopped:
            raise UndecidedError
        self.asked += 1
        self.progress.report(f"{self.einsum.name}: nothing fits, looking for the least change", self.asked)
        searchable = why_not_searchable(self.einsum, arch, self.request.goals) is None
        for unit in arch.computes:
            if not unit.enabled:
                continue
            if searchable and why_not_smallest(arch.path(unit.name)) is None:
                fit, certain = self.smallest.fit(arch, unit.name, least, self.progress)
            else:
                fit, certain = self.searched(arch.only(unit.name), searchable)
            if fit is not None:
                return fit
            if not certain:
                raise UndecidedError
        return None

    def searched(self, arch: Architecture, searchable: bool) -> tuple[Fit | None, bool]:
        """Whether a search finds a mapping, with tables if that is possible."""
        if searchable:
            optimum = EinsumSearch.over_all(
                self.einsum, arch, self.request, self.progress, self.instances, first_only=True
            ).run()
        else:
            rng = np.random.default_rng(0)
            optimum = brute_force(self.einsum, arch, self.request, self.progress, EVALUATIONS, rng)
        if not optimum.mappings:
            return None, optimum.complete
        return self.needs(optimum.mappings[0], arch), True

    def admits(self, arch: Architecture) -> bool:
        """Whether there is a mapping. Raises UndecidedError."""
        return self.fit(arch) is not None

    def needs(self, mapping: Mapping, arch: Architecture) -> Fit:
        """The space that a mapping of the Einsum needs, tensor by tensor."""
        path = path_of(mapping, self.einsum, arch)
        counts = {t.access.tensor: t.counts for t in EinsumTraffic(path, self.request.rules).tensors}
        held: dict[str, tuple[tuple[str, float, float], ...]] = {}
        for buffer in buffers_of(path, self.request.rules, counts, self.instances):
            name, amount = buffer.memory.name, float(buffer.bits)
            bits = buffer.memory.bits[buffer.tensor]
            entry = (buffer.tensor, amount, amount / bits if bits else 0.0)
            held[name] = (*held.get(name, ()), entry)
        return Fit(held, is_least=False)


def resized(arch: Architecture, memory: str, size: float) -> Architecture:
    """The architecture with a memory of another size (bits)."""
    leaf = arch.find(memory)
    assert isinstance(leaf, Memory)
    return arch.with_leaf(replace(leaf, size_bits=size))
