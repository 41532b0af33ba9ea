"""Runs a Pipeline turn by turn: every stage works on a tile of its own, on the visits of that tile.

In turn k a stage that waits for d others works on tile k - d. A storage node beside the Pipeline has a visit open for
each tile, or run of tiles, that some stage is still to work on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Protocol

from einmap.execute.recorder import Recorder
from einmap.execute.results.occupancy import Life, LiveBuffer, Occupancy, Together
from einmap.execute.tiles.visits import Visit, Visits
from einmap.mapping import nodes as tree
from einmap.mapping.nodes import Address
from einmap.mapping.pipelines import PlacedPipeline
from einmap.schedule.place import NodeTensor
from einmap.schedule.schedule import Schedule

type Iterations = tuple[int, ...]
type Times = dict[NodeTensor, dict[Iterations, int]]


class Walker(Protocol):
    """The walker of the rest of the tree."""

    schedule: Schedule
    clock: dict[Address, int]
    visits: Visits
    recorder: Recorder
    occupancy: Occupancy

    def walk(self, nodes: tuple[tree.Node, ...], prefix: Address, index: int) -> None:
        """Run a list of nodes from one of them on."""

    def open(self, key: NodeTensor) -> None:
        """Begin the visit of a storage node at the time of the clock."""

    def close(self, key: NodeTensor) -> None:
        """End it."""

    def space_of(self, key: NodeTensor, visit: Visit) -> LiveBuffer:
        """The space that a visit takes."""


@dataclass
class PipelineRun:
    """One run of a Pipeline and of the list of nodes that ends in it."""

    walker: Walker
    pipeline: PlacedPipeline
    nodes: tuple[tree.Node, ...]
    number: int
    versions: dict[NodeTensor, dict[Iterations, Visit]] = field(default_factory=dict)

    @property
    def prefix(self) -> Address:
        """The address of the list."""
        return self.pipeline.address[:-1]

    @cached_property
    def loops(self) -> list[Address]:
        """The temporal loops that make the tiles."""
        return [(*self.prefix, i) for i, node in enumerate(self.nodes) if isinstance(node, tree.Temporal)]

    @cached_property
    def tiles(self) -> list[Iterations]:
        """Iterations of the loops for each tile that any Einsum has."""
        routes = [self.walker.schedule.routes[name] for name in self.pipeline.stage_of]
        end = self._position
        most = [range(max(route.iterations[loop] for route in routes)) for loop in self.loops]
        found = []
        for iterations in product(*most):
            clock = {**self.walker.clock, **dict(zip(self.loops, iterations, strict=True))}
            if any(route.intervals(clock, (), -1, end) is not None for route in routes):
                found.append(iterations)
        return found

    @cached_property
    def _position(self) -> int:
        """Nodes above the Pipeline on the way from the root."""
        path = self.walker.schedule.mapping.path_of[next(iter(self.pipeline.stage_of))]
        return next(i for i, placed in enumerate(path) if placed.address == self.pipeline.address)

    @cached_property
    def held(self) -> list[NodeTensor]:
        """Tensors at the storage nodes of the list, from the outside in."""
        return [
            ((*self.prefix, i), tensor)
            for i, node in enumerate(self.nodes)
            if isinstance(node, tree.Storage)
            for tensor in node.tensors
            if ((*self.prefix, i), tensor) in self.walker.schedule.places
        ]

    def visit_of(self, key: NodeTensor, tile: Iterations) -> Iterations:
        """Which visit of a node a tile belongs to: iterations of the loops above it."""
        return tile[: sum(loop < key[0] for loop in self.loops)]

    def depths(self, key: NodeTensor) -> list[int]:
        """For how many stages each user of a node waits."""
        users = self.walker.schedule.places[key].users
        names = [route.einsum.name for route in users if route.einsum.name in self.pipeline.stage_of]
        return [self.pipeline.stage_of[name].depth for name in names]

    @cached_property
    def _edges(self) -> tuple[Times, Times]:
        """The turns in which each visit begins and ends."""
        begins: Times = {}
        ends: Times = {}
        for key in self.held:
            first, last = min(self.depths(key)), max(self.depths(key))
            for number, tile in enumerate(self.tiles):
                begins.setdefault(key, {}).setdefault(self.visit_of(key, tile), number + first)
                ends.setdefault(key, {})[self.visit_of(key, tile)] = number + last
        return begins, ends

    def run(self) -> None:
        """All turns."""
        begins, ends = self._edges
        turns = len(self.tiles) + self.pipeline.depth - 1
        for turn in range(turns):
            for key in self.held:
                for visit in [v for v, begin in begins[key].items() if begin == turn]:
                    self._open(key, visit)
            self._outer(turn, begin=True)
            self._turn(turn)
            self._outer(turn, begin=False)
            for key in reversed(self.held):
                for visit in [v for v, end in ends[key].items() if end == turn]:
                    self._close(key, visit)
        for loop in self.loops:
            self.walker.clock.pop(loop, None)

    def _turn(self, turn: int) -> None:
        """Each stage on its tile, the first one first: what the others read is not touched by it."""
        walker = self.walker
        begun = walker.recorder.step
        together = walker.occupancy.together = Together(frozenset(walker.occupancy.living))
        for stage in self.pipeline.stages:
            number = turn - stage.depth
            if 0 <= number < len(self.tiles):
                self._at(self.tiles[number])
                together.stage = stage.number
                walker.recorder.turn = (self.pipeline.address, self.number, number)
                walker.walk(self.pipeline.node.branches[stage.number], (*self.pipeline.address, stage.number), 0)
                walker.recorder.turn = None
        walker.occupancy.together = None
        if together.seen:
            stages = {stage.number: frozenset(stage.einsums) for stage in self.pipeline.stages}
            held = together.held(stages, self._is_private)
            walker.occupancy.note(begun, together.running, held)

    def _is_private(self, memory: str) -> bool:
        """Whether each stage has instances of a memory of its own."""
        routes = [self.walker.schedule.routes[name] for name in self.pipeline.stage_of]
        return any(self.pipeline.is_private(memory, route.arch.path(route.unit.name)) for route in routes)

    def _outer(self, turn: int, *, begin: bool) -> None:
        """Buffers further out that live for some stages alone, where the Pipeline has a single tile."""
        schedule = self.walker.schedule
        edges = schedule.begins if begin else schedule.ends
        for stage in self.pipeline.stages:
            for key in edges.get((*self.pipeline.address, stage.number), ()):
                if self.pipeline.beside(key[0]) or schedule.buffer_of(key) in schedule.lasting:
                    continue
                if begin and turn == min(self.depths(key)):
                    self._begin(key, key, self.walker.visits.open[key])
                elif not begin and turn == max(self.depths(key)):
                    self.walker.occupancy.end(key)

    def _begin(self, name: object, key: NodeTensor, visit: Visit) -> None:
        life = Life(*key, key[0], key[0])
        self.walker.occupancy.begin(name, self.walker.space_of(key, visit), life)

    def _open(self, key: NodeTensor, visit: Iterations) -> None:
        self._at(next(tile for tile in self.tiles if self.visit_of(key, tile) == visit))
        self.walker.open(key)
        opened = self.versions.setdefault(key, {})[visit] = self.walker.visits.open[key]
        if key not in self.walker.schedule.lasting:
            self._begin((key, visit), key, opened)

    def _close(self, key: NodeTensor, visit: Iterations) -> None:
        number = max(n for n, tile in enumerate(self.tiles) if self.visit_of(key, tile) == visit)
        self._at(self.tiles[number])
        self.walker.recorder.turn = (self.pipeline.address, self.number, number)
        self.walker.close(key)
        self.walker.recorder.turn = None
        del self.versions[key][visit]
        self.walker.occupancy.end((key, visit))

    def _at(self, tile: Iterations) -> None:
        """Set the clock to a tile, and the visits to those that it belongs to."""
        self.walker.clock.update(zip(self.loops, tile, strict=True))
        for key in self.held:
            version = self.versions.get(key, {}).get(self.visit_of(key, tile))
            if version is None:
                self.walker.visits.open.pop(key, None)
            else:
                self.walker.visits.open[key] = version
