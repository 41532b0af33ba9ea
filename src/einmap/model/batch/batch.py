"""The cost model over arrays of tile shapes: one template, many choices at a time.

Everything that does not depend on tile shapes is worked out once; then counts, energy, latency and occupancy
are float64 arrays, one entry for each choice. Factors are perfect: every tile shape divides the next outer one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from einmap.arch.component import Memory, is_carrying
from einmap.arch.tree import Architecture
from einmap.arrays import Bools, Floats
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import EinmapError, NotSupportedError
from einmap.mapping.mapping import PlacedNode
from einmap.mapping.nodes import Node, PerEinsum, Spatial, Temporal
from einmap.mapping.template import OpenSpatial, OpenTemporal, Template
from einmap.model.batch.einsum_cost import EinsumCost, einsum_cost
from einmap.model.batch.recording import NotRecordable, Recording, Tape
from einmap.model.counting.path import EinsumPath, Station, path_from_nodes
from einmap.model.counting.reuse import Takes, TensorCounts
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.tiles import LARGEST, Count, Take
from einmap.model.counting.units import spread_of
from einmap.model.occupancy.occupancy import tile_takes
from einmap.model.timing.stalls import stalling
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.copies import stations_used
from einmap.model.traffic.einsum_traffic import EinsumTraffic

FEW = 48
"""Choices that are evaluated one by one; for more of them arrays are faster."""
RECORD_AT = 2
"""The visit of a template at which its formulas are recorded, which takes as long as some evaluations."""


@dataclass(frozen=True)
class BatchCost:
    """For each choice: `energy` (J), `latency` (s) of one instance of the Einsum, and whether every tile fits.

    `totals`: actions by component and tensor, arrays or numbers that hold for all choices.
    """

    energy: Floats
    latency: Floats
    fits: Bools
    totals: Mapping[tuple[str, str], Actions] = field(default_factory=dict)

    def accesses(self, component: str) -> Floats:
        """Reads and writes of a memory, for each choice."""
        total = np.zeros(len(self.energy))
        for (name, _), actions in self.totals.items():
            if name == component:
                total = total + actions.read + actions.write
        return total


class Batch:
    """Evaluates one template of one Einsum for many tile shapes at a time."""

    def __init__(self, template: Template, einsum: Einsum, arch: Architecture, semantics: Semantics) -> None:
        self.semantics = semantics
        self.path = _skeleton(template, einsum, arch)
        if (levels := stalling(self.path.leaves)) and not einsum.is_copy:
            name = self.path.leaves[levels[0]].name
            raise NotSupportedError(
                f"stalls tile by tile of {name!r} are counted of one mapping at a time",
                hint="leave out stalls: tile_by_tile",
            )
        self.arch = arch
        self.einsum = einsum
        self._visits = 0

    def evaluate(self, shapes: Sequence[Floats | int], n: int) -> BatchCost:
        """Costs of `n` choices. `shapes`: for each loop of the template an array of `n` tile shapes, or one int."""
        if self.is_one_by_one:
            return self._one_by_one(shapes, n)
        cost, conditions = self._formulas(shapes)
        fits = np.ones(n, dtype=bool)
        for condition in conditions:
            fits &= condition
        return BatchCost(_full(cost.energy, n), _full(cost.latency, n), fits, cost.totals)

    @cached_property
    def _moves_lines(self) -> bool:
        """Whether some memory on the path moves lines, whose numbers are no formulas of tile shapes."""
        return any(isinstance(leaf, Memory) and leaf.layout for leaf in self.path.leaves)

    @cached_property
    def is_one_by_one(self) -> bool:
        """Whether choices are evaluated one after another, which takes long.

        Instances may move different numbers of lines, so that the busiest has to be found, or lanes do so together, or
        lines lie in banks.
        """
        outermost = min((self.path.loops[i].level or 0 for i in self.path.spatial_loops), default=math.inf)
        memories = [(i, leaf) for i, leaf in enumerate(self.path.leaves) if isinstance(leaf, Memory)]
        layouts = [(i, layout) for i, memory in memories for _, layout in memory.layout]
        return any(i >= outermost or layout.together or layout.banks for i, layout in layouts)

    def _one_by_one(self, shapes: Sequence[Floats | int], n: int) -> BatchCost:
        """As `evaluate`, choice by choice."""
        table = np.empty((n, len(shapes)), dtype=np.int64)
        for column, shape in enumerate(shapes):
            table[:, column] = shape
        costs = []
        fits = np.ones(n, dtype=bool)
        for i, row in enumerate(table.tolist()):
            cost, conditions = self._formulas(row)
            costs.append(cost)
            fits[i] = all(conditions)
        totals = {
            key: Actions(*(np.array([getattr(cost.totals[key], way) for cost in costs]) for way in ("read", "write")))
            for key in (costs[0].totals if costs else ())
        }
        energy, latency = (np.array([getattr(cost, part) for cost in costs]) for part in ("energy", "latency"))
        return BatchCost(_full(energy, n), _full(latency, n), fits, totals)

    def evaluate_few(self, table: Floats) -> BatchCost:
        """Costs of a few choices, `totals` left out; `table`: a row for each choice, a column for each loop.

        A template that comes back is evaluated choice by choice from its recorded formulas.
        """
        self._visits += 1
        few = self._visits >= RECORD_AT and len(table) <= FEW and not self._counts_lanes
        recording = self._recording if few else None
        if recording is None:
            cost = self.evaluate(list(table.T), len(table))
            return BatchCost(cost.energy, cost.latency, cost.fits)
        found = [recording.repeat(row) for row in table.tolist()]
        energy, latency = (np.array([row[i] for row in found], dtype=np.float64) for i in (0, 1))
        return BatchCost(energy, latency, np.array([all(row[2:]) for row in found], dtype=bool))

    @cached_property
    def _recording(self) -> Recording | None:
        """Energy, latency and conditions of fitting, from tile shapes; None where a formula cannot be recorded."""
        if self._moves_lines:
            return None
        tape = Tape(len(self.path.loops))
        try:
            cost, conditions = self._formulas(tape.inputs())
            return Recording(tape, (cost.energy, cost.latency, *conditions))
        except (NotRecordable, EinmapError):
            return None

    def _formulas(self, shapes: Sequence[Any]) -> tuple[EinsumCost, list[Any]]:
        """Costs, and a condition for each memory of a limited size: its tiles fit. `shapes`: a value for each loop."""
        loops = tuple(
            replace(loop, shape=shape, divides=True, absent=False, iterations=lanes)
            for loop, shape, lanes in zip(self.path.loops, shapes, self._iterations(shapes), strict=True)
        )
        path = replace(self.path, loops=loops)
        traffic = EinsumTraffic(path, self.semantics)
        return self.costs_of(path, traffic), self._conditions(path, traffic)

    def costs_of(self, path: EinsumPath, traffic: EinsumTraffic) -> EinsumCost:
        """Costs of one instance, of a path whose loops have shapes."""
        return einsum_cost(path, traffic, self.arch)

    def _iterations(self, shapes: Sequence[Any]) -> Iterator[int]:
        """Lanes of each spatial loop where their number matters: the same for all choices."""
        extents: dict[str, Any] = dict(self.einsum.bounds)
        for loop, shape in zip(self.path.loops, shapes, strict=True):
            matters = loop.is_spatial and (self._counts_lanes or self.is_one_by_one)
            yield int(np.ravel(extents[loop.variable] / shape)[0]) if matters else loop.iterations
            extents[loop.variable] = shape

    @cached_property
    def _counts_lanes(self) -> bool:
        """Whether it matters where lanes stand: on a network, or next to units of a memory."""
        return any(is_carrying(leaf) or (isinstance(leaf, Memory) and leaf.is_spread) for leaf in self.path.leaves)

    # capacity

    def _conditions(self, path: EinsumPath, traffic: EinsumTraffic) -> list[Any]:
        bits: dict[str, Any] = {}
        sizes: dict[str, float] = {}
        used = stations_used(path) if path.einsum.is_copy else None
        for tensor in traffic.tensors:
            for station in tensor.stations:
                memory = station.component
                if used is not None and (tensor.access.tensor, station.position) not in used:
                    continue
                if isinstance(memory, Memory) and math.isfinite(memory.size_bits):
                    sizes[memory.name] = memory.size_bits
                    needed = self.bits_of(path, station, tensor.counts, backing=station is tensor.stations[0])
                    bits[memory.name] = bits.get(memory.name, 0) + needed
        return [needed <= sizes[name] for name, needed in bits.items()]

    def bits_of(self, path: EinsumPath, station: Station, counts: TensorCounts, *, backing: bool) -> Any:
        """Bits that the largest tile of a station takes; `backing`: whether it is the outermost of its tensor."""
        assert isinstance(station.component, Memory)
        return self._tile(path, station, counts, backing) * station.component.bits[counts.access.tensor]

    def _tile(self, path: EinsumPath, station: Station, counts: TensorCounts, backing: bool) -> Count:
        takes = tile_takes(path, station)
        spread = spread_of(path, counts, station)
        if spread is not None:
            return spread.fullest
        if backing:
            return counts.access.stored(counts.tile_values(takes), path.einsum.extents)
        if not self.semantics.lowering or path.einsum.is_copy:
            return counts.tile_values(takes)
        return _lowered(path, station, counts, list(takes))


def _full(values: Any, n: int) -> Floats:
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (n,)).copy()


def _skeleton(template: Template, einsum: Einsum, arch: Architecture) -> EinsumPath:
    """The path of a template; tile shapes are filled in later."""
    nodes: list[Node] = []
    for node in template.nodes:
        match node:
            case OpenTemporal(rank_variable=variable):
                nodes.append(Temporal(PerEinsum(variable), PerEinsum(1)))
            case OpenSpatial(rank_variable=variable, component=component, name=name):
                nodes.append(Spatial(PerEinsum(variable), PerEinsum(1), component, name))
            case _:
                nodes.append(node)
    return path_from_nodes(tuple(PlacedNode((i,), node) for i, node in enumerate(nodes)), einsum, arch)


def _lowered(path: EinsumPath, station: Station, counts: TensorCounts, takes: list[Take]) -> Count:
    """Values reserved by a holder that following relevant loops lower (`occupancy.lowered_takes`, over arrays).

    Loops of one iteration will not be written, so they neither stop nor use up the lowering. In a gap relevant
    loops come first, then partially relevant ones, of which the first that iterates is passed.
    """
    holders = {s.position for stations in path.stations.values() for s in stations}
    stop = min((p for p in holders if p > station.position), default=path.compute.position)
    partial: list[int] = []
    for index, loop in enumerate(path.loops):
        if not station.position < loop.position < stop:
            continue
        if loop.level is not None:
            if loop.level == station.level:
                continue
            break
        relevance = counts.relevance_of(index)
        if relevance is Relevance.NONE:
            break
        if relevance is Relevance.PARTIAL:
            partial.append(index)
        else:
            takes[index] = LARGEST
    values = counts.tile_values(tuple(takes))
    for index in reversed(partial):
        passed: Takes = (*takes[:index], LARGEST, *takes[index + 1 :])
        values = np.where(_iterates(path, index), counts.tile_values(passed), values)
    return values


def _iterates(path: EinsumPath, index: int) -> Any:
    loop = path.loops[index]
    outer: Any = path.einsum.extents[loop.variable]
    for i in path.loops_of[loop.variable]:
        if i == index:
            break
        outer = path.loops[i].shape
    return loop.shape < outer
