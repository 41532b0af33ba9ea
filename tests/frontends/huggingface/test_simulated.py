"""Small models, mapped and run in the simulator: the values of a forward pass in NumPy."""

import numpy as np
import pytest
from tests.frontends.huggingface.forward import Forward
from tests.frontends.huggingface.test_values import SMALL, inputs_of, weights_of

import einmap
from einmap import from_huggingface, map_workload

SLOW = [pytest.mark.slow, pytest.mark.simulator]


@pytest.mark.parametrize("kind", ["llama", *(pytest.param(kind, marks=SLOW) for kind in ("mixtral", "mamba2"))])
def test_a_mapped_step_gives_the_logits_of_the_whole_sequence(kind):
    config = {**SMALL[kind], "num_hidden_layers": 1}
    model = from_huggingface(config, tokens=1, context=5, unrolled=True)
    rng = np.random.default_rng(0)
    weights, ids = weights_of(model, rng), rng.integers(0, 9, (1, 6))
    judge = Forward(config, weights, ids)
    logits = judge.run()
    arch = einmap.load("tpu_v4i")
    spec = arch.set("workload", model.spec.to_dict()["workload"])
    best = map_workload(spec, metrics="latency", fuse=False, max_evaluations=1000)
    done = einmap.execute(best.spec, inputs_of(model, judge, weights, 5, 1, ids), mapping=best.mapping)
    np.testing.assert_allclose(done.tensors["Logits_H"][:, -1], logits[:, -1], rtol=1e-10, atol=1e-10)
