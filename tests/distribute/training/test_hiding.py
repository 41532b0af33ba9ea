"""Collectives for gradients and weights behind computing: times worked out by hand, in seconds of one layer."""

import random

import pytest
from tests.distribute.training.models import perceptron

from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.pipelines.quick import ordered
from einmap.distribute.pipelines.shipped import pipeline_schedule
from einmap.distribute.pipelines.timeline import StageCosts, run_pipeline
from einmap.distribute.training.bounds import Bounds
from einmap.distribute.training.plan import TrainingPlan
from einmap.distribute.training.stage import Bucket, waits, waits_for_all
from einmap.distribute.training.step import TrainingCosts, training_cost


@pytest.mark.parametrize(
    ("gather", "reduce", "gathers", "sums"),
    [
        # gathers take less than a layer: the first one shows
        (4, 0, 4, 0),
        # 12 before each layer, two of them behind 10: 12 + 2 + 2
        (12, 0, 16, 0),
        # the sum of the last layer shows
        (0, 4, 0, 4),
        # sums follow one another from 10 to 46, computing ends at 30
        (0, 12, 0, 16),
        (4, 5, 4, 5),
        # gathers 0-8, 8-16, 24-32; sums 18-24, 32-38, 42-48; layers 8-18, 18-28, 32-42
        (8, 6, 12, 6),
    ],
)
def test_three_layers_of_10_seconds_wait_for_collectives(gather, reduce, gathers, sums):
    assert waits([Bucket(3, 10, gather, reduce)]) == (gathers, sums)


def test_a_long_sum_hides_behind_all_layers_that_follow():
    assert waits([Bucket(1, 2, 0, 20), Bucket(3, 10)]) == (0, 0)
    assert waits([Bucket(3, 10), Bucket(1, 2, 0, 20)]) == (0, 20)


@pytest.mark.parametrize(("gather", "waited"), [(4, 4), (12, 16)])
def test_weights_after_an_update_are_gathered_one_after_another(gather, waited):
    assert waits_for_all([Bucket(3, 10, gather)]) == waited


@pytest.mark.parametrize("seed", range(50))
def test_runs_of_equal_layers_wait_as_their_layers_one_by_one(seed):
    rng = random.Random(seed)
    runs = [Bucket(rng.randint(0, 4), rng.randint(0, 9), rng.randint(0, 9), 0) for _ in range(3)]
    end = gathered = 0
    for run in runs:
        for _ in range(run.count):
            gathered += run.gather
            end = max(end, gathered) + run.computing
    assert waits_for_all(runs) == end - sum(run.count * run.computing for run in runs)


# 3 equal layers; products of 8 x 128 x 128 take 2 * 8 * 128 * 128 / 1e12 s in each of three passes
PE = ProcessingElement(peak=((16, 1e12),), memory_bandwidth=1e15)
PRODUCT = 2 * 8 * 128 * 128 / 1e12
BYTES = 2 * 128 * 128


def step_of(zero, hidden_in, **more):
    """With links on which half of the weights of a layer are sent in a part of the time of a product."""
    cluster = Cluster(PE, (("x", Link(BYTES / 2 / (PRODUCT * hidden_in))),))
    return training_cost(perceptron([128] * 4, batch=32), cluster, TrainingPlan(dp=2, zero=zero, micro_batch=8, **more))


@pytest.mark.parametrize(
    ("zero", "hidden_in", "sums", "gathers"),
    [
        # one sum a step: 3 in all, the last one shows; 3 of 2.5 products end 7.5 after 2, 1.5 after computing ended at 6
        (1, 0.5, 0.5, 0.5),
        # in each of two micro-batches
        (2, 0.5, 2 * 0.5, 0.5),
        # sums take longer than the two products of a layer: 2, 4.5, 7, 9.5 for computing that ends at 6
        (2, 2.5, 2 * 3.5, 2.5 + 2 * 1.5),
        # the first gather of each pass, and the last sum
        (3, 0.5, 2 * 0.5, 2 * (0.5 + 0.5)),
    ],
)
def test_what_shows_of_a_step_of_three_layers_on_two_devices(zero, hidden_in, sums, gathers):
    step = step_of(zero, hidden_in)
    assert step.micro_batches == 2
    shown = {part.what: part.seconds / PRODUCT for part in step.parts}
    assert shown["gradients reduce_scatter"] == pytest.approx(sums)
    assert shown["weights all_gather"] == pytest.approx(gathers)


def test_a_gather_that_waits_for_a_sum_is_part_of_the_step():
    step = step_of(3, 5)
    assert step.seconds == pytest.approx(sum(part.seconds for part in step.parts))
    costs = step.costs
    assert step.seconds >= 2 * sum((*costs.forward, *costs.backward_input, *costs.backward_weight))


def test_without_overlap_all_of_it_shows():
    shown = {part.what: part.seconds / PRODUCT for part in step_of(3, 0.5, overlap=()).parts}
    assert shown["gradients reduce_scatter"] == pytest.approx(2 * 3 * 0.5)
    assert shown["weights all_gather"] == pytest.approx(2 * 6 * 0.5)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_of_stages_are_not_above_what_they_take(seed):
    rng = random.Random(seed)
    model = perceptron([rng.choice([32, 64, 128]) for _ in range(6)], batch=8, table=rng.choice([0, 4096]))
    cluster = Cluster(PE, (("x", Link(rng.choice([1e9, 1e10, 1e11]), rng.choice([0.0, 1e-6]))),))
    costs = TrainingCosts(model, cluster)
    ways = (("1f1b", 1, (2, 3)), ("zb-1p", 1, (2, 3)), ("interleaved", 2, (1, 2, 1, 1)), ("zb-v", 2, (1, 1, 2, 1)))
    schedule, chunks, stages = rng.choice(ways)
    plan = TrainingPlan(
        dp=2, pp=2, zero=rng.randint(0, 3), schedule=schedule, chunks=chunks, stages=stages, recompute="full"
    )
    bounds, step = Bounds(costs), costs.step(plan)
    assert bounds.of_any_cut(plan) <= step.seconds * (1 + 1e-9)
    assert costs.at_least(plan) <= step.seconds * (1 + 1e-9)
    held = step.peak.total - step.peak.working
    assert held * (1 - 1e-9) <= bounds.held_with(plan) <= step.peak.total * (1 + 1e-9)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-2p", "interleaved", "zb-v"])
def test_bytes_that_wait_are_those_of_the_pipeline_as_it_runs(schedule):
    chunks = 1 if schedule in ("1f1b", "zb-2p") else 2
    made = pipeline_schedule(schedule, 3, 6, chunks=chunks)
    rng = random.Random(1)
    rows = [tuple(rng.random() for _ in made.device_of) for _ in range(4)]
    timeline = run_pipeline(made, StageCosts(*rows[:3], activations=rows[3]))
    assert ordered(made).peaks(rows[3]) == pytest.approx(timeline.peaks)


def test_a_pipeline_that_holds_all_micro_batches_is_not_run_for_some_of_them():
    costs = TrainingCosts(perceptron([32] * 3, batch=2048), Cluster(PE, (("x", Link(1e9)),)))
    plan = TrainingPlan(pp=2, schedule="fill-drain")
    assert costs.step(plan, is_short=True).peak == costs.step(plan).peak
