"""map_workload(): find the best mapping of a workload, Einsum by Einsum.

Steps: read the options, build each Einsum's mapspace, search it, choose one point of each Einsum's front, put
the parts into one tree and evaluate it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.arch.tree import outermost_memory
from einmap.einsum.einsum import Einsum
from einmap.errors import NoMappingError, NotSupportedError, SpecError, did_you_mean
from einmap.mapper.bounds import lower_bounds
from einmap.mapper.canonical import canonical_key
from einmap.mapper.mapspace import Mapspace, mapspace_of
from einmap.mapper.pareto import Front, sums
from einmap.mapper.result import Found, MapResult, MapStats
from einmap.mapper.search import Budget, Search, Searched
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.evaluate import evaluate
from einmap.model.semantics import Semantics, semantics_named
from einmap.progress import Progress
from einmap.spec.schema.workload import MapperInput
from einmap.spec.spec import Spec

METRICS = ("energy", "latency", "energy_delay_product")
_SYNONYMS = {"edp": "energy_delay_product", "delay": "latency"}
_FLAGS = {1: "latency", 2: "energy", 128: "energy_delay_product"}


def map_workload(
    spec: Spec,
    *,
    metrics: str | None = None,
    semantics: str | Semantics | None = None,
    time_limit_s: float | None = None,
    max_evaluations: int | None = None,
    workers: int | None = None,  # noqa: ARG001 - one process; the answer does not depend on it
    progress: Progress | None = None,
    seed: int = 0,
    **options: Any,
) -> MapResult:
    """Search for the best mapping of every Einsum, each backed by the outermost memory (unfused).

    `metrics`: `energy`, `latency`, `energy_delay_product` (`edp`), or several joined by `|` or `,` for a Pareto front
    of energy and latency; default is `mapper.metrics` of the specification, else `energy_delay_product`.
    `semantics`: `exact` or `accelforge`. `time_limit_s`, `max_evaluations`: end early with the best found; the
    latter gives the same result on every machine. `workers` changes nothing yet. `options`: names as under `mapper` in
    a specification. The result's `optimal` says whether the whole mapspace was covered.

    Raises SpecError for bad options, NoMappingError when no mapping fits.
    """
    start = time.perf_counter()
    given = _options(spec, options)
    goals = _metrics(metrics if metrics is not None else given.metrics)
    rules = semantics_named(semantics or spec.model_options.semantics)
    limit = time_limit_s if time_limit_s is not None else given.time_limit
    token = (progress or Progress()).within(limit if np.isfinite(limit) else None)
    problem = _Problem(spec, rules, goals, given, seed)
    searched = problem.search(token, max_evaluations)
    front = problem.assemble(searched)
    seconds = time.perf_counter() - start
    return _result(problem, searched, front, seconds)


def _options(spec: Spec, options: Mapping[str, Any]) -> MapperInput:
    """The options of the specification, overridden by those of the call."""
    for name in options:
        if name not in MapperInput.model_fields:
            raise SpecError(f"unknown mapper option {name!r}", hint=did_you_mean(name, MapperInput.model_fields))
    given = spec.mapper_options.model_copy(update=dict(options))
    for name in ("explore_imperfect_temporal_loops", "explore_imperfect_spatial_loops"):
        if getattr(given, name):
            raise NotSupportedError(f"mapper option {name} is not supported yet: factors are perfect")
    if given.tiling_coarseness != 1:
        raise NotSupportedError("mapper option tiling_coarseness is not supported yet")
    return given


def _metrics(given: object) -> tuple[str, ...]:
    """Names of the objectives. Raises SpecError."""
    if given is None:
        return ("energy_delay_product",)
    if isinstance(given, int) and not isinstance(given, bool):
        names = [name for flag, name in _FLAGS.items() if given & flag]
        if not names or given & ~sum(_FLAGS):
            raise SpecError(f"metrics {given} holds flags that are no objectives here", hint=f"flags: {_FLAGS}")
        return tuple(names)
    parts = given if isinstance(given, list | tuple) else str(given).replace("|", ",").split(",")
    found = []
    for part in parts:
        name = str(part).strip().lower()
        name = _SYNONYMS.get(name, name)
        if name not in METRICS:
            raise SpecError(f"unknown metric {part!r}", hint=did_you_mean(name, (*METRICS, "edp"), listing="metrics"))
        found.append(name)
    return tuple(dict.fromkeys(found))


@dataclass
class _Problem:
    """What is to be mapped, and how the parts fit together."""

    spec: Spec
    rules: Semantics
    goals: tuple[str, ...]
    options: MapperInput
    seed: int

    def __post_init__(self) -> None:
        self.workload = self.spec.workload
        self.spaces: dict[str, Mapspace] = {}
        self.alike: dict[str, str] = {}

    def space(self, einsum: Einsum) -> Mapspace:
        """The mapspace of one Einsum. Raises NoMappingError when constraints leave nothing."""
        arch = self.spec.bound[einsum.name].arch
        space = mapspace_of(
            einsum,
            arch,
            backed_outside=einsum.tensors,
            first_partial_matters=self.rules.lowering,
            force_hierarchy_order=self.options.force_memory_hierarchy_order,
        )
        if not space.size:
            raise NoMappingError(
                f"no mapping of Einsum {einsum.name!r} keeps the architecture's constraints: "
                f"{len(space.subspaces)} templates, none with a valid choice of loops",
                hint="some tensor may be kept nowhere, or a fanout's constraints leave a rank variable without a loop",
            )
        return space

    def search(self, token: Progress, max_evaluations: int | None) -> dict[str, Searched]:
        """Search each distinct Einsum once; time and evaluations are shared out evenly."""
        first: dict[Any, str] = {}
        for einsum in self.workload.einsums:
            self.spaces[einsum.name] = self.space(einsum)
            key = canonical_key(self.spaces[einsum.name])
            self.alike[einsum.name] = first.setdefault(key, einsum.name)
        searched: dict[str, Searched] = {}
        names = list(first.values())
        for position, name in enumerate(names):
            budget = None if max_evaluations is None else max_evaluations // len(names)
            share = self.share(token, len(names) - position)
            rng = np.random.default_rng([self.seed, position])
            goals = self.einsum_goals()
            search = Search(self.spaces[name], self.rules, goals, rng, token.within(share), Budget(budget))
            searched[name] = search.run()
            if not searched[name].front.what:
                raise self.nothing_fits(name, searched[name])
        return searched

    def share(self, token: Progress, parts: int) -> float | None:
        if token.deadline is None:
            return None
        return max(token.deadline - time.monotonic(), 0.0) / parts

    def einsum_goals(self) -> tuple[str, ...]:
        """Objectives of one Einsum's search: the product of sums needs the front of each part."""
        if self.goals == ("energy_delay_product",):
            return ("energy_delay_product", "front")
        return self.goals

    def nothing_fits(self, name: str, searched: Searched) -> NoMappingError:
        """Why there is no result for an Einsum: nothing was tried, or nothing fits."""
        if not searched.evaluated:
            text = f"the search was stopped before any mapping of Einsum {name!r} was evaluated"
            return NoMappingError(text, hint="give it more time or evaluations")
        how = "no mapping" if searched.complete else "none of the mappings tried"
        return NoMappingError(
            f"{how} of Einsum {name!r} fits its memories: {searched.evaluated:,} choices of tile shapes in "
            f"{searched.subspaces} templates, all over capacity"
            + ("" if searched.complete else " (the mapspace was not covered)"),
            hint="enlarge a memory, or let tensors bypass it (tensors.keep / may_keep)",
        )

    # putting parts together

    def assemble(self, searched: Mapping[str, Searched]) -> list[Found]:
        """The front of whole mappings, each evaluated as it will be reported."""
        einsums = self.workload.einsums
        # a point of an Einsum's mapspace is a point of the mapspace of every Einsum that is alike
        fronts = [searched[self.alike[e.name]].front for e in einsums]
        weights = [self.workload.n_instances * e.n_instances for e in einsums]
        total = sums(fronts, weights)
        chosen = self.choose(total)
        found = []
        for points in (total.what[i] for i in chosen):
            mapping = self.join([self.spaces[e.name].decode(p) for e, p in zip(einsums, points, strict=True)])
            found.append(Found(evaluate(self.spec, mapping, self.rules), mapping))
        return found

    def choose(self, total: Front) -> list[int]:
        if len(self.goals) > 1:
            return list(range(len(total.energy)))
        energy, latency = np.array(total.energy), np.array(total.latency)
        value = {"energy": energy, "latency": latency, "energy_delay_product": energy * latency}[self.goals[0]]
        return [int(np.argmin(value))]

    def join(self, parts: list[LoopTree]) -> LoopTree:
        """One tree: what the outermost memory holds stands above the split, the rest in a branch each."""
        if len(parts) == 1:
            return parts[0]
        head: dict[tuple[str, bool], dict[str, None]] = {}
        branches = []
        for part in parts:
            lead = 0
            outer = outermost_memory(self.spec.arch(self.einsum_of(part)).path(_compute(part).component))
            for node in part.nodes:
                if not (isinstance(node, tree.Storage) and outer is not None and node.component == outer.name):
                    break
                head.setdefault((node.component, node.persistent), {}).update(dict.fromkeys(node.tensors))
                lead += 1
            branches.append(part.nodes[lead:])
        storage = [tree.Storage(tuple(tensors), name, lasting) for (name, lasting), tensors in head.items()]
        return LoopTree((*_once(storage), tree.Sequential(tuple(branches))))

    def einsum_of(self, part: LoopTree) -> str:
        return _compute(part).einsum

    def bounds(self) -> dict[str, float]:
        """Lower bounds of energy and latency of the whole workload."""
        energy = latency = 0.0
        for einsum in self.workload.einsums:
            low = lower_bounds(einsum, self.spec.bound[einsum.name].arch)
            weight = self.workload.n_instances * einsum.n_instances
            energy += low.energy * weight
            latency += low.latency * weight
        return {"energy": energy, "latency": latency, "energy_delay_product": energy * latency}


def _compute(part: LoopTree) -> tree.Compute:
    last = part.nodes[-1]
    assert isinstance(last, tree.Compute)
    return last


def _once(storage: list[tree.Storage]) -> list[tree.Storage]:
    """A tensor that is persistent for one Einsum is held persistently, once."""
    seen: set[str] = set()
    found = []
    for node in sorted(storage, key=lambda node: not node.persistent):
        tensors = tuple(t for t in node.tensors if t not in seen)
        seen.update(tensors)
        if tensors:
            found.append(tree.Storage(tensors, node.component, node.persistent))
    return found


def _result(problem: _Problem, searched: Mapping[str, Searched], front: list[Found], seconds: float) -> MapResult:
    complete = all(s.complete for s in searched.values())
    goals = problem.goals
    bound: float | None = None
    if len(goals) == 1:
        bound = problem.bounds()[goals[0]]
        if complete:
            cost = front[0].cost
            bound = {"energy": cost.energy, "latency": cost.latency, "energy_delay_product": cost.edp}[goals[0]]
    evaluated = sum(s.evaluated for s in searched.values())
    stats = MapStats(
        mapspace_size=float(sum(space.size for space in problem.spaces.values())),
        templates=sum(len(space.subspaces) for space in problem.spaces.values()),
        evaluated=evaluated,
        seconds=seconds,
        by_einsum={
            name: {
                "mapspace_size": float(space.size),
                "templates": len(space.subspaces),
                "same_as": problem.alike[name] if problem.alike[name] != name else None,
                "evaluated": searched[problem.alike[name]].evaluated,
                "complete": searched[problem.alike[name]].complete,
            }
            for name, space in problem.spaces.items()
        },
    )
    scope = "each Einsum by itself (unfused)" if len(problem.spaces) > 1 else "the Einsum"
    reason = (
        f"every mapping of {scope} was evaluated"
        if complete
        else f"stopped after {evaluated:,} of about {stats.mapspace_size:.1e} mappings of {scope}"
    )
    return MapResult(tuple(front), goals, complete, bound, reason, stats)
