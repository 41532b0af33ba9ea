"""Buffers that live at one time while the stages of a Pipeline work, each on a tile of its own.

Time goes in turns: in turn k a stage that waits for d others works on tile k - d. A buffer above the Pipeline, in the
same list of nodes, lives from the turn in which the first stage that uses it begins its visit to the turn in which the
last one ends it. So what is handed on to the next stage is held twice: the next tile is filled while this one is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from einmap.mapping.nodes import Address
from einmap.mapping.pipelines import PlacedPipeline, Stage
from einmap.model.counting.path import EinsumPath
from einmap.model.counting.pipeline_tiles import Visit, tiles_of
from einmap.model.occupancy.lifetimes import Moment
from einmap.model.occupancy.occupancy import Buffer

type Key = tuple[Address, str]


@dataclass(frozen=True)
class Turns:
    """The turns of one Pipeline. `live`: what lives while each Einsum runs, were it alone; `buffers`: its own."""

    pipeline: PlacedPipeline
    paths: Mapping[str, EinsumPath]
    buffers: Mapping[str, tuple[Buffer, ...]]
    live: Mapping[str, list[Buffer]]

    def moments(self) -> list[Moment]:
        """All there is at one time, memory by memory and turn by turn; equal turns once."""
        return [(stages[-1].einsums[-1], held) for stages, held in self.by_stages()]

    def by_stages(self) -> list[tuple[tuple[Stage, ...], list[Buffer]]]:
        """Each kind of turn, memory by memory: the stages that work there, and all that the memory holds."""
        return [
            moment
            for copies, depths in self._patterns
            for memory in sorted(self._memories)
            for moment in self._moments(memory, dict(zip(self._beside, copies, strict=True)), set(depths))
        ]

    def most_copies(self) -> dict[Key, int]:
        """How many visits of each buffer beside the Pipeline are under way at one time at most."""
        return {key: max(copies[i] for copies, _ in self._patterns) for i, key in enumerate(self._beside)}

    @cached_property
    def _memories(self) -> set[str]:
        return {b.memory.name for name in self.pipeline.stage_of for b in (*self.live[name], *self.buffers[name])}

    @cached_property
    def _beside(self) -> dict[Key, tuple[Buffer, tuple[int, ...]]]:
        """The buffers that last for some tiles: the largest of each, and how many stages its users wait for."""
        found: dict[Key, tuple[Buffer, tuple[int, ...]]] = {}
        for name, stage in self.pipeline.stage_of.items():
            for buffer in self.buffers[name]:
                if not self.pipeline.beside(buffer.address):
                    continue
                key = (buffer.address, buffer.tensor)
                known, depths = found.get(key, (buffer, ()))
                found[key] = (max(known, buffer, key=lambda b: b.bits), (*depths, stage.depth))
        return found

    @cached_property
    def _spread(self) -> frozenset[str]:
        """Tensors with a backing node in each of several branches."""
        nodes: dict[str, set[Address]] = {}
        for buffer in (b for buffers in self.buffers.values() for b in buffers if b.backing):
            nodes.setdefault(buffer.tensor, set()).add(buffer.address)
        return frozenset(tensor for tensor, addresses in nodes.items() if len(addresses) > 1)

    @cached_property
    def _patterns(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """For each kind of turn: how often each of these buffers is held, and which stages work."""
        tiles = tiles_of(self.pipeline, self.paths)
        nodes = [
            (sum(loop < address for loop in tiles.loops), None if buffer.persistent else depths)
            for (address, _), (buffer, depths) in self._beside.items()
        ]
        return patterns_of(tiles.visits, nodes, self.pipeline.depth)

    def _moments(
        self, memory: str, copies: Mapping[Key, int], depths: set[int]
    ) -> list[tuple[tuple[Stage, ...], list[Buffer]]]:
        """Contents of a memory in a turn: all together, or stage by stage where each has instances of its own."""
        working = [stage for stage in self.pipeline.stages if stage.depth in depths]
        above: dict[Key, Buffer] = {}
        inside: dict[int, list[Buffer]] = {}
        users: dict[Key, set[int]] = {}
        private = False
        for stage in working:
            for name in stage.einsums:
                is_private = self.pipeline.is_private(memory, self.paths[name].leaves)
                private |= is_private
                own = []
                for buffer in (b for b in self.live[name] if b.memory.name == memory):
                    key = (buffer.address, buffer.tensor)
                    if buffer.backing and buffer.tensor in self._spread and not is_private:
                        # one buffer, whichever stage's node it stands at
                        key = ((), buffer.tensor)
                        above[key] = max(above.get(key, buffer), buffer, key=lambda b: b.bits)
                        users.setdefault(key, set()).add(stage.number)
                    elif buffer.address[: len(self.pipeline.address)] == self.pipeline.address:
                        own.append(buffer)
                    elif not self.pipeline.beside(buffer.address):
                        above.setdefault(key, buffer)
                        users.setdefault(key, set()).add(stage.number)
                inside[stage.number] = max(inside.get(stage.number, []), own, key=lambda bs: sum(b.bits for b in bs))
        for key, (buffer, _) in self._beside.items():
            if buffer.memory.name == memory and copies[key]:
                above[key] = replace(buffer, bits=buffer.bits * copies[key])
                users[key] = {
                    stage.number
                    for name, stage in self.pipeline.stage_of.items()
                    if any((b.address, b.tensor) == key for b in self.buffers[name])
                }
        if not private:
            together = [*above.values(), *(b for own in inside.values() for b in own)]
            return [(tuple(working), together)] if together else []
        moments: list[tuple[tuple[Stage, ...], list[Buffer]]] = []
        for stage in self.pipeline.stages:
            held = [b for key, b in above.items() if stage.number in users[key]] + inside.get(stage.number, [])
            if held:
                moments.append(((stage,), held))
        return moments


def moments_of(turns: Sequence[Turns], live: Mapping[str, list[Buffer]]) -> list[Moment]:
    """All that lives at one time: Einsum by Einsum, in Pipelines turn by turn."""
    inside = {name for of_pipeline in turns for name in of_pipeline.pipeline.stage_of}
    moments = [(name, held) for name, held in live.items() if name not in inside]
    return moments + [m for of_pipeline in turns for m in of_pipeline.moments()]


def patterns_of(
    visits: Sequence[Visit], nodes: Sequence[tuple[int, tuple[int, ...] | None]], steps: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The kinds of turns while tiles go through so many steps: how often each node is held, and which steps work.

    `visits`: iterations of the loops that make the tiles. `nodes`: how many of these loops stand above each node, and
    for how many stages its users wait; None where it is held all the time.
    """
    turns = range(len(visits) + steps - 1)
    held = [_held(visits, outside, depths, len(turns)) for outside, depths in nodes]
    working = [tuple(d for d in range(steps) if 0 <= turn - d < len(visits)) for turn in turns]
    copies = zip(*held, strict=True) if held else (() for _ in working)
    return list(dict.fromkeys(zip(copies, working, strict=True)))


def _held(visits: Sequence[Visit], outside: int, depths: tuple[int, ...] | None, turns: int) -> list[int]:
    """How many visits of a node below `outside` loops have begun and not ended, turn by turn."""
    if depths is None:
        return [1] * turns
    changes = [0] * (turns + 1)
    changes[len(visits) + max(depths)] -= 1
    before: Visit | None = None
    for number, visit in enumerate(visits):
        if visit[:outside] != before:
            if before is not None:
                changes[number + max(depths)] -= 1
            changes[number + min(depths)] += 1
            before = visit[:outside]
    return list(accumulate(changes[:-1]))
