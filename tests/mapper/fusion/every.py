"""Every fused mapping of a small cascade, one by one, for what is no sum over Einsums."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, islice, permutations, product
from typing import Any

import numpy as np
from tests.mapper.fusion.combine import CascadeProblem
from tests.random_specs import features
from tests.random_specs.fused import Problem, draw_problem
from tests.random_specs.nodes import spec_of

import einmap
from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.errors import NotSupportedError
from einmap.mapper.result.result import objective
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Node, Sequential, Temporal
from einmap.model.timing.stalls import winding_up
from einmap.spec.spec import Spec


class Every(CascadeProblem):
    """All fused mappings that fit, none left out because others are better one by one."""

    def mappings(self) -> Iterator[Mapping]:
        """The LoopTrees, in no special order."""
        for fitting in self.fitting():
            options = []
            for e, boundary_state in enumerate(fitting.boundary_states):
                rows, remainder = self.rows[e][boundary_state], self.remainder(fitting, e)
                free = np.array([self.sizes[m] - remainder[m] for m in self.memories])
                options.append(np.flatnonzero((rows.own <= free).all(axis=1)))
            for chosen in product(*options):
                yield self.mapping(fitting, [int(row) for row in chosen])


def reordered(nodes: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Nodes with every order of temporal loops that stand one below the other, in branches too."""
    runs: list[list[tuple[Node, ...]]] = []
    for is_loop, run in groupby(nodes, lambda node: isinstance(node, Temporal)):
        if is_loop:
            runs.append(list(permutations(run)))
            continue
        for node in run:
            if isinstance(node, Sequential):
                branches = product(*(list(reordered(branch)) for branch in node.branches))
                runs.append([(replace(node, branches=chosen),) for chosen in branches])
            else:
                runs.append([(node,)])
    for chosen in product(*runs):
        yield tuple(node for run in chosen for node in run)


def drawn(seed: int, kind: str) -> tuple[Problem, dict[str, Any], str]:
    """A random cascade whose Einsums overlap, wait for values on their way, or stall; and a metric."""
    rng = random.Random(seed)
    problem = draw_problem(rng, small=True)
    written = json.loads(json.dumps(problem.data))
    if kind == "overlap":
        features.overlap(rng, written)
        for option in (features.ports, features.startup):
            if rng.random() < 0.5:
                option(rng, written)
    elif kind == "stalls":
        features.stalls(rng, written)
        if rng.random() < 0.4:
            features.ports(rng, written)
        for node in written["arch"]["nodes"]:
            for action in node.get("actions", ()):
                action["throughput"] = rng.choice((1, 2, 4, "inf"))
    else:
        features.pipelines(rng, written)
    return problem, written, rng.choice(("latency", "energy_delay_product"))


def alike(mappings: Iterator[Mapping], orders: bool) -> Iterator[Mapping]:
    """Mappings, where their order matters with every order of loops that stand one below the other."""
    for mapping in mappings:
        yield from map(Mapping, reordered(mapping.nodes)) if orders else (mapping,)


def judged(seed: int, kind: str, most: int) -> str | None:
    """Compare the mapper with up to `most` mappings: whether it is "proven", "best" of these, or neither.

    None where the case is not of use; raises AssertionError where a bound is above some mapping.
    """
    problem, written, goal = drawn(seed, kind)
    if problem.semantics != "exact":
        return None
    limits = problem.max_fused_loops if kind != "stalls" else 0, problem.per_variable
    return beside_all(spec_of(written), goal, limits, most, seed, orders=kind == "stalls")


def _plain(arch: Architecture) -> Architecture:
    """A machine with the same mappings, whose costs are formulas of tile shapes."""
    for leaf in arch.leaves.values():
        if isinstance(leaf, Memory) and leaf.layout:
            arch = arch.with_leaf(replace(leaf, layout=()))
    return winding_up(arch)


def beside_all(
    spec: Spec, goal: str, limits: tuple[float, float], most: int, seed: object, *, orders: bool = False
) -> str | None:
    """As `judged`, of a specification. `limits`: fused loops, and those over one rank variable; `orders`: whether the
    order of loops that stand one below the other matters.
    """
    options = {"max_fused_loops": limits[0], "max_fused_loops_per_rank_variable": limits[1], "share_inputs": False}
    try:
        result = einmap.map_workload(spec, metrics=goal, semantics="exact", **options)
    except (einmap.NoMappingError, NotSupportedError):
        return None
    again = einmap.evaluate(spec, result.mapping)
    assert (again.energy, again.latency) == (result.cost.energy, result.cost.latency)
    values = [objective(again, goal)]
    every = Every(spec.with_altered_archs(_plain), "exact", *limits)
    for mapping in islice(alike(every.mappings(), orders), most):
        try:
            values.append(objective(einmap.evaluate(spec, mapping), goal))
        except einmap.EinmapError:
            continue
    assert result.lower_bound is None or result.lower_bound <= min(values) * (1 + 1e-9), (seed, result.lower_bound)
    if result.optimal:
        assert values[0] <= min(values) * (1 + 1e-9), (seed, goal, values[0], min(values))
        return "proven"
    return "best" if values[0] <= min(values) * (1 + 1e-9) else "neither"
