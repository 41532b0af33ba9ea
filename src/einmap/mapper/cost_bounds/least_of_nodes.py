"""Least costs of storage nodes, wherever they stand: all of a tensor fills each once at least, for each lane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np

from einmap.arrays import Floats
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.coefficients import Chain, Pricer
from einmap.mapper.cost_bounds.path_costs import PathCosts
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.layout import least_fills
from einmap.mapper.templates.chain_template import ChainTemplate

type Places = tuple[tuple[int, int], ...]
"""Level and deepest level further in of each of a tensor's nodes but the outermost one, outer ones first."""
type Way = tuple[Chain, Places]
"""How a tensor is held: its chain and its nodes."""


def places_of(plan: ChainTemplate, tensor: str) -> Places:
    """Where a plan holds a tensor."""
    nodes = (step.node for step in plan.steps if step.node is not None and not step.node.backing)
    return tuple((node.level, node.within) for node in nodes if node.tensor == tensor)


def least_of_node(
    pricer: Pricer, lanes: LaneTable, size: float, tensor: str, chain: Chain, level: int, within: int
) -> Floats:
    """Columns of cost of a node that holds `tensor` at `level`, a row for each use of the lanes, wherever it stands.

    `size`: values of all fills of one lane, at least. Where lanes reduce, more visits may save something: then -inf.
    """
    rates, fixed, per_visit = pricer.node(lanes, tensor, chain, level, within)
    none = np.array([r is Relevance.NONE for r in pricer.axis_relevance[tensor]], dtype=bool)
    copies = lanes.over(lanes.levels <= level, none)
    costs: Floats = fixed + np.where(rates >= 0, rates * (size * copies)[:, None], -np.inf)
    if per_visit.shape[1]:
        # each lane visits its node once at least, and a tile has a value
        of_visits, of_one, *of_lines = np.split(per_visit, per_visit.shape[1] // costs.shape[1], axis=1)
        costs += of_visits * pricer.lanes(lanes, level)[:, None] + of_one
        if of_lines:
            exchange = pricer.exchanges(pricer.tail(chain, level))[0]
            costs += _least_of_lines(of_lines, pricer.weights(tensor, exchange))
    return costs


def _least_of_lines(rates: list[Floats], lines: Floats) -> Floats:
    """Least cost of lines, whatever the tile shapes; `rates`: of each kind of `LineRates.weights`."""
    least = np.zeros(rates[0].shape)
    for rate, values in zip(rates, lines, strict=True):
        least += np.where(rate >= 0, rate * values.min(), rate * values.max())
    # what first fills save is a part of what all fills cost
    return np.maximum(least, 0.0)


class LeastOutside:
    """Least costs of the nodes of some plans that stand further out than others.

    Plans share tables of what is further in; what stands outside of that costs no less than with any of these plans.
    """

    def __init__(self, costs: PathCosts, plans: Iterable[ChainTemplate]) -> None:
        self.costs = costs
        self.sizes = least_fills(costs.lattice, costs.einsum)
        self.ways: dict[str, list[Way]] = {}
        tensors, different = costs.tensors, dict[tuple[Way, ...], None]()
        for plan in plans:
            different[tuple((plan.chains[tensor], places_of(plan, tensor)) for tensor in tensors)] = None
        for number, tensor in enumerate(tensors):
            self.ways[tensor] = [*dict.fromkeys(ways[number] for ways in different)]
        self._of_tensor: dict[tuple[str, Places], Floats] = {}
        self._of_node: dict[object, Floats] = {}

    def least(self, inside: Sequence[Places], r: int) -> Floats:
        """Columns of cost, a row for each prefix of the first r fanouts. `inside`: places further in, by tensor."""
        costs = self.costs
        of_uses = sum(self._outside(tensor, at) for tensor, at in zip(costs.tensors, inside, strict=True))
        least = np.full((len(costs.prefixes.tables[r]), costs.columns), np.inf)
        np.minimum.at(least, costs.prefixes.number_of[r], np.maximum(of_uses, 0.0))
        return least

    def _outside(self, tensor: str, inside: Places) -> Floats:
        """Columns of cost of one tensor, a row for each use of the fanouts."""
        key = tensor, inside
        if key not in self._of_tensor:
            each, nothing = list[Floats](), np.zeros((len(self.costs.lanes), self.costs.columns))
            for chain, places in self.ways[tensor]:
                split = len(places) - len(inside)
                if places[max(split, 0) :] == inside:
                    each.append(nothing + sum(self._node(tensor, chain, *place) for place in places[:split]))
            self._of_tensor[key] = reduce(np.minimum, each) if each else nothing
        return self._of_tensor[key]

    def _node(self, tensor: str, chain: Chain, level: int, within: int) -> Floats:
        costs = self.costs
        key = tensor, level, within, costs.pricer.tail(chain, level)
        if key not in self._of_node:
            size = float(self.sizes[costs.tensors.index(tensor)])
            self._of_node[key] = least_of_node(costs.pricer, costs.lanes, size, tensor, chain, level, within)
        return self._of_node[key]
