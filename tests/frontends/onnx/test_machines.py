"""Imported models on a machine: the best mapping executes, counts as the model says, and is emitted as code."""

import numpy as np
import pytest
from tests.emit.running import problems
from tests.frontends.onnx.test_values import CASES
from tests.onnx_models import model, node, numbers, saved, values_of

import einmap
from einmap.errors import SpecError
from einmap.frontends.onnx.read import from_onnx
from einmap.report.executions.comparison import compare

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


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes"),
    [
        ((1, 1, 4), (1, 1, 3), {"strides": [2]}),
        ((1, 1, 4), (1, 1, 4), {"strides": [2]}),
        ((1, 1, 4), (1, 2, 2), {"strides": [3], "pads": [1, 1]}),
        ((1, 1, 4), (1, 1, 3), {"strides": [2], "dilations": [2], "output_padding": [1]}),
    ],
)
def test_a_transposed_convolution_is_mapped_whatever_its_stride(tmp_path, shape, kernel, attributes):
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], **attributes)]
    built, weights = model(nodes, {"x": shape}, {"w": numbers(*kernel)}), {"w": numbers(*kernel)}
    path = saved(tmp_path, built)
    values, expected = values_of(built, {"x": shape}, weights)
    np.testing.assert_allclose(from_onnx(path).run(values)["y"], expected["y"], rtol=1e-5, atol=1e-6)
    assert einmap.map_workload(einmap.load("simple", path), metrics="energy").optimal


def test_sums_of_different_lengths_have_an_einsum_each_and_no_more_products(tmp_path):
    """Of 3 x 3 places with a stride of 2, the four outputs of a block sum 4, 2, 2 and 1 products."""
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])]
    built = model(nodes, {"x": (1, 1, 4, 4)}, {"w": numbers(1, 1, 3, 3)})
    assert from_onnx(saved(tmp_path, built)).n_multiply_accumulates == 9 * 4 * 4


def test_a_stride_of_a_thousand_is_not_written_out(tmp_path):
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[1000])]
    built = model(nodes, {"x": (1, 1, 4)}, {"w": numbers(1, 1, 3)}, shapes={"y": [1, 1, 3003]})
    with pytest.raises(SpecError, match="1,000 sums of different lengths"):
        from_onnx(saved(tmp_path, built))
