"""Moves of a plan that go from single PEs to single PEs: who sends to whom, and what."""

from __future__ import annotations

from einmap.distribute.hops.halo import fetched, halo_pairs
from einmap.distribute.hops.part_of_mesh import broadcast_rounds, reduce_rounds
from einmap.distribute.hops.permute import permuted_pairs
from einmap.distribute.plans.collectives import Pairs
from einmap.distribute.plans.plan import Move, Plan


def pairs_of(plan: Plan, move: Move) -> Pairs:
    """Who sends to whom in a shift, permute or halo: places in a group of `mesh.groups(move.axes)`; else none."""
    match move.kind:
        case "shift":
            parts = plan.mesh.parts(move.along)
            steps = [s * move.offset for s in range(plan.mesh.parts(move.skew))] if move.skew else [move.offset]
            pairs = [
                (s * parts + i, s * parts + (i + step) % parts) for s, step in enumerate(steps) for i in range(parts)
            ]
            return tuple((sender, receiver) for sender, receiver in pairs if sender != receiver)
        case "halo":
            return halo_pairs(plan.mesh.parts(move.axes))
        case "permute":
            before, after = plan.by_name[move.source].placement, plan.by_name[move.target].placement
            return permuted_pairs(plan.mesh, before, after)
    return ()


def rounds_of(plan: Plan, move: Move) -> tuple[Pairs, ...]:
    """Who sends to whom, round by round, in a move that goes from single PEs to single PEs; else none."""
    source, target = (plan.by_name[name].placement for name in (move.source, move.target))
    parts = plan.mesh.parts(move.axes)
    match move.kind:
        case "broadcast":
            return broadcast_rounds(parts, dict(source.on)[move.axes[0]])
        case "reduce":
            return reduce_rounds(parts, dict(target.on)[move.axes[0]])
    pairs = pairs_of(plan, move)
    return (pairs,) if pairs else ()


def fetched_by(plan: Plan, move: Move) -> tuple[int, int]:
    """Of a halo, where what is sent begins in the sender's buffer, along `gather`, and how many coordinates it has."""
    assert move.gather is not None
    return fetched(plan.by_name[move.source].placement, plan.by_name[move.target].placement, move.gather)


def only_halo_is_cut(plan: Plan, move: Move) -> bool:
    """Whether a slice keeps the blocks of its rank, and cuts the end of their halo off."""
    before = plan.by_name[move.source].placement.of(move.scatter or "")
    after = plan.by_name[move.target].placement.of(move.scatter or "")
    return move.turn is None and before is not None and after is not None and before.axes == after.axes
