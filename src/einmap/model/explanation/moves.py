"""Small changes of a LoopTree: a storage node above one more loop, a spatial loop with twice the lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address, Node, PerEinsum, Sequential, Spatial, Storage, Temporal


@dataclass(frozen=True, slots=True)
class Hoist:
    """`tensor`, held in `component` at the node `address`, is held above the loops over `loops` in `mapping`."""

    tensor: str
    component: str
    address: Address
    loops: tuple[str, ...]
    mapping: Mapping


def hoisted(mapping: Mapping, absent: frozenset[Address] | set[Address] = frozenset()) -> Iterator[Hoist]:
    """Every storage node's tensors, one at a time, above one, two, ... of the loops in time that are not `absent`.

    for m / [GLB holds A] / for k   ->   [GLB holds A] / for m / for k

    Spatial loops, splits and other holders of the tensor are not passed.
    """
    for prefix, nodes in _chains(mapping.nodes, ()):
        for i, node in enumerate(nodes):
            if isinstance(node, Storage) and not node.persistent:
                for tensor in node.tensors:
                    passed: list[str] = []
                    for j, loop in _loops_above(nodes, i, tensor, prefix, absent):
                        passed.append(str(loop.rank_variable))
                        chain = _moved(nodes, i, j, tensor)
                        moved = Mapping(_replaced(mapping.nodes, prefix, chain))
                        yield Hoist(tensor, node.component, (*prefix, i), tuple(passed), moved)


def _loops_above(
    nodes: tuple[Node, ...], i: int, tensor: str, prefix: Address, absent: frozenset[Address] | set[Address]
) -> Iterator[tuple[int, Temporal]]:
    for j in reversed(range(i)):
        node = nodes[j]
        if isinstance(node, Temporal):
            if (*prefix, j) not in absent:
                yield j, node
        elif isinstance(node, Spatial) or tensor in getattr(node, "tensors", ()):
            return


def _moved(nodes: tuple[Node, ...], i: int, j: int, tensor: str) -> tuple[Node, ...]:
    node = nodes[i]
    assert isinstance(node, Storage)
    rest = tuple(t for t in node.tensors if t != tensor)
    left: tuple[Node, ...] = (replace(node, tensors=rest),) if rest else ()
    return (*nodes[:j], replace(node, tensors=(tensor,)), *nodes[j:i], *left, *nodes[i + 1 :])


def _chains(nodes: tuple[Node, ...], prefix: Address) -> Iterator[tuple[Address, tuple[Node, ...]]]:
    """The nodes from the root, and those of every branch, to the next split."""
    yield prefix, nodes
    if nodes and isinstance(nodes[-1], Sequential):
        for b, branch in enumerate(nodes[-1].branches):
            yield from _chains(branch, (*prefix, len(nodes) - 1, b))


def _replaced(nodes: tuple[Node, ...], prefix: Address, chain: tuple[Node, ...]) -> tuple[Node, ...]:
    if not prefix:
        return chain
    at, branch, *rest = prefix
    split = nodes[at]
    assert isinstance(split, Sequential)
    inner = _replaced(split.branches[branch], tuple(rest), chain)
    return (*nodes[:at], Sequential((*split.branches[:branch], inner, *split.branches[branch + 1 :])))


# lanes


def filled(mapping: Mapping, component: str, dimension: str) -> Iterator[tuple[str, Mapping]]:
    """Trees in which loops over a fanout have twice the lanes, and what that takes; best first.

    1. The next loop in time outside over the same variable takes twice the tile: what a lane does stays the same.
    2. A lane takes half the tile.
    """
    for how, change in (("each lane's tile as now", _widened), ("each lane half the tile", _halved)):
        done = change(mapping.nodes, component, dimension, ())
        if done is not None:
            yield how, Mapping(done)


def _widened(
    nodes: tuple[Node, ...], component: str, dimension: str, above: tuple[Node, ...]
) -> tuple[Node, ...] | None:
    """Twice the tile shape for the loop outside the first spatial loop, in every branch that has both."""
    for i, node in enumerate(nodes):
        if isinstance(node, Spatial) and (node.component, node.name) == (component, dimension):
            for j in reversed(range(i)):
                loop = nodes[j]
                if isinstance(loop, Temporal) and loop.rank_variable == node.rank_variable:
                    wide = replace(loop, tile_shape=_times(loop.tile_shape, 2))
                    return (*nodes[:j], wide, *nodes[j + 1 :])
            return None
    return _in_branches(nodes, component, dimension, above, widen=True)


def _halved(
    nodes: tuple[Node, ...], component: str, dimension: str, above: tuple[Node, ...]
) -> tuple[Node, ...] | None:
    """Half the tile shape for the first spatial loop, in every branch that has one."""
    for i, node in enumerate(nodes):
        if isinstance(node, Spatial) and (node.component, node.name) == (component, dimension):
            shapes = [v for v in (node.tile_shape.default, *(s for _, s in node.tile_shape.by_einsum)) if v is not None]
            if any(shape % 2 for shape in shapes):
                return None
            half = replace(node, tile_shape=_divided(node.tile_shape, 2))
            return (*nodes[:i], half, *nodes[i + 1 :])
    return _in_branches(nodes, component, dimension, above, widen=False)


def _in_branches(
    nodes: tuple[Node, ...], component: str, dimension: str, above: tuple[Node, ...], *, widen: bool
) -> tuple[Node, ...] | None:
    if not nodes or not isinstance(nodes[-1], Sequential):
        return None
    change = _widened if widen else _halved
    inner = [change(branch, component, dimension, (*above, *nodes)) for branch in nodes[-1].branches]
    if all(done is None for done in inner):
        return None
    kept = tuple(old if new is None else new for old, new in zip(nodes[-1].branches, inner, strict=True))
    return (*nodes[:-1], Sequential(kept))


def _times(shape: PerEinsum[int], factor: int) -> PerEinsum[int]:
    default = None if shape.default is None else shape.default * factor
    return PerEinsum(default, tuple((name, n * factor) for name, n in shape.by_einsum))


def _divided(shape: PerEinsum[int], factor: int) -> PerEinsum[int]:
    default = None if shape.default is None else shape.default // factor
    return PerEinsum(default, tuple((name, n // factor) for name, n in shape.by_einsum))
