"""Rewrites of loops: in which order, in how many steps, and whether in time or on lanes values are visited."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingOf
from itertools import pairwise

from einmap.errors import did_you_mean
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import LoopNode, PerEinsum, Spatial, Split, Temporal, format_address
from einmap.mapping.pretty import describe
from einmap.mapping.rewrite.editing import beside, each, paths_through, replaced, siblings
from einmap.mapping.rewrite.places import PlacedLoop, Ref, find_loop, refuse

type Shape = int | MappingOf[str, int]
"""A tile shape, or one for each Einsum below a loop."""


def interchange(mapping: Mapping, *loops: Ref) -> Mapping:
    """Swap a loop with the one directly below it; several loops that stand side by side get the order given.

    `interchange m`:

        [DRAM holds A, B, Z]
        for m by 1
          for n by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for n by 1
          for m by 1
            for k by 1
              compute Z on MAC

    `interchange k m n`:

        [DRAM holds A, B, Z]
        for m by 1
          for n by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for k by 1
          for m by 1
            for n by 1
              compute Z on MAC

    Loops over one rank variable keep their order: the inner one cuts the tiles of the outer one.
    Raises MappingError when the loops do not stand side by side or would pass one over the same variable.
    """
    ordered = [find_loop(mapping, loop) for loop in loops]
    if not ordered:
        raise refuse("name the loop to swap with the one below it", (0,))
    if len(ordered) == 1:
        ordered.insert(0, _below(mapping, ordered[0]))
    run = sorted(ordered, key=lambda loop: loop.address)
    for upper, lower in pairwise(run):
        if lower.address != beside(upper.address):
            raise _apart(mapping, upper, lower)
    _keep_order(mapping, run, ordered)
    return replaced(mapping, run[0].address, len(run), (loop.node for loop in ordered))


def _below(mapping: Mapping, loop: PlacedLoop) -> PlacedLoop:
    """The loop directly below. Raises MappingError when another kind of node stands there."""
    address = beside(loop.address)
    node = siblings(mapping, loop.address)[address[-1]]
    if isinstance(node, Temporal | Spatial):
        return PlacedLoop(address, node)
    if isinstance(node, Split):
        text, hint = "a split stands directly below this loop", "`distribute` moves the loop into the branches"
        raise refuse(text, loop.address, hint)
    hint = "`hoist` or `sink` moves a storage node; a loop is named by its rank variable"
    raise refuse(f"{describe(node)} stands directly below this loop, not another loop", loop.address, hint)


def _apart(mapping: Mapping, upper: PlacedLoop, lower: PlacedLoop) -> Exception:
    if upper.address == lower.address:
        return refuse("this loop is named twice", upper.address)
    if upper.address[:-1] != lower.address[:-1]:
        return refuse(f"a split stands between this loop and {format_address(lower.address)}", upper.address)
    nodes = siblings(mapping, upper.address)[upper.address[-1] + 1 : lower.address[-1]]
    loops_last = sorted(nodes, key=lambda node: isinstance(node, Temporal | Spatial))
    shown = next(describe(node) for node in loops_last if not isinstance(node, Split))
    text = f"between this loop and the one at {format_address(lower.address)} stands {shown}"
    return refuse(text, upper.address, "the loops must stand side by side; `hoist` or `sink` moves a storage node")


def _keep_order(mapping: Mapping, before: list[PlacedLoop], after: list[PlacedLoop]) -> None:
    einsums = tuple(paths_through(mapping, before[0].address))
    for i, outer in enumerate(after):
        for inner in after[i + 1 :]:
            same = [e for e in einsums if outer.node.rank_variable.of(e) == inner.node.rank_variable.of(e)]
            if same and before.index(outer) > before.index(inner):
                variable = outer.node.rank_variable.of(same[0])
                text = f"both loops are over {variable!r}: the inner one cuts the other's tiles"
                raise refuse(text, inner.address, "`fuse` makes one loop of them, `split` cuts it in other steps")


def split(mapping: Mapping, loop: Ref, shape: Shape) -> Mapping:
    """One loop becomes two: the outer one of tile shape `shape`, the inner one of the shape that there was.

    `split m#1 8`:

        [DRAM holds A, B, Z]
        for m by 2
          [GLB holds A]
          for m by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for m by 8
          for m by 2
            [GLB holds A]
            for m by 1
              for k by 1
                compute Z on MAC

    A spatial loop becomes two over the same dimension. The shape is a multiple of the loop's own, so all nodes below
    see the tiles that they saw; where a loop has a shape for each Einsum, so has the new one.
    Raises MappingError for other shapes and for loops with an initial tile shape.
    """
    placed = find_loop(mapping, loop)
    refuse_initial(placed)
    einsums = tuple(paths_through(mapping, placed.address))
    outer = shape_for(placed, einsums, shape)
    for einsum in einsums:
        large, small = outer.of(einsum), _tile_shape(placed, einsum)
        assert large is not None
        if large <= small or large % small:
            text = f"tile shape {large} for the outer loop is not a multiple of the loop's own, {small}"
            raise refuse(text, placed.address, f"for example {2 * small}")
    return replaced(mapping, placed.address, 1, (with_shape(placed.node, outer), placed.node))


def refuse_initial(loop: PlacedLoop) -> None:
    """Raise MappingError for a loop whose first tile has a shape of its own."""
    if isinstance(loop.node, Temporal) and loop.node.initial_tile_shape != PerEinsum():
        hint = f"`initial {format_address(loop.address)} none` takes it away"
        raise refuse("this loop has an initial tile shape, so its tiles are not alike", loop.address, hint)


def _tile_shape(loop: PlacedLoop, einsum: str) -> int:
    shape = loop.node.tile_shape.of(einsum)
    if shape is None:
        raise refuse(f"the loop has no tile shape for Einsum {einsum!r}", loop.address)
    return shape


def shape_for(loop: PlacedLoop, einsums: tuple[str, ...], shape: Shape) -> PerEinsum[int]:
    """A tile shape for each Einsum below a loop, written once where all are equal. Raises MappingError."""
    if not isinstance(shape, MappingOf):
        shapes = {e: loop.node.tile_shape.of(e) for e in einsums}
        if len(set(shapes.values())) > 1:
            hint = "for example " + ",".join(f"{e}:{2 * n}" for e, n in shapes.items() if n)
            raise refuse("this loop has a tile shape for each Einsum, and so needs the new one", loop.address, hint)
        return PerEinsum(shape)
    for name in shape:
        if name not in einsums:
            hint = did_you_mean(name, einsums, listing="Einsums below it")
            raise refuse(f"no Einsum {name!r} is below this loop", loop.address, hint)
    for name in einsums:
        if name not in shape:
            raise refuse(f"no tile shape is given for Einsum {name!r}", loop.address)
    return each({name: shape[name] for name in einsums})


def with_shape(node: LoopNode, shape: PerEinsum[int]) -> LoopNode:
    """The loop in tiles of another shape."""
    if isinstance(node, Temporal):
        return Temporal(node.rank_variable, shape)
    return Spatial(node.rank_variable, shape, node.component, node.name)


def fuse(mapping: Mapping, loop: Ref) -> Mapping:
    """A loop and the one directly below it, over the same rank variable, become one: the inverse of `split`.

    `fuse m#1`:

        [DRAM holds A, B, Z]
        for m by 8
          for m by 2
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

    Raises MappingError for loops over different variables or dimensions, of initial tile shapes, and where the outer
    tile shape is not a multiple of the inner one: one loop would cut other tiles.
    """
    outer = find_loop(mapping, loop)
    inner = _below(mapping, outer)
    refuse_initial(outer)
    refuse_initial(inner)
    if _lanes(outer.node) != _lanes(inner.node):
        raise refuse(f"the loop below is {describe(inner.node)}: they share no dimension", outer.address)
    for einsum in paths_through(mapping, outer.address):
        names = outer.node.rank_variable.of(einsum), inner.node.rank_variable.of(einsum)
        if names[0] != names[1]:
            text = f"this loop is over {names[0]!r}, the one below it over {names[1]!r}"
            raise refuse(text, outer.address, "`interchange` puts loops over one variable side by side")
        shapes = _tile_shape(outer, einsum), _tile_shape(inner, einsum)
        if shapes[0] % shapes[1]:
            text = (
                f"tile shape {shapes[0]} is not a multiple of {shapes[1]}, that of the loop below: one loop cuts others"
            )
            raise refuse(text, outer.address)
    return replaced(mapping, outer.address, 2, (inner.node,))


def _lanes(node: LoopNode) -> tuple[str, str] | None:
    return (node.component, node.name) if isinstance(node, Spatial) else None


def spread(mapping: Mapping, loop: Ref, dimension: str) -> Mapping:
    """Spread a loop in time over the lanes of a fanout, each tile on a lane of its own: the inverse of `serialise`.

    `spread m GLB.X`:

        [DRAM holds A, B, Z]
        for m by 1
          [GLB holds A]
          for k by 1
            compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        spatial-for m by 1 on GLB.X
          [GLB holds A]
          for k by 1
            compute Z on MAC

    `dimension`: the component and the dimension of its fanout, as `GLB.X`. Raises MappingError for a loop that is
    spread already, and for one with an initial tile shape.
    """
    placed = find_loop(mapping, loop)
    refuse_initial(placed)
    if isinstance(placed.node, Spatial):
        text = f"this loop is spread over {placed.node.component}.{placed.node.name} already"
        raise refuse(text, placed.address, "`serialise` puts it back into time")
    component, dot, name = dimension.rpartition(".")
    if not (component and dot and name):
        raise refuse(f"{dimension!r} is not a dimension of a fanout", placed.address, "write for example PE.X")
    lanes = Spatial(placed.node.rank_variable, placed.node.tile_shape, component, name)
    return replaced(mapping, placed.address, 1, (lanes,))


def serialise(mapping: Mapping, loop: Ref) -> Mapping:
    """Put a loop over the lanes of a fanout into time, one tile after the other: the inverse of `spread`.

    `serialise m`:

        [DRAM holds A, B, Z]
        spatial-for m by 1 on GLB.X
          [GLB holds A]
          for k by 1
            compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for m by 1
          [GLB holds A]
          for k by 1
            compute Z on MAC

    Raises MappingError for a loop in time.
    """
    placed = find_loop(mapping, loop)
    if isinstance(placed.node, Temporal):
        raise refuse("this loop runs in time already", placed.address, "`spread` puts it over a fanout")
    serial = Temporal(placed.node.rank_variable, placed.node.tile_shape)
    return replaced(mapping, placed.address, 1, (serial,))


def tile(mapping: Mapping, shapes: MappingOf[str, Shape]) -> Mapping:
    """Split several loops that stand side by side, and move the inner ones together below the last of them.

    `tile m 8 n 4`:

        [DRAM holds A, B, Z]
        for m by 1
          for k by 1
            for n by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for m by 8
          for k by 1
            for n by 4
              for m by 1
                for n by 1
                  compute Z on MAC

    `shapes`: the tile shape of each new outer loop, by the name or address of the loop that is split.
    Raises MappingError as `split` and `interchange` do.
    """
    pairs = ((find_loop(mapping, ref), shape) for ref, shape in _checked(shapes))
    loops = sorted(pairs, key=lambda pair: pair[0].address)
    first, last = loops[0][0], loops[-1][0]
    if not _is_run(mapping, first, last):
        raise _apart(mapping, first, last)
    tiled = mapping
    for loop, shape in reversed(loops):
        tiled = split(tiled, loop.address, shape)
    inner = [beside(loop.address, 1 + place) for place, (loop, _) in enumerate(loops)]
    count = len(loops) + 1 + last.address[-1] - first.address[-1]
    outer = [address for step in range(count) if (address := beside(first.address, step)) not in inner]
    return interchange(tiled, *outer, *inner)


def _is_run(mapping: Mapping, first: PlacedLoop, last: PlacedLoop) -> bool:
    if first.address[:-1] != last.address[:-1]:
        return False
    nodes = siblings(mapping, first.address)[first.address[-1] : last.address[-1] + 1]
    return all(isinstance(node, Temporal | Spatial) for node in nodes)


def _checked(shapes: MappingOf[str, Shape]) -> Iterable[tuple[str, Shape]]:
    if not shapes:
        raise refuse("name at least one loop and its tile shape", (0,), "for example m 8")
    return shapes.items()
