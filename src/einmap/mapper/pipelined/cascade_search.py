"""The best way to cut a cascade into Pipelines and Einsums by themselves, and its tree.

The parts of a cascade exchange tensors through the outermost memory, so that their energies and latencies add up: the
best cut is a shortest path over the positions between Einsums, with a Pareto front at each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, takewhile
from typing import NamedTuple

import numpy as np

from einmap.einsum.einsum import Einsum
from einmap.mapper.fusion.meter import Meter, StoppedError
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.tree import LinearNest, TreeBuilder, gathered
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.pipelined.pipeline_search import Origin, PipelineSearch
from einmap.mapper.pipelined.stage_fronts import StageFronts
from einmap.mapper.pipelined.stage_sums import OriginFront
from einmap.mapper.problem.problem import Budget, Problem
from einmap.mapper.result.outcome import Outcome, evaluated
from einmap.mapper.result.result import MapStats
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.template import StageBegin

COLUMNS = ("energy", "latency")


class Alone(NamedTuple):
    """Where a row comes from: the chain of an Einsum that is like the given one, and in no Pipeline."""

    nests: list[LinearNest]
    sizes: tuple[int, ...] = (1,)


def pipelines(problem: Problem, budget: Budget) -> Outcome:
    """All cuts of a cascade into Pipelines; no points where nothing fits. Raises NotSupportedError.

    An Einsum with a given mapping is a part by itself. Without fusion Einsums of a Pipeline hand on nothing.
    """
    spec, options = problem.spec, problem.options
    if problem.given and problem.given_stage is None and len(spec.workload.einsums) - len(problem.given) < 2:
        why = "no Pipeline was searched, since an Einsum with a given mapping is not a stage"
        return Outcome(options.goals, (), MapStats(), ties_broken=True, notes=(why,))
    search = CascadeSearch(problem, Meter(budget.progress))
    trees = search.run()
    each = f" and {options.most_in_stage} Einsums in each" if options.most_in_stage > 1 else ""
    free = ", of Einsums without a given mapping" if problem.given else ""
    kind = f"cascade of Pipelines of at most {options.most_stages} stages{each}{free}"
    where = "which exchange through the outermost memory" if problem.fuse else "none of which reads what another writes"
    searched = f"{kind}, {where},"
    return Outcome(
        options.goals,
        tuple([evaluated(spec, tree, options.rules) for tree in trees]),
        MapStats(evaluated=search.meter.work),
        ended="stopped" if search.cut else None,
        notes=(f"not every {searched} was" if search.cut else f"every {searched} was, too",),
    )


@dataclass
class CascadeSearch:
    """All cuts of a cascade into parts of successive Einsums. `cut`: whether it was stopped."""

    problem: Problem
    meter: Meter
    cut: bool = False
    _fronts: dict[object, StageFronts] = field(default_factory=dict, init=False)

    def run(self) -> list[LoopTree]:
        """The trees of the best cuts with a Pipeline, those that no other one beats; none where nothing fits."""
        try:
            return [self._tree(origins) for origins in self._best().origins if any(len(o.sizes) > 1 for o in origins)]
        except StoppedError:
            self.cut = True
            return []

    def _best(self) -> OriginFront[tuple[Origin | Alone, ...]]:
        """The best cuts of the whole cascade."""
        spec, options = self.problem.spec, self.problem.options
        einsums = spec.workload.einsums
        parts = {part for goal in options.goals for part in METRICS[goal].parts}
        judged = tuple(column for column, part in enumerate(COLUMNS) if part in parts)
        problem = CascadeProblem(spec, options)
        reached: list[OriginFront[tuple[Origin | Alone, ...]]] = [OriginFront(judged, np.zeros((1, 2)), [()])]
        for end in range(1, len(einsums) + 1):
            here: OriginFront[tuple[Origin | Alone, ...]] = OriginFront(judged)
            for begin in range(0 if self._staged else max(0, end - options.most_stages * options.most_in_stage), end):
                before = reached[begin]
                for stages in self._cuts(einsums[begin:end]):
                    best = self._part(problem, stages, judged)
                    for values, origins in zip(before.values, before.origins, strict=True):
                        here.add(best.values + values, [(*origins, origin) for origin in best.origins])
            reached.append(here)
        return reached[-1]

    def _part(
        self, problem: CascadeProblem, stages: tuple[tuple[Einsum, ...], ...], judged: tuple[int, ...]
    ) -> OriginFront[Origin] | OriginFront[Alone]:
        """The best Pipelines of some stages, or mappings of one Einsum."""
        names = [einsum.name for stage in stages for einsum in stage]
        given = {name: self.problem.given[name] for name in names if name in self.problem.given}
        if len(names) == 1 and given:
            return self._like_given(stages[0][0], judged)
        leak_power = self.problem.spec.arch(names[0]).total_constant_power
        fuse = self.problem.fuse
        return PipelineSearch(problem, stages, judged, leak_power, self.meter, self._fronts, fuse, given).run()

    def _cuts(self, einsums: Sequence[Einsum]) -> Iterator[tuple[tuple[Einsum, ...], ...]]:
        """The ways to cut successive Einsums into stages: as they are given, or all of those without given mappings."""
        options, names = self.problem.options, {einsum.name for einsum in einsums}
        if names <= self._staged.keys() and len({self._staged[name].pipeline for name in names}) == 1:
            begin = self._staged[einsums[0].name]
            if names == {name for name, other in self._staged.items() if other.pipeline == begin.pipeline}:
                numbers = [self._staged[einsum.name].number for einsum in einsums]
                if numbers == sorted(numbers) and len({*numbers}) > 1:
                    stages = groupby(einsums, key=lambda einsum: self._staged[einsum.name].number)
                    yield tuple(tuple(stage) for _, stage in stages)
        elif names.isdisjoint(self.problem.given) and len(einsums) <= options.most_stages * options.most_in_stage:
            yield from cuts(einsums, options.most_stages, options.most_in_stage)
        elif len(einsums) == 1 and names.isdisjoint(self._staged):
            yield (tuple(einsums),)

    @cached_property
    def _staged(self) -> dict[str, StageBegin]:
        """Where the stage of an Einsum begins, where one is given."""
        given = self.problem.given.items()
        return {name: pattern.stage.begin for name, pattern in given if pattern.stage is not None}

    def _like_given(self, einsum: Einsum, judged: tuple[int, ...]) -> OriginFront[Alone]:
        """The best mappings of an Einsum that are like the given one, with what it shares in the outermost memory."""
        spec, options = self.problem.spec, self.problem.options
        alone = spec.with_einsums(replace(spec.workload, einsums=(einsum,)), lambda _, arch: arch)
        options = replace(options, goals=tuple(COLUMNS[column] for column in judged), breaks_ties=False)
        search = IndependentSearch(alone, options, {einsum.name: self.problem.given[einsum.name]})
        search.run(self.meter.progress)
        optimum, found = search.optimum(einsum), OriginFront[Alone](judged)
        for row, mapping in zip(optimum.values, optimum.mappings, strict=True):
            nest = _nest_of(einsum.name, mapping)
            outside = {t for node in nest.nodes[: nest.n_outer] if isinstance(node, tree.Storage) for t in node.tensors}
            if spec.workload.shared & einsum.tensors <= outside:
                values = np.zeros((1, len(COLUMNS)))
                values[0, list(judged)] = np.array(row) * search.weight(einsum)
                found.add(values, [Alone([nest])])
        self.meter.work += optimum.work
        return found

    def _tree(self, origins: Sequence[Origin | Alone]) -> LoopTree:
        """The tree of one cut: a branch for each part."""
        outer: list[tree.Storage] = []
        parts: list[tuple[tree.Node, ...]] = []
        for origin in origins:
            nests = origin.nests
            builder = StageTreeBuilder if len(nests) > len(origin.sizes) else TreeBuilder
            built = builder(nests, [0, *[nests[0].fused] * (len(nests) - 1)]).build()
            own = [node for nest in nests for node in nest.nodes[: nest.n_outer] if isinstance(node, tree.Storage)]
            outer += own
            nodes = built.nodes[len(gathered(own)) :]
            if isinstance(origin, Origin) and len(nests) > 1:
                split = nodes[-1]
                assert isinstance(split, tree.Split)
                component, name = origin.placement.fanout or (None, None)
                nodes = (*nodes[:-1], tree.Pipeline(_stages(split.branches, origin.sizes), component, name))
            parts.append(nodes)
        if len(parts) == 1:
            return LoopTree((*gathered(outer), *parts[0]))
        return LoopTree((*gathered(outer), tree.Sequential(tuple(parts))))


def _nest_of(einsum: str, mapping: LoopTree) -> LinearNest:
    """The chain of an Einsum that shares no loop. The nodes of its outermost memory come first."""
    first = mapping.nodes[0]
    assert isinstance(first, tree.Storage)
    outer = takewhile(lambda node: isinstance(node, tree.Storage) and node.component == first.component, mapping.nodes)
    return LinearNest(einsum, mapping.nodes, len(list(outer)), 0, {})


def cuts(einsums: Sequence[Einsum], most_stages: int, most_in_stage: int) -> Iterator[tuple[tuple[Einsum, ...], ...]]:
    """All ways to cut successive Einsums into stages; a single one is a part by itself.

    A B C, two stages of at most two:   A | B C   and   A B | C
    """

    def extend(left: Sequence[Einsum], stages: int) -> Iterator[tuple[tuple[Einsum, ...], ...]]:
        if not left:
            yield ()
        elif stages:
            for n in range(1, min(most_in_stage, len(left)) + 1):
                yield from ((tuple(left[:n]), *rest) for rest in extend(left[n:], stages - 1))

    # Einsums of one stage alone would be fused without a Pipeline
    yield from (stages for stages in extend(einsums, most_stages) if len(stages) > 1 or len(einsums) == 1)


def _stages(branches: Sequence[tuple[tree.Node, ...]], sizes: Sequence[int]) -> tuple[tuple[tree.Node, ...], ...]:
    """The branches of Einsums that take turns in a stage, put together."""
    left = iter(branches)
    stages = [tuple(next(left) for _ in range(size)) for size in sizes]
    return tuple(stage[0] if len(stage) == 1 else (tree.Sequential(stage),) for stage in stages)


class StageTreeBuilder(TreeBuilder):
    """Puts chains together, some of which take turns in a stage.

    What a chain alone holds right above its branch stays in that branch, so that it lives only while its Einsum runs.
    """

    def backings(self, begin: int, end: int, level: int) -> Iterator[tree.Node]:
        """Outermost storage, below `level` loops, of tensors that several of the chains use, and nothing else."""
        for k in range(begin, end):
            for position, node in self.segments[k][level]:
                if self.backing[k].get(position) == level and self.is_shared(node, begin, end):
                    assert isinstance(node, tree.Storage)
                    self.emitted.add((k, position))
                    if node.tensors[0] not in self.done:
                        self.done.add(node.tensors[0])
                        yield node
