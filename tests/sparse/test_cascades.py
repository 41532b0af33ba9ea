"""Cascades whose tensors have zeros, beside every fused mapping of small ones."""

import json
import math
import random
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from tests.mapper.fusion.every import Every
from tests.random_specs.fused import draw_problem
from tests.random_specs.nodes import spec_of

import einmap
from einmap.arch.component import Compute, Memory
from einmap.errors import EinmapError, NoMappingError, NotSupportedError
from einmap.mapper.compose import fused_zeros
from einmap.mapper.cost_bounds.zeros import path as zeros_path
from einmap.mapper.cost_bounds.zeros.windows import WindowedPricer
from einmap.mapper.result.result import objective
from einmap.mapper.zeros import fused_search
from einmap.pareto import nondominated

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


def drawn_more(rng, spec):
    """The same with zeros and savings of intermediate tensors, several formats, energies of saved actions, and lanes
    that wait for the slowest one. Not every one is valid.
    """
    einsums, units = spec.workload.einsums, spec.arch().components
    memories = [name for name, unit in units.items() if isinstance(unit, Memory)]
    computes = [name for name, unit in units.items() if isinstance(unit, Compute)]
    every = sorted({a.tensor for e in einsums for a in e.accesses} - {einsums[-1].name})
    densities = {t: rng.choice([0.1, 0.3, 0.5, 0.9]) for t in every if rng.random() < 0.7}
    savings, formats = [], {}
    for _ in range(rng.randint(1, 4)):
        einsum = rng.choice(einsums)
        on, do = rng.choice([a.tensor for a in einsum.accesses if not a.output]), rng.choice(["gate", "skip"])
        others = sorted(set(einsum.tensors) - {on})
        where = {"at": rng.choice(computes)}
        if rng.random() < 0.65:
            where = {"at": rng.choice(memories), "tensors": rng.choice(others)}
        savings.append({**where, "do": do, "on": on})
    for tensor in rng.sample(list(densities), min(len(densities), rng.randint(0, 3))):
        formats.setdefault(rng.choice(memories), {})[tensor] = rng.choice(["coo", "bitmask", "rle", "csr"])
    energies = {rng.choice(computes): {"gated_compute": 0.25}} if rng.random() < 0.3 else {}
    lanes = "slowest" if rng.random() < 0.3 else "mean"
    return {"densities": densities, "savings": savings, "formats": formats, "energies": energies, "lanes": lanes}


def with_more(rng, spec):
    """A cascade with zeros, drawn until it is valid and something is saved; None where it hardly ever is."""
    for _ in range(30):
        try:
            drawn = spec.set("sparsity", drawn_more(rng, spec))
            if any(sparsity.saves for sparsity in drawn.sparsity.values()):
                return drawn
        except EinmapError:
            continue
    return None


def roomy(arch):
    """An architecture whose memories have room for everything."""
    for leaf in arch.leaves.values():
        if isinstance(leaf, Memory):
            arch = arch.with_leaf(replace(leaf, size_bits=math.inf))
    return arch


def beside_every(seed, draw=lambda rng, spec: spec.set("sparsity", drawn_sparsity(rng, spec)), most=MOST):
    """What the mapper finds for a random cascade, the metrics, and what each of all its fused mappings costs by these.

    None where the case is not of use.
    """
    rng = random.Random(seed)
    problem = draw_problem(rng, small=True)
    spec = spec_of(json.loads(json.dumps(problem.data)))
    try:
        spec = draw(rng, spec)
        if spec is None:
            return None
        has_formats = [bool(s.formats) for s in spec.sparsity.values()]
        dense = spec.dense().with_altered_archs(roomy) if any(has_formats) else spec.dense()
        goal = rng.choice(["energy", "latency", "energy_delay_product", *(["energy,latency"] if most < MOST else [])])
        limits = problem.max_fused_loops, problem.per_variable
        every = list(islice(Every(dense, "exact", *limits).mappings(), most + 1))
        if len(every) > most or not any(s.saves for s in spec.sparsity.values()):
            return None
        options = {"max_fused_loops": limits[0], "max_fused_loops_per_rank_variable": limits[1], "share_inputs": False}
        result = einmap.map_workload(spec, metrics=goal, semantics="exact", **options)
    except (NoMappingError, NotSupportedError, einmap.SpecError):
        return None
    goals, rows = goal.split(","), []
    for mapping in every:
        try:
            cost = einmap.evaluate(spec, mapping)
        except EinmapError:
            continue
        rows.append([objective(cost, each) for each in goals])
    return (result, goals, np.array(rows)) if rows else None


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n in (15, 20) else [pytest.mark.slow, pytest.mark.fusion])
             for n in range(120)],
)  # fmt: skip
def test_the_best_of_all_fused_mappings_is_found_and_proven(seed):
    assert_best(beside_every(seed))


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n in (25, 44) else [pytest.mark.slow, pytest.mark.fusion])
             for n in range(150)],
)  # fmt: skip
def test_so_it_is_with_more_kinds_of_zeros_savings_and_formats(seed):
    assert_best(beside_every(f"more {seed}", with_more, 400))


def assert_best(found):
    """Hold the result of a search against what all mappings cost."""
    if found is None:
        pytest.skip("the case has too many mappings, or none")
    result, goals, rows = found
    assert result.optimal, result.reason
    reached = np.array([[objective(point.cost, goal) for goal in goals] for point in result.front])
    if len(goals) > 1:
        front = np.unique(rows[nondominated(rows)].round(9), axis=0)
        np.testing.assert_allclose(np.unique(reached.round(9), axis=0), front, rtol=1e-9)
        return
    least = rows[:, 0].min()
    assert reached[0, 0] == pytest.approx(least, rel=1e-9)
    assert result.lower_bound == reached[0, 0]


def two_products(savings, **sparsity):
    """Two products of 4 x 4 x 4 values of which the first skips, on a memory and a buffer of 160 bits."""
    main, buffer = ({"type": "Memory", "name": name, "size": size, "leak_power": 0, "area": 0, "bits_per_action": 8,
                     "tensors": tensors, "actions": [{"name": n, "energy": joule, "throughput": 1} for n in ("read", "write")]}
                    for name, size, joule, tensors in (("Main", "inf", 8, {"keep": "~Intermediates", "may_keep": "All"}),
                                                       ("Buffer", 160, 1, {"keep": "All"})))  # fmt: skip
    compute = {"name": "compute", "energy": 1, "throughput": 1}
    mac = {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0, "actions": [compute]}
    return einmap.Spec.from_dict({
        "arch": {"nodes": [main, buffer, mac]},
        "workload": {"rank_sizes": {"M": 4, "N": 4, "K": 4, "P": 4}, "bits_per_value": {"All": 8},
                     "einsums": ["X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]"]},
        "sparsity": {"densities": {"A": 0.2}, "savings": savings, **sparsity},
    })  # fmt: skip


AT_MAIN = [{"at": "Main", "do": "skip", "tensors": "B", "on": "A"}]


def test_chains_whose_chances_further_out_are_in_windows_need_not_be_judged(monkeypatch):
    spec = two_products(AT_MAIN, formats={"Main": {"A": "coo"}})
    judged = einmap.map_workload(spec, metrics="energy")
    monkeypatch.setattr(fused_search, "MOST_JUDGED", 0)
    windows = einmap.map_workload(spec, metrics="energy")
    assert windows.optimal and windows.cost.energy == judged.cost.energy
    monkeypatch.setattr(zeros_path, "MOST_WINDOWS", 1)
    assert not einmap.map_workload(spec, metrics="energy").optimal


def test_with_few_windows_the_best_is_the_same(monkeypatch):
    spec = two_products(
        [*AT_MAIN, {"at": "Main", "do": "gate", "tensors": "X", "on": "B"}], densities={"A": 0.2, "B": 0.5}
    )
    every = einmap.map_workload(spec, metrics="energy")
    monkeypatch.setattr(zeros_path, "MOST_WINDOWS", 3)
    few = einmap.map_workload(spec, metrics="energy")
    assert few.optimal and every.optimal and few.cost.energy == every.cost.energy


def test_with_little_time_there_are_few_windows(monkeypatch):
    asked, parted = [], WindowedPricer.parted
    monkeypatch.setattr(WindowedPricer, "parted", lambda *args: asked.append(args[2]) or parted(*args))
    einmap.map_workload(two_products(AT_MAIN), metrics="energy", time_limit=2)
    assert asked and max(asked) <= 2 * zeros_path.WINDOWS_EACH_SECOND < zeros_path.MOST_WINDOWS


def test_a_search_that_is_stopped_says_what_was_not_searched(monkeypatch):
    monkeypatch.setattr(fused_search, "MOST_JUDGED", 3)
    monkeypatch.setattr(fused_zeros, "MOST_AGAIN", 0)
    monkeypatch.setattr(zeros_path, "MOST_WINDOWS", 1)
    spec = two_products(AT_MAIN)
    stopped = einmap.map_workload(spec, metrics="energy")
    monkeypatch.undo()
    whole = einmap.map_workload(spec, metrics="energy")
    assert whole.optimal and not stopped.optimal and fused_zeros.LEFT_OUT in stopped.reason
    assert 0 < stopped.lower_bound <= whole.cost.energy <= stopped.cost.energy
