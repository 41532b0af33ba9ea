"""Traffic of all tensors of one Einsum: totals, and the busiest instance of each component."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod

from einmap.arch.component import Compute, Memory
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath, Station, applies
from einmap.model.counting.reuse import TensorCounts, VariableTiles
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.tiles import ALL, FIRST, Count
from einmap.model.traffic.actions import (
    Actions,
    charged,
    of_all_units,
    of_busiest_unit,
    of_one_visit,
    with_rounds,
    with_transfers,
)
from einmap.model.traffic.tensor_traffic import EVERY, Charge, Exchange, Fixed, TensorTraffic

MAX_LANES = 10_000
"""Lanes of one component that are compared to find the busiest."""


class EinsumTraffic:
    """Traffic of all tensors of one Einsum, as totals and for the busiest instance."""

    def __init__(
        self,
        path: EinsumPath,
        semantics: Semantics,
        charges: Mapping[tuple[str, int], Charge] | None = None,
        intermediates: frozenset[str] = frozenset(),
        slides: Mapping[str, Mapping[int, int]] | None = None,
    ) -> None:
        """`charges`: by tensor and position of the child, what differs from paying everything.

        `slides`: by tensor the storage nodes that keep what the visit before held (`sliding.slides_on`).
        """
        self.path = path
        self.semantics = semantics
        tiles = VariableTiles(path)
        self.tensors = [
            TensorTraffic(
                path,
                access,
                semantics,
                TensorCounts(path, access, tiles),
                charges or {},
                access.tensor in intermediates,
                (slides or {}).get(access.tensor, {}),
            )
            for access in path.einsum.accesses
        ]
        self.tiles = tiles

    def totals(self) -> dict[tuple[str, str], Actions]:
        """Actions of all instances, by component and tensor."""
        totals: dict[tuple[str, str], Actions] = {}
        for tensor in self.tensors:
            for exchange in tensor.exchanges:
                for at in exchange.chain:
                    if not isinstance(at.component, Compute):
                        key = (at.component.name, tensor.access.tensor)
                        totals[key] = totals.get(key, _NOTHING) + self._charged(tensor, exchange, at, EVERY)
        return totals

    def busiest(
        self, counts: Callable[[str, Exchange], bool] | None = None, *, one_visit: bool = False
    ) -> dict[str, Actions]:
        """Actions of the instance that has most of them, for each component and for each action by itself.

        `counts`: which exchanges of a tensor count; all of them if None.
        `one_visit`: of each child what its first visit takes in and gives back alone.
        """
        visits: dict[str, list[tuple[TensorTraffic, Exchange, Station]]] = {}
        for tensor in self.tensors:
            for exchange in tensor.exchanges:
                if counts is not None and not counts(tensor.access.tensor, exchange):
                    continue
                for at in exchange.chain:
                    if not isinstance(at.component, Compute):
                        visits.setdefault(at.component.name, []).append((tensor, exchange, at))
        best: dict[str, Actions] = {}
        for component, parts in visits.items():
            most: Actions | None = None
            for fixed in self._lanes(parts):
                total = _NOTHING
                for tensor, exchange, at in parts:
                    if one_visit:
                        total = total + of_one_visit(tensor, exchange, at, fixed)
                        continue
                    charged_here = self._charged(tensor, exchange, at, fixed)
                    takes = tensor.takes(exchange.child, at, fixed)
                    charged_here = with_transfers(tensor, exchange, at, (fixed, takes), charged_here)
                    charged_here = with_rounds(tensor, exchange, at, fixed, charged_here)
                    total = total + of_busiest_unit(tensor, exchange, at, charged_here)
                most = total if most is None else most.most(total)
            best[component] = most or _NOTHING
        return best

    def _lanes(self, parts: list[tuple[TensorTraffic, Exchange, Station]]) -> Iterator[Fixed]:
        """Lanes of one component that can be the busiest: the first, or the second where first touches differ.

        Common tiles of several Einsums may grow from lane to lane: then any lane can be.
        """
        level = parts[0][2].level
        outputs = [tensor.counts for tensor, _, _ in parts if tensor.access.output]
        lane_loops = [i for i in self.path.spatial_loops if (self.path.loops[i].level or 0) <= level]
        common = any(tensor.charge(exchange).hull is not None for tensor, exchange, _ in parts)
        choices = [
            range(self.path.loops[i].iterations)
            if common or self._aligned_otherwise(i, parts)
            else self.differing_lanes(i, outputs)
            for i in lane_loops
        ]
        if prod(len(c) for c in choices) > MAX_LANES:
            raise NotSupportedError(
                "too many lanes differ in their first touches of an output, or in where their tiles begin in lines"
            )
        for lane in product(*choices):
            yield dict(zip(lane_loops, lane, strict=True))

    def _aligned_otherwise(self, index: int, parts: list[tuple[TensorTraffic, Exchange, Station]]) -> bool:
        """Whether the tiles of a loop's lanes begin elsewhere in the lines of a component."""
        unit = parts[0][2].component
        tensors = unit.layouts if isinstance(unit, Memory) and not self.path.loops[index].absent else ()
        return any(
            tensor.access.tensor in tensors and tensor.counts.relevance_of(index) is not Relevance.NONE
            for tensor, _, _ in parts
        )

    def differing_lanes(self, index: int, outputs: list[TensorCounts]) -> range:
        """Lanes of one loop that differ: the first from the others where lanes reduce, all where windows overlap."""
        if self.semantics.lane_first_touch == "every lane" or self.path.loops[index].absent:
            return range(1)
        relevance = {counts.relevance_of(index) for counts in outputs}
        loop = self.path.loops[index]
        if Relevance.PARTIAL in relevance:
            return range(loop.iterations)
        return range(2 if Relevance.NONE in relevance else 1)

    def _charged(self, tensor: TensorTraffic, exchange: Exchange, at: Station, fixed: Fixed) -> Actions:
        here = charged(tensor, exchange, at, tensor.moving(exchange, at).flow(exchange, at, fixed))
        return of_all_units(tensor, exchange, at, here)

    def visits(self, station: Station) -> Count:
        """How often the busiest instance of a station's component visits its node."""
        takes = (ALL if not loop.is_spatial and applies(loop, station) else FIRST for loop in self.path.loops)
        return self.tiles.visits(tuple(takes))

    def operations(self) -> tuple[Count, Count]:
        """Operations of all instances and of the busiest one; 0 for a copy."""
        if self.path.einsum.is_copy:
            return 0, 0
        total: Count = 1
        busiest: Count = 1
        everything = tuple(ALL for _ in self.path.loops)
        one_lane = tuple(FIRST if loop.is_spatial else ALL for loop in self.path.loops)
        for variable in self.path.einsum.rank_variables:
            total = total * _sum_counts(self.tiles.of(variable, everything))
            busiest = busiest * _sum_counts(self.tiles.of(variable, one_lane))
        return total, busiest


_NOTHING = Actions(0, 0)


def _sum_counts(tiles: list[tuple[Count, Count]]) -> Count:
    total: Count = 0
    for extent, count in tiles:
        total = total + extent * count
    return total
