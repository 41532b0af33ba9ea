"""Parts of a search with zeros: dataplacements with windows of what stands further out, and formats that are left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from einmap.arrays import Bools, Floats
from einmap.mapper.cost_bounds.zeros.left_open import OpenTables
from einmap.mapper.cost_bounds.zeros.looking import Look, Tile, Windows
from einmap.mapper.cost_bounds.zeros.rates import ZerosPricer
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.model.batch.zero_tables import ZeroTables

MOST_SEEN = 200_000
"""Bounds of parts and plans that are kept for the search that breaks ties."""


@dataclass(frozen=True, order=True)
class Part:
    """Dataplacements with windows of chances further out that wait for their search, those of the least bound first.

    `numbers`: of the dataplacements, with a row of `bounds` each; `least` of these. `tables`: with the formats that are
    left. `is_known`: whether the bounds are those of these windows and formats.
    """

    least: tuple[float, ...]
    order: int
    windows: Windows = field(compare=False)
    numbers: list[int] = field(compare=False)
    bounds: Floats = field(compare=False)
    tables: ZeroTables = field(compare=False)
    is_known: bool = field(compare=False, default=False)

    def only(self, chosen: Callable[[Floats], Bools]) -> Part:
        """The dataplacements whose bounds are chosen."""
        rows = np.flatnonzero(chosen(self.bounds))
        return replace(self, numbers=[self.numbers[i] for i in rows], bounds=self.bounds[rows])

    def of(self, chosen: set[int]) -> Part:
        """The dataplacements whose numbers are chosen."""
        rows = [row for row, number in enumerate(self.numbers) if number in chosen]
        return replace(self, numbers=[self.numbers[row] for row in rows], bounds=self.bounds[rows])

    def from_number(self, first: int) -> Part:
        """All but the first dataplacements."""
        return replace(self, numbers=self.numbers[first:], bounds=self.bounds[first:])


@dataclass
class Seen:
    """Bounds of the plans of a part by tables, for one objective, and the parts that it was parted into."""

    goal: str
    least: dict[ChainTemplate, float]
    parts: list[tuple[Windows, ZeroTables, frozenset[ChainTemplate]]] = field(default_factory=list)


class SeenParts:
    """Parts that a search for one objective has bounded by tables, for a later one that breaks its ties."""

    def __init__(self) -> None:
        self.by_key: dict[object, Seen] = {}
        self.n = 0

    def keep(self, key: object, goal: str, least: dict[ChainTemplate, float]) -> None:
        """Keep the bounds of a part's plans, while there is room."""
        if self.n < MOST_SEEN:
            self.n += len(least)
            self.by_key[key] = Seen(goal, least)

    def parted(self, key: object, parts: Sequence[Part], plans: Sequence[ChainTemplate]) -> None:
        """Keep what a part was parted into, where its bounds are kept."""
        if key in self.by_key:
            some = ((one.windows, one.tables, frozenset(plans[i] for i in one.numbers)) for one in parts)
            self.by_key[key].parts = list(some)


class Parting:
    """Parts of one run of a search."""

    def __init__(self, seen: SeenParts) -> None:
        self.seen, self.numbers = seen, count()
        self.looks: dict[tuple[ChainTemplate, tuple[tuple[str, str], ...]], tuple[Look | Tile, ...]] = {}
        """Places on which costs of a plan depend, with formats of blocks and padding at some places."""

    def parts_of(
        self,
        pricer: ZerosPricer,
        plans: Sequence[ChainTemplate],
        numbers: Sequence[int],
        bounds: Floats,
        known: Windows,
    ) -> list[Part]:
        """Some plans, with a row of bounds each, by the places that their costs depend on; `known`: windows of some."""
        by_looks: dict[tuple[Look | Tile, ...], list[int]] = {}
        parted = tuple(place for place in pricer.tables.sparsity.formats if pricer.tables.is_parted(*place))
        for row, number in enumerate(numbers):
            key = plans[number], parted
            if key not in self.looks:
                self.looks[key] = pricer.looks(plans[number].chains)
            by_looks.setdefault(self.looks[key], []).append(row)
        parts = []
        for looks, rows in by_looks.items():
            windows = pricer.whole(looks)
            windows = {look: known.get(look, window) for look, window in windows.items()}
            some, least = [numbers[row] for row in rows], tuple(bounds[rows].min(axis=0))
            parts.append(Part(least, next(self.numbers), windows, some, bounds[rows], pricer.tables))
        return parts

    def halves(
        self, pricer: ZerosPricer, plans: Sequence[ChainTemplate], numbers: Sequence[int], rows: Floats
    ) -> list[Part]:
        """Plans with bounds parted in two, by what is left open and differs most; none where that would say no more."""
        assert pricer.windows is not None
        tables, least = pricer.tables, tuple(rows.min(axis=0))
        spread, place = tables.spread(pricer.width) if isinstance(tables, OpenTables) else (0.0, None)
        if place is not None and (spread >= pricer.greatest_spread or pricer.halves() is None):
            assert isinstance(tables, OpenTables)
            parts = []
            for some in tables.halves(place, pricer.width(place)):
                parts += self.parts_of(replace(pricer, tables=some), plans, numbers, rows, pricer.windows)
            return parts
        return [
            Part(least, next(self.numbers), windows, list(numbers), rows, tables) for windows in pricer.halves() or ()
        ]

    def seen_before(
        self,
        key: object,
        part: Part,
        plans: Sequence[ChainTemplate],
        goals: Sequence[str],
        ruled_out: Callable[[Floats], Bools],
    ) -> list[Part] | None:
        """Parts of a part that an earlier search for the last objective has bounded; None where tables say more.

        What that search has parted need not be bounded again, but plans that it ruled out before are still to be
        looked at where they are as good as what it found.
        """
        seen = self.seen.by_key.get(key)
        if seen is None or len(goals) == 1 or seen.goal != goals[-1] or part.is_known:
            return None
        rows = part.bounds.copy()
        rows[:, -1] = np.maximum(rows[:, -1], [seen.least.get(plans[i], -np.inf) for i in part.numbers])
        part = replace(part, bounds=rows).only(lambda rows: ~ruled_out(rows))
        if not part.numbers:
            return []
        found = []
        in_parts = frozenset[ChainTemplate]().union(*(some for _, _, some in seen.parts))
        rest = part.of({i for i in part.numbers if plans[i] not in in_parts})
        for windows, tables, some in seen.parts:
            inside = replace(part.of({i for i in part.numbers if plans[i] in some}), windows=windows, tables=tables)
            found += [replace(inside, order=next(self.numbers))] if inside.numbers else []
        return [*found, *([replace(rest, is_known=True)] if rest.numbers else [])]


def left_of(tables: ZeroTables) -> object:
    """Key of the formats that are left."""
    return tuple(tables.left.items()) if isinstance(tables, OpenTables) else None
