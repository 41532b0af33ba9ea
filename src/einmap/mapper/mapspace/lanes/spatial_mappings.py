"""How the fanouts of a path may be used: a bound for each (dimension, rank variable).

Constraints that speak of lanes alone are settled here: fanout, `reuse`, `loop_bounds`, `usage_scale` and
`min_usage`, which is hard where it can be reached and else as high as it gets, dimension by dimension. Below a network
the loops of one dimension come in every order, those of different dimensions in the order of the architecture (XY
routing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from math import prod

import numpy as np

from einmap.arch.component import Leaf, Memory, SpatialDimension, is_carrying
from einmap.arch.constraint import Names
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace.enumeration import InOrder, Walk, listed
from einmap.numbers import divisors
from einmap.progress import Progress


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
    return _best_used(einsum, leaves, list(_every_use(einsum, leaves, InOrder())))


def some_spatial_choices(
    einsum: Einsum, leaves: tuple[Leaf, ...], rng: np.random.Generator, token: Progress
) -> tuple[list[SpatialChoice], bool]:
    """The spatial mappings where their number and the time allow it, else a part of them; and whether these are all."""
    choices, complete = listed(partial(_every_use, einsum, leaves), rng, token)
    return _best_used(einsum, leaves, choices), complete


def n_lanes(choice: SpatialChoice) -> int:
    """Lanes of all dimensions together."""
    return prod(loop.bound for loop in choice)


def _every_use(einsum: Einsum, leaves: tuple[Leaf, ...], walk: Walk) -> Iterator[SpatialChoice]:
    routed = first_routed(leaves)
    dimensions = [(leaf.name, d, level >= routed) for level, leaf in enumerate(leaves) for d in leaf.spatial]
    return _extend(einsum, dimensions, 0, dict(einsum.bounds), (), walk)


def _best_used(einsum: Einsum, leaves: tuple[Leaf, ...], choices: list[SpatialChoice]) -> list[SpatialChoice]:
    """The uses of a fanout that keep `min_usage` as far as it can be reached, the fullest first."""
    for leaf in leaves:
        for dimension in leaf.spatial:
            if einsum.is_copy:
                break
            best = max((_usage(choice, leaf.name, dimension) for choice in choices), default=0.0)
            least = min(dimension.min_usage, best)
            choices = [choice for choice in choices if _usage(choice, leaf.name, dimension) >= least]
    return sorted(choices, key=n_lanes, reverse=True)


def _usage(choice: SpatialChoice, component: str, dimension: SpatialDimension) -> float:
    used = 1
    for loop in choice:
        if (loop.component, loop.dimension) == (component, dimension.name):
            used *= loop.bound
    return used / dimension.fanout * dimension.usage_scale


def _extend(
    einsum: Einsum,
    dimensions: list[tuple[str, SpatialDimension, bool]],
    at: int,
    left: dict[str, int],
    chosen: SpatialChoice,
    walk: Walk,
) -> Iterator[SpatialChoice]:
    if at == len(dimensions):
        yield chosen
        return
    component, dimension, routed = dimensions[at]
    for loops in _uses(einsum, component, dimension, left, walk):
        remaining = dict(left)
        for loop in loops:
            remaining[loop.variable] //= loop.bound
        for order in permutations(loops) if routed else (loops,):
            yield from _extend(einsum, dimensions, at + 1, remaining, (*chosen, *order), walk)


def _uses(
    einsum: Einsum, component: str, dimension: SpatialDimension, left: dict[str, int], walk: Walk
) -> Iterator[SpatialChoice]:
    """Ways to use one dimension: at most one loop for each variable, within the fanout."""
    allowed = [v for v in einsum.rank_variables if left[v] > 1 and may_iterate(einsum, dimension, v)]
    order = walk.items(allowed)

    def extend(index: int, used: int, bounds: dict[str, int]) -> Iterator[SpatialChoice]:
        if index == len(order):
            counts = {v: float(bound) for v, bound in bounds.items()}
            fits = used / dimension.fanout * dimension.usage_scale <= 1 and not (dimension.vector and len(bounds) > 1)
            if fits and all(limit.holds(counts) for limit in dimension.loop_bounds):
                yield tuple(Lanes(component, dimension.name, v, bounds[v]) for v in allowed if v in bounds)
            return
        variable = order[index]
        for bound in walk.bounds([d for d in divisors(left[variable]) if used * d <= dimension.fanout]):
            more = {**bounds, variable: bound} if bound > 1 else bounds
            yield from extend(index + 1, used * bound, more)

    yield from extend(0, 1, {})


def first_routed(leaves: Sequence[Leaf]) -> int:
    """Level of the outermost network, or array of memories that are several units: lanes from there on have places.

    Without one the number of leaves.
    """
    arrays = {leaf.array for leaf in leaves if isinstance(leaf, Memory) and leaf.is_spread}
    placed = (level for level, leaf in enumerate(leaves) if is_carrying(leaf) or leaf.name in arrays)
    return next(placed, len(leaves))


def routed_components(leaves: Sequence[Leaf]) -> Names:
    """Components whose lanes are places of a network: the order of their loops is a part of the use of the fanouts."""
    return frozenset(leaf.name for leaf in leaves[first_routed(leaves) :])


def may_iterate(einsum: Einsum, dimension: SpatialDimension, variable: str) -> bool:
    """Whether lanes over a variable leave alone the tensors that must be the same in all of them."""
    return all(
        einsum.by_tensor[tensor].relevance(variable) is Relevance.NONE for tensor in dimension.reuse & einsum.tensors
    )
