"""How the fanouts of a path may be used: a bound for each (dimension, rank variable).

Constraints that speak of lanes alone are settled here: fanout, `reuse`, `loop_bounds`, `usage_scale` and
`min_usage`, which is hard where it can be reached and else as high as it gets, dimension by dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einmap.arch.component import Leaf, SpatialDimension
from einmap.einsum.einsum import Einsum
from einmap.einsum.projection import Relevance
from einmap.mapper.factors import divisors


@dataclass(frozen=True, slots=True)
class Lanes:
    """One spatial loop: `bound` lanes of `component`.`dimension` over `variable`."""

    component: str
    dimension: str
    variable: str
    bound: int


type SpatialChoice = tuple[Lanes, ...]


def spatial_choices(einsum: Einsum, leaves: tuple[Leaf, ...]) -> list[SpatialChoice]:
    """All uses of the fanouts that satisfy the constraints, the fullest first."""
    dimensions = [(leaf.name, d) for leaf in leaves for d in leaf.spatial]
    choices = list(_extend(einsum, dimensions, 0, dict(einsum.bounds), ()))
    for name, dimension in dimensions:
        if einsum.is_copy:
            break
        best = max((_usage(choice, name, dimension) for choice in choices), default=0.0)
        wanted = min(dimension.min_usage, best)
        choices = [choice for choice in choices if _usage(choice, name, dimension) >= wanted]

    def lanes(choice: SpatialChoice) -> int:
        total = 1
        for loop in choice:
            total *= loop.bound
        return total

    return sorted(choices, key=lanes, reverse=True)


def _usage(choice: SpatialChoice, component: str, dimension: SpatialDimension) -> float:
    used = 1
    for loop in choice:
        if (loop.component, loop.dimension) == (component, dimension.name):
            used *= loop.bound
    return used / dimension.fanout * dimension.usage_scale


def _extend(
    einsum: Einsum,
    dimensions: list[tuple[str, SpatialDimension]],
    at: int,
    left: dict[str, int],
    chosen: SpatialChoice,
) -> Iterator[SpatialChoice]:
    if at == len(dimensions):
        yield chosen
        return
    component, dimension = dimensions[at]
    for loops in _uses(einsum, component, dimension, left):
        remaining = dict(left)
        for loop in loops:
            remaining[loop.variable] //= loop.bound
        yield from _extend(einsum, dimensions, at + 1, remaining, (*chosen, *loops))


def _uses(einsum: Einsum, component: str, dimension: SpatialDimension, left: dict[str, int]) -> Iterator[SpatialChoice]:
    """Ways to use one dimension: at most one loop for each variable, within the fanout."""
    allowed = [v for v in einsum.rank_variables if left[v] > 1 and _may_iterate(einsum, dimension, v)]

    def extend(index: int, used: int, loops: SpatialChoice) -> Iterator[SpatialChoice]:
        if index == len(allowed):
            counts = {loop.variable: float(loop.bound) for loop in loops}
            fits = used / dimension.fanout * dimension.usage_scale <= 1
            if fits and all(limit.holds(counts) for limit in dimension.loop_bounds):
                yield loops
            return
        variable = allowed[index]
        for bound in divisors(left[variable]):
            if used * bound > dimension.fanout:
                break
            more = (Lanes(component, dimension.name, variable, bound),) if bound > 1 else ()
            yield from extend(index + 1, used * bound, (*loops, *more))

    yield from extend(0, 1, ())


def _may_iterate(einsum: Einsum, dimension: SpatialDimension, variable: str) -> bool:
    return all(
        einsum.by_tensor[tensor].relevance(variable) is Relevance.NONE for tensor in dimension.reuse & einsum.tensors
    )
