"""Layout of a directed graph without cycles: nodes in layers, every edge from an upper layer to a lower one.

What is not joined stands side by side, in rows of at most WIDEST. Steps for each part that is joined: layers (longest
path; nodes that find no room in theirs come further down), a point in each layer that an edge passes, the order in
each layer (barycentres of the
neighbours), middles as close to the neighbours' as the widths allow, then edges with one level of their own in the gap
below each layer for every node that has edges there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from einmap.report.drawing.shapes import Box, Edge, Placed, Point, Shape
from einmap.report.drawing.tidy import Layout

GAP = 26.0
"""Between two nodes of a layer."""
LEVEL = 7.0
"""Between the levels of two bundles of edges."""
ROOM = 15.0
"""Between a node and the first level, and between the last level and the nodes below."""
PORT = 16.0
"""Between two edges that enter a node side by side, where it is wide enough ..."""
_LEAST_PORT = 6.0
"""... and at least."""
WIDEST = 1400.0
"""Width of a row of parts and of a layer, where a single node is not wider."""
APART = 44.0
"""Between parts that are not joined."""
_POINT = 8.0
"""Width that a passing edge takes in a layer."""
_SWEEPS = 12
_STRAIGHT, _CHAIN = 16.0, 8.0
"""How much a neighbour pulls: for edges that pass several layers, and for those on a path from further above."""


@dataclass(eq=False)
class _Node:
    """A shape or, without one, the point where edges of `origin` pass a layer."""

    layer: int
    origin: int
    shape: Shape | None = None
    above: list[_Node] = field(default_factory=list)
    below: list[_Node] = field(default_factory=list)
    middle: float = 0.0

    @property
    def width(self) -> float:
        """As wide as the text, and as the edges that enter need."""
        if self.shape is None:
            return _POINT
        entries = 2 * math.ceil((len(self.above) - 1) * _LEAST_PORT / 2)
        return max(self.shape.size[0], self.rim + entries)

    @property
    def rim(self) -> float:
        """The part of the width, at both sides, where no edge enters: pills are round there."""
        assert self.shape is not None
        return self.height if self.shape.kind == "pill" else 2 * PORT

    @property
    def height(self) -> float:
        return self.shape.size[1] if self.shape else 0.0


def graph_layout(shapes: Sequence[Shape], edges: Sequence[tuple[int, int]]) -> Layout:
    """`edges` are pairs of places in `shapes`, without cycles; every pair at most once."""
    parts = joined_parts(len(shapes), edges)
    laid_out = []
    for part in parts:
        place = {node: index for index, node in enumerate(part)}
        inner = [(place[source], place[target]) for source, target in edges if source in place]
        laid_out.append(_part_layout([shapes[node] for node in part], inner))
    return _in_rows(parts, laid_out, edges)


def joined_parts(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The nodes that edges join, whatever their direction: part by part, in order of the first node of each.

    >>> joined_parts(4, [(2, 0), (3, 1)])
    [[0, 2], [1, 3]]
    """
    leader = list(range(count))

    def leading(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for source, target in edges:
        first, second = sorted((leading(source), leading(target)))
        leader[second] = first
    parts: dict[int, list[int]] = {}
    for node in range(count):
        parts.setdefault(leading(node), []).append(node)
    return list(parts.values())


def _part_layout(shapes: Sequence[Shape], edges: Sequence[tuple[int, int]]) -> Layout:
    layers = _layers(shapes, edges)
    _order(layers)
    _set_middles(layers)
    return _routed(layers, shapes, edges)


def _in_rows(parts: Sequence[Sequence[int]], laid_out: Sequence[Layout], edges: Sequence[tuple[int, int]]) -> Layout:
    """The parts side by side, from left to right and in as many rows as they need."""
    placed: dict[int, Placed] = {}
    routes: dict[tuple[int, int], Edge] = {}
    x = y = height = 0.0
    for part, layout in zip(parts, laid_out, strict=True):
        if x and x + layout.width > WIDEST:
            x, y, height = 0.0, y + height + APART, 0.0
        placed |= {node: shape.moved(x, y) for node, shape in zip(part, layout.shapes, strict=True)}
        for edge in layout.edges:
            ends = part[edge.source], part[edge.target]
            routes[ends] = Edge(*ends, edge.moved(x, y).points, edge.arrow)
        x, height = x + layout.width + APART, max(height, layout.height)
    return Layout(tuple(placed[node] for node in range(len(placed))), tuple(routes[edge] for edge in edges))


def _depths(shapes: Sequence[Shape], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest path from above; nodes without anything above come down to just above what uses them.

    Where a layer would be too wide, nodes that find no room in it come further down, row by row (Coffman and Graham,
    "Optimal scheduling for two-processor systems", 1972, with widths in place of a number of nodes).
    """
    below: dict[int, list[int]] = {}
    count = len(shapes)
    waiting = [0] * count
    for source, target in edges:
        below.setdefault(source, []).append(target)
        waiting[target] += 1
    order = [node for node in range(count) if not waiting[node]]
    roots = list(order)
    depths = [0] * count
    for node in order:
        for target in below.get(node, ()):
            depths[target] = max(depths[target], depths[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    for node in roots:
        depths[node] = min((depths[target] - 1 for target in below.get(node, ())), default=0)
    widths = [0.0] * (max(depths, default=0) + 1)
    for node, depth in enumerate(depths):
        widths[depth] += shapes[node].size[0] + GAP
    return depths if max(widths, default=0.0) <= WIDEST else _limited(shapes, edges, order, roots)


def _limited(
    shapes: Sequence[Shape], edges: Sequence[tuple[int, int]], order: Sequence[int], roots: Sequence[int]
) -> list[int]:
    """Depths with layers of at most WIDEST, what only one node uses just above it. `order`: sources before targets."""
    sources: dict[int, list[int]] = {node: [] for node in order}
    for source, target in edges:
        sources[target].append(source)
    depths: dict[int, int] = {}
    widths: dict[int, float] = {}
    is_root = {*roots}

    def width(*nodes: int) -> float:
        return sum(shapes[node].size[0] + GAP for node in nodes)

    def has_room(depth: int, needed: float) -> bool:
        return not needed or not widths.get(depth) or widths[depth] + needed <= WIDEST

    for node in (node for node in order if node not in is_root):
        depth = max((depths[source] + 1 for source in sources[node] if source in depths), default=1)
        fresh = [source for source in sources[node] if source not in depths]
        while not (has_room(depth, width(node)) and has_room(depth - 1, width(*fresh))):
            depth += 1
        for root in fresh:
            depths[root] = depth - 1
        depths[node] = depth
        widths[depth] = widths.get(depth, 0.0) + width(node)
        widths[depth - 1] = widths.get(depth - 1, 0.0) + width(*fresh)
    return [depths.get(node, 0) for node in range(len(shapes))]


def _layers(shapes: Sequence[Shape], edges: Sequence[tuple[int, int]]) -> list[list[_Node]]:
    depths = _depths(shapes, edges)
    layers: list[list[_Node]] = [[] for _ in range(max(depths, default=0) + 1)]
    nodes = [_Node(depths[index], index, shape) for index, shape in enumerate(shapes)]
    for node in nodes:
        layers[node.layer].append(node)
    points: dict[tuple[int, int], _Node] = {}
    for source, target in edges:
        upper = nodes[source]
        for layer in range(depths[source] + 1, depths[target]):
            if (source, layer) not in points:
                points[source, layer] = _Node(layer, source)
                layers[layer].append(points[source, layer])
                _join(upper, points[source, layer])
            upper = points[source, layer]
        _join(upper, nodes[target])
    return layers


def _join(upper: _Node, lower: _Node) -> None:
    upper.below.append(lower)
    lower.above.append(upper)


def _order(layers: list[list[_Node]]) -> None:
    """Sweeps down and up; the order with the fewest crossings stays."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            position = {node: index for other in layers for index, node in enumerate(other)}

            def barycentre(node: _Node, position: Mapping[_Node, int] = position, down: bool = down) -> float:
                around = node.above if down else node.below
                if not around:
                    return float(position[node])
                return sum(position[other] for other in around) / len(around)

            layer.sort(key=barycentre)
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _crossings(layers: list[list[_Node]]) -> int:
    total = 0
    for layer, lower in pairwise(layers):
        position = {node: index for index, node in enumerate(lower)}
        ends = [position[other] for node in layer for other in sorted(node.below, key=lambda n: position[n])]
        total += sum(a > b for index, a in enumerate(ends) for b in ends[index + 1 :])
    return total


def _set_middles(layers: list[list[_Node]]) -> None:
    for layer in layers:
        _spread(layer, [0.0] * len(layer))
    for sweep in range(_SWEEPS + 1):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            targets = []
            for node in layer:
                around = (node.above if down else node.below) or node.below or node.above
                pulls = [_pull(node, other) for other in around]
                middles = [pull * other.middle for pull, other in zip(pulls, around, strict=True)]
                targets.append(sum(middles) / sum(pulls) if around else node.middle)
            _spread(layer, targets)


def _pull(node: _Node, other: _Node) -> float:
    if node.shape is None and other.shape is None:
        return _STRAIGHT
    return _CHAIN if (node if node.layer < other.layer else other).above else 1.0


def _spread(layer: list[_Node], targets: list[float]) -> None:
    apart = [(left.width + right.width) / 2 + GAP for left, right in pairwise(layer)]
    stays = [_CHAIN if node.above else 1.0 for node in layer]
    for node, middle in zip(layer, kept_apart(targets, apart, stays), strict=True):
        node.middle = middle


def kept_apart(
    targets: Sequence[float],
    apart: Sequence[float],
    weights: Sequence[float] = (),
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> list[float]:
    """Places in this order, each at least `apart` from the next, as close as can be (least squares) to its target.

    They stay within `limits`, between which there must be room for all.
    What would come too close is pooled: it moves as one block to the weighted mean of the targets of its members.

    >>> kept_apart([0, 0, 30], [10, 10])
    [-5.0, 5.0, 30.0]
    """
    offsets = [0.0]
    for distance in apart:
        offsets.append(offsets[-1] + distance)
    blocks: list[tuple[float, float, int]] = []
    for target, offset, weight in zip(targets, offsets, weights or [1.0] * len(targets), strict=False):
        mean, mass, count = target - offset, weight, 1
        while blocks and blocks[-1][0] >= mean:
            other, more, members = blocks.pop()
            mean = (mean * mass + other * more) / (mass + more)
            mass, count = mass + more, count + members
        blocks.append((mean, mass, count))
    low, high = limits[0], limits[1] - offsets[-1]
    means = [max(low, min(mean, high)) for mean, _, count in blocks for _ in range(count)]
    return [float(mean + offset) for mean, offset in zip(means, offsets, strict=False)]


def _routed(layers: list[list[_Node]], shapes: Sequence[Shape], edges: Sequence[tuple[int, int]]) -> Layout:
    left = min((node.middle - node.width / 2 for layer in layers for node in layer), default=0.0)
    for node in (node for layer in layers for node in layer):
        node.middle = float(round(node.middle - left))
    ports = {node: _ports(node) for layer in layers for node in layer}
    boxes: dict[_Node, Box] = {}
    turns: dict[_Node, float] = {}
    y = 0.0
    for layer in layers:
        height = max(node.height for node in layer)
        for node in layer:
            boxes[node] = Box(node.middle - node.width / 2, y + (height - node.height) / 2, node.width, node.height)
        bundles = [node for node in layer if node.below]
        y += height
        levels = _levels(bundles, ports)
        for node in bundles:
            turns[node] = y + ROOM + LEVEL * levels[node]
        y += 2 * ROOM + LEVEL * max(levels.values(), default=0)
    placed = {node.origin: Placed(node.shape, boxes[node]) for la in layers for node in la if node.shape}
    start = {node.origin: node for layer in layers for node in layer if node.shape}
    routes = tuple(Edge(s, t, _route(start[s], start[t], boxes, turns, ports), arrow=True) for s, t in edges)
    return Layout(tuple(placed[index] for index in range(len(shapes))), routes)


def _ports(node: _Node) -> dict[_Node, float]:
    """Where the edges from above enter a node: straight below where they come from, if it is wide enough."""
    order = sorted(node.above, key=lambda other: other.middle)
    if node.shape is None:
        return dict.fromkeys(order, node.middle)
    reach = max(0.0, node.width - node.rim) / 2
    apart = min(PORT, 2 * reach / max(1, len(order) - 1))
    targets = [min(max(other.middle, node.middle - reach), node.middle + reach) for other in order]
    limits = node.middle - reach, node.middle + reach
    places = kept_apart(targets, [apart] * (len(order) - 1), limits=limits) if order else []
    return {other: round(place, 2) for other, place in zip(order, places, strict=True)}


def _levels(bundles: list[_Node], ports: Mapping[_Node, Mapping[_Node, float]]) -> dict[_Node, int]:
    """Levels of bundles: those whose horizontal parts would meet lie apart.

    Where one bundle ends in the column in which another starts, the other turns aside above it.
    """
    ends = {node: [ports[lower][node] for lower in node.below] for node in bundles}
    spans = {n: (min(n.middle, *ends[n]), max(n.middle, *ends[n])) for n in bundles}
    waiting = sorted(bundles, key=lambda node: (spans[node][1] - spans[node][0], node.middle))
    levels: dict[_Node, int] = {}
    taken: list[list[tuple[float, float]]] = []
    while waiting:
        free = (n for n in waiting if not any(_must_precede(o, n, ends) for o in waiting if o is not n))
        node = next(free, waiting[0])
        waiting.remove(node)
        low, high = spans[node]
        above = (levels[o] for o in bundles if o in levels and _must_precede(o, node, ends))
        level = max(above, default=-1) + 1
        while level < len(taken) and any(low - PORT / 2 <= b and a <= high + PORT / 2 for a, b in taken[level]):
            level += 1
        taken += [[] for _ in range(level + 1 - len(taken))]
        taken[level].append((low, high))
        levels[node] = level
    return levels


def _must_precede(first: _Node, second: _Node, ends: Mapping[_Node, list[float]]) -> bool:
    return any(abs(first.middle - end) < PORT / 4 for end in ends[second] if end != second.middle)


def _route(
    source: _Node,
    target: _Node,
    boxes: dict[_Node, Box],
    turns: dict[_Node, float],
    ports: dict[_Node, dict[_Node, float]],
) -> tuple[Point, ...]:
    points: list[Point] = [(source.middle, boxes[source].bottom)]
    node = source
    while node is not target:
        points_below = (lower for lower in node.below if lower.shape is None)
        lower = target if target in node.below else next(points_below)
        end = ports[lower][node]
        if end != node.middle:
            points += [(node.middle, turns[node]), (end, turns[node])]
        node = lower
    end = points[-1][0]
    return (*points, (end, _entry(boxes[target], target, end)))


def _entry(box: Box, target: _Node, x: float) -> float:
    """The height of the outline of a shape at `x`: ends of ellipses and pills are round."""
    if target.shape is None or target.shape.kind not in ("ellipse", "pill"):
        return box.y
    radius = box.height / 2
    if target.shape.kind == "ellipse":
        part = (x - box.middle) / (box.width / 2)
        return box.y + radius * (1 - math.sqrt(max(0.0, 1 - part**2)))
    beyond = abs(x - box.middle) - (box.width / 2 - radius)
    return box.y if beyond <= 0 else box.y + radius - math.sqrt(max(0.0, radius**2 - beyond**2))
