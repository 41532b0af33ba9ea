"""Who sends to whom in a move of a plan that goes from single PEs to single PEs."""

from __future__ import annotations

from einmap.distribute.collectives import Pairs
from einmap.distribute.hops.permute import permuted_pairs
from einmap.distribute.plan import Move, Plan


def pairs_of(plan: Plan, move: Move) -> Pairs:
    """Who sends to whom in a shift or permute, positions in a group of `mesh.groups(move.axes)`; none otherwise."""
    match move.kind:
        case "shift":
            parts = plan.mesh.parts(move.along)
            steps = [s * move.offset for s in range(plan.mesh.parts(move.skew))] if move.skew else [move.offset]
            pairs = [
                (s * parts + i, s * parts + (i + step) % parts) for s, step in enumerate(steps) for i in range(parts)
            ]
            return tuple((sender, receiver) for sender, receiver in pairs if sender != receiver)
        case "permute":
            before, after = plan.by_name[move.source].placement, plan.by_name[move.target].placement
            return permuted_pairs(plan.mesh, before, after)
    return ()
