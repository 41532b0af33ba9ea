"""Fused mappings with imperfect factors, by way of larger ranks in which the same tile shapes are perfect.

A loop with tile shape t over a bound B that it does not divide goes through as many tiles as one over a multiple of t
just above B. So ranks are made a little larger, to sizes with many divisors; the best fused mappings of that workload
are searched, and evaluated on the workload itself, where the last tiles are smaller. Ranks are tried one after another,
each beside what was best for those before. Nothing is proven by that: not all sizes are tried, and what is best for
larger ranks need not be best for these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from einmap.errors import EinmapError, NoMappingError
from einmap.mapper.compose.combinators import Search, attempted
from einmap.mapper.compose.einsum_by_einsum import cause, few_sizes, not_fused
from einmap.mapper.compose.ways import Ways
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.problem import Budget, Problem
from einmap.mapper.result.outcome import Outcome, evaluated, united
from einmap.mapper.result.result import Found, best_of, objective
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.numbers import divisors
from einmap.progress import Progress
from einmap.spec.spec import Spec

PERFECT = 2 / 3
"""Part of what is left of the time for fused mappings with perfect factors."""
FARTHEST = 1 / 4
"""How much larger a rank may be made, as a part of it; small ones by 2 in any case."""
SIZES = 3
"""Larger sizes that are tried of each rank."""
LEAST_WORK = 200_000
"""Choices that each search may look at where the one with perfect factors took few."""

type Variable = tuple[str, str]
"""An Einsum and one of its rank variables."""


def with_imperfect_factors(even: Search, ways_of: Callable[[Problem], Ways], exact: Search | None = None) -> Search:
    """The points are the best mappings with perfect factors, some with imperfect ones that are better, and the best of
    those of which another search knows the imperfect factors, too; the bound is the one of that search.

    `even`: asked for perfect factors alone. `ways_of`: where imperfect ones are looked for. `exact`: knows them.
    """

    def run(problem: Problem, budget: Budget) -> Outcome:
        known = None if exact is None else attempted(exact, problem, budget)
        if isinstance(known, Outcome) and not known.left_out:
            return known
        perfect = problem.asking(uneven_loops=False, uneven_lanes=False)
        outcome = attempted(even, perfect, replace(budget, progress=share_of(budget.progress, PERFECT)))
        if isinstance(outcome, NoMappingError):
            if isinstance(known, Outcome):
                return known
            raise known or outcome
        found = replace(outcome, every=f"{outcome.every} with perfect factors", bound=None, unfused=None)
        missing: tuple[str, ...] = (f"some mappings with imperfect factors, since {few_sizes(problem)}",)
        if exact is not None:
            every = "fused mapping with perfect factors and every unfused one"
            found = united([known, outcome] if isinstance(known, Outcome) else [outcome], every)
            found = replace(found, narrowed=(), bound=known.lower_bound if isinstance(known, Outcome) else None)
            missing = not_fused(problem, few_sizes(problem), "some mappings with imperfect factors")
        padding = Padding(problem, perfect.options, max(outcome.stats.evaluated, LEAST_WORK), ways_of)
        points = [*found.points, *padding.found(found.value, budget.progress)]
        left_out = [text for text in found.left_out if text not in not_fused(problem, cause(problem))]
        return replace(found, points=tuple(best_of(points, found.goals)), left_out=(*left_out, *missing))

    return run


@dataclass(frozen=True)
class Padding:
    """Searches with larger ranks. `even`: the options without imperfect factors.

    `most`: choices that each search may look at. `ways_of`: see `with_imperfect_factors`.
    """

    problem: Problem
    even: Options
    most: float
    ways_of: Callable[[Problem], Ways]

    @property
    def spec(self) -> Spec:
        """The workload as it is."""
        return self.problem.spec

    def found(self, best: float, token: Progress) -> list[Found]:
        """Mappings with imperfect factors, each better by the first metric than those before, and than `best`."""
        tries = [(group, size) for group in self.groups() for size in _larger(self._bound(group))]
        sizes: dict[Variable, int] = {}
        points: list[Found] = []
        for number, (group, size) in enumerate(tries):
            if token.stopped:
                break
            attempt = {**sizes, **dict.fromkeys(group, size)}
            for point in self.searched(attempt, share_of(token, 1 / (len(tries) - number))):
                value = objective(point.cost, self.even.goals[0])
                if value < best:
                    best, sizes = value, attempt
                    points.append(point)
        return points

    def searched(self, sizes: Mapping[Variable, int], token: Progress) -> Iterator[Found]:
        """The best fused mappings of the workload with larger bounds, as far as they are mappings of it as it is."""
        einsums = tuple(
            replace(einsum, bounds=tuple((v, sizes.get((einsum.name, v), bound)) for v, bound in einsum.bounds))
            for einsum in self.spec.workload.einsums
        )
        larger = self.spec.with_einsums(replace(self.spec.workload, einsums=einsums), lambda _, arch: arch)
        for way in self.ways_of(replace(self.problem, spec=larger, options=self.even)).ways:
            for tree_of_way in way.search(self.even).run(token, self.most):
                _, mapping, _ = way.settled(tree_of_way)
                # smaller tiles may break a constraint that the whole ones keep
                with suppress(EinmapError):
                    if self._may_be(mapping):
                        yield evaluated(self.spec, mapping, self.even.rules, strict=True)

    def groups(self) -> list[tuple[Variable, ...]]:
        """Rank variables that stand for one rank in all Einsums, where each indexes tensors alone, from 0 on."""
        users: dict[tuple[str, str], set[Variable]] = {}
        fixed: set[Variable] = set()
        fixed_ranks: set[tuple[str, str]] = set()
        for einsum in self.spec.workload.einsums:
            if einsum.cuts or einsum.gathers or einsum.first_values:
                fixed |= {(einsum.name, v) for v, _ in einsum.bounds}
            for access in einsum.accesses:
                for rank, index in access.projection:
                    users.setdefault((access.tensor, rank), set()).update((einsum.name, v) for v, _ in index.terms)
                    if len(index.terms) != 1 or index.terms[0][1] != 1 or index.constant:
                        fixed_ranks.add((access.tensor, rank))
        group_of = {(e.name, v): {(e.name, v)} for e in self.spec.workload.einsums for v, _ in e.bounds}
        for rank_of_tensor, variables in users.items():
            if rank_of_tensor in fixed_ranks:
                fixed |= variables
            together = set[Variable]().union(*(group_of[variable] for variable in variables))
            group_of |= dict.fromkeys(together, together)
        groups = {tuple(sorted(group)): None for group in group_of.values()}
        return [g for g in groups if fixed.isdisjoint(g) and len({self._bound((v,)) for v in g}) == 1]

    def _bound(self, group: tuple[Variable, ...]) -> int:
        name, variable = group[0]
        return self.spec.workload.by_name[name].extents[variable]

    def _may_be(self, mapping: LoopTree) -> bool:
        """Whether only such loops are imperfect as the options allow: temporal ones, or lanes."""
        for einsum in self.spec.workload.einsums:
            extents = dict(einsum.bounds)
            for placed in mapping.path_of[einsum.name]:
                node = placed.node
                if not isinstance(node, tree.Temporal | tree.Spatial):
                    continue
                variable, shape = str(node.rank_variable.of(einsum.name)), int(node.tile_shape.of(einsum.name) or 1)
                options = self.problem.options
                allowed = options.uneven_loops if isinstance(node, tree.Temporal) else options.uneven_lanes
                if extents[variable] % shape and not allowed:
                    return False
                extents[variable] = shape
        return True


def _larger(bound: int) -> list[int]:
    """Sizes a little above a bound with more divisors than it has, those with most first."""
    farthest = bound + max(math.floor(bound * FARTHEST), 2)
    ways = {size: len(divisors(size)) for size in range(bound, min(farthest, 2 * bound - 1) + 1)}
    better = [size for size in ways if ways[size] > ways[bound]]
    return sorted(better, key=lambda size: (-ways[size], size))[:SIZES]
