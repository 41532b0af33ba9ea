"""Pipelines: how many tiles go through, how long that takes, and for how long everything leaks meanwhile.

Stages that wait for equally many others form a step of the pipeline. A step takes as long as its slowest stage, and
works on a tile as soon as the step before has done it; so with N tiles and steps of T1, T2, ... seconds over all tiles
a Pipeline takes

    max over steps of T  +  (sum of all T - max of T) / N

and no less than a component that several stages use is busy for all of them. T of a stage is what its Einsums take one
after the other; each tile counts as long as any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from einmap.arch.component import Leaf
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.mapping.pipelines import PlacedPipeline, Where, pipelines_in
from einmap.model.cost import ActionRow
from einmap.model.cost_rows import Rows
from einmap.model.counting.path import EinsumPath, Loop
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.spatial import lanes_used

type Row = tuple[Loop, ...]
"""One loop as each Einsum below it meets it."""
type Visit = tuple[int, ...]
"""Iterations of loops, outermost first."""


@dataclass(frozen=True)
class Tiles:
    """The tiles of a Pipeline in order, those in the middle of a long loop by one of them.

    `loops`: the loops of more than one iteration that make them; `visits`: iterations of these; `count`: of all tiles.
    """

    loops: tuple[Address, ...]
    visits: tuple[Visit, ...]
    count: int


def tiles_of(pipeline: PlacedPipeline, paths: Mapping[str, EinsumPath]) -> Tiles:
    """The tiles that go through a Pipeline each time that it runs; there is a tile where any Einsum has one.

    Of loops with many iterations the first ones and the last one are listed: as many as are under way at a time.
    """
    # the loops above the Pipeline are the same nodes for every Einsum
    above = [
        [loop for loop in paths[name].loops if pipeline.address[: len(loop.address) - 1] == loop.address[:-1]]
        for name in pipeline.stage_of
    ]
    rows = list(zip(*([loop for loop in mine if loop.address < pipeline.address] for mine in above), strict=True))
    turning = tuple(row[0].address for row in rows if _makes_tiles(row, pipeline))
    visits, count = [], 0
    for visit, weight in _walk(rows, [dict(paths[name].einsum.bounds) for name in pipeline.stage_of], pipeline):
        visits.append(visit)
        count += weight
    return Tiles(turning, tuple(visits), count)


def _makes_tiles(row: Row, pipeline: PlacedPipeline) -> bool:
    is_temporal = not row[0].is_spatial and pipeline.beside(row[0].address)
    return is_temporal and max(loop.iterations for loop in row) > 1


def _walk(rows: list[Row], extents: list[dict[str, int]], pipeline: PlacedPipeline) -> Iterator[tuple[Visit, int]]:
    """Tiles by the iterations of the loops left, and how many each stands for."""
    if not rows:
        if any(all(n > 0 for n in known.values()) for known in extents):
            yield (), 1
        return
    row, most = rows[0], pipeline.depth + 2
    if not _makes_tiles(row, pipeline):
        cut = [
            {**known, loop.variable: _largest(loop, known[loop.variable])}
            for loop, known in zip(row, extents, strict=True)
        ]
        yield from _walk(rows[1:], cut, pipeline)
        return
    longest = max(loop.iterations for loop in row)
    for i in range(longest) if longest <= most + 1 else (*range(most), longest - 1):
        inside = [
            {**known, loop.variable: _extent(loop, known[loop.variable], i)}
            for loop, known in zip(row, extents, strict=True)
        ]
        weight = longest - most if longest > most + 1 and i == 1 else 1
        for visit, times in _walk(rows[1:], inside, pipeline):
            yield (i, *visit), times * weight


def _largest(loop: Loop, extent: int) -> int:
    """Values of the rank variable that the fullest iteration has."""
    return max(_extent(loop, extent, 0), _extent(loop, extent, 1))


def _extent(loop: Loop, extent: int, iteration: int) -> int:
    """Values of the rank variable that an iteration has."""
    first = min(extent, int(loop.shape if loop.initial is None else loop.initial))
    if iteration == 0:
        return first
    return max(0, min(int(loop.shape), extent - first - (iteration - 1) * int(loop.shape)))


@dataclass(frozen=True)
class Pipelining:
    """The Pipelines of a tree, with the paths of its Einsums."""

    pipelines: tuple[PlacedPipeline, ...]
    paths: Mapping[str, EinsumPath]

    def latency(self, rows: Mapping[str, Rows]) -> float:
        """Seconds of the whole tree; what is in no Pipeline runs one after the other."""
        inside = {name for pipeline in self.pipelines for name in pipeline.stage_of}
        alone = [of_einsum.latency for name, of_einsum in rows.items() if name not in inside]
        return math.fsum([*alone, *(self.seconds(pipeline, rows) for pipeline in self.pipelines)])

    def seconds(self, pipeline: PlacedPipeline, rows: Mapping[str, Rows]) -> float:
        """Seconds of one Pipeline, in all its runs."""
        steps = [0.0] * pipeline.depth
        for stage in pipeline.stages:
            own = math.fsum(rows[name].latency for name in stage.einsums)
            steps[stage.depth] = max(steps[stage.depth], own)
        slowest = max(steps)
        filling = slowest + (math.fsum(steps) - slowest) / tiles_of(pipeline, self.paths).count
        return max([filling, *self.common(pipeline, rows).values()])

    def common(self, pipeline: PlacedPipeline, rows: Mapping[str, Rows]) -> dict[str, float]:
        """Seconds that each component is busy for several stages."""
        busy: dict[str, list[float]] = {}
        stages: dict[str, set[int]] = {}
        for name, stage in pipeline.stage_of.items():
            leaves: tuple[Leaf, ...] = self.paths[name].leaves
            for row in rows[name].latencies:
                if not pipeline.is_private(row.component, leaves):
                    busy.setdefault(row.component, []).append(row.latency)
                    stages.setdefault(row.component, set()).add(stage.number)
        return {component: math.fsum(busy[component]) for component, used in stages.items() if len(used) > 1}

    def leaking(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        """The rows with leakage over the time that the Pipelines take, shared among the Einsums by theirs.

        Raises NotSupportedError where power gating depends on which Einsum runs.
        """
        found = dict(rows)
        for pipeline in self.pipelines:
            if not any(row.action == "leak" for name in pipeline.stage_of for row in rows[name].actions):
                continue
            for name in pipeline.stage_of:
                self._refuse_gating(self.paths[name])
            alone = math.fsum(rows[name].latency for name in pipeline.stage_of)
            part = self.seconds(pipeline, rows) / alone if alone else 0.0
            for name in pipeline.stage_of:
                actions = [
                    replace(row, energy=row.energy * part) if row.action == "leak" else row
                    for row in rows[name].actions
                ]
                found[name] = replace(rows[name], actions=tuple(actions))
        return found

    def _refuse_gating(self, path: EinsumPath) -> None:
        gating = path.arch.gating(path.compute.component.name, lanes_used(path))
        for name, unit in path.arch.components.items():
            if unit.leak_power and gating[name] != 1:
                raise NotSupportedError(
                    f"a Pipeline with {name!r}, which leaks and is gated, is not supported yet",
                    hint="leave out power_gateable, or leak_power",
                )


def _over(row: ActionRow, part: float) -> ActionRow:
    """The row, its leakage over a part of the time alone."""
    return replace(row, energy=row.energy * part) if row.action == "leak" else row


def known_pipelines(
    tree: LoopTree, workload: Workload, rules: Semantics, where: Where, *, overlaps: bool
) -> tuple[PlacedPipeline, ...]:
    """The Pipelines of a tree. `overlaps`: the option `overlap_einsums`.

    Raises NotSupportedError where the preset, or that option, does not know them.
    """
    found = pipelines_in(tree, workload)
    if found and rules.lifetimes != "tree":
        raise NotSupportedError(
            f"the preset {rules.name!r} runs the branches of a Pipeline one after the other",
            at=where(found[0].address),
            hint="evaluate with semantics: exact, or write !Sequential",
        )
    if found and overlaps:
        raise NotSupportedError(
            "a Pipeline with overlap_einsums is not supported yet",
            at=where(found[0].address),
            hint="leave out overlap_einsums",
        )
    return found
