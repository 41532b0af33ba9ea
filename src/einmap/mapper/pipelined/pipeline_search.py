"""The best Pipelines of some successive Einsums, each of them a stage.

A chain of each stage, all with the same loops above what they hand on. What a Pipeline takes follows from whole
latencies, busy times of what is common, and the number of tiles (`model.pipelines`); what it holds from the space of
each chain, and from how many visits of what is handed on are under way (`model.occupancy.stages`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from einmap.arch.component import Leaf, Memory, Toll
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.mapper.fusion.budget import Budget
from einmap.mapper.fusion.fronts.loops import TEMPORAL
from einmap.mapper.fusion.fronts.outer_nests import FusionSignature, Key
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.pipelined.placements import Placement, placements, restricted
from einmap.mapper.pipelined.stage_fronts import COSTS, StageFronts, goals_of
from einmap.mapper.pipelined.stage_sums import OriginFront
from einmap.mapper.tolerances import ROUNDING
from einmap.mapping.pipelines import depths_of
from einmap.model.occupancy.stages import patterns_of

ROWS_AT_A_TIME = 200_000
"""Rows of chains that are put together at a time."""


class Origin(NamedTuple):
    """Where a row comes from: fronts and signatures of the stages, and the chain of each."""

    placement: Placement
    stages: tuple[StageFronts, ...]
    signatures: tuple[FusionSignature, ...]
    rows: tuple[int, ...]


@dataclass
class PipelineSearch:
    """The Pipelines of some successive Einsums, or the mappings of a single one. `judged`: see OriginFront."""

    problem: CascadeProblem
    einsums: tuple[Einsum, ...]
    judged: tuple[int, ...]
    leak_power: float
    budget: Budget
    fronts: dict[object, StageFronts]

    @cached_property
    def inside(self) -> frozenset[str]:
        """What one stage hands on to another, and nobody else uses."""
        names = {einsum.name for einsum in self.einsums}
        users = self.problem.workload.users
        return frozenset(
            t
            for einsum in self.einsums
            for t in einsum.outputs
            if t in self.problem.workload.intermediates and {*users[t]} <= names
        )

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """For how many stages each one waits."""
        return depths_of(self.problem.workload, [(einsum.name,) for einsum in self.einsums])

    @property
    def is_possible(self) -> bool:
        """Whether all that stages read of each other is handed on within the Pipeline, and each runs equally often."""
        outputs = {t for einsum in self.einsums for t in einsum.outputs}
        read = {t for einsum in self.einsums for t in einsum.inputs}
        alike = len({einsum.n_instances for einsum in self.einsums}) == 1
        return alike and outputs & read <= self.inside

    def run(self) -> OriginFront[Origin]:
        """The best of all placements, loops and chains. Raises StoppedError."""
        best: OriginFront[Origin] = OriginFront(self.judged)
        if not self.is_possible:
            return best
        archs = {einsum.name: self.problem.spec.bound[einsum.name].arch for einsum in self.einsums}
        if len(self.einsums) == 1:
            (einsum,) = self.einsums
            units = [unit.name for unit in archs[einsum.name].computes if unit.enabled]
            every: Iterator[Placement] = (Placement((unit,), None, (None,)) for unit in units)
        else:
            every = placements(self.einsums, archs)
        for placement in every:
            self._placed(placement, best)
        return best

    def _placed(self, placement: Placement, best: OriginFront[Origin]) -> None:
        """All loops and chains of one placement."""
        stages = self._stages(placement)
        for signatures in self._agreeing(stages):
            together = Together(self, placement, stages, signatures)
            if not best.beats(together.least()[None])[0]:
                together.add_to(best)

    @property
    def waits(self) -> bool:
        """Whether some stage waits for another one."""
        return max(self.depths) > 0

    def _stages(self, placement: Placement) -> tuple[StageFronts, ...]:
        """The fronts of each stage on its own hardware; those that were made before again."""
        archs = [self.problem.spec.bound[einsum.name].arch for einsum in self.einsums]
        paths = [arch.path(unit) for arch, unit in zip(archs, placement.units, strict=True)]
        open_ = [_outside(path, placement.fanout) for path in paths]
        common = tuple(
            leaf.name
            for leaf in open_[0]
            if isinstance(leaf, Memory | Toll) and any(leaf.name in {x.name for x in other} for other in open_[1:])
        )
        common += tuple(
            leaf.name
            for at, leaves in enumerate(open_[1:-1], start=1)
            for leaf in leaves
            if isinstance(leaf, Memory | Toll)
            and leaf.name not in common
            and any(leaf.name in {x.name for x in other} for other in open_[at + 1 :])
        )
        limited = (x for leaves in open_ for x in leaves if isinstance(x, Memory) and math.isfinite(x.size_bits))
        memories = tuple(dict.fromkeys(leaf.name for leaf in limited))
        found = []
        for einsum, arch, unit, lanes in zip(self.einsums, archs, placement.units, placement.lanes, strict=True):
            fanout = placement.fanout if lanes is not None else None
            key = einsum.name, unit, fanout, lanes, common, memories, self.inside & einsum.tensors
            if key not in self.fronts:
                request = self.problem.request(einsum, goals_of(common), self.inside & einsum.tensors)
                own = restricted(arch, unit, fanout, lanes)
                options = self.problem.options
                most = options.most_fused, options.most_fused_per_variable
                inside = self.inside & einsum.tensors
                self.fronts[key] = StageFronts(einsum, own, request, common, memories, inside, most, self.budget)
            found.append(self.fronts[key])
        return tuple(found)

    def _agreeing(self, stages: Sequence[StageFronts]) -> Iterator[tuple[FusionSignature, ...]]:
        """Signatures with the same loops and the same places of what stages share."""
        tensors = [[access.tensor for access in stage.einsum.accesses] for stage in stages]

        def key(at: int, signature: FusionSignature, others: frozenset[str]) -> Hashable:
            return signature.loops, tuple((tensors[at][t], k) for t, k in signature.keys if tensors[at][t] in others)

        def held(at: int, signature: FusionSignature) -> bool:
            """Whether a stage holds something that others use, too, once more above the loops."""
            rest = frozenset(t for i, names in enumerate(tensors) if i != at for t in names)
            return any(tensors[at][t] in rest for t, _, _ in signature.held)

        fitting = [[s for s in stage.signatures if not held(at, s)] for at, stage in enumerate(stages)]
        if self.waits:
            # of a single tile nothing overlaps
            fitting[0] = [s for s in fitting[0] if any(kind == TEMPORAL for kind, _ in s.loops)]
        before = [frozenset(t for names in tensors[:at] for t in names) for at in range(len(stages))]
        by_key: list[dict[Hashable, list[FusionSignature]]] = []
        for at, signatures in enumerate(fitting):
            of_stage: dict[Hashable, list[FusionSignature]] = {}
            for signature in signatures:
                of_stage.setdefault(key(at, signature, before[at]), []).append(signature)
            by_key.append(of_stage)

        def extend(
            chosen: tuple[FusionSignature, ...], known: Mapping[str, Key]
        ) -> Iterator[tuple[FusionSignature, ...]]:
            at = len(chosen)
            if at == len(stages):
                yield chosen
                return
            loops = chosen[0].loops
            wanted = loops, tuple((name, known[name]) for name in self._in_order(tensors[at], before[at]))
            for signature in by_key[at].get(wanted, ()):
                yield from extend((*chosen, signature), {**known, **_keys(tensors[at], signature)})

        for signature in fitting[0]:
            yield from extend((signature,), _keys(tensors[0], signature))

    def _in_order(self, names: Sequence[str], others: frozenset[str]) -> Iterator[str]:
        """The shared tensors of a stage that others use, in the order of its signatures."""
        shared = self.problem.workload.shared
        return (name for name in names if name in others and name in shared)


def _keys(names: Sequence[str], signature: FusionSignature) -> dict[str, Key]:
    return {names[t]: key for t, key in signature.keys}


def _outside(path: Sequence[Leaf], fanout: tuple[str, str] | None) -> list[Leaf]:
    """The components of a path that all stages have in common."""
    names = [leaf.name for leaf in path]
    return list(path[: names.index(fanout[0])] if fanout is not None and fanout[0] in names else path)


@dataclass
class Together:
    """Chains with some signatures, one of each stage."""

    search: PipelineSearch
    placement: Placement
    stages: tuple[StageFronts, ...]
    signatures: tuple[FusionSignature, ...]

    @cached_property
    def tiles(self) -> int:
        """How many tiles go through."""
        return math.prod(n for kind, n in self.signatures[0].loops if kind == TEMPORAL)

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
        """What no row is below."""
        bounds = [stage.least(s)[None] for stage, s in zip(self.stages, self.signatures, strict=True)]
        least: Floats = self.costs(bounds)[0]
        return least

    @cached_property
    def kept(self) -> list[tuple[Floats, tuple[int, ...]]]:
        """For each kind of turn the bits that shared tensors take in each memory, and which steps work."""
        memories, loops = self.stages[0].memories, self.signatures[0].loops
        places: dict[str, tuple[str, float, int, list[int]]] = {}
        for depth, stage, signature in zip(self.search.depths, self.stages, self.signatures, strict=True):
            above = {t: len(key.loops) for t, key in signature.keys}
            for t, (memory, bits) in stage.chains.backed(signature).items():
                outside = sum(kind == TEMPORAL for kind, _ in loops[: above[t]])
                known = places.setdefault(stage.einsum.accesses[t].tensor, (memory, bits, outside, []))
                known[3].append(depth)
        most = max(self.search.depths) + 3
        visits = tuple(product(*(range(min(n, most + 1)) for kind, n in loops if kind == TEMPORAL)))
        nodes = [(outside, tuple(depths)) for _, _, outside, depths in places.values()]
        found = []
        for copies, working in patterns_of(visits, nodes, max(self.search.depths) + 1):
            taken = np.zeros(len(memories))
            for n, (memory, bits, _, _) in zip(copies, places.values(), strict=True):
                if memory in memories:
                    taken[memories.index(memory)] += n * bits
            found.append((taken, working))
        return found

    @cached_property
    def capacity(self) -> Floats:
        """Bits of each memory."""
        sizes = {leaf.name: leaf.size_bits for stage in self.stages for leaf in stage.arch.memories}
        return np.array([sizes[name] for name in self.stages[0].memories])

    def add_to(self, best: OriginFront[Origin]) -> None:
        """Put chains of all stages together that fit beside each other."""
        fronts = [stage.front(s) for stage, s in zip(self.stages, self.signatures, strict=True)]
        own = [stage.own_bits(s) for stage, s in zip(self.stages, self.signatures, strict=True)]
        counts = [len(front.values) for front in fronts]
        total = math.prod(counts)
        for begin in range(0, total, ROWS_AT_A_TIME):
            numbers = np.arange(begin, min(begin + ROWS_AT_A_TIME, total))
            rows: tuple[Ints, ...] = np.unravel_index(numbers, counts)
            costs = self.costs(
                [f.values[r, : len(goals_of(self.stages[0].common))] for f, r in zip(fronts, rows, strict=True)]
            )
            useful = ~best.beats(costs)
            useful[useful] = self._fits([r[useful] for r in rows], own)
            chosen = np.flatnonzero(useful)
            if len(chosen):
                origins = [
                    Origin(self.placement, self.stages, self.signatures, tuple(int(r[i]) for r in rows)) for i in chosen
                ]
                best.add(costs[chosen], origins)

    def _fits(self, rows: Sequence[Ints], own: Sequence[Floats]) -> Bools:
        """Which rows fit into the common memories in every turn."""
        fits = np.ones(len(rows[0]), dtype=bool)
        for taken, working in self.kept:
            used = np.tile(taken, (len(rows[0]), 1))
            for depth, bits, row in zip(self.search.depths, own, rows, strict=True):
                if depth in working:
                    used += bits[row]
            fits &= (used <= self.capacity * (1 + ROUNDING)).all(axis=1)
        return fits
