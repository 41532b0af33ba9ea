"""Imported models on a machine: the best mapping executes, counts as the model says, and is emitted as code."""

import pytest
from tests.emit.running import problems
from tests.frontends.onnx.test_values import CASES
from tests.onnx_models import model, node, numbers, saved

import einmap
from einmap.errors import NotSupportedError
from einmap.frontends.onnx.read import from_onnx
from einmap.report.comparison import compare

RUN = (
    "padded intermediates of a residual", "grouped conv", "softmax", "quantised conv", "keys and values of a cache",
    "concatenated channels, convolved", "rotary embedding", "norm without axes", "reshape that no index says",
)  # fmt: skip


def mapped(folder, case, *, fuse):
    """A model with its best mapping on a machine with one buffer."""
    nodes, inputs, weights = CASES[case]
    imported = from_onnx(saved(folder, model(nodes, inputs, weights)))
    spec = einmap.Spec.from_dict({**einmap.load("simple").to_dict(), **imported.spec.to_dict()})
    result = einmap.map_workload(spec, metrics="energy", fuse=fuse, max_evaluations=2000)
    return result.spec.with_mapping(result.mapping)


@pytest.mark.parametrize("case", RUN)
def test_the_best_mapping_runs_and_counts_as_the_model_says(tmp_path, case):
    spec = mapped(tmp_path, case, fuse=False)
    assert compare(spec, einmap.evaluate(spec), einmap.execute(spec)).agrees


@pytest.mark.parametrize("case", ["padded intermediates of a residual", "keys and values of a cache"])
def test_a_fused_mapping_is_emitted_as_code_that_does_the_same(tmp_path, case):
    spec = mapped(tmp_path, case, fuse=True)
    assert compare(spec, einmap.evaluate(spec), einmap.execute(spec)).agrees
    assert problems(einmap.emit(spec, lang="python"), spec) == []


def test_a_transposed_convolution_that_cannot_be_mapped_says_why_and_what_can(tmp_path):
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[2])]
    path = saved(tmp_path, model(nodes, {"x": (1, 1, 4)}, {"w": numbers(1, 1, 3)}))
    with pytest.raises(NotSupportedError, match=r"'y_sum' is indexed by sums \(2\*p4 \+ r3\)") as error:
        einmap.map_workload(einmap.load("simple", path), metrics="energy")
    assert "filled up with zeros to a multiple of its stride" in str(error.value)
    path = saved(tmp_path, model(nodes, {"x": (1, 1, 4)}, {"w": numbers(1, 1, 4)}))
    assert einmap.map_workload(einmap.load("simple", path), metrics="energy").optimal
