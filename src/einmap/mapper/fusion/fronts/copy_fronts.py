"""The chains of a copy Einsum: only where its tensors are kept matters, and the loops above them.

What a copy costs follows from the memories that back its source and its destinations. Each tensor has one storage node,
and no lanes are used. A destination in its source's memory is the same buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import permutations, product

import numpy as np

from einmap.arch.component import Leaf, Memory
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.errors import NotSupportedError
from einmap.mapper.fusion.fronts.listed_fronts import ListedFronts
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL, rank_cut, shapes_left
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key
from einmap.mapper.fusion.fronts.protocol import FrontMemories, FusedFront
from einmap.mapper.mapspace.dataplacement import backings
from einmap.mapper.mapspace.latency_forms import forms_of
from einmap.mapper.mapspace.recomputation import variables_above
from einmap.mapper.objective.objectives import OWN, busy_form
from einmap.mapper.problem.request import Request
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.batch.einsum_cost import einsum_cost
from einmap.model.counting.path import path_of
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.copies import copy_busiest
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.numbers import divisors

type Assignment = tuple[tuple[str, str], ...]
"""For each tensor the memory that backs it."""


@dataclass(frozen=True, slots=True)
class _Written:
    """One chain: its nodes, the first of them in the outermost memory; costs; bits by memory, and of shared tensors."""

    nodes: tuple[tree.Node, ...]
    n_outer: int
    costs: tuple[float, ...]
    used: dict[str, float]
    kept: tuple[tuple[str, float, int], ...]
    backed: dict[int, tuple[str, float]]


@dataclass(eq=False)
class CopyFronts(ListedFronts):
    """All chains of one copy. `request`: its goals are what is added up over Einsums."""

    einsum: Einsum
    arch: Architecture
    request: Request
    most: float
    most_per_axis: float
    signatures: dict[FusionSignature, list[_Written]] = field(default_factory=dict)
    """Of the chains that are looked at."""
    complete: bool = True
    space: FrontMemories = field(default_factory=FrontMemories)
    """The memories of the columns of fronts, once they are known."""

    def __post_init__(self) -> None:
        self.source = next(a.tensor for a in self.einsum.accesses if not a.output)
        self.position = {a.tensor: i for i, a in enumerate(self.einsum.accesses)}
        unit = next(unit for unit in self.arch.computes if unit.enabled)
        self.leaves = self.arch.path(unit.name)
        self.costs: dict[Assignment, tuple[float, ...] | None] = {}
        self.refused: list[NotSupportedError] = []
        """The model's words on chains that it cannot cost."""
        self._list()
        self.every = self.signatures
        if self.refused and not self.signatures:
            raise self.refused[0]

    @property
    def covers_mapspace(self) -> bool:
        """Whether the chains are all that the mapspace of the Einsum has."""
        return self.complete and not self.refused

    @property
    def why_brute_force(self) -> str | None:
        """Why the Einsum is searched by brute force, None where it is not."""
        return None

    @property
    def omissions(self) -> tuple[str, ...]:
        """Mappings that were not searched, in words."""
        kind = f"some mappings with a copy of {self.source}"
        return tuple(dict.fromkeys(f"{kind}: {error.message}" for error in self.refused))

    def may_stand_below_loops(self, memory: str) -> bool:
        """Whether fused loops may stand above the outermost node of a shared tensor in a memory."""
        return memory != self._top().name

    def least(self, weights: Floats) -> Floats:
        """For each row of weights what every chain costs at least; infinite where there is none."""
        costs = np.array([chain.costs for chains in self.every.values() for chain in chains])
        least: Floats = (costs.reshape(-1, weights.shape[1]) @ weights.T).min(axis=0, initial=math.inf)
        return least

    def _list(self) -> None:
        """List all chains."""
        tensors = tuple(a.tensor for a in self.einsum.accesses)
        outside = self.einsum.tensors - self.request.intermediates
        for assignment in sorted({
            tuple((t, held[t]) for t in tensors) for held in backings(self.einsum, self.leaves, outside)
        }):  # fmt: skip
            for order in self._orders(assignment):
                for loops in self._loops(order):
                    self._add(assignment, order, loops)

    def _level(self, memory: str) -> int:
        return next(i for i, leaf in enumerate(self.leaves) if leaf.name == memory)

    def _top(self) -> Leaf:
        return next(leaf for leaf in self.leaves if isinstance(leaf, Memory) and leaf.enabled)

    def _orders(self, assignment: Assignment) -> Iterator[tuple[tuple[str, str], ...]]:
        """Orders of the storage nodes: the hierarchy holds, and nodes of the outermost memory keep their order."""
        top = self._top().name
        outer = [(t, m) for t, m in assignment if m == top]
        inner = [(t, m) for t, m in assignment if m != top]
        for order in permutations(inner):
            levels = [self._level(m) for _, m in order]
            if levels == sorted(levels):
                yield (*outer, *order)

    def _loops(self, order: tuple[tuple[str, str], ...]) -> Iterator[tuple[tuple[tuple[str, int], ...], ...]]:
        """For each gap above an inner node its loops, as (variable, tile shape), in every order.

        A copy's nodes in one memory stand together, with no loop between them.
        """
        top = self._top().name
        waiting = [t for t, m in order if m != top]
        memories = [m for _, m in order if m != top]

        def extend(
            index: int, sizes: dict[str, int], used: tuple[str, ...]
        ) -> Iterator[tuple[tuple[tuple[str, int], ...], ...]]:
            if index == len(waiting):
                yield ()
                return
            together = index > 0 and memories[index] == memories[index - 1]
            allowed = [v for v in sizes if not together and all(self._may_stand_above(t, v) for t in waiting[index:])]
            free = [v for v in allowed if used.count(v) < self.most_per_axis and sizes[v] > 1]
            for shapes in product(*([sizes[v], *divisors(sizes[v])[:-1]] for v in free)):
                loops = [(v, shape) for v, shape in zip(free, shapes, strict=True) if shape != sizes[v]]
                if len(used) + len(loops) > self.most:
                    continue
                for arranged in permutations(loops):
                    after = {**sizes, **dict(loops)}
                    for rest in extend(index + 1, after, (*used, *(v for v, _ in loops))):
                        yield (arranged, *rest)

        yield from extend(0, dict(self.einsum.bounds), ())

    def _may_stand_above(self, tensor: str, variable: str) -> bool:
        return variable in variables_above(self.einsum.by_tensor[tensor], True, self.request.uncut)

    def _add(
        self, assignment: Assignment, order: tuple[tuple[str, str], ...], gaps: tuple[tuple[tuple[str, int], ...], ...]
    ) -> None:
        """Write one chain down, unless it does not fit by itself."""
        top = self._top().name
        nodes: list[tree.Node] = []
        sizes = dict(self.einsum.bounds)
        above: list[tuple[str, int, int]] = []
        used: dict[str, float] = {}
        kept, keys, backed = [], [], {}
        waiting = list(gaps)
        for tensor, memory in order:
            if memory != top:
                for v, shape in waiting.pop(0):
                    nodes.append(tree.Temporal(tree.PerEinsum(v), tree.PerEinsum(shape)))
                    above.append((v, sizes[v], shape))
                    sizes[v] = shape
            access = self.einsum.by_tensor[tensor]
            lasting = memory == top and access.persistent
            nodes.append(tree.Storage((tensor,), memory, lasting))
            bits = access.footprint(sizes) * self._memory(memory).bits[tensor]
            if tensor in self.request.wider:
                bits = float(Fraction(bits) * self.request.wider[tensor])
            alias = tensor != self.source and memory == dict(assignment)[self.source]
            if not lasting and not alias:
                used[memory] = used.get(memory, 0.0) + bits
            t = self.position[tensor]
            if tensor in self.request.shared:
                keys.append((t, Key(memory, tuple((TEMPORAL, rank_cut(access, v), shape) for v, _, shape in above))))
                backed[t] = (memory, bits)
            elif not lasting:
                kept.append((memory, bits, len(above)))
        if any(bits > self._memory(memory).size_bits for memory, bits in used.items()):
            return
        for v, size in sizes.items():
            if size > 1:
                nodes.append(tree.Temporal(tree.PerEinsum(v), tree.PerEinsum(1)))
        nodes.append(tree.Compute(self.einsum.name, self.leaves[-1].name))
        fused = max((len(key.loops) for _, key in keys), default=0)
        counts = tuple((TEMPORAL, outer // inner) for _, outer, inner in above[:fused])
        cuts = []
        for t, key in keys:
            access = self.einsum.accesses[t]
            seen = tuple((TEMPORAL, rank_cut(access, v), shape) for v, _, shape in above[:fused])
            if fused > len(key.loops):
                cuts.append((t, seen[len(key.loops) :]))
        signature = FusionSignature(tuple(sorted(keys)), counts, (), tuple(sorted(cuts)))
        n_outer = sum(memory == top for _, memory in order)
        costs = self._costs(assignment, nodes)
        if costs is None:
            return
        self.signatures.setdefault(signature, []).append(
            _Written(tuple(nodes), n_outer, costs, used, tuple(kept), backed)
        )

    def _memory(self, name: str) -> Memory:
        memory = self.leaves[self._level(name)]
        assert isinstance(memory, Memory)
        return memory

    def _costs(self, assignment: Assignment, nodes: list[tree.Node]) -> tuple[float, ...] | None:
        """Costs added up over Einsums, for one instance: the same for all loops; None where it is not known."""
        if assignment not in self.costs:
            path = path_of(LoopTree(tuple(nodes)), self.einsum, self.arch)
            try:
                cost = einsum_cost(path, EinsumTraffic(path, self.request.rules), self.arch)
            except NotSupportedError as error:
                self.refused.append(error)
                self.costs[assignment] = None
                return None
            values = {
                "energy": cost.energy, "latency": cost.latency,
                "dynamic_energy": cost.dynamic, "leak_energy": cost.energy - cost.dynamic,
            }  # fmt: skip
            if OWN in self.request.goals:
                values |= {OWN: cost.latency, **self._forms(copy_busiest(path))}
            self.costs[assignment] = tuple(float(values.get(goal, 0.0)) for goal in self.request.goals)
        return self.costs[assignment]

    def _forms(self, busiest: Mapping[str, Actions]) -> dict[str, float]:
        """Seconds of each latency form of each component that the copy uses."""
        found = {}
        for name, done in busiest.items():
            unit = self.arch.components[name]
            for number, form in enumerate(forms_of(unit, self.einsum.name) or ()):
                seconds = (form.read * done.read + form.write * done.write) * unit.actions_scale
                found[busy_form(name, number)] = float(seconds)
        return found

    # as EinsumFronts has it

    def begin_again(self, most: float, apart: int = 1, uses: float = math.inf) -> None:
        """Look at chains with so many fused loops from here on: no others can be met. See Fronts."""
        del uses
        # where there are recurrences a loop over their steps stands above all
        most += self.request.few_orders
        self.signatures = {s: c for s, c in self.every.items() if len(s.loops) <= most and _is_apart(s, apart)}

    def put_aside(self) -> Callable[[], None]:
        """Look at the chains of today again once the result is called."""
        return partial(setattr, self, "signatures", self.signatures)

    def bounds(self, signature: FusionSignature) -> Floats:
        """Costs of a signature, a row for each chain."""
        return np.array([chain.costs for chain in self.signatures[signature]])

    def backed(self, signature: FusionSignature) -> dict[int, tuple[str, float]]:
        """For each shared tensor (by its position) the memory that backs it, and the bits that its tile takes there."""
        return self.signatures[signature][0].backed

    def sizes(self) -> dict[str, float]:
        """Bits of each memory that is not boundless."""
        memories = [leaf for leaf in self.leaves if isinstance(leaf, Memory)]
        return {memory.name: memory.size_bits for memory in memories if math.isfinite(memory.size_bits)}

    def kept_in(self) -> set[str]:
        """Memories in which something may stay while other Einsums run: below all fused loops nothing does."""
        memories = {key.memory for signature in self.every for _, key in signature.keys}
        for signature, chains in self.every.items():
            n = len(signature.loops)
            memories.update(memory for chain in chains for memory, _, depth in chain.kept if depth < n)
        return memories

    def persistent(self) -> dict[str, float]:
        """Bits of each memory that persistent tensors take (one instance)."""
        bits_of: dict[str, float] = {}
        top = self._top()
        assert isinstance(top, Memory)
        for access in self.einsum.accesses:
            if access.persistent and access.tensor not in self.request.shared:
                bits = access.footprint(self.einsum.extents) * top.bits[access.tensor]
                bits_of[top.name] = bits_of.get(top.name, 0.0) + bits
        return bits_of

    def front(self, signature: FusionSignature, space: FrontMemories) -> FusedFront:
        """All chains of a signature: costs, bits in use, bits that stay."""
        alive = signature.alive(space.by_tree)
        rows = []
        persistent = self.persistent()
        for chain in self.signatures[signature]:
            row = [*chain.costs, *(chain.used.get(m, 0.0) + persistent.get(m, 0.0) for m in space.memories)]
            for m in space.memories:
                for until in range(1, len(signature.loops) + 1):
                    row.append(sum(bits for memory, bits, depth in chain.kept if memory == m and alive[depth][until]))
            rows.append(row)
        values = np.array(rows, dtype=np.float64)
        order = np.lexsort(values.T[::-1])[:1] if (values == values[0]).all() else np.arange(len(values))
        return FusedFront(values[order], order[:, None].astype(np.int64))

    def nodes_of(self, signature: FusionSignature, front: FusedFront, row: int) -> tuple[list[tree.Node], int]:
        """A chain from the outside in, and how many of its nodes are in the outermost memory."""
        chain = self.signatures[signature][int(front.paths[row, 0])]
        return list(chain.nodes), chain.n_outer


@dataclass(eq=False)
class OptionalCopyFronts(CopyFronts):
    """The chains of a copy that the mapper has put in: where nothing is gained by it, it is left out.

    The copy in the memory that backs its source, below no loops, costs nothing: its chain is empty, and the Einsum does
    not appear in the tree.
    """

    def _list(self) -> None:
        """List all chains; those that move nothing give way to the empty one."""
        super()._list()
        for signature, chains in self.signatures.items():
            key = signature.keys[0][1]
            idle = [c for c in chains if not key.loops and _memory_of(c, self.source) == key.memory]
            if idle:
                nothing = _Written((), 0, (0.0,) * len(self.request.goals), {}, (), idle[0].backed)
                self.signatures[signature] = [c for c in chains if c not in idle] or [nothing]

    def least_present(self, weights: Floats) -> Floats:
        """For each row of weights what the copy costs at least that is not left out; infinite where none is."""
        costs = np.array([chain.costs for chains in self.every.values() for chain in chains if chain.nodes])
        least: Floats = (costs.reshape(-1, weights.shape[1]) @ weights.T).min(axis=0, initial=math.inf)
        return least

    @property
    def omissions(self) -> tuple[str, ...]:
        """Mappings that were not searched, in words: those of the user, who does not know the copy."""
        own = [t for t in self.position if t != self.source]
        return tuple(text.replace(repr(own[0]), repr(self.source)) for text in super().omissions)

    def is_absent(self, signature: FusionSignature) -> bool:
        """Whether these chains are not chains at all."""
        return not self.signatures[signature][0].nodes


def _is_apart(signature: FusionSignature, apart: int) -> bool:
    """Whether all fused loops leave tile shapes that far `apart`."""
    seen = max((key.loops for _, key in signature.keys), key=len, default=())
    shapes = ((inner, inner * times) for (_, _, inner), (_, times) in zip(seen, signature.loops, strict=True))
    return apart == 1 or all(inner in shapes_left(outer, apart) for inner, outer in shapes)


def _memory_of(chain: _Written, tensor: str) -> str:
    return next(n.component for n in chain.nodes if isinstance(n, tree.Storage) and n.tensors == (tensor,))
