"""A LoopTree as an indented loop nest."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import (
    Address,
    Compute,
    LeafNode,
    Node,
    Pipeline,
    Spatial,
    Split,
    Storage,
    Temporal,
    Toll,
)

type Annotate = Callable[[Address], str]


def pretty(mapping: Mapping, annotate: Annotate | None = None, *, indent: str = "  ") -> str:
    """The loop nest, one node a line; `annotate` may add text to the line of an address.

    [DRAM holds A, B, Z]
    for m by 2
      [GLB holds A]
      for k by 1
        compute Z on MAC
    """
    lines: list[str] = []
    _write(mapping.nodes, (), 0, annotate, indent, lines)
    return "\n".join(lines)


def _write(
    nodes: tuple[Node, ...],
    prefix: Address,
    depth: int,
    annotate: Annotate | None,
    indent: str,
    lines: list[str],
) -> None:
    for index, node in enumerate(nodes):
        address = (*prefix, index)
        note = annotate(address) if annotate else ""
        if isinstance(node, Split):
            pipeline = isinstance(node, Pipeline)
            if isinstance(node, Pipeline):
                lines.append(f"{indent * depth}{manner_of_split(node)}")
            for branch, inner in enumerate(node.branches):
                title = f"stage {branch + 1}:" if pipeline else "then:" if branch else "first:"
                lines.append(f"{indent * depth}{title}")
                _write(inner, (*address, branch), depth + 1, annotate, indent, lines)
            return
        lines.append(f"{indent * depth}{describe(node)}{f'   {note}' if note else ''}")
        if isinstance(node, Temporal | Spatial):
            depth += 1


def manner_of_split(node: Split) -> str:
    """How the branches of a split run: `sequential`, `pipeline`, or `pipeline side by side on Array.X`."""
    if not isinstance(node, Pipeline):
        return "sequential"
    return "pipeline" if node.component is None else f"pipeline side by side on {node.component}.{node.name}"


def manner(node: Storage) -> str:
    """How a storage node holds its tensors, where that is out of the ordinary: ` persistently in sliding windows`."""
    slides = {None: "", True: " in sliding windows", False: " without sliding windows"}[node.sliding_window]
    return f"{' persistently' if node.persistent else ''}{slides}"


def describe(node: LeafNode) -> str:
    """One node in words."""
    match node:
        case Temporal(rank_variable=variable, tile_shape=tile, initial_tile_shape=initial):
            first = f" (first {initial})" if initial != type(initial)() else ""
            return f"for {variable} by {tile}{first}"
        case Spatial(rank_variable=variable, tile_shape=tile, component=component, name=name):
            return f"spatial-for {variable} by {tile} on {component}.{name}"
        case Storage(tensors=tensors, component=component):
            return f"[{component} holds {', '.join(tensors)}{manner(node)}]"
        case Toll(tensors=tensors, component=component):
            return f"[{', '.join(tensors)} through {component}]"
        case Compute(einsum=einsum, component=component):
            return f"compute {einsum} on {component}"
        case _:
            assert_never(node)
