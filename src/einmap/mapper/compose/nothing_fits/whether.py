"""Whether a workload has any mapping: what hints are checked with before they are given.

Three answers, the quickest first: no, since an Einsum does not fit by itself whatever the others do; yes, since the
smallest tiles of each Einsum fit together without fusion; else what a fused search says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import MappingError
from einmap.mapper.branch_and_bound.isomorphism import rules_key
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.infeasibility.oracle import Oracle, UndecidedError, resized
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_fused
from einmap.mapper.result.outcome import evaluated
from einmap.mapping.mapping import Mapping
from einmap.progress import Progress
from einmap.spec.spec import Spec


@dataclass
class Whether:
    """Answers for one workload on changed architectures. `fuse`: whether mappings may fuse Einsums."""

    options: Options
    fuse: bool
    token: Progress
    oracles: dict[str, Oracle] = field(default_factory=dict)
    """By the first of the Einsums that are alike."""

    def __post_init__(self) -> None:
        self.options = replace(self.options, goals=("energy",), max_evaluations=None, brute_force=False)

    def mapping(self, spec: Spec) -> Mapping | None:
        """Some mapping, None if there is none. Raises UndecidedError when that is not found out in time."""
        if not all(oracle.admits(spec.bound[name].arch) for name, oracle in self.each(spec)):
            return None
        try:
            unfused = IndependentSearch(spec, self.options).first_found()
            if unfused is not None:
                evaluated(spec, unfused, self.options.rules, strict=True)
                return unfused
        except MappingError:
            pass
        if not self.fuse or self.token.stopped:
            raise UndecidedError
        search = FusedSearch(spec, self.options)
        mappings = search.run(self.token)
        if not mappings and (search.meter.cut or self.token.stopped):
            raise UndecidedError
        return mappings[0] if mappings else None

    def each(self, spec: Spec) -> Iterator[tuple[str, Oracle]]:
        """The distinct Einsums that tables can search, and who says whether they fit."""
        seen: set[Any] = set()
        cascade = FusedSearch(spec, self.options)
        whole = IndependentSearch(spec, self.options)
        for einsum in spec.workload.einsums:
            bound = spec.bound[einsum.name]
            request = cascade.request(einsum) if self.fuse else whole.request(einsum.name)
            kinds = tuple((a.tensor in request.shared, a.tensor in request.intermediates) for a in einsum.accesses)
            key = bound.like, kinds, einsum.n_instances
            if key in seen:
                continue
            seen.add(key)
            rules = rules_key(einsum, bound.arch), kinds, einsum.n_instances
            if rules in seen or why_not_fused(einsum, bound.arch, ("energy",)) is not None:
                continue
            seen.add(rules)
            yield einsum.name, self.oracle(einsum, request, whole.weight(einsum))

    def oracle(self, einsum: Einsum, request: Request, times: int) -> Oracle:
        """Who says whether an Einsum fits by itself."""
        if einsum.name not in self.oracles:
            self.oracles[einsum.name] = Oracle(einsum, request, self.token, times)
        return self.oracles[einsum.name]

    def needs(self, spec: Spec, memory: str, bits: float) -> bool:
        """Whether some Einsum by itself needs so many bits of a memory. Raises UndecidedError."""
        for name, oracle in self.each(spec):
            fit = oracle.fit(boundless(spec.bound[name].arch, memory), memory)
            if fit is not None and fit.is_least and fit.bits(memory) >= bits:
                return True
        return False

    def least(self, spec: Spec, memory: str) -> int:
        """Bits that a memory needs at least for each distinct Einsum by itself, the most of them.

        As far as that is found out in time; 0 where some Einsum does not fit however large the memory is.
        """
        most = 0
        for name, oracle in self.each(spec):
            arch = spec.bound[name].arch
            try:
                fit = oracle.fit(boundless(arch, memory), memory)
            except UndecidedError:
                break
            if fit is None:
                return 0
            if fit.is_least:
                most = max(most, fit.bits(memory))
        return most


def boundless(arch: Architecture, memory: str) -> Architecture:
    """The architecture with room for everything in a memory, if it has a memory of this name."""
    return resized(arch, memory, math.inf) if isinstance(arch.find(memory), Memory) else arch
