"""Consumers that read sums of which some parts are missing: in another lane or visit, or not yet added."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.errors import MappingError, Note, raise_all
from einmap.model.counting.hull import User, intervals_of
from einmap.model.counting.path import EinsumPath, Loop, loops_above
from einmap.model.counting.semantics import Semantics
from einmap.model.occupancy.sharing import SharedNode, SharedTensors, Where, users_by_tensor

MOST_ITERATIONS = 1_000
"""Iterations of shared loops that are compared in pairs; of longer loops the first ones are."""


def check_parts(shared: SharedTensors, rules: Semantics, where: Where) -> None:
    """No lane or visit reads a tensor of which another one has a part. Raises MappingError (several together).

    Lanes of a node that producer and consumers share each have a copy of it; what they write comes together further
    out, when the visit ends. So it is with visits of the backing node, between which nothing is kept.
    """
    problems = []
    for node in shared.nodes if rules.buffer_above_split == "one" else ():
        writer = next((user for user in node.users if user.access.output), None)
        if writer is None or node.tensor not in shared.workload.intermediates or writer.path.einsum.is_copy:
            continue
        readers = [user for user in node.users if user is not writer]
        for loop in loops_above(writer.path, writer.station):
            if not any(_has_a_part(node, writer, reader, loop) for reader in readers):
                continue
            names = ", ".join(repr(user.path.einsum.name) for user in readers)
            text = (
                f"{names} would read {node.tensor!r} in parts: each {'lane' if loop.is_spatial else 'iteration'} of "
                f"the loop over {loop.variable!r} of {writer.path.einsum.name!r} has in "
                f"{writer.station.component.name!r} only what it writes itself"
            )
            hint = f"hold {node.tensor} " + ("above this loop" if node.is_backing else "in each branch instead")
            problems.append(MappingError(text, at=where(node.address), hint=hint))
    raise_all(problems)


def _has_a_part(node: SharedNode, writer: User, reader: User, loop: Loop) -> bool:
    """Whether a lane (or, of the backing node, a visit) reads what another one writes."""
    relevance = writer.access.relevance(loop.variable)
    if not loop.is_spatial and not (node.is_backing and relevance is Relevance.PARTIAL):
        return False
    if relevance is Relevance.NONE:
        return True
    if writer.loops.keys() != reader.loops.keys() or (node.hull is None and relevance is Relevance.FULL):
        return False  # spread in other ways, which is not supported; or each has its own
    paths = replace(writer.path, loops=tuple(writer.loops.values())), reader.path
    return _meet(*paths, node.tensor, loop, "other lane" if loop.is_spatial else "other time")


def half_reduced(
    workload: Workload,
    order: tuple[str, ...],
    paths: Mapping[str, EinsumPath],
    where: Where,
    tensors: frozenset[str],
) -> list[Note]:
    """Consumers inside a loop that reduces the tensor they read: counts are right, values are partial sums."""
    notes: list[Note] = []
    users = users_by_tensor(order, paths)
    for tensor in sorted(workload.intermediates & tensors):
        producer = workload.producers[tensor]
        for reader in users.get(tensor, ()):
            if producer not in paths or reader == producer or paths[producer].einsum.is_copy:
                continue
            for lp in _reducing(paths[producer], paths[reader], tensor):
                text = f"{reader!r} reads {tensor!r} half-reduced, inside the loop over {lp.variable!r} of {producer!r}"
                notes.append(Note(text, where(lp.address)))
    return notes


def _reducing(source: EinsumPath, target: EinsumPath, tensor: str) -> Iterable[Loop]:
    """Temporal loops of producer and consumer of which later iterations add to what the consumer has read."""
    theirs = {lp.address: lp for lp in target.loops}
    written = source.einsum.by_tensor[tensor]
    for lp in source.loops:
        if lp.address in theirs and not lp.absent and not lp.is_spatial:
            relevance = written.relevance(lp.variable)
            if relevance is Relevance.NONE or (
                relevance is Relevance.PARTIAL and _meet(source, target, tensor, lp, "later")
            ):
                yield lp


def _meet(source: EinsumPath, target: EinsumPath, tensor: str, loop: Loop, when: str) -> bool:
    """Whether the consumer reads an element that the producer writes at another time.

    `when`: in a `later` iteration of the temporal loops that both share, at any `other time`, or at the same time in an
    `other lane`. Only loops over the ranks that `loop` indexes are looked at: in all others both go through the same.
    """
    theirs = {lp.address: lp for lp in target.loops}
    written, read = source.einsum.by_tensor[tensor], target.einsum.by_tensor[tensor]
    ranks = [rank for rank, index in written.projection if loop.variable in dict(index.terms)]
    indices = [index for access in (written, read) for rank, index in access.projection if rank in ranks]
    along = {variable for index in indices for variable, _ in index.terms}
    mine = {
        lp.address: lp
        for lp in source.loops
        if lp.address in theirs and not lp.absent and {lp.variable, theirs[lp.address].variable} & along
    }
    sizes = [lp.iterations for lp in mine.values()]
    while math.prod(sizes) > MOST_ITERATIONS:
        sizes[sizes.index(max(sizes))] = -(-max(sizes) // 2)
    axes = [axis.ravel() for axis in np.meshgrid(*map(np.arange, sizes), indexing="ij")]
    grid = dict(zip(mine, axes, strict=True))
    writes, made = intervals_of(source, written, mine, grid)
    reads, used = intervals_of(target, read, {address: theirs[address] for address in mine}, grid)
    time, lane = np.zeros_like(axes[0]), np.zeros_like(axes[0])
    for lp, axis, size in zip(mine.values(), axes, sizes, strict=True):
        time, lane = (time, lane * size + axis) if lp.is_spatial else (time * size + axis, lane)
    pairs = {
        "later": time[:, None] < time,
        "other time": time[:, None] != time,
        "other lane": (time[:, None] == time) & (lane[:, None] != lane),
    }
    meet = pairs[when] & np.broadcast_to(reads, time.shape)[:, None] & writes
    for rank in ranks:
        (low, high), (begin, end) = used[rank], made[rank]
        low, high = (np.broadcast_to(x, time.shape)[:, None] for x in (low, high))
        meet &= (low <= end) & (begin <= high)
    return bool(meet.any())
