"""The search by tables where tensors have zeros: each Einsum by itself, the best parts in one tree.

Costs of unfused Einsums add up, and each Einsum's zeros are its own once densities of intermediates are known.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.errors import CapacityError, EinmapError, MappingError, NoMappingError, NotSupportedError
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.branch_and_bound.tied_search import with_ties_broken
from einmap.mapper.branch_and_bound.zeros_search import ZerosEinsumSearch
from einmap.mapper.cost_bounds.zeros.path import Zeros, ZerosPath
from einmap.mapper.independent.einsum_result import EinsumResult, seconds_of, statistics_of
from einmap.mapper.independent.joined import joined
from einmap.mapper.independent.whole_tensors import tensors_exchanged_whole
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.objective.pareto_sums import PARTS, sums
from einmap.mapper.problem.problem import Budget, Problem
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_searchable
from einmap.mapper.result.outcome import Outcome, ended_after, evaluated, narrowed_by
from einmap.mapper.result.result import Found, MapStats
from einmap.mapper.templates.statistics import SubspaceTally
from einmap.mapper.zeros.expected_cost import ExpectedCost, limits_of_blocks
from einmap.mapper.zeros.open_choices import OpenChoices
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.pareto import nondominated
from einmap.progress import Progress
from einmap.spec.spec import Spec
from einmap.visible import listed

FIRST = 5.0
"""Seconds for a first mapping where time or evaluations are over before there is one."""
MOST_KEPT = 200
"""Results of Einsums that are kept for other formats of other tensors."""


@dataclass
class _Cascade:
    """The Einsums of a problem with what was found of each."""

    problem: Problem
    parts: dict[str, EinsumResult]

    def __post_init__(self) -> None:
        options = self.problem.options
        self.formats = OpenChoices(self.problem)
        self.einsums = self.problem.spec.workload.einsums
        self.single = len(self.einsums) == 1
        of_parts = tuple(dict.fromkeys(part for goal in options.goals for part in PARTS[goal]))
        self.goals = options.goals if self.single else of_parts

    def weight(self, einsum: Einsum) -> int:
        """How often an Einsum runs."""
        return self.problem.spec.workload.n_instances * einsum.n_instances

    def plan(self, einsum: Einsum, token: Progress) -> EinsumSearch:
        """The search of one Einsum, its dataplacements listed."""
        options, arch = self.problem.options, self.problem.spec.archs[einsum.name]
        times = self.weight(einsum)
        request = Request(
            self.goals, options.rules, options.force_memory_hierarchy_order, options.objective_tolerance,
            most_plans=options.most_plans, memory=options.memory, ceiling=options.ceiling,
        )  # fmt: skip
        zeros = Zeros(
            self.formats.tables(einsum), lambda sparsity: ExpectedCost(einsum, arch, options.rules, sparsity, times)
        )
        search = ZerosEinsumSearch(einsum, arch, request, token, [], times)
        with search.tally.timed("planning"):
            for unit in arch.computes:
                if unit.enabled:
                    path = ZerosPath(einsum, arch, arch.path(unit.name), request, zeros=zeros)
                    path.make_plans(token)
                    search.tally.plan(path.plans)
                    search.paths.append(path)
        return search

    def known_of(self, einsum: Einsum) -> EinsumResult | None:
        """The result of an Einsum for the same formats of its own tensors, where another search has it."""
        known = None if self.problem.kept is None else self.problem.kept.get(self._on_what(einsum))
        if not isinstance(known, EinsumResult) or known.optimum is None:
            return None
        return replace(known, optimum=replace(known.optimum, work=0))

    def keep(self, part: EinsumResult) -> None:
        """Keep the result of an Einsum for problems with other formats of other tensors, if it is complete."""
        kept = self.problem.kept
        if kept is not None and not self.single and part.optimum is not None and part.optimum.complete:
            kept[self._on_what(part.einsum)] = part
            if len(kept) > MOST_KEPT:
                del kept[next(iter(kept))]

    def _on_what(self, einsum: Einsum) -> Hashable:
        """The part of a problem on which the result of an Einsum depends."""
        formats = self.problem.spec.sparsity[einsum.name].formats
        own = sorted((place, repr(form)) for place, form in formats.items() if place[1] in einsum.tensors)
        left = sorted((one.memory, one.tensor) for one in self.problem.formats if one.tensor in einsum.tensors)
        return einsum.name, tuple(own), tuple(left)

    def objectives(self, rows: Floats) -> Floats:
        """The objectives that are asked for, from sums over Einsums of what they are made of."""
        if self.single:
            return rows
        columns = []
        for goal in self.problem.options.goals:
            column = np.ones(len(rows))
            for part in PARTS[goal]:
                column = column * rows[:, self.goals.index(part)]
            columns.append(column)
        return np.stack(columns, axis=1)


def by_tables(problem: Problem, budget: Budget) -> Outcome | None:
    """The best mappings, or the front; None where tables do not know those of the one Einsum.

    Raises NoMappingError, and NotSupportedError for cascades that are not known.
    """
    whole, start = _Cascade(problem, {}), time.perf_counter()
    if tensors_exchanged_whole(problem.spec):
        raise NotSupportedError(
            "Einsums exchange tensors below the outermost memory, which the mapper does not know beside sparsity yet",
            at=problem.spec.provenance("sparsity"),
            hint="let the outermost memory keep all tensors",
        )
    for position, einsum in enumerate(whole.einsums):
        if (again := whole.known_of(einsum)) is not None:
            whole.parts[einsum.name] = again
            continue
        left = 1 / (len(whole.einsums) - position)
        token = share_of(budget.progress, left)
        why = why_not_searchable(einsum, problem.spec.archs[einsum.name], whole.goals)
        search = whole.plan(einsum, token) if why is None else None
        if search is not None and any(path.lanes_above() for path in search.paths):
            why = "lanes may stand above its outermost memory"
        if search is None or why is not None:
            _refuse_trying(whole, einsum, why or "")
            return None
        work = sum(part.optimum.work for part in whole.parts.values() if part.optimum)
        most = max((budget.work - work) * left, 1.0)
        part = EinsumResult(einsum, search, None)
        part.optimum = found = _searched(problem, search, token, most)
        if not found.mappings:
            raise why_nothing(einsum.name, _uncounted(part), found.size, complete=found.complete)
        whole.parts[einsum.name] = part
        whole.keep(part)
    return _outcome(whole, start)


def _refuse_trying(whole: _Cascade, einsum: Einsum, why: str) -> None:
    """Raise NotSupportedError where an Einsum of a cascade has to be searched mapping by mapping."""
    if not whole.single:
        raise NotSupportedError(
            f"Einsum {einsum.name!r} is searched mapping by mapping ({why}), which the mapper does not know beside "
            "zeros of tensors in a cascade yet",
            at=whole.problem.spec.place_of_einsum(einsum.name),
            hint="map each Einsum by itself",
        )


def _searched(problem: Problem, search: EinsumSearch, token: Progress, most: float) -> Optimum:
    """The best mappings of one Einsum; some mapping at least, where time or evaluations are over before."""
    search.progress, search.max_work = token, most
    found = search.run()
    if found.complete:
        return with_ties_broken(search, found, problem.options, token, most - found.work)
    if not found.mappings and found.cut:
        late = Progress(token.callback).within(FIRST)
        some = replace(search, progress=late, max_work=math.inf, tally=SubspaceTally(), first_only=True).run()
        found.values, found.mappings, found.tables = some.values, some.mappings, some.tables
        found.work += some.work
    return found


def _uncounted(part: EinsumResult) -> EinmapError | None:
    return part.search.uncounted if isinstance(part.search, ZerosEinsumSearch) else None


def why_nothing(name: str, uncounted: EinmapError | None, size: float, *, complete: bool) -> EinmapError:
    """Why no mapping of an Einsum was found, of a mapspace of `size`; `uncounted`: what the model does not know."""
    if uncounted is not None:
        return uncounted
    if not complete:
        text = f"the search was stopped before any mapping of Einsum {name!r} was found"
        return NoMappingError(text, hint="give it more time or evaluations", complete=False)
    mappings = "1 mapping" if size == 1 else f"{size:,.0f} mappings"
    return NoMappingError(
        f"no mapping of Einsum {name!r} keeps the constraints and fits its memories: "
        f"{mappings}, each with the fullest tiles that its densities allow",
        hint="enlarge a memory, or store tensors in formats that take less room",
    )


def _evaluated(problem: Problem, spec: Spec, mapping: LoopTree) -> Found:
    """The mapping of a whole workload with its cost. Raises NoMappingError where the Einsums' do not fit together."""
    try:
        return evaluated(spec, mapping, problem.options.rules, strict=True)
    except (CapacityError, MappingError) as error:
        if len(problem.spec.workload.einsums) == 1:
            raise
        raise NoMappingError(
            f"the Einsums' best mappings do not fit together: {error.message}",
            at=error.at,
            hint="let the outermost memory keep all tensors",
            complete=False,
        ) from None


def _outcome(whole: _Cascade, start: float) -> Outcome:
    """Outcome of the searches: the best mappings, evaluated, and how much was covered."""
    problem, parts = whole.problem, list(whole.parts.values())
    options = problem.options
    optima = [part.optimum for part in parts if part.optimum is not None]
    total = sums([np.array(optimum.values) for optimum in optima], [whole.weight(part.einsum) for part in parts])
    values = whole.objectives(total.values)
    rows = [int(np.argmin(values[:, 0]))] if values.shape[1] == 1 else [int(i) for i in nondominated(values)]
    points = []
    for row in rows:
        chosen = [optimum.mappings[i] for optimum, i in zip(optima, total.chosen[row], strict=True)]
        spec = whole.formats.spec_of(optimum.tables[i] for optimum, i in zip(optima, total.chosen[row], strict=True))
        points.append(_evaluated(problem, spec, joined(spec, frozenset(), chosen)))
    left_out: list[str] = []
    for part in parts:
        paths = part.search.paths if part.search is not None else []
        left_out += part.search.pruned if part.search is not None else ()
        if any(isinstance(path, ZerosPath) and path.unknown for path in paths):
            left_out.append(f"mappings of {part.einsum.name} whose lanes share zeros that the model does not know")
        if (error := _uncounted(part)) is not None:
            left_out.append(f"mappings of {part.einsum.name} that cannot be counted ({error.message})")
    cut = [part.einsum.name for part, optimum in zip(parts, optima, strict=True) if optimum.cut]
    by_einsum, size = statistics_of(whole.parts), sum(optimum.size for optimum in optima)
    work = sum(optimum.work for optimum in optima)
    seconds = seconds_of(whole.parts)
    stats = MapStats(
        size, sum(o.plans for o in optima), work, time.perf_counter() - start, by_einsum=by_einsum, steps=seconds
    )
    least = sum(
        np.maximum(optimum.bound, 0.0) * whole.weight(part.einsum) for part, optimum in zip(parts, optima, strict=True)
    )
    if whole.single and whole.goals == ("energy_delay_product",):
        least = least * whole.weight(parts[0].einsum)
    one = "mapping of the Einsum" if whole.single else "unfused mapping (each Einsum by itself)"
    bound = None
    if problem.may_fuse and not whole.single:
        left_out.append("fused mappings, which are not searched beside zeros of tensors yet")
    elif len(options.goals) == 1:
        bound = float(whole.objectives(np.atleast_2d(least))[0, 0])
    among = f" in a mapspace of {size:.1e} mappings" if all(optimum.size for optimum in optima) else ""
    ended = f"{ended_after(work)}{among}; {listed(cut)} not covered" if cut else None
    return Outcome(
        options.goals,
        tuple(points),
        stats,
        every=f"other {one}" if left_out else one,
        narrowed=(*narrowed_by(options, fused=False), *limits_of_blocks(problem.spec)),
        ended=ended,
        left_out=tuple(left_out),
        bound=bound,
        tolerance=options.objective_tolerance,
        ties_broken=all(optimum.ties_broken for optimum in optima),
        notes=whole.formats.note(ended=ended is not None),
    )
