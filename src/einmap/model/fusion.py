"""Fusion of a mapping: where each intermediate tensor is kept, below which loops, and which Einsums share these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from einmap.arch.component import Memory
from einmap.arch.tree import outermost_memory
from einmap.einsum.workload import Workload
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.model.cost import ActionRow, Cost
from einmap.model.counting.path import EinsumPath, Loop, Station, applies, path_of
from einmap.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class FusedLoop:
    """A loop above tiles of an intermediate: the rank variable of each Einsum below it, and the tile shape.

    `lanes`: component and dimension of a spatial loop, None of a temporal one.
    """

    variables: tuple[tuple[str, str], ...]
    tile_shape: int
    iterations: int
    lanes: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """The rank variable, or several where Einsums call it otherwise: `m` or `m/p`."""
        return "/".join(dict.fromkeys(variable for _, variable in self.variables))


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """An intermediate: its users in execution order, the memory that backs it, and the loops above, from outside in.

    `shape`: of the tile that is kept at a time; `bits`: what it takes; `fused`: whether it stays inside, in a memory
    further in than the outermost one, or below loops.
    """

    tensor: str
    einsums: tuple[str, ...]
    memory: str
    loops: tuple[FusedLoop, ...]
    shape: tuple[int, ...]
    bits: float
    fused: bool


@dataclass(frozen=True)
class Fusion:
    """`tensors`: every intermediate in the order of the workload; `nests`: Einsums that run below common loops."""

    tensors: tuple[KeptTensor, ...]
    nests: tuple[tuple[str, ...], ...]

    @property
    def fused(self) -> tuple[KeptTensor, ...]:
        """Intermediates that stay inside."""
        return tuple(kept for kept in self.tensors if kept.fused)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON."""
        rows = [asdict(kept) for kept in self.tensors]
        for row in rows:
            for loop in row["loops"]:
                loop["variables"] = dict(loop["variables"])
        return {"intermediates": rows, "nests": [list(nest) for nest in self.nests]}


def fusion_of(mapping: Mapping, spec: Spec) -> Fusion:
    """Fusion of a valid mapping of `spec`."""
    workload = spec.workload
    paths = {e.name: path_of(mapping, e, spec.arch(e.name)) for e in workload.einsums}
    written = [t for e in workload.einsums for t in e.outputs if t in workload.intermediates]
    kept = tuple(_kept(str(t), [paths[name] for name in workload.users[t]], workload) for t in dict.fromkeys(written))
    return Fusion(kept, tuple(_nests(list(paths.values()))))


def outside_memories(spec: Spec) -> dict[tuple[str, str], Memory]:
    """The outermost memories of each Einsum, by Einsum and name."""
    outermost = {}
    for einsum in spec.workload.einsums:
        arch = spec.arch(einsum.name)
        memories = {outermost_memory(arch.path(unit.name)) for unit in arch.computes if unit.enabled}
        outermost.update({(einsum.name, memory.name): memory for memory in memories if memory is not None})
    return outermost


def outside_bits(cost: Cost, spec: Spec) -> float:
    """Bits that all Einsums read and write in their outermost memories; values count as wide as they are stored."""
    bits, outside = 0.0, outside_memories(spec)
    for row in cost.actions:
        memory = outside.get((row.einsum, row.component))
        if memory is None or row.tensor is None or not row.count:
            continue
        bits += moved_bits(row, memory, spec)
    return bits


def moved_bits(row: ActionRow, memory: Memory, spec: Spec) -> float:
    """Bits of a tensor that the actions of a row move; values count as wide as the memory stores them.

    Actions that zeros gate or skip move nothing; metadata count, unless they lie in a store of their own.
    """
    if row.tensor is None or not row.count:
        return 0.0
    action = row.action.removeprefix("metadata_")
    zeros = spec.sparsity.get(row.einsum)
    is_own = action != row.action and zeros is not None and memory.name in zeros.own_metadata
    if is_own or action not in memory.actions_by_name:
        return 0.0
    per_value = memory.action(action).actions_per_value.get(row.tensor, 0.0) * memory.actions_scale
    return row.count / per_value * memory.bits[row.tensor] if per_value else 0.0


def _kept(tensor: str, paths: list[EinsumPath], workload: Workload) -> KeptTensor:
    first = paths[0]
    station = first.stations[tensor][0]
    memory = station.component
    assert isinstance(memory, Memory)
    extents: dict[str, int] = dict(first.einsum.extents)
    for loop in first.loops:
        if applies(loop, station):
            extents[loop.variable] = min(extents[loop.variable], max(int(loop.shape), int(loop.initial or 0)))
    access = first.einsum.by_tensor[tensor]
    loops = tuple(_fused_loop(loop, paths) for loop in _above(first, station))
    outside = outermost_memory(first.leaves)
    shape = tuple(workload.kept(tensor, rank, index.extent(extents)) for rank, index in access.projection)
    return KeptTensor(
        tensor,
        tuple(path.einsum.name for path in paths),
        memory.name,
        loops,
        shape,
        prod(shape) * memory.bits[tensor],
        bool(loops) or outside is None or memory.name != outside.name,
    )


def _above(path: EinsumPath, station: Station) -> list[Loop]:
    return [loop for loop in path.loops if loop.position < station.position and not loop.absent]


def _fused_loop(loop: Loop, paths: list[EinsumPath]) -> FusedLoop:
    """The loop as all users of a tensor that stand below it call it."""
    variables = tuple(
        (path.einsum.name, loop_of_path.variable)
        for path in paths
        for loop_of_path in path.loops
        if loop_of_path.address == loop.address
    )
    assert loop.level is None or loop.dimension is not None
    name = _fanout(paths[0], loop)
    return FusedLoop(variables, int(loop.shape), loop.iterations, name)


def _fanout(path: EinsumPath, loop: Loop) -> tuple[str, str] | None:
    if loop.level is None or loop.dimension is None:
        return None
    return path.leaves[loop.level].name, loop.dimension.name


def _nests(paths: list[EinsumPath]) -> Iterator[tuple[str, ...]]:
    """Successive Einsums with a loop in common."""
    nest: list[str] = []
    before: set[Address] = set()
    for path in paths:
        loops = {loop.address for loop in path.loops if not loop.absent}
        if nest and not loops & before:
            if len(nest) > 1:
                yield tuple(nest)
            nest = []
        nest.append(path.einsum.name)
        before = loops
    if len(nest) > 1:
        yield tuple(nest)
