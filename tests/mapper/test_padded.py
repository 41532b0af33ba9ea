"""Fused mappings with imperfect factors are found, counted as the simulator counts, and never below the bound."""

import random

import pytest
from tests.amounts import few_and_many
from tests.execute.agreement import differences
from tests.mapper.specs import compute, container, memory, spec
from tests.mapper.test_recurrences import problem as recurrence

import einmap
from einmap.mapper.compose.padded import Padding, _larger
from einmap.mapper.compose.ways import as_it_is
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import Problem
from einmap.mapping import nodes as tree
from einmap.model.fusion import fusion_of

TWO = ["X[m,n] = A[m,k] * B[k,n]", "Z[m,p] = X[m,n] * D[n,p]"]


def cascade(size, sizes, einsums=TWO, between=()):
    nodes = [memory("L0", "inf", 10, {"keep": "~Intermediates", "may_keep": "All"}), *between, memory("L1", size, 1)]
    return spec([*nodes, compute()], einsums, sizes)


def ragged(given, mapping, kind=tree.Temporal):
    """The Einsums in which a loop of this kind does not divide what it cuts."""
    found = []
    for einsum in given.workload.einsums:
        extents = dict(einsum.bounds)
        for node in (placed.node for placed in mapping.path_of[einsum.name]):
            if isinstance(node, tree.Temporal | tree.Spatial):
                variable, shape = node.rank_variable.of(einsum.name), int(node.tile_shape.of(einsum.name))
                if extents[variable] % shape and isinstance(node, kind):
                    found.append(einsum.name)
                extents[variable] = shape
    return found


def groups(einsums, sizes, **workload):
    given = spec([memory("L0", "inf", 10), compute()], einsums, sizes, **workload)
    asked = read_options(given)
    return {
        "".join(sorted({v for _, v in group})) for group in Padding(Problem(given, asked), asked, 1, as_it_is).groups()
    }


@pytest.mark.parametrize(("size", "sizes"), [(160, (7, 5, 4, 6)), (320, (7, 5, 4, 6)), (160, (17, 4, 4, 4))])
def test_a_fused_mapping_with_imperfect_factors_is_better_than_both_others(size, sizes):
    given = cascade(size, dict(zip("MNKP", sizes, strict=True)))
    result = einmap.map_workload(given, metrics="energy", explore_imperfect_temporal_loops=True)
    unfused = einmap.map_workload(given, metrics="energy", explore_imperfect_temporal_loops=True, fuse=False)
    perfect = einmap.map_workload(given, metrics="energy")
    assert result.cost.energy < min(unfused.cost.energy, perfect.cost.energy)
    assert fusion_of(result.mapping, given).fused
    assert set(ragged(given, result.mapping)) == {"X", "Z"}
    assert differences(given.with_mapping(result.mapping), result.cost) == []
    assert not result.optimal
    assert "some mappings with imperfect factors" in result.reason
    assert 0 < result.lower_bound < result.cost.energy


def test_recurrences_are_mapped_with_imperfect_factors():
    einsums = ["R[t, n, b] = H[S: t, M: m, b] * U[m, n]", "H[S: t + 1, M: n, b] = P[t, n, b] + R[t, n, b]"]
    given = recurrence(buffer=24, einsums=einsums, T=2, M=5, N=5, B=5)
    perfect = einmap.map_workload(given, metrics="energy")
    result = einmap.map_workload(given, metrics="energy", explore_imperfect_temporal_loops=True)
    # U is fetched for two tiles of b, of 3 and 2, in place of five
    assert result.cost.energy < perfect.cost.energy
    assert ragged(given, result.mapping)
    assert differences(given.with_mapping(result.mapping), result.cost) == []
    assert (result.optimal, result.lower_bound) == (False, None)
    assert any(text.startswith("some mappings with imperfect factors") for text in result.not_searched)


def test_lanes_are_imperfect_only_where_that_is_asked_for():
    fan = container({"name": "X", "fanout": 4})
    given = cascade(400, {"M": 7, "N": 5, "K": 4, "P": 6}, between=[fan])
    loops = einmap.map_workload(given, metrics="latency", explore_imperfect_temporal_loops=True)
    assert ragged(given, loops.mapping, tree.Spatial) == []
    both = einmap.map_workload(
        given, metrics="latency", explore_imperfect_temporal_loops=True, explore_imperfect_spatial_loops=True
    )
    assert both.cost.latency <= loops.cost.latency


def test_ranks_that_windows_cut_off_or_look_up_keep_their_sizes():
    assert groups(TWO, {"M": 7, "N": 5, "K": 4, "P": 6}) == {"m", "n", "k", "p"}
    assert groups(["X[w,c] = A[w] * B[c]", "Z[p] = X[W: p+r, C: c] * D[r]"], {"W": 8, "C": 3, "P": 6, "R": 3}) == {"c"}
    renamed = ["X[m,n] = A[m] * B[n]", "Z[q] = X[M: q, N: n]"]
    assert groups(renamed, {"M": 7, "N": 5}) == {"mq", "n"}


def test_larger_sizes_have_more_divisors_and_less_than_twice_the_size():
    assert _larger(7) == [8, 9]
    assert _larger(13) == [16, 14, 15]
    assert _larger(12) == []
    assert _larger(1) == []


@few_and_many("drawn, least", (range(2), 0), (range(8), 2))
def test_random_cascades_are_never_worse_and_never_below_their_bound(drawn, least):
    rng, better = random.Random(3), 0
    for _ in drawn:
        sizes = {rank: rng.choice((3, 4, 5, 6, 7, 9, 11)) for rank in "MNKP"}
        given = cascade(rng.choice((120, 160, 240, 320)), sizes)
        goal = rng.choice(("energy", "latency", "edp"))
        result = einmap.map_workload(given, metrics=goal, explore_imperfect_temporal_loops=True)
        perfect = einmap.map_workload(given, metrics=goal)
        values = [getattr(each.cost, goal) for each in (result, perfect)]
        assert values[0] <= values[1]
        assert result.lower_bound <= values[0]
        assert einmap.evaluate(given, result.mapping, strict=True) == result.cost
        assert differences(given.with_mapping(result.mapping), result.cost) == []
        better += values[0] < values[1] * (1 - 1e-9)
    assert better >= least
