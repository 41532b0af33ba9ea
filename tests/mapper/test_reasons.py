"""No mapping is an answer with a reason: what clashes, and the least changes that would help."""

import random
from pathlib import Path

import pytest
from tests.amounts import few_and_many
from tests.machines import workload
from tests.mapper.specs import MAIN, MATMUL, compute, container, memory, spec
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.mapper.branch_and_bound.smallest_tiles import Smallest, why_not_smallest
from einmap.mapper.infeasibility.diagnosis import Remedy, hint_of
from einmap.mapper.problem.request import Request
from einmap.model.counting.semantics import semantics_named
from einmap.progress import Progress

SQUARE = {"M": 2, "K": 2, "N": 2}
LONG = {"M": 2, "K": 4, "N": 8}
WIDE = {"M": 4, "K": 2, "N": 4}
SIX = {"M": 6, "K": 2, "N": 2}
SUMS_STAY = {"keep": "A | Z", "no_refetch_from_above": "A | Z"}
VECTOR = ["Z[m] = A[m] * B[m]"]


def limit(expression, operator, value):
    return {"expression": expression, "operator": operator, "value": value}


def buffered(size, tensors, sizes=SQUARE, **workload):
    return spec([MAIN, memory("Buf", size, 1, tensors), compute()], MATMUL, sizes, **workload)


def fanned(sizes=WIDE, einsums=MATMUL, **dimension):
    return spec([MAIN, container({"name": "X", **dimension}), compute()], einsums, sizes)


def with_main(tensors, *more, size="inf", sizes=SQUARE):
    return spec([memory("Main", size, 10, tensors), *more, compute()], MATMUL, sizes)


def with_toll():
    toll = {
        "type": "Toll",
        "name": "Link",
        "direction": "down",
        "leak_power": 0,
        "area": 0,
        "tensors": {"keep": "A", "tile_shape": [limit("m", "<=", 2)]},
        "actions": [{"name": "read", "energy": 1, "throughput": 8}],
    }
    return spec([MAIN, toll, memory("Buf", 20, 1, {"keep": "All"}), compute()], MATMUL, SQUARE)


def used_in_full():
    dimension = {"name": "X", "fanout": 4, "min_usage": 1}
    buf = memory("Buf", 64, 1, {"keep": "A", "tile_shape": [limit("m", ">=", 2)]})
    return spec([MAIN, container(dimension), buf, compute()], VECTOR, {"M": 4})


BUF, X = "arch.nodes[1]", "arch.nodes[1].spatial[0]"
PLANTED = {
    # capacities: a value of A, of B and of Z
    "all tensors": (buffered(20, {"keep": "All"}), f"{BUF}.size", 24, 23, "A 8 bits + B 8 bits + Z 8 bits = 24 bits at Buf"),
    "one tensor": (buffered(7, {"keep": "A"}), f"{BUF}.size", 8, 7, "A 8 bits at Buf even with tile shape 1; it holds 7"),
    "wide sums": (buffered(31, {"keep": "All"}, bits_per_value={"Other": 8, "Z": 16}), f"{BUF}.size", 32, 31, "Z 16 bits"),
    "odd widths": (buffered(8, {"keep": "All"}, bits_per_value={"All": 3}), f"{BUF}.size", 9, 8, "= 9 bits"),
    # 2 x 2 values of each
    "outermost": (with_main({"keep": "All"}, size=95), "arch.nodes[0].size", 96, 95, "outermost memory, which holds whole"),
    # above A no n, above Z no k: A first with all k (4) and one value of Z, or Z with all n (8) and one of A
    "sums stay": (buffered(39, SUMS_STAY, LONG), f"{BUF}.size", 40, 39, "A 32 bits + Z 8 bits = 40 bits"),
    "inner": (
        spec([MAIN, memory("Glb", 99, 1, {"keep": "All"}), memory("Reg", 15, 1, {"keep": "A | B"}), compute()], MATMUL, SQUARE),
        "arch.nodes[2].size", 16, 15, "= 16 bits at Reg",
    ),
    "behind a toll": (with_toll(), "arch.nodes[2].size", 24, 23, "= 24 bits at Buf"),
    # fanouts
    "lanes of m": (fanned(fanout=3, loop_bounds=[limit("m", "==", 4)]), f"{X}.fanout", 4, 3, "Array.X (fanout 3) keep m == 4"),
    "many lanes": (fanned(fanout=5, loop_bounds=[limit("m | n", "product>=", 7)]), f"{X}.fanout", 8, 7, "Array.X"),
    "scaled": (fanned(fanout=4, usage_scale=2, loop_bounds=[limit("m", "==", 4)]), f"{X}.fanout", 8, 7, "Array.X"),
    "scale": (fanned(fanout=4, usage_scale=2, loop_bounds=[limit("m", "==", 4)]), f"{X}.usage_scale", 1, 1.01, "Array.X"),
    "least usage": (used_in_full(), f"{X}.min_usage", 0.5, 0.51, "min_usage"),
    # limits on loops and tiles
    "no divisor": (fanned(fanout=4, loop_bounds=[limit("m", "==", 3)]), f"{X}.loop_bounds[0].value", 4, 3, "m == 3"),
    "too many": (fanned(fanout=4, loop_bounds=[limit("m", ">=", 5)]), f"{X}.loop_bounds[0].value", 4, 5, "m >= 5"),
    "product": (fanned(fanout=4, loop_bounds=[limit("m | n", "product>", 4)]), f"{X}.loop_bounds[0].value", 3, 4, "product"),
    "whole tile": (
        with_main({"keep": "All", "tile_shape": [limit("m", "<=", 2)]}, sizes=WIDE),
        "arch.nodes[0].tensors.tile_shape[0].value", 4, 3, "tile_shape[0]",
    ),
    "tile of 4": (
        buffered("inf", {"keep": "A", "tile_shape": [limit("m", "==", 4)]}, {"M": 6, "K": 2, "N": 2}),
        f"{BUF}.tensors.tile_shape[0].value", 3, 5, "tile_shape[0]",
    ),
    "large tile": (
        buffered(24, {"keep": "A", "tile_shape": [limit("m", ">=", 4)]}, SIX),
        f"{BUF}.tensors.tile_shape[0].value", 3, 4, "A 48 bits at Buf",
    ),
    "room for a large tile": (
        buffered(24, {"keep": "A", "tile_shape": [limit("m", ">=", 4)]}, SIX), f"{BUF}.size", 48, 47, "A 48 bits at Buf",
    ),
}  # fmt: skip
"""Specification, field, the least value that helps, one that is just not enough, words of the message."""

DROPPED = {
    "keep": (buffered(8, {"keep": "A | B"}), f"{BUF}.tensors.keep", "(A | B) - (A)", "without A, or without B"),
    "two of three": (buffered(8, {"keep": "All"}), f"{BUF}.tensors.keep", "(All) - (A | B)", "without A and B"),
    "may_keep": (
        with_main({"keep": "A | Z"}, memory("Buf", 64, 1, {"may_keep": "A", "keep": "Nothing"})),
        "arch.nodes[0].tensors.may_keep", "(Nothing) | B", "no memory may keep 'B'",
    ),
    "back": (buffered(64, {"back": "A"}), f"{BUF}.tensors.back", "(A) - (A)", "tensors.back"),
    "reuse": (fanned(fanout=4, reuse="A", loop_bounds=[limit("m", "==", 2)]), f"{X}.reuse", "(A) - (A)", "keep m == 2"),
    "refetch": (
        buffered(16, SUMS_STAY, LONG), f"{BUF}.tensors.no_refetch_from_above", "(A | Z) - (A)", "without A, or without Z",
    ),
    "order": (
        buffered(40, {**SUMS_STAY, "tensor_order_options": [["Z", "A"]]}, LONG),
        f"{BUF}.tensors.tensor_order_options", [], "left out",
    ),
    "enabled": (
        with_main({"keep": "A | Z"}, memory("Buf", 64, 1, {"keep": "B"}, enabled=False)),
        f"{BUF}.enabled", True, "no memory may keep 'B'",
    ),
    "limit": (
        fanned(fanout=4, loop_bounds=[limit("m", "<=", 2), limit("n", "<", 1)]),
        f"{X}.loop_bounds[1].value", 2, "n < 1",
    ),
}  # fmt: skip


def reason(given, **options):
    with pytest.raises(einmap.NoMappingError) as caught:
        einmap.map_workload(given, metrics="latency", **options)
    return caught.value


def has_mapping(given, **options):
    try:
        einmap.map_workload(given, metrics="latency", **options)
    except einmap.NoMappingError:
        return False
    return True


def changed(given, remedy):
    for path, value in remedy.settings:
        given = given.set(path, value)
    return given


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_number_is_found_with_the_least_value_that_helps(case):
    given, path, least, not_enough, words = PLANTED[case]
    error = reason(given)
    assert words in str(error)
    assert "Einsum 'Z'" in error.message
    assert {path: least}.items() <= {p: v for r in error.remedies for p, v in r.settings}.items()
    assert f"{least:g}" in error.hint
    assert has_mapping(given.set(path, least))
    for brute_force in (False, True):
        assert not has_mapping(given.set(path, not_enough), brute_force=brute_force)


@pytest.mark.parametrize("case", DROPPED)
def test_a_planted_constraint_is_among_those_that_may_be_dropped(case):
    given, path, value, words = DROPPED[case]
    error = reason(given)
    assert words in str(error)
    assert (path, value) in [setting for r in error.remedies for setting in r.settings]
    assert all(has_mapping(changed(given, remedy)) for remedy in error.remedies)


@pytest.mark.parametrize("bits", [{"A": 0}, {"A": 0, "B": 0, "Z": 0}])
def test_tensors_without_bits_take_no_space(bits):
    limits = {"keep": "All", "tile_shape": [{"expression": "m", "operator": ">=", "value": 4}]}
    given = spec([MAIN, memory("Buf", 7, 1, limits, bits_per_value=bits), compute()], MATMUL, SQUARE)
    error = reason(given)
    assert all(has_mapping(changed(given, remedy)) for remedy in error.remedies)
    assert error.remedies


def test_at_most_three_changes_are_reported_smallest_first():
    error = reason(buffered(20, {**SUMS_STAY, "keep": "All", "tensor_order_options": [["Z", "A"]]}, LONG))
    sizes = [remedy.size for remedy in error.remedies]
    assert 1 < len(sizes) <= 3
    assert sizes == sorted(sizes)


def test_two_changes_are_named_where_no_single_one_helps():
    nodes = [MAIN, memory("Glb", 23, 1, {"keep": "All"}), memory("Reg", 7, 1, {"keep": "A"}), compute()]
    error = reason(spec(nodes, MATMUL, SQUARE))
    assert "no single change helps" in error.hint
    assert error.remedies[0].settings == (("arch.nodes[1].size", 24), ("arch.nodes[2].size", 8))
    assert has_mapping(changed(spec(nodes, MATMUL, SQUARE), error.remedies[0]))


def test_a_hint_that_ran_out_of_time_claims_nothing_of_what_was_not_tried():
    assert "no single change" in hint_of([], complete=True)
    early = hint_of([], complete=False)
    assert "no single change" not in early
    assert "not all changes could be tried" in early
    found = [Remedy("Buf.size: 24 bits instead of 8 bits", (("arch.nodes[1].size", 24),), 3.0)]
    assert "of those tried" in hint_of(found, complete=False)
    assert "of those tried" not in hint_of(found, complete=True)


def test_each_path_has_its_own_reason():
    fork = {"type": "Fork", "nodes": [memory("Side", 7, 1, {"keep": "A"}), {**compute(), "name": "Scalar"}]}
    given = spec([MAIN, fork, memory("Buf", 15, 1, {"keep": "A | B"}), compute()], MATMUL, SQUARE)
    error = reason(given)
    assert "on the path to Scalar, A 8 bits at Side" in error.message
    assert "on the path to MAC, A 8 bits + B 8 bits = 16 bits at Buf" in error.message
    assert {("arch.nodes[1].nodes[0].size", 8), ("arch.nodes[2].size", 16)} <= {r.settings[0] for r in error.remedies}
    assert all(has_mapping(changed(given, remedy)) for remedy in error.remedies)


def test_a_cascade_names_the_einsum_that_has_none():
    chain = ["X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]"]
    given = spec([MAIN, memory("Buf", 7, 1, {"keep": "D"}), compute()], chain, {**SQUARE, "P": 2})
    error = reason(given)
    assert "Einsum 'Z'" in error.message
    assert error.remedies[0].settings == (("arch.nodes[1].size", 8),)
    assert has_mapping(changed(given, error.remedies[0]))


def test_the_place_is_that_of_the_smallest_change():
    given = einmap.loads(
        """arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: Dummy}
  - !Memory
    name: Buf
    size: 20
    component_class: Dummy
    tensors: {keep: All}
  - !Compute {name: MAC, component_class: Dummy}
"""
        + workload("M: 2, K: 2, N: 2", "Z[m, n] = A[m, k] * B[k, n]")
    )
    error = reason(given)
    assert (error.at.line, error.at.path) == (6, 'arch.nodes[1] "Buf".size')


def test_the_document_shows_what_is_said():
    given = einmap.load("eyeriss", "conv").set("arch.nodes.GlobalBuffer.size", 12)
    document = Path(__file__).parents[2] / "docs" / "mapper.md"
    assert str(reason(given)) in document.read_text(encoding="utf-8")


def test_what_was_looked_at_is_told_in_singular_and_plural():
    one, several = (
        reason(given).message for given in (with_main({"keep": "All"}, size=95), buffered(7, {"keep": "All"}))
    )
    assert one.endswith("(looked at 1 dataplacement and 1 use of the fanouts)")
    assert " dataplacements and 1 use of the fanouts)" in several


def test_without_time_the_clash_is_named_within_a_second_or_so():
    assert "A 8 bits at Buf" in reason(buffered(7, {"keep": "A"}), time_limit_s=0).message


def test_a_stop_leaves_what_has_been_found():
    progress = Progress(lambda report: progress.stop() if "least change" in report.what and report.done > 1 else None)
    error = reason(buffered(20, {"keep": "All"}), progress=progress)
    assert "in time" in error.hint


def smallest_tiles_decide(semantics, seeds):
    request, seen = Request(("latency",), semantics_named(semantics)), set()
    for seed in seeds:
        rng = random.Random(f"tight {seed}")
        problem = draw_problem(rng)
        for node in problem["arch"]["nodes"][1:]:
            if node["type"] == "Memory":
                node["size"] = rng.choice((16, 24, 32, 40, 64, 100))
        given = spec_of(problem)
        einsum = given.workload.einsums[0]
        arch = given.arch()
        if why_not_smallest(arch.path("MAC")) is None:
            found, certain = Smallest(einsum, request).fit(arch, "MAC", None, Progress())
            assert certain
            assert (found is not None) == has_mapping(given, semantics=semantics), seed
            seen.add(found is None)
    assert seen == {False, True}


@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
@few_and_many("seeds", (range(4),), (range(4, 60),))
def test_the_smallest_tiles_fit_where_a_mapping_exists_and_only_there(seeds, semantics):
    smallest_tiles_decide(semantics, seeds)


def first_suggestions_help(seeds):
    """How many of the problems without a mapping have suggestions; the first of each gives it one."""
    explained = 0
    for seed in seeds:
        rng = random.Random(f"none {seed}")
        problem = draw_problem(rng)
        for node in problem["arch"]["nodes"][1:]:
            if node["type"] == "Memory":
                node["size"] = rng.choice((8, 16, 24))
        given = spec_of(problem)
        try:
            einmap.map_workload(given, metrics="latency")
        except einmap.NoMappingError as error:
            explained += bool(error.remedies)
            assert not error.remedies or has_mapping(changed(given, error.remedies[0])), seed
    return explained


@few_and_many("seeds, least", (range(4), 0), (range(4, 40), 10))
def test_the_first_suggestion_gives_random_problems_a_mapping(seeds, least):
    assert first_suggestions_help(seeds) > least
