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
from collections.abc import Mapping
from dataclasses import dataclass, replace

from einmap.arch.component import Leaf
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.pipelines import PlacedPipeline, Where, pipelines_in
from einmap.model.cost import ActionRow, PipelineRow, StageRow
from einmap.model.cost_rows import Rows
from einmap.model.counting.path import EinsumPath
from einmap.model.counting.pipeline_tiles import tiles_of
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.spatial import lanes_used


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
        return self.row(pipeline, rows).latency

    def row(self, pipeline: PlacedPipeline, rows: Mapping[str, Rows]) -> PipelineRow:
        """Row of one Pipeline."""
        stages = tuple(
            StageRow(stage.einsums, stage.depth, math.fsum(rows[name].latency for name in stage.einsums))
            for stage in pipeline.stages
        )
        steps = [0.0] * pipeline.depth
        for stage in stages:
            steps[stage.awaits] = max(steps[stage.awaits], stage.latency)
        slowest, tiles = max(steps), tiles_of(pipeline, self.paths).count
        filling = slowest + (math.fsum(steps) - slowest) / tiles
        common = self.common(pipeline, rows)
        busiest = max(common, key=lambda name: common[name], default=None)
        divided = tuple(
            dict.fromkeys(
                row.component
                for name in pipeline.stage_of
                for row in rows[name].latencies
                if pipeline.is_private(row.component, self.paths[name].leaves)
            )
        )
        if busiest is None or common[busiest] <= filling:
            return PipelineRow(tiles, filling, filling, None, divided, stages)
        return PipelineRow(tiles, common[busiest], filling, busiest, divided, stages)

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
            if not any(row.is_constant for name in pipeline.stage_of for row in rows[name].actions):
                continue
            for name in pipeline.stage_of:
                self._refuse_gating(self.paths[name])
            alone = math.fsum(rows[name].latency for name in pipeline.stage_of)
            part = self.seconds(pipeline, rows) / alone if alone else 0.0
            for name in pipeline.stage_of:
                found[name] = replace(rows[name], actions=tuple(_over(row, part) for row in rows[name].actions))
        return found

    def _refuse_gating(self, path: EinsumPath) -> None:
        gating = path.arch.gating(path.compute.component.name, lanes_used(path))
        for name, unit in path.arch.components.items():
            if unit.leak_power and gating[name] != 1:
                raise NotSupportedError(
                    f"a Pipeline with {name!r}, which leaks and is gated, is not supported yet",
                    hint="leave out power_gateable, or leak_power",
                    about=name,
                )


def _over(row: ActionRow, part: float) -> ActionRow:
    """The row, its leakage over a part of the time alone."""
    return replace(row, energy=row.energy * part) if row.is_constant else row


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
