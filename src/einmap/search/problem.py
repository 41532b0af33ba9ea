"""The problem of a search: one Einsum on one architecture, an objective, and the cost model that evaluates points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from einmap.arch.tree import Architecture
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.einsum.workload import Workload
from einmap.errors import NoMappingError, NotSupportedError, SpecError
from einmap.mapper.cost_bounds.tile_limits import shapes_within_limits
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.mapper import best_mappings
from einmap.mapper.mapspace.mapspace import Point, Subspace
from einmap.mapper.objective.metrics import METRICS, OF_ENERGY_AND_LATENCY, added_metric, of_energy_and_latency
from einmap.mapper.problem.options import metrics_named
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.template import OpenSpatial, Template
from einmap.model.batch.batch import Batch, BatchCost
from einmap.model.checks.partial_sums import check_partial_sums
from einmap.model.counting.semantics import Semantics, semantics_named
from einmap.progress import Progress
from einmap.search.space.space import SearchSpace, search_space
from einmap.spec.spec import Spec

AT_ONCE = 16_384
"""Points whose arrays are evaluated together."""
FEW = 4
"""Points of one subspace whose tile shapes are worked out one by one; for more of them arrays are faster."""
MOST_BATCHES = 3_000
"""Templates whose formulas are kept; a recorded one takes some 40 kB."""

type BatchKey = tuple[int, int, tuple[tuple[str, str, str], ...]]
"""A part of the space, a nest, and the spatial loops that a template has."""


@dataclass(frozen=True)
class Optimum:
    """The best mapping of a problem: `value` in the unit of the objective (J, s, J*s), `seconds` of the search.

    `point`: where it is in the search space; None if it is not there. `proven`: whether no mapping is better.
    """

    value: float
    mapping: LoopTree
    point: Point | None
    proven: bool
    seconds: float


@dataclass(frozen=True)
class SearchProblem:
    """One Einsum by itself, every tensor backed outside. `objective`: `energy`, `latency`, `energy_delay_product`, or
    what a package makes of these.
    """

    spec: Spec
    objective: str
    semantics: Semantics
    space: SearchSpace
    _batches: dict[BatchKey, Batch] = field(default_factory=dict, compare=False, repr=False)
    _keys: dict[int, BatchKey] = field(default_factory=dict, compare=False, repr=False)

    @property
    def einsum(self) -> Einsum:
        """The Einsum."""
        return self.space.einsum

    @property
    def arch(self) -> Architecture:
        """The architecture as the Einsum sees it."""
        return self.space.arch

    @property
    def name(self) -> str:
        """How reports call the problem."""
        return self.einsum.name

    @cached_property
    def compulsory(self) -> float:
        """A lower bound of the objective by compulsory traffic, in its unit; may be 0 or minus infinity."""
        return least_costs(self.einsum, self.arch, (self.objective,))[0]

    def evaluate(self, points: Sequence[Point]) -> Floats:
        """The objective of each point for one instance of the Einsum (J, s, J*s); inf where a mapping is not valid.

        A mapping is valid if its tiles fit every memory, keep the limits on tile shapes, and can be counted.
        """
        costs = self.costs(points)
        values = self.objective_of(costs)
        return np.where(costs.fits, values, np.inf)

    def objective_of(self, costs: BatchCost) -> Floats:
        """The objective of some costs, in its unit."""
        return of_energy_and_latency(self.objective, costs.energy, costs.latency)

    def costs(self, points: Sequence[Point]) -> BatchCost:
        """Energy (J), latency (s) and validity of each point; what cannot be counted is not valid."""
        energy, latency = np.full(len(points), np.inf), np.full(len(points), np.inf)
        fits = np.zeros(len(points), dtype=bool)
        for key, number, rows, shapes in self._grouped(_by_subspace(points)):
            for begin in range(0, len(rows), AT_ONCE):
                some = slice(begin, begin + AT_ONCE)
                cost = self.batch_cost(key, number, shapes[some], totals=False)
                energy[rows[some]], latency[rows[some]], fits[rows[some]] = cost.energy, cost.latency, cost.fits
        return BatchCost(energy, latency, fits)

    def costs_of_arrays(self, points: Iterable[tuple[int, Ints]]) -> Iterator[BatchCost]:
        """Costs of many points, some at a time: numbers of subspaces, with a row of digits for each point there."""
        rows = 0
        numbered = []
        for number, digits in points:
            numbered.append((number, np.arange(rows, rows + len(digits)), digits))
            rows += len(digits)
        for key, number, _, shapes in self._grouped(numbered):
            for begin in range(0, len(shapes), AT_ONCE):
                yield self.batch_cost(key, number, shapes[begin : begin + AT_ONCE])

    def shapes(self, points: Sequence[Point]) -> list[tuple[Template, Ints, Floats]]:
        """Points of one template together: the template, their rows, and a tile shape for each point and loop."""
        groups = self._grouped(_by_subspace(points))
        return [(self.space.subspace(number).template, rows, shapes) for _, number, rows, shapes in groups]

    def fits(self, points: Sequence[Point]) -> Bools:
        """Which points are valid."""
        return self.costs(points).fits

    def _grouped(self, points: Iterable[tuple[int, Ints, Ints]]) -> list[tuple[BatchKey, int, Ints, Floats]]:
        """Points of one template together: one of their subspaces, their rows, a column of tile shapes by loop."""
        numbers: dict[BatchKey, int] = {}
        rows: dict[BatchKey, list[Ints]] = {}
        shapes: dict[BatchKey, list[Floats]] = {}
        for number, members, digits in points:
            subspace = self.space.subspace(number)
            key = self.batch_key(number)
            numbers.setdefault(key, number)
            rows.setdefault(key, []).append(members)
            shapes.setdefault(key, []).append(_table(subspace, digits))
        return [(key, numbers[key], np.concatenate(rows[key]), np.concatenate(shapes[key])) for key in rows]

    def batch_key(self, number: int) -> BatchKey:
        """Key that subspaces share whose points are evaluated together."""
        key = self._keys.get(number)
        if key is None:
            key = self._keys[number] = self._key(number)
        return key

    def _key(self, number: int) -> BatchKey:
        part, nest, _ = self.space.place(number)
        loops = self.space.subspace(number).template.loops
        spatial = [(x.component, x.name, x.rank_variable) for x in loops if isinstance(x, OpenSpatial)]
        return part, nest, tuple(spatial)

    def batch_cost(self, key: BatchKey, number: int, table: Floats, *, totals: bool = True) -> BatchCost:
        """Costs of points of one template, with a row of tile shapes each; `number`: one of its subspaces.

        `totals`: whether the actions of each component are wanted as well.
        """
        n, shapes = len(table), list(table.T)
        subspace = self.space.subspace(number)
        if key not in self._batches:
            if len(self._batches) >= MOST_BATCHES:
                self._batches.clear()
            self._batches[key] = Batch(subspace.template, self.einsum, self.arch, self.semantics)
        batch = self._batches[key]
        try:
            cost = batch.evaluate(shapes, n) if totals else batch.evaluate_few(table)
        except NotSupportedError:
            nothing = np.full(n, np.inf)
            return BatchCost(nothing, nothing, np.zeros(n, dtype=bool))
        return replace(cost, fits=cost.fits & shapes_within_limits(batch.path, shapes, n))

    def optimum(self, progress: Progress | None = None) -> Optimum:
        """The best mapping, found by the mapper; once `progress` says stop, the best so far, which is not proven.

        Raises NoMappingError where nothing fits.
        """
        asked: dict[str, Any] = {"metrics": self.objective, "semantics": self.semantics, "workers": 1}
        result = best_mappings(self.spec, fuse=False, progress=progress, **asked)
        point = self.space.encode(result.mapping)
        times = self.spec.workload.n_instances * self.einsum.n_instances
        value = of_energy_and_latency(self.objective, result.cost.energy / times, result.cost.latency / times)
        if point is not None:
            value = float(self.evaluate([point])[0])
        if not np.isfinite(value):
            raise NoMappingError("the best mapping cannot be evaluated here")
        return Optimum(value, result.mapping, point, result.optimal, result.stats.seconds)


def _by_subspace(points: Sequence[Point]) -> Iterator[tuple[int, Ints, Ints]]:
    """Numbers of subspaces, the rows of their points, and the digits of these."""
    rows_of: dict[int, list[int]] = {}
    for row, (number, _) in enumerate(points):
        rows_of.setdefault(number, []).append(row)
    for number, rows in rows_of.items():
        digits = np.array([points[row][1] for row in rows], dtype=np.int64).reshape(len(rows), -1)
        yield number, np.array(rows, dtype=np.int64), digits


def _table(subspace: Subspace, digits: Ints) -> Floats:
    """Tile shapes of points: a row for each, a column for each loop."""
    if len(digits) <= FEW:
        return np.array([subspace.shapes_of(point) for point in digits.tolist()], dtype=np.float64)
    columns = [np.asarray(column, dtype=np.float64) for column in subspace.shapes(digits)]
    return np.stack(columns, axis=1) if columns else np.zeros((len(digits), 0))


def problem_of(
    spec: Spec, *, einsum: str | None = None, metrics: str | None = None, semantics: str | None = None, seed: int = 0
) -> SearchProblem:
    """The problem of one Einsum of a specification.

    `einsum`: its name; may be left out where there is one only. `metrics`: `edp`, `energy`, `latency`, or a metric that
    an installed package makes of these; the default is that of the specification. `seed`: which part of a mapspace is
    taken that is too large to be listed. Raises SpecError for an unknown Einsum, for other or several metrics, and
    where no mapping is possible at all.
    """
    chosen = _chosen(spec.workload, einsum)
    written = spec.mapper_options.metrics if metrics is None else metrics
    added = added_metric(metrics)
    goals = metrics_named(written) if added is None else (added.name,)
    is_made_of_both = METRICS[goals[0]].of is not None if added else goals[0] in OF_ENERGY_AND_LATENCY
    if len(goals) > 1 or not is_made_of_both:
        hint = f"choose one of {', '.join(OF_ENERGY_AND_LATENCY)}"
        raise SpecError(f"mappings are judged by one objective here, not by {', '.join(goals)}", hint=hint)
    spec.refuse_recurrences("the search lab")
    spec.refuse_sparsity("the search lab")
    if len(spec.workload.einsums) > 1:
        bound = spec.workload
        spec = spec.with_workload(Workload((bound.by_name[chosen],)))
    rules = semantics_named(spec.model_options.semantics if semantics is None else semantics)
    check_partial_sums(spec, rules)
    options = spec.mapper_options
    arch = spec.bound[chosen].arch
    space = search_space(
        spec.workload.by_name[chosen],
        arch,
        lowering=rules.lowering,
        force_hierarchy_order=options.force_memory_hierarchy_order,
        seed=seed,
    )
    if not space.size:
        raise SpecError(f"Einsum {chosen!r} has no mapping with perfect factors on this architecture")
    return SearchProblem(spec, goals[0], rules, space)


def _chosen(workload: Workload, name: str | None) -> str:
    names = [einsum.name for einsum in workload.einsums]
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise SpecError(
            f"the workload has {len(names)} Einsums, and mappings are searched for one of them",
            hint=f"--einsum NAME, one of {shown}",
        )
    return workload.find(name).name
