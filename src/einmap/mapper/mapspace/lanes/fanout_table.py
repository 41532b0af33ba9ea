"""All uses of the fanouts of an architecture path, as arrays: a bound for each dimension and lattice axis.

Uses that nothing can tell apart (the same lanes of each kind of dimension over each axis) are one. Dimensions of one
component are of one kind if they reuse the same tensors and are gated alike. Below a network the order of a dimension's
loops counts, and is a part of its use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np

from einmap.arch.component import Leaf, Memory, Network, SpatialDimension
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace.lanes.dimension_ways import ways_with_shapes
from einmap.mapper.mapspace.lanes.lane_dominance import Sharing, row_numbers
from einmap.mapper.mapspace.lanes.spatial_mappings import first_routed
from einmap.mapper.mapspace.tile_lattice import Lattice

FEW_USES = 10_000
"""Uses of the fanouts for all of which something may be worked out where it is needed for some."""

MOST_USES = 100_000
"""Uses of the first dimensions that are looked at; of more of them the fullest, and the emptiest one."""
MOST_NUMBERS = 5_000_000
"""Numbers in the bounds of all uses where more may be looked at, 40 MB."""
FEWEST_HELD = 400_000
"""Uses of the first dimensions that there is room for in any case while one more is added."""
AT_ONCE = 1_000_000
"""Numbers of lanes that are looked at together when one more dimension is added."""

HURRIED = 1_000
"""Uses of the first dimensions that are looked at once there is no time for more."""


@dataclass(frozen=True)
class Fanned:
    """One dimension that may be used, at `level` of the path."""

    level: int
    component: str
    dimension: SpatialDimension


@dataclass(frozen=True, eq=False)
class LaneTable:
    """`bounds[i, d, a]`: lanes of use `i` on dimension `d` over axis `a`.

    `shapes[i, d, a]`: the tile shape of a lane where the lanes do not share the bound evenly (the last one has less),
    else 0. Such a loop is the outermost one over its axis. `tops[a]`: bound of an axis. `complete`: all uses are there.
    `orders[i, d]`: axes of the loops of dimension `d` from the outside in; `unordered`: each use stands for all orders.
    `at_once`: costs above a fanout depend on lanes further in, so that a use is chosen as a whole with its first lanes.
    `part_of`: the table that these uses are some of, and their rows there. `ended`: there was no time to list all.
    """

    dimensions: tuple[Fanned, ...]
    bounds: Ints
    shapes: Ints
    tops: Ints
    orders: Ints
    complete: bool = True
    unordered: bool = False
    at_once: bool = False
    part_of: tuple[LaneTable, Ints] | None = None
    ended: bool = False

    def __len__(self) -> int:
        return len(self.bounds)

    def over(self, chosen: Bools, axes: Bools) -> Floats:
        """Lanes on some dimensions over some axes, for each use; uneven ones as if all were as full as the fullest."""
        picked = self.shares[:, chosen][:, :, axes]
        lanes: Floats = picked.prod(axis=(1, 2))
        return lanes

    def counted(self, chosen: Bools, axes: Bools) -> Floats:
        """For each use of the fanouts the lanes of some dimensions (`chosen`) over some `axes`; the last may idle."""
        picked = self.bounds[:, chosen][:, :, axes]
        return picked.prod(axis=(1, 2)).astype(np.float64)

    @cached_property
    def shares(self) -> Floats:
        """How many lanes as full as the fullest one there would be."""
        return np.where(self.shapes > 0, self.tops / np.maximum(self.shapes, 1), self.bounds)

    @cached_property
    def levels(self) -> Ints:
        """Level of each dimension."""
        return np.array([d.level for d in self.dimensions], dtype=np.int64)

    def only(self, rows: Ints) -> LaneTable:
        """Some of the uses."""
        whole, numbers = self.part_of or (self, np.arange(len(self)))
        return replace(
            self,
            bounds=self.bounds[rows],
            shapes=_some(self.shapes, rows),
            orders=_some(self.orders, rows),
            part_of=(whole, numbers[rows]),
        )

    def use(self, row: int) -> tuple[Ints, Ints, Ints]:
        """Bounds, uneven tile shapes and orders of the axes of one use, a row for each dimension."""
        return self.bounds[row], self.shapes[row], self.orders[row]

    def tobytes(self) -> bytes:
        """Equal for tables with equal uses of as many dimensions."""
        return self.bounds.tobytes() + self.shapes.tobytes() + self.orders.tobytes()

    def digest(self) -> bytes:
        """Equal for tables with equal uses of as many dimensions, and short."""
        return hashlib.blake2b(self.tobytes(), digest_size=32).digest()

    @cached_property
    def known(self) -> dict[Hashable, Any]:
        """Values worked out for all of the uses, by those who need them again."""
        return {}

    @property
    def kept_with(self) -> tuple[LaneTable, Ints | None]:
        """The table with which what is worked out is kept, and the rows of these uses there, None for all.

        Use by use it is the same for all that are a part of one table, unless this has too many uses.
        """
        if self.part_of is None or len(self.part_of[0]) > FEW_USES:
            return self, None
        return self.part_of


def _some(values: Ints, rows: Ints) -> Ints:
    """Some rows of an array; where all rows are one in memory they stay that."""
    if len(values) and not values.strides[0]:
        return np.broadcast_to(values[0], (len(rows), *values.shape[1:]))
    return values[rows]


type Uses = tuple[Ints, Ints]
"""Bounds and shapes, a row for each use."""


def lane_table(
    einsum: Einsum,
    leaves: tuple[Leaf, ...],
    lattice: Lattice,
    named: frozenset[tuple[str, str]] = frozenset(),
    *,
    uneven: bool = False,
    most: float = MOST_USES,
    stopped: Callable[[], bool] = bool,
    shares: bool = True,
) -> LaneTable:
    """The uses of `unordered_lanes` with every order of lanes that are places of a network, at most `most` of them."""
    table = unordered_lanes(einsum, leaves, lattice, named, uneven=uneven, most=most, stopped=stopped, shares=shares)
    return with_orders(table, leaves, most)


def unordered_lanes(
    einsum: Einsum,
    leaves: tuple[Leaf, ...],
    lattice: Lattice,
    named: frozenset[tuple[str, str]] = frozenset(),
    *,
    uneven: bool = False,
    most: float = MOST_USES,
    stopped: Callable[[], bool] = bool,
    shares: bool = True,
) -> LaneTable:
    """All uses that keep fanouts, `reuse`, `loop_bounds`, `usage_scale` and, as far as it goes, `min_usage`.

    Without those that are never better than others (see `lane_dominance`), unless `shares` is False.

    Dimensions in `named` (component and name) are told apart from others of their kind. `uneven`: lanes need not
    share a bound evenly where the axis has tile shapes for that. `most`: of more uses of the first dimensions only the
    fullest are looked at, and the emptiest one. `stopped`: whether time is over, from when on that is so of far fewer.
    """
    dimensions = tuple(
        Fanned(level, leaf.name, dimension) for level, leaf in enumerate(leaves) for dimension in leaf.spatial
    )
    n = len(lattice.axes)
    table = np.ones((1, 0, n), dtype=np.int64), np.zeros((1, 0, n), dtype=np.int64)
    tops = np.array([axis.sizes[-1] for axis in lattice.axes], dtype=np.int64)
    loose = np.array([axis.loose for axis in lattice.axes], dtype=bool)
    routed = first_routed(leaves)
    named = named | {
        (f.component, f.dimension.name) for f in dimensions if f.dimension.skew != "none" or f.level >= routed
    }
    apart = [f.dimension.min_usage > 0 or (f.component, f.dimension.name) in named for f in dimensions]
    sharing = None
    if shares and not any(axis.uneven for axis in lattice.axes):
        sharing_dimensions = [(f.level, f.dimension, alone) for f, alone in zip(dimensions, apart, strict=True)]
        sharing = Sharing(einsum, leaves, lattice, sharing_dimensions)
    kinds, complete = list[object](), True
    for number, (fanned, alone) in enumerate(zip(dimensions, apart, strict=True)):
        # below uneven lanes a loop must follow: lanes of another dimension, or what stands below a node between
        below = number + 1 < len(dimensions) or any(isinstance(leaf, Memory) for leaf in leaves[fanned.level :])
        below &= not fanned.dimension.vector
        options = ways_with_shapes(einsum, fanned.dimension, lattice, uneven and below)
        kinds.append(_kind(einsum, fanned, apart=len(kinds) if alone else -1))
        if stopped():
            complete, most = False, min(most, HURRIED)
            table = _few(table, most)
        table, are_all = _extended(table, options, tops, loose, kinds, sharing, most, stopped)
        complete &= are_all and len(table[0]) <= most
        table = _few(table, most)
    at_once, ended = _at_once(einsum, leaves), not complete and stopped()
    if not len(table[0]):
        return LaneTable(dimensions, *table, tops, _as_listed(table), complete, at_once=at_once, ended=ended)
    table = _best_used(einsum, dimensions, table)
    numbers = [d if (f.component, f.dimension.name) in named else -1 for d, f in enumerate(dimensions)]
    kinds = [_kind(einsum, f, number) for f, number in zip(dimensions, numbers, strict=True)]
    table = _rows(table, _distinct(table, kinds))
    fullest = np.argsort(-table[0].reshape(len(table[0]), -1).prod(axis=1), kind="stable")
    table = _rows(table, fullest)
    if not table[1].any():
        table = table[0], np.broadcast_to(np.zeros_like(table[1][:1]), table[1].shape)
    return LaneTable(dimensions, *table, tops, _as_listed(table), complete, True, at_once, ended=ended)


def _best_used(einsum: Einsum, dimensions: Sequence[Fanned], table: Uses) -> Uses:
    """The uses that keep `min_usage` as far as it can be reached, dimension by dimension."""
    for d, fanned in enumerate(dimensions):
        if einsum.is_copy or fanned.dimension.min_usage <= 0:
            continue
        usage = table[0][:, d].prod(axis=1) / fanned.dimension.fanout * fanned.dimension.usage_scale
        table = _rows(table, np.flatnonzero(usage >= min(fanned.dimension.min_usage, usage.max())))
    return table


def _at_once(einsum: Einsum, leaves: Sequence[Leaf]) -> bool:
    """Whether a network further in may carry less since lanes reduce: how much depends on the lanes that it reaches.

    Lanes of a group that are not its first one start anew at each visit of a node above the network. On a bus or in a
    tree that saves as much wherever a lane stands.
    """
    outputs = {access.tensor for access in einsum.accesses if access.output}
    reducing = [i for i, leaf in enumerate(leaves) if any(outputs & d.may_reuse for d in leaf.spatial)]
    carrying = [
        i for i, leaf in enumerate(leaves) if isinstance(leaf, Network) and leaf.topology not in ("bus", "tree")
    ]
    return bool(reducing and carrying) and reducing[0] < carrying[-1]


def with_orders(table: LaneTable, leaves: Sequence[Leaf], most: float) -> LaneTable:
    """The uses of a table with every order of lanes that are places of a network.

    The first `most` of them; the table is not complete where that leaves some out.
    """
    if not table.unordered:
        return table
    matter = _are_placed(table, leaves).tolist()
    if not any(matter):
        return replace(table, unordered=False)
    rows, orders = _ordered(table.bounds, matter)
    kept = np.arange(int(min(most, len(rows))))
    complete = table.complete and len(rows) <= most
    ordered = replace(table, bounds=table.bounds[rows[kept]], shapes=table.shapes[rows[kept]], orders=orders[kept])
    return replace(ordered, complete=complete, unordered=False, part_of=None)


def _are_placed(table: LaneTable, leaves: Sequence[Leaf]) -> Bools:
    """Dimensions whose lanes are places of a network."""
    return np.array([f.level >= first_routed(leaves) for f in table.dimensions], dtype=bool)


def number_of_orders(table: LaneTable, leaves: Sequence[Leaf]) -> Ints:
    """Orders of each use of a table, of lanes that are places of a network."""
    if not table.unordered:
        return np.ones(len(table), dtype=np.int64)
    ways = np.array([factorial(n) for n in range(table.bounds.shape[2] + 1)], dtype=np.int64)
    used = np.where(_are_placed(table, leaves), (table.bounds > 1).sum(axis=2), 0)
    orders: Ints = ways[used].prod(axis=1)
    return orders


def _as_listed(table: Uses) -> Ints:
    """The axes in the order in which they are listed, for each use and dimension."""
    return np.broadcast_to(np.arange(table[0].shape[2]), table[0].shape)


def _ordered(bounds: Ints, routed: Sequence[bool]) -> tuple[Ints, Ints]:
    """Every order of the loops of each dimension that is `routed`: rows of the table, and their orders.

    Axes that have one lane stand behind, as they are listed.
    """
    if not bounds.size:
        return np.arange(len(bounds)), bounds
    rows, orders = [], []
    axes = range(bounds.shape[2])
    patterns, pattern_of = np.unique(bounds.reshape(len(bounds), -1) > 1, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns.reshape(-1, *bounds.shape[1:])):
        ways: list[tuple[tuple[int, ...], ...]] = [()]
        for used, matters in zip(pattern.tolist(), routed, strict=True):
            idle = [a for a in axes if not used[a]]
            ordered = permutations([a for a in axes if used[a]])
            mine = [(*order, *idle) for order in ordered] if matters else [tuple(axes)]
            ways = [(*way, order) for way in ways for order in mine]
        alike = np.flatnonzero(pattern_of.ravel() == number)
        rows.append(np.repeat(alike, len(ways)))
        orders.append(np.tile(np.array(ways, dtype=np.int64).reshape(len(ways), *bounds.shape[1:]), (len(alike), 1, 1)))
    row = np.concatenate(rows)
    in_order = np.argsort(row, kind="stable")
    return row[in_order], np.concatenate(orders)[in_order]


def _few(table: Uses, most: float) -> Uses:
    """The fullest uses, and the emptiest one."""
    if len(table[0]) <= most:
        return table
    fullest = np.argsort(-table[0].reshape(len(table[0]), -1).prod(axis=1), kind="stable")
    return _rows(table, np.append(fullest[: int(most) - 1], fullest[-1]))


def _extended(
    table: Uses,
    options: Uses,
    tops: Ints,
    loose: Bools,
    kinds: list[object],
    sharing: Sharing | None,
    most: float,
    stopped: Callable[[], bool],
) -> tuple[Uses, bool]:
    """Every use so far with every option of one more dimension, without what needs no looking at; part by part.

    Of far more than `most` only the fullest are kept; the second value is whether all are there.
    """

    def needed(parts: Sequence[Uses]) -> Uses:
        bounds, shapes = (
            np.concatenate([part[i] for part in parts]) if len(parts) > 1 else parts[0][i] for i in (0, 1)
        )
        uses = _rows((bounds, shapes), _distinct((bounds, shapes), kinds))
        return uses if sharing is None else _rows(uses, sharing.best(uses[0]))

    rows = max(1, AT_ONCE // max(1, options[0].size))
    parts: list[Uses] = []
    complete = True
    # of no uses, too, there is a part: they have the dimension all the same
    for i in range(0, max(1, len(table[0])), rows):
        if parts and stopped():
            complete = False
            break
        some = _rows(table, np.arange(i, min(i + rows, len(table[0]))))
        parts.append(needed([_combined(some, options, tops, loose)]))
        if sum(len(part[0]) for part in parts) > max(2 * most, FEWEST_HELD):
            whole = needed(parts)
            complete &= len(whole[0]) <= most
            parts = [_few(whole, most)]
    return (parts[0] if len(parts) == 1 else needed(parts)), complete


def _rows(table: Uses, rows: Ints) -> Uses:
    return table[0][rows], table[1][rows]


def _kind(einsum: Einsum, fanned: Fanned, apart: int) -> object:
    d = fanned.dimension
    return fanned.level, d.may_reuse & einsum.tensors, d.power_gateable, apart


def _combined(table: Uses, options: Uses, tops: Ints, loose: Bools) -> Uses:
    """Every use so far with every option of one more dimension, where the tile shapes still work out.

    What is left of a bound must be divided evenly; where a temporal loop above may have left any tile shape only the
    product of lanes is limited. Uneven lanes come first.
    """
    bounds, shapes = table
    used = bounds.prod(axis=1)
    left = np.where((shapes > 0).any(axis=1), shapes.max(axis=1, initial=0), tops)
    evenly = (shapes > 0).any(axis=1) | ~loose
    inside = np.where(shapes > 0, 1, bounds).prod(axis=1)
    fits = np.where(
        evenly[:, None, :],
        (left // inside)[:, None, :] % options[0][None, :, :] == 0,
        used[:, None, :] * options[0][None, :, :] <= tops,
    )
    fits = np.where((options[1] > 0)[None, :, :], (used == 1)[:, None, :], fits)
    rows, more = np.nonzero(fits.all(axis=2))
    return (
        np.concatenate([bounds[rows], options[0][more][:, None, :]], axis=1),
        np.concatenate([shapes[rows], options[1][more][:, None, :]], axis=1),
    )


def _distinct(table: Uses, kinds: list[object]) -> Ints:
    """The first of each group of rows whose lanes are the same for every kind of dimension."""
    merged = []
    for group in dict.fromkeys(kinds):
        members = [i for i, kind in enumerate(kinds) if kind == group]
        merged += [table[0][:, members].prod(axis=1), table[1][:, members].max(axis=1)]
    if not merged:
        return np.array([0])
    _, first = np.unique(row_numbers(merged), return_index=True)
    return np.sort(first)


def most_uses(leaves: Sequence[Leaf], lattice: Lattice) -> int:
    """Uses of the fanouts for which there is room where a search takes little of it for each."""
    numbers = sum(len(leaf.spatial) for leaf in leaves) * len(lattice.axes)
    return max(MOST_USES, MOST_NUMBERS // max(numbers, 1))
