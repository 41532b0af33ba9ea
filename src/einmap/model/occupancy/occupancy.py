"""Space: what each storage node needs in its memory, as a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.arch.component import Memory
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.mapping.nodes import Address
from einmap.model.counting.path import EinsumPath, Station, applies
from einmap.model.counting.reuse import Takes, TensorCounts
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.tiles import LARGEST, SKIP, Count
from einmap.model.counting.units import spread_of
from einmap.model.traffic.copies import stations_used


@dataclass(frozen=True, slots=True)
class Buffer:
    """The space that one Einsum's tensor needs in one memory: `bits` in each instance, from one node on.

    `depth`: number of loops above the place where the space is reserved; -1 for persistent ones.
    """

    einsum: str
    tensor: str
    memory: Memory
    address: Address
    bits: Count
    depth: int
    persistent: bool
    backing: bool
    factor: int = 1
    """Instances that a persistent buffer is kept for."""


def tile_takes(path: EinsumPath, station: Station) -> Takes:
    """The largest tile at a station: every loop that applies there at its fullest."""
    return tuple(LARGEST if applies(loop, station) else SKIP for loop in path.loops)


def loops_over(path: EinsumPath, station: Station) -> int:
    """Loops above a station, also those of one iteration."""
    return sum(
        loop.position < station.position if loop.level is None else loop.level <= station.level for loop in path.loops
    )


def lowered_takes(path: EinsumPath, station: Station, counts: TensorCounts) -> tuple[Takes, Count]:
    """Where a non-backing holder's space is reserved when following relevant loops lower it, and its depth.

    Walks down from the holder: past fully relevant temporal loops and one partially relevant one; stops at an
    irrelevant loop (also of one iteration, as measured), at any other node that holds something, and at spatial
    loops of other components.
    """
    takes = list(tile_takes(path, station))
    holders = sorted({s.position for stations in path.stations.values() for s in stations})
    stop = min((p for p in holders if p > station.position), default=path.compute.position)
    passed = 0
    for index, loop in enumerate(path.loops):
        if not station.position < loop.position < stop:
            continue
        if loop.level is not None:
            if loop.level == station.level:
                continue
            break
        relevance = counts.relevance_of(index)
        if relevance is Relevance.NONE:
            break
        takes[index] = LARGEST
        passed += 1
        if relevance is Relevance.PARTIAL:
            break
    return tuple(takes), loops_over(path, station) + passed


def buffers_of(
    path: EinsumPath,
    semantics: Semantics,
    counts: Mapping[str, TensorCounts],
    instances: int,
    workload: Workload | None = None,
) -> tuple[Buffer, ...]:
    """The space that one Einsum needs for its own tensors; `instances` multiplies persistent ones.

    `workload`: that of a whole mapping, whose states may keep less than all their steps.
    """
    buffers: list[Buffer] = []
    used = stations_used(path) if path.einsum.is_copy else None
    for tensor, stations in path.stations.items():
        for station in stations:
            if not isinstance(station.component, Memory) or (used and (tensor, station.position) not in used):
                continue
            backing = station is stations[0]
            takes = tile_takes(path, station)
            depth: Count = loops_over(path, station)
            lowers = semantics.lowering and not backing and not path.einsum.is_copy
            if lowers and not _stopped_in_node(path, station, tensor):
                takes, depth = lowered_takes(path, station, counts[tensor])
            spread = spread_of(path, counts[tensor], station)
            # of a memory of several units, the first one is the fullest
            values = counts[tensor].tile_values(takes)
            if spread is not None:
                values = values * spread.fullest / spread.values
            if backing:
                values = path.einsum.by_tensor[tensor].stored(values, path.einsum.extents)
                if workload is not None and tensor in workload.ending:
                    values = _last_steps(path, station, tensor, workload, values)
            bits = values * station.component.bits[tensor]
            if station.persistent:
                bits, depth = bits * instances, -1
            buffers.append(
                Buffer(
                    path.einsum.name,
                    tensor,
                    station.component,
                    station.address,
                    bits,
                    depth,
                    station.persistent,
                    backing,
                    instances if station.persistent else 1,
                )
            )
    return tuple(buffers)


def _last_steps(path: EinsumPath, station: Station, tensor: str, workload: Workload, values: Count) -> Count:
    """Values of a tile of a state without the steps that nothing reads any more."""
    recurrence = workload.states[tensor]
    index = dict(path.einsum.by_tensor[tensor].projection)[recurrence.states[tensor]]
    if any(loop.variable in dict(index.terms) and applies(loop, station) for loop in path.loops):
        return values
    used, (held,) = index.extent(path.einsum.extents), workload.steps_held(tensor).values()
    return values // used * min(used, held)


def _stopped_in_node(path: EinsumPath, station: Station, tensor: str) -> bool:
    listed = path.listed.get(station.position, ())
    used = [name for name in listed if name in path.stations]
    return tensor in used and used[-1] != tensor
