"""The best fused mappings of a small cascade, by trying all of them: a judge for the mapper.

    optimum(spec, "energy_delay_product", "exact")
    front(spec, "accelforge", max_fused_loops=1)

For every choice of one boundary state for each Einsum that fit each other the space that others leave is known, so that
each Einsum's chains are judged by themselves; sums of energy and latency are then tried from the best on, and the first
whose LoopTree `einmap.evaluate` accepts is the optimum. What evaluate says must be what was computed here: the sums, and
that the tiles fit; a tree that it refuses for another reason is remembered as a `Refusal`.

Readings of the text:
- all users of a shared tensor must have the same key, also where it is a graph input;
- mappings in which an Einsum reads an intermediate before it is complete are left out (`whole_values`): where reader
  and producer share more loops than stand above the tensor's backing node, the temporal ones of those must cut the
  tensor alike (variables that index the same rank alone, the same tile shape). The simulator finds wrong results
  without this.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tests.mapper.fusion.chains import BoundaryState, EinsumFronts, Labels, LinearNest, Resident
from tests.mapper.fusion.placements import indexes
from tests.mapper.fusion.tree import tree_of

import einmap
from einmap.arch.component import Memory
from einmap.errors import CapacityError, EinmapError
from einmap.mapping.mapping import Mapping
from einmap.model.counting.semantics import semantics_named
from einmap.spec.spec import Spec

type Floats = NDArray[np.float64]

GOALS = {
    "energy": lambda energy, latency: energy,
    "latency": lambda energy, latency: latency,
    "energy_delay_product": lambda energy, latency: energy * latency,
}


def optimum(
    spec: Spec,
    goal: str,
    semantics: str = "exact",
    max_fused_loops: float = math.inf,
    per_variable: float = 1,
    *,
    whole_values: bool = True,
) -> float:
    """The least energy (J), latency (s) or energy_delay_product (J*s); inf when no mapping fits."""
    return CascadeProblem(spec, semantics, max_fused_loops, per_variable, whole_values).optimum(goal)[0]


def front(
    spec: Spec,
    semantics: str = "exact",
    max_fused_loops: float = math.inf,
    per_variable: float = 1,
    *,
    whole_values: bool = True,
) -> list[tuple[float, float]]:
    """The (energy, latency) that no other mapping is at most as large as in both, sorted by energy."""
    found = CascadeProblem(spec, semantics, max_fused_loops, per_variable, whole_values).front()
    return [(point.energy, point.latency) for point in found]


@dataclass(frozen=True)
class Point:
    """A mapping that evaluate accepted."""

    energy: float
    latency: float
    mapping: Mapping


@dataclass(frozen=True)
class Refusal:
    """A mapping that should be valid, and why evaluate refuses it."""

    mapping: Mapping
    problem: EinmapError


@dataclass(frozen=True)
class Fitting:
    """One boundary state for each Einsum, and the loops that each but the first shares with the one before."""

    boundary_states: tuple[BoundaryState, ...]
    between: tuple[int, ...]

    def shared(self, i: int, j: int) -> int:
        """Loops that Einsums i and j share."""
        return min(self.between[min(i, j) : max(i, j)])


@dataclass
class CascadeProblem:
    """All fused mappings of a specification. `whole_values`: see above."""

    spec: Spec
    semantics: str
    max_fused_loops: float = math.inf
    per_variable: float = 1
    whole_values: bool = True
    refused: list[Refusal] = field(default_factory=list)
    evaluated: int = 0

    def __post_init__(self) -> None:
        self.rules = semantics_named(self.semantics)
        self.workload = self.spec.workload
        self.names = self.workload.einsum_names
        self.sizes: dict[str, float] = {}
        self.outermost: dict[str, str] = {}
        self.rows: list[dict[BoundaryState, Labels]] = []
        for einsum in self.workload.einsums:
            chains = EinsumFronts(self.spec, einsum, self.rules, self.max_fused_loops, self.per_variable)
            self.memories = chains.memories
            self.sizes = dict(zip(chains.memories, chains.sizes, strict=True))
            paths = [chains.arch.path(u.name) for u in chains.arch.computes if u.enabled]
            (self.outermost[einsum.name],) = {next(x.name for x in p if isinstance(x, Memory)) for p in paths}
            self.rows.append(chains.by_interface())

    # what fits

    def fitting(self) -> Iterator[Fitting]:
        """All choices of boundary states that fit each other, space not looked at."""
        shared = sorted(self.workload.shared)

        def extend(chosen: tuple[BoundaryState, ...], known: dict[str, object]) -> Iterator[tuple[BoundaryState, ...]]:
            at = len(chosen)
            if at == len(self.rows):
                yield chosen
                return
            given = tuple(t for t in shared if t in known and self.names[at] in self.workload.users[t])
            for one in self.by_keys(at, given).get(tuple(known[t] for t in given), ()):
                yield from extend((*chosen, one), {**known, **one.key_of})

        for boundary_states in extend((), {}):
            between = self.between(boundary_states)
            if between is not None:
                found = Fitting(boundary_states, between)
                if self.nothing_kept_twice(found) and (not self.whole_values or self.values_are_whole(found)):
                    yield found

    def by_keys(self, at: int, tensors: tuple[str, ...]) -> dict[tuple[object, ...], list[BoundaryState]]:
        """Boundary states of one Einsum by the keys of some tensors."""
        cache = self.__dict__.setdefault("_by_keys", {})
        if (at, tensors) not in cache:
            found: dict[tuple[object, ...], list[BoundaryState]] = {}
            for one in self.rows[at]:
                found.setdefault(tuple(one.key_of[t] for t in tensors), []).append(one)
            cache[at, tensors] = found
        return cache[at, tensors]  # type: ignore[no-any-return]

    def span(self, tensor: str) -> tuple[int, int]:
        """First and last user of a tensor."""
        users = [self.names.index(u) for u in self.workload.users[tensor]]
        return users[0], users[-1]

    def between(self, boundary_states: tuple[BoundaryState, ...]) -> tuple[int, ...] | None:
        """Loops shared by neighbours; None where they are not alike."""
        found = []
        for k in range(1, len(boundary_states)):
            before, after = boundary_states[k - 1], boundary_states[k]
            n = 0
            for tensor in self.workload.shared:
                first, last = self.span(tensor)
                if first < k <= last:
                    n = max(n, boundary_states[first].depth(tensor))
            if n > min(len(before.loops), len(after.loops)):
                return None
            for one, other in zip(before.loops[:n], after.loops[:n], strict=True):
                if (one.kind, one.count) != (other.kind, other.count):
                    return None
            found.append(n)
        return tuple(found)

    def users_of(self, tensor: str) -> list[int]:
        return [self.names.index(u) for u in self.workload.users[tensor]]

    def nothing_kept_twice(self, fitting: Fitting) -> bool:
        """No shared tensor is kept again above a loop that two of its users share."""
        return all(
            fitting.boundary_states[j].lowest_of[tensor] >= fitting.shared(i, j)
            for tensor in self.workload.shared
            for i in self.users_of(tensor)
            for j in self.users_of(tensor)
            if i != j
        ) and all(
            # rows of a table are fetched when their indices are made; no others may share the loops below them
            boundary_state.lowest_of[a.tensor] >= fitting.shared(i, j)
            for i, boundary_state in enumerate(fitting.boundary_states)
            for a in self.workload.by_name[boundary_state.einsum].gathers
            if any(index.tensor in self.workload.producers for index in a.lookups.values())
            for j in (i - 1, i + 1)
            if 0 <= j < len(fitting.boundary_states)
        )

    def values_are_whole(self, fitting: Fitting) -> bool:
        """Readers inside loops that they share with the producer read what these loops have completed."""
        for tensor in self.workload.intermediates:
            i = self.names.index(self.workload.producers[tensor])
            for j in self.users_of(tensor):
                if j == i:
                    continue
                for level in range(fitting.boundary_states[i].depth(tensor), fitting.shared(i, j)):
                    if fitting.boundary_states[i].loops[level].kind != "temporal":
                        continue  # all lanes have written before the reader's branch begins
                    cuts = [self.cut(tensor, fitting.boundary_states[e], level) for e in (i, j)]
                    if None in cuts or cuts[0] != cuts[1]:
                        return False
        return True

    def cut(self, tensor: str, boundary_state: BoundaryState, level: int) -> tuple[str, int] | None:
        """Rank and tile shape that a fused loop cuts a tensor into; None where it does not do so alone."""
        access = self.workload.by_name[boundary_state.einsum].by_tensor[tensor]
        loop = boundary_state.loops[level]
        if not indexes(access, loop.variable, intermediate=True):
            return None
        return next(r for r, x in access.projection if any(v == loop.variable for v, _ in x.terms)), loop.shape

    # space

    def remainder(self, fitting: Fitting, running: int) -> dict[str, float]:
        """Bits in each memory, while one Einsum runs, of what it does not keep by itself, or keeps in larger tiles."""
        extra = dict.fromkeys(self.memories, 0.0)
        mine = fitting.boundary_states[running]
        backing: dict[str, float] = {}
        for tensor in self.workload.shared:
            first, last = self.span(tensor)
            if first <= running <= last:
                backing[tensor] = self.shared_bits(fitting, tensor, running)
        for j, other in enumerate(fitting.boundary_states):
            if j == running:
                continue
            for node in other.residents:
                if self.lasts(node, other, fitting.shared(running, j)):
                    if node.shared:
                        backing[node.tensor] = self.shared_bits(fitting, node.tensor, running)
                    else:
                        extra[node.memory] += node.bits
        for tensor, bits in backing.items():
            extra[self.key_memory(fitting, tensor)] += bits
        for node in mine.residents:
            if node.shared:
                extra[node.memory] -= node.bits
        return extra

    def key_memory(self, fitting: Fitting, tensor: str) -> str:
        return fitting.boundary_states[self.span(tensor)[0]].key_of[tensor][0]

    def lasts(self, node: Resident, boundary_state: BoundaryState, shared: int) -> bool:
        """Whether a node stays while another Einsum runs that shares so many loops."""
        if node.depth >= shared:
            return False
        if self.rules.lifetimes == "shared tensors":
            return True
        return any(loop.kind == "temporal" for loop in boundary_state.loops[node.depth : shared])

    def shared_bits(self, fitting: Fitting, tensor: str, running: int) -> float:
        """Bits of the one buffer of a shared tensor: under `exact` its tile holds the tiles of all users.

        Bits for each value are those of the running Einsum, or of the first user.
        """
        users = [fitting.boundary_states[i] for i in self.users_of(tensor)]
        own = [next(r.bits for r in u.residents if r.shared and r.tensor == tensor) for u in users]
        at = self.users_of(tensor).index(running) if running in self.users_of(tensor) else 0
        if self.rules.buffer_above_split == "each Einsum":
            return own[at]
        tiles = [u.tile_of[tensor] for u in users]
        largest = [max(ranks) for ranks in zip(*tiles, strict=True)]
        return own[at] / math.prod(tiles[at]) * math.prod(largest)

    def usage(self, fitting: Fitting, rows: Sequence[int]) -> dict[str, float]:
        """The most bits at one time in each memory."""
        peaks = dict.fromkeys(self.memories, 0.0)
        for e, boundary_state in enumerate(fitting.boundary_states):
            own = self.rows[e][boundary_state].own[rows[e]]
            remainder = self.remainder(fitting, e)
            for m, name in enumerate(self.memories):
                peaks[name] = max(peaks[name], own[m] + remainder[name])
        return peaks

    # the best

    @cached_property
    def candidates(self) -> list[tuple[float, float, Fitting, tuple[int, ...]]]:
        """For all that fit, tiles included, the non-dominated sums of energy and latency."""
        return list(self.sums())

    def sums(self) -> Iterator[tuple[float, float, Fitting, tuple[int, ...]]]:
        for fitting in self.fitting():
            options = []
            for e, boundary_state in enumerate(fitting.boundary_states):
                rows = self.rows[e][boundary_state]
                remainder = self.remainder(fitting, e)
                free = np.array([self.sizes[m] - remainder[m] for m in self.memories])
                fits = np.flatnonzero((rows.own <= free).all(axis=1))
                options.append(fits[_nondominated(rows.energy[fits], rows.latency[fits])])
            sums: list[tuple[float, float, tuple[int, ...]]] = [(0.0, 0.0, ())]
            for e, boundary_state in enumerate(fitting.boundary_states):
                rows = self.rows[e][boundary_state]
                sums = [
                    (energy + rows.energy[r], latency + rows.latency[r], (*chosen, int(r)))
                    for energy, latency, chosen in sums
                    for r in options[e]
                ]
                kept = _nondominated(np.array([s[0] for s in sums]), np.array([s[1] for s in sums]))
                sums = [sums[i] for i in kept]
            for energy, latency, chosen in sums:
                yield float(energy), float(latency), fitting, chosen

    def optimum(self, goal: str) -> tuple[float, Point | None]:
        """The least value and a mapping that has it; (inf, None) when there is none."""
        value = GOALS[goal]
        for energy, latency, fitting, rows in sorted(self.candidates, key=lambda c: value(c[0], c[1])):
            point = self.try_out(fitting, rows, energy, latency)
            if point is not None:
                return value(energy, latency), point
        return math.inf, None

    def front(self) -> list[Point]:
        """The non-dominated points, sorted by energy."""
        points: list[Point] = []
        for energy, latency, fitting, rows in sorted(self.candidates, key=lambda c: c[:2]):
            if not points or latency < points[-1].latency * (1 - 1e-12):
                point = self.try_out(fitting, rows, energy, latency)
                if point is not None:
                    points.append(point)
        return points

    def chains(self, fitting: Fitting, rows: Sequence[int]) -> list[LinearNest]:
        return [self.rows[e][one].chain(rows[e]) for e, one in enumerate(fitting.boundary_states)]

    def mapping(self, fitting: Fitting, rows: Sequence[int]) -> Mapping:
        """The tree of one chain of each Einsum."""
        return tree_of(self.chains(fitting, rows), fitting.between, self.workload, self.outermost)

    def try_out(self, fitting: Fitting, rows: Sequence[int], energy: float, latency: float) -> Point | None:
        """What evaluate says of a mapping that should be valid, None (and a Refusal) when it does not accept it."""
        mapping = self.mapping(fitting, rows)
        self.evaluated += 1
        try:
            cost = einmap.evaluate(self.spec, mapping, semantics=self.semantics)
        except CapacityError:
            raise
        except EinmapError as problem:
            self.refused.append(Refusal(mapping, problem))
            return None
        assert math.isclose(cost.energy, energy, rel_tol=1e-9, abs_tol=1e-12), (cost.energy, energy, mapping)
        assert math.isclose(cost.latency, latency, rel_tol=1e-9, abs_tol=1e-12), (cost.latency, latency, mapping)
        return Point(energy, latency, mapping)


def _nondominated(energy: Floats, latency: Floats) -> NDArray[np.int64]:
    """Numbers of the points that no other is at most as large as in both."""
    order = np.lexsort((latency, energy))
    before = np.concatenate([[np.inf], np.minimum.accumulate(latency[order])])[: len(order)]
    return order[latency[order] < before]
