"""Blocks of usual networks: values are those of onnx's evaluator, and a machine can map each."""

import numpy as np
import pytest
from tests.onnx_blocks import BLOCKS, ints, op, weights
from tests.onnx_models import model, saved, values_of

import einmap
from einmap.frontends.onnx.read import from_onnx

MAPPED = (
    "residual, then pooling", "branches joined and pooled", "patches and a token", "shuffled channels",
    "pools of two sizes, flat and joined", "a border that repeats values, then pooling",
)  # fmt: skip


def written_at_sums(imported):
    """Outputs of Einsums other than copies that are indexed by a sum of rank variables."""
    return [
        access.tensor
        for einsum in imported.spec.workload.einsums
        for access in einsum.accesses
        if access.output and not einsum.is_copy and any(len(index.terms) > 1 for _, index in access.projection)
    ]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_has_the_values_of_onnx_and_nothing_but_a_copy_is_written_at_sums(tmp_path, block):
    nodes, shape, weights = BLOCKS[block]
    built = model(nodes, {"x": shape}, weights)
    imported = from_onnx(saved(tmp_path, built))
    values, expected = values_of(built, {"x": shape}, weights)
    assert not imported.barriers
    np.testing.assert_allclose(imported.run(values)["y"], expected["y"], rtol=2e-4, atol=2e-5)
    assert written_at_sums(imported) == []


@pytest.mark.parametrize("block", MAPPED)
def test_a_block_is_mapped(tmp_path, block):
    nodes, shape, weights = BLOCKS[block]
    path = saved(tmp_path, model(nodes, {"x": shape}, weights))
    assert einmap.map_workload(einmap.load("simple", path), metrics="energy").optimal


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in BLOCKS if block not in MAPPED])
def test_each_block_is_mapped(tmp_path, block):
    nodes, shape, weights = BLOCKS[block]
    path = saved(tmp_path, model(nodes, {"x": shape}, weights))
    result = einmap.map_workload(einmap.load("simple", path), metrics="energy", max_evaluations=2000)
    assert np.isfinite(result.cost.energy)


def test_a_rank_stays_whole_where_a_result_of_the_model_would_be_written_at_sums(tmp_path):
    """a is read as two times four values, and whole by y, which the model gives in one rank."""
    nodes = [
        op("MatMul", "x w", "a"),
        op("Reshape", "a shape", "b"),
        op("ReduceSum", "b last", "z"),
        op("Relu", "a", "y"),
    ]
    built = model(nodes, {"x": (3, 8)}, {"shape": ints(3, 2, 4), "last": ints(-1), **weights(w=(8, 8))}, ("y", "z"))
    imported = from_onnx(saved(tmp_path, built))
    assert written_at_sums(imported) == []
    sizes = {a.tensor: len(a.projection) for e in imported.spec.workload.einsums for a in e.accesses}
    assert (sizes["a"], sizes["y"]) == (2, 2)


def test_heads_are_ranks_of_all_that_reads_them(tmp_path):
    """a and its sum with x are split together, the matrix as well."""
    nodes = [
        op("MatMul", "x w", "a"), op("Relu", "a", "b"), op("Reshape", "b shape", "c"),
        op("Transpose", "c", "d", perm=[1, 0, 2]), op("Transpose", "c", "e", perm=[1, 2, 0]), op("MatMul", "d e", "y"),
    ]  # fmt: skip
    built = model(nodes, {"x": (3, 8)}, {"shape": ints(3, 2, 4), **weights(w=(8, 8))})
    imported = from_onnx(saved(tmp_path, built))
    assert written_at_sums(imported) == []
    assert {len(a.projection) for a in imported.spec.workload.by_name["a"].accesses if a.tensor in ("a", "w")} == {3}
