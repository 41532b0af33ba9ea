"""A reduce-scatter in chunks, each of which travels while the next one is computed.

    ZL[x, m, n] = AD[x, k0, m] * BD[x, k0, n]; reduce-scatter of ZL in rank M over x
        -- overlapped -->
    ZD = chunk x-1 of ZL
    G-1 times: send ZD to the next PE, compute the next chunk meanwhile, add it to what arrives: the new ZD

In turn t PE i works on chunk i-t-2 (modulo G), so that the chunk that ends on a PE is its own. The ring sends (G-1)/G
of the result, as the reduce-scatter does, and a PE holds addends of a few chunks rather than of all (Wang et al.,
"Overlap communication with dependent computation via decomposition in large deep learning models", ASPLOS 2023).
"""

from __future__ import annotations

from dataclasses import replace

from einmap.distribute.placements.indices import mixed_radix
from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.plans.plan import (
    BufferName,
    Combine,
    Local,
    LocalLoop,
    Move,
    Plan,
    PlanStep,
    Repeat,
    Turn,
    buffers_read,
)
from einmap.distribute.steps.naming import Names
from einmap.einsum.spaces.projection import Rank
from einmap.errors import At, SpecError


def overlapped(plan: Plan, einsum: str, at: At | None = None) -> Plan:
    """The plan with the reduce-scatter of the result of `einsum` in chunks.

    Raises SpecError, with the reason, where the result is not reduce-scattered at once, or cannot be cut in chunks.
    """
    local, move = _pair(plan, einsum, at)
    loop = _chunked_loop(plan, local, move, at)
    kept = [buffer for buffer in plan.buffers if buffer.name != move.source]
    names = Names({buffer.tensor: buffer.sizes for buffer in plan.buffers}, kept)
    tensor, placement = plan.by_name[move.target].tensor, plan.by_name[move.target].placement
    arrived, part, total = (names.make(tensor, letter, placement) for letter in "HLD")
    count = plan.mesh.parts(move.axes)
    first = _one_chunk(plan, names, local, loop, move.target, Turn((move.axes,), -1, 0, count))
    turn = (
        Move("shift", move.target, arrived, move.axes, offset=1),
        *_one_chunk(plan, names, local, loop, part, Turn((move.axes,), -2, -1, count)),
        Combine(arrived, part, total),
    )
    repeat = Repeat(count - 1, turn, ((move.target, move.target, total),))
    position = plan.steps.index(local)
    others = [step for step in plan.steps[position:] if step not in (local, move)]
    return replace(plan, buffers=tuple(names.buffers), steps=(*plan.steps[:position], *first, repeat, *others))


def _pair(plan: Plan, einsum: str, at: At | None) -> tuple[Local, Move]:
    """The local Einsum and the reduce-scatter of its result."""
    local = next(step for step in plan.steps if isinstance(step, Local) and step.einsum == einsum)
    results = {name for _, name in local.results}
    users = [step for step in plan.steps if buffers_read(step) & results]
    match users:
        case [Move(kind="reduce_scatter") as move] if len(results) == 1:
            return local, move
    uses = ", ".join(step.kind if isinstance(step, Move) else "an Einsum" for step in users) or "nothing"
    raise SpecError(
        f"the result of Einsum {einsum!r} is not reduce-scattered and nothing else, so there is nothing to overlap; "
        f"it is used by: {uses}",
        at=at,
        hint="split a reduced rank of its operands and place the result split over the same mesh axis",
    )


def _chunked_loop(plan: Plan, local: Local, move: Move, at: At | None) -> LocalLoop:
    """The loop over one chunk: of the variable that indexes the scattered rank."""
    einsum, buffer = plan.workload.find(local.einsum), plan.by_name[move.target]
    rank, split = move.scatter, buffer.placement.of(move.scatter or "")
    assert rank is not None and split is not None
    index = dict(einsum.by_tensor[buffer.tensor].projection)[rank]
    radix = mixed_radix(einsum, index)
    variable = radix.digits[0][0] if radix and radix.is_variable else None
    loop = next((loop for loop in local.loops if loop.variable == variable), None)
    if loop is None or loop.is_split or loop.extent != dict(buffer.sizes)[rank]:
        text = f"rank {rank} of {buffer.tensor!r} cannot be computed in chunks: it is indexed by {index}"
        raise SpecError(text, at=at)
    for access in einsum.accesses:
        indices = [index for _, index in access.projection if loop.variable in {v for v, _ in index.terms}]
        if len(indices) > 1 or any(str(index) != loop.variable for index in indices):
            written = ", ".join(map(str, indices))
            text = f"{access.tensor!r} cannot be read in chunks of {loop.variable!r}: it is indexed by {written}"
            raise SpecError(text, at=at)
    return LocalLoop(loop.variable, move.axes, loop.extent, split.block)


def _one_chunk(
    plan: Plan, names: Names, local: Local, loop: LocalLoop, result: BufferName, turn: Turn
) -> tuple[PlanStep, ...]:
    """The operands of one chunk, cut, and the Einsum of it."""
    einsum = plan.workload.find(local.einsum)
    steps: list[PlanStep] = []
    operands = []
    for tensor, name in local.operands:
        rank = _rank_of(einsum.by_tensor[tensor].projection, loop.variable)
        if rank is None:
            operands.append((tensor, name))
            continue
        whole = plan.by_name[name].placement
        cut = Placement((*whole.splits, Split(rank, loop.axes, loop.block)), whole.partial, whole.reduction, whole.on)
        chunk = names.make(tensor, "S", cut)
        steps.append(Move("slice", name, chunk, loop.axes, scatter=rank, turn=turn))
        operands.append((tensor, chunk))
    loops = tuple(replace(loop, turn=turn) if other.variable == loop.variable else other for other in local.loops)
    results = tuple((tensor, result) for tensor, _ in local.results)
    return (*steps, Local(local.einsum, tuple(operands), results, loops))


def _rank_of(projection: tuple[tuple[Rank, object], ...], variable: str) -> Rank | None:
    return next((rank for rank, index in projection if str(index) == variable), None)
