"""Whatever the constraints, a mapping that the mapper returns keeps them all."""

import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.specs import CONV, MATMUL, compute, container, memory, spec

import einmap
from einmap.mapper.cost_bounds.tile_limits import tile_limits
from einmap.mapper.mapspace.mapspace import mapspace_of
from einmap.mapping.mapping import Mapping
from einmap.model.batch.batch import Batch
from einmap.model.counting.semantics import PRESETS

WORKLOADS = [
    (MATMUL, {"M": 4, "K": 6, "N": 4}),
    (["Z[m] = A[m, k] * B[k]"], {"M": 8, "K": 6}),
    (CONV, {"M": 2, "C": 4, "P": 4, "R": 3}),
    (["X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]"], {"M": 4, "K": 4, "N": 2, "P": 2}),
]
SETS = ["Inputs", "Outputs", "All", "Nothing", "All - Outputs"]
ORDERS = [[["Inputs", "Outputs"]], [["Outputs", "Inputs"]], [["Inputs", "Outputs"], ["Outputs", "Inputs"]]]
EACH = "All.rank_variables"


def tensors(rng):
    fields = {}
    if rng.random() < 0.7:
        fields["keep"] = rng.choice(SETS)
    if rng.random() < 0.5:
        fields["may_keep"] = rng.choice(SETS)
    if rng.random() < 0.3:
        fields["tile_shape"] = [{"expression": EACH, "operator": "<=", "value": rng.choice([2, 4])}]
    if rng.random() < 0.3:
        fields["tensor_order_options"] = rng.choice(ORDERS)
    for name in ("no_refetch_from_above", "no_resend_to_below"):
        if rng.random() < 0.2:
            fields[name] = rng.choice(["Inputs", "Outputs"])
    if rng.random() < 0.2:
        fields["force_memory_hierarchy_order"] = False
    return fields


def toll(rng, name):
    fields = tensors(rng)
    fields.pop("tensor_order_options", None)
    fields.pop("force_memory_hierarchy_order", None)
    return {
        "type": "Toll",
        "name": name,
        "direction": rng.choice(["up", "down", "up_and_down"]),
        "leak_power": 0,
        "area": 0,
        "tensors": {"keep": rng.choice(SETS), **fields},
        "actions": [{"name": "read", "energy": 0.25, "throughput": 8}],
    }


def fanout(rng):
    dimension = {"name": "X", "fanout": rng.choice([2, 4]), "may_reuse": rng.choice(SETS)}
    if rng.random() < 0.3:
        dimension["reuse"] = rng.choice(["Outputs", "Nothing"])
    elif rng.random() < 0.5:
        dimension["loop_bounds"] = [{"expression": EACH, "operator": rng.choice(["<=", "product<="]), "value": 2}]
        dimension["min_usage"] = 1
    else:
        dimension["min_usage"] = 0.5
    return container(dimension)


def test_min_usage_is_asked_as_far_as_other_constraints_and_dimensions_leave_it():
    limit = {"expression": "m", "operator": "<=", "value": 2}
    first = {"name": "X", "fanout": 4, "reuse": "B", "min_usage": 1, "loop_bounds": [limit]}
    # X takes 2 of the 4 rows, which leaves 2 for Y, whose usage counts twice
    second = {"name": "Y", "fanout": 8, "reuse": "B", "min_usage": 0.75, "usage_scale": 2}
    nodes = [memory("Main", "inf", 10, {"keep": "All"}), container(first, second), compute()]
    given = spec(nodes, MATMUL, {"M": 4, "K": 2, "N": 2})
    found = einmap.map_workload(given, metrics="energy").mapping
    einmap.evaluate(given, found, strict=True)
    fewer = [node for node in found.nodes if getattr(node, "name", "") != "X"]
    with pytest.raises(einmap.MappingError, match=r"Array.X is used to 0.25, min_usage is 1"):
        einmap.evaluate(given, Mapping(tuple(fewer)), strict=True)


def constrained(rng):
    einsums, sizes = rng.choice(WORKLOADS)
    ordered = {"tensor_order_options": rng.choice(ORDERS)} if rng.random() < 0.3 else {}
    nodes = [memory("Main", "inf", 10, {"keep": "All", **ordered})]
    middle = [memory("Glb", 400, 2, tensors(rng)), fanout(rng)]
    if rng.random() < 0.6:
        middle.append(memory("Reg", 200, 0.5, tensors(rng)))
    for name in ("Link", "Bus"):
        if rng.random() < 0.6:
            middle.insert(rng.randrange(len(middle) + 1), toll(rng, name))
    return spec([*nodes, *middle, compute()], einsums, sizes)


def mapped(seed):
    """The seeded specification and its mapping; None where constraints leave none."""
    given = constrained(random.Random(seed))
    try:
        result = einmap.map_workload(given, metrics="energy", max_evaluations=1_500, seed=seed)
    except einmap.NoMappingError:
        return None
    return given, result


def passed(seeds):
    """How many of the specifications have a mapping, each of which passes strict evaluation."""
    done = 0
    for seed in seeds:
        found = mapped(seed)
        if found is None:
            continue
        given, result = found
        assert einmap.evaluate(given, result.mapping, strict=True).energy == result.cost.energy, seed
        done += 1
    return done


@few_and_many("seeds, least", (range(8, 11), 2), (range(80), 12), parts=4)
def test_mappings_for_random_architectures_pass_strict_evaluation(seeds, least):
    assert passed(seeds) > least


def with_limited_toll(inside, **limits):
    link = toll(random.Random(0), "Link")
    link["direction"] = "down"
    link["tensors"] = {"keep": "A", **limits}
    lanes = container({"name": "X", "fanout": 2, "loop_bounds": [{"expression": EACH, "operator": "==", "value": 1}]})
    buffer = memory("Buf", "inf", 1, {"may_keep": "A | Z"})
    # within a fanout a toll stands below the loops
    nodes = [memory("Main", "inf", 10, {"keep": "All"}), *([lanes] if inside else []), link, buffer, compute()]
    return spec(nodes, MATMUL, {"M": 2, "K": 2, "N": 2})


def mappings_of(given):
    einsum = given.workload.einsums[0]
    space = mapspace_of(einsum, given.arch(), backed_outside=einsum.tensors, first_partial_matters=False)
    points = [(s, s.points_at(np.arange(s.size))) for s in space.subspaces]
    found = [(s, point, s.mapping(tuple(int(x) for x in point))) for s, rows in points for point in rows]
    return space, found


def keeps_all(given, mapping):
    try:
        einmap.evaluate(given, mapping, strict=True)
    except einmap.MappingError:
        return False
    return True


@pytest.mark.parametrize(
    ("inside", "limit"), [(False, "no_resend_to_below"), (True, "no_resend_to_below"), (True, "no_refetch_from_above")]
)
def test_no_mapping_that_passes_a_toll_again_is_in_the_mapspace(inside, limit):
    limited = with_limited_toll(inside, **{limit: "A"})
    _, plain = mappings_of(with_limited_toll(inside))
    _, found = mappings_of(limited)
    allowed = {m for *_, m in plain if keeps_all(limited, m)}
    assert {m for *_, m in found} == allowed
    assert len(allowed) < len({m for *_, m in plain})


def test_tile_shape_of_a_toll_limits_the_tile_where_it_stands():
    limit = [{"expression": "A.rank_variables", "operator": ">=", "value": 2}]
    given = with_limited_toll(True, tile_shape=limit)
    space, found = mappings_of(given)
    judged = []
    for subspace, point, mapping in found:
        batch = Batch(subspace.template, space.einsum, space.arch, PRESETS["exact"])
        judged.append(bool(tile_limits(batch.path, subspace, point[None])[0]))
        assert judged[-1] == keeps_all(given, mapping), einmap.dump_mapping(mapping)
    assert 0 < sum(judged) < len(judged)
