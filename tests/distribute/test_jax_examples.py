"""Every shipped distribution on JAX: the values of the unpartitioned workload, and the predicted communication."""

import pytest
from tests.distribute.checking import check_run
from tests.distribute.shipped import DEVICES, IMPERFECT, PERFECT, shipped_plan

SIZES = {"2 float32": IMPERFECT, "4 float64": IMPERFECT, "8 float64": PERFECT}
IN_TWO_PROCESSES = [("matmul", "matmul_overlap"), ("matmul", "matmul_2d_gather"), ("attention", "attention_over_h_d")]


def by_turns():
    """Each distribution with one of SIZES, and marked slow with the two others."""
    for position, names in enumerate(IMPERFECT):
        for turn, size in enumerate(SIZES):
            marks = [pytest.mark.slow, pytest.mark.distribute] if (position + turn) % len(SIZES) else []
            yield pytest.param(names, size, marks=marks, id=f"{'-'.join(names)}-{size}")


@pytest.mark.parametrize(("names", "size"), list(by_turns()))
def test_it_computes_the_whole_result_and_sends_what_was_predicted(engine, names, size):
    devices, dtype = size.split()
    check_run(engine, shipped_plan(names, SIZES[size][names], int(devices), dtype))


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("names", IMPERFECT, ids="-".join)
def test_it_does_so_for_all_sizes(engine, names, devices, dtype):
    check_run(engine, shipped_plan(names, PERFECT[names], devices, dtype))
    check_run(engine, shipped_plan(names, IMPERFECT[names], devices, dtype))


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize(
    "names", [names for names in IMPERFECT if names[0] in ("attention", "attention_single_head")], ids="-".join
)
def test_attention_with_the_plain_softmax_too(engine, names):
    check_run(engine, shipped_plan(names, {**IMPERFECT[names], "SOFTMAX": "plain"}, 4))


@pytest.mark.slow
@pytest.mark.distribute
def test_a_gated_feed_forward_too(engine):
    names = ("feed_forward", "feed_forward_columns_rows")
    check_run(engine, shipped_plan(names, {**IMPERFECT[names], "GATED": 1}, 4))


@pytest.mark.parametrize("names", IN_TWO_PROCESSES, ids="-".join)
def test_it_does_so_in_two_processes_with_four_devices_each(pair, names):
    run = check_run(pair, shipped_plan(names, IMPERFECT[names], 8))
    assert (run.facts["devices"], run.facts["processes"]) == (8, 2)


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("names", IMPERFECT, ids="-".join)
def test_every_one_does_so_in_two_processes(pair, names):
    check_run(pair, shipped_plan(names, PERFECT[names], 8, "float32"))


def test_attention_over_the_batch_executes_no_collective(engine):
    names = ("attention", "attention_over_b")
    run = check_run(engine, shipped_plan(names, PERFECT[names], 8))
    assert run.lowered == run.compiled == ()


def test_the_compiler_merges_the_sums_of_K_Q_and_V(engine):
    names = ("attention", "attention_over_h_d")
    run = check_run(engine, shipped_plan(names, PERFECT[names], 4))
    asked = sum(one.total_bytes for one in run.lowered)
    sent = sum(one.total_bytes for one in run.compiled)
    assert sent == asked
    assert sum(one.count for one in run.compiled) <= sum(one.count for one in run.lowered) == 4
