"""A register tile that code has room for.

An architecture counts the values of a tile, code its vectors: where the last rank of the output is short, as of one
channel, a vector has few values, and a tile that fits by its values has too many vectors.
"""

from __future__ import annotations

from itertools import product
from math import prod

from einmap.bench.refine import SECONDS, cost_of
from einmap.einsum.einsum import Einsum
from einmap.emit.fast.fast_c import fast_nest
from einmap.emit.fast.nest import MOST_VECTORS
from einmap.errors import NotSupportedError
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import PerEinsum, Spatial, Storage, Temporal
from einmap.spec.spec import Spec

MOST_TRIES = 40
"""Smaller tiles that are tried, those with most rows first."""


def in_registers(spec: Spec) -> Spec:
    """The specification of one Einsum with loops around its register tile, where code has no room for the tile.

    Of the smaller tiles that code can have the one whose nest should take the least time; the specification itself
    where it can be emitted, or where no smaller tile helps.
    """
    mapping, einsums = spec.mapping, spec.workload.einsums
    if mapping is None or len(einsums) > 1:
        return spec
    try:
        fast_nest(spec)
    except NotSupportedError:
        (einsum,) = einsums
    else:
        return spec
    holds = [
        n for n, node in enumerate(mapping.nodes) if isinstance(node, Storage) and einsum.outputs & {*node.tensors}
    ]
    if not holds:
        return spec
    found = [
        (cost, smaller)
        for sizes in _smaller_tiles(einsum, mapping, holds[-1])[:MOST_TRIES]
        if (cost := cost_of(smaller := _with_loops(spec, mapping, holds[-1], sizes), SECONDS)) is not None
    ]
    return min(found, key=lambda one: one[0])[1] if found else spec


def _smaller_tiles(einsum: Einsum, mapping: Mapping, inner: int) -> list[dict[str, int]]:
    """Rows of smaller tiles, by rank variable: those that are cut. `inner`: where the tile is held."""
    extents, steps = dict(einsum.extents), dict.fromkeys(einsum.extents, 1)
    for place, node in enumerate(mapping.nodes):
        if isinstance(node, Temporal | Spatial):
            variable, shape = node.rank_variable.of(einsum.name), node.tile_shape.of(einsum.name)
            if place < inner:
                extents[str(variable)] = min(extents[str(variable)], shape or 1)
            elif shape is not None and shape < extents[str(variable)]:
                steps[str(variable)] = max(steps[str(variable)], shape)
    *rows, _ = [v for a in einsum.accesses if a.output for _, index in a.projection for v, _ in index.terms] or [""]
    lengths = [
        sorted({-(-extents[v] // (n * steps[v])) * steps[v] for n in range(1, extents[v] // steps[v] + 1)} | {steps[v]})
        for v in rows
    ]
    tiles = [sizes for sizes in product(*lengths) if prod(sizes) <= MOST_VECTORS]
    tiles.sort(key=lambda sizes: (-prod(sizes), sizes))
    return [{v: n for v, n in zip(rows, sizes, strict=True) if n < extents[v]} for sizes in tiles]


def _with_loops(spec: Spec, mapping: Mapping, inner: int, sizes: dict[str, int]) -> Spec:
    loops = [Temporal(PerEinsum(variable), PerEinsum(size)) for variable, size in sizes.items()]
    return spec.with_mapping(Mapping((*mapping.nodes[:inner], *loops, *mapping.nodes[inner:])))
