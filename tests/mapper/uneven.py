"""Every mapping of a small Einsum with imperfect factors, by plain enumeration: the oracle for ragged tiles.

Each variable's loops (one temporal loop in each gap that allows it, one spatial loop for each dimension) get tile shapes
that divide the one outside; the outermost loop of more than one iteration may have any tile shape, if the variable is
in no sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, permutations, product
from typing import Any

from einmap.arch.component import is_carrying
from einmap.mapper.mapspace.dataplacement import dataplacements
from einmap.mapper.mapspace.template import TemplateBuilder
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping
from einmap.spec.spec import Spec


def every_mapping(spec: Spec, *, loops: bool, lanes: bool) -> Iterator[Mapping]:
    """All mappings, constraints of fanouts and capacities not looked at. `loops`, `lanes`: which may be imperfect."""
    (einsum,) = spec.workload.einsums
    arch = spec.arch(einsum.name)
    summed = {v for a in einsum.accesses for _, i in a.projection for v, f in i.terms if len(i.terms) > 1 or f != 1}
    alone = set(einsum.rank_variables) - summed
    for unit in arch.computes:
        leaves = arch.path(unit.name)
        for placement in dataplacements(einsum, leaves, backed_outside=einsum.tensors):
            builder = TemplateBuilder(einsum, leaves, unit, placement, False)
            slots = list(_slots(builder))
            chains = [
                list(_chains(bound, [s for s in slots if s[1] == v], loops=loops, lanes=lanes, first=v in alone))
                for v, bound in einsum.bounds
            ]
            for chosen in product(*chains):
                shapes = {slot: shape for chain in chosen for slot, shape in chain}
                nodes = tuple(_nodes(builder, slots, shapes, dict(einsum.bounds)))
                yield from map(Mapping, _in_every_order(nodes) if any(map(is_carrying, leaves)) else (nodes,))


def _in_every_order(nodes: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Nodes with every order of spatial loops over one dimension, which counts below a network."""
    runs = [
        list(permutations(run)) if key is not None else [tuple(run)]
        for key, run in groupby(nodes, lambda n: (n.component, n.name) if isinstance(n, tree.Spatial) else None)
    ]
    for chosen in product(*runs):
        yield tuple(node for run in chosen for node in run)


def _slots(builder: TemplateBuilder) -> Iterator[tuple[Any, ...]]:
    """(gap, variable, component or None, dimension): where loops may stand, from the outside in."""
    n_outer = builder.placement.n_outer
    for index in range(n_outer, len(builder.placement.nodes) + 1):
        for v in builder.gaps[index - n_outer][0]:
            yield (index, v, None, None)
        for leaf in builder.leaves:
            for dimension in leaf.spatial:
                if builder.place_of(leaf.name) == index:
                    for v, bound in builder.einsum.bounds:
                        if bound > 1:
                            yield (index, v, leaf.name, dimension.name)


def _chains(
    extent: int, slots: list[Any], *, loops: bool, lanes: bool, first: bool
) -> Iterator[tuple[tuple[Any, int], ...]]:
    if not slots:
        if extent == 1:
            yield ()
        return
    slot, rest = slots[0], slots[1:]
    free = first and (loops if slot[2] is None else lanes)
    for shape in range(1, extent + 1):
        if extent % shape == 0 or free:
            for more in _chains(shape, rest, loops=loops, lanes=lanes, first=first and shape == extent):
                yield ((slot, shape), *more)


def _nodes(
    builder: TemplateBuilder, slots: list[Any], shapes: dict[Any, int], extents: dict[str, int]
) -> Iterator[Any]:
    placement = builder.placement
    for memory, tensor in placement.nodes[: placement.n_outer]:
        yield tree.Storage((tensor,), memory)
    for index in range(placement.n_outer, len(placement.nodes) + 1):
        yield from builder.tolls.get((index, 0), ())
        for slot in (s for s in slots if s[0] == index and shapes[s] != extents[s[1]]):
            _, v, component, dimension = slot
            extents[v] = shapes[slot]
            shape = tree.PerEinsum(shapes[slot])
            if component is None:
                yield tree.Temporal(tree.PerEinsum(v), shape)
            else:
                yield tree.Spatial(tree.PerEinsum(v), shape, component, dimension)
        yield from builder.tolls.get((index, 2), ())
        if index < len(placement.nodes):
            memory, tensor = placement.nodes[index]
            yield tree.Storage((tensor,), memory)
    yield tree.Compute(builder.einsum.name, builder.unit.name)
