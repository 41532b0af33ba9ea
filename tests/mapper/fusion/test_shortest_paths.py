"""Lower bounds of paths against all combinations of rows, one by one."""

import math
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from tests.mapper.fusion.graphs import Small, combinations, option_of, smalls

from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key
from einmap.mapper.fusion.fronts.protocol import FrontMemories, FusedFront
from einmap.mapper.fusion.paths import label_setting
from einmap.mapper.fusion.paths.boundary_states import EinsumOptions, Option
from einmap.mapper.fusion.paths.kernel_records import Labels, Limits
from einmap.mapper.fusion.paths.shortest_paths import ContendedMemories
from einmap.mapper.fusion.refinement.relaxation import NO_PATHS


def least_by_definition(small, graph, *, fitting):
    """Least weighted costs of the rest behind each boundary state, of all but one option, and of all with it."""
    backward, rests, through = (defaultdict(lambda: np.full(len(small.weights), np.inf)) for _ in range(3))
    for found in combinations(small, graph):
        if fitting and not found.fits:
            continue
        costs = found.costs @ small.weights.T
        for k, (stage, edge) in enumerate(zip(graph.stages, found.edges, strict=True)):
            whole, place = costs.sum(axis=0), (stage, edge.option)
            backward[k, edge.before] = np.minimum(backward[k, edge.before], costs[k:].sum(axis=0))
            rests[place] = np.minimum(rests[place], whole - costs[k])
            through[place] = np.minimum(through[place], whole)
    return backward, rests, through


def bounds_of(paths, graph):
    """The same as the search takes it."""
    backward = {(k, i): row for k in range(len(graph.stages)) for i, row in enumerate(paths.backward(k))}
    rests, through = (
        {(stage, o): own[stage][o] for stage in graph.stages for o in stage.options}
        for own in (paths.rests, paths.through)
    )
    return backward, rests, through


@given(smalls())
def test_bounds_of_paths_are_between_the_plain_sums_and_what_fits(small):
    graph = small.graph()
    assume(graph.exists)
    bounds = bounds_of(small.paths(graph), graph)
    plain = least_by_definition(small, graph, fitting=False)
    true = least_by_definition(small, graph, fitting=True)
    for bound, low, high in zip(bounds, plain, true, strict=True):
        for place, row in bound.items():
            assert (low[place] <= row + 1e-9).all()
            assert (row <= high[place] + 1e-9).all()


@given(smalls(boundless=True))
def test_without_bounds_on_space_they_are_the_plain_sums(small):
    graph = small.graph()
    assume(graph.exists)
    bounds = bounds_of(small.paths(graph), graph)
    for bound, plain in zip(bounds, least_by_definition(small, graph, fitting=False), strict=True):
        for place, row in bound.items():
            assert row == pytest.approx(plain[place])


@given(smalls())
def test_the_join_keeps_the_best_of_all_that_fits(small):
    graph = small.graph()
    assume(graph.exists)
    fitting = [found.costs.sum(axis=0) for found in combinations(small, graph) if found.fits]
    rows = small.join(graph).run()[-1]
    assert bool(len(rows.costs)) == bool(fitting)
    if fitting:
        points = np.array(fitting)
        for own in rows.costs:
            assert (np.abs(points - own).max(axis=1) < 1e-9).any()
        for point in points:
            assert (rows.costs <= point + 1e-9).all(axis=1).any()


@given(smalls())
def test_a_join_in_small_steps_is_the_same(small):
    graph = small.graph()
    assume(graph.exists)
    whole = small.join(graph).run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_setting, "PAIRS_AT_A_TIME", 0)
        parts = small.join(graph).run()
    for one, other in zip(whole, parts, strict=True):
        assert all((getattr(one, name) == getattr(other, name)).all() for name in ("first", "costs", "back"))


@given(smalls())
def test_rows_lead_back_to_what_they_are_made_of(small):
    graph = small.graph()
    assume(graph.exists)
    found = small.join(graph).run()
    for last, costs in enumerate(found[-1].costs):
        total, row, after = np.zeros(small.n_costs), last, 0
        for k in reversed(range(len(graph.stages))):
            stage = graph.stages[k]
            before, option, own = found[k + 1].back[row]
            boundary_state = int(np.searchsorted(found[k].first, before, side="right")) - 1
            assert [boundary_state, option, after] in stage.edges.tolist()
            total += stage.step.times * small.fronts[stage.step][option].values[own, : small.n_costs]
            row, after = before, boundary_state
        assert total == pytest.approx(costs)


@given(smalls())
def test_what_is_left_out_by_a_limit_is_above_it(small):
    graph = small.graph()
    assume(graph.exists)
    values = sorted({float(found.costs.sum(axis=0).prod()) for found in combinations(small, graph) if found.fits})
    for most in values[:3]:
        rows = small.join(graph, most).run()[-1]
        assert rows.costs.prod(axis=1).min() == pytest.approx(values[0])
    if values and values[0] > 0:
        rows = small.join(graph, values[0] * 0.99).run()[-1]
        assert (rows.costs.prod(axis=1) > values[0] * 0.99).all()


def test_a_beam_keeps_the_best_of_all_and_of_each_boundary_state_and_limits_what_is_made_next():
    costs, nothing = np.array([[4.0], [1.0], [2.0], [9.0], [8.0]]), np.zeros((5, 0, 0))
    labels = Labels(np.array([0, 3, 5, 5]), costs, nothing, nothing, np.arange(15).reshape(5, 3))
    # the rest adds 1 behind the second boundary state
    paths = SimpleNamespace(weights=np.eye(1), backward=lambda _: np.array([[0.0], [1.0], [0.0]]))
    limits = Limits(np.zeros(0), np.zeros((3, 1, 1)), np.ones(3, dtype=np.int64), np.full(3, 20.0))
    kept = label_setting.Beam(2, lambda least: least[:, 0]).narrowed(labels, limits, paths, 1)
    assert kept.first.tolist() == [0, 2, 3, 3]
    assert kept.costs.tolist() == [[1], [2], [8]]
    assert kept.back[:, 0].tolist() == [3, 6, 12]
    assert limits.most.tolist() == [2, 9, 20]


@given(smalls())
def test_what_is_left_out_by_what_is_reached_is_no_better(small):
    graph = small.graph()
    assume(graph.exists)
    points = [found.costs.sum(axis=0) for found in combinations(small, graph) if found.fits]
    assume(points)
    reached = points[len(points) // 2]
    rows = small.join(graph, None, reached[None]).run()[-1]
    for point in points:
        assert (reached <= point + 1e-9).all() or (rows.costs <= point + 1e-9).all(axis=1).any()


# two Einsums that share a tensor below one loop; columns of a front: cost, bits in use, bits that stay below the loop

LOOP = [(TEMPORAL, "M", 2, 4)]


def pair(first, second, capacity, *, bits=0):
    """A producer and a consumer that share one loop, with these rows."""
    option = option_of({0: ("near", 1)}, LOOP, {0: bits})
    steps = (
        EinsumOptions((option,), frozenset({0}), frozenset({0}), frozenset({0}), 1),
        EinsumOptions((option,), frozenset(), frozenset(), frozenset({0}), 1),
    )
    fronts = {
        step: {0: FusedFront(np.array(rows, dtype=np.float64), NO_PATHS)}
        for step, rows in zip(steps, (first, second), strict=True)
    }
    return Small(
        steps,
        fronts,
        ContendedMemories(FrontMemories(("near",), True), np.array([float(capacity)]), np.zeros(1)),
        1,
        0.0,
    )


def test_what_the_producer_keeps_does_not_fit_beside_the_consumer():
    # the cheap producer keeps 8 of 10 bits, and the consumer needs 5
    small = pair([[1, 8, 8], [4, 5, 2]], [[1, 5, 0]], 10)
    graph = small.graph()
    paths = small.paths(graph)
    assert paths.least == 5
    assert paths.backward(1)[0] == 1
    assert paths.rests[graph.stages[1]][0] == 4
    assert paths.through[graph.stages[1]][0] == 5
    assert small.join(graph).run()[-1].costs.tolist() == [[5]]
    roomy = pair([[1, 8, 8], [4, 5, 2]], [[1, 5, 0]], 13)
    assert roomy.paths(roomy.graph()).least == 2


def test_what_the_consumer_keeps_does_not_fit_beside_the_producer():
    # the producer uses 7 of 10 bits while the consumer keeps 6 of its own, or 3
    small = pair([[1, 7, 0]], [[1, 6, 6], [3, 4, 3]], 10)
    graph = small.graph()
    assert small.paths(graph).least == 4
    assert small.join(graph).run()[-1].costs.tolist() == [[4]]


def test_bounds_know_only_the_least_of_each_neighbour():
    # a consumer that is cheap and one that is small are not one: the bound takes the best of both
    small = pair([[1, 8, 8], [9, 1, 1]], [[1, 5, 0], [6, 2, 0]], 10)
    graph = small.graph()
    paths = small.paths(graph)
    assert paths.through[graph.stages[0]][0] == 2
    assert small.join(graph).run()[-1].costs.tolist() == [[7]]


def test_nothing_fits_together():
    small = pair([[1, 8, 8]], [[1, 5, 0]], 10)
    graph = small.graph()
    paths = small.paths(graph)
    assert math.isinf(paths.least[0])
    assert np.isinf(paths.through[graph.stages[0]]).all()
    assert not len(small.join(graph).run()[-1].costs)


def three(first, second, third, rows, *, bits=0):
    """A chain of three Einsums; depths of its two tensors, and one row of each front."""
    backed = [{0: ("near", first)}, {0: ("near", first), 1: ("near", second)}, {1: ("near", third)}]
    options = [option_of(own, TWO_LOOPS, {0: bits, 1: 0}) for own in backed]
    needed, born = [{0}, {1}, set()], [{0}, {1}, set()]
    steps = tuple(
        EinsumOptions((option,), frozenset(behind), frozenset(new), frozenset({0, 1}), 1)
        for option, behind, new in zip(options, needed, born, strict=True)
    )
    fronts = {
        step: {0: FusedFront(np.array([row], dtype=np.float64), NO_PATHS)}
        for step, row in zip(steps, rows, strict=True)
    }
    return Small(
        steps, fronts, ContendedMemories(FrontMemories(("near",), True), np.full(1, math.inf), np.zeros(1)), 1, 0.0
    )


TWO_LOOPS = [*LOOP, (TEMPORAL, "N", 2, 4)]


@pytest.mark.parametrize(
    ("small", "needed"),
    [
        # X of 4 bits dies with the second Einsum, but not before the loop that it shares with the third one is over
        (three(0, 1, 1, [[1, 4], [1, 4, 0], [1, 7, 0]], bits=4), 11),
        # the first Einsum's 3 bits stay below the second loop alone, which the third one does not share
        (three(2, 1, 1, [[1, 3, 0, 3], [1, 4, 0, 0], [1, 8, 0]]), 8),
        # below the first loop they stay
        (three(2, 1, 1, [[1, 3, 3, 3], [1, 4, 0, 0], [1, 8, 0]]), 11),
        # what the third Einsum keeps above the loop that all share is in use while the first one runs
        (three(1, 1, 1, [[1, 8, 0], [1, 4, 0], [1, 3, 3]]), 11),
        # it does not matter to the first one where these two share nothing
        (three(1, 0, 0, [[1, 8, 0], [1, 4, 0], [1, 3]]), 8),
    ],
)
def test_three_einsums_fit_from_a_size_on(small, needed):
    for capacity, least in ((needed - 1, math.inf), (needed, 3.0)):
        sized = replace(small, room=ContendedMemories(small.room.space, np.array([float(capacity)]), small.room.always))
        graph = sized.graph()
        assert sized.paths(graph).least == least
        assert bool(len(sized.join(graph).run()[-1].costs)) == math.isfinite(least)


def test_the_tensor_of_a_copy_that_is_left_out_is_in_use_from_there_on():
    # 4 bits stand above the loop that the first Einsum, which uses 6 bits, shares with the last one
    key = Key("near", ())
    copy = Option(FusionSignature(((0, key),), (), (), ()), {1: key}, {}, {}, {1: 4.0}, absent=True)
    options = [
        option_of({0: ("near", 1)}, LOOP, {0: 0}),
        copy,
        option_of({0: ("near", 1), 1: ("near", 0)}, LOOP, {0: 0, 1: 4}),
    ]
    needed, born = [{0}, {0, 1}, set()], [{0}, {1}, set()]
    steps = tuple(
        EinsumOptions((option,), frozenset(behind), frozenset(new), frozenset({0}), 1)
        for option, behind, new in zip(options, needed, born, strict=True)
    )
    rows = [[1, 6, 0], [0, 0], [1, 5, 0]]
    fronts = {
        step: {0: FusedFront(np.array([row], dtype=np.float64), NO_PATHS)}
        for step, row in zip(steps, rows, strict=True)
    }
    for capacity, fits in ((9.0, False), (10.0, True)):
        small = Small(
            steps, fronts, ContendedMemories(FrontMemories(("near",), True), np.array([capacity]), np.zeros(1)), 1, 0.0
        )
        graph = small.graph()
        assert small.paths(graph).least == 2
        assert [found.fits for found in combinations(small, graph)] == [fits]
        assert bool(len(small.join(graph).run()[-1].costs)) == fits


def test_one_of_several_rows_leaves_enough_room():
    for first in ([[1, 2, 0], [1, 9, 0]], [[1, 9, 0], [1, 2, 0]], [[1, 9, 9], [1, 9, 0], [1, 2, 2]]):
        small = pair(first, [[1, 5, 5]], 10)
        assert small.paths(small.graph()).least == 2


def test_a_tensor_below_a_shared_loop_is_gone_while_others_run():
    small = pair([[1, 6, 0]], [[1, 6, 0]], 6, bits=4)
    assert small.paths(small.graph()).least == 2
