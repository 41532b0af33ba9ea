"""The mapper where tensors have zeros, against the evaluation of every mapping."""

import itertools
import random
import time
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from tests.sparse.problems import parted_format

import einmap
from einmap.errors import CapacityError, NoMappingError, NotSupportedError, SpecError
from einmap.mapper.mapspace.mapspace import BuildingEffort, mapspace_of
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import Problem
from einmap.mapper.zeros.as_found import as_found
from einmap.mapper.zeros.dense_bound import least_cost
from einmap.model.batch.zero_tables import ZeroTables
from einmap.model.batch.zeros import ZerosBatch
from einmap.progress import Progress

QUICK, MANY = range(1, 4), range(200)
MOST = 300
"""Mappings of a random problem, at most: each is evaluated."""
EINSUMS = {
    "Z[m, n] = A[m, k] * B[k, n]": ("M", "N", "K"),
    "Z[m] = A[m, k] * B[k]": ("M", "K"),
    "Z[p] = A[U: p + r] * B[r]": ("P", "R"),
    "Z[m, n] = A[m, n] * B[n]": ("M", "N"),
}
NAMES = ["bitmask", "coo", "rle", "csf", "uncompressed"]


def memory(rng, name, size, scale, **tensors):
    actions = [
        {"name": action, "energy": scale * rng.choice([1, 2, 3]), "throughput": rng.choice([1, 2, 4])}
        for action in ("read", "write")
    ]
    return {"type": "Memory", "name": name, "size": size, "leak_power": rng.choice([0, 0.1]), "area": 0,
            "actions": actions, "tensors": tensors}  # fmt: skip


def drawn_sparsity(rng, ranks, *, parted=False):
    """A key `sparsity` for inputs A and B and the output Z; `ranks`: sizes by tensor; `parted`: with blocks, padding."""
    densities, formats, savings = {}, {}, []
    for t in ("A", "B", "Z"):
        kind = rng.choice(["uniform", "uniform", "structured", "even", None])
        rank = rng.choice(sorted(ranks[t]))
        blocks = [(n, m) for n, m in ((1, 2), (1, 3), (2, 4), (1, 4)) if ranks[t][rank] % m == 0]
        if kind == "structured" and blocks:
            densities[t] = {"structured": list(rng.choice(blocks)), "along": rank}
        elif kind:
            densities[t] = {"even" if kind == "even" else "uniform": rng.choice([0.1, 0.25, 0.5, 0.8])}
    for name in ("Main", "Buffer"):
        chosen = {t: rng.choice(NAMES) for t in ("A", "B", "Z") if rng.random() < 0.4}
        if parted:
            chosen |= {t: parted_format(rng, ranks[t]) for t in ("A", "B", "Z") if rng.random() < 0.5}
        if chosen:
            formats[name] = chosen
    for _ in range(rng.randint(0, 3)):
        do = rng.choice(["gate", "skip"])
        if rng.random() < 0.4:
            savings.append({"at": "MAC", "do": do, "on": rng.choice(["A", "B", "A | B"])})
        else:
            on = rng.choice(["A", "B"])
            target = rng.choice([t for t in ("A", "B", "Z") if t != on])
            savings.append({"at": rng.choice(["Main", "Buffer"]), "do": do, "tensors": target, "on": on})
    energies = {"MAC": {"gated_compute": rng.choice([0, 0.3])}}
    if rng.random() < 0.5:
        energies["Buffer"] = {"gated_read": 0.2, "skipped_write": 0.1}
    if rng.random() < 0.3:
        energies.setdefault("Buffer", {})["metadata_read"] = 0.05
    return {
        "densities": densities, "formats": formats, "savings": savings, "energies": energies,
        "metadata": rng.choice(["own", "own", "share", "share_all"]), "fills": rng.choice(["live", "live", "lanes", "all"]),
    }  # fmt: skip


def drawn_problem(rng, *, slowest=False, parted=False):
    """A random specification of one Einsum whose zeros save something, and its mapspace of at most MOST mappings.

    `slowest`: on lanes, of which the slowest one of each mask counts; `parted`: with formats of blocks and padding.
    """
    while True:
        text = rng.choice(list(EINSUMS))
        sizes = {rank: rng.choice([1, 2, 2, 3, 4, 4, 6]) for rank in EINSUMS[text]}
        nodes = [memory(rng, "Main", "inf", 8, keep="All" if rng.random() < 0.6 else "Outputs", may_keep="All")]
        if rng.random() < 0.4 or slowest:
            nodes.append({"type": "Container", "name": "Array", "spatial": [{"name": "X", "fanout": 2}]})
        nodes.append(memory(rng, "Buffer", rng.choice([40, 80, 160, "inf"]), 1, may_keep="All"))
        nodes.append({"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0,
                      "actions": [{"name": "compute", "energy": 1, "throughput": 1}]})  # fmt: skip
        tree = {
            "arch": {"nodes": nodes},
            "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": [text]},
        }
        dense = einmap.Spec.from_dict(tree)
        (einsum,) = dense.workload.einsums
        space = mapspace_of(
            einsum, dense.archs[einsum.name], backed_outside=einsum.tensors, first_partial_matters=True,
            effort=BuildingEffort(most=MOST),
        )  # fmt: skip
        if space.truncated or not 0 < space.size <= MOST:
            continue
        sparsity = drawn_sparsity(rng, dense.bindings.rank_sizes, parted=parted)
        if not parted and (rng.random() < 0.2 or slowest):
            sparsity["lanes"] = "slowest"
        spec = dense.set("sparsity", sparsity)
        with suppress(SpecError) if parted else nullcontext():  # blocks of a structured density across the format's
            if spec.sparsity[einsum.name].saves:
                return spec, space


def every_cost(spec, space):
    """Costs of all mappings that fit, and whether the model does not know some of them."""
    found, mappings, unknown = [], set(), False
    for index, subspace in enumerate(space.subspaces):
        for digits in itertools.product(*(range(digit.radix) for digit in subspace.digits)):
            mapping = space.decode((index, digits))
            if mapping in mappings:
                continue
            mappings.add(mapping)
            try:
                cost = einmap.evaluate(spec, mapping)
            except CapacityError:
                continue
            except NotSupportedError:
                unknown = True
                continue
            found.append((cost.energy, cost.latency))
    return np.array(found), unknown


def value(metric, energy, latency):
    return {"energy": energy, "latency": latency, "energy_delay_product": energy * latency}[metric]


@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n in QUICK else (pytest.mark.slow, pytest.mark.mapper))
                                  for n in MANY])  # fmt: skip
def test_the_mapper_finds_what_is_best_of_all_mappings(seed):
    rng = random.Random(seed)
    spec, space = drawn_problem(rng)
    metric = rng.choice(["energy", "latency", "energy_delay_product", "energy,latency"])
    costs, unknown = every_cost(spec, space)
    if not len(costs):
        with pytest.raises((NoMappingError, NotSupportedError)):
            einmap.map_workload(spec, metrics=metric)
        return
    result = einmap.map_workload(spec, metrics=metric)
    assert result.optimal or unknown
    energy, latency = costs.T
    if metric == "energy,latency":
        assert_front([(p.cost.energy, p.cost.latency) for p in result.front], costs)
        return
    best = value(metric, energy, latency).min()
    problem = Problem(spec, read_options(spec, metrics=metric))
    bound = least_cost(problem, Progress(), spec.sparsity["Z"])
    assert bound is not None and bound <= best * (1 + 1e-9)
    assert value(metric, result.cost.energy, result.cost.latency) == pytest.approx(best, rel=2e-9)
    if metric != "energy_delay_product" and result.optimal:
        # of mappings that are as good the best by the other metric
        tied = costs[value(metric, energy, latency) <= best * (1 + 1e-9)]
        other = 1 if metric == "energy" else 0
        assert (result.cost.energy, result.cost.latency)[other] == pytest.approx(tied[:, other].min(), rel=2e-9)


@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n == 1 else (pytest.mark.slow, pytest.mark.mapper))
                                  for n in range(200)])  # fmt: skip
def test_of_formats_with_blocks_and_padding_the_best_is_found_and_no_bound_is_above_a_cost(seed):
    rng = random.Random(5000 + seed)
    spec, space = drawn_problem(rng, parted=True)
    metric = rng.choice(["energy", "latency", "energy_delay_product", "energy,latency"])
    bounds, costs = bounds_and_costs(spec, space)
    assert (bounds <= costs * (1 + 1e-12)).all()
    if not len(costs):
        with pytest.raises((NoMappingError, NotSupportedError)):
            einmap.map_workload(spec, metrics=metric)
        return
    for brute_force in (False, True):
        result = einmap.map_workload(spec, metrics=metric, brute_force=brute_force)
        if metric == "energy,latency":
            assert_front([(p.cost.energy, p.cost.latency) for p in result.front], costs)
        else:
            best = value(metric, *costs.T).min()
            assert value(metric, result.cost.energy, result.cost.latency) == pytest.approx(best, rel=2e-9)


@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n == 2 else (pytest.mark.slow, pytest.mark.mapper))
                                  for n in range(60)])  # fmt: skip
def test_with_the_slowest_lane_bounds_are_no_more_than_costs_and_the_best_is_found(seed):
    rng = random.Random(1000 + seed)
    spec, space = drawn_problem(rng, slowest=True)
    metric = rng.choice(["energy", "latency", "energy_delay_product"])
    bounds, costs = bounds_and_costs(spec, space)
    assert (bounds <= costs * (1 + 1e-12)).all()
    try:
        result = einmap.map_workload(spec, metrics=metric)
    except (NoMappingError, NotSupportedError):
        assert not len(costs)
        return
    best = value(metric, *costs.T).min()
    assert value(metric, result.cost.energy, result.cost.latency) == pytest.approx(best, rel=2e-9)


def bounds_and_costs(spec, space):
    """Energy and latency of each mapping that fits and is known: lower bounds, and what its evaluation gives."""
    (einsum,) = spec.workload.einsums
    arch, tables = spec.archs[einsum.name], ZeroTables(einsum, spec.sparsity[einsum.name])
    bounds, costs = [], []
    for index, subspace in enumerate(space.subspaces):
        batch = ZerosBatch(subspace.template, einsum, arch, read_options(spec).rules, tables)
        points = list(itertools.product(*(range(digit.radix) for digit in subspace.digits)))
        found = batch.evaluate(subspace.shapes(np.array(points, dtype=np.int64).reshape(len(points), -1)), len(points))
        for row, digits in enumerate(points):
            try:
                cost = einmap.evaluate(spec, space.decode((index, digits)))
            except (CapacityError, NotSupportedError):
                continue
            assert found.fits[row]
            bounds.append((found.energy[row], found.latency[row]))
            costs.append((cost.energy, cost.latency))
    return np.array(bounds).reshape(-1, 2), np.array(costs).reshape(-1, 2)


def test_the_slowest_lane_of_the_best_mapping_takes_longer_than_the_mean():
    spec = product(8, densities={"A": 0.2}, savings=[{"at": "MAC", "do": "skip", "on": "A"}])
    main, buffer, mac = spec.get("arch.nodes")
    array = {"type": "Container", "name": "Array", "spatial": [{"name": "X", "fanout": 4}]}
    means = spec.set("arch.nodes", [main, array, buffer, mac]).set("arch.nodes[3].actions[0].throughput", 0.02)
    found = [einmap.map_workload(one, metrics="latency") for one in (means, means.set("sparsity.lanes", "slowest"))]
    assert found[0].optimal and found[1].optimal
    assert found[0].cost.latency < found[1].cost.latency


def assert_front(points, costs):
    """No mapping is better than all points, and each point is one of a mapping."""
    found = np.array(points)
    no_worse = (found[:, None, :] <= costs[None, :, :] * (1 + 2e-9)).all(axis=2).any(axis=0)
    assert no_worse.all()
    for point in found:
        assert np.isclose(costs, point, rtol=1e-9).all(axis=1).any()


def product(size=16, **sparsity):
    """A product of three ranks on two memories, with a key `sparsity`."""
    rng = random.Random(0)
    nodes = [memory(rng, "Main", "inf", 8, keep="All"), memory(rng, "Buffer", 8 * 96, 1, may_keep="All")]
    nodes.append({"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0,
                  "actions": [{"name": "compute", "energy": 1, "throughput": 1}]})  # fmt: skip
    return einmap.Spec.from_dict({
        "arch": {"nodes": nodes},
        "workload": {"rank_sizes": {"M": size, "N": size, "K": size}, "bits_per_value": {"All": 8},
                     "einsums": ["Z[m, n] = A[m, k] * B[k, n]"]},
        "sparsity": sparsity,
    })  # fmt: skip


SKIPPED = {"densities": {"A": 0.1}, "savings": [{"at": "Buffer", "do": "skip", "tensors": "B", "on": "A"}]}


def test_a_stopped_search_gives_a_mapping_and_a_bound():
    spec = product(**SKIPPED)
    whole, stopped = (einmap.map_workload(spec, metrics="energy", **more) for more in ({}, {"max_evaluations": 20}))
    assert whole.optimal and not stopped.optimal
    assert 0 < stopped.lower_bound <= whole.cost.energy <= stopped.cost.energy
    uncounted = einmap.map_workload(spec, metrics="energy", time_limit_s=0)
    assert "choices; Z not covered" in uncounted.reason  # no mapspace of 0 mappings


def test_a_search_ends_soon_after_its_time_limit_with_a_mapping():
    formats = {
        name: {"A": {"name": "ellpack", "block": {"M": 2, "K": 2}, "entries": 20}} for name in ("Main", "Buffer")
    }
    spec = product(96, **SKIPPED, formats=formats)
    einmap.map_workload(product(4, **SKIPPED), metrics="energy")  # kernels are loaded
    for seconds in (0.01, 0.3):
        start = time.process_time()
        result = einmap.map_workload(spec, metrics="energy", time_limit_s=seconds)
        assert time.process_time() - start < seconds + 2
        assert result.optimal or (result.lower_bound or 0) <= result.cost.energy


def test_lanes_that_the_model_does_not_know_are_left_out_and_bounded():
    spec = product(8, densities={"A": {"structured": [2, 4], "along": "K"}},
                   savings=[{"at": "Buffer", "do": "skip", "tensors": "Z", "on": "A"}])  # fmt: skip
    main, buffer, mac = spec.get("arch.nodes")
    array = {"type": "Container", "name": "Array", "spatial": [{"name": "X", "fanout": 2, "may_reuse": "All"}]}
    result = einmap.map_workload(spec.set("arch.nodes", [main, buffer, array, mac]), metrics="energy")
    assert "mappings of Z whose lanes share zeros that the model does not know" in result.reason
    assert not result.optimal and 0 < result.lower_bound <= result.cost.energy


def test_of_a_large_mapspace_few_choices_are_looked_at():
    result = einmap.map_workload(product(512, **SKIPPED), metrics="energy")
    assert result.optimal and result.stats.mapspace_size > 1e7
    assert result.stats.evaluated < 100_000


def chain():
    """Two products of which the first makes a tensor whose zeros the second one skips, and each by itself."""
    skips = [{"at": "Buffer", "do": "skip", "tensors": "Weights", "on": "Made"}]
    tree = {
        "arch": {"nodes": product().get("arch.nodes")},
        "workload": {
            "rank_sizes": {"M": 4, "N": 4, "K": 4, "P": 4},
            "bits_per_value": {"All": 8},
            "einsums": ["T[m, n] = A[m, k] * B[k, n]", "Z[m, p] = T[m, n] * C[n, p]"],
        },
        "renames": {"einsums": [
            {"name": "T", "tensor_accesses": [{"name": "Weights", "source": "B"}, {"name": "Made", "source": "A"}]},
            {"name": "Z", "tensor_accesses": [{"name": "Weights", "source": "C"}, {"name": "Made", "source": "T"}]},
        ]},
        "sparsity": {"densities": {"A": 0.2, "B": 0.3}, "formats": {"Buffer": {"Made": "bitmask"}}, "savings": skips},
    }  # fmt: skip
    return einmap.Spec.from_dict(tree)


@pytest.mark.parametrize("metric", ["energy", "energy_delay_product"])
def test_a_cascade_is_the_sum_of_its_einsums_with_the_density_that_one_hands_to_the_next(metric):
    spec = chain()
    whole = einmap.map_workload(spec, metrics=metric, fuse=False)
    fused = einmap.map_workload(spec, metrics=metric)
    assert whole.optimal and fused.optimal and "every fused mapping" in fused.reason
    assert value(metric, fused.cost.energy, fused.cost.latency) <= value(metric, whole.cost.energy, whole.cost.latency)
    made = spec.sparsity["Z"].densities["T"].part
    assert 0 < made < 1
    parts = []
    for einsum, densities in (("T[m, n] = A[m, k] * B[k, n]", {"A": 0.2, "B": 0.3}),
                              ("Z[m, p] = T[m, n] * C[n, p]", {"T": made})):  # fmt: skip
        alone = spec.set("workload.einsums", [einsum]).set("sparsity.densities", densities)
        alone = alone.set("renames.einsums", [e for e in spec.get("renames.einsums") if e["name"] == einsum[0]])
        front = einmap.map_workload(alone, metrics="energy,latency").front
        parts.append([(point.cost.energy, point.cost.latency) for point in front])
    sums = np.array([np.add(a, b) for a in parts[0] for b in parts[1]])
    assert value(metric, whole.cost.energy, whole.cost.latency) == pytest.approx(value(metric, *sums.T).min(), rel=1e-9)


def test_fused_mappings_of_dense_machines_are_tried_and_no_fused_mapping_is_below_the_bound():
    spec = chain().set("arch.nodes[0].tensors", {"keep": "~Intermediates", "may_keep": "All"})
    for metric in ("energy", "latency"):
        unfused, fused = (einmap.map_workload(spec, metrics=metric, fuse=fuse) for fuse in (False, True))
        assert getattr(fused.cost, metric) < getattr(unfused.cost, metric) and fused.unfused.cost == unfused.cost
        assert einmap.evaluate(spec, fused.mapping).energy == fused.cost.energy
        for size in (80, 160, 320, 640):
            dense = einmap.map_workload(spec.dense().set("arch.nodes[1].size", size), metrics=metric)
            cost = einmap.evaluate(spec.set("arch.nodes[1].size", "inf"), dense.mapping)
            assert 0 < fused.lower_bound <= getattr(cost, metric)


def test_a_fused_mapping_that_costs_no_more_than_the_bound_is_proven():
    # each of two zeros saves what single values do wherever it is looked at: at the compute
    spec = chain().set("arch.nodes[0].tensors", {"keep": "~Intermediates", "may_keep": "All"})
    spec = spec.set("sparsity", {"densities": {"A": 0.25, "C": 0.5}, "savings": [
        {"at": "MAC", "do": "gate", "on": "A"}, {"at": "MAC", "do": "gate", "on": "C"},
    ]})  # fmt: skip
    found, dense = (einmap.map_workload(one, metrics="energy") for one in (spec, spec.dense()))
    assert found.optimal and found.lower_bound == found.cost.energy and not found.not_searched
    # 64 operations of each Einsum with 1 J; what passes is as without zeros
    assert found.cost.energy == pytest.approx(dense.cost.energy - 64 * 0.75 - 64 * 0.5)


def test_a_mapping_that_no_dense_machine_prefers_is_found_on_a_machine_like_the_best_one():
    spec = chain().set("arch.nodes[0].tensors", {"keep": "~Intermediates", "may_keep": "All"})
    problem = Problem(spec, read_options(spec, metrics="energy"))
    found = einmap.map_workload(spec, metrics="energy")
    machine = as_found(problem, found.front[0])
    assert machine is not None and not machine.sparsity
    # there the mapping costs without zeros what it costs with them
    assert einmap.evaluate(machine, found.mapping).energy == pytest.approx(found.cost.energy, rel=1e-9)
    assert einmap.evaluate(machine, found.mapping).latency == pytest.approx(found.cost.latency, rel=1e-9)


def test_a_format_makes_room():
    dense = product(densities={"A": 0.1})
    sparse = dense.set("sparsity.formats", {"Buffer": {"A": "coo"}})
    without, found = (einmap.map_workload(spec, metrics="energy") for spec in (dense, sparse))
    assert found.optimal and found.cost.energy < without.cost.energy


def test_densities_alone_are_mapped_as_dense_tensors():
    plain = product()
    found = [
        einmap.map_workload(spec, metrics="energy") for spec in (plain, plain.set("sparsity.densities", {"A": 0.1}))
    ]
    assert found[0].cost == found[1].cost and found[0].mapping == found[1].mapping


@pytest.mark.parametrize(
    ("density", "text"),
    [
        ({"uniform": 0.5, "seed": 1}, "does not know a search with zeros that are known position by position yet"),
        ({"band": [1, 1]}, "a tile costs what is at its place"),
    ],
)
def test_known_zeros_are_refused_with_their_place(density, text):
    spec = product(**{**SKIPPED, "densities": {"A": density}})
    with pytest.raises(NotSupportedError, match=text) as error:
        einmap.map_workload(spec)
    assert error.value.at.path == "sparsity.densities"


def test_what_fits_nowhere_is_said():
    spec = product(**SKIPPED).set("arch.nodes[1].size", 8).set("arch.nodes[1].tensors", {"keep": "All"})
    with pytest.raises(NoMappingError, match="no mapping of Einsum 'Z' keeps the constraints and fits its memories"):
        einmap.map_workload(spec, metrics="energy")
