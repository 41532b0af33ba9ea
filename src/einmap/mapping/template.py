"""Mappings that are not complete, as types of their own: templates and partial mappings.

A template has every node and no tile shapes. A partial mapping may leave tile shapes open and has
places (`Any`) where further nodes may be inserted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

from einmap.errors import At
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Compute, Node, PerEinsum, Spatial, Storage, Temporal, Toll
from einmap.visible import brief

type TemplateNode = OpenTemporal | OpenSpatial | Storage | Toll | Compute
type PartialNode = TemplateNode | Temporal | Spatial | AnyPlace | OpenCompute | StageBegin


@dataclass(frozen=True, slots=True)
class OpenTemporal:
    """A sequential loop without its tile shape."""

    rank_variable: str


@dataclass(frozen=True, slots=True)
class OpenSpatial:
    """A parallel loop without its tile shape."""

    rank_variable: str
    component: str
    name: str


@dataclass(frozen=True, slots=True)
class AnyPlace:
    """Where nodes may be inserted; nowhere else. `temporal`: temporal loops, too, not only other nodes."""

    temporal: bool = True


@dataclass(frozen=True, slots=True)
class StageBegin:
    """Where a stage of a Pipeline begins: the nodes before it stand above the Pipeline, those after it in the stage.

    `pipeline`: which one it is, the same for all of its stages; `number`: of the stage; `component`, `name`: as of a
    Pipeline.
    """

    pipeline: str
    number: int
    component: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class OpenCompute:
    """The innermost node, on any compute of the architecture."""

    einsum: str


@dataclass(frozen=True)
class PartialMapping:
    """A mapping of one Einsum with open places, from the root down; the Compute may be left out.

    `places`: where each node was written, as far as that is known.
    """

    __repr__ = brief

    nodes: tuple[PartialNode, ...]
    places: tuple[At | None, ...] = field(default=(), compare=False)

    def at(self, index: int) -> At:
        """Where a node was written, or its position."""
        place = self.places[index] if index < len(self.places) else None
        return place or At(path=f"given.nodes[{index}]")

    def without(self, tensors: Collection[str]) -> PartialMapping:
        """The template without some tensors, such as those of other Einsums below a split."""
        kept: list[tuple[PartialNode, At]] = []
        for index, node in enumerate(self.nodes):
            if not isinstance(node, Storage | Toll):
                kept.append((node, self.at(index)))
            elif left := tuple(t for t in node.tensors if t not in tensors):
                kept.append((replace(node, tensors=left), self.at(index)))
        return PartialMapping(tuple(n for n, _ in kept), tuple(at for _, at in kept))


@dataclass(frozen=True)
class Template:
    """A mapping of one Einsum without tile shapes: dataplacement plus loop order."""

    __repr__ = brief

    nodes: tuple[TemplateNode, ...]

    @cached_property
    def loops(self) -> tuple[OpenTemporal | OpenSpatial, ...]:
        """The open loops from the outside in."""
        return tuple(node for node in self.nodes if isinstance(node, OpenTemporal | OpenSpatial))

    @cached_property
    def loop_variables(self) -> tuple[str, ...]:
        """The rank variable of each open loop."""
        return tuple(loop.rank_variable for loop in self.loops)

    @cached_property
    def temporal_slots(self) -> Mapping[str, tuple[int, ...]]:
        """For each variable that has temporal loops their positions among all open loops."""
        return _by_variable((loop, index) for index, loop in enumerate(self.loops))

    @cached_property
    def temporal_gaps(self) -> Mapping[str, tuple[int, ...]]:
        """For each variable that has temporal loops their gaps: how many storage nodes stand above each."""
        above = accumulate((isinstance(node, Storage) for node in self.nodes), initial=0)
        return _by_variable(zip(self.nodes, above, strict=False))

    def fill(self, tile_shapes: Sequence[int], bounds: dict[str, int]) -> LoopTree:
        """The mapping with these tile shapes, one for each loop; loops of one iteration are left out.

        `bounds`: number of values of each rank variable.
        """
        extents = dict(bounds)
        shapes = iter(tile_shapes)
        nodes: list[Node] = []
        for node in self.nodes:
            if not isinstance(node, OpenTemporal | OpenSpatial):
                nodes.append(node)
                continue
            shape = int(next(shapes))
            if shape == extents[node.rank_variable]:
                continue
            extents[node.rank_variable] = shape
            variable, tile = PerEinsum(node.rank_variable), PerEinsum(shape)
            nodes.append(
                Temporal(variable, tile)
                if isinstance(node, OpenTemporal)
                else Spatial(variable, tile, node.component, node.name)
            )
        return LoopTree(tuple(nodes))


def _by_variable(nodes: Iterable[tuple[TemplateNode, int]]) -> dict[str, tuple[int, ...]]:
    """The numbers of the temporal loops among some nodes, by variable."""
    found: dict[str, list[int]] = {}
    for node, number in nodes:
        if isinstance(node, OpenTemporal):
            found.setdefault(node.rank_variable, []).append(number)
    return {variable: tuple(numbers) for variable, numbers in found.items()}
