"""From when to when each buffer lives in the LoopTree, and what lives at the fullest moment of each memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

from einmap.mapping import nodes as tree
from einmap.mapping.nodes import Address
from einmap.model.counting.path import EinsumPath
from einmap.model.counting.reuse import VariableTiles
from einmap.model.counting.tiles import ALL, FIRST, SKIP, number_of
from einmap.model.evaluate import Workings
from einmap.model.explanation.values import Fullest, Life, Occupied
from einmap.model.occupancy.lifetimes import without_aliases
from einmap.model.occupancy.occupancy import Buffer
from einmap.model.occupancy.stages import Turns
from einmap.model.traffic.copies import aliases, stations_used


def lives_of(workings: Workings) -> Iterator[Life]:
    """One for each buffer, in the order in which they come to life first."""
    lives: dict[object, tuple[Buffer, list[str]]] = {}
    spread = _in_several_nodes(workings)
    for name in workings.order:
        for buffer in workings.live[name]:
            passed_on = buffer.backing and buffer.tensor in spread
            key: object = buffer.tensor if passed_on else (buffer.address, buffer.tensor)
            largest, running = lives.setdefault(key, (buffer, []))
            running.append(name)
            if buffer.bits > largest.bits:
                lives[key] = (buffer, running)
    for kind, (buffer, running) in lives.items():
        yield _life(workings, buffer, tuple(running), isinstance(kind, str))


def _in_several_nodes(workings: Workings) -> frozenset[str]:
    """Tensors with a backing node in each of several branches: one buffer passes from branch to branch."""
    nodes: dict[str, set[Address]] = {}
    for path in workings.paths.values():
        for tensor, stations in path.stations.items():
            nodes.setdefault(tensor, set()).add(stations[0].address)
    return frozenset(tensor for tensor, addresses in nodes.items() if len(addresses) > 1)


def _life(workings: Workings, buffer: Buffer, running: tuple[str, ...], spread: bool) -> Life:
    nodes = _nodes(workings, buffer, spread)
    persistent = any(b.persistent for buffers in workings.live.values() for b in buffers if _is_at(b, buffer, nodes))
    first, last = nodes[0], nodes[-1]
    slides = None if spread else workings.slides.get((buffer.tensor, buffer.address))
    if slides is not None and not persistent:
        runs = max(_visits(workings.paths[name], _position(workings, name, slides)) for name, _ in nodes)
        return Life(
            buffer.tensor, buffer.memory.name, first[1], buffer.bits, slides, slides, runs, running, persistent=False
        )
    times = 1 if spread else max(_visits(workings.paths[n], _position(workings, n, a)) for n, a in nodes)
    return Life(
        tensor=buffer.tensor,
        memory=buffer.memory.name,
        address=first[1],
        bits=buffer.bits,
        begins=() if persistent else _edge(workings, *first),
        ends=() if persistent else _edge(workings, *last),
        times=1 if persistent else times,
        einsums=running,
        persistent=persistent,
        copies=max((turns.most_copies().get((first[1], buffer.tensor), 1) for turns in workings.turns), default=1),
    )


def _nodes(workings: Workings, buffer: Buffer, spread: bool) -> list[tuple[str, Address]]:
    """The Einsums that use a buffer, in the order in which they run, and the node at which they do."""
    nodes = []
    for name in workings.order:
        path = workings.paths[name]
        stations = path.stations.get(buffer.tensor, ())
        used = stations_used(path) if path.einsum.is_copy else None
        for station in stations[:1] if spread else stations:
            passes = used is None or (buffer.tensor, station.position) in used
            if spread or (station.address == buffer.address and passes):
                nodes.append((name, station.address))
    return nodes


def _is_at(other: Buffer, buffer: Buffer, nodes: list[tuple[str, Address]]) -> bool:
    return other.tensor == buffer.tensor and any(other.address == address for _, address in nodes)


def _edge(workings: Workings, einsum: str, address: Address) -> Address:
    """The branch below a node whose run begins and ends its buffer's life; the node itself where loops iterate."""
    absent = {loop.address for loop in workings.paths[einsum].loops if loop.absent}
    path = workings.tree.path_of[einsum]
    edge = address
    for index, placed in enumerate(path):
        if placed.address <= address:
            continue
        if isinstance(placed.node, tree.Temporal) and placed.address not in absent:
            break
        if isinstance(placed.node, tree.Split):
            edge = path[index + 1].address[: len(placed.address) + 1]
            if isinstance(placed.node, tree.Pipeline):
                break  # a stage works on its tile as a whole
    return edge


def _position(workings: Workings, einsum: str, address: Address) -> int:
    """Where a node stands on an Einsum's path."""
    return next(i for i, placed in enumerate(workings.tree.path_of[einsum]) if placed.address == address)


def _visits(path: EinsumPath, position: int) -> int:
    """How often the node at a position is reached in time."""
    takes = tuple(FIRST if lp.is_spatial else ALL if lp.position < position else SKIP for lp in path.loops)
    tiles = VariableTiles(path)
    reached = tuple(FIRST if take == SKIP else take for take in takes)
    return math.prod(number_of(tiles.of(v, reached)) for v in path.einsum.rank_variables)


def fullest_of(workings: Workings) -> Iterator[Fullest]:
    """The fullest moment of each memory that holds something."""
    spread = _in_several_nodes(workings)
    for memory, peak in workings.peaks.items():
        largest = sorted(peak.live, key=lambda b: -b.bits)
        held = tuple((b.tensor, _address(workings, b, spread), b.bits) for b in largest)
        yield Fullest(memory, peak.einsum, peak.bits, peak.memory.size_bits, held)


def _address(workings: Workings, buffer: Buffer, spread: frozenset[str]) -> Address:
    """The node of a buffer; the first one of those in several branches."""
    passed_on = buffer.backing and buffer.tensor in spread
    return _nodes(workings, buffer, spread=True)[0][1] if passed_on else buffer.address


def live_buffers(workings: Workings) -> dict[str, list[Buffer]]:
    """The buffers that live while each Einsum runs, in the order in which they run; a copy and its source are one.

    For Einsums of a Pipeline those of the fullest turn of each memory, with all that other stages hold meanwhile.
    """
    same = aliases(workings.paths.values())
    live = {name: list(buffers) for name, buffers in workings.live.items()}
    for turns in workings.turns:
        live |= _turn_by_turn(turns)
    return dict(without_aliases(live.items(), same)) if same else live


def _turn_by_turn(turns: Turns) -> dict[str, list[Buffer]]:
    """For each Einsum of a Pipeline what lives in the fullest turn of each memory."""
    fullest: dict[str, dict[str, list[Buffer]]] = {name: {} for name in turns.pipeline.stage_of}
    for stages, held in turns.by_stages():
        memory = held[0].memory.name
        for name in (name for stage in stages for name in stage.einsums):
            known = fullest[name].get(memory, [])
            fullest[name][memory] = max(known, held, key=lambda buffers: sum(b.bits for b in buffers))
    return {name: [b for held in by_memory.values() for b in held] for name, by_memory in fullest.items()}


def occupied_of(workings: Workings) -> Iterator[Occupied]:
    """Bits in each memory while each Einsum runs, in the order in which they run."""
    for name, buffers in live_buffers(workings).items():
        by_memory: dict[str, float] = {}
        for buffer in buffers:
            by_memory[buffer.memory.name] = by_memory.get(buffer.memory.name, 0) + buffer.bits
        for memory, bits in by_memory.items():
            yield Occupied(name, memory, bits)
