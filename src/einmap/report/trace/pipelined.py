"""When tiles go through the stages of a Pipeline: each tile as long as any other, as the model takes them.

A run of a Pipeline takes its part of the model's seconds. In it tile k of a stage begins k beats after the first one,
which begins when the first tiles of all steps before are done:

    begin(stage, k) = sum of a tile's time over the steps before + k * beat
    beat            = (time of the run - sum of a tile's time over all steps) / (tiles - 1)

so that the beat is the time of a tile in the slowest step, or longer where something that stages have in common is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from einmap.errors import NotSupportedError
from einmap.execute.results.result import SpanRow, TurnKey
from einmap.mapping.nodes import Address
from einmap.mapping.pipelines import PlacedPipeline
from einmap.model.cost import PipelineRow

type Part = tuple[int, str]
"""A span, by its number, and one of the Einsums that have actions in it."""


@dataclass(frozen=True)
class PipelineTimes:
    """One Pipeline in time. `number`: which one it is, 0 where there is no other.

    `tiles`: the parts of its Einsums, by run and tile; `seconds`: of each Einsum, in the unit of time.
    """

    placed: PlacedPipeline
    row: PipelineRow
    number: int
    tiles: Mapping[TurnKey, Sequence[Part]]
    seconds: Mapping[str, int]

    @property
    def runs(self) -> int:
        """How often it runs."""
        return len({run for _, run, _ in self.tiles})

    def track(self, einsum: str) -> str:
        """Where the stage of an Einsum is shown: `stage 2`, or `pipeline 1, stage 2` where there are several."""
        stage = f"stage {self.placed.stage_of[einsum].number + 1}"
        return f"pipeline {self.number}, {stage}" if self.number else stage

    @property
    def slowest(self) -> str:
        """The longest Einsum of the slowest stage."""
        stage = max(self.placed.stages, key=lambda s: sum(self.seconds[name] for name in s.einsums))
        return max(stage.einsums, key=lambda name: self.seconds[name])

    def check(self) -> None:
        """Raise NotSupportedError where an Einsum has no part of some tile: the model counts them all alike."""
        whole = self.row.tiles * self.runs
        for name in self.placed.stage_of:
            found = sum(any(einsum == name for _, einsum in parts) for parts in self.tiles.values())
            if found != whole:
                raise NotSupportedError(
                    f"a trace of a Pipeline of which Einsum {name!r} has {found} of {whole} tiles is not supported yet",
                    hint="choose tile shapes that divide the extents",
                )

    def begins(self, run: Sequence[TurnKey], begin: int, end: int) -> Iterator[tuple[TurnKey, str, int]]:
        """When each Einsum begins its part of each tile of a run that lasts from `begin` to `end`, tile by tile."""
        whole = self.row.tiles * self.runs
        steps = [0.0] * self.placed.depth
        for stage in self.placed.stages:
            own = sum(self.seconds[name] for name in stage.einsums) / whole
            steps[stage.depth] = max(steps[stage.depth], own)
        beat = (end - begin - math.fsum(steps)) / (len(run) - 1) if len(run) > 1 else 0.0
        free = dict.fromkeys((stage.number for stage in self.placed.stages), begin)
        for k, tile in enumerate(run):
            done = self.position[tile]
            for stage in self.placed.stages:
                # a stage does one tile after the other, also where parts of a beat are rounded
                clock = max(free[stage.number], begin + round(math.fsum(steps[: stage.depth]) + k * beat))
                for name in stage.einsums:
                    yield tile, name, clock
                    clock += self.edge(name, done + 1) - self.edge(name, done)
                free[stage.number] = clock

    def edge(self, einsum: str, tiles: int) -> int:
        """How long an Einsum works on its first tiles."""
        return self.seconds[einsum] * tiles // (self.row.tiles * self.runs)

    @cached_property
    def position(self) -> dict[TurnKey, int]:
        """The tiles of all runs, numbered in their order."""
        return {tile: n for n, tile in enumerate(sorted(self.tiles, key=lambda key: key[1:]))}

    def run_of(self, tile: TurnKey) -> list[TurnKey]:
        """All tiles of the run that a tile belongs to, in their order."""
        return [other for other in self.position if other[1] == tile[1]]

    def end_of(self, tile: TurnKey, begin: int, per_second: int) -> int:
        """When the run that a tile belongs to ends, if it begins at `begin`."""
        whole, runs = round(self.row.latency * per_second), sorted({run for _, run, _ in self.tiles})
        place = runs.index(tile[1])
        return begin + whole * (place + 1) // len(runs) - whole * place // len(runs)


def in_order(spans: Sequence[SpanRow], pipelines: Mapping[Address, PlacedPipeline]) -> list[Part]:
    """The parts of all Einsums: those of a run of a Pipeline tile by tile, others in the order of the spans."""
    found: list[Part] = []
    run: list[Part] = []
    current: tuple[Address, int] | None = None

    def tile(part: Part) -> tuple[bool, int, int]:
        turn = spans[part[0]].turn
        assert turn is not None
        # what is of no stage comes after the run
        return part[1] not in pipelines[turn[0]].stage_of, turn[2], part[0]

    for number, span in enumerate(spans):
        if span.turn is None or span.turn[:2] != current:
            found += sorted(run, key=tile)
            run, current = [], None if span.turn is None else span.turn[:2]
        parts = [(number, einsum) for einsum in dict.fromkeys(key[0] for key in span.actions)]
        if span.turn is None:
            found += parts
        else:
            run += parts
    return found + sorted(run, key=tile)


def times_of(
    spans: Sequence[SpanRow],
    parts: Sequence[Part],
    pipelines: Sequence[PlacedPipeline],
    rows: Sequence[PipelineRow],
    seconds: Mapping[str, int],
) -> dict[Address, PipelineTimes]:
    """The Pipelines by address. `seconds`: of each Einsum, in the unit of time. Raises NotSupportedError."""
    tiles: dict[Address, dict[TurnKey, list[Part]]] = {pipeline.address: {} for pipeline in pipelines}
    stage_of = {pipeline.address: pipeline.stage_of for pipeline in pipelines}
    for number, einsum in parts:
        turn = spans[number].turn
        if turn is not None and einsum in stage_of[turn[0]]:
            tiles[turn[0]].setdefault(turn, []).append((number, einsum))
    several = len(pipelines) > 1
    found = {
        pipeline.address: PipelineTimes(pipeline, row, n if several else 0, tiles[pipeline.address], seconds)
        for n, (pipeline, row) in enumerate(zip(pipelines, rows, strict=True), start=1)
    }
    for times in found.values():
        times.check()
    return found
