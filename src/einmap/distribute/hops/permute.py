"""PEs that exchange whole blocks: another placement whose blocks have the same shape.

Blocks of `A: x*y` and of `A: y*x` are the same, only other PEs hold them. Nothing is joined or cut, so each PE whose
block changes sends one block and gets one, in one message. Over axes that mean the same in both placements nothing is
sent: the exchange is the same in every group over the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.hops.hop import Hop
from einmap.distribute.hops.routes import Routes
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Placement, filled_parts, values_of
from einmap.distribute.plans.collectives import Pairs
from einmap.einsum.spaces.projection import Rank

type _Role = tuple[str, int]
"""The use of an axis: a rank (`=` for addends) that it splits, and the blocks that one step along the axis passes."""

_ADDENDS = "="


def permute_hops(
    mesh: Mesh, sizes: Mapping[Rank, int], placements: Sequence[Placement]
) -> Iterator[tuple[Placement, Hop]]:
    """Each placement with each permute from there to another one of `placements`."""
    alike: dict[object, list[Placement]] = {}
    for placement in placements:
        if placement.on:
            continue
        alike.setdefault(_blocks(mesh, placement), []).append(placement)
    for some in alike.values():
        values = values_of(sizes, some[0])
        for here in some:
            for after in some:
                if after != here:
                    yield here, _permute(mesh, sizes, here, after, values)


def permuted_axes(mesh: Mesh, before: Placement, after: Placement) -> tuple[AxisName, ...]:
    """The axes over which blocks are exchanged, in the order of the mesh: those that do not mean the same in both."""
    old, new = _roles(mesh, before, after), _roles(mesh, after, before)
    return tuple(axis for axis in mesh.names if old.get(axis) != new.get(axis))


def permuted_pairs(mesh: Mesh, before: Placement, after: Placement) -> Pairs:
    """Who sends its block to whom in each group over `permuted_axes`. A PE that has its block already is in no pair.

    mesh x=2, y=2: from M: x*y to M: y*x the pairs are ((1, 2), (2, 1)).
    """
    axes = permuted_axes(mesh, before, after)
    old, new = _roles(mesh, before, after), _roles(mesh, after, before)
    return _matched(
        tuple(mesh.size(axis) for axis in axes),
        tuple(old.get(axis) for axis in axes),
        tuple(new.get(axis) for axis in axes),
    )


def _blocks(mesh: Mesh, placement: Placement) -> object:
    """The key that placements share between which blocks can be exchanged."""
    splits = tuple((split.rank, split.block, split.halo, mesh.parts(split.axes)) for split in placement.splits)
    return splits, mesh.parts(placement.partial), placement.reduction


def _permute(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, after: Placement, values: int) -> Hop:
    axes = permuted_axes(mesh, here, after)
    pairs = permuted_pairs(mesh, here, after)
    senders = len(pairs) * mesh.n_devices // mesh.parts(axes)
    routes = _routes(tuple(mesh.size(axis) for axis in axes), pairs, filled_parts(mesh, sizes, here, axes))
    part = senders / mesh.n_devices
    return Hop("permute", axes, after, values, values, senders * values, senders=part, routes=routes)


@lru_cache(maxsize=10_000)
def _routes(sizes: tuple[int, ...], pairs: Pairs, filled: tuple[float, ...]) -> Routes:
    """Equal routes are one object, whose loads are worked out once."""
    return Routes(sizes, (pairs,), filled)


def _roles(mesh: Mesh, placement: Placement, other: Placement) -> dict[AxisName, _Role]:
    """The use of each axis. Which addend is which is of no matter, so axes with addends in both keep theirs."""
    both = [axis for axis in placement.partial if axis in other.partial]
    addends = (*both, *(axis for axis in placement.partial if axis not in both))
    lists = [(split.rank, split.axes) for split in placement.splits] + [(_ADDENDS, addends)]
    return {axis: (what, mesh.parts(axes[place + 1 :])) for what, axes in lists for place, axis in enumerate(axes)}


@lru_cache(maxsize=10_000)
def _matched(shape: tuple[int, ...], old: tuple[_Role | None, ...], new: tuple[_Role | None, ...]) -> Pairs:
    """Pairs in a group of that shape. Of several PEs that have a block, the first one sends to the first that needs
    it.
    """
    ranks = sorted({role[0] for role in (*old, *new) if role})
    before, after = _positions(shape, old, ranks), _positions(shape, new, ranks)
    parts = np.maximum(before, after).max(axis=1, initial=0) + 1
    weights = np.cumprod([1, *parts[:-1]])[: len(ranks)]
    before, after = weights @ before, weights @ after
    moving = np.nonzero(before != after)[0]
    senders = moving[np.argsort(before[moving], kind="stable")]
    receivers = moving[np.argsort(after[moving], kind="stable")]
    return tuple(sorted(zip(senders.tolist(), receivers.tolist(), strict=True)))


def _positions(shape: tuple[int, ...], roles: tuple[_Role | None, ...], ranks: Sequence[str]) -> NDArray[np.int64]:
    """The position of the block of each PE of a group (columns) in each rank (rows)."""
    positions = np.zeros((len(ranks), math.prod(shape)), dtype=np.int64)
    for steps, role in zip(np.indices(shape).reshape(len(shape), math.prod(shape)), roles, strict=True):
        if role is not None:
            positions[ranks.index(role[0])] += steps * role[1]
    return positions
