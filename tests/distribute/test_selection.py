"""Choosing a strategy for each node: against brute force, and optima that others have published."""

from itertools import product

import numpy as np
import pytest
from benchmarks.selection_solvers import PROBLEM, problem_of
from hypothesis import given, settings
from hypothesis import strategies as st

from einmap.distribute.selection import elimination
from einmap.distribute.selection.elimination import eliminate
from einmap.distribute.selection.integer import solve_integer
from einmap.distribute.selection.problem import Edge, Limit, Selection
from einmap.distribute.selection.solve import solve

INF = np.inf
RESHARDING = 1000.0 * np.arange(5, 8)[:, None] + 100 * np.arange(4)
"""Costs of the second edge of XLA's problem."""


def xla_problem(first=(10, 11, 12, 13), edge=None, more_edges=(), **options):
    """The problem of XLA's auto_sharding_solver_test.cc, computing and communication costs summed.

    Node 3 follows node 2: they choose alike. Nodes 1 and 4 are an alias with `v`: equal strategies cost nothing,
    different ones are excluded.
    """
    computing = [list(first), [20, 21, 22], [30, 31, 32, 33], [40, 41, 42, 43], [50, 51, 52]]
    sending = [[100, 110, 120, 130], [200, 210, 220], [300, 310, 320, 330], [400, 410, 420, 430], [500, 510, 520]]
    nodes = tuple(np.add(c, s, dtype=float) for c, s in zip(computing, sending, strict=True))
    resharding = 1000.0 * np.arange(1, 5)[:, None] + 100 * np.arange(4)
    if edge is not None:
        resharding[0, 0] = edge
    follow, alias = (np.where(np.eye(count) == 1, 0.0, INF) for count in (4, 3))
    edges = [Edge(0, 2, resharding), Edge(1, 2, RESHARDING), Edge(2, 3, follow), Edge(1, 4, alias), *more_edges]
    return Selection(nodes, tuple(edges), **options)


def xla_problem_with_equal_strategies():
    """The second problem of that file: most strategies of a node are alike; node 3 follows node 2, 2 and 4 are an alias."""
    nodes = [[110] * 4, [220] * 3, [330, 330, 331, 330, 330, 330, 330], [440] * 6 + [450], [550] * 3]
    first = np.repeat(1000.0 * np.arange(1, 5)[:, None], 7, axis=1)
    first[2, 4] = 3100
    second = np.repeat(1000.0 * np.arange(5, 8)[:, None], 7, axis=1)
    follow = np.where(np.eye(7) == 1, 0.0, INF)
    alias = np.array([[0, INF, 0]] * 5 + [[INF, 0, INF], [0, INF, 0]])
    edges = (Edge(0, 2, first), Edge(1, 2, second), Edge(2, 3, follow), Edge(2, 4, alias))
    return Selection(tuple(np.array(costs, dtype=float) for costs in nodes), edges)


def memory_of_xla(limit, edges=None):
    """What is live at each moment; `edges`: by number what pairs use, live from the first moment but one on."""
    usage = (
        [1e5, 11e4, 99e4, 13e4],
        [2e5, 21e4, 22e4],
        [3e5, 31e4, 32e4, 33e4],
        [4e5, 41e4, 42e4, 43e4],
        [5e5, 51e4, 52e4],
    )
    live = [((1, 0), (0,)), ((1, 2, 0), (0, 1)), ((1, 2, 3, 0), (1,)), ((1, 3, 0), ())]
    return tuple(
        Limit(limit, {node: np.array(usage[node]) for node in nodes}, {e: edges[e] for e in alive} if edges else {})
        for nodes, alive in live
    )


def moving_memory_of_xla():
    """The first pair of both edges uses as much as the memory has, the others nearly nothing."""
    first, second = np.full((4, 4), 1e3), np.full((3, 4), 5e3)
    first[0, 0], second[0, 0] = 1e6, 5e6
    return {0: first, 1: second}


DEPARTURES = {node: np.array([1.0, 0.0, 1.0, 1.0][:count]) for node, count in enumerate((4, 3, 4, 4, 3))}
"""Strategies of XLA's problem that depart from what they were."""


@pytest.mark.parametrize(
    ("problem", "least"),
    [
        (xla_problem(), 7650),
        (xla_problem(limits=memory_of_xla(1.5e6)), 7650),
        (xla_problem(limits=memory_of_xla(1e5), excess_cost=10), 9_007_650),
        (xla_problem(edge=INF), 7872),
        (xla_problem(first=(INF, INF, INF, 13)), 10_683),
        (xla_problem(limits=(Limit(3, DEPARTURES),)), 7872),
        (xla_problem(more_edges=[Edge(1, 3, RESHARDING)]), 12_650),
        (xla_problem(limits=memory_of_xla(1.5e6, moving_memory_of_xla())), 7872),
        (xla_problem_with_equal_strategies(), 7650),
    ],
)
def test_the_optima_of_XLAs_own_test_are_reached(problem, least):
    selected = solve(problem)
    assert selected.cost == pytest.approx(least)
    assert problem.cost(selected.choice) == selected.cost
    assert selected.proven


@pytest.mark.parametrize(("limit", "least"), [(7600, INF), (7650, 7650)])
def test_a_limit_on_the_cost_itself_leaves_nothing_below_the_optimum(limit, least):
    problem = xla_problem()
    spent = Limit(limit, dict(enumerate(problem.nodes)), {0: problem.edges[0].costs, 1: problem.edges[1].costs})
    selected = solve(xla_problem(limits=(spent,)))
    assert (selected.cost, selected.proven) == (least, True)


@pytest.mark.parametrize(
    ("choice", "cost"), [((0, 0, 0, 0, 0), 7650), ((3, 1, 2, 2, 1), 12_149), ((2, 1, 2, 2, 1), 11_138)]
)
def test_choices_cost_what_XLA_says(choice, cost):
    assert xla_problem().cost(choice) == cost


def test_the_optima_of_nnScalers_own_tests_are_reached():
    """tests/autodist/test_dp_solver.py: a chain of three operators; five in a row, whose memory is 71 of 100."""
    times = [np.array([1.0, 2.0]), np.array([0.5, 1.0]), np.array([1.0, 2.0])]
    chain = Selection(
        tuple(times), (Edge(0, 1, np.array([[0.1, 1], [1, 0]])), Edge(1, 2, np.array([[0.2, 1], [1, 0]])))
    )
    selected = solve(chain)
    assert (selected.choice, selected.proven) == ((0, 0, 0), True)
    assert selected.cost == pytest.approx(2.8)
    # weights, buffers, the largest of activations and what the optimiser needs, what is recomputed
    kept, live, again = [9, 8, 7, 6, 5], ([1, 0, 3, 4, 0], [1, 2, 3, 4, 5]), ([1, 2, 0, 0, 0], [0, 0, 3, 4, 5])
    buffers = [0, 0, 0, 4, 5]

    def five(memory):
        limits = tuple(
            Limit(memory, {n: np.array([kept[n] + buffers[n] + a[n] + b[n]]) for n in range(5)})
            for a, b in product(live, again)
        )
        return Selection(tuple(np.array([time]) for time in (0.1, 0.2, 0.3, 0.4, 0.5)), (), limits)

    problem = five(100)
    assert solve(problem).cost == pytest.approx(1.5)
    assert problem.used((0,) * 5).max() == 71
    assert solve(five(71)).proven
    assert (solve(five(70)).choice, solve(five(70)).proven) == (None, True)
    short = Selection(
        (np.zeros(1),) * 3, (), tuple(Limit(10, {n: np.array([u])}) for n, u in enumerate((8.0, 5.0, 11.0)))
    )
    assert (solve(short).choice, solve(short).proven) == (None, True)


@pytest.mark.parametrize("unit", [1.0, 1e9])
def test_the_least_excess_is_found_in_any_unit(unit):
    usage = [np.array([5.0, 3.0]) * unit, np.array([4.0, 1.0]) * unit]
    limits = tuple(Limit(0.0, {node: usage[node]}) for node in range(2))
    forbidden = Edge(0, 1, np.array([[0.0, 0.0], [0.0, INF]]))
    selected = solve(Selection((np.zeros(2), np.zeros(2)), (forbidden,), limits, excess_cost=1.0))
    assert (selected.choice, selected.proven) == ((1, 0), True)
    assert selected.cost == pytest.approx(4 * unit)


def test_the_example_of_the_contest_is_solved_to_its_published_optimum():
    """google/iopddl, the example of the format: 445; 415 without the limit, nothing within a limit of 0."""
    nodes = [[15], [55, 65], [25, 45, 35], [85, 75], [95]]
    usages = [[10], [25, 25], [15, 20, 15], [10, 10], [15]]
    edges = [(0, 1, [[30, 40]]), (0, 2, [[50, 10, 40]]), (1, 3, [[90, 10], [20, 80]]), (2, 4, [[60], [20], [30]])]
    edges.append((3, 4, [[70], [60]]))

    def example(limit):
        limits = tuple(
            Limit(limit, {node: np.array(usages[node], dtype=float) for node in live})
            for live in ((0, 1, 2), (2, 3, 4))
        )
        costs = tuple(np.array(cost, dtype=float) for cost in nodes)
        return Selection(costs, tuple(Edge(a, b, np.array(c, dtype=float)) for a, b, c in edges), limits)

    assert [(solve(example(m)).choice, solve(example(m)).cost) for m in (50, INF, 0)] == [
        ((0, 0, 2, 1, 0), 445),
        ((0, 0, 1, 1, 0), 415),
        (None, INF),
    ]
    assert example(50).cost((0, 1, 2, 0, 0)) == 495


@pytest.mark.slow
@pytest.mark.distribute
def test_the_real_sharding_problem_of_816_nodes_is_solved_to_its_proven_optimum():
    problem = problem_of(PROBLEM)
    assert len(problem.nodes) == 816
    selected = solve(problem, time_limit=300)
    assert (selected.cost, selected.proven) == (532_843, True)
    assert problem.cost(selected.choice) == 532_843


@st.composite
def problems(draw):
    """Some nodes of a few strategies, edges of any shape, some excluded pairs, and perhaps limits on both."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = rng.integers(1, 4, rng.integers(1, 6))
    nodes = tuple(rng.integers(0, 20, size).astype(float) for size in sizes)
    pairs = [(a, b) for a in range(len(sizes)) for b in range(len(sizes)) if a != b and rng.random() < 0.3]
    edges = []
    for first, second in pairs:
        costs = rng.integers(0, 20, (sizes[first], sizes[second])).astype(float)
        costs[rng.random(costs.shape) < 0.15] = INF
        edges.append(Edge(first, second, costs))
    limits = []
    for _ in range(rng.integers(0, 3)):
        on_nodes = {n: rng.integers(0, 9, size).astype(float) for n, size in enumerate(sizes) if rng.random() < 0.7}
        on_edges = {
            e: rng.integers(0, 9, edge.costs.shape).astype(float) for e, edge in enumerate(edges) if rng.random() < 0.4
        }
        limits.append(Limit(float(rng.integers(0, 20)), on_nodes, on_edges))
    excess_cost = None if rng.random() < 0.7 else float(rng.integers(1, 5))
    return Selection(nodes, tuple(edges), tuple(limits), excess_cost)


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_both_solvers_reach_the_least_of_all_choices(problem):
    every = product(*(range(len(costs)) for costs in problem.nodes))
    least = min(problem.cost(choice) for choice in every)
    for selected in (solve(problem), solve_integer(problem, 60)):
        assert selected.cost == pytest.approx(least) or selected.cost == least == INF
        assert selected.proven
        assert selected.choice is None or problem.cost(selected.choice) == selected.cost


def test_too_wide_a_graph_is_left_to_the_integer_program(monkeypatch):
    rng = np.random.default_rng(0)
    nodes = tuple(rng.random(4) for _ in range(5))
    problem = Selection(nodes, tuple(Edge(a, b, rng.random((4, 4))) for a in range(5) for b in range(a)))
    narrow = solve(problem)
    monkeypatch.setattr(elimination, "MAX_ENTRIES", 10)
    assert eliminate(problem) is None
    assert solve(problem).cost == pytest.approx(narrow.cost)


@pytest.mark.parametrize("below", [0.0, 1.0, 1e-9, 1e-8, 1e-7, 1e-6, -1e-9, -1e-6])
def test_a_limit_just_below_what_a_choice_uses_is_kept_and_proven(below):
    # two nodes and an edge; less usage is dearer, and each amount is used by two strategies
    rng = np.random.default_rng(3)
    sizes = np.array([0.0, 1e6, 2e6, 4e6, 1e6, 4e6])
    nodes = tuple(10 - sizes / 1e6 + rng.integers(0, 3, size=6) / 100 for _ in range(3))
    edges = (Edge(0, 1, rng.integers(0, 4, size=(6, 6)) / 50), Edge(1, 2, rng.integers(0, 4, size=(6, 6)) / 50))
    usage = {0: np.where(np.eye(6) == 1, 3.0, 0.0)}
    for used in (5_000_000, 6_000_003, 7_000_000, 9_000_000):
        limit = used - (1.0 if below == 1.0 else below * used)
        problem = Selection(nodes, edges, (Limit(limit, dict.fromkeys(range(3), sizes), usage),))
        least = min(problem.cost(choice) for choice in product(range(6), repeat=3))
        found = solve_integer(problem, 60.0)
        assert problem.excess(found.choice) == 0
        assert found.cost == pytest.approx(least)
        assert found.proven
