"""An attack on what is called proven: random fused mappings of the documented mapspace, made better step by step.

    least(spec, "energy_delay_product", "exact", random.Random(1), tries=400)

Nothing is enumerated, so problems may be far larger than those of the brute force (combine.py). A mapping is drawn Einsum
by Einsum: loops above the intermediates, those of tensors that are known already first; a dataplacement and its order; the
gaps in which the loops stand; then loops further in. What `einmap.evaluate` refuses, or says to violate a constraint, does not
count. Mappings without lanes are drawn, and for each shared tensor the loops above it alone may be shared.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.mapper.fusion.chains import LinearNest
from tests.mapper.fusion.combine import GOALS
from tests.mapper.fusion.placements import Node, dataplacements, indexes
from tests.mapper.fusion.tree import tree_of

import einmap
from einmap.arch.component import Memory
from einmap.einsum.einsum import Einsum
from einmap.errors import EinmapError
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping
from einmap.numbers import divisors
from einmap.spec.spec import Spec

type Loop = tuple[str, int, int]
"""Rank variable, tile shape, iterations."""
type Key = tuple[str, tuple[tuple[str, int], ...]]
"""Memory of a shared tensor's backing node, and rank and tile shape of each loop above it."""


PATIENCE = 150
"""Mappings without anything better after which the attack begins anew."""
WORSE = (0.0, 0.0, 0.0, 0.1, 0.5, 1.0)
"""How much worse the next step may be: what is better is often behind something that is not."""


MOVES = ("all", "inner", "inner", "gaps", "gaps", "order", "order", "loops", "turn", "tile", "tile")


class Dead(Exception):
    """What was drawn cannot be completed."""


@dataclass(frozen=True)
class Drawn:
    """One Einsum's chain: storage nodes, and before which of them (by number, the last is the compute) loops stand."""

    nodes: tuple[Node, ...]
    n_outer: int
    fused: tuple[tuple[Loop, int], ...]
    inner: tuple[tuple[Loop, int], ...]

    def chain(self, einsum: str, unit: str) -> LinearNest:
        found: list[tree.Node] = []
        for i in range(len(self.nodes) + 1):
            for (variable, shape, _), at in (*self.fused, *self.inner):
                if at == i:
                    found.append(tree.Temporal(tree.PerEinsum(variable), tree.PerEinsum(shape)))
            if i < len(self.nodes):
                memory, tensor = self.nodes[i]
                found.append(tree.Storage((tensor,), memory))
        return LinearNest(einsum, (*found, tree.Compute(einsum, unit)), 0.0, 0.0)


@dataclass
class Attack:
    """Random mappings of one specification. `most`, `per_variable`: fused loops."""

    spec: Spec
    semantics: str
    rng: random.Random
    most: float = math.inf
    per_variable: float = 1
    accepted: int = 0
    refused: int = 0
    _placements: dict[str, list[tuple[tuple[Node, ...], int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workload = self.spec.workload
        self.einsums = self.workload.einsums
        arch = self.spec.bound[self.einsums[0].name].arch
        self.unit = next(unit.name for unit in arch.computes if unit.enabled)
        self.outermost = next(leaf.name for leaf in arch.path(self.unit) if isinstance(leaf, Memory))
        self.sharers = {t: [e.name for e in self.einsums if t in e.tensors] for t in sorted(self.workload.shared)}

    def least(
        self, value: Callable[[float, float], float], tries: int, near: Mapping | None = None
    ) -> tuple[float, Mapping | None]:
        """The best of so many mappings, and its value; infinite where none was valid. `near`: one to begin with."""
        best, found = math.inf, None
        begin = None if near is None else self.read(near)
        known: list[Drawn] | None = None
        reached, since = math.inf, 0
        for _ in range(tries):
            if known is None or since > PATIENCE:
                known, reached, since = begin if self.rng.random() < 0.5 else None, math.inf, 0
            try:
                drawn = self.drawn(known)
            except Dead:
                continue
            outcome = self.evaluated(drawn)
            since += 1
            if outcome is None:
                continue
            own = value(*outcome[:2])
            if own <= reached * (1 + self.rng.choice(WORSE)):
                known, reached = drawn, own
            if own < best:
                best, found, since = own, outcome[2], 0
        return best, found

    def evaluated(self, drawn: Sequence[Drawn]) -> tuple[float, float, Mapping] | None:
        """Energy and latency of a mapping; None where it is not valid."""
        chains = [own.chain(e.name, self.unit) for own, e in zip(drawn, self.einsums, strict=True)]
        outermost = {e.name: self.outermost for e in self.einsums}
        try:
            mapping = tree_of(chains, self.between(drawn), self.workload, outermost)
            cost = einmap.evaluate(self.spec, mapping, self.semantics, strict=True)
        except (EinmapError, AssertionError, ValueError, StopIteration):
            self.refused += 1
            return None
        self.accepted += 1
        return cost.energy, cost.latency, mapping

    # drawing

    def drawn(self, known: Sequence[Drawn] | None) -> list[Drawn]:
        """A chain for each Einsum; without some of what is `known`. Raises Dead."""
        rng = self.rng
        changed = range(len(self.einsums)) if known is None else [rng.randrange(len(self.einsums))]
        what = "all" if known is None else rng.choice(MOVES)
        if what in ("turn", "tile"):
            changed = range(len(self.einsums))
        keys: dict[str, Key] = {}
        found: list[Drawn] = []
        for k, einsum in enumerate(self.einsums):
            old = None if known is None else known[k]
            if old is not None and k not in changed and self.fits(einsum, old, keys):
                own = old
            elif old is not None and k in changed and what == "inner" and self.fits(einsum, old, keys):
                own = replace(old, inner=self.inner(einsum, old))
            elif old is not None and what in ("turn", "tile") and not keys:
                own = self.turned(einsum, old) if what == "turn" else self.cut(einsum, old)
            elif old is not None and k in changed and what == "gaps" and self.fits(einsum, old, keys):
                own = self.completed(einsum, old.nodes, old.n_outer, [loop for loop, _ in old.fused], self.depths(old))
            else:
                # what has to fit other loops now keeps its nodes
                kept = old if k not in changed or what != "all" else None
                own = self.anew(einsum, keys, kept, "order" if k in changed and what == "order" else "loops")
                if old is not None and own.nodes == old.nodes and what == "tile" and len(own.fused) == len(old.fused):
                    own = self.at_places(einsum, old, [loop for loop, _ in own.fused])
            found.append(own)
            for tensor, depth in self.depths(own).items():
                key = self.key(einsum, own, tensor, depth)
                if keys.setdefault(tensor, key) != key:
                    raise Dead
        return found

    def cut(self, einsum: Einsum, old: Drawn) -> Drawn:
        """One fused loop with another number of iterations."""
        loops = [loop for loop, _ in old.fused]
        if not loops:
            raise Dead
        n = self.rng.randrange(len(loops))
        v, _, count = loops[n]
        left = math.prod(c for w, _, c in loops if w == v) // count
        sizes, found = dict(einsum.extents), []
        wanted = self.rng.choice(divisors(sizes[v] // left)[1:] or [count])
        for i, (w, _, old_count) in enumerate(loops):
            sizes[w] //= wanted if i == n else old_count
            found.append((w, sizes[w], wanted if i == n else old_count))
        return self.at_places(einsum, old, found)

    def at_places(self, einsum: Einsum, old: Drawn, loops: Sequence[Loop]) -> Drawn:
        """Other fused loops where the old ones stood."""
        drawn = Drawn(old.nodes, old.n_outer, tuple(zip(loops, (at for _, at in old.fused), strict=True)), ())
        if not all(self.may_stand(einsum, old.nodes, at, loop[0]) for loop, at in drawn.fused):
            raise Dead
        return replace(drawn, inner=self.inner(einsum, drawn))

    def turned(self, einsum: Einsum, old: Drawn) -> Drawn:
        """The fused loops in another order."""
        loops = [loop for loop, _ in old.fused]
        self.rng.shuffle(loops)
        sizes, found = dict(einsum.extents), []
        for v, _, count in loops:
            found.append((v, sizes[v] // count, count))
            sizes[v] //= count
        return self.completed(einsum, old.nodes, old.n_outer, found, self.depths(old))

    def read(self, mapping: Mapping) -> list[Drawn] | None:
        """The chains of a mapping; None where it has lanes."""
        found = []
        for einsum in self.einsums:
            nodes: list[Node] = []
            loops: list[tuple[Loop, int]] = []
            sizes = dict(einsum.extents)
            for node in (placed.node for placed in mapping.path_of[einsum.name]):
                if isinstance(node, tree.Storage):
                    nodes += [(node.component, t) for t in node.tensors if t in einsum.tensors]
                elif isinstance(node, tree.Temporal):
                    v, shape = str(node.rank_variable.of(einsum.name)), int(node.tile_shape.of(einsum.name) or 1)
                    if shape < sizes[v]:
                        loops.append(((v, shape, sizes[v] // shape), len(nodes)))
                        sizes[v] = shape
                elif isinstance(node, tree.Spatial):
                    return None
            n_outer = next((i for i, (m, _) in enumerate(nodes) if m != self.outermost), len(nodes))
            backing = [next(i for i, (_, t) in enumerate(nodes) if t == s) for s in self.sharers if s in einsum.tensors]
            last = max(backing, default=-1)
            fused = tuple(pair for pair in loops if pair[1] <= last)
            found.append(Drawn(tuple(nodes), n_outer, fused, tuple(pair for pair in loops if pair[1] > last)))
        return found

    def depths(self, drawn: Drawn) -> dict[str, int]:
        """For each shared tensor the loops above its backing node."""
        found: dict[str, int] = {}
        for i, (_, tensor) in enumerate(drawn.nodes):
            if tensor in self.sharers and tensor not in found:
                found[tensor] = sum(at <= i for _, at in drawn.fused)
        return found

    def key(self, einsum: Einsum, drawn: Drawn, tensor: str, depth: int) -> Key:
        memory = next(m for m, t in drawn.nodes if t == tensor)
        return memory, tuple((_rank(einsum, tensor, loop[0]), loop[1]) for loop, _ in drawn.fused[:depth])

    def fits(self, einsum: Einsum, drawn: Drawn, keys: dict[str, Key]) -> bool:
        return all(
            keys.get(t, key) == key for t, d in self.depths(drawn).items() for key in [self.key(einsum, drawn, t, d)]
        )

    def anew(self, einsum: Einsum, keys: dict[str, Key], old: Drawn | None, what: str) -> Drawn:
        """A chain with the keys that are known; a part of the old one is kept where it is given."""
        rng = self.rng
        mine = {t: key for t, key in keys.items() if t in einsum.tensors}
        choices = [
            (nodes, n)
            for nodes, n in self.placements(einsum)
            if all(next(m for m, t in nodes if t == tensor) == key[0] for tensor, key in mine.items())
        ]
        if old is not None:
            same = [
                c for c in choices if (what == "loops") == (c[0] == old.nodes) and sorted(c[0]) == sorted(old.nodes)
            ]
            choices = same or choices
        if not choices:
            raise Dead
        signature_classes: dict[object, list[tuple[tuple[Node, ...], int]]] = {}
        for nodes, n in choices:
            backing = {t: m for m, t in reversed(nodes) if t in self.sharers}
            signature_classes.setdefault(tuple(sorted(backing.items())), []).append((nodes, n))
        nodes, n_outer = rng.choice(rng.choice(list(signature_classes.values())))
        longest = max((key[1] for key in mine.values()), key=len, default=())
        of = next((t for t, key in mine.items() if key[1] == longest), None)
        fused = self.loops_of(einsum, of, longest)
        if any(
            key[1] != tuple((_rank(einsum, t, v), s) for v, s, _ in fused[: len(key[1])]) for t, key in mine.items()
        ):
            raise Dead
        new = [t for t in self.sharers if t in einsum.tensors and t not in mine]
        depths = {t: len(key[1]) for t, key in mine.items()}
        sizes = {**einsum.extents, **{v: s for v, s, _ in fused}}
        for tensor in new:
            memory = next(m for m, t in nodes if t == tensor)
            if memory == self.outermost:
                depths[tensor] = 0
                continue
            while len(fused) < self.most and rng.random() < 0.6:
                free = [v for v, size in sizes.items() if size > 1]
                free = [v for v in free if sum(v == w for w, _, _ in fused) < self.per_variable]
                if not free:
                    break
                v = rng.choice(free)
                shape = rng.choice(divisors(sizes[v])[:-1])
                fused.append((v, shape, sizes[v] // shape))
                sizes[v] = shape
            depths[tensor] = rng.randint(0, len(fused)) if rng.random() < 0.4 else len(fused)
        fused = fused[: max(depths.values(), default=0)]
        return self.completed(einsum, nodes, n_outer, fused, depths)

    def loops_of(self, einsum: Einsum, tensor: str | None, key: Sequence[tuple[str, int]]) -> list[Loop]:
        """The loops of a key, over the variables of an Einsum."""
        sizes, found = dict(einsum.extents), []
        for rank, shape in key:
            assert tensor is not None
            index = dict(einsum.by_tensor[tensor].projection)[rank]
            if len(index.terms) != 1 or sizes[index.terms[0][0]] % shape or sizes[index.terms[0][0]] == shape:
                raise Dead
            v = index.terms[0][0]
            found.append((v, shape, sizes[v] // shape))
            sizes[v] = shape
        return found

    def completed(
        self, einsum: Einsum, nodes: tuple[Node, ...], n_outer: int, fused: Sequence[Loop], depths: dict[str, int]
    ) -> Drawn:
        """Loops in gaps: so many above each backing node, the others where they may stand; then the inner ones."""
        first = [next(i for i, (_, t) in enumerate(nodes) if t == tensor) for tensor in depths]
        wanted = dict(zip(first, depths.values(), strict=True))
        placed: list[tuple[Loop, int]] = []
        low = n_outer
        for n, loop in enumerate(fused):
            # above all nodes that have more loops than n above them, below those that have n or fewer
            least = max([low, *(i + 1 for i, depth in wanted.items() if depth <= n)])
            most = min(i for i, depth in wanted.items() if depth > n)
            places = [
                at
                for at in range(least, most + 1)
                if self.may_stand(einsum, nodes, at, loop[0])
                and not any(a == at and o[0] == loop[0] for o, a in placed)
            ]
            if not places:
                raise Dead
            low = self.rng.choice(places)
            placed.append((loop, low))
        drawn = Drawn(nodes, n_outer, tuple(placed), ())
        return replace(drawn, inner=self.inner(einsum, drawn))

    def may_stand(self, einsum: Einsum, nodes: tuple[Node, ...], at: int, variable: str) -> bool:
        """Whether a loop may stand before a node: over a variable that indexes all that is not held above."""
        held = {t for _, t in nodes[:at]}
        inside = self.workload.intermediates
        return all(
            indexes(a, variable, intermediate=a.tensor in inside) for a in einsum.accesses if a.tensor not in held
        )

    def inner(self, einsum: Einsum, drawn: Drawn) -> tuple[tuple[Loop, int], ...]:
        """Loops below the last backing node of a shared tensor, whatever brings all tile shapes to 1."""
        rng, nodes = self.rng, drawn.nodes
        backing = [next(i for i, (_, t) in enumerate(nodes) if t == s) for s in self.sharers if s in einsum.tensors]
        begin = max([drawn.n_outer, *(i + 1 for i in backing if i >= drawn.n_outer)])
        sizes = {**einsum.extents, **{v: s for (v, s, _), _ in drawn.fused}}
        found: list[tuple[Loop, int]] = []
        for v, size in sizes.items():
            left = size
            for at in range(begin, len(nodes) + 1):
                if left == 1 or not self.may_stand(einsum, nodes, at, v):
                    continue
                shape = 1 if at == len(nodes) else rng.choice((left, left, 1, *divisors(left)))
                if shape < left:
                    found.append(((v, shape, left // shape), at))
                    left = shape
        if self.semantics == "accelforge":
            rng.shuffle(found)
        return tuple(found)

    def placements(self, einsum: Einsum) -> list[tuple[tuple[Node, ...], int]]:
        if einsum.name not in self._placements:
            leaves = self.spec.bound[einsum.name].arch.path(self.unit)
            every = dataplacements(einsum, leaves, self.workload.intermediates)
            self._placements[einsum.name] = [(nodes, n) for _, nodes, n in every]
        return self._placements[einsum.name]

    def between(self, drawn: Sequence[Drawn]) -> tuple[int, ...]:
        """Loops that neighbours share: the most of any tensor that is in use between them. Raises AssertionError."""
        found = []
        depths = [self.depths(own) for own in drawn]
        names = [e.name for e in self.einsums]
        for k in range(1, len(drawn)):
            crossing = [t for t, own in self.sharers.items() if names.index(own[0]) < k <= names.index(own[-1])]
            n = max((depths[names.index(self.sharers[t][0])][t] for t in crossing), default=0)
            counts = [[loop[2] for loop, _ in own.fused[:n]] for own in drawn[k - 1 : k + 1]]
            assert counts[0] == counts[1]
            assert len(counts[0]) == n
            found.append(n)
        for tensor, own in self.sharers.items():
            # no other node of it above a loop that users share, and shared loops below it cut it alike
            for i in own:
                for j in own:
                    if i != j:
                        self.may_share(tensor, names.index(i), names.index(j), drawn, found)
        return tuple(found)

    def may_share(self, tensor: str, i: int, j: int, drawn: Sequence[Drawn], between: Sequence[int]) -> None:
        shared = min(between[min(i, j) : max(i, j)])
        nodes = [at for at, (_, t) in enumerate(drawn[j].nodes) if t == tensor][1:]
        assert all(sum(at <= node for _, at in drawn[j].fused) >= shared for node in nodes)
        if tensor in self.workload.intermediates:
            depth = self.depths(drawn[i])[tensor]
            cuts = []
            for k in (i, j):
                access = self.einsums[k].by_tensor[tensor]
                loops = [loop for loop, _ in drawn[k].fused[depth:shared]]
                assert all(indexes(access, v, intermediate=True) for v, _, _ in loops)
                cuts.append([(_rank(self.einsums[k], tensor, v), shape) for v, shape, _ in loops])
            assert cuts[0] == cuts[1]


def _rank(einsum: Einsum, tensor: str, variable: str) -> str:
    """The rank that a variable indexes; the variable itself where it is none."""
    projection = einsum.by_tensor[tensor].projection
    return next((r for r, index in projection if any(v == variable for v, _ in index.terms)), f"~{variable}")


def least(
    spec: Spec,
    goal: str,
    semantics: str,
    rng: random.Random,
    *,
    tries: int,
    most: float = math.inf,
    per_variable: float = 1,
) -> tuple[float, Mapping | None]:
    """The best value of a goal among so many random mappings, and the mapping."""
    return Attack(spec, semantics, rng, most, per_variable).least(GOALS[goal], tries)
