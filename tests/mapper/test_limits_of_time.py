"""Searches end in time, and with evaluations alone they do not depend on it."""

import time

import numpy as np
import pytest
from tests.amounts import some
from tests.mapper.clocks import counted_calls
from tests.mapper.specs import MAIN, MATMUL, SPECS, compute, container, memory, spec

import einmap
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.exhaustive.brute_force import AT_A_TIME
from einmap.mapper.independent import independent_search
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.mapspace.enumeration import InOrder, Shuffled, listed, scattered
from einmap.mapper.mapspace.mapspace import BuildingEffort, mapspace_of
from einmap.mapper.problem.options import read_options
from einmap.model.batch.batch import Batch
from einmap.numbers import prime_factors

WIDE = "Z[m] = A[m, k] * B[m, k] * C[m, k] * D[m, k]"


@pytest.fixture
def mapped_in_time(monkeypatch):
    """Map with a limit, by a clock that counts calls; the search may take a second more at most."""

    def mapped(given, seconds, **options):
        with counted_calls(monkeypatch):
            start = time.monotonic()
            result = einmap.map_workload(given, time_limit_s=seconds, workers=1, **options)
            assert time.monotonic() - start < seconds + 1
        return result

    return mapped


def wide(*more, first=WIDE):
    """600,000 templates for each Einsum like WIDE."""
    nodes = [
        MAIN,
        memory("Glb", 40_000, 2),
        container({"name": "X", "fanout": 4}),
        memory("Reg", 64, 0.5),
        compute(),
    ]
    return spec(nodes, [first, *more], {"M": 64, "K": 64, "N": 8})


def space_of(given, **limits):
    einsum = given.workload.einsums[0]
    return mapspace_of(
        einsum,
        given.arch(),
        backed_outside=einsum.tensors,
        first_partial_matters=False,
        effort=BuildingEffort(**limits),
    )


@pytest.mark.parametrize("brute_force", [False, True])
def test_the_time_limit_holds_for_a_mapspace_that_takes_minutes_to_build(brute_force, mapped_in_time):
    given = wide()
    # the least energy-delay product of this one is soon proven
    result = mapped_in_time(given, 0.25, metrics="latency", brute_force=brute_force)
    assert not result.optimal
    assert "Z not covered" in result.reason
    assert not result.stats.by_einsum["Z"]["complete"]
    einmap.evaluate(given, result.mapping, strict=True)


@pytest.mark.parametrize("architecture", ["simple", "tpu_v4i"])
def test_the_time_limit_holds_for_a_recurrence(architecture, mapped_in_time):
    # listing, and the Einsums one by one for when time is over, take some of their own
    result = mapped_in_time(einmap.load(architecture, "lstm"), 0.25, metrics="energy")
    assert not result.optimal
    assert 0 < result.lower_bound < result.cost.energy


def test_one_mapspace_does_not_eat_the_time_of_the_others(mapped_in_time):
    given = wide("Y[m, n] = Z[m] * E[m, n]", "X[m, n] = Y[m, n] * F[m, n] * G[m, n] * H[m, n]")
    result = mapped_in_time(given, 0.5, brute_force=True)
    assert all(part["evaluated"] > 100 for part in result.stats.by_einsum.values())


def test_with_evaluations_alone_a_truncated_search_gives_the_same_result_again():
    given = wide(first="Z[m] = A[m, k] * B[m, k] * C[m, k]")
    first, second = (einmap.map_workload(given, max_evaluations=1_000, seed=3, brute_force=True) for _ in range(2))
    assert first.mapping == second.mapping
    assert first.stats.by_einsum == second.stats.by_einsum
    assert not first.stats.by_einsum["Z"]["complete"]


def test_a_stop_while_building_leaves_a_part_that_is_not_biased():
    space = space_of(wide(), most=1_000)
    assert space.truncated
    assert 1_000 <= len(space.subspaces) < 1_100
    held = [[n for n in s.template.nodes if getattr(n, "tensors", None)] for s in space.subspaces]
    for name in ("Glb", "Reg"):
        sizes = np.bincount([sum(n.component == name for n in nodes) for nodes in held], minlength=6)
        # most orders are those of many tensors
        assert sizes[4] > 100
        assert sizes[5] > 100
        assert (sizes[2:] > 0).all()
    assert {n.tensors[0] for nodes in held for n in nodes} == set("ABCDZ")


@pytest.mark.parametrize("name", SPECS)
def test_time_that_suffices_changes_nothing(name):
    given = SPECS[name]()
    plain = space_of(given)
    assert space_of(given, progress=einmap.Progress().within(60), seed=5) == plain
    assert not plain.truncated


def test_a_part_of_a_mapspace_holds_subspaces_of_the_whole():
    given = SPECS["lanes with reuse"]()
    some = space_of(given, most=20)
    assert some.truncated
    assert set(some.subspaces) < set(space_of(given).subspaces)


def test_drawn_lists_hold_members_of_the_whole():
    def pairs(walk):
        for kept in walk.subsets("abc"):
            for item in walk.items(range(50)):
                yield kept, item

    every, complete = listed(pairs, np.random.default_rng(0), einmap.Progress())
    assert complete
    assert every == list(pairs(InOrder()))
    stopped = einmap.Progress().within(0)
    some, complete = listed(pairs, np.random.default_rng(0), stopped)
    assert not complete
    assert set(some) < set(every)
    draws = {next(pairs(Shuffled(np.random.default_rng(seed)))) for seed in range(300)}
    assert len({kept for kept, _ in draws}) == 8
    assert len({item for _, item in draws}) > 40


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 97, 360])
def test_scattered_numbers_are_all_numbers_once(size):
    assert sorted(scattered(size, np.random.default_rng(1))) == list(range(size))


@pytest.mark.parametrize(
    ("n", "factors"),
    [
        (2**40 - 87, ((2**40 - 87, 1),)), (1_048_573 * 1_048_571, ((1_048_571, 1), (1_048_573, 1))),
        (999_983**2, ((999_983, 2),)), (2**40, ((2, 40),)),
    ],
)  # fmt: skip
def test_large_numbers_are_factored(n, factors):
    assert prime_factors.__wrapped__(n) == factors


def test_a_rank_of_a_large_prime_is_mapped():
    given = spec([MAIN, memory("Buf", 100, 1), compute()], MATMUL, {"M": 2**40 - 87, "K": 1, "N": 1})
    assert einmap.map_workload(given).optimal


STOPPED = [
    ("simple", "feed_forward"), ("eyeriss", "conv"), ("nvdla", "vgg16"), ("tpu_v4i", "gpt3_6.7b"),
    ("eyeriss", "feed_forward"),
]  # fmt: skip


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("names", STOPPED[:2])
@pytest.mark.parametrize("most", [1, 5, 100])
def test_no_more_is_evaluated_than_was_asked_for(names, fuse, most):
    given = einmap.load(*names)
    first, second = (einmap.map_workload(given, max_evaluations=most, fuse=fuse) for _ in range(2))
    assert first.stats.evaluated <= most
    assert not first.optimal
    assert first.gap > 0
    assert einmap.evaluate(given, first.mapping, strict=True) == first.cost
    assert first.mapping == second.mapping


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("names", some(4, STOPPED))
def test_a_search_that_is_stopped_at_once_gives_a_mapping_and_a_gap(names, fuse):
    given, token = einmap.load(*names), einmap.Progress()
    token.stop()
    result = einmap.map_workload(given, progress=token, fuse=fuse)
    assert not result.optimal
    assert result.gap > 0
    einmap.evaluate(given, result.mapping, strict=True)


def test_a_search_ends_between_choices_that_are_evaluated_one_by_one(monkeypatch):
    def evaluate(batch, shapes, n):
        token.stop()
        return whole(batch, shapes, n)

    token, whole = einmap.Progress(), Batch.evaluate
    monkeypatch.setattr(Batch, "evaluate", evaluate)
    lines = {"layout": {"line": 16, "order": {"A": ["M", "K"]}, "lanes": "together"}}
    nodes = [MAIN, memory("Glb", 40_000, 2, {"keep": "All"}, **lines), container({"name": "X", "fanout": 4}), compute()]
    result = einmap.map_workload(spec(nodes, MATMUL, {"M": 8, "K": 8, "N": 8}), progress=token)
    assert 0 < result.stats.evaluated <= AT_A_TIME
    assert not result.optimal


def test_a_search_that_ends_while_tables_are_filled_gives_a_mapping_where_memories_move_lines(monkeypatch):
    def filled(search, stopped):
        token.stop()
        return whole(search, stopped)

    token, whole = einmap.Progress(), PathSearch.tables_filled
    monkeypatch.setattr(PathSearch, "tables_filled", filled)
    lines = memory("Main", "inf", 10, {"keep": "All"}, layout={"line": 16, "order": {"A": ["M", "K"]}})
    given = spec([lines, memory("Buf", 120, 1), compute()], MATMUL, {"M": 4, "K": 4, "N": 2})
    result = einmap.map_workload(given, progress=token)
    assert not result.optimal
    assert einmap.evaluate(given, result.mapping).energy == result.cost.energy


def test_where_there_was_no_time_for_choices_or_a_mapping_of_an_einsum_none_is_claimed(monkeypatch):
    spec = einmap.load("simple", "matmul_chain")
    search = IndependentSearch(spec, read_options(spec))
    monkeypatch.setattr(independent_search, "FOR_PLANS", 0)
    monkeypatch.setattr(IndependentSearch, "descend", lambda self, *_: None)
    monkeypatch.setattr(
        IndependentSearch, "_search", lambda self, part, *_: Optimum([], [], False, (0.0, 0.0), cut=True)
    )
    token = einmap.Progress().within(100)
    with pytest.raises(einmap.NoMappingError, match="stopped before any mapping"):
        search.run(token, longer=token)
