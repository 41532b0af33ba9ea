"""The best schedule of a pipeline: against all orders of small ones, and against published schedules."""

import math
import random
from itertools import permutations, product

import pytest

from einmap.distribute.pipelines import search
from einmap.distribute.pipelines.greedy import greedy_orders
from einmap.distribute.pipelines.problem import PipelineProblem
from einmap.distribute.pipelines.schedule import Action, folded, looped, needed_here
from einmap.distribute.pipelines.search import best_pipeline
from einmap.distribute.pipelines.timeline import StageCosts, run_pipeline
from einmap.errors import SpecError
from einmap.progress import Progress

LONG = [pytest.mark.slow, pytest.mark.distribute]


def problem(device_of, batches, forward, inputs, weights, transfer, most):
    """Equal devices: costs of a device for a micro-batch, `most` activations of stages."""
    devices = 1 + max(device_of)
    parts = len(device_of) // devices
    costs = StageCosts.equal(len(device_of), forward / parts, inputs / parts, weights / parts, transfer)
    return PipelineProblem(device_of, batches, costs, (float(most),) * devices)


def orders_of(one, device):
    """Every order of a device's actions in which each stage and micro-batch goes forward, then backward."""
    actions = [
        Action(s, k, b) for s in one.on_device[device] for k in ("F", "I", "W") for b in range(one.micro_batches)
    ]
    for order in permutations(actions):
        at = {action: place for place, action in enumerate(order)}
        if all(at[before] < at[action] for action in order for before in needed_here(action)):
            yield order


def least_of_all(one):
    """The least makespan of all orders; inf where none fits."""
    least = math.inf
    for orders in product(*(list(orders_of(one, device)) for device in range(one.devices))):
        schedule = one.schedule(orders)
        try:
            timeline = run_pipeline(schedule, one.costs)
        except SpecError:
            continue
        if all(peak <= most for peak, most in zip(timeline.peaks, one.most, strict=True)):
            least = min(least, timeline.makespan)
    return least


@pytest.mark.parametrize("seed", [pytest.param(n, marks=LONG if n == 3 else []) for n in range(12)])
def test_no_order_of_a_small_pipeline_is_shorter(seed):
    rng = random.Random(seed)
    device_of, batches = rng.choice([((0, 1), 2), ((0, 1), 2), ((0, 1, 1, 0), 1), ((0, 0, 1), 1), ((0, 1, 0), 1)])
    rows = [tuple(float(rng.randint(0, 5)) for _ in device_of) for _ in range(3)]
    costs = StageCosts(*rows, transfer=float(rng.choice([0, 1, 3])))
    stages = [device_of.count(device) for device in range(max(device_of) + 1)]
    one = PipelineProblem(device_of, batches, costs, tuple(float(rng.randint(n, 2 * n)) for n in stages))
    best, least = best_pipeline(one, runs=200), least_of_all(one)
    assert best.proven
    assert best.timeline.makespan == pytest.approx(least)
    assert one.lower_bound <= least * (1 + 1e-9)
    assert one.fits(best.schedule)


def test_branch_and_bound_finds_what_rules_do_not():
    # 3 devices that differ: the rules and the annealing are cut off, so only all orders can tell
    costs = StageCosts((3, 1, 4), (2, 5, 1), (4, 1, 3), transfer=1.0)
    one = PipelineProblem((0, 1, 2), 3, costs, (2.0, 2.0, 2.0))
    best = best_pipeline(one, runs=0)
    assert best.proven
    assert best.gap == 0
    assert best_pipeline(one, runs=20_000, nodes=0).timeline.makespan == pytest.approx(best.timeline.makespan)


# makespan and longest span of the zero-bubble authors' greedy scheduler, replayed
GREEDY = [
    (looped(4, 1), 8, (10, 12, 8, 0), 8, 270, 252),
    (looped(4, 1), 8, (10, 12, 8, 1), 8, 273, 256),
    (folded(4), 8, (10, 12, 8, 0), 8, 258, 248),
    (folded(4), 8, (10, 12, 8, 1), 8, 273, 266),
    pytest.param(looped(8, 1), 16, (10, 12, 8, 0), 16, 550, 514, marks=LONG),
    pytest.param(folded(8), 16, (10, 12, 8, 1), 16, 559, 545, marks=LONG),
]


@pytest.mark.parametrize(("device_of", "batches", "costs", "most", "makespan", "span"), GREEDY)
def test_the_best_is_at_least_as_good_as_the_published_greedy_one(device_of, batches, costs, most, makespan, span):
    one = problem(device_of, batches, *costs, most)
    best = best_pipeline(one, nodes=100)
    assert best.timeline.makespan <= makespan
    assert max(best.timeline.spans) <= span
    assert max(best.timeline.peaks) <= most
    assert best.lower_bound <= best.timeline.makespan


def test_equal_calls_give_equal_schedules():
    one = problem(folded(3), 6, 10, 12, 8, 1, 6)
    first, second = (best_pipeline(one, runs=5_000, nodes=500) for _ in range(2))
    assert first.schedule == second.schedule


def test_less_memory_takes_longer_and_too_little_is_refused():
    spans = [
        best_pipeline(problem(looped(3, 1), 5, 1, 1, 1, 0, most), nodes=2_000).timeline.makespan
        for most in (1, 2, 3, 5)
    ]
    assert spans == sorted(spans, reverse=True)
    assert spans[0] > spans[-1]
    with pytest.raises(SpecError, match="device 0 holds 1 activations, one micro-batch needs 2"):
        problem(folded(2), 4, 1, 1, 1, 0, 1)


def test_stages_that_go_round_with_several_a_device_are_scheduled():
    one = problem(looped(2, 3), 4, 3, 3, 3, 0, 12)
    best = best_pipeline(one, runs=5_000, nodes=500)
    assert best.timeline.makespan == pytest.approx(37, rel=0.05)  # 4 micro-batches of 9 s, and a head of 1 s
    assert one.fits(best.schedule)


def test_a_stopped_search_gives_the_best_so_far_not_proven():
    problem = PipelineProblem(tuple(range(8)), 16, StageCosts.equal(8, 10, 12, 8), (9.0,) * 8)
    said = []
    progress = Progress(lambda report: (said.append(report.what), progress.stop()))
    stopped = best_pipeline(problem, progress=progress)
    assert said
    assert not stopped.proven
    assert (
        stopped.lower_bound
        <= best_pipeline(problem, runs=2000, nodes=100).timeline.makespan
        <= stopped.timeline.makespan
    )


def test_a_search_that_is_stopped_makes_no_more_orders_by_rules(monkeypatch):
    made = []

    def counted(one):
        for orders in greedy_orders(one):
            made.append(orders)
            yield orders

    monkeypatch.setattr(search, "greedy_orders", counted)
    one = problem(looped(2, 3), 4, 6, 6, 6, 1, math.inf)
    progress = Progress(lambda report: progress.stop())
    best_pipeline(one, progress=progress)
    assert len(made) == 1
