"""Every shipped distribution on JAX: the values of the unpartitioned workload, and the predicted communication."""

import pytest

from einmap.distribute.backends.compare import matches
from einmap.distribute.check import check_outputs, sample_inputs
from einmap.distribute.cost import communication
from einmap.distribute.read import plan_of
from einmap.frontends.yaml.spec import load

ATTENTION = {"BATCH": 3, "N_TOKENS": 10, "D_IN": 6, "D_MODEL": 9, "HEADS": 6, "D_HEAD": 4}
MATMUL = {"M": 10, "K": 20, "N": 13}
SIZES = {
    "matmul": MATMUL,
    "matrix_vector": {"K": 10, "M": 13},
    "elementwise": {"I": 21},
    "attention": ATTENTION,
    "attention_single_head": {name: size for name, size in ATTENTION.items() if name != "HEADS"},
    "feed_forward": {"N_TOKENS": 5, "D_MODEL": 6, "D_FF": 27},
}
"""Sizes that no number of PEs above 1 divides in all ranks."""
EXAMPLES = {
    "matmul_reduce_scatter": "matmul",
    "matmul_overlap": "matmul",
    "matmul_all_reduce": "matmul",
    "matmul_all_gather_a": "matmul",
    "matmul_all_gather_b": "matmul",
    "matmul_2d_gather": "matmul",
    "matmul_2d_reduce": "matmul",
    "matrix_vector_2d": "matrix_vector",
    "elementwise_parallel": "elementwise",
    "attention_over_b": "attention",
    "attention_over_h": "attention",
    "attention_over_h_d": "attention",
    "attention_single_head_over_p": "attention_single_head",
    "feed_forward_columns_rows": "feed_forward",
}
"""The workload of each shipped distribution."""
DIVIDED = {"M": 16, "K": 32, "N": 8, "I": 24, "BATCH": 8, "N_TOKENS": 16, "D_MODEL": 16, "HEADS": 8, "D_FF": 32}
"""Sizes that 2, 4 and 8 divide."""
MEASURED = [(2, "float32", "imperfect"), (4, "float64", "imperfect"), (8, "float64", "perfect")]
ALL = [(g, dtype, split) for g in (2, 4, 8) for dtype in ("float64", "float32") for split in ("perfect", "imperfect")]


def check(engine, name, n_devices, dtype, split, **more):
    workload = EXAMPLES[name]
    sizes = SIZES[workload]
    if split == "perfect":
        sizes = {rank: DIVIDED.get(rank, size) for rank, size in sizes.items()}
    spec = load([workload, name], define={**sizes, "G": n_devices, **more})
    plan = plan_of(spec, dtype)
    inputs = sample_inputs(plan.workload, 0, dtype)
    run = engine.run(plan, inputs)
    for one in check_outputs(plan.workload, inputs, run.outputs, dtype):
        assert one.agrees, one
    for one in matches(communication(plan), run.lowered):
        assert one.agrees, one
    return run


@pytest.mark.parametrize(("n_devices", "dtype", "split"), MEASURED, ids=str)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_computes_and_sends_what_it_should(engine, name, n_devices, dtype, split):
    check(engine, name, n_devices, dtype, split)


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize(("n_devices", "dtype", "split"), ALL, ids=str)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_so_for_all_sizes(engine, name, n_devices, dtype, split):
    check(engine, name, n_devices, dtype, split)


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("more", [{"SOFTMAX": "plain"}, {"BATCH": 1}], ids=str)
@pytest.mark.parametrize("name", ["attention_over_h", "attention_over_h_d", "attention_single_head_over_p"])
def test_attention_in_its_other_forms(engine, name, more):
    check(engine, name, 4, "float64", "imperfect", **more)


@pytest.mark.slow
@pytest.mark.distribute
def test_a_gated_feed_forward(engine):
    check(engine, "feed_forward_columns_rows", 4, "float64", "imperfect", GATED=1)


@pytest.mark.parametrize("split", ["perfect", "imperfect"])
@pytest.mark.parametrize("name", ["matmul_overlap", "matmul_2d_gather", "attention_over_h_d"])
def test_an_example_in_two_processes_with_four_devices_each(pair, name, split):
    run = check(pair, name, 8, "float64", split)
    assert run.facts["devices"] == 8


def test_attention_over_the_batch_sends_nothing(engine):
    run = check(engine, "attention_over_b", 8, "float64", "perfect")
    assert run.lowered == run.compiled == ()
