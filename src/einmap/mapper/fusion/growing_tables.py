"""Tables of the dataplacements of a group that are made once they may say something.

Without tables each tensor fills each node once: of most dataplacements that alone costs more than others of the same
kind cost by their tables. These bound nothing, and few of them are ever looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from einmap.arrays import Bools, Floats
from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.cost_bounds.relaxed_bounds import Bounds
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.pareto import nondominated

ONE_BY_ONE = 2
"""How often the best ways of holding the tensors get tables, one of each kind, before all others do that need them."""

type Kind = tuple[str, ...]
"""Memories of the outermost nodes of all tensors."""


@dataclass(eq=False)
class GrowingTables:
    """Tables of some dataplacements of a group, and bounds of all. `relaxed`: those without tables."""

    search: PathSearch
    plans: list[ChainTemplate]
    relaxed: Bounds
    has: set[ChainTemplate] = field(default_factory=set)
    """Dataplacements that were compiled."""
    is_cut = False
    """Whether there was no room for what bounds the mappings."""

    def __post_init__(self) -> None:
        self._rows: dict[Kind, Floats] = {}
        """Objectives that no mapping of a kind is below, by the tables that were told."""
        self.place = {plan: i for i, plan in enumerate(self.plans)}
        self.of_way: dict[int, list[ChainTemplate]] = {}
        for plan, way in zip(self.plans, self.relaxed.way_of, strict=True):
            self.of_way.setdefault(way, []).append(plan)
        self.way_of = {plan: way for way, plans in self.of_way.items() for plan in plans}

    def bounding(self, room: float, of_all: float) -> Iterator[list[ChainTemplate]]:
        """Take dataplacements until no other one says more than these; those of each step, which want to be `told`.

        It is cut where tables take more than `room` bytes, or those of all seem to take more than `of_all`.
        """
        kinds: dict[Kind, list[int]] = {}
        least = self.relaxed.values.min(axis=1).prod(axis=1)
        for way in np.argsort(least, kind="stable").tolist():
            kinds.setdefault(_kind(self.of_way[way][0]), []).append(way)
        turn = 0
        while kinds:
            firsts = [ways[: 1 if turn < ONE_BY_ONE else None] for ways in kinds.values()]
            new = [plan for ways in firsts for way in ways for plan in self.of_way[way]]
            self.take(new, room)
            taken = self.search.tables.bytes
            if taken > room or taken * len(self.plans) > of_all * len(self.has):
                self.is_cut = True
                return
            yield new
            kinds = {kind: self._open(kind, ways[1:]) for kind, ways in kinds.items()} if turn < ONE_BY_ONE else {}
            kinds = {kind: ways for kind, ways in kinds.items() if ways}
            turn += 1

    def told(self, plan: ChainTemplate, values: Floats) -> None:
        """Objectives that no mapping of a dataplacement is below, by its tables."""
        kind = _kind(plan)
        self._rows[kind] = _least(np.concatenate([self._rows[kind], values]) if kind in self._rows else values)

    def _open(self, kind: Kind, ways: Iterable[int]) -> list[int]:
        """Ways of holding the tensors of which some mapping may be better than all that was told of their kind."""
        rows = self._rows.get(kind, self.relaxed.values[0, :0])
        return [way for way in ways if not _covered(rows, self.relaxed.values[way]).all()]

    def take(self, plans: Iterable[ChainTemplate], room: float) -> bool:
        """Compile dataplacements that are still to be, in order; False where `room` (bytes) is too little."""
        new = sorted((plan for plan in plans if plan not in self.has), key=self.place.__getitem__)
        if not new:
            return True
        for plan in new:
            if self.search.tables.bytes > room:
                return False
            self.has.add(plan)
            if (compiled := self.search.compile(plan)) is not None:
                self.search.compiled.append(compiled)
        self.search.compiled.sort(key=lambda compiled: self.place[compiled.plan])
        return True

    def bounds(self, roots: Mapping[ChainTemplate, Floats]) -> Iterator[tuple[ChainTemplate, Floats]]:
        """Dataplacements with objectives that no mapping is below, in all. `roots`: those by tables."""
        yield from ((plan, roots[plan]) for plan in self.plans if plan in roots)
        yield from without_tables(self.relaxed, [(p, way) for p, way in self.way_of.items() if p not in self.has])


def without_tables(
    relaxed: Bounds, ways: Iterable[tuple[ChainTemplate, int]]
) -> Iterator[tuple[ChainTemplate, Floats]]:
    """Dataplacements with objectives that no mapping is below, without tables. `ways`: how each holds the tensors."""
    rows: dict[int, Floats] = {}
    for plan, way in ways:
        if way not in rows:
            rows[way] = _least(relaxed.values[way])
        yield plan, rows[way]


def _least(rows: Floats) -> Floats:
    """Rows of objectives that bound what all of them bound."""
    return rows[nondominated(rows)] if rows.shape[1] <= 2 else rows


def _kind(plan: ChainTemplate) -> Kind:
    outermost: dict[str, str] = {}
    for memory, tensor in plan.placement.nodes:
        outermost.setdefault(tensor, memory)
    return tuple([outermost[tensor] for tensor in sorted(outermost)])


def _covered(rows: Floats, values: Floats) -> Bools:
    """Which of some values have each objective as large as some one of `rows` has it, or larger."""
    covered: Bools = (rows[None] <= values[:, None]).all(axis=2).any(axis=1)
    return covered
