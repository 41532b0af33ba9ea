"""An architecture as a tree: memories, fanouts, tolls and compute units, outermost on top."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from einmap.arch.component import Container, Leaf, Memory, Network
from einmap.arch.tree import Array, Fork, Hierarchical, Node
from einmap.errors import ExpressionError
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.scope import Scope, lazy_layer
from einmap.report.drawing.page import Entry, Heading, page
from einmap.report.drawing.shapes import Kind, Line, Picture, Shape, text_lines
from einmap.report.drawing.theme import GREY, LIGHT, PURPLE, VERMILION, Paint, Theme, memory_hues
from einmap.report.drawing.tidy import Chain, tree_layout
from einmap.spec.binding.bind_arch import BranchInput, LeafInput
from einmap.spec.raw import place
from einmap.spec.schema.arch import ArrayInput, MemoryInput, NetworkInput
from einmap.spec.spec import Spec
from einmap.units import format_bits

WIDEST = 230.0


@dataclass(frozen=True, slots=True)
class Unit:
    """Drawn facts of one node. Amounts are numbers, or their expression where it depends on a workload.

    `size`: bits, None for what stores nothing. `fanouts`: name and copies of each dimension. `topology`: of a network.
    `array`: the array that it stands in; `units`: of a memory there, along each dimension.
    """

    kind: str
    name: str
    size: float | str | None
    fanouts: tuple[tuple[str, int | str], ...]
    enabled: bool = True
    topology: str = ""
    array: str = ""
    units: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """A fork: it hangs below what stands before it, and nothing hangs below it."""

    parts: tuple[Unit | Branch, ...]


type Part = Unit | Branch


def arch_picture(
    spec: Spec,
    *,
    einsum: str | None = None,
    title: str = "",
    theme: Theme = LIGHT,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> Picture:
    """The architecture of a specification: as it is for `einsum` (the first one), or as it is written.

    `notes`: lines to write into a component, by its name, or into a fanout (`PEs.X`). Without a workload, sizes that
    depend on one are shown as expressions. Raises SpecError.
    """
    is_bound = einsum is not None or spec.raw.get("workload") is not None
    parts = tuple(bound_parts(spec.arch(einsum).nodes)) if is_bound else written_parts(spec)
    units = tuple(_units(parts))
    memories, kinds = tuple(unit.name for unit in units if unit.kind == "Memory"), {unit.kind for unit in units}
    painter = _Painter(theme, memory_hues(memories), notes or {})
    hue = painter.hues[memories[0]] if memories else None
    legend = {
        "Memory": Entry("cylinder", theme.paint(hue), "memory"),
        "fanout": Entry("double box", theme.paint(PURPLE), "fanout: copies of all below"),
        "Toll": Entry("hexagon", theme.paint(VERMILION), "toll"),
        "Network": Entry("pill", theme.paint(VERMILION), "network between the lanes below"),
        "Compute": Entry("ellipse", theme.paint(GREY), "compute"),
    }
    shown = kinds | ({"fanout"} if any(unit.fanouts for unit in units) else set())
    is_one_of_several = is_bound and len(spec.workload.einsums) > 1
    subtitle = f"as it is for Einsum {einsum or spec.workload.einsums[0].name}" if is_one_of_several else ""
    heading = Heading(title or "Architecture", subtitle, _outline(parts))
    entries = [entry for kind, entry in legend.items() if kind in shown]
    return page(tree_layout(painter.chain(parts, 1)), heading, entries, theme)


def bound_parts(nodes: Iterable[Node]) -> Iterable[Part]:
    """The nodes of an architecture that is bound for an Einsum."""
    for node in nodes:
        match node:
            case Fork(nodes=inner):
                yield Branch(tuple(bound_parts(inner)))
            case Array(nodes=inner):
                array = inner[-1]
                assert isinstance(array, Container)
                yield from (replace(part, array=array.name) for part in map(_bound_unit, _leaves(inner[:-1])))
                yield _bound_unit(array)
            case Hierarchical(nodes=inner):
                yield from bound_parts(inner)
            case _:
                yield _bound_unit(node)


def _leaves(nodes: Iterable[Node]) -> Iterable[Leaf]:
    """The nodes that are leaves, as all those inside an array are."""
    return (node for node in nodes if not isinstance(node, Fork | Hierarchical))


def _bound_unit(leaf: Leaf) -> Unit:
    fanouts = tuple((dimension.name, dimension.fanout) for dimension in leaf.spatial)
    size = leaf.size_bits if isinstance(leaf, Memory) else None
    enabled = isinstance(leaf, Container) or leaf.enabled
    topology = leaf.topology if isinstance(leaf, Network) else ""
    units = tuple((u.name, u.number) for u in leaf.units if u.number > 1) if isinstance(leaf, Memory) else ()
    return Unit(type(leaf).__name__, leaf.name, size, fanouts, enabled, topology, units=units)


def written_parts(spec: Spec) -> tuple[Part, ...]:
    """The nodes of an architecture without a workload. Raises SpecError."""
    inputs = spec.arch_inputs
    scope = lazy_layer(
        inputs.given.variables, spec.variables, lambda name: place(spec.raw, ("arch", "variables", name))
    )
    return tuple(_written(inputs.nodes, scope))


def _written(nodes: Iterable[LeafInput | BranchInput], scope: Scope) -> Iterable[Part]:
    for node in nodes:
        if isinstance(node, LeafInput):
            fanouts = tuple((d.name, _amount(d.fanout, scope)) for d in node.given.spatial)
            size = _amount(node.given.size, scope) if isinstance(node.given, MemoryInput) else None
            whole = tuple((name, int(n) if isinstance(n, float) else n) for name, n in fanouts)
            kind = "Container" if node.tag in ("Fanout", "Array") else node.tag
            topology = node.given.topology if isinstance(node.given, NetworkInput) else ""
            yield Unit(kind, node.given.name, size, whole, topology=topology)
        elif node.tag == "Fork":
            yield Branch(tuple(_written(node.nodes, scope)))
        elif isinstance(node.given, ArrayInput):
            *inside, array = _written(node.nodes, scope)
            for part in inside:
                assert isinstance(part, Unit)
                units = tuple(along for along in part.fanouts if along[1] != 1)
                yield replace(part, fanouts=(), units=units, array=node.given.name)
            yield array
        else:
            yield from _written(node.nodes, scope)


def _amount(expression: object, scope: Scope) -> float | str:
    """The number, or the text where it needs what only a workload brings."""
    try:
        value = evaluate(expression, scope)
    except ExpressionError:
        return str(expression)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else str(expression)


@dataclass(frozen=True)
class _Painter:
    theme: Theme
    hues: dict[str, str]
    notes: Mapping[str, Sequence[str]]

    def chain(self, parts: Sequence[Part], outside: int | str) -> Chain:
        """`outside`: copies of the first part that the fanouts above it make."""
        shapes: list[Shape] = []
        for index, part in enumerate(parts):
            rest = parts[index + 1 :]
            if isinstance(part, Branch) or (part.kind == "Compute" and rest):
                return self.fork(shapes, parts[index:], outside)
            copies = _times(outside, part)
            shapes += self.shapes(part, copies)
            outside = copies
        return Chain(tuple(shapes))

    def fork(self, shapes: list[Shape], parts: Sequence[Part], outside: int | str) -> Chain:
        """Side branches that begin at the same place, and the main line as the last one."""
        branches: list[Chain] = []
        rest = list(parts)
        while rest and (isinstance(rest[0], Branch) or (rest[0].kind == "Compute" and rest[1:])):
            part = rest.pop(0)
            branches.append(self.chain(part.parts if isinstance(part, Branch) else (part,), outside))
        if rest:
            branches.append(self.chain(rest, outside))
        return Chain(tuple(shapes), tuple(branches))

    def shapes(self, unit: Unit, copies: int | str) -> list[Shape]:
        """A node, its fanout above it."""
        shapes = [self.fanout(unit)] if unit.fanouts else []
        lines = text_lines(unit.name, WIDEST, 13, bold=True)
        kind, paint = self.look(unit)
        if kind is None:
            return shapes
        texts = [_size(unit.size) if unit.size is not None else "", unit.topology.replace("_", " ")]
        for text in (*texts, _units_text(unit) if unit.array else ""):
            lines += text_lines(text, WIDEST)
        if isinstance(copies, int) and copies > 1:
            lines.append(Line(f"{copies:,} instances", 11, muted=True))
        if not unit.enabled and unit.name not in self.notes:
            lines.append(Line("disabled", 11, muted=True))
        return [*shapes, Shape(kind, (*lines, *self.noted(unit.name)), paint, f"{unit.kind} {unit.name}")]

    def noted(self, name: str) -> list[Line]:
        return [line for text in self.notes.get(name, ()) for line in text_lines(text, WIDEST, 11, muted=True)]

    def look(self, unit: Unit) -> tuple[Kind | None, Paint]:
        match unit.kind:
            case "Memory":
                return "cylinder", self.theme.paint(self.hues[unit.name])
            case "Toll":
                return "hexagon", self.theme.paint(VERMILION)
            case "Network":
                return "pill", self.theme.paint(VERMILION)
            case "Compute":
                return "ellipse", self.theme.paint(GREY)
            case _:
                return (None if unit.fanouts else "box"), self.theme.paint(None)

    def fanout(self, unit: Unit) -> Shape:
        lines = text_lines(unit.name, WIDEST, bold=True)
        for name, copies in unit.fanouts:
            shown = f"{copies:,}" if isinstance(copies, int) else copies
            lines += text_lines(f"{name} × {shown}", WIDEST)
            lines += self.noted(f"{unit.name}.{name}")
        return Shape("double box", tuple(lines), self.theme.paint(PURPLE), f"fanout of {unit.name}")


def _times(outside: int | str, unit: Unit) -> int | str:
    numbers = [n for _, n in unit.fanouts if isinstance(n, int)]
    if isinstance(outside, str) or len(numbers) < len(unit.fanouts):
        return "?"
    return outside * math.prod(numbers)


def _units_text(unit: Unit) -> str:
    """Where a node stands in an array, and how many units it is."""
    along = ", ".join(f"{name} × {number}" for name, number in unit.units)
    return f"in {unit.array}: {along} units" if along else f"in {unit.array}"


def _size(size: float | str) -> str:
    if isinstance(size, str):
        return size
    return "unlimited" if math.isinf(size) else format_bits(size)


def _units(parts: Iterable[Part]) -> Iterable[Unit]:
    for part in parts:
        if isinstance(part, Branch):
            yield from _units(part.parts)
        else:
            yield part


def _outline(parts: Iterable[Part], depth: int = 0) -> str:
    """The tree in words."""
    lines = []
    for part in parts:
        if isinstance(part, Branch):
            lines += ["  " * depth + "fork:", _outline(part.parts, depth + 1)]
            continue
        size = f", {_size(part.size)}" if part.size is not None else ""
        fanouts = "".join(f", {name} x {copies}" for name, copies in part.fanouts)
        topology = f", {part.topology}" if part.topology else ""
        units = f", {_units_text(part)}" if part.array else ""
        lines.append(f"{'  ' * depth}{part.kind} {part.name}{size}{topology}{units}{fanouts}")
    return "\n".join(lines)
