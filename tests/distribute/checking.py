"""A run of a plan against all that it can be compared with."""

from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.compare import matches
from einmap.distribute.costs.cost import communication


def check_run(engine, plan, seed=0):
    """Run it: the values of the unpartitioned workload, and exactly the predicted communication."""
    inputs = sample_inputs(plan.workload, seed, plan.dtype)
    run = engine.run(plan, inputs)
    assert set(run.outputs) == {tensor for tensor, _ in plan.outputs}
    for one in check_outputs(plan.workload, inputs, run.outputs, plan.dtype):
        assert one.agrees, one
    assert all(values.dtype == plan.dtype for values in run.outputs.values())
    for one in matches(communication(plan), run.lowered):
        assert one.agrees, one
    return run
