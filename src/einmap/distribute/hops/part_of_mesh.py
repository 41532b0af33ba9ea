"""Tensors on a part of the mesh: sent from there to all PEs along an axis, summed up there, or kept there only.

Both go along a binomial tree: in each round every PE that has the tensor sends it to one that lacks it, half as far
away as in the round before, or every other PE that has an addend sends it to the next one that has, twice as far
away. n PEs need n - 1 messages in log2 n rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from einmap.distribute.hops.hop import Hop
from einmap.distribute.hops.routes import Routes
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Placement, filled_parts, values_of
from einmap.distribute.plans.collectives import Kind, Pairs, tree_rounds
from einmap.einsum.operation import Reduction
from einmap.einsum.spaces.projection import Rank

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
                yield part, _along_tree(mesh, sizes, "broadcast", (axis, place), part, everywhere)
                yield everywhere, Hop("slice", (axis,), part, values, values, 0)
            for reduction in (part.reduction,) if part.partial else _REDUCTIONS:
                addends = Placement(part.splits, (*part.partial, axis), reduction, on)
                if addends in known:
                    yield addends, _along_tree(mesh, sizes, "reduce", (axis, place), addends, part)


def broadcast_rounds(parts: int, root: int) -> tuple[Pairs, ...]:
    """Who sends to whom, round by round, so that all PEs get what the one at `root` has."""
    made: list[Pairs] = []
    for doubling in reversed(range(tree_rounds(parts))):
        # far first: then no two messages of a round pass through the same link of a ring or a tree
        gap = 2**doubling
        some = range(0, parts - gap, 2 * gap)
        made.append(tuple(((root - one) % parts, (root - one - gap) % parts) for one in some))
    return tuple(made)


def reduce_rounds(parts: int, root: int) -> tuple[Pairs, ...]:
    """Who sends its addend to whom, round by round, so that the PE at `root` has the sum of all."""
    backwards = reversed(broadcast_rounds(parts, root))
    return tuple(tuple((receiver, sender) for sender, receiver in pairs) for pairs in backwards)


def _along_tree(
    mesh: Mesh,
    sizes: Mapping[Rank, int],
    kind: Kind,
    root: tuple[AxisName, int],
    here: Placement,
    after: Placement,
) -> Hop:
    axis, place = root
    parts, values = mesh.size(axis), values_of(sizes, here)
    messages = (parts - 1) * mesh.n_devices // parts
    # of the PEs that could send in each round
    senders = (parts - 1) / (parts * tree_rounds(parts))
    made = (reduce_rounds if kind == "reduce" else broadcast_rounds)(parts, place)
    routes = Routes((parts,), made, filled_parts(mesh, sizes, here, (axis,)))
    return Hop(kind, (axis,), after, values, values, messages * values, senders=senders, routes=routes)
