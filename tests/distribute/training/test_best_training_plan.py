"""The best plan of a training step beside every plan there is, on random small problems."""

import random
from itertools import chain, combinations, pairwise, product

import pytest
from tests.distribute.training.models import attention, experts, perceptron, transformer, workload

from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.training.cuts import Unit, best_cut, every_cut
from einmap.distribute.training.document import fixed_in, training_text
from einmap.distribute.training.layer import layer_cost
from einmap.distribute.training.model import Ranks, TrainingModel
from einmap.distribute.training.plan import RECOMPUTE, TrainingPlan, TrainingRequest
from einmap.distribute.training.search import best_training_plan
from einmap.distribute.training.step import TrainingCosts, training_cost
from einmap.errors import EinmapError, SpecError
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.progress import Progress
from einmap.report.frames.training import TABLES
from einmap.report.mesh.training import left_out_of
from einmap.units import format_si

PE = ProcessingElement(peak=((16, 1e12),), memory_bandwidth=1e11)


def cluster_of(rng):
    return Cluster(PE, (("x", Link(rng.choice([1e9, 1e10, 1e11]), rng.choice([0.0, 1e-6]))),))


def compositions(units, parts):
    """All ways to write a number as so many positive ones in a row."""
    for ends in combinations(range(1, units), parts - 1):
        yield tuple(b - a for a, b in zip((0, *ends), (*ends, units), strict=True))


def every_plan(model, devices, fixed):
    """Every plan of the space, cut into stages in every way."""
    units = len(model.units)
    numbers = range(1, devices + 1)
    experts = numbers if any(layer.experts for layer in model.layers) else (1,)
    for tp, pp, dp, cp, ep in product(numbers, numbers, numbers, fixed["cp"], experts):
        if tp * pp * dp * cp * ep != devices or pp > units or model.batch % (dp * ep):
            continue
        for micro_batch, schedule, recompute, zero, sequence in product(
            (1, 2, 4, 8),
            ("1f1b", "zb-1p", "zb-2p", "zb-v", "interleaved") if pp > 1 else ("1f1b",),
            fixed["recompute"],
            range(4) if dp * cp * ep > 1 else (0,),
            (True, False) if tp > 1 else (True,),
        ):
            if model.batch % (dp * ep * micro_batch):
                continue
            chunks = {"zb-v": (2,), "interleaved": (2, 3)}.get(schedule, (1,))
            for count in chunks:
                if (schedule == "interleaved" and (units // pp) % count) or pp * count > units:
                    continue
                for stages in compositions(units, pp * count):
                    yield TrainingPlan(
                        dp, tp, cp, ep, pp, micro_batch, sequence, stages, count, schedule, zero, recompute
                    )


def every_unequal_plan(model, devices, fixed):
    """Every plan whose stages have sub-meshes of different sizes, each a part of the devices that divides them."""
    numbers = [n for n in range(1, devices) if devices % n == 0]
    experts = numbers if any(layer.experts for layer in model.layers) else (1,)
    for cp, ep in product(fixed["cp"], experts):
        widths = [(n // tp, tp) for n in numbers for tp in numbers if n % tp == 0 and devices % (n * cp * ep) == 0]
        for pp in range(2, min(len(model.units), devices) + 1):
            for meshes in product(widths, repeat=pp):
                if sum(dp * tp for dp, tp in meshes) * cp * ep == devices and len({*meshes}) > 1:
                    yield from unequal_plans_on(meshes, cp, ep, model, fixed)


def unequal_plans_on(meshes, cp, ep, model, fixed):
    """Every plan with these sub-meshes."""
    for samples, schedule, recompute, zero, sequence in product(
        {dp << power for dp, _ in meshes for power in range(4)},
        ("1f1b", "zb-1p", "zb-2p"),
        fixed["recompute"],
        range(4),
        (True, False),
    ):
        if any(samples % dp for dp, _ in meshes) or model.batch % (samples * ep):
            continue
        for stages in compositions(len(model.units), len(meshes)):
            yield TrainingPlan(
                cp=cp, ep=ep, pp=len(meshes), micro_batch=samples // meshes[0][0], sequence_parallel=sequence,
                stages=stages, schedule=schedule, zero=zero, recompute=recompute, meshes=meshes,
            )  # fmt: skip


def least_of_both(model, cluster, devices, memory, fixed):
    best, costs = None, TrainingCosts(model, cluster)
    for plan in chain(every_plan(model, devices, fixed), every_unequal_plan(model, devices, fixed)):
        try:
            step = costs.step(plan)
        except EinmapError:
            continue
        if step.peak.total <= memory and (best is None or step.seconds < best):
            best = step.seconds
    return best


def model_of(rng):
    """Products in a row, layers of attention, or of experts with a dense layer before them."""
    batch, kind = rng.choice([4, 8]), rng.choice(["products", "attention", "experts"])
    if kind == "attention":
        return attention(rng.randint(1, 4), batch, tokens=rng.choice([8, 32]), width=rng.choice([8, 32]))
    if kind == "experts":
        return experts(rng.randint(0, 1), rng.randint(1, 2), batch, n=rng.choice([2, 4]), width=rng.choice([16, 32]))
    widths = [rng.choice([32, 64, 128]) for _ in range(rng.randint(2, 6) + 1)]
    return perceptron(widths, batch=batch, table=rng.choice([0, 4096]))


def check(seed):
    rng = random.Random(seed)
    model = model_of(rng)
    cluster, devices = cluster_of(rng), rng.choice([2, 3, 4])
    fixed = {"recompute": rng.choice([("none",), ("none", "full"), ("none", "selective"), RECOMPUTE]), "cp": (1,)}
    if any(layer.sequence for layer in model.layers) and rng.random() < 0.5:
        fixed["cp"] = (1, 2)
    whole = training_cost(model, cluster, TrainingPlan()).peak.total
    memory = whole * rng.choice([0.2, 0.35, 0.6, 1.0, 10.0])
    least = least_of_both(model, cluster, devices, memory, fixed)
    asked = {name: list(values) for name, values in fixed.items()}
    if least is None and fixed["cp"] == (1,) and any(layer.sequence for layer in model.layers):
        # where there are positions and `cp` is not fixed, more of it is tried
        least = least_of_both(model, cluster, devices, memory, fixed | {"cp": range(1, devices + 1)})
        del asked["cp"]
    request = TrainingRequest(devices, memory, fixed=asked | {"overlap": ("data",)})
    if least is None:
        with pytest.raises(SpecError, match="no plan keeps to"):
            best_training_plan(model, cluster, request)
        return
    best = best_training_plan(model, cluster, request)
    assert best.step.seconds == pytest.approx(least, rel=1e-9)
    assert best.proven
    assert best.step.peak.total <= memory


def test_no_plan_of_a_small_problem_is_better():
    check(0)


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("seed", range(1, 301))
def test_no_plan_of_300_small_problems_is_better(seed):
    check(seed)


@pytest.mark.parametrize("seed", range(60))
def test_the_best_cut_has_the_shortest_longest_stage_that_memory_allows(seed):
    rng = random.Random(seed)
    units = [Unit(rng.randint(1, 9), rng.randint(0, 5), rng.randint(0, 5)) for _ in range(rng.randint(2, 8))]
    stages = rng.randint(2, min(4, len(units)))
    flight, memory = [float(stages - i) for i in range(stages)], rng.randint(10, 60)

    def longest(cut):
        begins = [sum(cut[:i]) for i in range(stages + 1)]
        parts = [units[a:b] for a, b in pairwise(begins)]
        held = [sum(u.fixed + u.saved * f for u in part) for part, f in zip(parts, flight, strict=True)]
        return sum(u.seconds for u in max(parts, key=lambda p: sum(u.seconds for u in p))), max(held) <= memory

    allowed = [longest(cut)[0] for cut in every_cut(len(units), stages) if longest(cut)[1]]
    found = best_cut(units, flight, memory)
    assert (found is None) == (not allowed)
    if found is not None:
        assert longest(found) == (min(allowed), True)


def test_a_layer_with_twice_the_work_has_two_devices_and_its_neighbours_one_each():
    model = perceptron([256, 512, 512, 256], batch=32)
    cluster = Cluster(ProcessingElement(peak=((16, 1e11),), memory_bandwidth=1e12), (("x", Link(1e8, 1e-6)),))
    best = best_training_plan(model, cluster, TrainingRequest(4, fixed={"recompute": "none"}))
    assert (best.plan.meshes, best.plan.stages) == (((1, 1), (1, 2), (1, 1)), (1, 1, 1))
    assert best.proven
    assert best.kinds[0].name == "tensor x pipeline on unequal sub-meshes"
    (kinds,) = [table for table in TABLES["BestTraining"] if table.name == "kinds"]
    row = dict(zip((column.name for column in kinds.columns), next(iter(kinds.rows(best))), strict=True))
    assert (row["sub-meshes"], row["dp"], row["tp"]) == ("1x1 + 1x2 + 1x1", None, None)
    again = fixed_in(parse_yaml(training_text(best.plan), "plan.yaml"))
    fixed = best_training_plan(model, cluster, TrainingRequest(4, fixed=again))
    assert (fixed.plan, fixed.step.seconds) == (best.plan, best.step.seconds)


def no_way_over_two(layer, machine, samples, sequence_parallel):
    if machine.parts(("tp",)) == 2:
        raise SpecError("layer has no way over 2 devices")
    return layer_cost(layer, machine, samples, sequence_parallel)


def test_a_way_to_divide_devices_over_which_a_layer_cannot_be_spread_is_passed_over(monkeypatch):
    monkeypatch.setattr("einmap.distribute.training.step.layer_cost", no_way_over_two)
    model, cluster = perceptron([64, 64, 64]), cluster_of(random.Random(1))
    best = best_training_plan(model, cluster, TrainingRequest(4))
    assert best.proven
    assert {kind.best.plan.tp for kind in best.kinds} == {1, 4}
    with pytest.raises(SpecError, match="no way over 2 devices"):
        best_training_plan(model, cluster, TrainingRequest(4, fixed={"tp": 2}))


def test_a_bias_is_trained_with_one_sample_at_a_time():
    model = TrainingModel.of(
        workload(["H[b, f] = X[b, d] * W[d, f]", "Y[b, f] = H[b, f] + R[f]"], B=4, D=8, F=8), 4, Ranks("B", None)
    )
    best = best_training_plan(model, cluster_of(random.Random(1)), TrainingRequest(2, fixed={"micro_batch": 1}))
    assert best.proven


def test_on_many_devices_some_sub_meshes_of_different_sizes_are_looked_at_and_a_bound_of_the_others_is_told(
    monkeypatch,
):
    model = perceptron([256, 512, 512, 256], batch=32)
    cluster = Cluster(ProcessingElement(peak=((16, 1e11),), memory_bandwidth=1e12), (("x", Link(1e8, 1e-6)),))
    request = TrainingRequest(4, fixed={"recompute": "none"})
    whole = best_training_plan(model, cluster, request)
    assert whole.left_out == ()
    monkeypatch.setattr("einmap.distribute.training.search.MOST_DEVICES", 2)
    monkeypatch.setattr("einmap.distribute.training.search.MOST_OF_MANY", 1)
    some = best_training_plan(model, cluster, request)
    (left,) = some.left_out
    assert left.what == "most plans with sub-meshes of different sizes"
    assert left.bound <= whole.step.seconds < some.step.seconds
    assert some.proven
    assert left_out_of(some) == f"left out: {left.what}, which take {format_si(left.bound, 's')} or more"


def test_context_parallel_plans_are_left_out_where_others_keep_to_the_memory():
    best = best_training_plan(attention(1), cluster_of(random.Random(1)), TrainingRequest(2))
    assert [one.what for one in best.left_out] == ["context parallel plans, as others keep to the memory"]


@pytest.mark.parametrize("pp", [1, 2, 3])
def test_a_fixed_number_of_stages_holds_for_sub_meshes_of_different_sizes(pp):
    model = perceptron([256, 512, 512, 256], batch=32)
    cluster = Cluster(ProcessingElement(peak=((16, 1e11),), memory_bandwidth=1e12), (("x", Link(1e8, 1e-6)),))
    best = best_training_plan(model, cluster, TrainingRequest(4, fixed={"recompute": "none", "pp": pp}))
    assert {kind.best.plan.pp for kind in best.kinds if kind.best is not None} == {pp}


def test_few_plans_are_run_where_messages_take_longer_than_work():
    # seconds of computing bound such plans badly
    model, cluster = perceptron([32] * 6), Cluster(PE, (("x", Link(1e11, 1e-6)),))
    best = best_training_plan(model, cluster, TrainingRequest(4, fixed={"recompute": "none", "micro_batch": 4}))
    looked, ran = best.looked
    assert best.proven
    assert ran < 0.25 * looked


def test_a_search_of_all_micro_batches_finds_those_that_have_room():
    # on one device eight samples have none, one has
    model, cluster = attention(4, batch=8, tokens=32, width=8), Cluster(PE, (("x", Link(1e10, 1e-6)),))
    memory = 0.6 * training_cost(model, cluster, TrainingPlan()).peak.total
    fixed = {"recompute": "none", "cp": 1, "schedule": "1f1b", "zero": 0, "pp": 3}
    every, single = (
        best_training_plan(model, cluster, TrainingRequest(4, memory, fixed=fixed | {"micro_batch": sizes}))
        for sizes in ([1, 8], 1)
    )
    assert every.plan == single.plan
    assert every.plan.meshes is not None


def test_fixed_sub_meshes_of_one_size_are_those_of_plans_without_them_and_others_must_be_all_devices():
    model, cluster = perceptron([64, 64, 64]), cluster_of(random.Random(1))
    best = best_training_plan(model, cluster, TrainingRequest(4, fixed={"meshes": ((2, 1), (2, 1))}))
    assert best.plan.meshes is None
    assert (best.plan.dp, best.plan.pp) == (2, 2)
    with pytest.raises(SpecError, match="the stages have 3 devices, the machine 4"):
        best_training_plan(model, cluster, TrainingRequest(4, fixed={"meshes": ((2, 1), (1, 1))}))


def test_the_best_of_each_kind_is_told_and_the_best_of_all_is_one_of_them():
    model = transformer(layers=4, batch=8)
    best = best_training_plan(model, cluster_of(random.Random(1)), TrainingRequest(4))
    names = [kind.name for kind in best.kinds]
    assert {"data", "tensor", "pipeline", "data x tensor"} <= set(names)
    seconds = [kind.best.seconds for kind in best.kinds if kind.best]
    assert seconds == sorted(seconds)
    assert best.step.seconds == seconds[0]


def test_where_nothing_keeps_to_the_memory_it_is_said_how_much_would():
    model = transformer(layers=4, batch=8)
    with pytest.raises(SpecError, match=r"no plan keeps to 1.*KiB on each device: the thriftiest ones, .* need"):
        best_training_plan(model, cluster_of(random.Random(1)), TrainingRequest(4, 1024))


def test_a_stopped_search_says_that_it_has_no_plan_or_is_not_proven():
    progress = Progress()
    progress.stop()
    with pytest.raises(SpecError, match="time"):
        best_training_plan(transformer(), cluster_of(random.Random(1)), TrainingRequest(4), progress)
