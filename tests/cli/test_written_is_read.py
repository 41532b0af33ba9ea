"""What einmap writes it reads, and what is read costs the same, also where models give thirty tensors long names."""

import jax
import numpy as np
import pytest
from tests.onnx_models import model, node, numbers, saved

import einmap
from einmap.frontends.onnx.read import from_onnx

LAYERS = 30
NAMES = [f"encoder_layer_{i}_intermediate_dense_weight_quantized" for i in range(LAYERS)]


def workload():
    """Thirty Einsums that read one input, with weights of eight bits in one set of more than 1,024 characters."""
    text = (
        "workload:\n  rank_sizes: {M: 4, K: 2}\n  bits_per_value:\n    ? "
        + " | ".join(NAMES)
        + "\n    : 8\n    Other: 16\n"
    )
    einsums = [f'  - "{name}_result[m, k] = X[m, k] * {name}[k]"\n' for name in NAMES]
    return text + "  einsums:\n" + "".join(einsums)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.yaml").write_text(workload())
    return tmp_path


def quantised():
    """Weights of 8 bits, dequantised, in thirty layers of which each reads the one before."""
    nodes, weights, x = [], {"scale": np.float32(0.1), "zero": np.int8(0)}, "x"
    for name in NAMES:
        nodes.append(node("DequantizeLinear", [name, "scale", "zero"], [f"{name}_float"]))
        nodes.append(node("MatMul", [x, f"{name}_float"], [f"{name}_result"]))
        weights[name] = np.ones((2, 2), np.int8)
        x = f"{name}_result"
    return model([*nodes, node("Relu", [x], ["y"])], {"x": (2, 2)}, weights)


def test_an_imported_model_with_many_types_is_read_again(run, folder):
    path = saved(folder, quantised())
    assert run("import", path, "-o", "work.yaml").status == 0
    assert einmap.load("work.yaml").workload == from_onnx(path).spec.workload
    bits = (folder / "work.yaml").read_text().partition("bits_per_value:")[2].partition("einsums:")[0]
    assert max(map(len, bits.split("\n"))) < 110


def test_a_set_of_many_names_is_a_key_of_its_own_line(folder):
    spec = einmap.load("long.yaml")
    text = einmap.dump(spec)
    assert f"    ? {' | '.join(NAMES)}\n    : 8\n" in text
    assert einmap.loads(text).workload == spec.workload
    assert einmap.dump(einmap.loads(text)) == text


def test_a_function_of_jax_is_read_again():
    argument = {
        name: numbers(2, 2).astype(kind) for name, kind in zip(NAMES, ["int8", "float16", "float32"] * 10, strict=True)
    }
    result = einmap.from_jax(
        lambda w, x: sum(jax.numpy.float32(x @ w[name]) for name in NAMES), argument, numbers(2, 2)
    )
    assert einmap.loads(einmap.dump(result.spec)).workload == result.spec.workload


def test_mappings_points_and_plans_are_read_again(run, folder):
    files = ("simple", "long.yaml")
    assert run("map", *files, "--max-evaluations", 400, "-o", "best.yaml").status == 0
    cost = einmap.evaluate(einmap.load(*files, "best.yaml"))
    assert run("dump", *files, "best.yaml", "-o", "all.yaml").status == 0
    assert einmap.evaluate(einmap.load("all.yaml")).energy == cost.energy
    assert run("rewrite", *files, "best.yaml", "--do", f"sink {NAMES[0]}@MainMemory", "-o", "other.yaml").status == 0
    assert einmap.evaluate(einmap.load(*files, "other.yaml")).energy == cost.energy
    assert run("plan", "long.yaml", "--mesh", "x=2", "-o", "plan.yaml").status == 0
    assert run("run", "long.yaml", "plan.yaml").status == 0
    assert run("partition", "long.yaml", "--split", "M/2", "-o", "parts.yaml").status == 0
    assert len(einmap.load("parts.yaml").workload.einsums) == LAYERS
    axes = "axes: [{name: b, path: arch.GlobalBuffer.size, values: [65536]}]"
    (folder / "few.yaml").write_text(f"sweep:\n  specs: [all.yaml]\n  action: evaluate\n  {axes}\n")
    assert run("sweep", "few.yaml", "--workers", 0).status == 0
    assert run("sweep", "show", 0, "--store", "few.sqlite", "-o", "point.yaml").status == 0
    assert einmap.evaluate(einmap.load("point.yaml")).energy == cost.energy
