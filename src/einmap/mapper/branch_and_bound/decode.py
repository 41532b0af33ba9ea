"""From a path through the lattice to a LoopTree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.branch_and_bound.path_search import PathSearch, TemplateTables
from einmap.mapper.given.order import GapLoops, arranged
from einmap.mapper.mapspace import point_kernels
from einmap.mapper.mapspace.template import ABOVE, BELOW, joined
from einmap.mapper.mapspace.tile_lattice import Axis, Lattice
from einmap.mapper.templates.chain_template import ChainSegment, Held
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree

type Loops = Mapping[int, Sequence[tree.LoopNode]]
"""For the last levels of some gaps their loops; else their order is chosen here."""


def mapping_of(search: PathSearch, compiled: TemplateTables, prefix: int, points: Sequence[int]) -> LoopTree:
    """The mapping that goes through `points` (one for each level) with the lanes of `prefix`."""
    return joined(nodes_of(search, compiled, prefix, points))


def nodes_of(
    search: PathSearch, compiled: TemplateTables, prefix: int, points: Sequence[int], given: Loops | None = None
) -> Iterator[tree.Node]:
    """The nodes of a chain from the outside in, each storage node with one tensor."""
    plan, lattice = compiled.plan, search.lattice
    for held in plan.outer:
        lasting = held.backing and search.einsum.by_tensor[held.tensor].persistent
        yield tree.Storage((held.tensor,), search.leaves[held.level].name, lasting)
    at, r = lattice.top, 0
    above = plan.outer[-1] if plan.outer else None
    index = len(plan.outer)
    shapes = {variable: bound for axis in lattice.axes for variable, bound in axis.members}
    temporal: list[tuple[int, int, int]] = []
    spatial: list[tuple[int, int, int]] = []
    for i, (level, target) in enumerate(zip(compiled.levels, points, strict=True)):
        if level.axes is not None:
            yield from plan.builder.tolls.get((index, ABOVE), ())
            order = _order(search, level.axes, above, at, target)
            temporal = [(axis, *_sizes(lattice, axis, at, target)) for axis in order]
            spatial = []
        else:
            r += 1
            spatial += _lanes(search, prefix, r, at)
        at = target
        if level.last:
            if given and i in given:
                loops = list(given[i])
                shapes |= {str(loop.rank_variable.default): int(loop.tile_shape.default or 1) for loop in loops}
                yield from loops
            else:
                yield from _loops(search, prefix, plan.steps[index - len(plan.outer)], at, temporal, spatial, shapes)
            yield from plan.builder.tolls.get((index, BELOW), ())
            if level.node is not None:
                yield tree.Storage((level.node.tensor,), search.leaves[level.node.level].name)
                above = level.node
            index += 1
    yield tree.Compute(search.einsum.name, search.leaves[-1].name)


def _loops(
    search: PathSearch,
    prefix: int,
    step: ChainSegment,
    at: int,
    temporal: Sequence[tuple[int, int, int]],
    spatial: Sequence[tuple[int, int, int]],
    shapes: dict[str, int],
) -> Iterator[tree.Node]:
    """The loops of one gap: temporal ones, then lanes, or as they are given. `at`: the point below them.

    `temporal`: axis, tile shapes above and below its loop; `spatial`: dimension, axis, tile shape of a lane. `shapes`:
    those of the rank variables above the gap, which become those below it.
    """
    axes = search.lattice.axes
    nodes = {}
    if step.given is None:
        for a, _, inner in temporal:
            for variable, shape in _new(axes[a], shapes, inner):
                yield tree.Temporal(tree.PerEinsum(variable), tree.PerEinsum(shape))
    else:
        for a, _, inner in temporal:
            shapes |= axes[a].narrowed(shapes, inner)
    for d, a, inner in spatial:
        fanned = search.lanes.dimensions[d]
        nodes[d, a] = [
            tree.Spatial(tree.PerEinsum(variable), tree.PerEinsum(shape), fanned.component, fanned.dimension.name)
            for variable, shape in _new(axes[a], shapes, inner)
        ]
    if step.given is None:
        for spatial_nodes in nodes.values():
            yield from spatial_nodes
        return
    lanes, _, _ = search.lanes_of(prefix)
    lowered = search.pricer.axis_relevance[step.lowers.tensor] if step.lowers is not None else None
    inner_shapes = [_sizes(search.lattice, a, at, at)[0] for a in range(len(axes))]
    written: list[tuple[int, int, list[tree.Node]]] = [
        (d, a, list(spatial_nodes)) for (d, a), spatial_nodes in nodes.items() if spatial_nodes
    ]
    loops = GapLoops(axes, temporal, written, lowered, inner_shapes, lambda d, a: int(lanes[d, a]))
    yield from arranged(step.given, loops)


def _new(axis: Axis, shapes: dict[str, int], inner: int) -> Iterator[tuple[str, int]]:
    """Rank variables of an axis whose tile shapes change, with the new ones."""
    for variable, shape in axis.narrowed(shapes, inner).items():
        if shape != shapes[variable]:
            shapes[variable] = shape
            yield variable, shape


def _sizes(lattice: Lattice, axis: int, outer: int, inner: int) -> tuple[int, int]:
    stride, radix = int(lattice.strides[axis]), int(lattice.radices[axis])
    sizes = lattice.axes[axis].sizes
    return sizes[outer // stride % radix], sizes[inner // stride % radix]


def _order(search: PathSearch, axes: Sequence[int], above: Held | None, outer: int, inner: int) -> Sequence[int]:
    """Loops that index the tensor of the node above first; of partially relevant ones that which leaves least."""
    if above is None:
        return axes
    tensor = above.tensor
    relevance = search.pricer.axis_relevance[tensor]
    rank = {Relevance.FULL: 0, Relevance.PARTIAL: 1, Relevance.NONE: 2}
    lattice, number = search.lattice, search.tensors.index(tensor)
    strides = lattice.strides.tolist()
    coord = {point: (point // lattice.strides % lattice.radices).tolist() for point in (outer, inner)}

    def left(axis: int) -> float:
        passed = outer
        for other in axes:
            if relevance[other] is Relevance.FULL or other == axis:
                passed += (coord[inner][other] - coord[outer][other]) * strides[other]
        return float(point_kernels.value_at(search.layout, number, passed))

    def key(axis: int) -> tuple[int, float, int]:
        same = coord[inner][axis] == coord[outer][axis]
        partial = relevance[axis] is Relevance.PARTIAL and not same
        return rank[relevance[axis]], left(axis) if partial else 0.0, axis

    return sorted(axes, key=key)


def _lanes(search: PathSearch, prefix: int, r: int, at: int) -> Iterator[tuple[int, int, int]]:
    """Dimension, axis and tile shape of the lanes of one fanout."""
    (lanes, shapes, orders), lattice = search.lanes_of(prefix), search.lattice
    sizes = [_sizes(lattice, a, at, at)[0] for a in range(len(lattice.axes))]
    for d, fanned in enumerate(search.lanes.dimensions):
        if fanned.level != search.fanouts[r - 1]:
            continue
        for a in orders[d].tolist():
            inner = int(shapes[d, a]) or sizes[a] // int(lanes[d, a])
            if inner != sizes[a]:
                yield d, a, inner
            sizes[a] = inner
