"""A LoopTree as the field draws it: loops are boxes, storage nodes cylinders, computes ellipses, splits branches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from typing import assert_never

from einmap.errors import MappingError, did_you_mean
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import (
    Address,
    Compute,
    LeafNode,
    Node,
    PerEinsum,
    Sequential,
    Spatial,
    Split,
    Storage,
    Temporal,
    Toll,
    format_address,
)
from einmap.mapping.pretty import describe, manner, manner_of_split, pretty
from einmap.model.cost import Cost
from einmap.report.drawing.costs import NodeCosts, cost_annotations
from einmap.report.drawing.font import GLUE, wrapped
from einmap.report.drawing.page import Entry, Heading, page
from einmap.report.drawing.shapes import Kind, Line, Picture, Shape, text_lines
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.theme import GREY, LIGHT, PURPLE, VERMILION, Paint, Theme, memory_hues
from einmap.report.drawing.tidy import Chain, tree_layout
from einmap.spec.spec import Spec

WIDEST = 230.0
"""Text inside a node is broken into lines of at most this width ..."""
WIDER = 460.0
"""... or of this one, where a memory holds many tensors."""
LONGEST = 20_000
"""Characters of the description at most."""
MANY = 5
"""Lines of tensors that are not many yet."""


def looptree_svg(
    mapping: Mapping,
    spec: Spec | None = None,
    cost: Cost | None = None,
    *,
    einsum: str | None = None,
    title: str = "",
    theme: Theme = LIGHT,
) -> str:
    """The LoopTree as SVG text.

    With `spec` and `cost` (what `evaluate` gave for this mapping) each node shows its costs. `einsum` leaves only the
    path of one Einsum. Raises MappingError when the mapping has no such Einsum.
    """
    return to_svg(looptree_picture(mapping, spec, cost, einsum=einsum, title=title, theme=theme))


def looptree_picture(
    mapping: Mapping,
    spec: Spec | None = None,
    cost: Cost | None = None,
    *,
    einsum: str | None = None,
    title: str = "",
    theme: Theme = LIGHT,
) -> Picture:
    """The picture of a LoopTree before it is written."""
    if einsum is not None and einsum not in mapping.path_of:
        hint = did_you_mean(einsum, mapping.path_of, listing="Einsums of the mapping")
        raise MappingError(f"the mapping has no Einsum {einsum!r}", hint=hint)
    costs = cost_annotations(mapping, spec, cost, einsum) if spec is not None and cost is not None else None
    painter = _Painter(mapping, theme, costs.nodes if costs else {}, costs.energy if costs else 0.0)
    if einsum is None:
        chain, description = painter.chain(mapping.nodes, (), None), _description(mapping.nodes)
    else:
        path = list(_own_path(mapping, einsum, spec))
        chain = Chain(tuple(painter.node(node, address) for address, node in path))
        description = _description(tuple(node for _, node in path))
    parts = [f"Einsum {einsum}" if einsum and title else "", str(costs) if costs else ""]
    heading = Heading(
        title or f"LoopTree of {einsum or ', '.join(mapping.path_of)}",
        ": ".join(part for part in parts if part),
        description,
    )
    return page(tree_layout(chain), heading, painter.legend(chain), theme)


def _own_path(mapping: Mapping, einsum: str, spec: Spec | None) -> Iterable[tuple[Address, LeafNode]]:
    """The nodes that concern one Einsum, with its own tensors only if the workload is known.

    [GLB holds A, B] for k by 1 compute Z --> [GLB holds A] for k by 1 compute Z
    """
    bound = spec.workload.by_name.get(einsum) if spec is not None else None
    for placed in mapping.path_of[einsum]:
        node = placed.node
        if isinstance(node, Split):
            continue
        if bound is not None and isinstance(node, Storage | Toll):
            tensors = tuple(tensor for tensor in node.tensors if tensor in bound.tensors)
            if not tensors:
                continue
            node = replace(node, tensors=tensors)
        yield placed.address, node


def _description(nodes: tuple[Node, ...]) -> str:
    """The loop nest; the indentation of a very deep one would be most of the file."""
    text = pretty(Mapping(nodes), indent=" ")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


@dataclass(frozen=True)
class _Painter:
    mapping: Mapping
    theme: Theme
    costs: MappingOf[Address, NodeCosts]
    total: float

    def chain(self, nodes: tuple[Node, ...], prefix: Address, order: int | None) -> Chain:
        """The nodes of the root or of a branch; `order` is the place of the branch in its split."""
        shapes = [] if order is None else [self.disc(order)]
        for index, node in enumerate(nodes):
            address = (*prefix, index)
            if isinstance(node, Split):
                how = text_lines(manner_of_split(node), WIDEST, 11, muted=True)
                shapes.append(Shape("pill", tuple(how), self.theme.paint(None)))
                inner = enumerate(node.branches)
                return Chain(tuple(shapes), tuple(self.chain(part, (*address, i), i + 1) for i, part in inner))
            shapes.append(self.node(node, address))
        return Chain(tuple(shapes))

    def node(self, node: LeafNode, address: Address) -> Shape:
        costs = self.costs.get(address, NodeCosts())
        notes = [Line(text, 11, muted=True) for text in costs.lines(self.total)]
        tip = f"{format_address(address)}: {describe(node)}"
        kind, lines = self.own_lines(node, costs)
        return Shape(kind, (*lines, *notes), self.paint(node), tip)

    def own_lines(self, node: LeafNode, costs: NodeCosts) -> tuple[Kind, list[Line]]:
        match node:
            case Temporal(rank_variable=variable, tile_shape=tile, initial_tile_shape=initial):
                return "box", _loop_lines("for", variable, tile, initial)
            case Spatial(rank_variable=variable, tile_shape=tile, component=component, name=name):
                where = wrapped([component, name], WIDEST, 12, bold=True, joint=".")
                lines = _loop_lines("spatial-for", variable, tile, PerEinsum())
                return "double box", lines + [Line(text, bold=True) for text in where]
            case Storage(tensors=tensors, component=component):
                shown = [_with_shape(tensor, costs) for tensor in tensors]
                how = text_lines(manner(node).strip(), WIDEST, muted=True)
                return "cylinder", [*_name(component), *_tensors(shown), *how]
            case Toll(tensors=tensors, component=component):
                return "hexagon", [*_name(component), *_tensors(tensors)]
            case Compute(einsum=einsum, component=component):
                return "ellipse", [*_name(einsum), *text_lines(component, WIDEST)]
            case _:
                assert_never(node)

    def paint(self, node: LeafNode) -> Paint:
        if isinstance(node, Storage):
            return self.theme.paint(self.hues[node.component])
        return self.theme.paint({Spatial: PURPLE, Toll: VERMILION, Compute: GREY}.get(type(node)))

    @property
    def hues(self) -> dict[str, str]:
        """Memories have their colour in the order in which the tree names them."""
        return memory_hues(tuple(p.node.component for p in self.mapping.placed if isinstance(p.node, Storage)))

    def disc(self, order: int) -> Shape:
        return Shape("disc", (Line(str(order), 11, bold=True),), self.theme.paint(None), f"branch {order}")

    @property
    def order(self) -> str:
        """Meaning of the numbers of branches."""
        if not self.mapping.is_pipelined:
            return "branches run in this order"
        is_sequential = any(isinstance(placed.node, Sequential) for placed in self.mapping.placed)
        return f"{'branches run in this order, ' if is_sequential else ''}stages of a pipeline at one time"

    def legend(self, chain: Chain) -> list[Entry]:
        """Entries for what occurs in the drawing, and nothing else."""
        drawn = list(_shapes(chain))
        kinds = {shape.kind for shape in drawn}
        fills = {shape.paint for shape in drawn if shape.kind == "cylinder"}
        memories = {name: self.theme.paint(hue) for name, hue in self.hues.items()}
        plain = self.theme.paint(None)
        entries = [
            Entry("box", plain, "temporal loop"),
            Entry("double box", self.theme.paint(PURPLE), "spatial loop"),
            *(Entry("cylinder", paint, f"held in {name}") for name, paint in memories.items() if paint in fills),
            Entry("hexagon", self.theme.paint(VERMILION), "passes a toll"),
            Entry("ellipse", self.theme.paint(GREY), "compute"),
            Entry("disc", plain, self.order),
        ]
        return [entry for entry in entries if entry.kind in kinds]


def _shapes(chain: Chain) -> Iterable[Shape]:
    yield from chain.shapes
    for branch in chain.branches:
        yield from _shapes(branch)


def _name(text: str) -> list[Line]:
    return text_lines(text, WIDEST, 13, bold=True)


def _tensors(names: Sequence[str]) -> list[Line]:
    narrow = text_lines(names, WIDEST)
    return narrow if len(narrow) <= MANY else text_lines(names, WIDER)


def _with_shape(tensor: str, costs: NodeCosts) -> str:
    tile = costs.facts.tiles.get(tensor)
    return f"{tensor}{GLUE}{tile[0].replace('x', '×')}" if tile else tensor


def _loop_lines(word: str, variable: PerEinsum[str], tile: PerEinsum[int], initial: PerEinsum[int]) -> list[Line]:
    """`for m by 16`; a loop that is not the same for all Einsums has one line for those for which it is."""
    named = [name for per in (variable, tile, initial) for name, _ in per.by_einsum]
    groups: dict[tuple[str | None, int | None, int | None], list[str]] = {}
    for name in dict.fromkeys(named):
        groups.setdefault((variable.of(name), tile.of(name), initial.of(name)), []).append(name)
    if len(groups) <= 1:
        parts = next(iter(groups), (variable.default, tile.default, initial.default))
        return text_lines(_loop_text(word, *parts), WIDEST)
    lines: list[Line] = []
    for parts, names in groups.items():
        lines += text_lines(_loop_text(word, *parts), WIDEST) + text_lines(names, WIDEST, 11, muted=True)
    return lines


def _loop_text(word: str, variable: str | None, tile: int | None, initial: int | None) -> str:
    first = f", first {initial}" if initial is not None else ""
    return f"{word} {variable} by {tile:,}{first}" if tile is not None else f"{word} {variable}"
