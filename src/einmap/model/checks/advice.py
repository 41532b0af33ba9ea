"""Notes on a result: where the counting differs from what users of a peer expect, and what could be saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from einmap.arch.component import Memory, is_carrying
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.errors import At, Note
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address, format_address
from einmap.mapping.rewrite.editing import paths_through
from einmap.mapping.rewrite.storage import place_that_saves
from einmap.mapping.rewrite.values import holders
from einmap.model.counting.path import EinsumPath, Station
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.tiles import ALL, LARGEST, SKIP, Take
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.tensor_traffic import EVERY, TensorTraffic

type Where = Callable[[Address], At]

type Slides = Mapping[str, Mapping[int, int]]
"""By tensor and position the loop along which a node could slide."""


def notes_on(
    traffic: EinsumTraffic,
    semantics: Semantics,
    where: Where,
    tree: LoopTree,
    workload: Workload,
    could_slide: Slides = MappingProxyType({}),
) -> list[Note]:
    """Everything worth saying about one Einsum's path in `tree`."""
    persistence = [*_persistence(traffic.path, where)]
    return persistence + _counting(traffic, semantics, where, tree, workload, could_slide)


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


def _counting(
    traffic: EinsumTraffic, semantics: Semantics, where: Where, tree: LoopTree, workload: Workload, could_slide: Slides
) -> list[Note]:
    if semantics.name == "accelforge":
        return [Note(text) for text in _departures(traffic.path)]
    if traffic.path.einsum.is_copy or semantics.lowering:
        return []
    name = traffic.path.einsum.name
    notes = []
    for tensor in traffic.tensors:
        for station in tensor.stations[1:]:
            if isinstance(station.component, Memory):
                loop = could_slide.get(tensor.access.tensor, {}).get(station.position)
                texts = [*_sinking(traffic.path, tensor, station, tree, workload)]
                texts += _overlaps(traffic.path, tensor, station, loop)
                notes += [Note(f"Einsum {name!r}: {text}", where(station.address), "advice") for text in texts]
    return notes


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
    if any(map(is_carrying, path.leaves)):
        yield "network latency counts the traffic of the whole Einsum; AccelForge 1.0.467 that of one delivery"
    if any(d.power_gateable for leaf in path.leaves for d in leaf.spatial):
        yield "power gating scales leakage by used/fanout once; AccelForge 1.0.467 divides by the fanout twice"


def _sinking(
    path: EinsumPath, tensor: TensorTraffic, station: Station, tree: LoopTree, workload: Workload
) -> Iterator[str]:
    """Space that a node saves further down at equal traffic, and the rewrite that moves it there; said once per buffer.

    A node that slides, if only because the model's option says so, would keep something else below another loop.
    """
    name, component = tensor.access.tensor, station.component
    users = [einsum for einsum in paths_through(tree, station.address) if name in workload.by_name[einsum].tensors]
    if users[0] != path.einsum.name or not isinstance(component, Memory) or station.position in tensor.slides:
        return
    target = place_that_saves(tree, workload, station.address, name)
    if target is None or any(holders(tree, user, name)[0] == station.address for user in users):
        return
    takes = list(tensor.takes(station, station, EVERY))
    before = tensor.counts.tile_values(tuple(_largest(t) for t in takes))
    passed = [i for i, loop in enumerate(path.loops) if station.address < loop.address <= target and not loop.absent]
    for index in passed:
        takes[index] = ALL
    after = tensor.counts.tile_values(tuple(_largest(t) for t in takes))
    variables = dict.fromkeys(path.loops[index].variable for index in passed)
    if after < before:
        yield (
            f"{name} in {component.name} would need {(before - after) * component.bits[name]:,.0f} bits less at equal "
            f"traffic below the loop{'s' if len(passed) > 1 else ''} over {', '.join(variables)}; "
            f"`einmap rewrite --do 'sink {_named(tree, name, station)}'` moves it there"
        )


def _named(tree: LoopTree, tensor: str, station: Station) -> str:
    """`A@GLB`, with the address instead of the memory where that holds the tensor in several nodes."""
    once = tree.times_held[station.component.name, tensor] == 1
    return f"{tensor}@{station.component.name if once else format_address(station.address)}"


def _largest(take: Take) -> Take:
    return SKIP if take == SKIP else LARGEST


def _overlaps(path: EinsumPath, tensor: TensorTraffic, station: Station, loop: int | None) -> Iterator[str]:
    """Values that a visit fetches although another visit had them: windows that slide over the tensor.

    `loop`: the one along which the node slides or could slide.
    """
    takes = tensor.takes(station, station, EVERY)
    slides = any(take != SKIP and tensor.counts.relevance_of(i) is Relevance.PARTIAL for i, take in enumerate(takes))
    if not slides:
        return
    distinct = tensor.counts.relevant(tuple(SKIP for _ in path.loops))
    moved = tensor.counts.relevant(takes)
    kept = 0 if loop is None else tensor.counts.kept(takes, loop)
    keeps = station.position in tensor.slides
    moved -= kept if keeps else 0
    if moved > distinct:
        hint = f"; sliding_window: true on this node would keep {kept:,} of them" if kept and not keeps else ""
        also = f", beside {kept:,} that it keeps from visit to visit," if kept and keeps else ""
        yield (
            f"windows of {tensor.access.tensor} in {station.component.name} overlap: {moved - distinct:,} of "
            f"{moved:,} values ({1 - distinct / moved:.0%}){also} are fetched again for each sweep{hint}"
        )
