"""map_workload(): find the best mapping of a workload, Einsum by Einsum.

Steps: read the options, build each Einsum's mapspace, search it, choose one point of each Einsum's front, put
the parts into one tree and evaluate it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.arch.tree import Architecture, outermost_memory
from einmap.einsum.einsum import Einsum
from einmap.errors import NoMappingError
from einmap.mapper.bounds import lower_bounds
from einmap.mapper.canonical import canonical_key
from einmap.mapper.dataplacement import kept_nowhere
from einmap.mapper.listing import share_of
from einmap.mapper.mapspace import MOST_SUBSPACES, Mapspace, mapspace_of
from einmap.mapper.options import Options, read_options
from einmap.mapper.pareto import Front, sums
from einmap.mapper.result import Found, MapResult, MapStats
from einmap.mapper.search import Budget, Search, Searched
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.evaluate import evaluate
from einmap.model.semantics import Semantics
from einmap.progress import Progress
from einmap.spec.spec import Spec

BUILDING = 1 / 3
"""Part of the time that building the mapspaces may take."""
LEAST_SUBSPACES = 1_000
"""So many are built however few evaluations are asked for."""


def map_workload(
    spec: Spec,
    *,
    metrics: str | Sequence[str] | None = None,
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
    asked = read_options(
        spec,
        metrics=metrics,
        semantics=semantics,
        time_limit_s=time_limit_s,
        max_evaluations=max_evaluations,
        seed=seed,
        more=options,
    )
    limit = asked.time_limit
    token = (progress or Progress()).within(limit if np.isfinite(limit) else None)
    problem = _Problem(spec, asked)
    searched = problem.search(token)
    front = problem.assemble(searched)
    seconds = time.perf_counter() - start
    return _result(problem, searched, front, seconds)


@dataclass
class _Problem:
    """What is to be mapped, and how the parts fit together."""

    spec: Spec
    options: Options

    def __post_init__(self) -> None:
        self.rules = self.options.rules
        self.goals = self.options.goals
        self.workload = self.spec.workload
        self.spaces: dict[str, Mapspace] = {}
        self.alike: dict[str, str] = {}

    def space(self, einsum: Einsum, token: Progress) -> Mapspace:
        """The mapspace of one Einsum. Raises NoMappingError when constraints leave nothing."""
        arch = self.spec.bound[einsum.name].arch
        evaluations = self.options.max_evaluations
        space = mapspace_of(
            einsum,
            arch,
            backed_outside=einsum.tensors,
            first_partial_matters=self.rules.lowering,
            force_hierarchy_order=self.options.force_memory_hierarchy_order,
            progress=token,
            # more subspaces than points to be tried are of no use
            most=MOST_SUBSPACES if evaluations is None else min(MOST_SUBSPACES, max(evaluations, LEAST_SUBSPACES)),
            seed=self.options.seed,
        )
        if not space.size and space.truncated:
            raise NoMappingError(
                f"the search was stopped before the mapspace of Einsum {einsum.name!r} was built: "
                f"none of the first {len(space.subspaces):,} templates has a valid choice of loops",
                hint="give it more time",
            )
        if not space.size:
            self.refuse_unkept(einsum, arch)
            raise NoMappingError(
                f"no mapping of Einsum {einsum.name!r} keeps the architecture's constraints: "
                f"{len(space.subspaces)} templates, none with a valid choice of loops",
                hint="some tensor may be kept nowhere, or a fanout's constraints leave a rank variable without a loop",
            )
        return space

    def refuse_unkept(self, einsum: Einsum, arch: Architecture) -> None:
        """Raise NoMappingError when no path of the architecture keeps some tensor of the Einsum."""
        paths = [arch.path(unit.name) for unit in arch.computes if unit.enabled]
        unkept = [kept_nowhere(einsum, path) for path in paths]
        if not all(unkept):
            return
        shown = "; ".join(
            f"{', '.join(repr(tensor) for tensor in tensors)} on the path {' - '.join(leaf.name for leaf in path)}"
            for tensors, path in zip(unkept, paths, strict=True)
        )
        raise NoMappingError(
            f"no memory may keep a tensor of Einsum {einsum.name!r}: {shown}",
            at=self.spec.provenance("arch.nodes"),
            hint="name it in tensors.keep or tensors.may_keep of a Memory",
        )

    def search(self, token: Progress) -> dict[str, Searched]:
        """Search each distinct Einsum once; time and evaluations are shared out evenly."""
        self.build(token)
        searched: dict[str, Searched] = {}
        names = list(dict.fromkeys(self.alike.values()))
        evaluations = self.options.max_evaluations
        for position, name in enumerate(names):
            budget = None if evaluations is None else max(evaluations // len(names), 1)
            rng = np.random.default_rng([self.options.seed, position])
            own = share_of(token, 1 / (len(names) - position))
            search = Search(self.spaces[name], self.rules, self.einsum_goals(), rng, own, Budget(budget))
            searched[name] = search.run()
            if not searched[name].front.what:
                raise self.nothing_fits(name, searched[name])
        return searched

    def build(self, token: Progress) -> None:
        """The mapspaces, and which are alike; all together take a part of the time, each its share of that."""
        first: dict[Any, str] = {}
        building = share_of(token, BUILDING)
        einsums = self.workload.einsums
        for position, einsum in enumerate(einsums):
            space = self.space(einsum, share_of(building, 1 / (len(einsums) - position)))
            self.spaces[einsum.name] = space
            self.alike[einsum.name] = first.setdefault(canonical_key(space), einsum.name)

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
                "truncated": space.truncated,
                "same_as": problem.alike[name] if problem.alike[name] != name else None,
                "evaluated": searched[problem.alike[name]].evaluated,
                "complete": searched[problem.alike[name]].complete,
            }
            for name, space in problem.spaces.items()
        },
    )
    scope = "each Einsum by itself (unfused)" if len(problem.spaces) > 1 else "the Einsum"
    reason = f"every mapping of {scope} was evaluated"
    if not complete:
        truncated = [name for name, space in problem.spaces.items() if space.truncated]
        about = "more than" if truncated else "about"
        reason = f"stopped after {evaluated:,} of {about} {stats.mapspace_size:.1e} mappings of {scope}"
        if truncated:
            reason += f"; not all templates of {', '.join(truncated)} were built"
    return MapResult(tuple(front), goals, complete, bound, reason, stats)
