"""Tensors on a part of the mesh: sent from there to all PEs along an axis, summed up there, or kept there only.

Both go along a binomial tree: in each round every PE that has the tensor sends it to one that lacks it, or every PE
of the further half sends its addend to one of the nearer half. n PEs need n - 1 messages in log2 n rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from einmap.distribute.collectives import Kind, Pairs, tree_rounds
from einmap.distribute.hops.hop import Hop
from einmap.distribute.mesh import AxisName, Mesh
from einmap.distribute.placement import Placement, values_of
from einmap.einsum.operation import Reduction
from einmap.einsum.projection import Rank

_REDUCTIONS: tuple[Reduction, ...] = ("sum", "max", "min")


def part_hops(
    mesh: Mesh, sizes: Mapping[Rank, int], placements: Sequence[Placement]
) -> Iterator[tuple[Placement, Hop]]:
    """Each placement with each move to or from one that differs in one axis of `on` only."""
    known = set(placements)
    for part in placements:
        for axis, place in part.on:
            on = tuple(one for one in part.on if one != (axis, place))
            everywhere = replace(part, on=on)
            values = values_of(sizes, part)
            if everywhere in known:
                yield part, _along_tree(mesh, "broadcast", axis, everywhere, values)
                yield everywhere, Hop("slice", (axis,), part, values, values, 0)
            for reduction in (part.reduction,) if part.partial else _REDUCTIONS:
                addends = Placement(part.splits, (*part.partial, axis), reduction, on)
                if addends in known:
                    yield addends, _along_tree(mesh, "reduce", axis, part, values)


def broadcast_rounds(parts: int, root: int) -> tuple[Pairs, ...]:
    """Who sends to whom, round by round, so that all PEs get what the one at `root` has."""
    made: list[Pairs] = []
    have = 1
    while have < parts:
        some = range(min(have, parts - have))
        made.append(tuple(((root + one) % parts, (root + one + have) % parts) for one in some))
        have *= 2
    return tuple(made)


def reduce_rounds(parts: int, root: int) -> tuple[Pairs, ...]:
    """Who sends its addend to whom, round by round, so that the PE at `root` has the sum of all."""
    backwards = reversed(broadcast_rounds(parts, root))
    return tuple(tuple((receiver, sender) for sender, receiver in pairs) for pairs in backwards)


def _along_tree(mesh: Mesh, kind: Kind, axis: AxisName, after: Placement, values: int) -> Hop:
    parts = mesh.size(axis)
    messages = (parts - 1) * mesh.n_devices // parts
    # of the PEs that could send in each round
    senders = (parts - 1) / (parts * tree_rounds(parts))
    return Hop(kind, (axis,), after, values, values, messages * values, senders=senders)
