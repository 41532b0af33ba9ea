"""The engine `local` on random placements: whatever is asked for, the result is that of the whole workload."""

import numpy as np
import pytest
from tests.distribute.drawn_plans import draw

from einmap import Spec, SpecError
from einmap.distribute.backends.base import addend_share, deal
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.derive import distribute_workload
from einmap.distribute.placements.mesh import Mesh


def wrong(seed, dtype="float64"):
    plan = draw(seed, dtype=dtype).plan
    inputs = sample_inputs(plan.workload, seed, dtype)
    checks = check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs, dtype)
    assert {check.tensor for check in checks} == {tensor for tensor, _ in plan.outputs} != set()
    return [check for check in checks if not check.agrees]


@pytest.mark.parametrize("seed", range(40))
def test_drawn_placements_give_the_whole_result(seed):
    assert wrong(seed) == []


def test_in_float32_too():
    assert [wrong(seed, "float32") for seed in range(100, 110)] == [[]] * 10


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("block", range(20))
def test_two_thousand_drawn_placements_give_the_whole_result(block):
    assert [wrong(seed) for seed in range(1000 + 100 * block, 1100 + 100 * block)] == [[]] * 100


def test_padding_is_not_a_number_so_that_using_it_would_be_seen():
    plan = next(draw(seed).plan for seed in range(100) if has_padding(draw(seed).plan))
    inputs = sample_inputs(plan.workload, 0)
    dealt = [deal(plan, plan.by_name[name], inputs[tensor]) for tensor, name in plan.inputs]
    assert any(np.isnan(array).any() for arrays in dealt for array in arrays)
    outputs = LocalEngine().run(plan, inputs).outputs
    assert not any(np.isnan(values).any() for values in outputs.values())


def has_padding(plan):
    return any(
        split.block * plan.mesh.parts(split.axes) > dict(plan.by_name[name].sizes)[split.rank]
        for _, name in plan.inputs
        for split in plan.by_name[name].placement.splits
    )


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_addends_of_an_input_are_exact_parts_of_it(size):
    mesh = Mesh((("x", size),))
    shares = [addend_share(mesh, ("x",), device) for device in range(size)]
    assert sum(shares) == 1
    assert all(share > 0 for share in shares)


def test_more_than_fits_in_one_process_is_refused_before_it_is_made():
    workload = Spec.from_dict(
        workload={"rank_sizes": {"M": 2000, "N": 20000}, "bits_per_value": {"All": 8}, "einsums": ["Z[m] = A[m, n]"]}
    ).workload
    plan = distribute_workload(workload, {"x": 64})
    with pytest.raises(SpecError, match=r"what 64 PEs hold needs 19\.38 GiB in one process"):
        LocalEngine().run(plan, {})


def test_a_wrong_result_is_seen():
    plan = draw(0).plan
    inputs = sample_inputs(plan.workload, 0)
    outputs = {tensor: values * (1 + 1e-9) for tensor, values in LocalEngine().run(plan, inputs).outputs.items()}
    assert not all(check.agrees for check in check_outputs(plan.workload, inputs, outputs))
