"""The points of a sweep: all of them, those that a condition keeps, or a sample."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from einmap.errors import At, SpecError
from einmap.expressions.arithmetic import boolean
from einmap.expressions.scope import Scope
from einmap.sweep.definition.points.axes import Axis, Dimension, Value

MOST_POINTS = 10_000_000
"""Points of a grid."""
MOST_DRAWN = 100_000
"""Places that are drawn for one sample beyond its own: conditions leave out points, and two may fall together."""


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the grid. `number`: its position in the whole grid; `values`: by the names of the axes."""

    number: int
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression over the axes, and where it was written."""

    text: str
    at: At

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether it is true. Raises ExpressionError."""
        # a scope of its own for each point: what an expression may do is counted by scope
        return boolean(self.text, Scope(dict(values)), at=self.at, what="where")


@dataclass(frozen=True, slots=True)
class Grid:
    """Every value of a dimension meets every value of the others; the last dimension changes fastest."""

    dimensions: tuple[Dimension, ...]
    where: tuple[Condition, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, linked ones beside each other."""
        return tuple(axis for dimension in self.dimensions for axis in dimension)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each dimension has."""
        return tuple(len(dimension[0].values) for dimension in self.dimensions)

    @property
    def size(self) -> int:
        """Points, those that conditions leave out among them."""
        return math.prod(self.shape)

    def point(self, number: int) -> Point:
        """The point at a position of the whole grid."""
        places = zip(self.dimensions, self.indices(number), strict=True)
        return Point(number, {axis.name: axis.values[index] for dimension, index in places for axis in dimension})

    def indices(self, number: int) -> tuple[int, ...]:
        """The position along each dimension, of a position of the whole grid."""
        indices = []
        for count in reversed(self.shape):
            number, index = divmod(number, count)
            indices.append(index)
        return tuple(reversed(indices))

    def number(self, indices: Sequence[int]) -> int:
        """The inverse of `indices`."""
        number = 0
        for index, count in zip(indices, self.shape, strict=True):
            number = number * count + index
        return number

    def numbers(self) -> Sequence[int]:
        """The positions of all points that the conditions keep. Raises SpecError where there is none."""
        if self.size > MOST_POINTS:
            hint = "leave out values, or take a sample"
            raise SpecError(f"the grid has {self.size:,} points, more than {MOST_POINTS:,}", hint=hint)
        if not self.where:
            return range(self.size)
        kept = np.fromiter((n for n in range(self.size) if self.keeps(n)), dtype=np.int64)
        if not len(kept):
            raise self._empty()
        return [int(n) for n in kept]

    def keeps(self, number: int) -> bool:
        """Whether all conditions hold at this position. Raises ExpressionError."""
        values = self.point(number).values
        return all(condition.holds(values) for condition in self.where)

    def sample(self, count: int, seed: int) -> Sequence[int]:
        """Positions of at most `count` points, a Latin hypercube in the order of the grid. Raises SpecError.

        McKay, Beckman, Conover, "A comparison of three methods for selecting values of input variables", Technometrics
        21(2), 1979: each dimension is cut into `count` equal parts, and each part is drawn from once. Points that a
        condition leaves out, or that fall together, are drawn again from a further hypercube.
        """
        if count >= self.size:
            return self.numbers()
        random = np.random.default_rng(seed)
        drawn: dict[int, None] = {}
        for _ in range(1 + MOST_DRAWN // count):
            for number in self._hypercube(count, random):
                if len(drawn) < count and number not in drawn and self.keeps(number):
                    drawn[number] = None
            if len(drawn) == count:
                break
        if not drawn:
            raise self._empty()
        return sorted(drawn)

    def _hypercube(self, count: int, random: np.random.Generator) -> Iterator[int]:
        columns = [
            [min(int(place * n / count), n - 1) for place in random.permutation(count) + random.random(count)]
            for n in self.shape
        ]
        yield from map(self.number, zip(*columns, strict=True))

    def check(self) -> None:
        """Raise ExpressionError for a condition that cannot be evaluated at the first point."""
        self.keeps(0)

    def _empty(self) -> SpecError:
        texts = ", ".join(condition.text for condition in self.where)
        return SpecError(f"the conditions leave no point: {texts}", at=self.where[0].at if self.where else None)
