"""Local moves between mappings: the same mapping but for one node, one use of the fanouts, or one factor.

A move that changes the storage nodes or the lanes keeps every factor in its gap as far as the new subspace has a loop
there; what is too much or missing is taken from, or given to, a random loop of the variable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.mapper.mapspace.mapspace import Digit, Point
from einmap.numbers import composition, rank
from einmap.search.space.space import SearchSpace

type Spread = dict[tuple[str, int], dict[int, int]]
"""For each rank variable and prime: how many factors stand in each gap. Gap i stands above storage node i."""
type Nodes = tuple[tuple[str, str], ...]

TRIES = 20
"""How often a move is drawn anew that leads nowhere, before a random mapping is taken."""
NEAR = 16
"""Uses of the fanouts that count as neighbours of one."""
MOST_SPREADS = 1_000
"""Points whose spreads are kept; steps are made from the same good mappings again and again."""
KINDS = tuple((np.cumsum((0.45, 0.15, 0.2, 0.2)) / np.cumsum((0.45, 0.15, 0.2, 0.2))[-1]).tolist())
"""Probabilities of the kinds of moves, summed up: a factor moved, loops swapped, a node changed, lanes bound anew."""


@dataclass(frozen=True)
class Moves:
    """Random neighbours of points of one space."""

    space: SearchSpace
    _near: dict[tuple[int, int], Ints] = field(default_factory=dict, compare=False, repr=False)
    _spreads: dict[Point, Spread] = field(default_factory=dict, compare=False, repr=False)

    def random(self, point: Point, rng: np.random.Generator) -> Point:
        """A random neighbour: a factor moved, two loops swapped, a storage node changed, or lanes bound anew."""
        kinds = (self.with_factor_moved, self.with_loops_swapped, self.with_node_changed, self.with_lanes_changed)
        for _ in range(TRIES):
            kind = kinds[bisect_right(KINDS, rng.random())]
            moved = kind(point, rng)
            if moved is not None and moved != point:
                return moved
        return self.space.draw(rng, 1)[0]

    def with_factor_moved(self, point: Point, rng: np.random.Generator) -> Point | None:
        """One prime factor in another temporal loop of its variable."""

        def moved(counts: list[int]) -> None:
            source = one_of([i for i, n in enumerate(counts) if n], rng)
            target = int(rng.integers(len(counts) - 1))
            counts[source] -= 1
            counts[target + (target >= source)] += 1

        return self._with_digit(point, rng, moved)

    def with_loops_swapped(self, point: Point, rng: np.random.Generator) -> Point | None:
        """The factors of one prime in two temporal loops of a variable exchanged."""

        def swapped(counts: list[int]) -> None:
            i, j = (int(x) for x in rng.choice(len(counts), 2, replace=False))
            counts[i], counts[j] = counts[j], counts[i]

        return self._with_digit(point, rng, swapped)

    def _with_digit(self, point: Point, rng: np.random.Generator, change: Callable[[list[int]], None]) -> Point | None:
        number, digits = point
        all_digits = self.space.subspace(number).digits
        free = [i for i, digit in enumerate(all_digits) if digit.radix > 1]
        if not free:
            return None
        column = one_of(free, rng)
        counts = spread_of(all_digits[column], digits[column])
        change(counts)
        return number, (*digits[:column], rank(counts), *digits[column + 1 :])

    def with_node_changed(self, point: Point, rng: np.random.Generator) -> Point | None:
        """A storage node swapped with the next one, left out, or put in; or another order of loops in a gap."""
        part, nest, lane = self.space.place(point[0])
        targets = [
            (other, gaps)
            for other, gaps in self._nest_neighbours(part, nest, rng)
            if self.space.sizes[self.space.number(part, other, lane)]
        ]
        if not targets:
            return None
        other, gaps = targets[int(rng.integers(len(targets)))]
        wanted = {key: _shifted(by_gap, gaps) for key, by_gap in self.spread(point).items()}
        return self.point_near(self.space.number(part, other, lane), wanted, rng)

    def with_lanes_changed(self, point: Point, rng: np.random.Generator) -> Point | None:
        """Another use of the fanouts, every other time a similar one."""
        part, nest, lane = self.space.place(point[0])
        n_lanes = len(self.space.parts[part].lanes)
        if n_lanes < 2:
            return None
        near = self._near_lanes(part, lane) if rng.random() < 0.5 else range(n_lanes)
        number = self.space.number(part, nest, one_of(near, rng))
        if not self.space.sizes[number]:
            return None
        return self.point_near(number, self.spread(point), rng)

    def _near_lanes(self, part: int, lane: int) -> Ints:
        if (part, lane) not in self._near:
            table = self._lane_logs[part]
            distance = np.abs(table - table[lane]).sum(axis=1)
            self._near[part, lane] = np.argsort(distance, kind="stable")[1 : NEAR + 1]
        return self._near[part, lane]

    @cached_property
    def _lane_logs(self) -> list[Floats]:
        """For each part: logarithms of the lanes, a row for each use, a column for each kind of spatial loop."""
        tables = []
        for part in self.space.parts:
            kinds = sorted({(x.component, x.dimension, x.variable) for choice in part.lanes for x in choice})
            column = {kind: i for i, kind in enumerate(kinds)}
            table = np.zeros((len(part.lanes), len(kinds)))
            for row, choice in enumerate(part.lanes):
                for x in choice:
                    table[row, column[x.component, x.dimension, x.variable]] = np.log2(x.bound)
            tables.append(table)
        return tables

    def _nest_neighbours(self, part: int, nest: int, rng: np.random.Generator) -> Iterator[tuple[int, dict[int, int]]]:
        """Nests one change away, and where the factors of gaps go that do not stay where they are."""
        placement = self.space.parts[part].nests[nest].builder.placement
        for other in self._nests_of[part].get(placement.nodes, ()):
            if other != nest:
                yield other, {}
        for nodes, gaps in self._changed(part, placement.nodes, placement.n_outer, rng):
            for other in self._nests_of[part].get(nodes, ()):
                yield other, gaps

    def _changed(
        self, part: int, nodes: Nodes, n_outer: int, rng: np.random.Generator
    ) -> Iterator[tuple[Nodes, dict[int, int]]]:
        last = len(nodes)
        for i in range(n_outer, last):
            if i + 1 < last:
                yield (*nodes[:i], nodes[i + 1], nodes[i], *nodes[i + 2 :]), {}
            yield (*nodes[:i], *nodes[i + 1 :]), {g: g - 1 for g in range(i + 1, last + 1)}
        for node in (x for x in self._all_nodes[part] if x not in nodes):
            for i in range(n_outer, last + 1):
                # the factors of the gap that is split go to one of its halves
                first = i + int(rng.integers(2))
                yield (*nodes[:i], node, *nodes[i:]), {i: first, **{g: g + 1 for g in range(i + 1, last + 1)}}

    @cached_property
    def _nests_of(self) -> list[dict[Nodes, list[int]]]:
        by_part = []
        for part in self.space.parts:
            nests: dict[Nodes, list[int]] = {}
            for i, nest in enumerate(part.nests):
                nests.setdefault(nest.builder.placement.nodes, []).append(i)
            by_part.append(nests)
        return by_part

    @cached_property
    def _all_nodes(self) -> list[tuple[tuple[str, str], ...]]:
        """The storage nodes that occur in each part, in a fixed order."""
        return [tuple(dict.fromkeys(x for nodes in nests for x in nodes)) for nests in self._nests_of]

    def spread(self, point: Point) -> Spread:
        """How the factors of each variable and prime are spread over the gaps."""
        known = self._spreads.get(point)
        if known is None:
            if len(self._spreads) >= MOST_SPREADS:
                self._spreads.clear()
            known = self._spreads[point] = self._spread(point)
        return known

    def _spread(self, point: Point) -> Spread:
        subspace = self.space.subspace(point[0])
        gaps = subspace.template.temporal_gaps
        return {
            (digit.variable, digit.prime): {
                gap: n for gap, n in zip(gaps.get(digit.variable, ()), spread_of(digit, at), strict=True) if n
            }
            for digit, at in zip(subspace.digits, point[1], strict=True)
        }

    def point_near(self, number: int, wanted: Spread, rng: np.random.Generator) -> Point:
        """The point of a subspace that has factors in the gaps that are wanted, as far as that can be."""
        subspace = self.space.subspace(number)
        gaps = subspace.template.temporal_gaps
        digits = []
        for digit in subspace.digits:
            slots = gaps.get(digit.variable, ())
            counts = [0] * digit.loops
            for gap, n in wanted.get((digit.variable, digit.prime), {}).items():
                counts[nearest(slots, gap)] += n
            while sum(counts) > digit.exponent:
                counts[one_of([i for i, n in enumerate(counts) if n], rng)] -= 1
            while sum(counts) < digit.exponent:
                counts[int(rng.integers(digit.loops))] += 1
            digits.append(rank(counts))
        return number, tuple(digits)


def spread_of(digit: Digit, at: int) -> list[int]:
    """How many factors stand in each loop of the digit's variable, outermost first."""
    return [*composition(at, digit.exponent, digit.loops)]


def one_of(numbers: Sequence[int] | Ints, rng: np.random.Generator) -> int:
    """One of some numbers; for a few of them `rng.choice` takes ten times as long to say the same."""
    return int(numbers[int(rng.integers(len(numbers)))])


@lru_cache(maxsize=1 << 16)
def nearest(slots: tuple[int, ...], gap: int) -> int:
    """The loop whose gap is nearest, the inner one of two that are as near; `slots`: the gap of each loop."""
    return min(range(len(slots)), key=lambda i: (abs(slots[i] - gap), -i))


def _shifted(by_gap: dict[int, int], gaps: dict[int, int]) -> dict[int, int]:
    shifted: dict[int, int] = {}
    for gap, n in by_gap.items():
        target = gaps.get(gap, gap)
        shifted[target] = shifted.get(target, 0) + n
    return shifted
