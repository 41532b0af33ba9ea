"""Chains of all Einsums of a Pipeline put together: what they cost, and whether they fit beside each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Protocol

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.pipelined.stage_fronts import COSTS, Group, GroupRows, Row, StageFronts
from einmap.model.occupancy.stages import patterns_of

ROWS_AT_A_TIME = 200_000
"""Rows of chains that are put together at a time."""


class Staged(Protocol):
    """The Einsums of a Pipeline and their stages."""

    problem: CascadeProblem
    leak_power: float

    @property
    def einsums(self) -> tuple[Einsum, ...]:
        """All Einsums in order."""

    @property
    def ranges(self) -> tuple[slice, ...]:
        """The Einsums of each stage among all."""

    @property
    def depths(self) -> tuple[int, ...]:
        """For how many stages each one waits."""

    def turns(self, fronts: Sequence[StageFronts], groups: Sequence[Group]) -> GroupRows:
        """The chains of a stage, whose Einsums take turns."""


@dataclass
class Together:
    """Chains of some groups of signatures, one for each Einsum."""

    search: Staged
    fronts: tuple[StageFronts, ...]
    groups: tuple[Group, ...]

    @cached_property
    def tiles(self) -> int:
        """How many tiles go through."""
        return math.prod(n for kind, n in self.groups[0].loops if kind == TEMPORAL)

    def costs(self, values: Sequence[Floats]) -> Floats:
        """Energy and latency of the whole from the costs and busy times of each stage, row by row."""
        times = self.search.problem.times(self.search.einsums[0])
        dynamic = sum(v[:, 0] for v in values)
        steps = np.zeros((max(self.search.depths) + 1, len(values[0])))
        for depth, v in zip(self.search.depths, values, strict=True):
            steps[depth] = np.maximum(steps[depth], v[:, 1])
        slowest = steps.max(axis=0)
        latency = slowest + (steps.sum(axis=0) - slowest) / self.tiles
        if len(values) > 1:
            for column in range(len(COSTS), values[0].shape[1]):
                latency = np.maximum(latency, sum(v[:, column] for v in values))
        latency = latency * times
        return np.stack([dynamic * times + self.search.leak_power * latency, latency], axis=1)

    def least(self) -> Floats:
        """Lower bounds of all rows."""
        bounds = [of.least(group) for of, group in zip(self.fronts, self.groups, strict=True)]
        least: Floats = self.costs([np.sum(bounds[of_stage], axis=0)[None] for of_stage in self.search.ranges])[0]
        return least

    @cached_property
    def common(self) -> tuple[str, ...]:
        """Memories of limited size that are not of one stage alone."""
        return self.fronts[0].memories[: self.fronts[0].n_common]

    @cached_property
    def kept(self) -> list[tuple[Floats, tuple[int, ...]]]:
        """For each kind of turn the bits that shared tensors take in each memory, and which steps work."""
        loops = self.groups[0].loops
        places: dict[str, tuple[str, float, int, list[int]]] = {}
        for depth, of_stage in zip(self.search.depths, self.search.ranges, strict=True):
            for of, group in zip(self.fronts[of_stage], self.groups[of_stage], strict=True):
                above = {t: len(key.loops) for t, key in group.keys}
                for t, (memory, bits) in of.chains.backed(group.signatures[0]).items():
                    outside = sum(kind == TEMPORAL for kind, _ in loops[: above[t]])
                    known = places.setdefault(of.einsum.accesses[t].tensor, (memory, bits, outside, []))
                    known[3].append(depth)
        most = max(self.search.depths) + 3
        visits = tuple(product(*(range(min(n, most + 1)) for kind, n in loops if kind == TEMPORAL)))
        nodes = [(outside, tuple(depths)) for _, _, outside, depths in places.values()]
        found = []
        for copies, working in patterns_of(visits, nodes, max(self.search.depths) + 1):
            taken = np.zeros(len(self.common))
            for n, (memory, bits, _, _) in zip(copies, places.values(), strict=True):
                if memory in self.common:
                    taken[self.common.index(memory)] += n * bits
            found.append((taken, working))
        return found

    def capacity(self, of: StageFronts) -> Floats:
        """Bits of each memory."""
        sizes = {leaf.name: leaf.size_bits for leaf in of.arch.memories}
        return np.array([sizes.get(name, math.inf) for name in of.memories])

    def rows(self, beaten: Callable[[Floats], Bools]) -> Iterator[tuple[Floats, list[tuple[Row, ...]]]]:
        """Costs and chains of all that fits and is not `beaten`. Raises StoppedError."""
        stages, own = [], []
        for of_stage in self.search.ranges:
            rows = self.search.turns(self.fronts[of_stage], self.groups[of_stage])
            bits = rows.running + rows.staying
            room = self.capacity(self.fronts[of_stage][0]) if len(self.fronts[of_stage]) > 1 else math.inf
            fits = np.flatnonzero((bits <= room * (1 + ROUNDING)).all(axis=1))
            stages.append(
                GroupRows(
                    rows.costs[fits], rows.running[fits], rows.staying[fits], [rows.origins[int(i)] for i in fits]
                )
            )
            own.append(bits[fits][:, : len(self.common)])
        counts = [len(rows.costs) for rows in stages]
        total = math.prod(counts)
        for begin in range(0, total, ROWS_AT_A_TIME):
            numbers = np.arange(begin, min(begin + ROWS_AT_A_TIME, total))
            chosen: tuple[Ints, ...] = np.unravel_index(numbers, counts)
            costs = self.costs([rows.costs[r] for rows, r in zip(stages, chosen, strict=True)])
            useful = ~beaten(costs)
            useful[useful] = self._fits([r[useful] for r in chosen], own)
            left = np.flatnonzero(useful)
            if len(left):
                chains = [
                    tuple(row for rows, r in zip(stages, chosen, strict=True) for row in rows.origins[int(r[i])])
                    for i in left
                ]
                yield costs[left], chains

    def _fits(self, rows: Sequence[Ints], own: Sequence[Floats]) -> Bools:
        """Which rows fit into the common memories in every turn."""
        fits = np.ones(len(rows[0]), dtype=bool)
        sizes = {leaf.name: leaf.size_bits for of in self.fronts for leaf in of.arch.memories}
        capacity = np.array([sizes[name] for name in self.common])
        for taken, working in self.kept:
            used = np.tile(taken, (len(rows[0]), 1))
            for depth, bits, row in zip(self.search.depths, own, rows, strict=True):
                if depth in working:
                    used += bits[row]
            fits &= (used <= capacity * (1 + ROUNDING)).all(axis=1)
        return fits
