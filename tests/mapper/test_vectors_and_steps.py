"""Vector units, and the steps that a machine allows: the mapper keeps to them and is optimal within them."""

import random

import pytest
from tests.amounts import few_and_many
from tests.mapper.specs import MAIN, MATMUL, compute, memory, spec
from tests.mapper.test_optimal import covers, front
from tests.random_specs.nodes import memories, spec_of, variables
from tests.random_specs.problems import draw_problem

import einmap
from einmap.arch.constraint import Comparison

LIMITS = (
    ("multiple_of", (2, 3, 4)), ("one_of", ([1, 3], [2, 4], [1, 2, 6], [4])), ("product_multiple_of", (2, 4)),
    ("product_one_of", ([4, 6], [2, 8, 12])),
)  # fmt: skip


def limit(rng, names):
    operator, values = rng.choice(LIMITS)
    which = rng.choice((rng.choice(names), f"~{rng.choice(names)}", "All.rank_variables"))
    return {"expression": which, "operator": operator, "value": rng.choice(values)}


def draw(rng):
    """A random problem with such limits on tiles and lanes, and a vector unit."""
    problem = draw_problem(rng)
    names = variables(problem)
    for node in memories(problem)[1:]:
        if rng.random() < 0.6:
            node["tensors"]["tile_shape"] = [limit(rng, names)]
    for node in problem["arch"]["nodes"]:
        for dimension in node.get("spatial", ()):
            if rng.random() < 0.4:
                dimension["loop_bounds"] = [limit(rng, names)]
    if rng.random() < 0.6:
        vector = {"name": "lanes", "fanout": rng.choice((2, 3, 4, 6)), "vector": True}
        problem["arch"]["nodes"][-1]["spatial"] = [vector]
    return problem


def compared(seed, most):
    """Compare the search with brute force; None when that takes too long, else whether there is a mapping."""
    rng = random.Random(seed)
    given = spec_of(draw(rng))
    goals = rng.choice([["energy"], ["latency"], ["energy_delay_product"], ["energy", "latency"]])
    theirs, result = front(given, goals, brute_force=True, max_evaluations=most)
    if result is not None and not result.optimal:
        return None
    ours, result = front(given, goals)
    assert covers(ours, theirs), (seed, ours, theirs)
    assert covers(theirs, ours), (seed, ours, theirs)
    for found in result.front if result is not None else ():
        notes = [note.text for note in einmap.evaluate(given, found.mapping).notes]
        assert not [text for text in notes if "breaks" in text or "vector" in text], (seed, notes)
    return result is not None


@few_and_many("seeds, most, least", (range(5), 2_000, 1), (range(1000, 1300), 50_000, 120))
def test_the_optimum_is_that_of_brute_force(seeds, most, least):
    outcomes = [compared(seed, most) for seed in seeds]
    assert outcomes.count(True) >= least
    assert outcomes.count(False) >= 1


@pytest.mark.parametrize(
    ("text", "value", "allowed"),
    [
        ("multiple_of", 4, [4, 8, 12]), ("one_of", [2, 3, 12], [2, 3, 12]), (">=", 7, [7, 8, 9, 10, 11, 12]),
    ],
)  # fmt: skip
def test_what_a_limit_allows(text, value, allowed):
    values = tuple(value) if isinstance(value, list) else ()
    limit = Comparison(frozenset("m"), text, values[0] if values else value, "", values)
    assert [n for n in range(1, 13) if limit.holds({"m": n})] == allowed


def vectors(sizes, *limits):
    unit = compute(spatial=[{"name": "lanes", "fanout": 4, "vector": True}])
    unit["actions"][0]["throughput"] = 0.001
    buffer = memory("Buffer", 1000, 1, {"keep": "All", "tile_shape": list(limits)})
    return spec([MAIN, buffer, unit], MATMUL, sizes)


@pytest.mark.parametrize(("sizes", "variables", "lanes"), [((6, 6, 8), "k", 4), ((6, 6, 9), "mnk", 3)])
def test_a_vector_is_one_loop_over_neighbouring_values_as_wide_as_it_gets(sizes, variables, lanes):
    # 2 x 2 lanes over M and N are not a vector
    best = einmap.map_workload(vectors(dict(zip("MNK", sizes, strict=True))), metrics="latency").front[0]
    (loop,) = [node for node in best.mapping.nodes if type(node).__name__ == "Spatial"]
    assert loop.rank_variable.default in variables
    assert loop.tile_shape.default == 1
    assert best.cost.spatial_usage[0].usage == lanes / 4


def test_a_vector_in_steps_or_along_two_rank_variables_is_told():
    given = vectors({"M": 2, "N": 2, "K": 8})

    def mapping(*lanes):
        loops = [{"type": "Spatial", "rank_variable": v, "tile_shape": s} for v, s in lanes]
        return [
            *({"type": "Storage", "tensors": ["A", "B", "Z"], "component": c} for c in ("Main", "Buffer")),
            *({**loop, "component": "MAC", "name": "lanes"} for loop in loops),
            *({"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v in "mnk"),
            {"type": "Compute", "einsum": "Z", "component": "MAC"},
        ]

    for lanes, text in (((("k", 2),), "tile_shape 2 instead of 1"), ((("m", 1), ("n", 1)), "not along m, n")):
        written = einmap.Spec.from_dict({**given.to_dict(), "mapping": {"nodes": mapping(*lanes)}})
        assert any(text in note.text for note in einmap.evaluate(written).notes), text
        with pytest.raises(einmap.MappingError, match=r"MAC\.lanes is a vector"):
            einmap.evaluate(written, strict=True)


def test_uneven_tiles_are_those_that_are_allowed():
    # of two iterations over 10 those of 5 need less space than 7 and 3, but they are not allowed
    given = vectors({"M": 10, "N": 1, "K": 4}, {"expression": "m", "operator": "one_of", "value": [7]})
    (found,) = einmap.map_workload(given, metrics="energy", explore_imperfect_temporal_loops=True).front
    shapes = [node.tile_shape.default for node in found.mapping.nodes if type(node).__name__ == "Temporal"]
    assert 7 in shapes
    assert einmap.evaluate(given, found.mapping, strict=True).energy == found.cost.energy


def test_tiles_are_multiples_of_a_line():
    line = {"expression": "k", "operator": "multiple_of", "value": 4}
    sizes = {"M": 6, "N": 6, "K": 24}
    best = einmap.map_workload(vectors(sizes, line), metrics="energy").front[0]
    assert einmap.evaluate(vectors(sizes, line), best.mapping, strict=True).energy == best.cost.energy
    # what a line does not divide has no tiles that are multiples of it
    with pytest.raises(einmap.NoMappingError, match="multiple_of 3 instead of k multiple_of 4"):
        einmap.map_workload(vectors({**sizes, "K": 6}, line), metrics="energy")
