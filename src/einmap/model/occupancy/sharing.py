"""Storage nodes above a split: one buffer for several Einsums, filled once, and what fusion may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from textwrap import indent

import numpy as np

from einmap.arch.component import Memory
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, MappingError, NotSupportedError, raise_all
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.mapping.pretty import pretty
from einmap.mapping.rewrite.branches import merged_for
from einmap.model.counting.hull import MAX_VISITS, Hull, User, clipped, intervals_of
from einmap.model.counting.path import EinsumPath, Loop, loops_above
from einmap.model.counting.semantics import Semantics
from einmap.model.traffic.tensor_traffic import Charge

type Where = Callable[[Address], At]


@dataclass(frozen=True)
class SharedNode:
    """One tensor at one storage node that several Einsums use, in execution order."""

    tensor: str
    address: Address
    users: tuple[User, ...]

    @property
    def is_backing(self) -> bool:
        """Whether the node is the tensor's outermost holder."""
        first = self.users[0]
        return first.path.stations[self.tensor][0] is first.station

    @cached_property
    def hull(self) -> Hull | None:
        """The common tile, or None when all users use the same one."""
        return None if len({user.signature for user in self.users}) == 1 else Hull(self.users)


def shared_nodes(
    order: tuple[str, ...], paths: Mapping[str, EinsumPath], tensors: frozenset[str]
) -> tuple[SharedNode, ...]:
    """All nodes that hold one of `tensors` for several Einsums, Memories only."""
    users_of: dict[tuple[str, Address], list[User]] = {}
    for name in order:
        path = paths[name]
        for tensor, stations in path.stations.items():
            for station in stations if tensor in tensors else ():
                # a copy moves values past the buffers of others
                if isinstance(station.component, Memory) and (not path.einsum.is_copy or station is stations[0]):
                    user = User(path, path.einsum.by_tensor[tensor], station)
                    users_of.setdefault((tensor, station.address), []).append(user)
    return tuple(SharedNode(t, a, tuple(users)) for (t, a), users in users_of.items() if len(users) > 1)


def charges_of(
    nodes: tuple[SharedNode, ...], paths: Mapping[str, EinsumPath], semantics: Semantics, where: Where
) -> dict[str, dict[tuple[str, int], Charge]]:
    """Who pays the fills and write-backs of shared buffers; without an entry an Einsum pays its own.

    The first user in a visit is charged the fill. A producer that comes first fills only its own part; the rest of
    the common tile is filled for the first consumer. The producer writes the common tile back.
    """
    charges: dict[str, dict[tuple[str, int], Charge]] = {name: {} for name in paths}
    if semantics.buffer_above_split == "each Einsum":
        return charges
    for node in nodes:
        try:
            if len({user.lanes for user in node.users}) > 1 and not node.is_backing:
                raise NotSupportedError(
                    f"{node.tensor!r} is held once for several Einsums that spread it over lanes in different ways; "
                    "that is not supported yet",
                    hint="hold the tensor in each branch instead",
                )
            hull = None if node.is_backing else node.hull
            first, second, *_ = node.users
            _set(charges, node, first, Charge(hull=hull, hull_fills=not first.access.output))
            for user in node.users[1:]:
                _set(charges, node, user, Charge(fills=False))
            if hull is not None and first.access.output:
                _set(charges, node, second, Charge(fills=False, hull=hull, hull_without=first))
        except NotSupportedError as problem:
            problem.at = where(node.address)
            raise
    return charges


def _set(charges: dict[str, dict[tuple[str, int], Charge]], node: SharedNode, user: User, charge: Charge) -> None:
    charges[user.path.einsum.name][node.tensor, user.station.position] = charge


# what fusion may do


@dataclass(frozen=True)
class SharedTensors:
    """Tensors of a check: `tensors`, all Einsums that access them (`order`, with their `paths`), and the storage nodes
    that hold one of them for several Einsums (`nodes`).
    """

    workload: Workload
    mapping: LoopTree
    order: tuple[str, ...]
    paths: Mapping[str, EinsumPath]
    nodes: tuple[SharedNode, ...]
    tensors: frozenset[str]


def check_fusion(
    shared: SharedTensors, semantics: Semantics, where: Where, slides: Mapping[tuple[str, Address], Address]
) -> None:
    """Shared tensors are backed consistently. Raises MappingError (several together).

    `slides`: storage nodes that keep what the next iteration of a loop needs again.
    """
    problems: list[EinmapError] = []
    workload, order, paths, tensors = shared.workload, shared.order, shared.paths, shared.tensors
    users = users_by_tensor(order, paths)
    intermediates = sorted(workload.intermediates & tensors)
    for tensor in sorted(workload.shared & tensors):
        if len(users.get(tensor, ())) > 1:
            problems += _backings_agree(tensor, users[tensor], workload, paths, semantics, where, shared.mapping)
    for tensor in intermediates:
        for user in users.get(tensor, ()):
            problems += _no_recomputation(tensor, paths[user], where)
    raise_all(problems)
    if semantics.buffer_above_split == "one":
        for tensor in intermediates:
            readers = tuple(name for name in users.get(tensor, ()) if not workload.reads_earlier_step(name, tensor))
            problems += _read_too_early(tensor, workload.producers[tensor], readers, paths, where)
        for name in order:
            if paths[name].einsum.is_copy:
                problems += _copied_too_late(paths[name], order, paths, where)
        for node in shared.nodes:
            if node.is_backing and node.tensor in workload.intermediates:
                problems += _nothing_missing(node, where, slides.get((node.tensor, node.address)))
    raise_all(problems)


def users_by_tensor(order: tuple[str, ...], paths: Mapping[str, EinsumPath]) -> dict[str, tuple[str, ...]]:
    """The Einsums that access each tensor, as they run."""
    users: dict[str, list[str]] = {}
    for name in order:
        for tensor in paths[name].stations:
            users.setdefault(tensor, []).append(name)
    return {tensor: tuple(names) for tensor, names in users.items()}


def _read_too_early(
    tensor: str, producer: str, users: tuple[str, ...], paths: Mapping[str, EinsumPath], where: Where
) -> list[EinmapError]:
    """Check that values exist when a consumer reads them, in an iteration of the loops shared with the producer."""
    problems: list[EinmapError] = []
    for reader in users:
        if producer not in paths or reader == producer:
            continue
        source, target = paths[producer], paths[reader]
        shared = {lp.address for lp in source.loops if not lp.absent} & {lp.address for lp in target.loops}
        loops = [lp for lp in source.loops if lp.address in shared]
        written = source.einsum.by_tensor[tensor]
        if any(a < 0 for _, index in written.projection for _, a in index.terms):
            continue  # written backwards: what exists when is not a matter of the last index
        rank = _first_rank_too_early(source, target, tensor, loops)
        if rank:
            text = f"{reader!r} reads elements of {tensor!r} (rank {rank}) before {producer!r} writes them"
            at = where(target.compute.address)
            problems.append(MappingError(text, at=at, hint="move the loop that both share into the branches"))
    return problems


def _first_rank_too_early(source: EinsumPath, target: EinsumPath, tensor: str, loops: list[Loop]) -> str | None:
    """The first rank in which the reader goes beyond what is written so far in some iteration.

    What is never written, since the tensor ends before or is padded with zeros there, need not be waited for.
    """
    theirs = {lp.address: lp for lp in target.loops}
    sizes = [lp.iterations for lp in loops]
    if prod(sizes) > MAX_VISITS:
        return None
    grid = dict(
        zip((lp.address for lp in loops), np.meshgrid(*map(np.arange, sizes), indexing="ij", sparse=True), strict=True)
    )
    mine = {lp.address: lp for lp in loops}
    writes, written = intervals_of(source, source.einsum.by_tensor[tensor], mine, grid)
    used = {address: theirs[address] for address in mine}
    reads, read = intervals_of(target, target.einsum.by_tensor[tensor], used, grid)
    exists = source.einsum.index_range(source.einsum.by_tensor[tensor])
    for rank, (low, high) in clipped(read, exists).items():
        begin, end = written[rank]
        early = reads & writes & (low <= high) & ((high > end) | (low < np.min(begin)))
        if early.any():
            return rank
    return None


def _copied_too_late(
    path: EinsumPath, order: tuple[str, ...], paths: Mapping[str, EinsumPath], where: Where
) -> list[EinmapError]:
    """A reader's buffer above a loop is filled before a copy below that loop has written all of it."""
    problems: list[EinmapError] = []
    for tensor in sorted(path.einsum.outputs):
        for reader in order:
            if reader == path.einsum.name or tensor not in paths[reader].stations:
                continue
            for station in paths[reader].stations[tensor][1:]:
                loops = [lp for lp in path.loops if lp.position > station.position and not lp.absent]
                shared = {lp.address for lp in paths[reader].loops}
                if any(s.address == station.address for s in path.stations[tensor]) and any(
                    lp.address in shared and not lp.is_spatial for lp in loops
                ):
                    copier = path.einsum.name
                    text = f"{reader!r} keeps {tensor!r} above a loop in which {copier!r} copies it piece by piece"
                    problems.append(MappingError(text, at=where(station.address), hint="keep it below the split"))
    return problems


def _nothing_missing(node: SharedNode, where: Where, slides: Address | None) -> list[EinmapError]:
    """Check that values read in a visit were produced in it, or are kept from the visit before (`slides`)."""
    producer = next((user for user in node.users if user.access.output), None)
    if node.hull is None or producer is None or not loops_above(producer.path, producer.station):
        return []
    if node.hull.covers(producer, slides):
        return []
    names = ", ".join(repr(u.path.einsum.name) for u in node.users if not u.access.output)
    return [
        MappingError(
            f"{names} read elements of {node.tensor!r} that {producer.path.einsum.name!r} does not produce in the same "
            "visit of its backing storage; nothing is kept between visits",
            at=where(node.address),
            hint=f"hold {node.tensor} above the loop whose tiles overlap"
            + ("" if slides else ", or give its node sliding_window: true"),
        )
    ]


def _no_recomputation(tensor: str, path: EinsumPath, where: Where) -> list[EinmapError]:
    """Above an intermediate's backing holder every loop of more than one iteration indexes it."""
    backing = path.stations[tensor][0]
    access = path.einsum.by_tensor[tensor]
    return [
        MappingError(
            f"the loop over {loop.variable!r} stands above the backing storage of the intermediate {tensor!r} but does "
            f"not index it (Einsum {path.einsum.name!r}): it would be recomputed or read half-reduced",
            at=where(loop.address),
            hint=f"hold {tensor} above this loop, or move the loop below it",
        )
        for loop in loops_above(path, backing)
        if access.relevance(loop.variable) is Relevance.NONE
    ]


def _backings_agree(
    tensor: str,
    users: tuple[str, ...],
    workload: Workload,
    paths: Mapping[str, EinsumPath],
    semantics: Semantics,
    where: Where,
    mapping: LoopTree,
) -> list[EinmapError]:
    first = users[0]
    problems: list[EinmapError] = []
    for user in users[1:]:
        a, b = paths[first].stations[tensor][0], paths[user].stations[tensor][0]
        if a.component.name != b.component.name:
            text = (
                f"{tensor!r} is backed in {a.component.name!r} for {first!r} but in {b.component.name!r} for {user!r}"
            )
            problems.append(MappingError(text, at=where(b.address), hint="back it once, above both branches"))
            continue
        if a.address == b.address:
            problems += _same_tiles(tensor, first, user, paths, where)
            continue
        if semantics.lifetimes == "tree" and tensor in workload.intermediates:
            loops = loops_above(paths[first], a) or loops_above(paths[user], b)
            if loops:
                text = (
                    f"the intermediate {tensor!r} has a backing node in each of the branches {first!r} and {user!r}, "
                    "under loops: under `exact` it needs one, above both branches, below loops that both share"
                )
                hint = _merged_tree(mapping, workload, tensor, first, user) or _advice(tensor, first, user, paths)
                problems.append(MappingError(text, at=where(b.address), hint=hint))
            continue
        problems += _same_tiles(tensor, first, user, paths, where)
    return problems


def _merged_tree(mapping: LoopTree, workload: Workload, tensor: str, first: str, user: str) -> str | None:
    """The tree to write instead, as a hint; None where merging the branches does not lead to one."""
    try:
        merged, steps = merged_for(mapping, workload, tensor, first, user)
    except MappingError:
        return None
    done = " ".join(f"--do '{step}'" for step in steps)
    return f"write (`einmap rewrite ... {done}` does it)\n{indent(pretty(merged), '    ')}"


def _advice(tensor: str, first: str, user: str, paths: Mapping[str, EinsumPath]) -> str:
    """How to write the loops and the storage of a tensor that two Einsums share, in words."""
    names = []
    for einsum in (first, user):
        path = paths[einsum]
        loops = loops_above(path, path.stations[tensor][0])
        names.append(f"{einsum}: {'/'.join(loop.variable for loop in loops)}")
    memory = paths[first].stations[tensor][0].component.name
    return (
        f"write the loops once above the split (rank_variable: {{{', '.join(names)}}}), "
        f"then !Storage [{tensor}] in {memory}, then !Sequential"
    )


def _same_tiles(tensor: str, first: str, user: str, paths: Mapping[str, EinsumPath], where: Where) -> list[EinmapError]:
    """Loops above the backing storage agree in steps over the tensor's ranks (definition 13)."""
    station = paths[user].stations[tensor][0]
    steps = [_steps(paths[name], tensor) for name in (first, user)]
    if sorted(steps[0]) == sorted(steps[1]):
        return []
    text = (
        f"Einsums {first!r} and {user!r} exchange {tensor!r} in different tiles: "
        f"{_describe(steps[0])} against {_describe(steps[1])}"
    )
    hint = "the loops above its backing storage must cut it alike in both"
    return [MappingError(text, at=where(station.address), hint=hint)]


def _steps(path: EinsumPath, tensor: str) -> list[tuple[str, int, int, str]]:
    """For each loop above the backing storage: rank of the tensor, step in it, iterations, kind."""
    steps = []
    extents = dict(path.einsum.extents)
    access = path.einsum.by_tensor[tensor]
    applied = {loop.position for loop in loops_above(path, path.stations[tensor][0])}
    for loop in path.loops:
        extent = extents[loop.variable]
        extents[loop.variable] = min(extent, loop.shape)
        if loop.position not in applied:
            continue
        rank, factor = "", 1
        for name, index in access.projection:
            for variable, a in index.terms:
                if variable == loop.variable:
                    rank, factor = name, abs(a)
        first = loop.shape if loop.initial is None else loop.initial
        iterations = 1 + -(-(extent - min(first, extent)) // loop.shape)
        steps.append((rank, factor * loop.shape, iterations, "spatial" if loop.is_spatial else "temporal"))
    return steps


def _describe(steps: list[tuple[str, int, int, str]]) -> str:
    shown = [f"{kind} {rank or '(other rank)'} by {step} x{n}" for rank, step, n, kind in steps]
    return "; ".join(shown) or "the whole tensor"
