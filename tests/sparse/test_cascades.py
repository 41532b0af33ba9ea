"""Cascades whose tensors have zeros, beside every fused mapping of small ones."""

import json
import math
import random
from dataclasses import replace
from itertools import islice

import pytest
from tests.mapper.fusion.every import Every
from tests.random_specs.fused import draw_problem
from tests.random_specs.nodes import spec_of

import einmap
from einmap.arch.component import Compute, Memory
from einmap.errors import EinmapError, NoMappingError, NotSupportedError
from einmap.mapper.result.result import objective

MOST = 1_500
"""Mappings that are evaluated, at most."""


def drawn_sparsity(rng, spec):
    """A key `sparsity` for a cascade: densities of inputs, savings on them, formats of some."""
    einsums, units = spec.workload.einsums, spec.arch().components
    memories = [name for name, unit in units.items() if isinstance(unit, Memory)]
    computes = [name for name, unit in units.items() if isinstance(unit, Compute)]
    outputs = {a.tensor for e in einsums for a in e.accesses if a.output}
    inputs = sorted({a.tensor for e in einsums for a in e.accesses} - outputs)
    densities = {t: rng.choice([0.2, 0.5, 0.8]) for t in inputs if rng.random() < 0.8}
    savings, formats = [], {}
    for _ in range(rng.randint(1, 3)):
        on, do = rng.choice(inputs), rng.choice(["gate", "skip"])
        einsum = rng.choice([e for e in einsums if on in e.tensors])
        if rng.random() < 0.4:
            savings.append({"at": rng.choice(computes), "do": do, "on": on})
        else:
            target = rng.choice([t for t in einsum.tensors if t != on])
            savings.append({"at": rng.choice(memories), "do": do, "tensors": target, "on": on})
    if rng.random() < 0.5:
        for tensor in list(densities)[:2]:
            formats.setdefault(rng.choice(memories), {})[tensor] = rng.choice(["coo", "bitmask"])
    return {"densities": densities, "savings": savings, "formats": formats}


def roomy(arch):
    """An architecture whose memories have room for everything."""
    for leaf in arch.leaves.values():
        if isinstance(leaf, Memory):
            arch = arch.with_leaf(replace(leaf, size_bits=math.inf))
    return arch


def beside_every(seed):
    """What the mapper finds for a random cascade, and the least that any of all its fused mappings costs.

    None where the case is not of use.
    """
    rng = random.Random(seed)
    problem = draw_problem(rng, small=True)
    spec = spec_of(json.loads(json.dumps(problem.data)))
    try:
        spec = spec.set("sparsity", drawn_sparsity(rng, spec))
        has_formats = [bool(s.formats) for s in spec.sparsity.values()]
        dense = spec.dense().with_altered_archs(roomy) if any(has_formats) else spec.dense()
        goal = rng.choice(["energy", "latency", "energy_delay_product"])
        limits = problem.max_fused_loops, problem.per_variable
        every = list(islice(Every(dense, "exact", *limits).mappings(), MOST + 1))
        if len(every) > MOST or not any(s.saves for s in spec.sparsity.values()):
            return None
        options = {"max_fused_loops": limits[0], "max_fused_loops_per_rank_variable": limits[1], "share_inputs": False}
        result = einmap.map_workload(spec, metrics=goal, semantics="exact", **options)
    except (NoMappingError, NotSupportedError, einmap.SpecError):
        return None
    values = []
    for mapping in every:
        try:
            values.append(objective(einmap.evaluate(spec, mapping), goal))
        except EinmapError:
            continue
    return (result, goal, min(values)) if values else None


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n in (15, 20) else [pytest.mark.slow, pytest.mark.fusion])
             for n in range(120)],
)  # fmt: skip
def test_no_fused_mapping_is_below_the_bound_and_what_is_proven_is_the_best(seed):
    found = beside_every(seed)
    if found is None:
        pytest.skip("the case has too many mappings, or none")
    result, goal, least = found
    value = objective(result.cost, goal)
    assert result.lower_bound is None or result.lower_bound <= least * (1 + 1e-9)
    if result.optimal:
        assert value <= least * (1 + 1e-9) and result.lower_bound == value
    else:
        assert "fused mappings but the best ones" in result.reason
