"""Notes on a result: where the counting differs from what users of a peer expect, and what could be saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from einmap.arch.component import Memory
from einmap.einsum.projection import Relevance
from einmap.errors import At, Note
from einmap.mapping.nodes import Address
from einmap.model.path import EinsumPath, Station
from einmap.model.semantics import Semantics
from einmap.model.tiles import ALL, LARGEST, SKIP, Take
from einmap.model.traffic import EVERY, EinsumTraffic, TensorTraffic

type Where = Callable[[Address], At]


def notes_on(traffic: EinsumTraffic, semantics: Semantics, where: Where) -> list[Note]:
    """Everything worth saying about one Einsum's path."""
    return [*_persistence(traffic.path, where), *_counting(traffic, semantics, where)]


def _persistence(path: EinsumPath, where: Where) -> Iterator[Note]:
    """Tensors that the workload calls persistent, in a finite memory, whose storage node does not say so."""
    for access in path.einsum.accesses:
        backing = path.stations[access.tensor][0]
        is_finite = isinstance(backing.component, Memory) and backing.component.size_bits < math.inf
        if access.persistent and is_finite and not backing.persistent:
            text = (
                f"Einsum {path.einsum.name!r}: {access.tensor!r} is persistent in the workload, but its space in "
                f"{backing.component.name} is counted as that of any tensor; write persistent: true at this node"
            )
            yield Note(text, where(backing.address))


def _counting(traffic: EinsumTraffic, semantics: Semantics, where: Where) -> list[Note]:
    if semantics.name == "accelforge":
        return [Note(text) for text in _departures(traffic.path)]
    if traffic.path.einsum.is_copy or semantics.lowering:
        return []
    name = traffic.path.einsum.name
    found = []
    for tensor in traffic.tensors:
        for station in tensor.stations[1:]:
            if isinstance(station.component, Memory):
                texts = (*_could_sink(traffic.path, tensor, station), *_overlaps(traffic.path, tensor, station))
                found += [Note(f"Einsum {name!r}: {text}", where(station.address), "advice") for text in texts]
    return found


def _departures(path: EinsumPath) -> Iterator[str]:
    """Where `accelforge` is decided differently from AccelForge 1.0.467 itself."""
    extents = dict(path.einsum.bounds)
    for loop in path.loops:
        if extents[loop.variable] % loop.shape:
            yield "imperfect factors are counted exactly (ragged tiles); AccelForge 1.0.467 averages them"
            break
        extents[loop.variable] = loop.shape
    if path.einsum.is_copy:
        yield "copy Einsums move data once from source to destination; AccelForge 1.0.467 moves them upward"
    priced = [c for c in path.arch.components.values() if c.spatial and (c.leak_power or c.area)]
    if priced:
        names = ", ".join(c.name for c in priced)
        yield f"area and leakage of {names} count the component's own fanout; AccelForge 1.0.467 leaves it out"
    if any(d.power_gateable for leaf in path.leaves for d in leaf.spatial):
        yield "power gating scales leakage by used/fanout once; AccelForge 1.0.467 divides by the fanout twice"


def _could_sink(path: EinsumPath, tensor: TensorTraffic, station: Station) -> Iterator[str]:
    """Relevant loops directly below a node: standing below them it would need less space and move the same."""
    inner = min((s.position for s in tensor.stations if s.position > station.position), default=path.compute.position)
    takes = list(tensor.takes(station, station, EVERY))
    before = tensor.counts.tile_values(tuple(_largest(t) for t in takes))
    variables = []
    for index, loop in enumerate(path.loops):
        if not station.position < loop.position < inner:
            continue
        if loop.is_spatial or tensor.counts.relevance_of(index) is not Relevance.FULL:
            break
        takes[index] = ALL
        variables.append(loop.variable)
    after = tensor.counts.tile_values(tuple(_largest(t) for t in takes))
    if after < before:
        bits = (before - after) * station.component.bits[tensor.access.tensor]  # type: ignore[union-attr]
        yield (
            f"{tensor.access.tensor} in {station.component.name} would need {bits:,.0f} bits less at equal traffic "
            f"below the loop{'s' if len(variables) > 1 else ''} over {', '.join(dict.fromkeys(variables))}"
        )


def _largest(take: Take) -> Take:
    return SKIP if take == SKIP else LARGEST


def _overlaps(path: EinsumPath, tensor: TensorTraffic, station: Station) -> Iterator[str]:
    """Values that a visit fetches although another visit had them: windows that slide over the tensor."""
    takes = tensor.takes(station, station, EVERY)
    slides = any(take != SKIP and tensor.counts.relevance_of(i) is Relevance.PARTIAL for i, take in enumerate(takes))
    if not slides:
        return
    distinct = tensor.counts.relevant(tuple(SKIP for _ in path.loops))
    moved = tensor.counts.relevant(takes)
    if moved > distinct:
        yield (
            f"windows of {tensor.access.tensor} in {station.component.name} overlap: {moved - distinct:,} of "
            f"{moved:,} values ({1 - distinct / moved:.0%}) are fetched again for each sweep"
        )
