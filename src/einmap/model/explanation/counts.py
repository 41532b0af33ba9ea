"""Terms of every action count: the flows of the exchanges, as the evaluation charges them."""

from __future__ import annotations

from collections.abc import Iterator

from einmap.arch.component import Compute, Memory
from einmap.errors import Note
from einmap.model.counting.path import EinsumPath, Station
from einmap.model.counting.reuse import Takes, TensorCounts
from einmap.model.counting.tiles import ALL, FIRST, LARGEST, SKIP, Take
from einmap.model.evaluate import Workings
from einmap.model.explanation.cases import loop_use, positions_of
from einmap.model.explanation.values import Derivation, LoopUse, Piece
from einmap.model.traffic.actions import Way, skipped, units_with_copies, ways
from einmap.model.traffic.copies import copy_flows
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.networks_crossed import crossings_of
from einmap.model.traffic.tensor_traffic import EVERY, Exchange, TensorTraffic

type Pieces = dict[tuple[str, str, str], list[Piece]]
"""By component, tensor and action."""


def derivations_of(workings: Workings) -> Iterator[Derivation]:
    """One for each count of the cost, in its order; what comes to nothing, or `unexplained` names, is left out.

    Counts of Einsums whose zeros save something are told by `causes_of`.
    """
    energy = {(r.einsum, r.component, r.tensor, r.action): r.energy for r in workings.cost.actions}
    for name in workings.order:
        if name in workings.spec.sparsity and workings.spec.sparsity[name].saves:
            continue
        traffic = workings.traffic[name]
        pieces = _copied(traffic) if traffic.path.einsum.is_copy else {**_moved(traffic), **_hops(traffic)}
        for (component, tensor, action), parts in pieces.items():
            key = (name, component, tensor, action)
            if key in energy and _why_not(workings, key) is None:
                yield _derivation(workings, key, tuple(p for p in parts if p.gross or p.values), energy[key])
        done = (name, traffic.path.compute.component.name, None, "compute")
        if done in energy:
            yield _derivation(workings, done, (_operations(traffic),), energy[done])


def unexplained(workings: Workings) -> tuple[Note, ...]:
    """The counts that `derivations_of` leaves out although they cost something, and why."""
    rows = workings.cost.actions
    notes = [_why_not(workings, (row.einsum, row.component, row.tensor, row.action)) for row in rows if row.count]
    return tuple(dict.fromkeys(note for note in notes if note is not None))


def _why_not(workings: Workings, key: tuple[str, str, str | None, str]) -> Note | None:
    """Why a count is not told step by step; None if it is."""
    einsum, component, tensor, _ = key
    unit = workings.paths[einsum].arch.components[component]
    if not isinstance(unit, Memory) or tensor is None:
        return None
    where, text = workings.spec.place_of_component, "explained yet; what they cost is in the energy and the latency"
    if tensor in unit.layouts:
        return Note(f"how many lines of {tensor!r} move in {component!r} is not {text}", where(component, "layout"))
    return None


def _derivation(
    workings: Workings, key: tuple[str, str, str | None, str], pieces: tuple[Piece, ...], energy: float
) -> Derivation:
    """How one count came about."""
    einsum, component, tensor, action = key
    path = workings.paths[einsum]
    unit = path.arch.components[component]
    per_value = 1.0 if tensor is None else unit.action(action).actions_per_value[tensor]
    return Derivation(
        *key,
        pieces=pieces,
        per_value=per_value,
        bits=unit.bits[tensor] if isinstance(unit, Memory) and tensor is not None else None,
        scale=unit.actions_scale,
        instances=workings.spec.workload.n_instances * path.einsum.n_instances,
        energy=energy,
        saved=0.0 if tensor is None else unit.action(action).saved_by_complete.get(tensor, 0.0),
    )


def _moved(traffic: EinsumTraffic) -> Pieces:
    pieces: Pieces = {}
    for tensor in traffic.tensors:
        for exchange in tensor.exchanges:
            for at in exchange.chain:
                if isinstance(at.component, Compute):
                    continue
                for action, way in ways(tensor, exchange, at):
                    if way == "down" or tensor.access.output:
                        key = (at.component.name, tensor.access.tensor, action)
                        pieces.setdefault(key, []).append(_piece(traffic.path, tensor, exchange, at, way))
    return pieces


def _piece(path: EinsumPath, tensor: TensorTraffic, exchange: Exchange, at: Station, way: Way) -> Piece:
    child, counts = exchange.child, tensor.counts
    flow = tensor.flow(exchange, at)
    # of the lanes that reduce into one copy, one alone is filled with what the parent has
    seen_at = exchange.parent if way == "down" and tensor.access.output else at
    takes = tensor.takes(child, seen_at, EVERY)
    gross, moved = counts.values(takes), tensor.moved(child, takes)
    free = skipped(tensor, exchange, at, flow) if way == "down" else 0
    uses = [(loop_use(path, counts, i), take) for i, take in enumerate(takes) if not path.loops[i].absent]
    paid = flow.up if way == "up" else flow.live + flow.initial - free
    return Piece(
        way=way,
        child=child.component.name,
        parent=exchange.parent.component.name,
        child_address=() if child is path.compute else child.address,
        station=at.address,
        tiles=positions_of(counts, takes) * counts.repeats(takes),
        tile_values=counts.tile_values(tuple(_largest(take) for take in takes)),
        gross=gross,
        unmerged=counts.values(tensor.takes(child, child, EVERY)),
        skipped=free,
        shared=paid - moved + free,
        kept=gross - moved,
        loops=tuple(use for use, take in uses if take == ALL),
        below=tuple(use for use, take in uses if take == SKIP and use.kind != "irrelevant"),
        merged=tuple(use for use, take in uses if take == FIRST),
        complete=flow.complete if way == "up" else 0,
        units=units_with_copies(tensor, exchange, at),
    )


def _largest(take: Take) -> Take:
    return SKIP if take == SKIP else LARGEST


def _hops(traffic: EinsumTraffic) -> Pieces:
    """Steps on networks, loop by loop."""
    pieces_of: Pieces = {}
    for network, crossing in crossings_of(traffic):
        tensor, exchange = crossing.tensor, crossing.exchange
        pieces = pieces_of.setdefault((network.name, tensor.access.tensor, "hop"), [])
        for indices, shared, hops in crossing.parts():
            loops = [loop_use(traffic.path, tensor.counts, i) for i in indices]
            passed_on = tuple(loop for i, loop in zip(indices, loops, strict=True) if i in shared)
            pieces.append(_hop(traffic.path, exchange, tuple(loops), passed_on, hops))
    return pieces_of


def _hop(
    path: EinsumPath, exchange: Exchange, loops: tuple[LoopUse, ...], passed_on: tuple[LoopUse, ...], hops: int
) -> Piece:
    child = exchange.child
    return Piece(
        way="hop",
        child=child.component.name,
        parent=exchange.parent.component.name,
        child_address=() if child is path.compute else child.address,
        station=(),
        tiles=hops,
        tile_values=1,
        gross=hops,
        unmerged=hops,
        skipped=0,
        shared=0,
        loops=loops,
        below=(),
        merged=passed_on,
    )


def _copied(traffic: EinsumTraffic) -> Pieces:
    """Every value of a copy is paid for once at each station on its way."""
    path = traffic.path
    everything: Takes = tuple(ALL for _ in path.loops)
    pieces: Pieces = {}
    for access, at, action in copy_flows(path):
        moved = TensorCounts(path, access, traffic.tiles).relevant(everything)
        name = at.component.name
        piece = Piece("copy", name, name, at.address, at.address, 1, moved, moved, moved, 0, 0, (), (), ())
        pieces.setdefault((name, access.tensor, action), []).append(piece)
    return pieces


def _operations(traffic: EinsumTraffic) -> Piece:
    path = traffic.path
    done, _ = traffic.operations()
    loops = tuple(loop_use(path, traffic.tensors[0].counts, i) for i, loop in enumerate(path.loops) if not loop.absent)
    unit = path.compute.component.name
    return Piece("compute", unit, unit, (), path.compute.address, done, 1, done, done, 0, 0, loops, (), ())
