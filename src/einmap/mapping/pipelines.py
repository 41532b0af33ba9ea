"""Pipelines of a LoopTree: their stages, which wait for which, and whether they stand on hardware of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import cached_property
from math import prod

from einmap.arch.component import Leaf, is_carrying
from einmap.arch.tree import Architecture
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, FanoutError, MappingError, NotSupportedError, did_you_mean
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.met_loops import MetLoop, loops_met
from einmap.mapping.nodes import Address, Compute, Pipeline, Spatial, Storage, Temporal

type Where = Callable[[Address], At]


@dataclass(frozen=True, slots=True)
class Stage:
    """A branch of a Pipeline: its Einsums, and how many stages one after the other it waits for."""

    number: int
    einsums: tuple[str, ...]
    depth: int


@dataclass(frozen=True)
class PlacedPipeline:
    """A Pipeline, where it stands, and its stages. The loops beside it, in the same list, make its tiles."""

    address: Address
    node: Pipeline
    stages: tuple[Stage, ...]

    @cached_property
    def stage_of(self) -> MappingOf[str, Stage]:
        """The stage of each Einsum."""
        return {name: stage for stage in self.stages for name in stage.einsums}

    @property
    def depth(self) -> int:
        """How many tiles are under way at a time: stages on the longest way from stage to stage."""
        return 1 + max(stage.depth for stage in self.stages)

    def beside(self, address: Address) -> bool:
        """Whether a node stands in the same list of nodes, above the Pipeline."""
        return address[:-1] == self.address[:-1] and address[-1] < self.address[-1]

    def is_private(self, name: str, path: Iterable[Leaf]) -> bool:
        """Whether each stage has instances of a component of its own, on a path where the stages share a fanout."""
        if self.node.component is None:
            return False
        names = [leaf.name for leaf in path]
        return self.node.component in names[: names.index(name) + 1] if name in names else False


def pipelines_in(mapping: Mapping, workload: Workload) -> tuple[PlacedPipeline, ...]:
    """The Pipelines of a mapping, in written order."""
    if not mapping.is_pipelined:
        return ()
    return tuple(
        PlacedPipeline(placed.address, placed.node, _stages(mapping, workload, placed))
        for placed in mapping.placed
        if isinstance(placed.node, Pipeline)
    )


def _stages(mapping: Mapping, workload: Workload, placed: PlacedNode) -> tuple[Stage, ...]:
    deep = len(placed.address)
    einsums: dict[int, list[str]] = {}
    for name, path in mapping.path_of.items():
        end = path[-1].address
        if end[:deep] == placed.address and len(end) > deep:
            einsums.setdefault(end[deep], []).append(name)
    depths = depths_of(workload, [names for _, names in sorted(einsums.items())])
    return tuple(
        Stage(number, tuple(names), depth)
        for (number, names), depth in zip(sorted(einsums.items()), depths, strict=True)
    )


def depths_of(workload: Workload, stages: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """For each stage, given by its Einsums, how many stages one after the other it waits for."""
    depths: list[int] = []
    for names in stages:
        read = {t for name in names for t in workload.by_name[name].tensors - workload.by_name[name].outputs}
        waits = [
            depth + 1
            for depth, earlier in zip(depths, stages, strict=False)
            if any(workload.by_name[name].outputs & read for name in earlier)
        ]
        depths.append(max(waits, default=0))
    return tuple(depths)


def refuse_sliding(
    pipelines: Iterable[PlacedPipeline], slides: Iterable[tuple[Address, Address]], where: Where
) -> None:
    """Raise NotSupportedError where a storage node (with its loop) slides along the tiles of a Pipeline."""
    found = tuple(pipelines)
    for node, loop in slides if found else ():
        if any(pipeline.beside(loop) for pipeline in found):
            raise NotSupportedError(
                "a sliding window along the tiles of a Pipeline is not supported yet",
                at=where(node),
                hint="give the node sliding_window: false",
            )


@dataclass(frozen=True)
class PipelineCheck:
    """Checks the Pipelines of a mapping whose paths are valid; problems are added to `problems`."""

    mapping: Mapping
    workload: Workload
    archs: MappingOf[str, Architecture]
    where: Where
    problems: list[EinmapError]

    def run(self) -> None:
        """Look at every Pipeline."""
        found = pipelines_in(self.mapping, self.workload)
        for pipeline in found:
            begun = len(self.problems)
            self.nested(pipeline, found)
            self.einsums(pipeline)
            if len(self.problems) == begun:
                self.units(pipeline)
            if len(self.problems) == begun:
                self.networks(pipeline)
                self.lanes(pipeline)
                self.held_above(pipeline)
                self.handed_on(pipeline)

    def nested(self, pipeline: PlacedPipeline, found: tuple[PlacedPipeline, ...]) -> None:
        """A stage is not a Pipeline itself."""
        for outer in found:
            if outer is not pipeline and pipeline.address[: len(outer.address)] == outer.address:
                text = "a Pipeline inside a stage of another one is not supported yet"
                hint = "write one Pipeline with more stages"
                self.problems.append(NotSupportedError(text, at=self.where(pipeline.address), hint=hint))

    def einsums(self, pipeline: PlacedPipeline) -> None:
        """No copies, and all Einsums are repeated equally often."""
        times: dict[int, str] = {}
        for name in pipeline.stage_of:
            einsum, at = self.workload.by_name[name], self.where(self.mapping.path_of[name][-1].address)
            if einsum.is_copy:
                text = f"Einsum {name!r}: a copy as a stage of a Pipeline is not supported yet"
                self.problems.append(NotSupportedError(text, at=at, hint="put it before the Pipeline"))
            times.setdefault(einsum.n_instances, name)
        if len(times) > 1:
            shown = ", ".join(f"{n} of {name!r}" for n, name in times.items())
            text = f"the Einsums of a Pipeline must have as many instances each, found {shown}"
            self.problems.append(MappingError(text, at=self.where(pipeline.address)))

    def unit_of(self, einsum: str) -> str:
        """The Compute that runs an Einsum."""
        last = self.mapping.path_of[einsum][-1].node
        assert isinstance(last, Compute)
        return last.component

    def path(self, einsum: str) -> tuple[Leaf, ...]:
        """The components from the outermost one to the Compute of an Einsum."""
        return self.archs[einsum].path(self.unit_of(einsum))

    def units(self, pipeline: PlacedPipeline) -> None:
        """No Compute works for two stages, unless these take lanes of their own above it."""
        component, name = pipeline.node.component, pipeline.node.name
        at = self.where(pipeline.address)
        leaves = {leaf.name: leaf for einsum in pipeline.stage_of for leaf in self.path(einsum)}
        if component is not None and component not in leaves:
            hint = did_you_mean(component, leaves, listing="components")
            text = f"no stage passes a component {component!r} on the way to its Compute"
            self.problems.append(MappingError(text, at=at, hint=hint))
            return
        if component is not None and name not in {d.name for d in leaves[component].spatial}:
            hint = did_you_mean(name or "", (d.name for d in leaves[component].spatial), listing="its dimensions")
            self.problems.append(MappingError(f"{component!r} has no fanout dimension {name!r}", at=at, hint=hint))
            return
        first: dict[str, Stage] = {}
        for einsum, stage in pipeline.stage_of.items():
            unit = self.unit_of(einsum)
            if component is not None and component in {leaf.name for leaf in self.path(einsum)}:
                continue
            other = first.setdefault(unit, stage)
            if other is not stage:
                text = (
                    f"stages {other.number + 1} and {stage.number + 1} of the Pipeline use the same instances of "
                    f"{unit!r} at one time"
                )
                hint = (
                    "give each stage lanes of its own (component: and name: of the Pipeline), or another Compute, or "
                    "write !Sequential"
                )
                place = self.where(self.mapping.path_of[einsum][-1].address)
                self.problems.append(MappingError(text, at=place, hint=hint))
                return

    def networks(self, pipeline: PlacedPipeline) -> None:
        """Each network belongs to one stage: hops would depend on where its lanes stand, links carry what all move."""
        users: dict[str, set[int]] = {}
        component = pipeline.node.component
        for einsum, stage in pipeline.stage_of.items():
            path = self.path(einsum)
            for leaf in path:
                is_private = pipeline.is_private(leaf.name, path) and leaf.name != component
                if is_carrying(leaf) and not is_private:
                    users.setdefault(leaf.name, set()).add(stage.number)
        for name, stages in users.items():
            if component is not None or len(stages) > 1:
                text = (
                    f"a Pipeline whose stages cross the network {name!r} to hardware of their own is not supported yet"
                )
                hint = (
                    f"put {name!r} below {component!r}, so that each stage has its own"
                    if component
                    else "write !Sequential"
                )
                self.problems.append(NotSupportedError(text, at=self.where(pipeline.address), hint=hint))

    def lanes(self, pipeline: PlacedPipeline) -> None:
        """The lanes of all stages fit into the fanout along which they stand side by side."""
        component, name = pipeline.node.component, pipeline.node.name
        if component is None:
            return
        lanes: dict[int, int] = {}
        fanout = 0
        for einsum, stage in pipeline.stage_of.items():
            leaf = next((leaf for leaf in self.path(einsum) if leaf.name == component), None)
            if leaf is None:
                continue
            fanout = next(d.fanout for d in leaf.spatial if d.name == name)
            used = prod(
                met.iterations
                for met in loops_met(self.mapping.path_of[einsum], self.workload.by_name[einsum])
                if isinstance(met.node, Spatial) and (met.node.component, met.node.name) == (component, name)
            )
            lanes[stage.number] = max(lanes.get(stage.number, 1), used)
        if sum(lanes.values()) > fanout:
            shown = " + ".join(str(n) for n in lanes.values())
            text = f"the stages of the Pipeline use {shown} instances on {component}.{name}, its fanout is {fanout}"
            self.problems.append(FanoutError(text, at=self.where(pipeline.address)))

    def held_above(self, pipeline: PlacedPipeline) -> None:
        """Tensors that several stages use are held where all of these reach them."""
        seen: dict[tuple[Address, str], Stage] = {}
        for einsum, stage in pipeline.stage_of.items():
            path = self.path(einsum)
            for placed in self.mapping.path_of[einsum]:
                node = placed.node
                if placed.address >= pipeline.address or not isinstance(node, Storage):
                    continue
                if not pipeline.is_private(node.component, path):
                    continue
                for tensor in sorted(placed.held & self.workload.by_name[einsum].tensors):
                    if seen.setdefault((placed.address, tensor), stage) is not stage:
                        text = (
                            f"stages {seen[placed.address, tensor].number + 1} and {stage.number + 1} share {tensor!r} "
                            f"in {node.component!r}, of which each stage has instances of its own"
                        )
                        hint = f"hold it in a memory outside of {pipeline.node.component!r}, or in each stage"
                        self.problems.append(MappingError(text, at=self.where(placed.address), hint=hint))

    def handed_on(self, pipeline: PlacedPipeline) -> None:
        """Tensors that one stage hands on to another are held above both, and each of their tiles is complete."""
        for einsum, stage in pipeline.stage_of.items():
            for tensor in sorted(self.workload.by_name[einsum].outputs):
                readers = [
                    user
                    for user in self.workload.users[tensor]
                    if user in pipeline.stage_of and pipeline.stage_of[user] is not stage
                ]
                if not readers:
                    continue
                holder = next(p for p in self.mapping.path_of[einsum] if _holds(p, tensor))
                if holder.address > pipeline.address:
                    text = f"{tensor!r} goes from stage to stage of the Pipeline, but is held inside of one of them"
                    at = self.where(holder.address)
                    self.problems.append(MappingError(text, at=at, hint="hold it above the Pipeline"))
                    continue
                self.complete(pipeline, einsum, tensor)

    def complete(self, pipeline: PlacedPipeline, einsum: str, tensor: str) -> None:
        """No loop that makes tiles of the Pipeline reduces what a stage hands on."""
        access = self.workload.by_name[einsum].by_tensor[tensor]
        for met in self.tiling(pipeline, einsum):
            if access.relevance(met.variable) is not Relevance.FULL:
                text = (
                    f"the loop over {met.variable!r} makes tiles of the Pipeline, but {einsum!r} adds to the same "
                    f"elements of {tensor!r} in several of them: the next stage would read half-reduced values"
                )
                hint = "move the loop into the stage"
                self.problems.append(MappingError(text, at=self.where(met.placed.address), hint=hint))

    def tiling(self, pipeline: PlacedPipeline, einsum: str) -> list[MetLoop]:
        """The temporal loops of more than one iteration that make the tiles."""
        return [
            met
            for met in loops_met(self.mapping.path_of[einsum], self.workload.by_name[einsum])
            if isinstance(met.node, Temporal) and met.iterations > 1 and pipeline.beside(met.placed.address)
        ]


def _holds(placed: PlacedNode, tensor: str) -> bool:
    return isinstance(placed.node, Storage) and tensor in placed.held
