"""Tensors whose zeros savings look at on one path, and what is known of costs with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from einmap.arch.component import Memory, Toll
from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.cost_bounds.coefficients import Chain, Pricer
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.model.batch.zero_tables import ZeroTables
from einmap.numbers import divisors
from einmap.sparse.densities import Even, Structured
from einmap.sparse.formats import Format
from einmap.sparse.savings import SKIPPED


@dataclass(frozen=True, slots=True)
class Look:
    """A place at which zeros of `leader` are looked at, for what passes of `tensor` from a memory to the next node.

    `parent`, `child`: levels of the memory and the node. `skips`: whether what is saved takes no time.
    """

    tensor: str
    parent: int
    child: int
    leader: str
    skips: bool


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of which parts pass to the next node, stored with blocks, padding or dense tiles.

    `parent`, `child`: levels of the memory that holds it and of the node. `whole`: whether it is the whole tensor.
    """

    tensor: str
    parent: int
    child: int
    whole: bool


type Windows = Mapping[Look | Tile, tuple[int, int]]
"""Chances and tiles that are taken for granted at places: which of their levels, from the first to before the last.

Levels are told by `WindowedPricer.ranks` and `TilesPricer.tiles`.
"""


@dataclass(eq=False)
class LookingPricer(Pricer):
    """Coefficients with zeros: what is looked at. `every_use`: the uses of all fanouts, which say how many may share.

    `holds`: whether a memory may keep a tensor. `windows`: chances further out, where what stands there is known; None:
    anything may.
    """

    tables: ZeroTables = field(kw_only=True)
    every_use: LaneTable = field(kw_only=True)
    holds: Callable[[str, str], bool] = field(kw_only=True)
    windows: Windows | None = field(kw_only=True, default=None)

    # what savings look at

    def leaders(self, tensor: str | None, parent: int) -> tuple[dict[str, bool], dict[str, bool]]:
        """Tensors that are looked at for what passes of a tensor below a memory, and whether they skip.

        First those that its own savings look at, then those that savings of memories further out may look at. Chances
        that are taken for granted count as further out.
        """
        own = self._leading(self.leaves[parent].name, tensor)
        outer: dict[str, bool] = {}
        if self.windows is not None:
            granted = self.granted(tensor, parent)
            here = {look.leader for look in granted if look.parent == parent}
            for look in granted:
                outer[look.leader] = outer.get(look.leader, False) or look.skips
            return {leader: skips for leader, skips in own.items() if leader not in here}, outer
        for leaf in self.leaves[:parent]:
            if tensor is None or not self.holds(leaf.name, tensor):
                continue
            for leader, skips in self._leading(leaf.name, tensor).items():
                outer[leader] = outer.get(leader, False) or skips
        return own, outer

    def _leading(self, component: str, tensor: str | None) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for saving in self.tables.sparsity.at(component, tensor):
            for leader in saving.on:
                found[leader] = found.get(leader, False) or saving.state == SKIPPED
        return found

    def granted(self, tensor: str | None, parent: int) -> list[Look]:
        """The places at a memory and further out whose chances are taken for granted, for what passes of a tensor."""
        looks = [look for look in self.windows or () if isinstance(look, Look)]
        return [look for look in looks if look.tensor == tensor and look.parent <= parent]

    def looks(self, chains: Mapping[str, Chain]) -> tuple[Look | Tile, ...]:
        """The places of a dataplacement on whose chances, or tiles, depends what is paid further in."""
        found: list[Look | Tile] = []
        for access in self.einsum.accesses:
            exchanges = self.exchanges(chains[access.tensor])
            leading = [self._leading(self.leaves[exchange[0]].name, access.tensor) for exchange in exchanges]
            starts_anew = access.output and self._reduced(access.tensor)
            for at, (exchange, own) in enumerate(zip(exchanges[:-1], leading, strict=False)):
                for leader, skips in own.items():
                    others = [further.get(leader) for further in leading[at + 1 :]]
                    if starts_anew or any(other is None or other < skips for other in others):
                        found.append(Look(access.tensor, exchange[0], exchange[-1], leader, skips))
            for exchange in exchanges:
                if self.tables.is_parted(self.leaves[exchange[0]].name, access.tensor):
                    whole = exchange is exchanges[0]
                    found.append(Tile(access.tensor, exchange[0], exchange[-1], whole))
        return tuple(found)

    def _reduced(self, output: str) -> bool:
        """Whether several lanes may add to the same values of an output."""
        reduces = any(output in d.dimension.may_reuse for d in self.every_use.dimensions)
        return reduces and bool((self.merged(self.every_use, output) > 1).any())

    def shared(self, table: LaneTable, tensor: str, exchange: Chain) -> Ints:
        """Lanes whose tiles of each leader are looked at together in an exchange, (uses, leaders)."""
        columns = [self.together(table, tensor, exchange, leader) for leader in self.leaders(tensor, exchange[0])[0]]
        return np.stack(columns, axis=1).astype(np.int64) if columns else np.ones((len(table), 0), dtype=np.int64)

    def lanes_of(self, table: LaneTable, look: Look) -> Floats:
        """Lanes whose tiles of a leader are looked at together at a place."""
        return self.together(table, look.tensor, (look.parent, look.child), look.leader)

    def together(self, table: LaneTable, tensor: str, exchange: Chain, leader: str) -> Floats:
        """Lanes whose tiles of a leader are looked at together in an exchange."""
        merging = self._merging(table, tensor, exchange)
        return table.over(merging, self._irrelevant(tensor) & self._told_apart(leader))

    def _merging(self, table: LaneTable, tensor: str, exchange: Chain) -> Bools:
        """Dimensions whose lanes may share what an exchange brings of a tensor."""
        between = [exchange[0] < d.level <= exchange[-1] for d in table.dimensions]
        reused = [tensor in d.dimension.may_reuse for d in table.dimensions]
        merging: Bools = np.array(between, dtype=bool) & np.array(reused, dtype=bool)
        return merging

    def _told_apart(self, leader: str) -> Bools:
        """Axes along which lanes have different tiles of a tensor, which do not overlap."""
        access = self.einsum.by_tensor[leader]
        plain = {v for _, index in access.projection for v, _ in index.terms if len(index.terms) == 1}
        return np.array([axis.variables[0] in plain for axis in self.lattice.axes], dtype=bool)

    # what is known

    @property
    def is_exact(self) -> bool:
        """Whether costs are those of the model, for the lanes that it knows."""
        return self.may_be_exact and self.windows_are_exact

    @property
    def may_be_exact(self) -> bool:
        """Whether costs are those of the model where the windows are exact."""
        return self._may_be_exact and not self.tables.is_open

    @cached_property
    def _may_be_exact(self) -> bool:
        """Whether costs are those of the model where the windows are exact, once formats are chosen."""
        sparsity, memories = self.tables.sparsity, [i for i, x in enumerate(self.leaves) if isinstance(x, Memory)]
        if sparsity.may_exceed or not self._blocks_are_whole() or not self._parts_are_known():
            return False
        if sparsity.shares_metadata and any(memory != self.leaves[memories[0]].name for memory, _ in sparsity.formats):
            return False
        looked_at: list[str] = []
        for access in self.einsum.accesses:
            holding = [i for i in memories if self.holds(self.leaves[i].name, access.tensor)]
            both = [self.leaders(access.tensor, parent) for parent in holding]
            if self.windows is None and any(
                own.get(t) is None or own[t] < skips for own, outer in both for t, skips in outer.items()
            ):
                return False
            leading = [self._leading(self.leaves[parent].name, access.tensor) for parent in holding]
            looked_at += {} if access.output else dict.fromkeys(t for own in leading for t in own)
            has_format = any(tensor == access.tensor for _, tensor in sparsity.formats)
            waits = any(leading) and (self.windows is None or bool(sparsity.energies))
            if access.output and len(holding) > 1 and (has_format or waits) and self._reduced(access.tensor):
                return False
        return len(looked_at) == len(set(looked_at))

    @property
    def windows_are_exact(self) -> bool:
        """Whether the chances that are taken for granted are known, not only between two bounds."""
        return not self.windows

    def _parts_are_known(self) -> bool:
        """Whether what passes of tiles with blocks or padding is known where the tiles are."""
        tolls = any(isinstance(leaf, Toll) for leaf in self.leaves)
        for memory, tensor, fmt in self._formats():
            if not fmt.is_plain and (self.windows is None or not self.tables.has_plain_indices(tensor)):
                return False
            if fmt.is_padded and tolls:
                # the last lane of a fiber passes the padding
                return False
            if not fmt.is_plain and not self.lists_tiles(memory, tensor):
                return False
        return True

    def _formats(self) -> Iterator[tuple[str, str, Format]]:
        """All formats in which a memory may store a tensor."""
        for memory, tensor in self.tables.sparsity.formats:
            for fmt in self.tables.formats_of(memory, tensor):
                yield memory, tensor, fmt

    def lists_tiles(self, memory: str, tensor: str) -> bool:  # noqa: ARG002
        """Whether tiles that a memory may hold are listed with all parts of them."""
        return True

    def _blocks_are_whole(self) -> bool:
        """Whether no tile cuts blocks of a structured density elsewhere than other tiles of its shape."""
        for tensor, density in self.tables.sparsity.densities.items():
            if isinstance(density, Structured):
                rank = self.tables.sparsity.ranks[tensor][density.rank]
                index = dict(self.einsum.by_tensor[tensor].projection)[rank]
                if len(index.terms) != 1 or index.constant or index.terms[0][1] != 1:
                    return False
                if any(first for _, first in self.einsum.first_values):
                    return False
                lengths = divisors(dict(self.einsum.bounds)[index.terms[0][0]])
                if any(density.m % n and n % density.m for n in lengths):
                    return False
        return True

    @cached_property
    def may_prune(self) -> bool:
        """Whether a smaller tile with as many fills, and a larger visit with fewer, never cost more."""
        sparsity = self.tables.sparsity
        for _, tensor, fmt in self._formats():
            # else metadata of each value depends on the tile
            if len(fmt.levels) != 1 or fmt.levels[0].kind == "UOP" or isinstance(sparsity.densities[tensor], Even):
                return False
        return self._may_be_exact and self.windows_are_exact and not any(sparsity.energies.values())

    def known(self, table: LaneTable, chains: Mapping[str, Chain]) -> Bools:
        """Uses of the lanes in which those that share a tile are told apart by zeros as the model can."""
        known = np.ones(len(table), dtype=bool)
        for tensor, chain in chains.items():
            for exchange in self.exchanges(chain):
                merging = self._merging(table, tensor, exchange)
                for leader in self.leaders(tensor, exchange[0])[0]:
                    axes = self._irrelevant(tensor) & self._not_counted(leader)
                    known &= table.over(merging, axes) == 1
        return known

    def _not_counted(self, leader: str) -> Bools:
        """Axes along which lanes have tiles of a tensor that overlap, or that cut its blocks."""
        access, density = self.einsum.by_tensor[leader], self.tables.sparsity.densities[leader]
        ranks = self.tables.sparsity.ranks[leader]
        block = ranks[density.rank] if isinstance(density, Structured) else None
        odd = {v for rank, x in access.projection for v, _ in x.terms if len(x.terms) > 1 or rank == block}
        return np.array([axis.variables[0] in odd for axis in self.lattice.axes], dtype=bool)
