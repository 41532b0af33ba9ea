"""Shortest paths through the state graph: what a whole cascade costs at least."""

# What neighbours keep at least is a minimum over all chains of a boundary state, not row by row: sound, one pass,
# and it closes most of the gap between the sum of least costs and the best that fits.

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.fusion.fronts.protocol import FrontMemories
from einmap.mapper.fusion.paths import path_kernels
from einmap.mapper.fusion.paths.boundary_states import BoundaryStates, EinsumOptions, Option, Slot
from einmap.mapper.fusion.paths.kernel_records import ABSENT, PLAIN, UNEXPANDED, PackedChains, PackedStages
from einmap.mapper.fusion.paths.lower_envelope import lines_of, lower_corners
from einmap.mapper.fusion.paths.state_graph import Stage, StateGraph
from einmap.mapper.objective.tolerances import ROUNDING


@dataclass(frozen=True, eq=False)
class OptionCosts:
    """Chains of an option: costs, bits in use of each memory, and (n, memories, fused loops) those that stay while
    other Einsums run below the first, the first two, ... fused loops.

    `is_open`: the last row stands for chains that are not known; what they cost is known for each weight by itself.
    `rests`: the weights that this was asked for at last, and what it is.
    """

    costs: Floats
    used: Floats
    kept: Floats
    is_open: bool = False
    rests: list[tuple[Floats, Floats]] = field(default_factory=list)


@dataclass
class ContendedMemories:
    """The memories in which Einsums compete: bits of each, and those that are in use at all times."""

    space: FrontMemories
    capacity: Floats
    always: Floats
    _shared: dict[tuple[Option, frozenset[Slot], frozenset[Slot]], tuple[Floats, Floats]] = field(default_factory=dict)

    def passing(self, boundary_states: BoundaryStates, used: Mapping[Slot, object]) -> Floats:
        """Space of shared tensors that live on while an Einsum runs that does not use them, a row for each state."""
        return boundary_states.bits_beside(used, self.space.memories)

    def shared(self, step: EinsumOptions, option: Option) -> tuple[Floats, Floats]:
        """Bits of shared tensors that the Einsum uses first, and last, while others run below its first ... loops."""
        index = option, step.born, step.needed
        if index not in self._shared:
            born = np.zeros((len(self.capacity), len(option.loops)))
            dying = np.zeros_like(born)
            for slot, bits in option.bits.items():
                key = option.keys[slot]
                kept = self.kept(key.memory, bits, option.signature, len(key.loops))
                if slot in step.born:
                    born += kept
                if slot not in step.needed:
                    dying += kept
            self._shared[index] = born, dying
        return self._shared[index]

    def kept(self, memory: str, bits: float, signature: FusionSignature, depth: int) -> Floats:
        """Space of a tensor below some of the loops of a signature while others run below the first ... of them."""
        alive = signature.alive(self.space.by_tree)[depth][1:]
        kept: Floats = self.bits_in(memory, bits)[:, None] * alive
        return kept

    def bits_in(self, memory: str, bits: float) -> Floats:
        """Bits of one memory as a row for all."""
        return np.array([bits if name == memory else 0.0 for name in self.space.memories])


@dataclass(frozen=True)
class PackedOptions:
    """The options of a stage one after the other, with fields as PackedChains has them. `rows`: of what it is made.

    `n_rows`: of each option; `each_cost`: (rows, costs); `costs`: weighted; `passing`: see PackedStages.
    """

    rows: Mapping[int, OptionCosts]
    kind: Ints
    n_rows: Ints
    fused: Ints
    each_cost: Floats
    used: Floats
    kept: Floats
    born: Floats
    dying: Floats
    passing: Floats
    costs: Floats

    def weighed(self, weights: Floats, rests: Mapping[int, Floats], times: float) -> PackedOptions:
        """With weighted costs. `rests`: those of the last rows of options that are open."""
        costs = times * (self.each_cost @ weights.T)
        last = np.cumsum(self.n_rows) - 1
        for o, rest in rests.items():
            costs[last[o]] = times * rest
        return replace(self, costs=costs)

    @property
    def option(self) -> Ints:
        """The option of each row."""
        return np.repeat(np.arange(len(self.n_rows)), self.n_rows)

    def only(self, chosen: Bools) -> PackedOptions:
        """These options with some of their rows."""
        option = self.option
        kept = np.repeat(chosen, (self.passing.shape[1] * self.fused)[option])
        return replace(
            self,
            n_rows=np.bincount(option[chosen], minlength=len(self.n_rows)).astype(np.int64),
            each_cost=self.each_cost[chosen],
            used=self.used[chosen],
            kept=self.kept[kept],
            costs=self.costs[chosen],
        )

    def is_of(self, rows: Mapping[int, OptionCosts]) -> bool:
        """Whether it is made of these, and not of others."""
        return len(rows) == len(self.rows) and all(costs is self.rows.get(o) for o, costs in rows.items())


def packed(stage: Stage, rows: Mapping[int, OptionCosts], room: ContendedMemories) -> PackedOptions:
    """The chains of a stage's options, not weighed yet; those that no way has are left out."""
    options, present = stage.step.options, sorted(rows)
    n_rows, fused = np.zeros(len(options), dtype=np.int64), np.zeros(len(options), dtype=np.int64)
    n_rows[present] = [len(rows[o].costs) for o in present]
    fused[present] = [rows[o].kept.shape[2] for o in present]
    shared = [room.shared(stage.step, options[o]) for o in present]
    return PackedOptions(
        rows,
        np.array(
            [UNEXPANDED if option.unexpanded else ABSENT if option.absent else PLAIN for option in options],
            dtype=np.int64,
        ),
        n_rows,
        fused,
        np.concatenate([rows[o].costs for o in present]),
        np.concatenate([rows[o].used for o in present]) + room.always,
        np.concatenate([rows[o].kept.ravel() for o in present]),
        np.concatenate([born.ravel() for born, _ in shared]),
        np.concatenate([dying.ravel() for _, dying in shared]),
        room.passing(stage.before, options[0].keys),
        np.zeros((0, 0)),
    )


def packed_chains(every: Collection[PackedOptions], costs: Floats) -> PackedChains:
    """The chains of the options of some stages, one stage after the other; `costs`: of each row."""

    def concatenated(name: str) -> Any:
        return np.concatenate([getattr(options, name) for options in every])

    n_rows, fused, used = concatenated("n_rows"), concatenated("fused"), concatenated("used")
    m = used.shape[1]
    return PackedChains(
        concatenated("kind"), fused, begins(n_rows), costs, used, begins(n_rows * m * fused), concatenated("kept"),
        begins(m * fused), concatenated("born"), concatenated("dying"),
    )  # fmt: skip


class ShortestPaths:
    """Least costs of paths for several weights of the costs, as far as what neighbours take at least fits together.

    `edges`: of each stage those that paths may have, all of them if None.
    """

    def __init__(
        self,
        graph: StateGraph,
        weights: Floats,
        room: ContendedMemories,
        every: Mapping[Stage, PackedOptions],
        edges: Mapping[Stage, Ints] | None = None,
    ) -> None:
        self.weights = weights
        edges = edges or {stage: stage.edges for stage in every}
        stages, order = list(every), graph.stages
        number = {stage: i for i, stage in enumerate(stages)}
        self._at = begins([*(len(stage.before) for stage in order), len(order[-1].boundary_states)])
        loops = np.concatenate([stage.before.open_loops for stage in stages])

        first = begins([len(stage.step.options) for stage in stages])
        packed_stages = PackedStages(
            np.concatenate([edges[stage] for stage in stages]),
            begins([len(edges[stage]) for stage in stages]),
            begins([len(stage.before) for stage in stages]),
            first,
            loops,
            np.concatenate([options.passing for options in every.values()]),
        )
        self._backward, rests, through = path_kernels.least_paths(
            np.array([number[stage] for stage in order], dtype=np.int64),
            self._at,
            packed_stages,
            packed_chains(every.values(), np.concatenate([options.costs for options in every.values()])),
            room.capacity * (1 + ROUNDING),
        )
        self.rests = {stage: rests[first[i] : first[i + 1]] for i, stage in enumerate(stages)}
        """For each stage and option the least weighted costs of all the others, wherever the stage is."""
        self.through = {stage: through[first[i] : first[i + 1]] for i, stage in enumerate(stages)}
        """For each stage and option the least weighted costs of whole cascades with it."""

    def backward(self, k: int) -> Floats:
        """For each boundary state before Einsum k the least weighted costs of the rest, a column for each weight."""
        costs: Floats = self._backward[self._at[k] : self._at[k + 1]]
        return costs

    def corners(self, k: int) -> tuple[Floats, Ints]:
        """For each boundary state before Einsum k the corners of what the rest costs, and how many they are."""
        offsets, second = (lines[self._at[k] : self._at[k + 1]] for lines in self._lines)
        return lower_corners(self.weights, offsets, second)

    @cached_property
    def _lines(self) -> tuple[Floats, Floats]:
        return lines_of(self.weights, self._backward)

    @property
    def least(self) -> Floats:
        """Least weighted costs of the whole."""
        costs: Floats = self.backward(0)[0]
        return costs


def begins(sizes: Sequence[int] | Ints) -> Ints:
    """Where each of some parts begins that lie one after the other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
