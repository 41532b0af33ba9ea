"""The best way to cut a cascade into Pipelines and Einsums by themselves, and its tree.

The parts of a cascade exchange tensors through the outermost memory, so that their energies and latencies add up: the
best cut is a shortest path over the positions between Einsums, with a Pareto front at each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.mapper.fusion.budget import Budget, StoppedError
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.tree import TreeBuilder, gathered
from einmap.mapper.options import Options
from einmap.mapper.pipelined.pipeline_search import Origin, PipelineSearch
from einmap.mapper.pipelined.refusals import JUDGED
from einmap.mapper.pipelined.stage_fronts import StageFronts
from einmap.mapper.pipelined.stage_sums import OriginFront
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress
from einmap.spec.spec import Spec


@dataclass
class CascadeSearch:
    """All cuts of a cascade into parts of at most so many successive Einsums. `cut`: whether it was stopped."""

    spec: Spec
    options: Options
    most_stages: int
    cut: bool = False
    budget: Budget = field(default_factory=lambda: Budget(Progress()))

    def run(self, progress: Progress) -> list[LoopTree]:
        """The trees of the best cuts with a Pipeline, those that no other one beats; none where nothing fits."""
        self.budget = Budget(progress)
        try:
            return [self._tree(origins) for origins in self._best().origins if any(len(o.rows) > 1 for o in origins)]
        except StoppedError:
            self.cut = True
            return []

    def _best(self) -> OriginFront[tuple[Origin, ...]]:
        """The best cuts of the whole cascade."""
        einsums = self.spec.workload.einsums
        judged = tuple(sorted({column for goal in self.options.goals for column in JUDGED[goal]}))
        problem = CascadeProblem(self.spec, self.options)
        fronts: dict[object, StageFronts] = {}
        leak_power = self.spec.arch(einsums[0].name).total_leak_power
        reached: list[OriginFront[tuple[Origin, ...]]] = [OriginFront(judged, np.zeros((1, 2)), [()])]
        for end in range(1, len(einsums) + 1):
            here: OriginFront[tuple[Origin, ...]] = OriginFront(judged)
            for begin in range(max(0, end - self.most_stages), end):
                part = einsums[begin:end]
                search = PipelineSearch(problem, part, judged, leak_power, self.budget, fronts)
                before, best = reached[begin], search.run()
                for values, origins in zip(before.values, before.origins, strict=True):
                    here.add(best.values + values, [(*origins, origin) for origin in best.origins])
            reached.append(here)
        return reached[-1]

    def _tree(self, origins: Sequence[Origin]) -> LoopTree:
        """The tree of one cut: a branch for each part."""
        outer: list[tree.Storage] = []
        parts: list[tuple[tree.Node, ...]] = []
        for origin in origins:
            nests = [s.nest(of, row) for s, of, row in zip(origin.stages, origin.signatures, origin.rows, strict=True)]
            loops = len(origin.signatures[0].loops)
            built = TreeBuilder(nests, [0, *[loops] * (len(nests) - 1)]).build()
            own = [node for nest in nests for node in nest.nodes[: nest.n_outer] if isinstance(node, tree.Storage)]
            outer += own
            nodes = built.nodes[len(gathered(own)) :]
            if len(nests) > 1:
                split = nodes[-1]
                assert isinstance(split, tree.Split)
                component, name = origin.placement.fanout or (None, None)
                nodes = (*nodes[:-1], tree.Pipeline(split.branches, component, name))
            parts.append(nodes)
        if len(parts) == 1:
            return LoopTree((*gathered(outer), *parts[0]))
        return LoopTree((*gathered(outer), tree.Sequential(tuple(parts))))
