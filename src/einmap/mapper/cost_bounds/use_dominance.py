"""Uses of the fanouts below a network that are never better than others, by their coefficients of cost.

Compared are uses with the same lanes over each axis at each level: tile shapes, occupancy and instances are equal then,
and so is what fills each node. They differ in which fanout runs what, and in the order of loops, which decide about
hops and links. A node costs `rate * F + fixed` in each column, so that a use whose rates are no higher than those of
another one, and whose costs are no higher where `F` is the least that it can be, costs no more in any mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.coefficients import Pricer
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable, number_of_orders, with_orders
from einmap.mapper.mapspace.lanes.lane_dominance import best_of_groups, row_numbers
from einmap.mapper.mapspace.layout import least_fills
from einmap.mapper.templates.chain_template import ChainTemplate, Held

ROUNDING = 1e-12
"""Costs that differ by less of themselves are equal."""
MOST_ORDERS = 1_000_000
"""Uses with their orders that are looked at."""
# 400,000 and 40,000,000 take as long within 5 % (mapper_topologies.py, 4 x 4 lanes): 32 MB at a time
AT_ONCE = 4_000_000
"""Coefficients that are compared together, but for those of one group of uses."""


def undominated(pricer: Pricer, goals: Sequence[str], plans: Sequence[ChainTemplate], lanes: LaneTable) -> LaneTable:
    """The uses of some plans, in every order, without those that are never better than others of the table.

    Where there are too many orders to look at, those of the first uses; the table is not complete then.
    """
    if not len(lanes) or not lanes.dimensions:
        return lanes
    number = number_of_orders(lanes, pricer.leaves)
    first = np.cumsum(number) <= MOST_ORDERS
    looked_at = lanes.only(np.flatnonzero(first))
    group = _groups(looked_at)
    order = np.argsort(group, kind="stable")
    columns = _columns(pricer, goals, lanes)
    most = max(1, AT_ONCE // (2 * len(columns) * max(1, len(_nodes(pricer, plans)))))
    kept: list[LaneTable] = []
    for rows in _batches(order, group[order], number[first][order], most):
        part = with_orders(looked_at.only(rows), pricer.leaves, np.inf)
        again = _groups(part)
        if len(part) > again.max() + 1:
            costs = _coefficients(pricer, plans, part, columns)
            part = part.only(_least(costs, again))
        kept.append(part)
    fewer = replace(
        lanes,
        bounds=np.concatenate([part.bounds for part in kept] or [lanes.bounds[:0]]),
        shapes=np.concatenate([part.shapes for part in kept] or [lanes.shapes[:0]]),
        orders=np.concatenate([part.orders for part in kept] or [lanes.orders[:0]]),
        complete=lanes.complete and bool(first.all()),
        unordered=False,
        part_of=None,
    )
    fullest = np.argsort(-fewer.bounds.reshape(len(fewer), -1).prod(axis=1), kind="stable")
    return replace(fewer.only(fullest), part_of=None)


def _columns(pricer: Pricer, goals: Sequence[str], lanes: LaneTable) -> Ints:
    """The columns of cost on which the objectives depend; on all where leakage costs energy for as long as it runs."""
    columns = np.arange(pricer.columns.n)
    if set(goals) == {"latency"}:
        return columns[1:]
    leaks = bool(pricer.leak_power(lanes).any())
    timeless = {"dynamic_energy"} if leaks else {"dynamic_energy", "energy"}
    return columns[:1] if timeless.issuperset(goals) else columns


def _batches(order: Ints, group: Ints, number: Ints, most: int) -> Iterator[Ints]:
    """Rows in their order, whole groups of them at a time that have so many orders, or one group that has more."""
    ends = np.append(np.flatnonzero(np.diff(group)) + 1, len(order)) if len(order) else np.zeros(0, dtype=np.int64)
    total = np.concatenate([[0], np.cumsum(number)])
    begin = 0
    while begin < len(order):
        fitting = ends[(ends > begin) & (total[ends] <= total[begin] + most)]
        end = int(fitting[-1]) if len(fitting) else int(ends[ends > begin][0])
        yield order[begin:end]
        begin = end


def _groups(lanes: LaneTable) -> Ints:
    """Equal numbers for uses with the same lanes over each axis at each level."""
    levels = sorted(set(lanes.levels.tolist()))
    same = [lanes.bounds[:, lanes.levels == level].prod(axis=1) for level in levels]
    numbers: Ints = np.unique(row_numbers(same), return_inverse=True)[1]
    return numbers


def _nodes(pricer: Pricer, plans: Sequence[ChainTemplate]) -> dict[object, tuple[ChainTemplate, Held]]:
    """The nodes of some plans, one of those whose costs cannot differ."""
    found: dict[object, tuple[ChainTemplate, Held]] = {}
    for plan in plans:
        for node in (step.node for step in plan.steps if step.node is not None):
            tail = pricer.tail(plan.chains[node.tensor], node.level)
            found.setdefault((node.tensor, node.level, node.within, tail), (plan, node))
    return found


def _coefficients(pricer: Pricer, plans: Sequence[ChainTemplate], lanes: LaneTable, columns: Ints) -> Floats:
    """Coefficients of each use that are compared: the lower each number is the better."""
    return np.concatenate([*_each_coefficient(pricer, plans, lanes, columns)], axis=1)


def _each_coefficient(
    pricer: Pricer, plans: Sequence[ChainTemplate], lanes: LaneTable, columns: Ints
) -> Iterator[Floats]:
    yield pricer.leak_power(lanes)[:, None]
    ends: dict[object, ChainTemplate] = {}
    for plan in plans:
        ends.setdefault(tuple((t, pricer.last_exchange(chain)) for t, chain in sorted(plan.chains.items())), plan)
    for plan in ends.values():
        yield pricer.constants(lanes, plan.chains)[:, columns]
    fills = least_fills(pricer.lattice, pricer.einsum)
    least = {access.tensor: float(values) for access, values in zip(pricer.einsum.accesses, fills, strict=True)}
    for plan, node in _nodes(pricer, plans).values():
        chain = plan.chains[node.tensor]
        rates, fixed, per_visit = pricer.node(lanes, node.tensor, chain, node.level, node.within)
        none = np.array([r is Relevance.NONE for r in pricer.axis_relevance[node.tensor]], dtype=bool)
        filled = least[node.tensor] * lanes.over(lanes.levels <= node.level, none)
        yield rates[:, columns]
        yield (rates * filled[:, None] + fixed)[:, columns]
        yield per_visit


def _least(costs: Floats, group: Ints) -> Ints:
    """Rows for which no other one of their group is as small everywhere; of equal ones the first."""
    varies: Bools = (costs != costs[np.unique(group, return_index=True)[1]][group]).any(axis=0)
    costs = costs[:, varies]
    scale = np.maximum(np.abs(costs).max(axis=0, initial=0.0), np.finfo(np.float64).tiny)
    # what is as small as another row everywhere, and smaller somewhere, comes before it
    order = np.lexsort(((costs / scale).sum(axis=1), group))

    def dominated(rows: Ints, others: Ints) -> Bools:
        own = costs[rows]
        as_small: Bools = (costs[others] <= own + ROUNDING * np.abs(own)).all(axis=1)
        return as_small

    return best_of_groups(group, order, dominated)
