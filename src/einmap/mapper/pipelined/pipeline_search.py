"""The best Pipelines of some successive Einsums, cut into stages.

A chain of each Einsum, all with the same loops above what they hand on. What a Pipeline takes follows from whole
latencies, busy times of what is common, and the number of tiles (`model.pipelines`); what it holds from the space of
each chain, and from how many visits of what is handed on are under way (`model.occupancy.stages`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from einmap.arch.component import Leaf, Memory, Toll
from einmap.einsum.einsum import Einsum
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key
from einmap.mapper.fusion.meter import Meter
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.tree import LinearNest
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.pipelined.placements import Placement, placements, restricted
from einmap.mapper.pipelined.stage_fronts import Group, GroupRows, Row, StageFronts, goals_of
from einmap.mapper.pipelined.stage_sums import OriginFront, in_turns
from einmap.mapper.pipelined.together import Together
from einmap.mapping.pipelines import depths_of


class Origin(NamedTuple):
    """Where a row comes from: fronts and chain of each Einsum, and how many Einsums each stage has."""

    placement: Placement
    fronts: tuple[StageFronts, ...]
    rows: tuple[Row, ...]
    sizes: tuple[int, ...]

    @property
    def nests(self) -> list[LinearNest]:
        """The chain of each Einsum."""
        return [of.nest(row) for of, row in zip(self.fronts, self.rows, strict=True)]


@dataclass
class PipelineSearch:
    """The Pipelines of some successive Einsums, or the mappings of a single one. `judged`: see OriginFront.

    `stages`: the Einsums of each stage. `exchanging`: whether Einsums may hand something on within the Pipeline.
    `given`: what the Einsums are given, each with its stage.
    """

    problem: CascadeProblem
    stages: tuple[tuple[Einsum, ...], ...]
    judged: tuple[int, ...]
    leak_power: float
    meter: Meter
    fronts: dict[object, StageFronts]
    exchanging: bool = True
    given: Mapping[str, Pattern] = field(default_factory=dict)
    _turns: dict[object, GroupRows] = field(default_factory=dict, init=False)

    @cached_property
    def einsums(self) -> tuple[Einsum, ...]:
        """All Einsums in order."""
        return tuple(einsum for stage in self.stages for einsum in stage)

    @cached_property
    def ranges(self) -> tuple[slice, ...]:
        """The Einsums of each stage among all."""
        ends = [sum(len(stage) for stage in self.stages[: number + 1]) for number in range(len(self.stages))]
        return tuple(slice(end - len(stage), end) for end, stage in zip(ends, self.stages, strict=True))

    @cached_property
    def inside(self) -> frozenset[str]:
        """Tensors that one stage hands on to another, and nobody else uses."""
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
        return depths_of(self.problem.workload, [[einsum.name for einsum in stage] for stage in self.stages])

    @property
    def is_possible(self) -> bool:
        """Whether all that stages read of each other is handed on within the Pipeline, and each runs equally often."""
        outputs = {t for einsum in self.einsums for t in einsum.outputs}
        read = {t for einsum in self.einsums for t in einsum.inputs}
        alike = len({einsum.n_instances for einsum in self.einsums}) == 1
        return alike and outputs & read <= (self.inside if self.exchanging else frozenset())

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
            every = placements(self.stages, archs)
        fanouts = {stage.fanout for pattern in self.given.values() if (stage := pattern.stage) is not None}
        for placement in every:
            if fanouts and placement.fanout not in fanouts:
                continue
            self._placed(placement, best)
        return best

    def _placed(self, placement: Placement, best: OriginFront[Origin]) -> None:
        """All loops and chains of one placement."""
        fronts = self._fronts(placement)
        sizes = tuple(len(stage) for stage in self.stages)
        for groups in self._agreeing(fronts):
            together = Together(self, fronts, groups)
            if best.beats(together.least()[None])[0]:
                continue
            for costs, chains in together.rows(best.beats):
                best.add(costs, [Origin(placement, fronts, rows, sizes) for rows in chains])

    @property
    def waits(self) -> bool:
        """Whether some stage waits for another one."""
        return max(self.depths) > 0

    def turns(self, fronts: Sequence[StageFronts], groups: Sequence[Group]) -> GroupRows:
        """The chains of a stage, whose Einsums take turns. Raises StoppedError."""
        key = (*fronts, *(group.signatures for group in groups))
        if key not in self._turns:
            self._turns[key] = in_turns([f.rows(g) for f, g in zip(fronts, groups, strict=True)], self.judged)
            self.meter.go_on()
        return self._turns[key]

    def _fronts(self, placement: Placement) -> tuple[StageFronts, ...]:
        """The fronts of each Einsum on the hardware of its stage; those that were made before again."""
        archs = [self.problem.spec.bound[einsum.name].arch for einsum in self.einsums]
        paths = [arch.path(unit) for arch, unit in zip(archs, placement.units, strict=True)]
        open_ = [_outside(path, placement.fanout) for path in paths]
        users: dict[str, set[int]] = {}
        for number, of_stage in enumerate(self.ranges):
            for leaf in (x for leaves in open_[of_stage] for x in leaves if isinstance(x, Memory | Toll)):
                users.setdefault(leaf.name, set()).add(number)
        common = tuple(name for name, numbers in users.items() if len(numbers) > 1)
        shared = _limited(open_)
        found = []
        for stage, of_stage in zip(self.stages, self.ranges, strict=True):
            # what Einsums of one stage keep in its own memories stays there while another one runs
            own = _limited(paths[of_stage]) if len(stage) > 1 else ()
            memories = (*shared, *(name for name in own if name not in shared))
            for einsum, arch, unit, lanes, leaves in zip(
                stage,
                archs[of_stage],
                placement.units[of_stage],
                placement.lanes[of_stage],
                open_[of_stage],
                strict=True,
            ):
                fanout = placement.fanout if lanes is not None else None
                inside, in_turns_ = self.inside & einsum.tensors, len(stage) > 1
                outside = frozenset(leaf.name for leaf in leaves)
                key = einsum.name, unit, fanout, lanes, common, memories, len(shared), outside, inside, in_turns_
                if key not in self.fronts:
                    request = self.problem.request(einsum, goals_of(common), inside)
                    if einsum.name in self.given:
                        request = replace(request, given=self.given[einsum.name])
                    options = self.problem.options
                    most = options.most_fused, options.most_fused_per_variable
                    self.fronts[key] = StageFronts(
                        einsum, restricted(arch, unit, fanout, lanes), request, common, memories, len(shared), outside,
                        inside, in_turns_, most, self.meter,
                    )  # fmt: skip
                found.append(self.fronts[key])
        return tuple(found)

    def _agreeing(self, fronts: Sequence[StageFronts]) -> Iterator[tuple[Group, ...]]:
        """Groups of signatures with the same loops and the same places of what Einsums share."""
        tensors = [[access.tensor for access in of_einsum.einsum.accesses] for of_einsum in fronts]

        def key(at: int, group: Group, others: frozenset[str]) -> Hashable:
            return group.loops, tuple((tensors[at][t], k) for t, k in group.keys if tensors[at][t] in others)

        def held(at: int, signature: FusionSignature) -> bool:
            """Whether an Einsum holds something that others use, too, once more above the loops."""
            rest = frozenset(t for i, names in enumerate(tensors) if i != at for t in names)
            return any(tensors[at][t] in rest for t, _, _ in signature.held)

        fitting = [grouped(s for s in of.signatures if not held(at, s)) for at, of in enumerate(fronts)]
        if self.waits:
            # of a single tile nothing overlaps
            fitting[0] = [g for g in fitting[0] if any(kind == TEMPORAL for kind, _ in g.loops)]
        before = [frozenset(t for names in tensors[:at] for t in names) for at in range(len(fronts))]
        by_key: list[dict[Hashable, list[Group]]] = []
        for at, groups in enumerate(fitting):
            of_einsum: dict[Hashable, list[Group]] = {}
            for group in groups:
                of_einsum.setdefault(key(at, group, before[at]), []).append(group)
            by_key.append(of_einsum)

        def extend(chosen: tuple[Group, ...], known: Mapping[str, Key]) -> Iterator[tuple[Group, ...]]:
            at = len(chosen)
            if at == len(fronts):
                yield chosen
                return
            loops = chosen[0].loops
            wanted = loops, tuple((name, known[name]) for name in self._in_order(tensors[at], before[at]))
            for group in by_key[at].get(wanted, ()):
                yield from extend((*chosen, group), {**known, **_keys(tensors[at], group)})

        for group in fitting[0]:
            yield from extend((group,), _keys(tensors[0], group))

    def _in_order(self, names: Sequence[str], others: frozenset[str]) -> Iterator[str]:
        """The shared tensors of a stage that others use, in the order of its signatures."""
        shared = self.problem.workload.shared
        return (name for name in names if name in others and name in shared)


def grouped(signatures: Iterable[FusionSignature]) -> list[Group]:
    """Signatures that are the same to the others, put together."""
    found: dict[object, list[FusionSignature]] = {}
    for signature in signatures:
        found.setdefault((signature.loops, signature.keys), []).append(signature)
    return [Group(alike[0].loops, alike[0].keys, tuple(alike)) for alike in found.values()]


def _keys(names: Sequence[str], group: Group) -> dict[str, Key]:
    return {names[t]: key for t, key in group.keys}


def _limited(paths: Sequence[Sequence[Leaf]]) -> tuple[str, ...]:
    """Memories of limited size on some paths."""
    leaves = (leaf for path in paths for leaf in path)
    return tuple(dict.fromkeys(x.name for x in leaves if isinstance(x, Memory) and math.isfinite(x.size_bits)))


def _outside(path: Sequence[Leaf], fanout: tuple[str, str] | None) -> list[Leaf]:
    """The components of a path that all stages have in common."""
    names = [leaf.name for leaf in path]
    return list(path[: names.index(fanout[0])] if fanout is not None and fanout[0] in names else path)
