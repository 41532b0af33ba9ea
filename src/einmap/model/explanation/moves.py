"""Small changes of a LoopTree: a storage node above one more loop, a spatial loop with twice the lanes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace

from einmap.einsum.workload import Workload
from einmap.errors import MappingError
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address, PerEinsum, Spatial, Storage, Temporal, format_address
from einmap.mapping.rewrite.editing import beside, paths_through, position_in, replaced, siblings
from einmap.mapping.rewrite.storage import hoist


@dataclass(frozen=True, slots=True)
class Hoist:
    """`tensor`, held in `component` at the node `address`, is held above the loops over `loops` in `mapping`.

    `rewrite`: how `einmap rewrite --do` writes it.
    """

    tensor: str
    component: str
    address: Address
    loops: tuple[str, ...]
    rewrite: str
    mapping: Mapping


def hoisted(mapping: Mapping, workload: Workload, absent: Container[Address] = frozenset()) -> Iterator[Hoist]:
    """Every storage node's tensors, one at a time, above one, two, ... of the loops in time that are not `absent`.

    for m / [GLB holds A] / for k   ->   [GLB holds A] / for m / for k

    Spatial loops and other holders of the tensor are not passed, nor splits with several branches that use it.
    """
    for placed in mapping.placed:
        if isinstance(placed.node, Storage) and not placed.node.persistent:
            for tensor in placed.node.tensors:
                yield from _above_more_loops(mapping, workload, placed.address, placed.node, tensor, absent)


def _above_more_loops(
    mapping: Mapping, workload: Workload, address: Address, node: Storage, tensor: str, absent: Container[Address]
) -> Iterator[Hoist]:
    path = next(iter(paths_through(mapping, address).values()))
    passed: list[str] = []
    for placed in reversed(path[: position_in(path, address)]):
        if isinstance(placed.node, Spatial):
            return
        if not isinstance(placed.node, Temporal) or placed.address in absent:
            continue
        passed.append(str(placed.node.rank_variable))
        storage, above = f"{tensor}@{format_address(address)}", format_address(placed.address)
        try:
            moved = hoist(mapping, workload, storage, above=above)
        except MappingError:
            return
        yield Hoist(tensor, node.component, address, tuple(passed), f"hoist {storage} above {above}", moved)


# lanes


def filled(mapping: Mapping, component: str, dimension: str) -> Iterator[tuple[str, Mapping]]:
    """Trees in which loops over a fanout have twice the lanes, and what is changed for that; best first.

    1. The next loop in time outside over the same variable takes twice the tile: what a lane does stays the same.
    2. A lane takes half the tile.
    """
    spread = _outermost_over(mapping, component, dimension)
    around = [outer for address in spread if (outer := _same_variable_outside(mapping, address)) is not None]
    even = [address for address in spread if all(shape % 2 == 0 for shape in _shapes(mapping, address))]
    if around:
        yield f"twice the tile shape of {_listed(around)}", _reshaped(mapping, around, lambda shape: 2 * shape)
    if even:
        yield f"half the tile shape of {_listed(even)}", _reshaped(mapping, even, lambda shape: shape // 2)


def _outermost_over(mapping: Mapping, component: str, dimension: str) -> list[Address]:
    """The first loop over the fanout on every path that has one."""
    fanout = component, dimension
    addresses: dict[Address, None] = {}
    for path in mapping.path_of.values():
        over = (p for p in path if isinstance(p.node, Spatial) and (p.node.component, p.node.name) == fanout)
        addresses.update((p.address, None) for p in list(over)[:1])
    return list(addresses)


def _same_variable_outside(mapping: Mapping, address: Address) -> Address | None:
    """The nearest loop in time above, in the same branch, over the same rank variable."""
    spread = mapping.at(address)
    assert isinstance(spread, Spatial)
    nodes = siblings(mapping, address)
    for steps in range(1, address[-1] + 1):
        node = nodes[address[-1] - steps]
        if isinstance(node, Temporal) and node.rank_variable == spread.rank_variable:
            return beside(address, -steps)
    return None


def _shapes(mapping: Mapping, address: Address) -> list[int]:
    """The tile shapes that a loop has for any Einsum."""
    node = mapping.at(address)
    assert isinstance(node, Temporal | Spatial)
    written = (node.tile_shape.default, *(shape for _, shape in node.tile_shape.by_einsum))
    return [shape for shape in written if shape is not None]


def _reshaped(mapping: Mapping, addresses: list[Address], change: Callable[[int], int]) -> Mapping:
    for address in addresses:
        node = mapping.at(address)
        assert isinstance(node, Temporal | Spatial)
        old = node.tile_shape
        default = None if old.default is None else change(old.default)
        shape = PerEinsum(default, tuple((einsum, change(n)) for einsum, n in old.by_einsum))
        mapping = replaced(mapping, address, 1, (replace(node, tile_shape=shape),))
    return mapping


def _listed(addresses: list[Address]) -> str:
    more = len(addresses) - 2
    return ", ".join(format_address(a) for a in addresses[:2]) + (f" and {more} more" if more > 0 else "")
