"""Label setting over the state graph: sums of costs, and the space that is needed at the same time. (Martins, On a
multicriteria shortest path problem, 1984.)

Einsums are joined from first to last. A row behind Einsum k stands for one choice of chains so far. Beside its costs it
has, for each memory: what stays in use while later Einsums run below the first l of the open loops (`stay`), and the
most that was in use while those Einsums ran that share just l loops with what follows (`peak`): what later Einsums keep
above these loops was in use then, too. Rows that another row with the same boundary state beats in everything are
dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.fusion.fronts.protocol import FusedFront
from einmap.mapper.fusion.paths.boundary_states import Option
from einmap.mapper.fusion.paths.kernel_records import Comparison, JoinedEdges, Labels, Limits, PackedChains
from einmap.mapper.fusion.paths.label_kernels import joined
from einmap.mapper.fusion.paths.lower_envelope import corners, worth
from einmap.mapper.fusion.paths.shortest_paths import (
    ContendedMemories,
    OptionCosts,
    PackedOptions,
    ShortestPaths,
    packed,
    packed_chains,
)
from einmap.mapper.fusion.paths.state_graph import Stage, StateGraph
from einmap.mapper.objective.tolerances import TIE_OF_SUMS

PAIRS_AT_A_TIME = 100_000
"""Pairs that one call of the kernel looks at: milliseconds, more where many rows are kept."""

PAIRS_FOR_EACH = 4
"""As many for each label that is kept behind an Einsum, where that is not all of them: all others are soon left out."""


@dataclass(frozen=True)
class StageFronts:
    """The fronts of one Einsum, or of several that look the same, by option.

    `persistent`: bits that its persistent tensors take in each memory, which count at all times for all Einsums.
    """

    fronts: Mapping[int, FusedFront]
    persistent: Floats

    def packed(self, stage: Stage, n_costs: int, room: ContendedMemories) -> PackedOptions:
        """The fronts one after the other."""
        m = len(room.capacity)
        rows = {}
        for o, front in self.fronts.items():
            loops = len(stage.step.options[o].loops)
            kept = front.values[:, n_costs + m :].reshape(len(front.values), m, loops)
            used = front.values[:, n_costs : n_costs + m] - self.persistent
            rows[o] = OptionCosts(front.values[:, :n_costs], used, kept)
        return packed(stage, rows, room)


@dataclass
class Answer:
    """The best rows of a join, with what they are made of."""

    graph: StateGraph
    parts: Sequence[StageFronts]
    reached: Sequence[Labels]

    def costs_of(self, row: int) -> Floats:
        """Costs of each Einsum in a row of the whole."""
        sums = []
        for k in reversed(range(len(self.reached))):
            sums.append(self.reached[k].costs[row])
            row = int(self.reached[k].back[row][0]) if k else 0
        return np.diff(np.array(sums[::-1]), axis=0)

    def options_of(self, row: int) -> list[Option]:
        """The option of each Einsum in a row of the whole."""
        options = []
        for k in reversed(range(len(self.graph.stages))):
            before, option, _ = (int(x) for x in self.reached[k + 1].back[row])
            options.append(self.graph.stages[k].step.options[option])
            row = before
        return options[::-1]


@dataclass(frozen=True)
class Beam:
    """So many labels are kept: those of which the whole may be best, and as many that are the best of their boundary
    states, since what fits in the end may go through any. `values`: of rows of least weighted costs.
    """

    width: int
    values: Callable[[Floats], Floats]

    def narrowed(self, labels: Labels, limits: Limits, paths: ShortestPaths, k: int) -> Labels:
        """Some of the labels before Einsum k; `limits` fall so that none is made that would not be kept."""
        if len(labels.costs) <= self.width:
            return labels
        sizes = np.diff(labels.first)
        state = np.repeat(np.arange(len(sizes)), sizes)
        values = self.values(labels.costs @ paths.weights.T + paths.backward(k)[state])
        order = np.argsort(values, kind="stable")
        _, best = np.unique(state[order], return_index=True)
        kept = order[np.union1d(np.arange(self.width), np.sort(best)[: self.width])]
        if limits.most[0] >= 0:
            worst, least = values[order[self.width - 1]], np.full(len(sizes), np.inf)
            np.minimum.at(least, state, values)
            np.minimum(limits.most, np.maximum(least, worst), out=limits.most)
        kept.sort()
        first = np.concatenate([[0], np.cumsum(np.bincount(state[kept], minlength=len(sizes)))]).astype(np.int64)
        return Labels(first, labels.costs[kept], labels.stay[kept], labels.peak[kept], labels.back[kept])


@dataclass
class LabelSetting:
    """The join of a cascade. `paths`: what the rest costs at least.

    `most`: the product of all costs may not be above this, None where nothing is known. `reached`: costs of the whole
    that are reached already. `beam`: what is kept behind each Einsum, where that is not all.
    """

    graph: StateGraph
    parts: Sequence[StageFronts]
    room: ContendedMemories
    n_costs: int
    paths: ShortestPaths
    most: float | None
    reached: Floats
    beam: Beam | None = None
    _near: dict[Stage, tuple[JoinedEdges, PackedChains] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stages = dict.fromkeys(self.graph.stages)
        states = (states for stage in stages for states in (stage.before, stage.boundary_states))
        self.widest = max(int(states.open_loops.max(initial=0)) for states in states)

    def run(self, go_on: Callable[[str, int], None] = lambda _name, _position: None) -> list[Labels]:
        """The labels before the first Einsum and behind each; the last ones are of whole cascades.

        `go_on` hears where the work is, often; what it raises ends it.
        """
        nothing = np.zeros((1, len(self.room.capacity), self.widest))
        comparison = Comparison(self._worth(), TIE_OF_SUMS)
        pairs = PAIRS_AT_A_TIME if self.beam is None else PAIRS_FOR_EACH * self.beam.width
        reached = [
            Labels(np.arange(2), np.zeros((1, self.n_costs)), nothing, nothing, np.zeros((1, 3), dtype=np.int64))
        ]
        for k, stage in enumerate(self.graph.stages):
            if stage not in self._near:
                self._near[stage] = self._near_of(stage, self.parts[k])
            near, limits, before = self._near[stage], self._limits(k + 1), reached[-1]
            first = np.zeros(len(stage.boundary_states) + 1, dtype=np.int64)
            labels = Labels(first, before.costs[:0], before.stay[:0], before.peak[:0], before.back[:0])
            at = np.zeros(2, dtype=np.int64)
            while near is not None and at[0] < len(near[0].edges):
                go_on(self.graph.names[k], k)
                labels = joined(at, labels, before, *near, limits, comparison, pairs)
                if self.beam is not None:
                    labels = self.beam.narrowed(labels, limits, self.paths, k + 1)
            reached.append(labels)
        return reached

    def _worth(self) -> Floats:
        """Weights of the sums of costs in which rows are compared: for a product by what one cost may be worth."""
        if self.most is None or self.n_costs != 2:
            return np.eye(self.n_costs)
        return worth(corners(self.paths.weights, self.paths.least[None])[0], self.most)

    def _near_of(self, stage: Stage, part: StageFronts) -> tuple[JoinedEdges, PackedChains] | None:
        """The edges of a stage that have a front, and the chains of these fronts; None where there are none."""
        m = len(self.room.capacity)
        edges = stage.edges[np.isin(stage.edges[:, 1], list(part.fronts))]
        if not len(edges):
            return None
        absent = [(b, o) for b, o, _ in edges.tolist() if stage.step.options[o].absent]
        options = part.packed(stage, self.n_costs, self.room)
        joined_edges = JoinedEdges(
            edges,
            stage.before.open_loops,
            stage.boundary_states.open_loops,
            options.passing,
            np.array([self._added(stage, *edge) for edge in absent]).reshape(len(absent), m, self.widest),
        )
        return joined_edges, packed_chains([options], stage.step.times * options.each_cost)

    def _added(self, stage: Stage, before: int, o: int) -> Floats:
        """Bits of the tensors of a copy that is left out, (memories, loops): its source is in use from here on."""
        option, loops = stage.step.options[o], stage.before[before].loops
        added = np.zeros((len(self.room.capacity), self.widest))
        for slot, bits in option.bits.items():
            added[:, : len(loops)] += self.room.kept(
                option.keys[slot].memory, bits, FusionSignature((), loops, (), ()), 0
            )
        return added

    def _limits(self, k: int) -> Limits:
        """Limits of the labels before Einsum k: by what it and all later ones add at least."""
        rests = self.paths.backward(k)
        if self.most is None:
            rests = rests[:, None, : self.n_costs]
            # no label is of use where nothing is behind it, whatever may be reached
            points = np.full((len(rests), len(self.reached), self.n_costs), -np.inf)
            np.subtract(self.reached, rests, out=points, where=rests < np.inf)
            return Limits(
                self.room.capacity, points, np.full(len(points), len(self.reached)), np.full(len(points), -1.0)
            )
        points, counts = self.paths.corners(k)
        return Limits(self.room.capacity, points, counts, np.full(len(points), self.most))
