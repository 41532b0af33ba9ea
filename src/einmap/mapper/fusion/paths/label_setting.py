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
from typing import Any

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.mapper.fusion.fronts.outer_nests import FusionSignature
from einmap.mapper.fusion.fronts.protocol import FusedFront
from einmap.mapper.fusion.paths.label_kernels import joined
from einmap.mapper.fusion.paths.lower_envelope import corners, worth
from einmap.mapper.fusion.paths.shortest_paths import (
    ContendedMemories,
    OptionCosts,
    PackedOptions,
    ShortestPaths,
    begins,
    packed,
)
from einmap.mapper.fusion.paths.state_graph import Stage, StateGraph
from einmap.mapper.tolerances import TIE_OF_SUMS

PAIRS_AT_A_TIME = 100_000
"""Pairs that one call of the kernel looks at: milliseconds, more where many rows are kept."""


@dataclass(frozen=True)
class Labels:
    """Choices so far behind an Einsum, by boundary state: those of each from `first`.

    `costs`: (n, costs); `stay`, `peak`: (n, memories, loops), of which as many matter as are open behind the boundary
    state; `back`: (n, 3) row before, option, row of its front.
    """

    first: Ints
    costs: Floats
    stay: Floats
    peak: Floats
    back: Ints


@dataclass(frozen=True)
class StageFronts:
    """The fronts of one Einsum, or of several that look the same, by option. `own`: what its persistent tensors take in
    each memory, which is counted at all times for all Einsums.
    """

    fronts: Mapping[int, FusedFront]
    own: Floats

    def packed(self, stage: Stage, n_costs: int, room: ContendedMemories) -> PackedOptions:
        """The fronts one after the other."""
        m = len(room.capacity)
        rows = {}
        for o, front in self.fronts.items():
            loops = len(stage.step.options[o].loops)
            kept = front.values[:, n_costs + m :].reshape(len(front.values), m, loops)
            used = front.values[:, n_costs : n_costs + m] - self.own
            rows[o] = OptionCosts(front.values[:, :n_costs], used, kept)
        return packed(stage, rows, room)


@dataclass
class Answer:
    """The best rows of a join, with what they are made of."""

    graph: StateGraph
    parts: Sequence[StageFronts]
    reached: Sequence[Labels]


@dataclass(frozen=True)
class JoinedEdges:
    """The edges of a stage whose chains are joined.

    `loops`, `behind`: that are open at each boundary state before and behind it. `chains`: those of its options as the
    kernel takes them. `added`: for each edge whose copy is left out what its tensors take: (memories, loops).
    """

    edges: Ints
    loops: Ints
    behind: Ints
    chains: tuple[Any, ...]
    added: Floats


@dataclass
class LabelSetting:
    """The join of a cascade. `paths`: what the rest costs at least.

    `most`: the product of all costs may not be above this, None where nothing is known. `reached`: costs of the whole
    that are reached already.
    """

    graph: StateGraph
    parts: Sequence[StageFronts]
    room: ContendedMemories
    n_costs: int
    paths: ShortestPaths
    most: float | None
    reached: Floats
    _near: dict[Stage, JoinedEdges] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stages = dict.fromkeys(self.graph.stages)
        boundary_states = (
            boundary_state for stage in stages for boundary_state in (*stage.before, *stage.boundary_states)
        )
        self.widest = max(len(boundary_state.loops) for boundary_state in boundary_states)

    def run(self, go_on: Callable[[str, int], None] = lambda _name, _position: None) -> list[Labels]:
        """The rows before the first Einsum and behind each; the last ones are what was found.

        `go_on` hears where the work is, often; what it raises ends it.
        """
        nothing = np.zeros((1, len(self.room.capacity), self.widest))
        weights = self._worth()
        found = [Labels(np.arange(2), np.zeros((1, self.n_costs)), nothing, nothing, np.zeros((1, 3), dtype=np.int64))]
        for k, stage in enumerate(self.graph.stages):
            if stage not in self._near:
                self._near[stage] = self._near_of(stage, self.parts[k])
            near, at, remainder, before = self._near[stage], 0, self._remainder(k + 1), found[-1]
            first = np.zeros(len(stage.boundary_states) + 1, dtype=np.int64)
            rows = first, before.costs[:0], before.stay[:0], before.peak[:0], before.back[:0]
            while at < len(near.edges):
                go_on(self.graph.names[k], k)
                at, rows = joined(
                    at, rows, near.edges, near.loops, near.behind, before.first, before.costs, before.stay, before.peak,
                    *near.chains, near.added, self.room.capacity, *remainder, weights, PAIRS_AT_A_TIME, TIE_OF_SUMS,
                )  # fmt: skip
            found.append(Labels(*rows))
        return found

    def _worth(self) -> Floats:
        """Weights of the sums of costs in which rows are compared: for a product by what one cost may be worth."""
        if self.most is None or self.n_costs != 2:
            return np.eye(self.n_costs)
        return worth(corners(self.paths.weights, self.paths.least[None])[0], self.most)

    def _near_of(self, stage: Stage, part: StageFronts) -> JoinedEdges:
        m = len(self.room.capacity)
        edges = stage.edges[np.isin(stage.edges[:, 1], list(part.fronts))]
        absent = [(b, o) for b, o, _ in edges.tolist() if stage.step.options[o].absent]
        chains: tuple[Any, ...] = ()
        if len(edges):
            own = part.packed(stage, self.n_costs, self.room)
            chains = (
                own.passing, own.kind, own.fused, begins(own.n_rows), stage.step.times * own.each_cost, own.used,
                begins(own.n_rows * m * own.fused), own.kept, begins(m * own.fused), own.born, own.dying,
            )  # fmt: skip
        return JoinedEdges(
            edges,
            np.array([len(boundary_state.loops) for boundary_state in stage.before], dtype=np.int64),
            np.array([len(boundary_state.loops) for boundary_state in stage.boundary_states], dtype=np.int64),
            chains,
            np.array([self._pruned(stage, *edge) for edge in absent]).reshape(len(absent), m, self.widest),
        )

    def _pruned(self, stage: Stage, before: int, o: int) -> Floats:
        """What the tensors of a copy take that is left out: its source is in use from here on."""
        option, loops = stage.step.options[o], stage.before[before].loops
        found = np.zeros((len(self.room.capacity), self.widest))
        for slot, bits in option.bits.items():
            own = self.room.kept(option.keys[slot].memory, bits, FusionSignature((), loops, (), ()), 0)
            found[:, : len(loops)] += own
        return found

    def _remainder(self, k: int) -> tuple[Floats, Ints, float]:
        """What Einsum k and all later ones add at least: rows of Remainder for each boundary state before, and how
        many.
        """
        rests = self.paths.backward(k)
        if self.most is None:
            points = self.reached - rests[:, None, : self.n_costs]
            return points, np.full(len(points), len(self.reached)), -1.0
        return *self.paths.corners(k), self.most
