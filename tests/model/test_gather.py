"""What is counted where rows of a table are looked up, and which mappings may do it."""

import random

import pytest
from tests.amounts import few_and_many
from tests.execute.agreement import differences
from tests.mapper.specs import compute, memory, spec
from tests.random_specs.cases import draw_case, valid_case
from tests.random_specs.gathers import GATHERS

import einmap
from einmap import MappingError
from einmap.errors import NotSupportedError
from einmap.search.skislope import ski_slope

MAIN = memory("Main", 8 * 10_000, 100)
NODES = [MAIN, memory("Buf", 8 * 1_000, 1), compute()]
STORE = "Storage"


def stored(component, *tensors):
    return {"type": "Storage", "component": component, "tensors": [*tensors]}


def loop(variable, shape):
    return {"type": "Temporal", "rank_variable": variable, "tile_shape": shape}


def leaf(einsum):
    return {"type": "Compute", "einsum": einsum, "component": "MAC"}


def branches(*nests):
    return {"type": "Sequential", "nodes": [{"type": "Nested", "nodes": nest} for nest in nests]}


def mapped(einsums, sizes, *nodes):
    given = spec(NODES, einsums, sizes)
    return given.with_mapping(einmap.Spec.from_dict({**given.to_dict(), "mapping": {"nodes": [*nodes]}}).mapping)


def bits(cost, component, tensor, action="read"):
    rows = (r for r in cost.actions if (r.component, r.tensor, r.action) == (component, tensor, action))
    return sum(row.count for row in rows)


@pytest.mark.parametrize("rows", [10, 1_000])
def test_rows_move_by_position_and_the_table_lies_whole_outermost(rows):
    nodes = [stored("Main", "Table", "Ids", "Y"), loop("t", 2), stored("Buf", "Table"), loop("t", 1), loop("d", 1)]
    given = mapped(["Y[t, d] = Table[V: Ids[t], d]"], {"V": rows, "T": 6, "D": 4}, *nodes, leaf("Y"))
    cost = einmap.evaluate(given)
    # three tiles of two rows of four values, however many rows the table has
    assert bits(cost, "Main", "Table") == bits(cost, "Buf", "Table", "write") == 3 * 2 * 4 * 8
    # an index moves with each operation; its tensor is not held further in
    assert bits(cost, "Main", "Ids") == 6 * 4 * 8
    usage = {row.component: row.usage for row in cost.memory_usage}
    assert usage == {"Main": (rows * 4 + 6 + 6 * 4) * 8 / 80_000, "Buf": 2 * 4 * 8 / 8_000}
    assert not differences(given, cost)


def test_a_copy_brings_a_whole_table_inside():
    einsums = [
        {"einsum": "Local[v, d] = Table[v, d]", "is_copy_operation": True},
        "Y[t, d] = Local[V: Ids[t], d]",
    ]
    sizes = {"V": 5, "T": 50, "D": 4}
    inside = [stored("Main", "Table", "Ids", "Y"), stored("Buf", "Local")]
    gather = [loop("t", 1), loop("d", 1), leaf("Y")]
    given = mapped(einsums, sizes, *inside, branches([loop("v", 1), loop("d", 1), leaf("Local")], gather))
    cost = einmap.evaluate(given)
    assert bits(cost, "Main", "Table") == 5 * 4 * 8
    assert bits(cost, "Buf", "Local") == 50 * 4 * 8
    assert not differences(given, cost)
    assert einmap.map_workload(spec(NODES, einsums, sizes)).cost.energy <= cost.energy


EMBEDDED = ["Y[t, d] = Table[V: Ids[t], d]", "Z[t, e] = Y[t, d] * W[d, e]"]
TABLE_MADE = ["X[v, d] = A[v, d]", "Y[t, d] = X[V: Ids[t], d]"]
INDICES_MADE = ["Ids[t] = A[t]", "Y[t, d] = Table[V: Ids[t], d]"]


@pytest.mark.parametrize(
    ("einsums", "shared", "message"),
    [
        # a loop over the places of the indices cuts nothing of the table
        (TABLE_MADE, [loop({"X": "v", "Y": "t"}, 1), stored("Buf", "X")], "above the outermost storage of 'X'"),
        # the table is not complete when the first row is looked up
        (TABLE_MADE, [stored("Buf", "X"), loop({"X": "v", "Y": "t"}, 1)], "rank V.* before 'X' writes them"),
        # rows that are held for all t would be fetched before their indices are there
        (INDICES_MADE, [stored("Buf", "Ids"), stored("Buf", "Table"), loop("t", 1)], "indices piece by piece"),
    ],
)
def test_what_is_looked_up_too_early_is_refused(einsums, shared, message):
    first, _ = (text.split("[")[0] for text in einsums)
    made, looked_up = [leaf(first)], [loop("d", 1), leaf("Y")]
    if first == "X":
        made.insert(0, loop("d", 1))
    outside = ["A", "Y", "Table" if first == "Ids" else "Ids"]
    given = mapped(einsums, {"V": 4, "T": 4, "D": 2}, stored("Main", *outside), *shared, branches(made, looked_up))
    with pytest.raises(MappingError, match=message):
        einmap.evaluate(given)


def test_indices_may_be_made_in_the_loop_that_looks_rows_up():
    shared = [stored("Main", "A", "Y", "Table"), loop("t", 1), stored("Buf", "Ids")]
    nests = branches([leaf("Ids")], [stored("Buf", "Table"), loop("d", 1), leaf("Y")])
    given = mapped(INDICES_MADE, {"V": 5, "T": 4, "D": 2}, *shared, nests)
    assert not differences(given)


@pytest.mark.parametrize(
    ("why", "place"),
    [
        (einmap.map_workload, r"arch.nodes\[1\] .Buf.*layout.*lines of it in 'Buf'"),
        (
            lambda given: einmap.map_workload(given, max_pipeline_stages=2),
            "Pipelines .* with rows that are looked up",
        ),
    ],
)
def test_what_does_not_know_gathers_says_so(why, place):
    buffer = memory("Buf", 8 * 1_000, 1)
    if "layout" in place:
        buffer["layout"] = {"line": 32, "order": {"Table": ["V", "D"]}}
    given = spec([MAIN, buffer, compute()], ["Y[t, d] = Table[V: Ids[t], d]"], {"V": 8, "T": 4, "D": 4})
    with pytest.raises(NotSupportedError, match=place):
        why(given)


def test_what_must_move_at_least_are_rows_and_not_the_table():
    curves = [ski_slope(spec(NODES, EMBEDDED, {"V": rows, "T": 3, "D": 2, "E": 2})) for rows in (2, 1_000)]
    # three rows of two values, three indices, a matrix of four and a result of six; the intermediate stays inside
    assert [curve.compulsory for curve in curves] == [8 * (6 + 3 + 4 + 6)] * 2
    assert curves[0].corners == curves[1].corners
    assert curves[0].corners[-1].traffic == curves[0].compulsory


def disagreements(seeds):
    found = []
    for seed in seeds:
        given, cost = valid_case(random.Random(seed), lambda rng: draw_case(rng, GATHERS))
        found += [(seed, different) for different in differences(given, cost)]
    return found


@few_and_many("seeds", (range(3),), ((3, 4, 5, *range(1_000, 2_000)),), parts=4, part="simulator")
def test_random_mappings_with_gathers_cost_what_they_do(seeds):
    assert disagreements(seeds) == []
