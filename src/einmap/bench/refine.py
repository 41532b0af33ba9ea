"""Other tile shapes near those of a mapping: of ranks above 3,000 values the mapper tries few that do not divide them.

A register tile of 6 rows may be a fifth faster than one of 4 (docs/performance.md), and 6 does not divide 4,096.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from einmap.emit.fast.fast_c import fast_nest
from einmap.errors import EinmapError
from einmap.mapper.result.result import objective
from einmap.mapping.nodes import PerEinsum, Spatial, Temporal
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec

ROUNDS = 4
STEPS = (-2, -1, 1, 2)
"""By how many tiles of the next loop further in a tile shape is changed at a time."""


def refined(spec: Spec, metric: str, progress: Progress) -> Spec:
    """The mapping of one Einsum with tile shapes of which no single one, a step smaller or larger, costs less.

    It costs no more than that of `spec`; after 4 rounds over all loops it is good enough. A mapping of several Einsums
    stays as it is.
    """
    if len(spec.workload.einsums) != 1 or spec.mapping is None:
        return spec
    best, least = spec, objective(evaluate(spec), metric)
    for number in range(ROUNDS):
        before = least
        for place in range(len(spec.mapping.nodes)):
            progress.report("refining tile shapes", number, ROUNDS)
            for other in _others(best, place):
                if progress.stopped:
                    return best
                cost = _cost(other, metric)
                if cost is not None and cost < least:
                    best, least = other, cost
        if least == before:
            break
    return best


def _others(spec: Spec, place: int) -> Iterator[Spec]:
    """The specification with other tile shapes of the temporal loop at a place."""
    mapping = spec.mapping
    assert mapping is not None
    nodes = mapping.nodes
    node = nodes[place]
    name = spec.workload.einsums[0].name
    if not isinstance(node, Temporal) or node.initial_tile_shape != PerEinsum():
        return
    variable, shape = node.rank_variable.of(name), node.tile_shape.of(name)
    inside = [
        n.tile_shape.of(name) or 1
        for n in nodes[place + 1 :]
        if isinstance(n, Temporal | Spatial) and n.rank_variable.of(name) == variable
    ]
    if shape is None or not inside:
        return
    for size in (shape + step * inside[0] for step in STEPS):
        if size > inside[0]:
            changed = replace(node, tile_shape=PerEinsum(size))
            yield spec.with_mapping(replace(mapping, nodes=(*nodes[:place], changed, *nodes[place + 1 :])))


def _cost(spec: Spec, metric: str) -> float | None:
    """Cost of a mapping by a metric; None where it does not fit, or cannot be emitted as fast code."""
    try:
        cost = evaluate(spec)
        fast_nest(spec)
    except EinmapError:
        return None
    return objective(cost, metric)
