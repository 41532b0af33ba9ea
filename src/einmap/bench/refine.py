"""Other tile shapes near those of a mapping: of ranks above 3,000 values the mapper tries few that do not divide them.

A register tile of 6 rows may be a fifth faster than one of 4 (docs/performance.md), and 6 does not divide 4,096.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import inf, prod

from einmap.bench.predict import seconds_of
from einmap.emit.fast.cascade import Cascade
from einmap.emit.fast.fast_c import fast_nest
from einmap.errors import EinmapError
from einmap.mapper.result.result import objective
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.nodes import Address, PerEinsum, Spatial, Split, Storage, Temporal, Toll
from einmap.mapping.rewrite.editing import paths_through, position_in, replaced
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec

SECONDS = "seconds"
"""The metric that is the time which the emitted nest is predicted to take (`bench.predict`)."""
ROUNDS = 4
STEPS = (-2, -1, 1, 2)
"""By how many tiles of the next loop further in a tile shape is changed; half and twice of it are tried, too."""
PARTS = (2, 3, 4)
"""Into how many tiles a loop that is added cuts a rank."""
EQUAL = 1e-9
"""By how much of it costs may differ that count as equal."""


def refined(spec: Spec, metric: str, progress: Progress) -> Spec:
    """The mapping with tile shapes of which no single one, a step smaller or larger, costs less.

    It costs no more than that of `spec`; after 4 rounds over all loops it is good enough. Two loops around several
    Einsums change places where that costs no more, and packed tiles then take less memory. A register tile that has all
    of a rank gets a loop around it.
    """
    if spec.mapping is None:
        return spec
    best = spec
    least = cost_of(spec, metric) or (inf if metric == SECONDS else objective(evaluate(spec), metric), inf)
    for number in range(ROUNDS):
        before = least
        for kind in (_of_branches, _of_register_tile, _of_loops):
            for move in kind(best):
                progress.report("refining tile shapes", number, ROUNDS)
                for other in move(best):
                    if progress.stopped:
                        return best
                    cost = cost_of(other, metric)
                    if cost is not None and _is_less(cost, least):
                        best, least = other, cost
        if least == before:
            break
    return best


type Move = Callable[[Spec], Iterator[Spec]]
"""Other mappings near one."""


def _of_branches(_: Spec) -> list[Move]:
    return [_orders]


def _of_register_tile(_: Spec) -> list[Move]:
    return [_cuts]


def _of_loops(spec: Spec) -> list[Move]:
    return [partial(_others, address=loop.address) for loop in spec.mapping.loops] if spec.mapping else []


def _is_less(cost: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether a cost is less, or as good as equal, and the tiles that the code packs are smaller."""
    return cost[0] < other[0] * (1 - EQUAL) or (cost[0] <= other[0] * (1 + EQUAL) and cost[1] < other[1])


def _orders(spec: Spec) -> Iterator[Spec]:
    """The specification with the two loops above the first split in the other order.

    What is held between the outermost memory and them moves in between, too.
    """
    mapping = spec.mapping
    assert mapping is not None
    nodes = mapping.nodes
    for place, (first, second) in enumerate(pairwise(nodes)):
        if isinstance(first, Temporal) and isinstance(second, Temporal) and isinstance(nodes[-1], Split):
            begin = place
            while begin > 1 and isinstance(nodes[begin - 1], Storage | Toll):
                begin -= 1
            yield spec.with_mapping(Mapping((*nodes[:begin], second, *nodes[begin:place], first, *nodes[place + 2 :])))
            return


def _cuts(spec: Spec) -> Iterator[Spec]:
    """The specification of one Einsum with a loop around the register tile over a rank that has none there.

    Before each loop outside of the innermost storage node of the output, or right before that node; the tile shape is a
    half, a third or a quarter of the rank.
    """
    mapping, einsums = spec.mapping, spec.workload.einsums
    if mapping is None or len(einsums) > 1:
        return
    (einsum,), nodes = einsums, mapping.nodes
    held = [n for n, node in enumerate(nodes) if isinstance(node, Storage) and einsum.outputs & {*node.tensors}]
    inner = held[-1] if held else 0
    places = [n for n in range(1, inner + 1) if n == inner or isinstance(nodes[n], Temporal | Spatial)]
    over = {n: node for n, node in enumerate(nodes) if isinstance(node, Temporal | Spatial)}
    for variable in sorted({v for a in einsum.accesses if a.output for v in a.variables}):
        here = {n: node for n, node in over.items() if node.rank_variable.of(einsum.name) == variable}
        if not here or min(here) < inner:
            continue
        extent, step = einsum.extents[variable], here[min(here)].tile_shape.of(einsum.name) or 1
        for size in dict.fromkeys(-(-extent // (parts * step)) * step for parts in PARTS):
            if step <= size < extent:
                loop = Temporal(PerEinsum(variable), PerEinsum(size))
                yield from (spec.with_mapping(Mapping((*nodes[:n], loop, *nodes[n:]))) for n in places)


def _others(spec: Spec, address: Address) -> Iterator[Spec]:
    """The specification with other tile shapes of the temporal loop at an address."""
    mapping = spec.mapping
    assert mapping is not None
    node = mapping.at(address)
    if not isinstance(node, Temporal) or node.initial_tile_shape != PerEinsum():
        return
    paths = paths_through(mapping, address)
    shapes = {node.tile_shape.of(name) for name in paths}
    if len(shapes) != 1 or (shape := shapes.pop()) is None:
        return
    inside = [_next_shape(path, address, name) for name, path in paths.items()]
    step = max((n for n in inside if n is not None), default=0)
    sizes = [*(shape + steps * step for steps in STEPS), shape // (2 * step) * step, 2 * shape] if step else []
    for size in dict.fromkeys(sizes):
        if size > step:
            changed = replace(node, tile_shape=PerEinsum(size))
            yield spec.with_mapping(replaced(mapping, address, 1, (changed,)))


def _next_shape(path: tuple[PlacedNode, ...], address: Address, einsum: str) -> int | None:
    """The tile shape of an Einsum's next loop further in over the rank variable of the loop at an address."""
    place = position_in(path, address)
    loop = path[place].node
    assert isinstance(loop, Temporal)
    for placed in path[place + 1 :]:
        node = placed.node
        if isinstance(node, Temporal | Spatial) and node.rank_variable.of(einsum) == loop.rank_variable.of(einsum):
            return node.tile_shape.of(einsum) or 1
    return None


def cost_of(spec: Spec, metric: str) -> tuple[float, float] | None:
    """Cost of a mapping by a metric, or `SECONDS`, and values of packed tiles, those of all cores.

    None where it does not fit, or cannot be emitted as fast code.
    """
    try:
        cost = evaluate(spec)
        nest = fast_nest(spec)
    except EinmapError:
        return None
    nests = tuple(nest.nests.values()) if isinstance(nest, Cascade) else (nest,)
    value = seconds_of(spec, cost, nest) if metric == SECONDS else objective(cost, metric)
    return value, sum(
        packed.layout.size * prod(loop.iterations for loop in packed.cores)
        for n in nests
        for packed in n.packed.values()
    )
