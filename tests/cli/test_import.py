"""`einmap import`, and models among the files of other commands."""

import numpy as np
from tests.onnx_models import model, node, numbers, saved

from einmap import load


def layer(folder):
    """A matrix product with an open dimension, a bias, and an operator without Einsum form."""
    nodes = [node("Gemm", ["x", "w", "b"], ["g"], name="fc"), node("Relu", ["g"], ["r"]), node("Hardmax", ["r"], ["y"])]
    weights = {"w": numbers(8, 16), "b": numbers(16)}
    return saved(folder, model(nodes, {"x": ("tokens", 8)}, weights, shapes={"y": (4, 16)}))


def test_a_model_is_written_as_a_workload_that_loads(run, tmp_path):
    path, written = layer(tmp_path), tmp_path / "workload.yaml"
    done = run("import", path, "-D", "tokens=4", "-o", written)
    assert done.status == 0
    assert "2 Einsums over 5 tensors; 512 multiply-accumulates in contractions, 576" in " ".join(done.out.split())
    assert ["Hardmax", "1", "1"] in [line.split() for line in done.out.splitlines()]
    assert "1 x Hardmax without Einsum form" in done.err
    assert load(written).workload.n_computes == 4 * 8 * 16 + 4 * 16
    printed = run("import", path, "--batch", "4")
    assert printed.out == written.read_text()


def test_strict_names_what_has_no_einsum_form(run, tmp_path):
    done = run("import", layer(tmp_path), "--batch", "4", "--strict")
    assert (done.status, done.out) == (2, "")
    assert "model.onnx: node 2 (Hardmax): operators without Einsum form: Hardmax (1)" in done.err


def test_open_dimensions_and_unknown_names_are_errors(run, tmp_path):
    path = layer(tmp_path)
    done = run("import", path)
    assert done.status == 2
    assert "input 'x': the size of dimension 0 is open (tokens)" in done.err
    assert "-D tokens=N" in done.err
    assert "tokenz" in run("import", path, "-D", "tokens=4", "-D", "tokenz=3").err


def test_a_model_is_never_overwritten(run, tmp_path):
    path = layer(tmp_path)
    done = run("import", path, "--batch", "2", "-o", path, "--force")
    assert done.status == 2
    assert "would replace a file of the specification" in done.err


def test_a_model_is_mapped_onto_an_architecture(run, tmp_path):
    path = layer(tmp_path)
    done = run("map", "tpu_v4i", path, "-D", "tokens=4", "--no-fuse")
    assert done.status == 0
    assert "proven optimal" in done.out
    unknown = run("map", "tpu_v4i", path, "-D", "tokens=4", "-D", "N=3")
    assert (unknown.status, "-D N" in unknown.err) == (2, True)


def test_what_the_package_onnx_would_be_needed_for_says_so(run, tmp_path, monkeypatch):
    import sys

    path = layer(tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = run("import", path, "--batch", "1")
    assert done.status == 2
    assert "pip install 'einmap[onnx]'" in done.err


def test_the_scalar_unit_of_tpu_v4i_adds_tensors(run, tmp_path):
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "r"], ["y"])]
    path = saved(tmp_path, model(nodes, {"x": (4, 8), "r": (4, 8)}, {"w": np.ones((8, 8), np.float32)}))
    done = run("map", "tpu_v4i", path, "--no-fuse", "-o", tmp_path / "mapping.yaml")
    assert done.status == 0
    mapping = (tmp_path / "mapping.yaml").read_text()
    assert "!Compute {einsum: m, component: MAC}" in mapping
    assert "!Compute {einsum: y, component: ScalarUnit}" in mapping
