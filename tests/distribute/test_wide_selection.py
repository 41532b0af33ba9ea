"""Problems that are too wide for an integer program at once: bounds and choices against every choice there is."""

import random
from itertools import product

import numpy as np
import pytest

from einmap.distribute.selection import solve as solve_module
from einmap.distribute.selection import wide
from einmap.distribute.selection.messages import Messages
from einmap.distribute.selection.problem import Edge, Limit, Selection
from einmap.distribute.selection.solve import solve
from einmap.distribute.selection.wide import solve_wide
from einmap.distribute.selection.windows import improved_by_parts, part_of
from einmap.progress import Progress

NODES = 6


def drawn(seed):
    """Six nodes with two to four strategies, every second pair joined, a few pairs and strategies forbidden; limits on
    some nodes and edges, or none.
    """
    rng, generator = random.Random(seed), np.random.default_rng(seed)
    sizes = [rng.randint(2, 4) for _ in range(NODES)]

    def table(*shape, forbidden=0.15):
        values = generator.integers(0, 100, shape).astype(float)
        return np.where(generator.random(shape) < forbidden, np.inf, values)

    nodes = tuple(table(size, forbidden=0.05) for size in sizes)
    pairs = [(a, b) for a in range(NODES) for b in range(a + 1, NODES) if rng.random() < 0.5]
    edges = tuple(Edge(a, b, table(sizes[a], sizes[b])) for a, b in pairs)
    limits = []
    for _ in range(rng.randint(0, 3)):
        live = rng.sample(range(NODES), rng.randint(1, NODES))
        on_edges = rng.sample(range(len(edges)), min(len(edges), rng.randint(0, 2)))
        usage = {node: generator.integers(0, 10, sizes[node]).astype(float) for node in live}
        of_edges = {number: generator.integers(0, 5, edges[number].costs.shape).astype(float) for number in on_edges}
        limits.append(Limit(float(rng.randint(2, 6) * len(live)), usage, of_edges))
    return Selection(nodes, edges, tuple(limits))


def every_choice(problem):
    """Each choice within all limits that is not forbidden, with its cost."""
    every = product(*(range(len(costs)) for costs in problem.nodes))
    return {choice: cost for choice in every if np.isfinite(cost := problem.cost(choice))}


def swept(problem, rounds=3):
    messages = Messages(problem)
    messages.run(rounds, Progress())
    return messages


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_costs_less_than_its_bounds(seed):
    problem = drawn(seed)
    costs, messages = every_choice(problem), swept(problem)
    least = min(costs.values(), default=np.inf)
    assert messages.bound <= least * (1 + 1e-6)
    if messages.choice is not None:
        assert costs[messages.choice] == messages.cost
    for choice, cost in costs.items():
        for node, strategy in enumerate(choice):
            assert messages.reached[node][strategy] <= cost * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize("seed", range(40))
def test_a_wide_problem_is_solved_to_the_optimum(seed):
    problem = drawn(seed)
    least = min(every_choice(problem).values(), default=np.inf)
    selected = solve_wide(problem, 20)
    assert selected.cost == least
    assert selected.bound == pytest.approx(least, rel=1e-6)
    assert (selected.choice is None) == (least == np.inf)


@pytest.mark.parametrize("seed", range(40))
def test_messages_before_the_integer_program_leave_the_optimum(seed, monkeypatch):
    monkeypatch.setattr(solve_module, "LARGE", 0)
    problem = drawn(seed)
    least = min(every_choice(problem).values(), default=np.inf)
    selected = solve(problem)
    assert selected.cost == least
    assert selected.proven


def test_bounds_get_close_without_limits_where_the_graph_is_a_tree():
    generator = np.random.default_rng(1)
    nodes = tuple(generator.integers(0, 50, 5).astype(float) for _ in range(20))
    edges = tuple(
        Edge(generator.integers(0, n), n, generator.integers(0, 50, (5, 5)).astype(float)) for n in range(1, 20)
    )
    problem = Selection(nodes, edges)
    messages = swept(problem)
    assert messages.cost == solve(problem).cost
    assert messages.bound == pytest.approx(messages.cost)


@pytest.mark.parametrize("seed", range(20))
def test_a_part_costs_and_uses_what_the_whole_does(seed):
    problem = drawn(seed)
    costs = every_choice(problem)
    if not costs:
        return
    choice = max(costs, key=costs.get)
    nodes = [1, 2, 4]
    part = part_of(problem, choice, nodes)
    base = None
    for some in product(*(range(len(problem.nodes[node])) for node in nodes)):
        changed = list(choice)
        for node, strategy in zip(nodes, some, strict=True):
            changed[node] = strategy
        whole, alone = problem.cost(changed), part.cost(some)
        assert np.isfinite(whole) == np.isfinite(alone)
        if np.isfinite(whole):
            base = whole - alone if base is None else base
            assert whole - alone == pytest.approx(base)


def test_parts_together_make_a_choice_better():
    problem = drawn(3)
    costs = every_choice(problem)
    worst = max(costs, key=costs.get)
    reached = [np.full(len(some), -np.inf) for some in problem.nodes]
    assert costs[improved_by_parts(problem, worst, reached, Progress())] == min(costs.values())


def test_what_is_stopped_has_a_bound_and_no_proof(monkeypatch):
    monkeypatch.setattr(wide, "LEFT", 0)
    monkeypatch.setattr(wide, "ROUNDS", 1)
    monkeypatch.setattr(wide, "improved_by_parts", lambda problem, choice, *more: choice)
    unproven = [selected for seed in range(20) if not (selected := solve_wide(drawn(seed), 20)).proven]
    assert unproven
    for selected in unproven:
        assert selected.bound < selected.cost
