"""Fronts of one Einsum of a Pipeline: costs, busy times of what they have in common, and space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL, Kind
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key, SignatureClass
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.fronts.protocol import FrontMemories, FusedFront
from einmap.mapper.fusion.fronts.table_store import TableStore
from einmap.mapper.fusion.meter import Meter
from einmap.mapper.fusion.tree import LinearNest
from einmap.mapper.objective.objectives import busy
from einmap.mapper.problem.request import Request

TABLES = 50_000_000
"""Bytes of tables kept for one stage."""
COSTS = ("dynamic_energy", "latency")


class Group(NamedTuple):
    """Signatures of an Einsum that are the same to the others: loops, and where shared tensors are backed."""

    loops: tuple[tuple[Kind, int], ...]
    keys: tuple[tuple[int, Key], ...]
    signatures: tuple[FusionSignature, ...]


class Row(NamedTuple):
    """A chain: its signature, and its number in the front of that."""

    signature: FusionSignature
    number: int


@dataclass(frozen=True)
class GroupRows:
    """The chains of a group, or of Einsums that take turns in a stage. Columns: `costs` and busy times added up.

    `running`: bits of each memory, less what stays, of the Einsum that needs most; `staying`: bits that stay while
    another Einsum of the stage runs. `origins`: the chain of each Einsum.
    """

    costs: Floats
    running: Floats
    staying: Floats
    origins: Sequence[tuple[Row, ...]]


@dataclass(eq=False)
class StageFronts:
    """The chains of one Einsum in a stage. `common`: components whose busy time matters.

    `memories`: those whose space matters, first the `n_common` that are not of one stage alone; `outside`: components
    on the way to the stages' own hardware. `inside`: tensors that are handed on within the Pipeline; others that
    Einsums share stay in the outermost memory. `in_turns`: whether other Einsums are in the stage.
    """

    einsum: Einsum
    arch: Architecture
    request: Request
    common: tuple[str, ...]
    memories: tuple[str, ...]
    n_common: int
    outside: frozenset[str]
    inside: frozenset[str]
    in_turns: bool
    most_fused: tuple[float, float]
    meter: Meter
    _fronts: dict[FusionSignature, FusedFront] = field(default_factory=dict, init=False)
    _rows: dict[tuple[FusionSignature, ...], GroupRows] = field(default_factory=dict, init=False)

    @cached_property
    def chains(self) -> EinsumFronts:
        """The chains, listed when they are asked for."""
        planned = PlannedEinsum.of(self.einsum, self.arch, self.request, self.meter.progress)
        chains = EinsumFronts(planned, *self.most_fused, self.meter, TableStore(TABLES, TABLES))
        chains.select(FrontMemories(self.memories), frozenset(self.memories))
        return chains

    @cached_property
    def signatures(self) -> tuple[FusionSignature, ...]:
        """Fusion signatures that the other stages see, where tensors are kept as Pipelines need it."""
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
        return all(
            memory != self.outermost and memory in self.outside if names[t] in self.inside else memory == self.outermost
            for t, memory in signature_class
        )

    def _hands_on(self, signature: FusionSignature) -> bool:
        """Whether what is handed on stands right above the Pipeline, below all loops that make its tiles."""
        names = [access.tensor for access in self.einsum.accesses]
        if self.in_turns and any(kind != TEMPORAL for kind, _ in signature.loops):
            return False
        return all(
            len(key.loops) == (len(signature.loops) if names[t] in self.inside else 0) for t, key in signature.keys
        )

    def least(self, group: Group) -> Floats:
        """Costs and busy times that no chain of a group is below."""
        rows = np.concatenate([self.chains.bounds(signature) for signature in group.signatures])
        return rows.min(axis=0) if len(rows) else np.full(len(self.request.goals), math.inf)

    def front(self, signature: FusionSignature) -> FusedFront:
        """The best chains of a signature. Raises StoppedError."""
        if signature not in self._fronts:
            fronts = self.chains.complete_outer_nests({signature: None})
            self.meter.go_on()
            width = len(self.request.goals) + len(self.memories) * (1 + len(signature.loops))
            empty = FusedFront(np.zeros((0, width)), np.zeros((0, 2), np.int64))
            self._fronts[signature] = fronts.get(signature, empty)
        return self._fronts[signature]

    def rows(self, group: Group) -> GroupRows:
        """The best chains of a group, without what shared tensors take where they are backed. Raises StoppedError."""
        if group.signatures not in self._rows:
            n, m, loops = len(self.request.goals), len(self.memories), len(group.loops)
            parts = [self.front(signature).values for signature in group.signatures]
            values = np.concatenate(parts)
            staying = values[:, n + m :].reshape(len(values), m, loops)[:, :, -1] if loops else values[:, :0]
            staying = staying.copy() if loops else np.zeros((len(values), m))
            used: Floats = values[:, n : n + m].copy()
            for memory, taken in self.chains.backed(group.signatures[0]).values():
                if memory in self.memories:
                    used[:, self.memories.index(memory)] -= taken
            origins = [
                (Row(signature, i),)
                for signature, part in zip(group.signatures, parts, strict=True)
                for i in range(len(part))
            ]
            self._rows[group.signatures] = GroupRows(values[:, :n].copy(), used - staying, staying, origins)
        return self._rows[group.signatures]

    def nest(self, row: Row) -> LinearNest:
        """One chain."""
        signature = row.signature
        nodes, n_outer = self.chains.nodes_of(signature, self.front(signature), row.number)
        backed = {self.einsum.accesses[t].tensor: len(key.loops) for t, key in signature.keys}
        return LinearNest(self.einsum.name, nodes, n_outer, len(signature.loops), backed)


def goals_of(common: Sequence[str]) -> tuple[str, ...]:
    """Objectives kept of each chain: costs, and how long common components are busy."""
    return (*COSTS, *(busy(name) for name in common))
