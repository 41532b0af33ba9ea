"""What one stage of a Pipeline offers to the others: costs, busy times of what they have in common, and space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.mapper.fusion.budget import Budget
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.fronts.outer_nests import FusionSignature, SignatureClass
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.fronts.protocol import FrontMemories, FusedFront
from einmap.mapper.fusion.tree import LinearNest
from einmap.mapper.objectives import busy
from einmap.mapper.request import Request

TABLES = 50_000_000
"""Bytes of tables kept for one stage."""
COSTS = ("dynamic_energy", "latency")


@dataclass(eq=False)
class StageFronts:
    """The chains of one stage. `common`: components whose busy time matters; `memories`: those whose space does.

    `inside`: tensors that are handed on within the Pipeline; others that Einsums share stay in the outermost memory.
    """

    einsum: Einsum
    arch: Architecture
    request: Request
    common: tuple[str, ...]
    memories: tuple[str, ...]
    inside: frozenset[str]
    most_fused: tuple[float, float]
    budget: Budget
    _fronts: dict[FusionSignature, FusedFront] = field(default_factory=dict, init=False)

    @cached_property
    def chains(self) -> EinsumFronts:
        """The chains, listed when they are asked for."""
        planned = PlannedEinsum.of(self.einsum, self.arch, self.request, self.budget.progress)
        chains = EinsumFronts(planned, *self.most_fused, self.budget, TABLES)
        chains.select(FrontMemories(self.memories), frozenset(self.memories))
        return chains

    @cached_property
    def signatures(self) -> tuple[FusionSignature, ...]:
        """What the other stages may see, where tensors are kept as Pipelines need it."""
        width = len(self.request.goals)
        self.chains.least(np.ones((1, width)))
        self.chains.survey({c: None for c in self.chains.signature_classes if self._is_fit(c)})
        return tuple(s for s in self.chains.signatures if self._hands_on(s))

    @cached_property
    def outermost(self) -> str:
        """The outermost memory."""
        unit = next(unit for unit in self.arch.computes if unit.enabled)
        return next(leaf.name for leaf in self.arch.path(unit.name) if isinstance(leaf, Memory))

    def _is_fit(self, signature_class: SignatureClass) -> bool:
        names = [access.tensor for access in self.einsum.accesses]
        return all((memory != self.outermost) == (names[t] in self.inside) for t, memory in signature_class)

    def _hands_on(self, signature: FusionSignature) -> bool:
        """Whether what is handed on stands right above the Pipeline, below all loops that make its tiles."""
        names = [access.tensor for access in self.einsum.accesses]
        return all(
            len(key.loops) == (len(signature.loops) if names[t] in self.inside else 0) for t, key in signature.keys
        )

    def least(self, signature: FusionSignature) -> Floats:
        """Costs and busy times that no chain of a signature is below."""
        rows = self.chains.bounds(signature)
        return rows.min(axis=0) if len(rows) else np.full(len(self.request.goals), math.inf)

    def front(self, signature: FusionSignature) -> FusedFront:
        """The best chains of a signature. Raises StoppedError."""
        if signature not in self._fronts:
            fronts = self.chains.complete_outer_nests({signature: None})
            self.budget.go_on()
            empty = FusedFront(np.zeros((0, len(self.request.goals) + len(self.memories))), np.zeros((0, 2), np.int64))
            self._fronts[signature] = fronts.get(signature, empty)
        return self._fronts[signature]

    def own_bits(self, signature: FusionSignature) -> Floats:
        """Bits of each memory in use, without what shared tensors take where they are backed, for each chain."""
        n = len(self.request.goals)
        bits: Floats = self.front(signature).values[:, n : n + len(self.memories)].copy()
        for memory, taken in self.chains.backed(signature).values():
            if memory in self.memories:
                bits[:, self.memories.index(memory)] -= taken
        return bits

    def nest(self, signature: FusionSignature, row: int) -> LinearNest:
        """One chain."""
        nodes, n_outer = self.chains.nodes_of(signature, self.front(signature), row)
        backed = {self.einsum.accesses[t].tensor: len(key.loops) for t, key in signature.keys}
        return LinearNest(self.einsum.name, nodes, n_outer, len(signature.loops), backed)


def goals_of(common: Sequence[str]) -> tuple[str, ...]:
    """What is kept of each chain: costs, and how long common components are busy."""
    return (*COSTS, *(busy(name) for name in common))
