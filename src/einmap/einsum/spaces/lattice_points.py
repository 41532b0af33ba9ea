"""How many integer points of a box satisfy linear inequalities: in closed form where each links two variables at most.

Two variables: the box and the inequalities are a convex polygon. It is cut at the crossings of its lines in strips, in
each of which one line is the lowest upper bound and one the highest lower bound, and the points of a strip are a
difference of two sums of floors, which Euclid's algorithm gives in logarithmic time (Graham, Knuth and Patashnik,
Concrete Mathematics, 2nd ed., 1994, section 3.5). With more variables all but two are enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

type Coefficients = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HalfSpace:
    """The points x with `sum of coefficients * x + constant >= 0`."""

    coefficients: Coefficients
    constant: int

    def least(self, extents: Sequence[int]) -> int:
        """The smallest value of the left side over the box 0 <= x < extents."""
        return self.constant + sum(min(0, a * (n - 1)) for a, n in zip(self.coefficients, extents, strict=True))

    def most(self, extents: Sequence[int]) -> int:
        """The largest value of the left side over the box 0 <= x < extents."""
        return self.constant + sum(max(0, a * (n - 1)) for a, n in zip(self.coefficients, extents, strict=True))

    def moved(self, start: Sequence[int]) -> HalfSpace:
        """The half space seen from the point `start`, which becomes 0."""
        moved = self.constant + sum(a * x for a, x in zip(self.coefficients, start, strict=True))
        return HalfSpace(self.coefficients, moved)


def lattice_points(extents: tuple[int, ...], half_spaces: Sequence[HalfSpace]) -> int:
    """How many integer points of the box 0 <= x < `extents` lie in all half spaces.

    >>> lattice_points((4, 4), [HalfSpace((1, -1), 0)])  # the pairs with x >= y
    10
    """
    if min(extents, default=1) < 1 or any(one.most(extents) < 0 for one in half_spaces):
        return 0
    cutting = tuple(sorted({(one.coefficients, one.constant) for one in half_spaces if one.least(extents) < 0}))
    if not cutting:
        return math.prod(extents)
    return _counted(extents, cutting)


@lru_cache(maxsize=20_000)
def _counted(extents: tuple[int, ...], cutting: tuple[tuple[Coefficients, int], ...]) -> int:
    """As `lattice_points`, where each half space cuts something off the box."""
    used = [axis for axis in range(len(extents)) if any(a[axis] for a, _ in cutting)]
    free = math.prod(n for axis, n in enumerate(extents) if axis not in used)
    planes = [HalfSpace(tuple(a[axis] for axis in used), constant) for a, constant in cutting]
    box = tuple(extents[axis] for axis in used)
    if len(used) == 1:
        return free * _of_polygon((*box, 1), [HalfSpace((*one.coefficients, 0), one.constant) for one in planes])
    if len(used) == 2:
        return free * _of_polygon(box, planes)
    fewest = min(range(len(box)), key=lambda axis: box[axis])
    return free * sum(lattice_points(*rest) for rest in _slices(box, planes, fewest))


def _slices(
    box: tuple[int, ...], planes: Sequence[HalfSpace], axis: int
) -> Iterator[tuple[tuple[int, ...], list[HalfSpace]]]:
    """The box and the half spaces in the other variables, for each value of one."""
    others = [other for other in range(len(box)) if other != axis]
    rest = tuple(box[other] for other in others)
    for value in range(box[axis]):
        yield (
            rest,
            [
                HalfSpace(
                    tuple(one.coefficients[other] for other in others), one.constant + one.coefficients[axis] * value
                )
                for one in planes
            ],
        )


# polygons


@dataclass(frozen=True, slots=True)
class _Line:
    """The bound `(slope * u + offset) / scale` of v; `scale` is positive."""

    slope: int
    offset: int
    scale: int

    def at(self, u: int) -> Fraction:
        """The bound at u."""
        return Fraction(self.slope * u + self.offset, self.scale)

    def crossing(self, other: _Line) -> Fraction | None:
        """Where two lines meet; None where they are parallel."""
        across = self.slope * other.scale - other.slope * self.scale
        return Fraction(other.offset * self.scale - self.offset * other.scale, across) if across else None


def _of_polygon(box: tuple[int, ...], planes: Sequence[HalfSpace]) -> int:
    """Points (u, v) of a box of two variables in all half spaces."""
    first, last = 0, box[0] - 1
    lower, upper = [_Line(0, 0, 1)], [_Line(0, box[1] - 1, 1)]
    for plane in planes:
        (a, b), c = plane.coefficients, plane.constant
        if b > 0:
            lower.append(_Line(-a, -c, b))
        elif b < 0:
            upper.append(_Line(a, c, -b))
        elif a > 0:
            first = max(first, -(c // a))
        else:
            last = min(last, c // -a)
    if first > last:
        return 0
    starts = {first, last + 1}
    lines = [*lower, *upper]
    for position, line in enumerate(lines):
        for other in lines[:position]:
            meet = line.crossing(other)
            if meet is not None:
                starts |= {u for u in (math.ceil(meet), math.floor(meet) + 1) if first < u <= last}
    return sum(_of_strip(lower, upper, begin, end) for begin, end in pairwise(sorted(starts)))


def _of_strip(lower: Sequence[_Line], upper: Sequence[_Line], begin: int, end: int) -> int:
    """Points with begin <= u < end; no lines cross between them."""
    low = max(lower, key=lambda line: line.at(begin))
    high = min(upper, key=lambda line: line.at(begin))
    if high.at(begin) < low.at(begin):
        return 0
    count = end - begin
    # the ceiling of x / s is the floor of (x + s - 1) / s
    above = floor_sum(count, high.scale, high.slope, high.slope * begin + high.offset)
    below = floor_sum(count, low.scale, low.slope, low.slope * begin + low.offset + low.scale - 1)
    return above - below + count


def floor_sum(count: int, scale: int, slope: int, offset: int) -> int:
    """The sum of floor((slope * i + offset) / scale) over i = 0 .. count - 1; `scale` is positive.

    >>> floor_sum(4, 2, 3, 1)  # 0 + 2 + 3 + 5
    10
    """
    total = 0
    while count > 0:
        total += (slope // scale) * (count * (count - 1) // 2) + (offset // scale) * count
        slope, offset = slope % scale, offset % scale
        highest = slope * count + offset
        if highest < scale:
            break
        # points below the line, counted by rows in the place of columns
        count, offset = highest // scale, highest % scale
        slope, scale = scale, slope
    return total
