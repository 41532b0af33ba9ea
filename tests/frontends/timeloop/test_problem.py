"""Timeloop's problems, in and out."""

import pytest

from einmap import SpecError, loads
from einmap.frontends.timeloop.read import read
from einmap.frontends.timeloop.write import write

CONV_1D = """
problem:
  shape:
    name: Conv1D
    dimensions: [R, P, K]
    coefficients: [{name: stride, default: 1}, {name: dilation, default: 1}]
    data-spaces:
    - {name: Weights, projection: [[[R]], [[K]]]}
    - {name: Inputs, projection: [[[R, dilation], [P, stride]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read-write: True}
  R: 3
  P: 16
  K: 4
  stride: 2
"""
NEWER = """
variables: {N: 8, twice: 2 * N}
problem:
  version: 0.4
  shape:
    dimensions: [M, K, N]
    data_spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: true}
  instance: {M: 4, K: twice, N: N, densities: {A: 0.5}}
"""


def imported(tmp_path, text, **options):
    path = tmp_path / "problem.yaml"
    path.write_text(text)
    return read([path], define={}, **options)


def test_a_diagonal_has_two_ranks_of_one_variable(tmp_path):
    text = NEWER.replace("{name: A, projection: [[[M]], [[K]]]}", "{name: A, projection: [[[K]], [[K]]]}")
    spec = loads(imported(tmp_path, text).files["workload.yaml"])
    assert spec.bindings.rank_sizes["A"] == {"K": 16, "K_2": 16}
    assert spec.workload.einsums[0].extents == {"m": 4, "k": 16, "n": 8}


def test_projections_with_coefficients_become_indices(tmp_path):
    spec = loads(imported(tmp_path, CONV_1D, bits=16).files["workload.yaml"])
    (einsum,) = spec.workload.einsums
    assert einsum.extents == {"r": 3, "p": 16, "k": 4}
    # a window of 3 at stride 2 over 16 outputs: 2 * 15 + 2 + 1 values
    assert {a.tensor: spec.workload.tensor_size(a.tensor) for a in einsum.accesses} == {
        "Weights": 12,
        "Input": 33,
        "Output": 64,
    }
    assert {a.bits_per_value for a in einsum.accesses} == {16}


def test_the_form_of_0_4_with_variables_and_densities(tmp_path):
    result = imported(tmp_path, NEWER)
    assert loads(result.files["workload.yaml"]).workload.n_computes == 4 * 16 * 8
    (entry,) = result.left_out
    assert (entry.key, entry.at.line, entry.reason) == (
        "densities",
        11,
        "it is read where files give a problem and an architecture",
    )


def test_the_shape_cnn_layer_and_dimensions_as_letters(tmp_path):
    text = "problem: {shape: cnn-layer, R: 3, S: 3, P: 4, Q: 5, C: 2, K: 7, N: 1, Wstride: 2}"
    spec = loads(imported(tmp_path, text).files["workload.yaml"])
    assert spec.workload.n_computes == 3 * 3 * 4 * 5 * 2 * 7
    assert list(spec.workload.tensor_shape("Input").values()) == [1, 2, 9, 7]
    letters = CONV_1D.replace("[R, P, K]", "RPK")
    assert imported(tmp_path, letters).files == imported(tmp_path, CONV_1D).files


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("R: 3\n", "", 3, "the size of the dimension R is missing"),
        ("R: 3", "R: 0", 11, "must be >= 1, found 0"),
        ("R: 3", "R: [3]", 11, "expected a whole number, found a list"),
        ("[P, stride]", "[P, strid]", 8, "'strid' is not a dimension or a coefficient"),
        ("[P, stride]", "[P, K]", 8, "P times K: an index is a sum of dimensions"),
        ("read-write: True", "read-write: 3", 9, "expected true or false, found 3"),
        (", read-write: True", "", 6, "expected one data space with read-write: true and others, found 0 of 3"),
        ("[R, P, K]", "[R, P, P]", 5, "the dimension 'P' is given twice"),
        ("[R, P, K]", "[R, P, K, X]", 3, "the size of the dimension X is missing"),
        ("[R, P, K]", "{R: 1}", 5, "expected a list, found a dictionary"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, old, new, line, message):
    with pytest.raises(SpecError, match="problem") as caught:
        imported(tmp_path, CONV_1D.replace(old, new, 1))
    assert message in caught.value.message
    assert caught.value.at.file == str(tmp_path / "problem.yaml")
    assert abs(caught.value.at.line - line) <= 1


def test_a_written_problem_is_read_as_it_was(tmp_path):
    text = """
workload:
  rank_sizes: {P: 8, R: 3, M: 2, C: 5}
  bits_per_value: {All: 8}
  einsums: [{einsum: "O[m, p] = I[c, H: 2*p + 3*r] * F[m, c, r]"}]
"""
    spec = loads(text)
    again = loads(imported(tmp_path, write(spec).files["problem.yaml"]).files["workload.yaml"])
    assert again.workload.n_computes == spec.workload.n_computes
    for tensor in "OIF":
        assert [*again.workload.tensor_shape(tensor).values()] == [*spec.workload.tensor_shape(tensor).values()]


def test_a_problem_is_one_einsum():
    two = "rank_sizes: {M: 2}\n  bits_per_value: {All: 8}\n  einsums: ['B[m] = A[m] * W[m]', 'C[m] = B[m] * V[m]']"
    with pytest.raises(SpecError, match="the workload has 2 Einsums"):
        write(loads(f"workload:\n  {two}\n"))


def test_a_problem_without_a_shape_is_a_layer_and_names_have_underscores_or_not(tmp_path):
    layer = loads(
        imported(tmp_path, "problem: {R: 3, S: 3, P: 8, Q: 8, C: 4, K: 2, N: 1, Wstride: 2}").files["workload.yaml"]
    )
    assert layer.workload.n_computes == 3 * 3 * 8 * 8 * 4 * 2
    assert layer.workload.tensor_size("Input") == 4 * (2 * 7 + 3) * (7 + 3)
    for name in ("gemm-ABZ", "gemm_ABZ"):
        text = f"problem: {{shape: {name}, M: 2, N: 3, K: 5}}"
        (einsum,) = loads(imported(tmp_path, text).files["workload.yaml"]).workload.einsums
        assert (einsum.name, einsum.n_computes) == ("Z", 2 * 3 * 5)
