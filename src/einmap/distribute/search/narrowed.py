"""A smaller space: some ways of Einsums and some homes of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.search.bounds import Key
from einmap.distribute.search.homes import Costs, Homes, Numbers, pairs_of_homes
from einmap.distribute.search.space import SearchSpace, Ways
from einmap.einsum.einsum import TensorName

type Mask = NDArray[np.bool_]

MAX_LISTED = 50_000
"""Pairs of homes of a tensor that are listed."""


def narrowed(space: SearchSpace, kept: Mapping[Key, Mask]) -> SearchSpace:
    """The space with the ways and homes that are kept; an Einsum or tensor that is not named keeps all of them.

    Homes that another one replaces for all ways that are kept are left out, unless memory is limited. Pairs of homes
    that were not listed are listed now, where they are few. What is equal stays one object.
    """
    ways, homes = dict(space.ways), dict(space.homes)
    made_ways: dict[object, Ways] = {}
    made_homes: dict[object, Homes] = {}
    for name in ways.keys() & kept.keys():
        some, mask = ways[name], kept[name]
        if not mask.all():
            ways[name] = made_ways.setdefault((some, _digest(mask)), some.only(mask))
    smaller = replace(space, ways=ways)
    for tensor, given in space.homes.items():
        mask = kept.get((tensor,), np.ones(_shape(given), dtype=bool))
        users = [some.used[position] for some, position in _users(smaller, tensor)]
        kind = given, _digest(mask), *_users(smaller, tensor)
        if kind not in made_homes:
            made_homes[kind] = _some_homes(given, mask, users)
        homes[tensor] = made_homes[kind]
    return replace(smaller, homes=homes, cut=tuple(tensor for tensor in homes if homes[tensor].cut))


def _shape(homes: Homes) -> tuple[int, ...]:
    return (len(homes.first), len(homes.paths.distances)) if homes.cut else (len(homes.first),)


def _users(space: SearchSpace, tensor: TensorName) -> list[tuple[Ways, int]]:
    """The ways of those that write and read it, and which of their accesses it is."""
    workload = space.context.workload
    names = [*([workload.producers[tensor]] if tensor in workload.producers else []), *workload.consumers[tensor]]
    return [
        (space.ways[name], [access.tensor for access in workload.by_name[name].accesses].index(tensor))
        for name in names
    ]


def _digest(mask: Mask) -> bytes:
    return blake2b(mask.tobytes()).digest()


def _some_homes(homes: Homes, mask: Mask, users: Sequence[Numbers]) -> Homes:
    """`users`: the placements of the producer, if there is one, and of each reader."""
    role = homes.role
    if homes.cut:
        few = np.count_nonzero(mask) <= MAX_LISTED
        kept = pairs_of_homes(homes, mask) if few else homes.only(mask.any(axis=1))
    else:
        kept = homes.only(mask)
    if role.limited or role.pinned or kept.cut or not role.needs:
        return kept
    made: Costs = kept.costs[:, None]
    if role.produced is not None:
        made = made + kept.paths.distances[np.ix_(users[0], kept.first)].T
    reads = [kept.reach[:, reader] for reader in users[len(users) - len(role.needs) :]]
    return kept.only(_not_replaced(np.hstack([made, *reads])))


def _not_replaced(costs: Costs) -> Numbers:
    """Rows that no other row replaces at no higher cost in any column; of equal ones the first."""
    _, first = np.unique(costs, axis=0, return_index=True)
    rows = first[np.argsort(costs[first].sum(axis=1), kind="stable")]
    kept: list[int] = []
    while len(rows):
        kept.append(int(rows[0]))
        rows = rows[~(costs[rows[0]] <= costs[rows]).all(axis=1)]
    return np.array(sorted(kept), dtype=np.intp)
