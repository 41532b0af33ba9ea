"""The LoopTree of a result as an indented loop nest, with trip counts and tile shapes beside it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from collections.abc import Mapping as MappingOf

from einmap.arch.component import Memory
from einmap.einsum.einsum import TensorAccess
from einmap.einsum.spaces.projection import Lookup
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.mapping.pretty import pretty
from einmap.model.counting.path import EinsumPath, Loop, Station, path_of
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
    notes = node_notes(mapping, spec) if spec else {}

    def annotate(address: Address) -> str:
        return _MARK + notes[address] if address in notes else ""

    pairs = [_halves(line) for line in pretty(mapping, annotate).splitlines()]
    column = _column((node for node, note in pairs if note), width)
    return [line.replace(_GLUE, " ") for node, note in pairs for line in _aligned(node, note, column, width)]


def node_notes(mapping: Mapping, spec: Spec) -> dict[Address, str]:
    """What to say beside each node; a node of several Einsums is described by the first one that uses it."""
    notes: dict[Address, str] = {}
    held: dict[Address, dict[str, tuple[str, float]]] = {}
    memories: dict[Address, Memory] = {}
    for name in mapping.path_of:
        path = path_of(mapping, spec.workload.by_name[name], spec.arch(name))
        for address, note in loop_notes(path).items():
            notes.setdefault(address, note)
        for tensor, stations in path.stations.items():
            for station in stations:
                if isinstance(station.component, Memory):
                    steps = spec.workload.steps_held(tensor) if station is stations[0] else {}
                    tile = tile_of(path, station, path.einsum.by_tensor[tensor], station.component, steps)
                    held.setdefault(station.address, {}).setdefault(tensor, tile)
                    memories[station.address] = station.component
    return {**notes, **{address: _storage_note(tiles, memories[address]) for address, tiles in held.items()}}


def loop_notes(path: EinsumPath) -> dict[Address, str]:
    """`4 x` for a temporal loop of four iterations, `128 of 256 X` for a spatial one on half of a fanout."""
    extents = dict(path.einsum.extents)
    notes: dict[Address, str] = {}
    for loop in path.loops:
        trips = _trips(loop, extents[loop.variable])
        extents[loop.variable] = _largest_tile(loop, extents[loop.variable])
        fanout = f"{trips:,} of {loop.dimension.fanout:,}" if loop.dimension else f"{trips:,} x"
        notes[loop.address] = fanout
    return notes


def tile_of(
    path: EinsumPath, station: Station, access: TensorAccess, memory: Memory, steps: MappingOf[str, int] | None = None
) -> tuple[str, float]:
    """The largest tile of a tensor at a station: its shape, `16x64`, and its bits.

    `steps`: of a state that is handed on there, for the rank of time how many are in use at a time.
    """
    extents = dict(path.einsum.extents)
    for loop in path.loops:
        above = loop.position < station.position if loop.level is None else loop.level <= station.level
        if above:
            extents[loop.variable] = _largest_tile(loop, extents[loop.variable])
    more = steps or {}
    sizes = [index.extent(extents) + more.get(rank, 1) - 1 for rank, index in access.projection]
    if access.gathered and station is path.stations[access.tensor][0]:
        # a table lies whole where it lies outermost; further in are rows by position
        sizes = [i.size if isinstance(i, Lookup) else i.extent(extents) for _, i in access.written]
    return "x".join(map(str, sizes)) or "1", math.prod(sizes) * memory.bits[access.tensor]


def _trips(loop: Loop, extent: int) -> int:
    """Iterations over an extent; the first tile may have a shape of its own."""
    if loop.initial is None:
        return -(-extent // int(loop.shape))
    return 1 + -(-max(0, extent - int(loop.initial)) // int(loop.shape))


def _largest_tile(loop: Loop, extent: int) -> int:
    return min(extent, max(int(loop.shape), int(loop.initial or 0)))


def _storage_note(tiles: dict[str, tuple[str, float]], memory: Memory) -> str:
    shapes = ", ".join(f"{tensor}{_GLUE}{shape}" for tensor, (shape, _) in tiles.items())
    if len(tiles) > _MOST_TENSORS:
        shapes = f"{len(tiles)} tensors"
    used = _glued(sum(bits for _, bits in tiles.values()))
    capacity = "" if math.isinf(memory.size_bits) else f" of {_glued(memory.size_bits)}"
    return f"{shapes}: {used}{capacity}"


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
