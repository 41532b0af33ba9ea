"""How far the dimensions of a path's fanouts can be used, with tile shapes that divide the bounds.

`min_usage` is asked as far as it goes, dimension by dimension in the order of the architecture: what is left of the
rank variables when dimensions further out have theirs, in uses that keep `reuse`, `loop_bounds` and `usage_scale`.
The mapper counts alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from einmap.arch.component import SpatialDimension
from einmap.arch.constraint import Comparison
from einmap.einsum.spaces.projection import Relevance
from einmap.model.counting.path import EinsumPath
from einmap.numbers import divisors

type Bounds = tuple[int, ...]
"""Rest of each rank variable."""


def reachable_usage(path: EinsumPath, dimension: SpatialDimension) -> float:
    """The highest usage that `min_usage` of a dimension may ask for."""
    asking = [d for leaf in path.leaves for d in leaf.spatial]
    number = next(i for i, d in enumerate(asking) if d is dimension)
    variables, bounds = tuple(v for v, _ in path.einsum.bounds), tuple(bound for _, bound in path.einsum.bounds)
    return _reachable(variables, bounds, tuple(_asked(path, d) for d in asking))[number]


@dataclass(frozen=True)
class _Asked:
    """Demands of one dimension. `allowed`: for each rank variable whether lanes may run over it."""

    fanout: int
    scale: float
    least: float
    limits: tuple[Comparison, ...]
    vector: bool
    allowed: tuple[bool, ...]

    def uses(self, variables: tuple[str, ...], left: Bounds) -> Iterator[tuple[float, Bounds]]:
        """The usage of each use, and what it leaves of the rank variables."""

        def extend(number: int, lanes: int, counts: dict[str, float], rest: Bounds) -> Iterator[tuple[float, Bounds]]:
            if number == len(variables):
                usage = lanes / self.fanout * self.scale
                if usage <= 1 and all(limit.holds(counts) for limit in self.limits):
                    yield usage, rest
                return
            many = self.allowed[number] and not (self.vector and counts)
            for bound in divisors(left[number]) if many else (1,):
                if lanes * bound <= self.fanout:
                    more = {**counts, variables[number]: bound} if bound > 1 else counts
                    yield from extend(number + 1, lanes * bound, more, (*rest, left[number] // bound))

        yield from extend(0, 1, {}, ())

    @property
    def may_idle(self) -> bool:
        """Whether a single lane is as good as any other use."""
        return not self.least and self.scale / self.fanout <= 1 and all(limit.holds({}) for limit in self.limits)


def _asked(path: EinsumPath, dimension: SpatialDimension) -> _Asked:
    einsum = path.einsum
    same = [einsum.by_tensor[t] for t in dimension.reuse & einsum.tensors]
    allowed = tuple(all(a.relevance(v) is Relevance.NONE for a in same) for v, _ in einsum.bounds)
    return _Asked(
        dimension.fanout,
        dimension.usage_scale,
        dimension.min_usage,
        dimension.loop_bounds,
        dimension.vector,
        allowed,
    )


@lru_cache(maxsize=256)
def _reachable(variables: tuple[str, ...], bounds: Bounds, dimensions: tuple[_Asked, ...]) -> tuple[float, ...]:
    """The highest usage of each dimension where those further out are used as they ask; 0 where none is asked for."""

    @cache
    def can_go_on(number: int, left: Bounds) -> bool:
        """Whether the dimensions from `number` on have uses at all."""
        if number == len(dimensions):
            return True
        if dimensions[number].may_idle:
            return can_go_on(number + 1, left)
        return any(can_go_on(number + 1, rest) for _, rest in dimensions[number].uses(variables, left))

    found: list[float] = []
    states = {bounds}
    for number, dimension in enumerate(dimensions):
        if dimension.may_idle:
            found.append(0.0)
            continue
        uses = [use for left in states for use in dimension.uses(variables, left) if can_go_on(number + 1, use[1])]
        found.append(max((usage for usage, _ in uses), default=0.0))
        states = {rest for usage, rest in uses if usage >= min(dimension.least, found[-1])}
    return tuple(found)
