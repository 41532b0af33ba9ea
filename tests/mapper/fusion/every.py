"""Every fused mapping of a small cascade, one by one, for what is no sum over Einsums."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import numpy as np
from tests.mapper.fusion.combine import CascadeProblem
from tests.mapper.fusion.problems import Problem, draw_problem
from tests.mapper.latency_options import pipelines, ports, startup

import einmap
from einmap.mapping.mapping import Mapping


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


def drawn(seed: int, kind: str) -> tuple[Problem, dict[str, Any], str]:
    """A random cascade whose Einsums overlap, or wait for values on their way; and a metric."""
    rng = random.Random(seed)
    problem = draw_problem(rng, small=True)
    written = json.loads(json.dumps(problem.data))
    if kind == "overlap":
        for node in written["arch"]["nodes"]:
            if "leak_power" in node:
                node["leak_power"] = 0
        for option in (ports, startup):
            if rng.random() < 0.5:
                option(rng, written)
        written["model"] = {"overlap_einsums": True}
    else:
        pipelines(rng, written)
    return problem, written, rng.choice(("latency", "energy_delay_product"))


def judged(seed: int, kind: str, most: int) -> str | None:
    """Compare the mapper with up to `most` mappings: whether it is "proven", "best" of these, or neither.

    None where the case is not of use; raises AssertionError where a bound is above some mapping.
    """
    problem, written, goal = drawn(seed, kind)
    if problem.semantics != "exact":
        return None
    spec = einmap.loads(json.dumps(written))
    limits = problem.max_fused_loops, problem.per_variable
    options = {"max_fused_loops": limits[0], "max_fused_loops_per_rank_variable": limits[1], "share_inputs": False}
    try:
        result = einmap.map_workload(spec, metrics=goal, semantics="exact", **options)
    except einmap.NoMappingError:
        return None
    again = einmap.evaluate(spec, result.mapping)
    assert again.latency == result.cost.latency
    values = [again.edp if goal == "energy_delay_product" else again.latency]
    every = Every(spec, "exact", *limits)
    for mapping in islice(every.mappings(), most):
        try:
            cost = einmap.evaluate(spec, mapping)
        except einmap.EinmapError:
            continue
        values.append(cost.edp if goal == "energy_delay_product" else cost.latency)
    assert result.lower_bound is None or result.lower_bound <= min(values) * (1 + 1e-9), (seed, result.lower_bound)
    if result.optimal:
        assert math.isclose(values[0], min(values), rel_tol=1e-9), seed
        return "proven"
    return "best" if values[0] <= min(values) * (1 + 1e-9) else "neither"
