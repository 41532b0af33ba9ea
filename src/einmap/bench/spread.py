"""A mapping of one core on several: its outermost loops cut into a part for each core.

The search for several cores has far more mappings to go through than that for one, and comes late to good ones. A
mapping that is good on one core is good on each core, too, where the cores' parts are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from math import lcm

from einmap.bench.refine import SECONDS, cost_of
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import LoopNode, Node, PerEinsum, Spatial, Storage, Temporal, Toll
from einmap.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class Cores:
    """The fanout over cores of an architecture: `count` of them. `outer`: components that they share."""

    component: str
    name: str
    count: int
    outer: frozenset[str]

    @staticmethod
    def of(spec: Spec) -> Cores | None:
        """The first fanout that is not over the lanes of a vector; None where there is none."""
        outer = set[str]()
        for leaf in next(iter(spec.archs.values())).leaves.values():
            for dimension in leaf.spatial:
                if not dimension.vector and dimension.fanout > 1:
                    return Cores(leaf.name, dimension.name, dimension.fanout, frozenset(outer))
            outer.add(leaf.name)
        return None


def best_spread(one: Spec, several: Spec) -> Spec | None:
    """The mapping of `one`, for one core, on the cores of `several`, as it takes the fewest predicted seconds.

    Of several that take as long the one that packs the fewest values.

    None where `several` has no cores, and where none of its loops can be spread over them.
    """
    cores = Cores.of(several)
    if cores is None or one.mapping is None:
        return None
    found = [several.with_mapping(mapping) for mapping in dict.fromkeys(spread(one, one.mapping, cores))]
    known = [(cost, place) for place, spec in enumerate(found) if (cost := cost_of(spec, SECONDS)) is not None]
    return found[min(known)[1]] if known else None


def spread(spec: Spec, mapping: Mapping, cores: Cores) -> Iterator[Mapping]:
    """Mappings with a loop over the cores, above the first node that each core has for itself."""
    nodes = mapping.nodes
    shared = [*takewhile(lambda n: _is_outer(n, cores), nodes)]
    for place in range(1, len(shared) + 1):
        tolls = [n for n in nodes[:place] if isinstance(n, Toll) and n.component not in cores.outer]
        above = [n for n in nodes[:place] if n not in tolls]
        for variable, extent in _outputs_at(spec, mapping, place).items():
            below = (*tolls, *nodes[place:])
            for inside, shape in _parts(below, variable, extent, cores.count):
                if shape < extent:
                    lanes = Spatial(PerEinsum(variable), PerEinsum(shape), cores.component, cores.name)
                    yield Mapping((*above, lanes, *inside))


def _is_outer(node: Node, cores: Cores) -> bool:
    """Whether a node may stand above the cores: a loop, what the cores share, and what passes to their registers."""
    return isinstance(node, Temporal | Toll) or (isinstance(node, Storage) and node.component in cores.outer)


def _outputs_at(spec: Spec, mapping: Mapping, place: int) -> dict[str, int]:
    """Rank variables that index the outputs of all Einsums, and their values left below the first nodes."""
    found: dict[str, int] | None = None
    for einsum in spec.workload.einsums:
        written = {v for t in einsum.outputs for v in einsum.by_tensor[t].variables}
        left = {v: n for v, n in einsum.bounds if v in written}
        for node in mapping.nodes[:place]:
            if isinstance(node, Temporal) and (v := node.rank_variable.of(einsum.name)) in left:
                left[v] = min(left[v], node.tile_shape.of(einsum.name) or left[v])
        found = left if found is None else {v: n for v, n in found.items() if left.get(v) == n}
    return found or {}


def _parts(below: tuple[Node, ...], variable: str, extent: int, cores: int) -> Iterator[tuple[tuple[Node, ...], int]]:
    """Nodes inside the loop over cores, and the tile of that loop; tiles of the next loop further in may change.

    1,024 values by 192, then by 64, on two cores: 576 for the first core; by 256 or by 128, 512 for each.
    """
    inner = Mapping(below)
    tiles = [_tiles([p.node for p in path], variable, name) for name, path in inner.path_of.items()]
    step = lcm(*(shapes[0] if shapes else 1 for shapes in tiles))
    share = -(-extent // cores)
    yield below, -(-share // step) * step
    place = next((n for n, node in enumerate(below) if _is_loop_over(node, variable)), None)
    if place is None or any(len(shapes) < 2 for shapes in tiles):
        return
    node, finer = below[place], lcm(*(shapes[1] for shapes in tiles))
    assert isinstance(node, Temporal)
    for count in {max(1, share // step), -(-share // step), -(-share // step) + 1}:
        shape = -(-share // (count * finer)) * finer
        changed = replace(node, tile_shape=PerEinsum(shape))
        yield (*below[:place], changed, *below[place + 1 :]), count * shape


def _is_loop_over(node: Node, variable: str) -> bool:
    return isinstance(node, Temporal) and node.rank_variable == PerEinsum(variable)


def _tiles(nodes: list[Node], variable: str, einsum: str) -> list[int]:
    """Tile shapes of an Einsum's loops over a rank variable, from the outermost in."""
    loops: list[LoopNode] = [n for n in nodes if isinstance(n, Temporal | Spatial)]
    return [n.tile_shape.of(einsum) or 1 for n in loops if n.rank_variable.of(einsum) == variable]
