"""Pipelined training steps, run by every schedule: equal to the unpartitioned step."""

from dataclasses import replace

import numpy as np
import pytest

import einmap
from einmap.distribute.pipelines.shipped import SCHEDULES
from einmap.distribute.training.model import Ranks
from einmap.distribute.training.plan import TrainingPlan
from einmap.distribute.training_run.plan_text import plan_of_text
from einmap.distribute.training_run.program import training_program
from einmap.distribute.training_run.run import LocalDevices, run_training, training_inputs

TIED = [
    "A1[b, h] = X[b, i] * W1[i, h]",
    "H1[b, h] = tanh(A1[b, h])",
    "A2[b, j] = H1[b, h] * W2[h, j]",
    "H2[b, j] = gelu(A2[b, j])",
    "A3[b, h] = H2[b, j] * W2[H: h, J: j] + H1[b, h]",  # a weight of two stages, and a residual
    "E[b, h] = A3[b, h] - T[b, h]",
    "L[O: 0] = E[b, h] * E[b, h]",
]


def workload(*einsums, **sizes):
    return einmap.Spec.from_dict(
        workload={"rank_sizes": sizes, "bits_per_value": {"All": 16}, "einsums": [*einsums]}
    ).workload


def tied():
    return workload(*TIED, B=16, I=3, H=5, J=4)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_every_schedule_gives_the_unpartitioned_step(schedule, recompute):
    chunks = 2 if schedule in ("interleaved", "zb-v", "dual-pipe-v") else 1
    plan = TrainingPlan(pp=2, dp=2, micro_batch=2, chunks=chunks, schedule=schedule, recompute=recompute)
    done = run_training(training_program(tied(), "L", ["W1", "W2"], plan, optimizer="adam"), LocalDevices())
    assert done.agrees
    assert {*done.apart} == {"L", "d_W1", "d_W2", "W1_next", "W2_next"}


def test_what_is_held_follows_the_schedule():
    held = {}
    for schedule in ("fill-drain", "1f1b"):
        plan = TrainingPlan(pp=3, micro_batch=2, schedule=schedule)
        held[schedule] = run_training(training_program(tied(), "L", ["W1"], plan), LocalDevices()).most_held
    assert held == {"fill-drain": (8, 8, 8), "1f1b": (3, 2, 1)}


def test_a_step_by_hand_on_two_devices():
    case = workload("Y[b] = X[b] * V[O: 0]", "L[O: 0] = Y[b] * W[O: 0]", B=4)
    program = training_program(case, "L", ["V", "W"], TrainingPlan(pp=2, micro_batch=1), optimizer="sgd")
    assert program.stages == (("Y",), ("L",))
    assert program.sends((0, "F")) == ("Y",)
    assert program.sends((1, "I")) == ("d_Y",)
    done = run_training(program, LocalDevices())
    inputs = training_inputs(program, 0)
    x, v, w = inputs["X"].sum(), inputs["V"][0], inputs["W"][0]
    np.testing.assert_allclose(done.results["d_V"], [w * x])
    np.testing.assert_allclose(done.results["d_W"], [v * x])
    np.testing.assert_allclose(done.results["W_next"], [w - inputs["rate"][0] * v * x])
    assert done.shifts == 8


def test_a_result_that_is_not_the_unpartitioned_step_is_seen():
    class Exaggerating(LocalDevices):
        def do(self, tasks):
            return super().do([task and replace(task, received=twice(task.received)) for task in tasks])

    def twice(received):
        return {name: [2 * values for values in arrays] for name, arrays in received.items()}

    program = training_program(tied(), "L", ["W1", "W2"], TrainingPlan(pp=1, dp=2, micro_batch=2))
    assert not run_training(program, Exaggerating()).agrees


def test_stages_may_be_chosen():
    plan = TrainingPlan(pp=2, micro_batch=4, stages=(5, 2))
    assert training_program(tied(), "L", ["W1"], plan).stages[1] == ("E", "L")


@pytest.mark.parametrize(
    ("einsums", "fields", "options", "words"),
    [
        (TIED, {"cp": 2}, {}, "cp needs a rank of positions"),
        (TIED, {"recompute": "selective"}, {}, "selective recomputation needs a rank of positions"),
        (TIED, {"zero": 1}, {}, "ZeRO 1 spreads the state of an optimiser, and none is chosen"),
        (TIED, {"tp": 10**6}, {}, "1,000,000 devices; at most 4,096 are run"),
        (TIED, {}, {"batch": Ranks("B", "Q")}, "no rank 'Q'"),
        (TIED, {"pp": 9}, {}, "7 Einsums cannot be cut into 9 x 1 stages"),
        (TIED, {}, {"batch": "Q"}, "no rank 'Q' of samples"),
        (TIED, {}, {"by": ["X"]}, "'X' is not a weight"),
        ([*TIED[:-1], "M[h] = E[b, h]", "L[O: 0] = M[h] * M[h]"], {}, {}, "not a sum over samples|samples meet"),
        ([*TIED[:-1], "M[h] = E[b, h]", "L[O: 0] = E[b, h] * M[h]"], {}, {}, "in Einsum 'M' samples meet"),
    ],
)
def test_what_is_not_run_is_refused(einsums, fields, options, words):
    case = workload(*einsums, B=16, I=3, H=5, J=4)
    with pytest.raises(einmap.EinmapError, match=words):
        training_program(case, "L", options.pop("by", ["W1"]), TrainingPlan(**fields), **options)


def test_a_plan_as_text():
    plan = plan_of_text("pp=2, dp=3, micro_batch=4, stages=3+4, schedule=zb-1p, recompute=full")
    assert plan == TrainingPlan(pp=2, dp=3, micro_batch=4, stages=(3, 4), schedule="zb-1p", recompute="full")
    assert plan_of_text("tp=2,zero=3,sequence_parallel=false") == TrainingPlan(tp=2, zero=3, sequence_parallel=False)
    # as many devices in a row as sub-meshes
    assert plan_of_text("meshes=2x1+1x2,micro_batch=2") == TrainingPlan(pp=2, meshes=((2, 1), (1, 2)), micro_batch=2)
    for text in (
        "meshes=2x1+1x2,pp=3",
        "",
        "pp",
        "pp=x",
        "overlap=data",
        "pp=2,pp=3",
        "stages=3-4",
        "sequence_parallel=yes",
        "zero=4",
    ):
        with pytest.raises(einmap.SpecError):
            plan_of_text(text)
    with pytest.raises(einmap.SpecError, match="'pp' is not a field of a plan and its value") as missing:
        plan_of_text("pp")
    assert missing.value.hint == "write pp=VALUE"


@pytest.mark.slow
@pytest.mark.distribute
def test_two_processes_of_jax_give_the_unpartitioned_step():
    pytest.importorskip("jax")
    from einmap.distribute.training_run.server import ProcessDevices

    plan = TrainingPlan(pp=2, micro_batch=4, recompute="full", schedule="zb-1p")
    with ProcessDevices() as devices:
        done = run_training(training_program(tied(), "L", ["W1", "W2"], plan, optimizer="sgd"), devices)
    assert done.agrees


@pytest.mark.parametrize(
    ("einsum", "reduction"),
    [
        ("Z[m, n] = 2 * A[m, k] * B[k, n]", "sum"),
        ("Z[H: 2*p + r] = A[p] * B[r]", "sum"),
        ("Z[m] = exp(A[m, k]) - B[k]", "max"),
        ("Z[t, d] = A[V: Ids[t], d]", "sum"),
    ],
)
def test_an_einsum_on_jax_has_the_values_of_the_definition(einsum, reduction):
    jax = pytest.importorskip("jax")
    from einmap.distribute.training_run.on_jax import compute
    from einmap.einsum import numeric

    every = {"M": 3, "N": 2, "K": 4, "T": 5, "D": 2, "V": 3}
    sizes = {rank: n for rank, n in every.items() if {rank, rank.lower()} & {*einsum}}
    given = {"einsum": einsum, "reduction": reduction}
    shape = {"p": "0 <= p < 3", "r": "0 <= r < 2"} if "p]" in einsum else {}
    case = einmap.Spec.from_dict(
        workload={
            "rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": [given], "iteration_space_shape": shape,
        }
    ).workload  # fmt: skip
    inputs = numeric.random_inputs(case, 0)
    with jax.enable_x64(True):
        found = compute(case.einsums[0], inputs)
    np.testing.assert_allclose(found["Z"], numeric.run(case, inputs)["Z"], rtol=1e-12)


@pytest.mark.parametrize("fields", [{"pp": 4000}, {"chunks": 10**9, "schedule": "interleaved"}])
def test_more_stages_than_einsums_are_refused_before_a_schedule_is_made(fields):
    case = workload("L[b] = X[b, i] * W1[i]", B=4, I=3)
    with pytest.raises(einmap.SpecError, match="1 Einsums cannot be cut into"):
        training_program(case, "L", ["W1"], TrainingPlan(**fields))
