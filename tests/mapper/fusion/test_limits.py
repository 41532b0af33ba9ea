"""Searches under limits never end in an error of the model, a false reason, or a claim that the whole search refutes.

The judge is the search without limits, which others compare with brute force. Problems have copies, layouts, inputs that
several Einsums read, and memories that may not send again; limits are of dataplacements, loops, evaluations, time, memory,
tile shapes and stages.
"""

import json
import random
from collections import Counter

from tests.amounts import few_and_many
from tests.random_specs.fused import draw_problem

import einmap
from einmap.errors import EinmapError, NotSupportedError, SpecError

VALUES = {"energy": lambda c: c.energy, "latency": lambda c: c.latency, "energy_delay_product": lambda c: c.edp}
OF_ALL = {"max_pmapping_templates_per_einsum", "max_evaluations", "time_limit_s", "memory_limit", "share_inputs"}
"""Limits with which the lower bound is one of all mappings."""
NARROWING = {"max_fused_loops", "tiling_coarseness", "objective_tolerance", "fuse"}
"""Limits with which what is proven is proven of fewer mappings, or up to a tolerance."""
FEW = 6
MANY = 50


def with_copy(rng, einsums):
    """Put a copy of an input, or of an intermediate, in front of the Einsum that reads it."""
    k = rng.randrange(len(einsums))
    left, right = (einsums[k]["einsum"] if isinstance(einsums[k], dict) else einsums[k]).split("=")
    read = rng.choice([part.strip() for part in right.split("*")])
    name, index = read.split("[")
    if "+" in index or ":" in index or isinstance(einsums[k], dict):
        return
    parts = [f"Copy[{index}" if part.strip() == read else part.strip() for part in right.split("*")]
    einsums[k : k + 1] = [
        {"einsum": f"Copy[{index} = {name}[{index}", "is_copy_operation": True},
        f"{left} = {' * '.join(parts)}",
    ]


def drawn(rng):
    """A cascade with what limits are to meet."""
    problem = draw_problem(rng, small=True)
    memories = [node for node in problem.data["arch"]["nodes"] if node["type"] == "Memory"]
    if rng.random() < 0.5:
        with_copy(rng, problem.data["workload"]["einsums"])
    for node in memories[1:]:
        if rng.random() < 0.3:
            field = rng.choice(("no_resend_to_below", "no_refetch_from_above"))
            node["tensors"][field] = rng.choice(("~Outputs", "Inputs", "Outputs", "Intermediates", "All"))
        if rng.random() < 0.1:
            node["size"] = rng.choice((16, 24, 32, 48))
    if problem.semantics == "exact" and rng.random() < 0.4:
        try:
            einsums = problem.spec.workload.einsums
        except SpecError:
            return problem  # a copy by rank variables that nothing else has: refused by name
        tensor, ranks = rng.choice([(a.tensor, [r for r, _ in a.projection]) for e in einsums for a in e.accesses])
        rng.choice(memories)["layout"] = {"line": rng.choice((8, 16, 32)), "order": {tensor: ranks[::-1]}}
    return problem


def limits(rng):
    few = {"max_pmapping_templates_per_einsum": rng.choice((1, 1, 2, 3, 4, 6))}
    loops, choices = {"max_fused_loops": rng.choice((0, 1, 2))}, {"max_evaluations": rng.choice((1, 3, 20, 100, 1000))}
    stages = {"max_pipeline_stages": rng.choice((2, 3))}
    chosen = rng.choice((
        few, few, few, few | loops, few | choices, loops, choices, choices, stages, few | stages, few | {"fuse": False},
        {"time_limit_s": rng.choice((0, 0.01, 0.1))}, {"tiling_coarseness": rng.choice((1.5, 3, 100))},
        {"objective_tolerance": rng.choice((0.05, 0.5))}, {"memory_limit": 1e9},
    ))  # fmt: skip
    return chosen | ({"share_inputs": False} if rng.random() < 0.3 else {})


def outcome(problem, goal, options):
    try:
        return einmap.map_workload(problem.spec, metrics=goal, semantics=problem.semantics, **options)
    except EinmapError as error:
        return error


def judged(seed):
    """Compare a search under limits with the whole one; what came of them, in a word."""
    rng = random.Random(seed)
    problem, goal, options = drawn(rng), rng.choice(sorted(VALUES)), limits(rng)
    where = seed, goal, options, json.dumps(problem.data)
    whole = outcome(problem, goal, {k: v for k, v in options.items() if k in ("share_inputs", "max_pipeline_stages")})
    limited = outcome(problem, goal, options)
    if isinstance(whole, EinmapError) and not isinstance(whole, einmap.NoMappingError):
        assert isinstance(whole, NotSupportedError) or "has no bound" in whole.message, (where, whole)
        return "refused"
    if isinstance(limited, einmap.NoMappingError):
        found_none = isinstance(whole, einmap.NoMappingError)
        told = any(words in limited.message for words in ("was found", "stopped", "in time"))
        assert found_none or told, (where, limited)
        return "nothing"
    if isinstance(limited, EinmapError):
        assert "can only be searched with factors that divide, and with all of them" in limited.message, (
            where,
            limited,
        )
        return "refused"
    assert not isinstance(whole, EinmapError), (where, whole)
    if not whole.optimal:
        return "unproven"
    best, reached = VALUES[goal](whole.cost), VALUES[goal](limited.cost)
    assert reached >= best * (1 - 1e-9), where
    if limited.optimal and NARROWING.isdisjoint(options):
        assert reached <= best * (1 + 1e-9), where
    if limited.lower_bound is not None and options.keys() <= OF_ALL:
        assert limited.lower_bound <= best * (1 + 1e-9), where
    return "compared"


@few_and_many("seeds", (range(FEW),), (range(1_000, 1_000 + 9 * MANY),), parts=9, part="fusion")
def test_limits_give_nothing_that_the_whole_search_refutes(seeds):
    assert Counter(judged(seed) for seed in seeds)["compared"] > len(seeds) / 2
