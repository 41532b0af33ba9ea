"""The LoopTree of a result as an indented loop nest, with trip counts and tile shapes beside it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

from einmap.arch.component import Memory
from einmap.einsum.einsum import TensorAccess
from einmap.einsum.spaces.projection import Lookup
from einmap.einsum.workload import Workload
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.mapping.pretty import pretty
from einmap.model.counting.path import EinsumPath, Loop, Station, path_of
from einmap.report.text.formatting import shape_text
from einmap.spec.spec import Spec
from einmap.units import format_bits

_MARK = "\t"
"""Stands between a node and its annotation until both are aligned."""
_GLUE = "\N{NO-BREAK SPACE}"
"""Keeps a tensor and its shape, or a number and its unit, on one line."""
_MOST_TENSORS = 4
"""Storage nodes of more tensors say how much they hold, not the shape of each tile."""


def loop_tree_lines(mapping: Mapping, spec: Spec | None = None, width: int = 80) -> list[str]:
    """The loop nest in lines of at most `width`; with `spec` each loop and storage node is annotated.

    for m by 16                4 x
      [GlobalBuffer holds A]   A 16x64: 1 KiB of 64 KiB
    """
    notes = {address: _note(fact) for address, fact in node_facts(mapping, spec).items()} if spec else {}

    def annotate(address: Address) -> str:
        return _MARK + notes[address] if address in notes else ""

    pairs = [_halves(line) for line in pretty(mapping, annotate).splitlines()]
    column = _column((node for node, note in pairs if note), width)
    return [line.replace(_GLUE, " ") for node, note in pairs for line in _aligned(node, note, column, width)]


@dataclass(slots=True)
class NodeFacts:
    """Facts of one node. `tiles`: shape (`16x64`) and bits of each tensor's largest tile; `capacity` in bits.

    `trips`: iterations of a loop, or the lanes that it uses of the `fanout`, where it is spatial.
    """

    tiles: dict[str, tuple[str, float]] = field(default_factory=dict)
    capacity: float = math.inf
    trips: int | None = None
    fanout: int | None = None

    @property
    def bits(self) -> float:
        """Bits of all tiles."""
        return math.fsum(bits for _, bits in self.tiles.values())


def node_facts(mapping: Mapping, spec: Spec, einsums: Iterable[str] | None = None) -> dict[Address, NodeFacts]:
    """Tiles and trips of each node, of some Einsums; a loop of several is described by the first one that uses it."""
    facts: dict[Address, NodeFacts] = {}
    for name in mapping.path_of if einsums is None else einsums:
        path = path_of(mapping, spec.workload.by_name[name], spec.arch(name))
        extents = dict(path.einsum.extents)
        for loop in path.loops:
            fact = facts.setdefault(loop.address, NodeFacts())
            if fact.trips is None:
                fact.trips = _trips(loop, extents[loop.variable])
                fact.fanout = loop.dimension.fanout if loop.dimension else None
            extents[loop.variable] = _largest_tile(loop, extents[loop.variable])
        for tensor, stations in path.stations.items():
            for station in stations:
                if not isinstance(station.component, Memory):
                    continue
                workload = spec.workload if station is stations[0] else None
                tile = tile_of(path, station, path.einsum.by_tensor[tensor], station.component, workload)
                fact = facts.setdefault(station.address, NodeFacts())
                if tile[1] > fact.tiles.get(tensor, ("", -1.0))[1]:
                    fact.tiles[tensor] = tile
                fact.capacity = station.component.size_bits
    return facts


def _note(fact: NodeFacts) -> str:
    """`4 x` for a temporal loop of four iterations, `128 of 256` for a spatial one on half of a fanout."""
    if fact.trips is not None:
        return f"{fact.trips:,} x" if fact.fanout is None else f"{fact.trips:,} of {fact.fanout:,}"
    shapes = ", ".join(f"{tensor}{_GLUE}{shape}" for tensor, (shape, _) in fact.tiles.items())
    if len(fact.tiles) > _MOST_TENSORS:
        shapes = f"{len(fact.tiles)} tensors"
    capacity = "" if math.isinf(fact.capacity) else f" of {_glued(fact.capacity)}"
    return f"{shapes}: {_glued(fact.bits)}{capacity}"


def tile_of(
    path: EinsumPath, station: Station, access: TensorAccess, memory: Memory, workload: Workload | None = None
) -> tuple[str, float]:
    """The largest tile of a tensor at a station: its shape, `16x64`, and its bits.

    `workload`: given where the station is the outermost one of a tensor, which may keep steps of a recurrence.
    """
    extents = dict(path.einsum.extents)
    for loop in path.loops:
        if loop.position < station.position if loop.level is None else loop.level <= station.level:
            extents[loop.variable] = _largest_tile(loop, extents[loop.variable])
    sizes = [index.extent(extents) for _, index in access.projection]
    if workload is not None:
        sizes = [workload.kept(access.tensor, r, n) for (r, _), n in zip(access.projection, sizes, strict=True)]
    if access.gathered and station is path.stations[access.tensor][0]:
        # a table lies whole where it lies outermost; further in are rows by position
        sizes = [i.size if isinstance(i, Lookup) else i.extent(extents) for _, i in access.written]
    return shape_text(sizes), math.prod(sizes) * memory.bits[access.tensor]


def _trips(loop: Loop, extent: int) -> int:
    """Iterations over an extent; the first tile may have a shape of its own."""
    if loop.initial is None:
        return -(-extent // int(loop.shape))
    return 1 + -(-max(0, extent - int(loop.initial)) // int(loop.shape))


def _largest_tile(loop: Loop, extent: int) -> int:
    return min(extent, max(int(loop.shape), int(loop.initial or 0)))


def _glued(bits: float) -> str:
    return format_bits(bits).replace(" ", _GLUE)


def _halves(line: str) -> tuple[str, str]:
    node, _, note = line.partition(_MARK)
    return node.rstrip(), note


def _column(annotated: Iterable[str], width: int) -> int:
    """Where annotations start: behind the longest node that leaves half of the width for them."""
    return max((len(node) + 3 for node in annotated if len(node) + 3 <= width // 2 + 4), default=0)


def _aligned(node: str, note: str, column: int, width: int) -> list[str]:
    """Node and annotation side by side, the annotation wrapped in its column; a long node is wrapped too."""
    if not note or len(node) + 3 > column:
        return _wrapped(f"{node}   {note}".rstrip(), len(node) - len(node.lstrip()) + 4, width)
    room = max(width - column, 20)
    first, *more = [note] if len(note) <= room else textwrap.wrap(note, room, break_on_hyphens=False)
    return [f"{node:<{column}}{first}", *(" " * column + part for part in more)]


def _wrapped(line: str, indent: int, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    return textwrap.wrap(line, max(width, indent + 20), subsequent_indent=" " * indent, break_on_hyphens=False)
