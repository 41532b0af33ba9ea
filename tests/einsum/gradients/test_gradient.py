"""Backward passes: which Einsums they are, and values worked out by hand."""

import numpy as np
import pytest

import einmap
from einmap.einsum.gradients.gradient import gradient
from einmap.einsum.notation.pretty import equation
from einmap.einsum.numeric import run


def workload(*einsums, bits=16, shape=None, **sizes):
    given = {"bits_per_value": {"All": bits}, "einsums": [*einsums], "rank_sizes": sizes}
    return einmap.Spec.from_dict(workload=given | {"iteration_space_shape": shape or {}}).workload


def backward(made):
    return [equation(e) + " (copy)" * e.is_copy for e in made.workload.einsums if e.part in ("input", "weight")]


def values(made, **inputs):
    found = run(made.workload, made.inputs() | {t: np.asarray(v, dtype=float) for t, v in inputs.items()})
    return [found[name].tolist() for name in made.gradients.values()]


CHAIN = ("Y[m, n] = X[m, k] * W1[k, n]", "H[m, n] = relu(Y[m, n])", "Z[m, p] = H[m, n] * W2[n, p]", "L[O: 0] = Z[m, p]")


def test_a_factor_gets_the_product_of_the_others_and_the_gradient():
    made = gradient(workload("Z[m, n] = A[m, k] * B[k, n] * C[n]", M=2, N=3, K=4), "Z", ["A", "C"])
    assert backward(made) == ["d_A[m, k] = d_Z[m, n] * C[n] * B[k, n]", "d_C[n] = d_Z[m, n] * A[m, k] * B[k, n]"]
    assert made.seed == "d_Z"
    assert made.gradients == {"A": "d_A", "C": "d_C"}


def test_sums_of_several_tensors_are_differentiated_together():
    """L = sum of Y + sum of 10 Z, with Y = 2 A and Z = A Y: dL/dA = 2 + 10 (2 A + 2 A)."""
    case = workload("Y[m] = 2 * A[m]", "Z[m] = A[m] * Y[m]", "X[m] = B[m]", M=2)
    made = gradient(case, ["Y", "Z"], ["A"])
    assert made.seeds.keys() == {"Y", "Z"}
    given = {"A": [3.0, 5.0], made.seeds["Z"]: [10.0, 10.0]}
    found = run(made.workload, made.inputs() | {t: np.asarray(v) for t, v in given.items()})
    assert found[made.gradients["A"]].tolist() == [2 + 10 * 12, 2 + 10 * 20]
    with pytest.raises(einmap.errors.SpecError, match="'X' depends on none of A"):
        gradient(case, ["Y", "X"], ["A"])


def test_what_only_gradients_of_weights_need_is_the_weight_part():
    made = gradient(workload(*CHAIN, M=2, N=3, K=4, P=2), "L", ["W1", "W2"])
    parts = {e.name: e.part for e in made.workload.einsums}
    forward = dict.fromkeys(("Y", "H", "Z", "L"), "forward")
    assert parts == forward | {"d_Z": "input", "d_W2": "weight", "d_H": "input", "d_Y": "input", "d_W1": "weight"}
    assert made.kept == ("H",)  # relu needs its result, not Y
    assert backward(made)[0] == "d_Z[m, p] = d_L[O: 0] (copy)"


def test_einsums_that_do_not_lead_to_the_tensor_are_left_out():
    made = gradient(workload("Z[m] = A[m] * B[m]", "Y[m] = A[m]", M=2), "Z", ["A"])
    assert made.workload.einsum_names == ("Z", "d_A")


def test_what_several_readers_give_is_summed():
    made = gradient(workload("Z[m] = A[m] * A[m]", "Y[m] = Z[m] + A[m]", M=2), "Y", ["A"])
    assert backward(made) == [
        "d_Z[m] = d_Y[m] (copy)", "d_A_1[m] = d_Y[m] (copy)", "d_A_2[m] = 2 * d_Z[m] * A[m]", "d_A[m] = d_A_1[m] + d_A_2[m]",
    ]  # fmt: skip
    assert values(made, A=[3, -1]) == [[7, -1]]


def test_a_window_scatters_its_gradient_and_what_no_window_covers_gets_none():
    made = gradient(workload("O[p] = I[H: 3*p + r] * F[r]", P=2, R=2, H=6), "O", ["I", "F"])
    assert backward(made) == ["d_I[H: 3*p + r] = d_O[p] * F[r]", "d_F[r] = d_O[p] * I[H: 3*p + r]"]
    assert values(made, I=[1, 2, 3, 4, 5], F=[7, 8]) == [[7, 8, 0, 7, 8], [5, 7]]


def test_a_padded_window_gives_nothing_to_the_padding():
    case = workload("O[p] = I[H: p + r - 1] * F[r]", P=3, R=3, H=3)
    made = gradient(case, "O", ["I", "F"])
    assert values(made, I=[1, 2, 3], F=[4, 5, 6]) == [[9, 15, 11], [3, 6, 5]]


def test_the_largest_values_share_the_gradient():
    made = gradient(workload({"einsum": "Z[m] = A[m, n]", "reduction": "max"}, M=2, N=3), "Z", ["A"])
    assert backward(made) == [
        "Z_ties[m] = equal(A[m, n], Z[m])", "d_A[m, n] = (d_Z[m] / Z_ties[m]) * equal(A[m, n], Z[m])"
    ]  # fmt: skip
    assert values(made, A=[[1, 5, 5], [2, 1, 0]]) == [[[0, 0.5, 0.5], [1, 0, 0]]]


def test_two_equal_arguments_of_max_get_a_half_each():
    made = gradient(workload("Z[m] = max(A[m], B[m])", M=3), "Z", ["A", "B"])
    assert values(made, A=[1, 2, 3], B=[3, 2, 1]) == [[0, 0.5, 1], [1, 0.5, 0]]


def test_rank_variables_that_nothing_indexes_any_more_become_a_factor():
    made = gradient(workload("Z[m] = A[m] + B[m, k]", M=2, K=5), "Z", ["A"])
    assert backward(made) == ["d_A[m] = 5 * d_Z[m]"]


def test_a_number_of_points_that_depends_on_a_bound_is_refused():
    case = workload("Z[m] = A[m] + B[m, k]", M=4, K=4, shape={"k": "0 <= k <= m"})
    with pytest.raises(einmap.EinmapError, match=r"Einsum 'Z'.*number of points"):
        gradient(case, "Z", ["A"])


def test_rows_of_a_table_get_the_sum_over_those_who_looked_them_up():
    made = gradient(workload("Y[t, d] = Table[V: Ids[t], d]", T=4, D=1, V=3), "Y", ["Table"])
    assert backward(made) == ["d_Table[v, d] = d_Y[t, d] * equal(Ids[t], V_rows[v])"]
    assert made.rows == {"V_rows": 3}
    assert values(made, Table=[[1], [2], [3]], Ids=[2, -1, 2, 0]) == [[[1], [0], [2]]]


def test_a_recurrence_runs_backwards_in_time():
    einsums = ["R[t, n] = H[S: t, N: m] * U[m, n]", "H[S: t + 1, n] = X[t, n] + R[t, n]"]
    case = workload(*einsums, shape={"t": "0 <= t < 3"}, N=1, M=1)
    made = gradient(case, "H", ["X"])
    (_, again) = made.workload.recurrences
    assert again.einsums == ("d_H", "d_R", "d_H_2")
    # the mapper knows no copies within a recurrence
    assert not any(made.workload.by_name[name].is_copy for name in again.einsums)
    # H_3 = X_2 + U X_1 + U^2 X_0 and so on, for U = 2
    assert values(made, X=[[1], [1], [1]], U=[[2]]) == [[[7], [3], [1]]]


def test_chosen_intermediates_are_computed_again():
    einsums = ["A[m] = exp(X[m])", "B[m] = sin(A[m])", "C[m] = B[m] * A[m]"]
    made = gradient(workload(*einsums, M=2), "C", ["X"], recompute=["A", "B"])
    assert made.kept == ()
    names = [e.name for e in made.workload.einsums if e.part != "forward"]
    assert names.index("A_again") < names.index("B_again")
    x = np.array([0.2, 0.4])
    a = np.exp(x)
    expected = a * (np.cos(a) * a + np.sin(a))
    np.testing.assert_allclose(values(made, X=x)[0], expected, rtol=1e-12)
    assert made.workload.by_name["A_again"].part == "input"


def test_the_step_of_sgd():
    made = gradient(workload("L[O: 0] = X[m] * W[m]", M=2), "L", ["W"], optimizer="sgd")
    found = run(made.workload, made.inputs() | {"X": np.array([1.0, 2]), "W": np.ones(2), "rate": np.array([0.5])})
    assert found["W_next"].tolist() == [0.5, 0]
    assert made.update.weights == {"W": "W_next"}
    assert made.workload.by_name["W_next"].part == "update"


def test_two_steps_of_adam_in_mixed_precision():
    made = gradient(workload("L[O: 0] = X[m] * W[m] * W[m]", M=2), "L", ["W"], optimizer="adam")
    x, w = np.array([1.0, -2]), np.array([1.0, 3])
    state = {"W_master": w, "W_mean": np.zeros(2), "W_square": np.zeros(2)}
    master, mean, square = w, np.zeros(2), np.zeros(2)
    for t in (1, 2):
        scalars = {"rate": np.array([0.01 / (1 - 0.9**t)]), "scale": np.array([(1 - 0.999**t) ** -0.5])}
        found = run(made.workload, made.inputs() | state | scalars | {"X": x, "W": w})
        g = 2 * x * master
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g**2
        master = master - 0.01 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(found["W_next"], master, rtol=1e-12)
        state = {old: found[new] for old, new in made.update.state["W"].items()}
        w = found["W_next"]
    bits = {a.tensor: a.bits_per_value for e in made.workload.einsums for a in e.accesses}
    assert {t for t, n in bits.items() if n == 32} == {
        "W_master", "W_mean", "W_square", "W_master_next", "W_mean_next", "W_square_next", "rate", "scale"
    }  # fmt: skip
    assert bits["W"] == bits["d_W"] == bits["W_next"] == 16


def test_no_gradient_flows_through_what_is_constant():
    case = workload({"einsum": "G[m] = A[m, n]", "reduction": "max"}, "E[m, n] = exp(A[m, n] - G[m])", M=1, N=2)
    assert "d_G" in gradient(case, "E", ["A"]).workload.tensors
    made = gradient(case, "E", ["A"], constant=["G"])
    assert backward(made) == ["d_A[m, n] = d_E[m, n] * E[m, n]"]


@pytest.mark.parametrize(
    ("of", "by", "options", "words"),
    [
        ("Loss", ["W1"], {}, "no tensor 'Loss'"),
        ("L", ["W3"], {}, "no tensor 'W3'"),
        ("L", [], {}, "no tensor to differentiate by"),
        ("X", ["W1"], {}, "no Einsum writes 'X'"),
        ("L", ["L"], {}, "by itself"),
        ("Y", ["W2"], {}, "'Y' does not depend on 'W2'"),
        ("L", ["W1"], {"recompute": ["X"]}, "cannot be computed again"),
        ("L", ["W1"], {"optimizer": "adamw"}, "unknown optimizer 'adamw'"),
        ("L", ["H"], {"optimizer": "sgd"}, "updates graph inputs"),
        ("L", ["W1"], {"constant": ["H"]}, "does not depend on 'W1'"),
    ],
)
def test_what_has_no_gradient_is_refused(of, by, options, words):
    with pytest.raises(einmap.SpecError, match=words):
        gradient(workload(*CHAIN, M=2, N=3, K=4, P=2), of, by, **options)


def test_a_recurrence_is_not_computed_again():
    einsums = ["R[t, n] = H[S: t, N: m] * U[m, n]", "H[S: t + 1, n] = tanh(X[t, n] + R[t, n])"]
    case = workload(*einsums, shape={"t": "0 <= t < 3"}, N=1, M=1)
    with pytest.raises(einmap.EinmapError, match="the recurrence of H, R"):
        gradient(case, "H", ["X"], recompute=["H", "R"])
    assert gradient(case, "H", ["X", "U"], recompute=["R"]).workload
