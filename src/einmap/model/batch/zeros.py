"""Lower bounds of expected costs over arrays of tile shapes, where tensors have zeros.

Tiles of perfect factors are alike: what is done is a dense count times the chance of what it waits for. So bounds are
the expected costs themselves, to rounding, unless tiles cut blocks of a structured density or lanes share an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from einmap.arch.component import Component, Compute, Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapping.template import Template
from einmap.model.batch.batch import Batch
from einmap.model.batch.einsum_cost import EinsumCost
from einmap.model.batch.zero_tables import SURE, Chance, Moved, ZeroTables
from einmap.model.counting.path import EinsumPath, Station, applies
from einmap.model.counting.reuse import TensorCounts
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.spatial import lanes_used
from einmap.model.sparsity.conditions import Condition, node_of, of_exchanges, of_operations
from einmap.model.sparsity.visits import Around
from einmap.model.timing.latency import busy_time, memory_time
from einmap.model.timing.systolic import skew_seconds
from einmap.model.timing.ways import alone
from einmap.model.traffic.actions import Actions, skipped, ways
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.tensor_traffic import EVERY, Exchange, Fixed, TensorTraffic


class ZerosBatch(Batch):
    """Lower bounds of one template of one Einsum for many tile shapes at a time; `BatchCost.totals` is left out."""

    def __init__(
        self, template: Template, einsum: Einsum, arch: Architecture, semantics: Semantics, tables: ZeroTables
    ) -> None:
        super().__init__(template, einsum, arch, semantics)
        self.tables = tables

    def costs_of(self, path: EinsumPath, traffic: EinsumTraffic) -> EinsumCost:
        """Least energy, power and latency of one instance."""
        return _Bounds(path, traffic, self.arch, self.tables).cost()

    def bits_of(self, path: EinsumPath, station: Station, counts: TensorCounts, *, backing: bool) -> Any:
        """Bits that the fullest tile of a station takes."""
        tensor, memory = counts.access.tensor, station.component
        if (memory.name, tensor) not in self.tables.sparsity.formats:
            return super().bits_of(path, station, counts, backing=backing)
        assert isinstance(memory, Memory)
        extents = self.tables.extents(tensor, _sizes(path, _around(path, station)))
        return self.tables.room(memory.name, tensor, extents, memory.bits[tensor])


@dataclass(frozen=True)
class _Part:
    """One way in which values of an exchange pass a station: the action, and what of it takes time.

    `busy`: actions of the component for each value that passes in a dense run.
    """

    tensor: TensorTraffic
    exchange: Exchange
    at: Station
    action: str
    way: str
    busy: Any

    def values(self, fixed: Fixed = EVERY) -> Any:
        """Values that pass in a dense run, in some lanes."""
        flow = self.tensor.flow(self.exchange, self.at, fixed)
        if self.way == "up":
            return flow.up
        return flow.live + flow.initial - skipped(self.tensor, self.exchange, self.at, flow)


class _Bounds:
    """Lower bounds of the costs of one path whose loops have arrays of shapes."""

    def __init__(self, path: EinsumPath, traffic: EinsumTraffic, arch: Architecture, tables: ZeroTables) -> None:
        self.path, self.traffic, self.arch, self.tables = path, traffic, arch, tables
        self.sparsity = tables.sparsity
        self.is_exact = not self.sparsity.may_exceed
        self.energy: Any = 0.0
        self.cuts: Any = False
        """Whether tiles cut blocks of a format, which no memory can hold."""
        self.parts: list[_Part] = []

    def cost(self) -> EinsumCost:
        """Least energy, power and latency."""
        looked_at = of_operations(self.sparsity, self.path)
        for tensor in self.traffic.tensors:
            nodes = [node_of(tensor, exchange) for exchange in tensor.exchanges]
            conditions = of_exchanges(self.sparsity, tensor, nodes)
            for exchange, node, waits in zip(tensor.exchanges, nodes, conditions, strict=True):
                self._exchange(tensor, exchange, node, waits)
            if not tensor.access.output:
                looked_at += conditions[0]
        operations, most = self.traffic.operations()
        compute = self.path.compute.component
        done, timed = self._done_and_timed(looked_at)
        self.energy = self.energy + operations * compute.actions_scale * self._each(compute, "compute", done, timed)
        power: Any = 0.0
        for _, _, watts in self.arch.drawn(compute.name, lanes_used(self.path)):
            power = power + watts
        energy = np.where(self.cuts, np.inf, self.energy) if np.any(self.cuts) else self.energy
        return EinsumCost(energy, power, self._latency(most * timed.least), {})

    def _done_and_timed(self, conditions: Sequence[Condition]) -> tuple[Chance, Chance]:
        """Chances that something is done, and that it takes time: that all conditions, or those that skip, are met."""
        done = self._met(conditions)
        skipping = [c for c in conditions if c.skips]
        timed = done if len(skipping) == len(conditions) else self._met(skipping)
        self.is_exact = self.is_exact and done.is_exact and timed.is_exact
        return done, timed

    def _met(self, conditions: Sequence[Condition]) -> Chance:
        """Boxes of one tensor lie in one another: the least chance decides. Different tensors are independent."""
        by_leader: dict[str, Chance] = {}
        for condition in dict.fromkeys((c.leader, c.node) for c in conditions):
            leader, node = condition
            chance = self.tables.chance(leader, _sizes(self.path, node), _lanes(self.path, node))
            before = by_leader.get(leader)
            by_leader[leader] = chance if before is None else before.smaller(chance)
        whole = SURE
        for chance in by_leader.values():
            whole = whole.both(chance)
        return whole

    def _each(self, unit: Component, action: str, done: Chance, timed: Chance) -> Any:
        """Least J for each action of a dense run, which is done, gated or skipped."""
        energies = self.sparsity.energies
        full = unit.action(action).energy
        gated, skip = (energies.get((unit.name, f"{state}_{action}"), 0.0) for state in ("gated", "skipped"))
        least = skip
        for weight, chance in ((full - gated, done), (gated - skip, timed)):
            if weight:
                least = least + weight * (chance.least if weight > 0 else chance.most)
        return least

    def _exchange(
        self, tensor: TensorTraffic, exchange: Exchange, node: Around, conditions: Sequence[Condition]
    ) -> None:
        name = tensor.access.tensor
        done, timed = self._done_and_timed(conditions)
        extents = self.tables.extents(name, _sizes(self.path, node))
        for at in exchange.chain:
            if isinstance(at.component, Compute):
                continue
            unit = at.component
            for action, way in ways(tensor, exchange, at):
                form = at if isinstance(unit, Memory) else (exchange.parent if way == "down" else exchange.child)
                kept, stored = 1.0, self._stored(tensor, exchange, form, extents)
                if stored is not None:
                    kept = stored.values
                elif self.sparsity.compresses(form.component.name, name):
                    kept = self.sparsity.densities[name].part
                per_value = unit.action(action).actions_per_value[name]
                busy = timed.least * kept * per_value
                energy = kept * per_value * self._each(unit, action, done, timed)
                if isinstance(unit, Memory) and (unit.name, name) in self.sparsity.formats and unit.bits[name]:
                    more = self._metadata(tensor, at, extents, stored)
                    is_own, shares = unit.name in self.sparsity.own_metadata, self.sparsity.shares_metadata
                    per_bit = per_value / unit.bits[name]
                    if shares or not is_own:
                        busy = busy + timed.least * more * per_bit
                    joule = unit.action(action).energy * per_bit
                    if is_own:
                        joule = self.sparsity.energies.get((unit.name, f"metadata_{action}"), 0.0)
                    energy = energy + (done if shares else timed).least * more * joule
                part = _Part(tensor, exchange, at, action, way, busy)
                values = part.values()
                if not isinstance(values, int | float) or values:
                    self.energy = self.energy + values * energy * unit.actions_scale
                    self.parts.append(part)

    def _stored(self, tensor: TensorTraffic, exchange: Exchange, form: Station, extents: Sequence[Any]) -> Moved | None:
        """Values and metadata of what passes, as a memory stores it; None where they do not depend on its tile."""
        name, memory = tensor.access.tensor, form.component.name
        if not self.tables.is_parted(memory, name):
            return None
        held = extents
        if form is not exchange.child:
            held = self.tables.extents(name, _sizes(self.path, _around(self.path, form)))
        keeps = [self.tables.keeps_blocks(memory, name, lengths) for lengths in (extents, held)]
        self.cuts = np.logical_or(self.cuts, np.logical_not(keeps[0] & keeps[1]))
        self.is_exact = False
        return self.tables.moved(memory, name, extents, held)

    def _metadata(self, tensor: TensorTraffic, at: Station, extents: Sequence[Any], stored: Moved | None) -> Any:
        """Bits of metadata for each value that a memory reads or writes in a dense run; `extents`: of what passes."""
        name, memory = tensor.access.tensor, at.component.name
        if self.sparsity.shares_metadata:
            held = self.tables.extents(name, _sizes(self.path, _around(self.path, at)))
            return self.tables.share(memory, name, held)
        if stored is not None:
            return stored.metadata
        return self.tables.metadata(memory, name, extents) / prod(extents)

    # time

    def _latency(self, operations: Any) -> Any:
        path, latency = self.path, 0.0
        busiest = {name: self._busiest(name) for name in dict.fromkeys(p.at.component.name for p in self.parts)}
        for leaf in path.leaves:
            if getattr(leaf, "total_latency", None) is not None and not self.is_exact:
                continue  # it need not rise with what is done
            if isinstance(leaf, Compute):
                calls = {"compute": operations * leaf.actions_scale}
                seconds = busy_time(leaf, calls, path.einsum.name) + skew_seconds(path, self.traffic)
            elif leaf.name in busiest:
                seconds = memory_time(path.arch.components[leaf.name], busiest[leaf.name], path.einsum.name)
            else:
                continue
            latency = np.maximum(latency, seconds)
        return np.maximum(latency, way) if (way := alone(path)) else latency

    def _busiest(self, name: str) -> Actions:
        """Least actions that take time, of the instance that has most of them."""
        parts = [part for part in self.parts if part.at.component.name == name]
        most = Actions(0, 0)
        for fixed in self._differing(parts):
            total = {"read": 0.0, "write": 0.0}
            for part in parts:
                total[part.action] = total[part.action] + part.values(fixed) * part.busy
            most = most.most(Actions(total["read"], total["write"]))
        return most

    def _differing(self, parts: Sequence[_Part]) -> Iterator[Fixed]:
        """Lanes of a component that can be the busiest: see `EinsumTraffic.differing_lanes`."""
        level = parts[0].at.level
        outputs = [part.tensor.counts for part in parts if part.tensor.access.output]
        loops = [i for i in self.path.spatial_loops if (self.path.loops[i].level or 0) <= level]
        for lane in product(*(self.traffic.differing_lanes(i, outputs) for i in loops)):
            yield dict(zip(loops, lane, strict=True))


def _around(path: EinsumPath, station: Station) -> Around:
    """The loops around a station."""
    return Around(frozenset(i for i, loop in enumerate(path.loops) if applies(loop, station)), frozenset())


def _sizes(path: EinsumPath, node: Around) -> dict[str, Any]:
    """Values of each rank variable in a visit of a node."""
    sizes: dict[str, Any] = dict(path.einsum.extents)
    for i, loop in enumerate(path.loops):
        if i in node.applied:
            sizes[loop.variable] = loop.shape
    return sizes


def _lanes(path: EinsumPath, node: Around) -> Mapping[str, Any]:
    """Lanes that are looked at together at a node, by rank variable."""
    lanes: dict[str, Any] = {}
    outer: dict[str, Any] = dict(path.einsum.extents)
    for i, loop in enumerate(path.loops):
        if i in node.merged:
            lanes[loop.variable] = lanes.get(loop.variable, 1) * (outer[loop.variable] / loop.shape)
        outer[loop.variable] = loop.shape
    return lanes
