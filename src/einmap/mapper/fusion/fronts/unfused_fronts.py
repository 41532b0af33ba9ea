"""Fronts of an Einsum that cannot be fused: its mappings by itself.

All mappings with each tensor backed outside are looked at, and some that keep intermediate tensors whole in inner
memories: with tables where these know the Einsum by itself, else one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture, outermost_memory
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.errors import NotSupportedError
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.exhaustive.brute_force import backs, brute_force
from einmap.mapper.fusion.fronts.listed_fronts import ListedFronts
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key
from einmap.mapper.fusion.fronts.protocol import FrontMemories, FusedFront
from einmap.mapper.fusion.meter import Meter
from einmap.mapper.mapspace.dataplacement import backings
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_searchable
from einmap.mapping import nodes as tree
from einmap.model.counting.path import path_of
from einmap.model.occupancy.occupancy import buffers_of
from einmap.model.traffic.einsum_traffic import EinsumTraffic

MOST_WAYS = 64
"""Choices of inner memories for an Einsum's intermediate tensors that are tried."""
MOST_TRIED = 50_000
"""Mappings that are tried for each of them."""


@dataclass(eq=False)
class UnfusedFronts(ListedFronts):
    """The best mappings of one Einsum by itself. `why`: why there are no others."""

    einsum: Einsum
    arch: Architecture
    request: Request
    why: str
    meter: Meter
    seed: tuple[int, int]
    complete: bool = True
    space: FrontMemories = field(default_factory=FrontMemories)
    """The memories of the columns of fronts, once they are known."""
    signatures: dict[FusionSignature, list[int]] = field(default_factory=dict)

    def least(self, weights: Floats) -> Floats:
        """For each row of weights what every mapping costs at least."""
        if not self.optimum.values:
            return np.full(len(weights), np.inf)
        least: Floats = (np.array(self.optimum.values) @ weights.T).min(axis=0)
        return least

    @property
    def covers_mapspace(self) -> bool:
        """Whether the chains are all that the mapspace of the Einsum has."""
        return self.complete and not self.request.intermediates

    @property
    def why_brute_force(self) -> str | None:
        """Why the Einsum is searched by brute force, None where it is not."""
        return None if self.has_tables else self.why

    @property
    def omissions(self) -> tuple[str, ...]:
        """Mappings that were not searched, in words."""
        inside = sorted(self.request.intermediates) if self.has_tables else ()
        kept = f"mappings that keep {' or '.join(inside)} of {self.einsum.name} inside tile by tile, since {self.why}"
        return (*self.optimum.without, *((kept,) if inside else ()))

    @cached_property
    def has_tables(self) -> bool:
        """Whether tables know the Einsum by itself."""
        if self.request.steps is not None or why_not_searchable(self.einsum, self.arch, self.request.goals) is not None:
            return False
        return not any(path.lanes_above() for path in self._search({}).paths)

    def may_stand_below_loops(self, memory: str) -> bool:
        """Whether fused loops may stand above the outermost node of a shared tensor in a memory."""
        del memory
        return False

    def __post_init__(self) -> None:
        """Search; mappings by what other Einsums see of them."""
        rng = np.random.default_rng(list(self.seed))
        self.optimum: Optimum = self._found({}, self.meter.left, rng)
        self.complete = self.optimum.complete
        self._count(self.optimum)
        self._keep_inside(rng)
        self.used: list[dict[str, float]] = []
        self.backings: list[dict[int, tuple[str, float]]] = []
        for row, mapping in enumerate(self.optimum.mappings):
            path = path_of(mapping, self.einsum, self.arch)
            counts = {t.access.tensor: t.counts for t in EinsumTraffic(path, self.request.rules).tensors}
            used: dict[str, float] = {}
            backed: dict[int, tuple[str, float]] = {}
            for buffer in buffers_of(path, self.request.rules, counts, 1):
                bits = float(buffer.bits)
                if buffer.backing and buffer.tensor in self.request.shared:
                    t = next(i for i, a in enumerate(self.einsum.accesses) if a.tensor == buffer.tensor)
                    access = self.einsum.accesses[t]
                    own = access.footprint(self.einsum.extents)
                    wider = self.request.wider.get(buffer.tensor, 1) * Fraction(
                        own, access.stored(own, self.einsum.extents)
                    )
                    bits = float(Fraction(bits) * wider)
                    backed[t] = (buffer.memory.name, bits)
                if not buffer.persistent:
                    used[buffer.memory.name] = used.get(buffer.memory.name, 0.0) + bits
            self.used.append(used)
            self.backings.append(backed)
            keys = tuple(sorted((t, Key(memory, ())) for t, (memory, _) in backed.items()))
            self.signatures.setdefault(FusionSignature(keys, (), (), ()), []).append(row)

    def _search(self, inside: Mapping[str, str]) -> EinsumSearch:
        """A search with tables of mappings that keep some tensors whole in inner memories, others outside."""
        kept = frozenset(inside)
        ranks = ((a.tensor, rank) for a in self.einsum.accesses if a.tensor in kept for rank, _ in a.projection)
        request = replace(self.request, shared=kept, intermediates=kept, uncut=frozenset(ranks))
        search = EinsumSearch.over_all(self.einsum, self.arch, request, self.meter.progress)
        for path in search.paths:
            path.plans = [plan for plan in path.plans if backs(plan.placement, inside)]
        return search

    def _found(self, inside: Mapping[str, str], most: float, rng: np.random.Generator) -> Optimum:
        """The best mappings that keep some tensors whole in inner memories. Raises NotSupportedError."""
        if not self.has_tables:
            return brute_force(
                self.einsum, self.arch, self.request, self.meter.progress, most, rng, backed=dict(inside)
            )
        search = self._search(inside)
        search.max_work = self.meter.left
        return replace(search.run(), without=search.pruned)

    def _count(self, optimum: Optimum) -> None:
        self.meter.work += optimum.work
        self.meter.nodes += optimum.nodes

    def _keep_inside(self, rng: np.random.Generator) -> None:
        """Add the best mappings found with intermediate tensors whole in inner memories, for each choice of these."""
        inside = self.request.intermediates
        ways: dict[tuple[tuple[str, str], ...], None] = {}
        for unit in self.arch.computes if inside else ():
            for held in backings(self.einsum, self.arch.path(unit.name), self.einsum.tensors - inside):
                # in units of an array each Einsum might look for a tensor elsewhere
                in_units = any(self._is_spread(held[t]) for t in inside)
                if unit.enabled and len(ways) < MOST_WAYS and not in_units:
                    ways.setdefault(tuple(sorted((t, held[t]) for t in inside)))
        for way in ways:
            if self.meter.stopped:
                return
            most = min(self.meter.left, MOST_TRIED)
            try:
                inside_optimum = self._found(dict(way), most, rng)
            except NotSupportedError:
                continue  # none of these can be counted; that some are left out is said anyway
            self._count(inside_optimum)
            self.optimum = replace(
                self.optimum,
                values=[*self.optimum.values, *inside_optimum.values],
                mappings=[*self.optimum.mappings, *inside_optimum.mappings],
            )

    def _is_spread(self, memory: str) -> bool:
        """Whether a memory is several units of an array."""
        leaf = self.arch.find(memory)
        return isinstance(leaf, Memory) and leaf.is_spread

    def bounds(self, signature: FusionSignature) -> Floats:
        """Costs of a signature, a row for each mapping."""
        return np.array([self.optimum.values[row] for row in self.signatures[signature]])

    def backed(self, signature: FusionSignature) -> dict[int, tuple[str, float]]:
        """For each shared tensor (by its position) the memory that backs it, and the bits that it takes there."""
        return self.backings[self.signatures[signature][0]]

    def sizes(self) -> dict[str, float]:
        """Bits of each memory that is not boundless."""
        memories = [m for m in self.arch.components.values() if isinstance(m, Memory)]
        return {memory.name: memory.size_bits for memory in memories if math.isfinite(memory.size_bits)}

    def kept_in(self) -> set[str]:
        """Memories in which something may stay while other Einsums run: those that back shared tensors."""
        return {memory for backed in self.backings for memory, _ in backed.values()}

    def persistent(self) -> dict[str, float]:
        """Bits of each memory that persistent tensors take (one instance)."""
        bits_of: dict[str, float] = {}
        for mapping in self.optimum.mappings[:1]:
            for node in mapping.nodes:
                if isinstance(node, tree.Storage) and node.persistent:
                    memory = self.arch.find(node.component)
                    assert isinstance(memory, Memory)
                    for tensor in node.tensors:
                        held = self.einsum.by_tensor[tensor]
                        values = held.stored(held.footprint(self.einsum.extents), self.einsum.extents)
                        bits = values * memory.bits[tensor]
                        bits_of[memory.name] = bits_of.get(memory.name, 0.0) + bits
        return bits_of

    def front(self, signature: FusionSignature, space: FrontMemories) -> FusedFront:
        """All mappings of a signature: costs, bits in use."""
        persistent, rows = self.persistent(), self.signatures[signature]
        values = [
            [*self.optimum.values[row], *(self.used[row].get(m, 0.0) + persistent.get(m, 0.0) for m in space.memories)]
            for row in rows
        ]
        return FusedFront(np.array(values, dtype=np.float64), np.array(rows, dtype=np.int64)[:, None])

    def nodes_of(self, signature: FusionSignature, front: FusedFront, row: int) -> tuple[list[tree.Node], int]:
        """A mapping's nodes, each storage node with one tensor; how many are in the outermost memory."""
        del signature
        nodes: list[tree.Node] = []
        for node in self.optimum.mappings[int(front.paths[row, 0])].nodes:
            if isinstance(node, tree.Storage):
                nodes += [replace(node, tensors=(t,)) for t in node.tensors]
            else:
                nodes.append(node)
        last = nodes[-1]
        assert isinstance(last, tree.Compute)
        top = outermost_memory(self.arch.path(last.component))
        outer, n_outer = top.name if top is not None else None, 0
        while isinstance(node := nodes[n_outer], tree.Storage) and node.component == outer:
            n_outer += 1
        return nodes, n_outer
