"""How much of each fanout an Einsum uses."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.model.counting.path import EinsumPath
from einmap.model.counting.tiles import Count, larger, smaller


def lanes_used(path: EinsumPath) -> dict[tuple[str, str], Count]:
    """Lanes that are ever used on each (component, dimension) of the path; 1 where no loop is."""
    lanes: dict[tuple[str, str], Count] = {
        (leaf.name, dimension.name): 1 for leaf in path.leaves for dimension in leaf.spatial
    }
    extents: dict[str, Count] = dict(path.einsum.extents)
    for loop in path.loops:
        extent = extents[loop.variable]
        if loop.initial is None:
            first = extents[loop.variable] = smaller(loop.shape, extent)
        else:
            first = loop.shape
            extents[loop.variable] = larger(loop.initial, smaller(loop.shape, extent - loop.initial))
        if loop.level is not None and loop.dimension is not None:
            key = (path.leaves[loop.level].name, loop.dimension.name)
            lanes[key] = lanes[key] * -(-extent // first)
    return lanes


def spatial_usage(path: EinsumPath, used: Mapping[tuple[str, str], Count]) -> dict[tuple[str, str], Count]:
    """The fraction of each fanout in use, times its `usage_scale`."""
    return {
        (leaf.name, dimension.name): used[leaf.name, dimension.name] / dimension.fanout * dimension.usage_scale
        for leaf in path.leaves
        for dimension in leaf.spatial
    }
