"""Random valid LoopTrees."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from fractions import Fraction

from tests.random_specs.workloads import Case, DrawnEinsum, chance


@dataclass(frozen=True)
class _Bundle:
    """What one loop runs over: a variable of each Einsum, which advances `scale` values when the loop's unit does 1."""

    variables: dict[str, str]
    scales: dict[str, int]


@dataclass
class _State:
    """What the nodes above have settled: `held` is the innermost level of each tensor, `lanes` those in use."""

    extents: dict[str, dict[str, int]]
    held: dict[str, int] = field(default_factory=dict)
    lanes: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State({e: dict(x) for e, x in self.extents.items()}, dict(self.held), dict(self.lanes))

    def units(self, bundle: _Bundle) -> int:
        """Extent of a bundle in its units, the same for all its Einsums."""
        return max(-(-self.extents[e][v] // bundle.scales[e]) for e, v in bundle.variables.items())


@dataclass
class _Loop:
    position: float
    bundle: _Bundle
    dimension: tuple[str, Case] | None = None
    closing: bool = False


class Trees:
    """Draws one LoopTree."""

    def __init__(self, rng: random.Random, einsums: list[DrawnEinsum], arch: list[Case]) -> None:
        self.rng = rng
        self.einsums = einsums
        self.by_name = {e.name: e for e in einsums}
        self.arch = arch
        self.memories = [i for i, node in enumerate(arch) if node["type"] == "Memory"]
        self.users: dict[str, list[str]] = {}
        self.producers: dict[str, str] = {}
        for e in einsums:
            for t in e.tensors:
                self.users.setdefault(t, []).append(e.name)
            for t in e.outputs:
                self.producers[t] = e.name
        self.intermediates = {t for t in self.producers if len(self.users[t]) > 1}
        # what this tree is like
        self.perfect = chance(rng, 0.45)
        self.density = rng.choice([0.3, 0.5, 0.7, 0.9])
        self.out_of_order = chance(rng, 0.2)
        self.style = "fused"
        if len(einsums) > 1:
            self.style = rng.choices(["fused", "unfused", "separate"], [7, 1.5, 1])[0]

    def nodes(self) -> list[Case]:
        state = _State({e.name: dict(e.extents) for e in self.einsums})
        names = [e.name for e in self.einsums]
        if len(names) == 1:
            return self.path(names[0], state, 0, 0)
        if self.style == "separate":
            return [self.sequential([self.path(n, state.copy(), 0, 0) for n in names])]
        return self.group(names, state, 0, 0)

    def sequential(self, branches: list[list[Case]]) -> Case:
        return {"type": "Sequential", "nodes": [{"type": "Nested", "nodes": branch} for branch in branches]}

    # one section of the tree

    def path(self, name: str, state: _State, start: int, spread_from: int) -> list[Case]:
        """All of one Einsum's branch; `start`: outermost level that may hold something, `spread_from`: have lanes."""
        levels = range(start, len(self.arch))
        items = self.holders([name], state, levels, set())
        items = self.with_markers(items, range(spread_from, len(self.arch)))
        bundles = [_Bundle({name: v}, {name: 1}) for v in state.extents[name]]
        loops = []
        for bundle in bundles:
            if state.units(bundle) > 1:
                loops += [self.temporal(bundle, items) for _ in range(self.rng.choice([0, 0, 1, 1, 2]))]
        loops += self.spatial(bundles, items, 0.75)
        placed = self.cut(loops, state)
        last = {id(loop.bundle): loop.position for loop, _ in placed}
        for bundle in bundles:
            if state.units(bundle) > 1:
                position = self.rng.uniform(last.get(id(bundle), self.first_gap(items)), len(items) - 0.5)
                placed += self.cut([_Loop(position, bundle, closing=True)], state)
        return [*self.merged(items, placed), {"type": "Compute", "einsum": name, "component": "MAC"}]

    def group(self, names: list[str], state: _State, start: int, spread_from: int) -> list[Case]:
        """The section of several Einsums, and the split below it."""
        rng = self.rng
        parts = self.partition(names)
        must = {
            t
            for t in self.intermediates - state.held.keys()
            if set(self.users[t]) <= set(names) and not any(set(self.users[t]) <= set(part) for part in parts)
        }
        if self.style == "unfused":
            stop = 0
        else:
            stop = max(rng.randint(start, self.memories[-1]) for _ in range(2))
            if must and not any(start <= m <= stop for m in self.memories):
                stop = next(m for m in self.memories if m >= start)
        items = self.holders(names, state, range(start, stop + 1), must)
        here = any(level == stop for level, _ in items)
        # lanes written above the split may also be those of components further in; and those of what is held above
        # it may be written below, where they must be the same for all who share it
        spread_to = stop + here
        if chance(rng, 0.3):
            spread_to = rng.randint(spread_from, len(self.arch))
        if self.style == "unfused":
            return [*self.merged(items, []), self.sequential([self.path(n, state.copy(), 0, 0) for n in names])]
        items = self.with_markers(items, range(spread_from, spread_to))
        bundles = self.bundles(names, state)
        loops = []
        if bundles:
            loops = [self.temporal(rng.choice(bundles), items) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
            loops += self.spatial(bundles, items, 0.7)
        placed = self.cut(loops, state)
        branches = []
        for part in parts:
            below = state.copy()
            if len(part) == 1:
                branches.append(self.path(part[0], below, stop, max(spread_from, spread_to)))
            else:
                branches.append(self.group(part, below, stop, max(spread_from, spread_to)))
        return [*self.merged(items, placed), self.sequential(branches)]

    def partition(self, names: list[str]) -> list[list[str]]:
        """Consecutive parts, mostly single Einsums."""
        if len(names) == 2 or chance(self.rng, 0.5) or self.style == "unfused":
            return [[n] for n in names]
        cuts = sorted(self.rng.sample(range(1, len(names)), self.rng.randint(1, len(names) - 2)))
        return [names[a:b] for a, b in zip([0, *cuts], [*cuts, len(names)], strict=True)]

    # storage nodes

    def holders(self, names: list[str], state: _State, levels: range, must: set[str]) -> list[tuple[int, Case | None]]:
        """Storage and Toll nodes of the levels, in order: (level, node)."""
        rng = self.rng
        tensors = list(dict.fromkeys(t for n in names for t in self.by_name[n].tensors))
        inside = [m for m in self.memories if m in levels]
        backing: dict[str, int] = {}
        for t in tensors:
            if t in state.held:
                continue
            if t not in self.intermediates or self.style != "fused":
                backing[t] = 0
            elif t in must or (set(self.users[t]) <= set(names) and inside and chance(rng, 0.35)):
                backing[t] = rng.choice(inside)
        items: list[tuple[int, Case | None]] = []
        for level in levels:
            node = self.arch[level]
            if node["type"] not in ("Memory", "Toll"):
                continue
            chosen = [t for t, at in backing.items() if at == level]
            chosen += [t for t in tensors if state.held.get(t, level) < level and chance(rng, self.density)]
            for t in chosen:
                state.held[t] = level
            rng.shuffle(chosen)
            cut = rng.randint(0, len(chosen)) if chance(rng, 0.5) else 0
            for part in (chosen[:cut], chosen[cut:]):
                if part:
                    kind = "Storage" if node["type"] == "Memory" else "Toll"
                    found: Case = {"type": kind, "component": node["name"], "tensors": part}
                    if kind == "Storage" and chance(rng, 0.025):
                        found["persistent"] = True
                    items.append((level, found))
        return self.swapped(items) if self.out_of_order else items

    def swapped(self, items: list[tuple[int, Case | None]]) -> list[tuple[int, Case | None]]:
        """Neighbours with different tensors change places."""
        found = list(items)
        for i in range(len(found) - 1):
            (a, first), (b, second) = found[i], found[i + 1]
            assert first is not None
            assert second is not None
            disjoint = not set(first["tensors"]) & set(second["tensors"])
            if a > 0 and b > 0 and disjoint and chance(self.rng, 0.5):
                found[i], found[i + 1] = found[i + 1], found[i]
        return found

    def with_markers(self, items: list[tuple[int, Case | None]], levels: range) -> list[tuple[int, Case | None]]:
        """A marker (no node) for the lanes of a component, before the nodes of its level and those further in."""
        found = list(items)
        for level in levels:
            if self.arch[level].get("spatial"):
                at = next((i for i, (other, node) in enumerate(found) if other >= level and node), len(found))
                found.insert(at, (level, None))
        return found

    # loops

    def first_gap(self, items: list[tuple[int, Case | None]]) -> float:
        """Loops stand below the nodes of the outermost memory, sometimes above them where that means nothing."""
        if len(self.einsums) == 1 and chance(self.rng, 0.05):
            return -0.5
        return sum(level == 0 for level, node in items if node is not None) - 0.5

    def temporal(self, bundle: _Bundle, items: list[tuple[int, Case | None]]) -> _Loop:
        return _Loop(self.rng.uniform(self.first_gap(items), len(items) - 0.5), bundle)

    def spatial(self, bundles: list[_Bundle], items: list[tuple[int, Case | None]], often: float) -> list[_Loop]:
        found = []
        for at, (level, node) in enumerate(items):
            if node is not None:
                continue
            unit = self.arch[level]
            for dimension in unit["spatial"]:
                for _ in range(self.rng.choice([1, 1, 1, 2])):
                    if chance(self.rng, often):
                        bundle = self.rng.choice(bundles)
                        place = at + self.rng.uniform(-0.01, 0.01)
                        found.append(_Loop(place, bundle, (unit["name"], dimension)))
        return found

    def cut(self, loops: list[_Loop], state: _State) -> list[tuple[_Loop, Case]]:
        """Tile shapes, outermost loop first; loops that would cut nothing are mostly left out."""
        found = []
        for loop in sorted(loops, key=lambda each: each.position):
            units = state.units(loop.bundle)
            # another loop above may have cut a variable of one Einsum only
            shape = self.shape(loop, units, state) if self.is_even(loop.bundle, state) else None
            if shape is None:
                continue
            written = self.written(loop, shape, units, state)
            found.append((loop, written))
        return found

    def shape(self, loop: _Loop, units: int, state: _State) -> int | None:
        rng = self.rng
        if loop.closing:
            return 1
        if units == 1 and not chance(rng, 0.03):
            return None
        if chance(rng, 0.04):
            return units
        if loop.dimension is not None:
            component, dimension = loop.dimension
            used = max(state.lanes.get((e, component, dimension["name"]), 1) for e in loop.bundle.variables)
            fitting = [s for s in range(1, units) if -(-units // s) * used <= dimension["fanout"]]
        else:
            fitting = list(range(1, units))
        if self.perfect:
            fitting = [s for s in fitting if units % s == 0]
        return rng.choice(fitting) if fitting else None

    def written(self, loop: _Loop, shape: int, units: int, state: _State) -> Case:
        """The loop as a node; `state` is what it leaves to the nodes below."""
        bundle = loop.bundle
        shapes: dict[str, int] = {}
        for e, v in bundle.variables.items():
            extents = state.extents[e]
            shapes[e] = min(shape * bundle.scales[e], extents[v])
            if loop.dimension is not None:
                key = (e, loop.dimension[0], loop.dimension[1]["name"])
                state.lanes[key] = state.lanes.get(key, 1) * -(-extents[v] // shapes[e])
        initial = self.rng.randint(1, units - 1) if units > 1 and self.may_start_otherwise(loop) else None
        first = dict(shapes)
        if initial is not None:
            first = {e: initial * scale for e, scale in bundle.scales.items()}
        for e, v in bundle.variables.items():
            state.extents[e][v] = max(first[e], min(shapes[e], state.extents[e][v] - first[e]))
        plainly = self.rng.random() < 0.85
        names, sizes = set(bundle.variables.values()), set(shapes.values())
        node: Case = {
            "type": "Temporal" if loop.dimension is None else "Spatial",
            "rank_variable": names.pop() if len(names) == 1 and plainly else dict(bundle.variables),
            "tile_shape": sizes.pop() if len(sizes) == 1 and plainly else dict(shapes),
        }
        if initial is not None:
            node["initial_tile_shape"] = first
        if loop.dimension is not None:
            node |= {"component": loop.dimension[0], "name": loop.dimension[1]["name"]}
        return node

    def may_start_otherwise(self, loop: _Loop) -> bool:
        """Whether the loop gets an initial tile shape of its own."""
        return loop.dimension is None and not loop.closing and chance(self.rng, 0.03)

    def merged(self, items: list[tuple[int, Case | None]], placed: list[tuple[_Loop, Case]]) -> list[Case]:
        """Storage nodes and loops in the order of their positions."""
        everything = [(float(i), node) for i, (_, node) in enumerate(items) if node is not None]
        everything += [(loop.position, node) for loop, node in placed]
        return [node for _, node in sorted(everything, key=lambda each: each[0])]

    # bundles

    def bundles(self, names: list[str], state: _State) -> list[_Bundle]:
        """All that loops above a split of these Einsums may run over."""
        found: list[_Bundle] = []
        self.extend(names, {}, {}, found)
        return [b for b in found if self.is_even(b, state)]

    def is_even(self, bundle: _Bundle, state: _State) -> bool:
        """All Einsums have the same number of iterations."""
        return len({-(-state.extents[e][v] // bundle.scales[e]) for e, v in bundle.variables.items()}) == 1

    def extend(
        self, names: list[str], chosen: dict[str, str], scales: dict[str, Fraction], found: list[_Bundle]
    ) -> None:
        """All ways to choose a variable for each further Einsum."""
        if len(chosen) == len(names):
            common = math.lcm(*(s.denominator for s in scales.values()))
            found.append(_Bundle(chosen, {e: int(s * common) for e, s in scales.items()}))
            return
        name = names[len(chosen)]
        einsum = self.by_name[name]
        for variable in (v for v in einsum.extents if v not in einsum.cut):
            scale = Fraction(1)
            fits = True
            for t in einsum.tensors:
                producer = self.producers.get(t)
                if producer in chosen:
                    step = self.step(t, self.by_name[producer], chosen[producer], einsum, variable)
                    fits = fits and step is not None and scale in (1, step * scales[producer])
                    scale = (step or 1) * scales[producer]
            # what others of the group read must be indexed
            read = {t for other in names for t in self.by_name[other].tensors} & set(einsum.outputs)
            read &= {t for t in read if any(u in names and u != name for u in self.users[t])}
            fits = fits and all(einsum.rank_of(t, variable) for t in read)
            if fits:
                self.extend(names, {**chosen, name: variable}, {**scales, name: scale}, found)

    def step(
        self, tensor: str, producer: DrawnEinsum, written: str, consumer: DrawnEinsum, read: str
    ) -> Fraction | None:
        """Values of `read` for each value of `written`; None when they do not cut the tensor alike."""
        source, target = producer.rank_of(tensor, written), consumer.rank_of(tensor, read)
        if source is None or target is None or source[0] != target[0]:
            return None
        index = target[1]
        a = dict(index.terms)[read]
        reach = index.constant + sum(b * (consumer.extents[v] - 1) for v, b in index.terms if v != read and b > 0)
        back = any(b < 0 for _, b in index.terms)
        # the windows of consecutive values of `read` must not overlap, and the producer index one element at a time
        if len(source[1].terms) > 1 or source[1].terms[0][1] != 1 or source[1].constant or back or reach >= a:
            return None
        return Fraction(1, a)
