"""Fused loops: those that other Einsums may stand below, as one Einsum writes them and as a tensor sees them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from einmap.einsum.einsum import TensorAccess
from einmap.mapper.mapspace.tile_lattice import is_plain
from einmap.mapping import nodes as tree
from einmap.numbers import divisors

type Kind = tuple[str, str]
"""Component and dimension of lanes; two empty names for a temporal loop."""

TEMPORAL: Kind = ("", "")


class Loop(NamedTuple):
    """A fused loop of one Einsum: its axis of the lattice and the variable there, tile shapes above and below it."""

    kind: Kind
    axis: int
    variable: str
    outer: int
    inner: int


type Cut = tuple[Kind, str, int]
"""A loop as a tensor sees it: kind, the rank that it cuts, tile shape."""


@lru_cache(maxsize=1024)
def shapes_left(size: int, apart: int) -> tuple[int, ...]:
    """Tile shapes that a loop may leave of a larger one, each at least `apart` times the one before."""
    shapes: list[int] = []
    for shape in divisors(size)[:-1]:
        if not shapes or shape >= apart * shapes[-1]:
            shapes.append(shape)
    return tuple(shapes)


def in_time(cut: Cut) -> Cut:
    """Fused loops in time: spatial ones are all done before the next Einsum begins."""
    return cut if cut[0] == TEMPORAL else (cut[0], "", 0)


def rank_cut(access: TensorAccess, variable: str) -> str:
    """The position of the rank that a loop cuts into tiles; what no other tensor has if it does not do that."""
    if is_plain(access, variable) and variable in access.by_rank:
        for i, (_, index) in enumerate(access.projection):
            if any(v == variable for v, _ in index.terms):
                return str(i)
    return f"not by {variable} in {access.tensor} of {access.projection}"


def loop_nodes(loops: tuple[Loop, ...]) -> list[tree.LoopNode]:
    """Loops as nodes."""
    nodes: list[tree.LoopNode] = []
    for loop in loops:
        names, shape = tree.PerEinsum(loop.variable), tree.PerEinsum(loop.inner)
        if loop.kind == TEMPORAL:
            nodes.append(tree.Temporal(names, shape))
        else:
            nodes.append(tree.Spatial(names, shape, *loop.kind))
    return nodes
