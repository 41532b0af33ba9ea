"""Checks that every Einsum reads, after a rewrite, the values that it read before."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Lookup
from einmap.einsum.spaces.space import index_ends
from einmap.einsum.workload import Workload
from einmap.mapping.mapping import Mapping
from einmap.mapping.met_loops import MetLoop, loops_met
from einmap.mapping.nodes import Address, Storage, Temporal
from einmap.mapping.rewrite.editing import paths_through, position_in
from einmap.mapping.rewrite.places import refuse


@dataclass(frozen=True, slots=True)
class Advance:
    """How a tensor's tile moves along one rank from one iteration of a loop to the next.

    `step` and `first` in indices, `first` that of an initial tile; `extent`: indices of the rank in one tile.
    """

    rank: str
    step: int
    first: int | None
    constant: int
    extent: int

    @property
    def overlaps(self) -> bool:
        """Whether two tiles in a row share indices."""
        return self.extent > min(abs(self.step), abs(self.first or self.step))


def met_at(mapping: Mapping, workload: Workload, address: Address) -> dict[str, MetLoop]:
    """The loop at `address` as each Einsum below meets it."""
    return {
        name: next(met for met in loops_met(path, workload.by_name[name]) if met.placed.address == address)
        for name, path in paths_through(mapping, address).items()
    }


def iterates(met: Collection[MetLoop]) -> bool:
    """Whether the loop has more than one iteration; one of one iteration counts as absent."""
    return any(loop.iterations > 1 for loop in met)


def advances(path_loops: Iterable[MetLoop], einsum: Einsum, access: TensorAccess, loop: MetLoop) -> list[Advance]:
    """For each rank of the tensor that the loop's variable indexes; `path_loops` cut the tile, `loop` among them."""
    extents = dict(einsum.bounds)
    for met in path_loops:
        extents[met.variable] = met.largest
    advances = []
    for rank, index in access.projection:
        for variable, a in index.terms:
            if variable == loop.variable:
                first = a * loop.initial if loop.initial is not None else None
                advances.append(Advance(rank, a * loop.shape, first, index.constant, index.extent(extents)))
    return advances


def check_exchange(
    mapping: Mapping, workload: Workload, tensor: str, loops: Iterable[Address], inside: Address
) -> None:
    """All Einsums below walk alike through `tensor`; of an intermediate each iteration produces just what it reads.

    `inside`: the node below whose loops the tile is as it is exchanged. Raises MappingError.
    """
    is_intermediate = tensor in workload.intermediates
    for address in loops:
        met = met_at(mapping, workload, address)
        users = [name for name in met if tensor in workload.by_name[name].tensors]
        if not iterates([met[name] for name in users]):
            continue
        steps = set()
        for name in users:
            advanced = _advances_at(mapping, workload, tensor, name, met[name], inside)
            if is_intermediate:
                _check_tiles(tensor, met[name], advanced, is_producer=name == workload.producers[tensor])
            step = tuple((a.rank, a.step, a.first, a.constant if is_intermediate else 0) for a in advanced)
            steps.add(step or met[name].shape)
        if len(steps) > 1:
            names = ", ".join(repr(name) for name in users)
            text = f"the Einsums {names} walk through {tensor!r} in different steps"
            raise refuse(text, address, "a loop above its outermost memory must cut it alike in all of them")


def check_lanes(mapping: Mapping, workload: Workload, tensor: str, address: Address) -> None:
    """No lane of the loop at `address` reads more of an intermediate held above it than the lane itself, or one before
    it, writes. Readers of earlier steps of a recurrence may. Raises MappingError.
    """
    producer = workload.producers[tensor]
    met = met_at(mapping, workload, address)
    written = workload.by_name[producer].by_tensor[tensor].projection
    if any(a < 0 for _, index in written for _, a in index.terms):
        return  # written backwards: the last index does not say what is there
    exists = workload.by_name[producer].index_range(workload.by_name[producer].by_tensor[tensor])
    ends = _last_by_lane(mapping, workload, tensor, producer, met[producer])
    for reader in met:
        is_reader = reader != producer and tensor in workload.by_name[reader].tensors
        if not is_reader or workload.reads_earlier_step(reader, tensor):
            continue
        for rank, last in _last_by_lane(mapping, workload, tensor, reader, met[reader]).items():
            if any(min(read, exists[rank][1]) > end for read, end in zip(last, ends[rank], strict=True)):
                text = f"a lane of {reader!r} would read elements of {tensor!r} (rank {rank}) that another lane writes"
                raise refuse(text, address, f"`serialise` makes a loop in time of it; {reader!r} keeps its own lanes")


def _last_by_lane(
    mapping: Mapping, workload: Workload, tensor: str, einsum: str, loop: MetLoop
) -> dict[str, list[int]]:
    """The last index of each rank of a tensor in each lane of a loop, at the beginning of the loops above it."""
    bound, path = workload.by_name[einsum], mapping.path_of[einsum]
    extents, first = dict(bound.bounds), dict(bound.first_values)
    for met in loops_met(path[: position_in(path, loop.placed.address) + 1], bound):
        extents[met.variable] = met.largest
    last: dict[str, list[int]] = {rank: [] for rank, _ in bound.by_tensor[tensor].written}
    for begin in range(0, loop.extent, loop.shape):
        starts = {v: first.get(v, 0) + (begin if v == loop.variable else 0) for v in extents}
        sizes = {**extents, loop.variable: min(loop.shape, loop.extent - begin)}
        for rank, index in bound.by_tensor[tensor].written:
            end = index.size - 1 if isinstance(index, Lookup) else index_ends(index, starts, sizes, ())[1]
            last[rank].append(end)
    return last


def _check_tiles(tensor: str, loop: MetLoop, advanced: list[Advance], *, is_producer: bool) -> None:
    address = loop.placed.address
    if not advanced:
        problem = "be read half-reduced" if is_producer else "be read before it is complete"
        text = f"the loop over {loop.variable!r} does not index the intermediate {tensor!r}, which would {problem}"
        raise refuse(text, address, f"{tensor} must be stored above this loop, and its users stay in branches above it")
    if any(advance.overlaps for advance in advanced):
        text = (
            f"tiles of the intermediate {tensor!r} overlap from one iteration over {loop.variable!r} to the next: "
            "an iteration would read what it does not produce"
        )
        raise refuse(text, address, f"keep {tensor} above this loop, and its users in branches above it")


def _advances_at(
    mapping: Mapping, workload: Workload, tensor: str, einsum: str, loop: MetLoop, inside: Address
) -> list[Advance]:
    path = mapping.path_of[einsum]
    bound = workload.by_name[einsum]
    above = path[: position_in(path, inside)]
    cutting = [met for met in loops_met(above, bound) if isinstance(met.node, Temporal)]
    return advances(cutting, bound, bound.by_tensor[tensor], loop)


def holders(mapping: Mapping, einsum: str, tensor: str) -> list[Address]:
    """The storage nodes that hold `tensor` on the path of `einsum`, outermost first."""
    return [
        placed.address
        for placed in mapping.path_of[einsum]
        if isinstance(placed.node, Storage) and tensor in placed.node.tensors
    ]


def check_copies(mapping: Mapping, workload: Workload, tensor: str, address: Address) -> None:
    """May a node that holds `tensor` stand above `address`? A copy Einsum writes past the buffers of others.

    A reader's buffer above a loop would be filled before a copy below that loop has written all of it.
    Raises MappingError.
    """
    paths = paths_through(mapping, address)
    users = [e for e in paths if tensor in workload.by_name[e].tensors]
    copier = workload.producers.get(tensor)
    if copier not in users or not workload.by_name[copier].is_copy or len(users) < 2:
        return
    shared = {p.address for e in users if e != copier for p in paths[e][position_in(paths[e], address) :]}
    for loop in loops_met(paths[copier], workload.by_name[copier]):
        if loop.placed.address in shared and loop.iterations > 1 and isinstance(loop.node, Temporal):
            text = f"copy Einsum {copier!r} writes {tensor!r} piece by piece in this loop, past a node above it"
            raise refuse(text, loop.placed.address, "hold the tensor below the loop, or in the branches that read it")
