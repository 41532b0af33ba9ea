"""What a partly given mapping means, written down plainly: whether a mapping can be written so that it is like it.

Loops between two other nodes may be written in any order that keeps lanes of a variable below its temporal loops, and a
temporal loop may be written as several. Shares nothing with the mapper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from einmap.mapping import nodes as tree
from einmap.mapping.template import AnyPlace, OpenCompute, OpenSpatial, OpenTemporal


@dataclass(frozen=True)
class Run:
    """Loops with no other node between: variable -> tile shape below, and lanes (component, name, variable, bound)."""

    temporal: tuple[tuple[str, int], ...]
    lanes: tuple[tuple[str, str, str, int], ...]


def items_of(nodes: list[tree.Node], bounds: dict[str, int]) -> tuple[str, set[str], list[Any]]:
    """The outermost memory, what it holds, and then runs and single holders in turns."""
    first = nodes[0]
    assert isinstance(first, tree.Storage)
    held: set[str] = set()
    shapes, found = dict(bounds), []
    temporal: dict[str, int] = {}
    lanes: list[tuple[str, str, str, int]] = []
    for node in nodes:
        if isinstance(node, tree.Storage) and node.component == first.component:
            held |= set(node.tensors)
            continue
        if isinstance(node, tree.Temporal):
            v = str(node.rank_variable.default)
            shapes[v] = temporal[v] = int(node.tile_shape.default or 0)
        elif isinstance(node, tree.Spatial):
            v, shape = str(node.rank_variable.default), int(node.tile_shape.default or 0)
            lanes.append((node.component, node.name, v, shapes[v] // shape))
            shapes[v] = shape
        else:
            tensors = node.tensors if isinstance(node, tree.Storage | tree.Toll) else ("",)
            for tensor in tensors:
                found += [Run(tuple(temporal.items()), tuple(lanes)), (type(node).__name__, node.component, tensor)]
                temporal, lanes = {}, []
    return first.component, held, found


class Matcher:
    """One partial mapping of one Einsum. `once`: some ways to write a mapping are enough, not all are wanted."""

    def __init__(
        self, nodes: tuple[Any, ...], bounds: dict[str, int], levels: dict[str, int], once: bool = True
    ) -> None:
        ends = nodes and isinstance(nodes[-1], tree.Compute | OpenCompute)
        nodes = nodes if ends else (*nodes, OpenCompute(""))
        doubled = [i for i in range(len(nodes) - 1) if nodes[i] == nodes[i + 1] == AnyPlace()]
        self.nodes = tuple(node for i, node in enumerate(nodes) if i not in doubled)
        self.bounds, self.levels = bounds, levels
        self.once = once

    def ways(self, mapping: list[tree.Node]) -> Iterator[list[tree.Node]]:
        """The mapping, written in each way that is like the given one."""
        outer, held, items = items_of(mapping, self.bounds)
        stored = [(n.component, t) for n in self.nodes if isinstance(n, tree.Storage) for t in n.tensors]
        self.named = {t for m, t in stored if m != outer}
        self.outer = outer
        self.seen: set[Any] = set()
        yield from self.outer_nest(0, held, items)

    def outer_nest(self, i: int, left: set[str], items: list[Any], free: bool = False) -> Iterator[list[tree.Node]]:
        """The nodes of the outermost memory, in any order, loops among them without effect."""
        node = self.nodes[i]
        more = any(isinstance(n, tree.Storage) and n.component == self.outer for n in self.nodes[i:])
        if isinstance(node, AnyPlace):
            free = True
        if not more and (free or not left):
            lead = [tree.Storage((t,), self.outer) for t in sorted(left)]
            for rest in self.run(i, items, 0, dict(self.bounds), frozenset()):
                yield [*lead, *rest]
            return
        if isinstance(node, AnyPlace):
            yield from self.outer_nest(i + 1, left, items, free)
        elif isinstance(node, tree.Storage) and node.component == self.outer and set(node.tensors) <= left:
            for rest in self.outer_nest(i + 1, left - set(node.tensors), items, free):
                yield [node, *rest]
        elif self.may_be_absent(node):
            yield from self.outer_nest(i + 1, left, items, free)

    def may_be_absent(self, node: Any) -> bool:
        """Whether a node is a loop that may have one iteration above all others."""
        if isinstance(node, tree.Spatial):
            return self.bounds[str(node.rank_variable.default)] == 1
        if isinstance(node, tree.Temporal):
            return self.bounds[str(node.rank_variable.default)] == node.tile_shape.default
        return isinstance(node, OpenTemporal | OpenSpatial)

    # loops

    def run(self, i: int, items: list[Any], k: int, now: dict[str, int], met: frozenset[Any]) -> Iterator[Any]:
        """Items from the run at `k` on. `met`: lanes of this run that stand already, and variables with lanes there."""
        state = (i, k, tuple(now.items()), met)
        if self.once and state in self.seen:
            return  # what can come has come
        self.seen.add(state)
        run: Run = items[k]
        goal = {**now, **{v: s for v, s in run.temporal if ("lanes of", v) not in met}}
        left = [lane for lane in run.lanes if lane not in met]
        if not left and goal == now:
            yield from self.holder(i, items, k + 1, now, frozenset())
        node = self.nodes[i]
        if isinstance(node, AnyPlace):
            yield from self.run(i + 1, items, k, now, met)
            for v, shape in goal.items() if node.temporal else ():
                for inner in _divisors_between(now[v], shape):
                    if inner != now[v]:
                        loop = tree.Temporal(tree.PerEinsum(v), tree.PerEinsum(inner))
                        for rest in self.run(i, items, k, {**now, v: inner}, met):
                            yield [loop, *rest]
            for lane in left:
                yield from self.lane(i, items, k, now, met, goal, lane)
        elif isinstance(node, OpenTemporal):
            yield from self.temporal(i, items, k, now, met, goal, node.rank_variable, None)
        elif isinstance(node, tree.Temporal):
            shape = node.tile_shape.default
            yield from self.temporal(i, items, k, now, met, goal, str(node.rank_variable.default), shape)
        elif isinstance(node, OpenSpatial):
            yield from self.spatial(i, items, k, now, met, goal, (node.component, node.name), node.rank_variable, None)
        elif isinstance(node, tree.Spatial):
            where, v = (node.component, node.name), str(node.rank_variable.default)
            yield from self.spatial(i, items, k, now, met, goal, where, v, node.tile_shape.default)

    def temporal(self, i, items, k, now, met, goal, v, shape) -> Iterator[Any]:
        if now[v] == 1 and self.bounds[v] == 1:
            yield from self.run(i + 1, items, k, now, met)
            return
        if ("lanes of", v) in met:
            if shape in (None, now[v]):
                yield from self.run(i + 1, items, k, now, met)
            return
        for inner in _divisors_between(now[v], goal[v]):
            if shape in (None, inner):
                loop = [tree.Temporal(tree.PerEinsum(v), tree.PerEinsum(inner))] if inner != now[v] else []
                for rest in self.run(i + 1, items, k, {**now, v: inner}, met):
                    yield [*loop, *rest]

    def spatial(self, i, items, k, now, met, goal, where, v, shape) -> Iterator[Any]:
        if self.bounds[v] == 1:
            yield from self.run(i + 1, items, k, now, met)
            return
        if shape is None:
            yield from self.run(i + 1, items, k, now, met)
        if now[v] != goal[v]:
            return
        lane = next((x for x in items[k].lanes if x[:3] == (*where, v)), None)
        if lane is not None:
            if lane not in met and shape in (None, now[v] // lane[3]):
                yield from self.lane(i + 1, items, k, now, met, goal, lane)
        elif shape in (None, now[v]) and self.is_place(items, k, where[0]):
            yield from self.run(i + 1, items, k, now, met | {("lanes of", v)})

    def is_place(self, items: list[Any], k: int, component: str) -> bool:
        """Whether lanes of a component belong here: below all storage in memories above it, above all other storage."""
        above = [
            j for j, item in enumerate(items) if j % 2 and item[0] == "Storage" and self.is_above(item[1], component)
        ]
        below = [
            j
            for j, item in enumerate(items)
            if j % 2 and item[0] in ("Storage", "Compute") and j > max(above, default=0)
        ]
        return max(above, default=0) <= k < min(below)

    def is_above(self, memory: str, component: str) -> bool:
        return self.levels[memory] < self.levels[component]

    def lane(self, i, items, k, now, met, goal, lane) -> Iterator[Any]:
        """One of the spatial loops of the run stands here."""
        component, name, v, bound = lane
        remainder = [self.levels[m[0]] for m in met if len(m) == 4 and m[2] == v]
        if now[v] != goal[v] or any(level > self.levels[component] for level in remainder):
            return
        inner = now[v] // bound
        loop = tree.Spatial(tree.PerEinsum(v), tree.PerEinsum(inner), component, name)
        for rest in self.run(i, items, k, {**now, v: inner}, met | {lane, ("lanes of", v)}):
            yield [loop, *rest]

    # other nodes

    def holder(self, i: int, items: list[Any], k: int, now: dict[str, int], met: frozenset[str]) -> Iterator[Any]:
        kind, component, tensor = items[k]
        node = self.nodes[i]
        if isinstance(node, AnyPlace):
            yield from self.holder(i + 1, items, k, now, met)
            if kind == "Toll" or (kind == "Storage" and tensor not in self.named):
                for rest in self.run(i, items, k + 1, now, frozenset()):
                    yield [_holder(kind, component, tensor), *rest]
        elif kind == "Compute":
            if isinstance(node, OpenCompute) or (isinstance(node, tree.Compute) and node.component == component):
                yield [tree.Compute("Z", component)]
        elif isinstance(node, tree.Storage | tree.Toll) and (type(node).__name__, node.component) == (kind, component):
            more = met | {tensor}
            if tensor not in node.tensors or tensor in met:
                return
            if len(more) == len(node.tensors):
                for rest in self.run(i + 1, items, k + 1, now, frozenset()):
                    yield [_holder(kind, component, tensor), *rest]
            elif items[k + 1] == Run((), ()):
                for rest in self.holder(i, items, k + 2, now, more):
                    yield [_holder(kind, component, tensor), *rest]


def _holder(kind: str, component: str, tensor: str) -> tree.Node:
    return tree.Storage((tensor,), component) if kind == "Storage" else tree.Toll((tensor,), component)


def _divisors_between(outer: int, inner: int) -> list[int]:
    return [d for d in range(inner, outer + 1) if outer % d == 0 and d % inner == 0]
