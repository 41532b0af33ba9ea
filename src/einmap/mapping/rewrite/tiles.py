"""Rewrites of the tiles of a loop: their shape, and that of the first one."""

from __future__ import annotations

from dataclasses import replace

from einmap.einsum.workload import Workload
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import PerEinsum, Spatial, Temporal
from einmap.mapping.rewrite.editing import paths_through, replaced
from einmap.mapping.rewrite.loops import Shape, refuse_initial, shape_for, with_shape
from einmap.mapping.rewrite.places import PlacedLoop, Ref, at, find_loop, refuse
from einmap.mapping.rewrite.values import check_exchange, holders, met_at
from einmap.mapping.validate import check_tree


def reshape(mapping: Mapping, workload: Workload, loop: Ref, shape: Shape) -> Mapping:
    """Give a loop another tile shape: it has more iterations, or fewer, and the loops below it fewer, or more.

    `reshape m#1 2`:

        [DRAM holds A, B, Z]
        for m by 4
          [GLB holds A]
          for m by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for m by 2
          [GLB holds A]
          for m by 1
            for k by 1
              compute Z on MAC

    The shape is a multiple of that of the next loop below over the same variable, and divides that of the next one
    above; where a loop has a shape for each Einsum, so has the new one.
    Raises MappingError for other shapes, for loops with an initial tile shape, for the innermost loop over a variable,
    whose tiles are single values, and where Einsums would exchange an intermediate in other tiles.
    """
    placed = find_loop(mapping, loop)
    refuse_initial(placed)
    paths = paths_through(mapping, placed.address)
    new = shape_for(placed, tuple(paths), shape)
    for einsum in paths:
        size = new.of(einsum)
        above, below = _tiles_around(mapping, placed, einsum)
        assert size is not None
        if size < 1 or size % below or (above is not None and above % size):
            outside = "" if above is None else f", and does not divide that of the loop above, {above}"
            text = f"tile shape {size} is not a multiple of that of the loop below, {below}{outside}"
            raise refuse(text, placed.address, f"multiples of {below}" + (f" that divide {above}" if above else ""))
    changed = replaced(mapping, placed.address, 1, (with_shape(placed.node, new),))
    if isinstance(placed.node, Temporal):
        _check_exchanged(changed, workload, placed)
    return changed


def initial(mapping: Mapping, workload: Workload, loop: Ref, shape: Shape | None) -> Mapping:
    """Give the first tile of a loop in time a shape of its own, or the shape of the others again.

    `initial m#1 4`:

        [DRAM holds A, B, Z]
        for m by 2
          [GLB holds A]
          for m by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for m by 2 (first 4)
          [GLB holds A]
          for m by 1
            for k by 1
              compute Z on MAC

    `shape`: a number or one for each Einsum; None takes the initial tile shape away (`initial m#1 none`). A producer
    that begins with a whole window lets its reader slide along: `initial m T:4,Y:2`. The shape is a multiple of that of
    the next loop below over the same variable.
    Raises MappingError for other shapes, for loops over lanes, for the innermost loop over a variable, where nothing
    changes, and where Einsums would meet other numbers of tiles or exchange an intermediate in other tiles.
    """
    placed = find_loop(mapping, loop)
    node = placed.node
    if not isinstance(node, Temporal):
        raise refuse("tiles over lanes are all alike", placed.address, "`serialise` puts the loop into time")
    paths = paths_through(mapping, placed.address)
    begun = Temporal(node.rank_variable, node.tile_shape)
    if shape is not None:
        new = shape_for(PlacedLoop(placed.address, begun), tuple(paths), shape)
        for einsum, met in met_at(mapping, workload, placed.address).items():
            _check_first(mapping, placed, einsum, new.of(einsum), met.extent)
        alike = all(new.of(einsum) == node.tile_shape.of(einsum) for einsum in paths)
        begun = begun if alike else replace(begun, initial_tile_shape=new)
    if begun == node:
        has = "has no initial tile shape" if node.initial_tile_shape == PerEinsum() else "begins with this tile already"
        raise refuse(f"this loop {has}", placed.address)
    changed = replaced(mapping, placed.address, 1, (begun,))
    check_tree(changed, workload, at)
    _check_exchanged(changed, workload, placed)
    return changed


def _check_first(mapping: Mapping, loop: PlacedLoop, einsum: str, size: int | None, extent: int) -> None:
    _, below = _tiles_around(mapping, loop, einsum)
    assert size is not None
    if not 1 <= size <= extent or size % below:
        text = f"a first tile of {size} is not a multiple of {below}, the tile shape of the loop below, up to {extent}"
        raise refuse(text, loop.address)


def _tiles_around(mapping: Mapping, loop: PlacedLoop, einsum: str) -> tuple[int | None, int]:
    """As `shapes_around`. Raises MappingError for the innermost loop over a variable."""
    above, below = shapes_around(mapping, loop, einsum)
    if below is None:
        text = f"this is the innermost loop over {loop.node.rank_variable.of(einsum)!r}: its tiles are single values"
        raise refuse(text, loop.address, "`split` makes a loop above it")
    return above, below


def shapes_around(mapping: Mapping, loop: PlacedLoop, einsum: str) -> tuple[int | None, int | None]:
    """Tile shapes of the next loops above and below over the variable that an Einsum has there; None: there is none."""
    variable = loop.node.rank_variable.of(einsum)
    above: int | None = None
    for placed in mapping.path_of[einsum]:
        node = placed.node
        if not isinstance(node, Temporal | Spatial) or node.rank_variable.of(einsum) != variable:
            continue
        if placed.address > loop.address:
            return above, node.tile_shape.of(einsum)
        if placed.address < loop.address:
            above = node.tile_shape.of(einsum)
    return above, None


def _check_exchanged(mapping: Mapping, workload: Workload, loop: PlacedLoop) -> None:
    for tensor in sorted(workload.intermediates):
        for einsum in paths_through(mapping, loop.address):
            held = holders(mapping, einsum, tensor)
            if held and held[0] > loop.address:
                check_exchange(mapping, workload, tensor, [loop.address], held[0])
                break
