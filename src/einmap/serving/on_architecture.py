"""Each part of a step mapped onto an architecture by itself, fused, and its instances summed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from einmap.facade import map_workload
from einmap.frontends.huggingface.einsums import Step
from einmap.frontends.huggingface.model import LanguageModel, ModelPart
from einmap.mapper.result.result import MapResult
from einmap.model.roofline import Counted, Roof, counted, finite_roofs
from einmap.progress import Progress
from einmap.serving.on_cluster import PartCost
from einmap.spec.spec import Spec


@dataclass(slots=True)
class Mapped:
    """Parts that were mapped onto an architecture, kept by their content: steps share heads, contexts share prompts."""

    arch: Spec
    metric: str
    time_limit_s: float
    fuse: bool = True
    progress: Progress | None = None
    results: dict[str, MapResult] = field(default_factory=dict)
    counts: dict[str, Counted] = field(default_factory=dict)

    @property
    def roofs(self) -> tuple[tuple[Roof, ...], tuple[Roof, ...]]:
        """Peaks of computes, and the bandwidth of the outermost memory."""
        peaks: dict[str, float] = {}
        bandwidths: dict[str, float] = {}
        for found in self.counts.values():
            peaks |= {name: max(rate, peaks.get(name, 0.0)) for name, rate in found.peaks.items()}
            for name, rate in list(found.bandwidths.items())[:1]:
                bandwidths[name] = max(rate, bandwidths.get(name, 0.0))
        return finite_roofs(peaks), finite_roofs(bandwidths)

    def parts(self, model: LanguageModel) -> tuple[PartCost, ...]:
        """Costs of each part of a step. Raises NoMappingError where nothing fits."""
        return tuple(self._part(part, model.step) for part in model.parts)

    @property
    def memory(self) -> float:
        """Bytes of the outermost memory, inf where nothing is mapped yet."""
        memories = [m for r in self.results.values() for arch in r.spec.archs.values() for m in arch.memories[:1]]
        return min((memory.size_bits / 8 for memory in memories), default=math.inf)

    def result(self, part: ModelPart, step: Step | None = None) -> MapResult:
        """The mapping of a part, of this step where that is told. Raises NoMappingError where nothing fits."""
        spec = self.arch.set("workload", part.spec.to_dict()["workload"])
        key = spec.content_hash
        if key not in self.results:
            told = self.progress.named(_called(part, step)) if self.progress is not None else None
            self.results[key] = map_workload(
                spec, metrics=self.metric, time_limit_s=self.time_limit_s, fuse=self.fuse, progress=told
            )
        return self.results[key]

    def _part(self, part: ModelPart, step: Step) -> PartCost:
        result = self.result(part, step)
        key = result.spec.content_hash
        if key not in self.counts:
            self.counts[key] = counted(result.cost, result.spec)
        counts = self.counts[key]
        spent: dict[str, float] = {}
        taken = result.cost.latency_by_einsum
        for einsum, components in result.cost.limited_by.items():
            for component in components[:1]:
                spent[component] = spent.get(component, 0.0) + taken[einsum]
        limiting = max(spent, key=lambda name: spent[name]) if spent else ""
        outermost = next((memory for _, memory in counts.moved), "")
        moved = math.fsum(bits / 8 for (_, memory), bits in counts.moved.items() if memory == outermost)
        return PartCost(
            part.name,
            part.instances,
            result.cost.latency,
            result.cost.energy,
            limiting,
            result.optimal,
            math.fsum(counts.operations.values()),
            moved,
            tuple(spent.items()),
        )


def _called(part: ModelPart, step: Step | None) -> str:
    """A part in the words of progress: `layer, batch 8 after 1,024`."""
    if step is None:
        return part.name
    positions = f"batch {step.batch:,}" if step.tokens == 1 else f"prompt of {step.tokens:,}"
    return f"{part.name}, {positions}" + (f" after {step.context:,}" if step.context else "")
