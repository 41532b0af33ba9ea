"""`einmap import`, and models among the files of other commands."""

from pathlib import Path

import numpy as np
from tests.frontends.onnx.language_models import Sizes, genai
from tests.frontends.zigzag.test_ordering import PRODUCT, SPREAD
from tests.frontends.zigzag.test_read import HARDWARE
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


def test_equal_layers_are_one_where_that_is_asked_for(run, tmp_path):
    sizes = Sizes(layers=3, hidden=64, heads=4, key_heads=2, inner=96, vocabulary=50, positions=32)
    path = genai(tmp_path / "m.onnx", sizes)
    names = ("batch_size=1", "sequence_length=1", "past_sequence_length=7", "total_sequence_length=8")
    define = [word for name in names for word in ("-D", name)]
    out = tmp_path / "m.yaml"
    run("import", path, *define, "--instances", "-o", out)
    assert {einsum.n_instances for einsum in load(out).workload.einsums} == {1, 3}
    done = run("import", "--from", "zigzag", path, "--instances")
    assert done.status == 2
    assert "--instances is for ONNX models" in done.err


def test_a_summary_begins_with_the_products_that_are_not_counted(run, tmp_path):
    call = node("MatMulBnb4", ["r", "w"], ["a"], domain="com.microsoft", N=6, K=8, block_size=16, quant_type=0)
    nodes = [node("Relu", ["x"], ["r"]), call, node("Exp", ["a"], ["y"])]
    path = saved(tmp_path, model(nodes, {"x": (4, 8)}, {"w": np.zeros(24, np.uint8), "s": np.zeros(3, np.float32)}))
    done = run("import", path, "-o", tmp_path / "m.yaml")
    lines = " ".join(done.out.split())
    assert lines.startswith(
        "about all of the model's products (192 of 192) are not counted: com.microsoft.MatMulBnb4 (1)"
    )


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


def problem(folder):
    path = folder / "problem.yaml"
    space = "{name: %s, projection: [[[%s]]], read_write: %s}"
    spaces = ", ".join(space % entry for entry in (("A", "K", "false"), ("B", "K", "false"), ("Z", "M", "true")))
    path.write_text(
        f"problem: {{shape: {{dimensions: [M, K], data_spaces: [{spaces}]}}, instance: {{M: 4, K: 3}}, x: 1}}"
    )
    return path


def test_files_of_timeloop_become_files_in_a_folder(run, tmp_path):
    path, folder = problem(tmp_path), tmp_path / "imported"
    done = run("import", "--from", "timeloop", path, "-o", folder)
    assert done.status == 0
    assert "Without counterpart: 1" in done.out
    assert load(folder / "workload.yaml").workload.n_computes == 12
    assert [file.name for file in folder.iterdir()] == ["workload.yaml"]
    again = run("import", "--from", "timeloop", path, "-o", folder)
    assert (again.status, "the file exists" in again.err) == (2, True)
    assert run("import", "--from", "timeloop", path, "-o", folder, "--force").status == 0
    printed = run("import", "--from", "timeloop", path)
    assert printed.out == (folder / "workload.yaml").read_text()
    strict = run("import", "--from", "timeloop", path, "--strict")
    assert (strict.status, "problem.yaml:1" in strict.err, "x has no counterpart" in strict.err) == (2, True, True)


def test_the_folder_is_not_a_file_and_no_input_is_replaced(run, tmp_path):
    path = problem(tmp_path)
    assert "this is a file, not a folder" in run("import", "--from", "timeloop", path, "-o", path).err
    same = path.rename(tmp_path / "workload.yaml")
    done = run("import", "--from", "timeloop", same, "-o", tmp_path, "--force")
    assert (done.status, "would replace a file" in done.err) == (2, True)
    assert "the folder above it does not exist" in run("import", "--from", "timeloop", same, "-o", tmp_path / "a/b").err


def test_a_folder_where_a_file_is_to_go_stays_and_nothing_is_written(run, tmp_path):
    path, folder = problem(tmp_path), tmp_path / "out"
    (folder / "workload.yaml").mkdir(parents=True)
    done = run("import", "--from", "timeloop", path, "-o", folder, "--force")
    assert (done.status, "this is a directory, not a file" in done.err) == (2, True)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_unknown_formats_have_a_suggestion(run, tmp_path):
    done = run("import", "--from", "timelop", problem(tmp_path))
    assert (done.status, "did you mean 'timeloop'?" in done.err) == (2, True)
    done = run("export", "conv", "--to", "timelop")
    assert (done.status, "did you mean 'timeloop'?" in done.err) == (2, True)


def test_a_workload_is_exported_as_a_problem_of_timeloop(run, tmp_path):
    done = run("export", "conv", "--to", "timeloop", "-o", tmp_path / "out")
    assert done.status == 0
    back = run("import", "--from", "timeloop", tmp_path / "out" / "problem.yaml", "-o", tmp_path / "back")
    assert back.status == 0
    assert load(tmp_path / "back" / "workload.yaml").workload.n_computes == load("conv").workload.n_computes


def test_files_of_zigzag_become_a_folder_and_what_is_left_out_is_listed(run, tmp_path):
    workload, out = tmp_path / "gemm.yaml", tmp_path / "out"
    workload.write_text(
        "- {id: 0, name: gemm, operator_type: Gemm, equation: 'O[m][n]+=W[k][m]*I[n][k]', loop_dims: [M, N, K],\n"
        "   loop_sizes: [4, 8, 16], operand_precision: {O: 4, O_final: 8, W: 8, I: 8}, core: 3}\n"
    )
    done = run("import", "--from", "zigzag", workload, "-o", out)
    assert done.status == 0
    assert "Without counterpart: 2" in done.out
    assert "it is not a key" in " ".join(done.out.split())
    assert load(out / "workload.yaml").workload.n_computes == 4 * 8 * 16
    workload.write_text("- {id: 0, equation: x, loop_dims: [M], loop_sizes: [2, 3]}\n")
    done = run("import", "--from", "zigzag", workload, "-o", tmp_path / "none")
    assert (done.status, done.out, (tmp_path / "none").exists()) == (2, "", False)
    assert "gemm.yaml:1:52: [0].loop_sizes: loop_dims has 1 dimensions, loop_sizes 2 sizes" in done.err


def test_the_temporal_ordering_of_zigzag_is_what_map_takes_as_given(run, tmp_path):
    mapping = f"- name: default\n  {SPREAD}\n  temporal_ordering: [[C, 3], [B, 4], [K, 2]]\n"
    texts = {"hardware": HARDWARE.replace("  systolic_dimensions: [D2]\n", ""), "workload": PRODUCT, "mapping": mapping}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    paths, out = [tmp_path / f"{name}.yaml" for name in texts], tmp_path / "out"
    printed = run("import", "--from", "zigzag", *paths)
    assert "given.yaml, for einmap map --given, is written with -o DIR alone" in " ".join(printed.err.split())
    (tmp_path / "printed.yaml").write_text(printed.out)
    assert load(tmp_path / "printed.yaml").workload.einsum_names == ("Layer0",)
    assert run("import", "--from", "zigzag", *paths, "-o", out).status == 0
    best = tmp_path / "best.yaml"
    done = run("map", out / "workload.yaml", out / "architecture.yaml", "--given", out / "given.yaml", "-o", best)
    assert (done.status, "proven optimal" in done.out) == (0, True)
    loops = [line.split("rank_variable: ")[1][:1] for line in best.read_text().splitlines() if "!Temporal" in line]
    assert loops == ["k", "b", "c"]


def test_a_specification_is_exported_to_accelforge(run, tmp_path):
    done = run("export", "simple", "matmul", "simple_matmul", "--to", "accelforge", "-o", tmp_path / "out")
    assert (done.status, done.err.count("wrote")) == (0, 1)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "architecture.yaml",
        "mapping.yaml",
        "workload.yaml",
    ]
    done = run("export", "simple", "--to", "accelforg")
    assert (done.status, done.out) == (2, "")
    assert "did you mean 'accelforge'" in done.err


def test_a_program_of_pytorch_is_a_workload_for_every_command(run, tmp_path):
    program, written = Path(__file__).parents[1] / "frontends" / "torch" / "open_sizes.pt2", tmp_path / "work.yaml"
    sizes = ("-D", "args_0_0=3", "-D", "args_0_1=5")
    done = run("import", program, *sizes, "-o", written)
    assert done.status == 0
    assert "aten.scaled_dot_product_attention.default" in done.out
    assert load(written).workload.n_computes == load(program, define={"args_0_0": 3, "args_0_1": 5}).workload.n_computes
    refused = run("import", program, *sizes, "--value", "x=1")
    assert refused.status == 2
    assert "--value is for ONNX models" in refused.err
