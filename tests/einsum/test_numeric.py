import math
import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap import Spec, SpecError
from einmap.einsum import numeric
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.functions import FUNCTIONS
from einmap.einsum.numeric import compute, random_inputs, run, shapes
from einmap.einsum.operation import Number, Operation, parse_operation
from einmap.einsum.spaces.projection import Affine
from einmap.einsum.workload import Workload


def workload(*einsums, **fields):
    listed = [{"einsum": e} if isinstance(e, str) else e for e in einsums]
    return Spec.from_dict({"workload": {"bits_per_value": {"All": 8}, "einsums": listed, **fields}}).workload


def einsum(text, **fields):
    (found,) = workload(text, **fields).einsums
    return found


def naive(einsum, tensors):
    """The definition, point by point in Python."""
    function = {"sum": lambda a, b: a + b, "max": max, "min": min}[einsum.operation.reduction]
    first = dict(einsum.first_values)
    found = {t: {} for t in einsum.outputs}
    for values in product(*(range(first.get(v, 0), first.get(v, 0) + n) for v, n in einsum.bounds)):
        point = dict(zip(einsum.rank_variables, values, strict=True))

        def place(access, point=point):
            return tuple(i.constant + sum(a * point[v] for v, a in i.terms) for _, i in access.projection)

        read = {a.tensor: float(tensors[a.tensor][place(a)]) for a in einsum.accesses if not a.output}
        result = eval(str(einsum.operation), {"exp": math.exp, "max": max, "min": min}, read)
        for access in einsum.accesses:
            if access.output:
                at = place(access)
                seen = found[access.tensor]
                seen[at] = function(seen[at], result) if at in seen else result
    return found


def assert_equals_naive(einsum, tensors):
    results = compute(einsum, tensors)
    for tensor, elements in naive(einsum, tensors).items():
        expected = np.zeros(results[tensor].shape)
        for at, value in elements.items():
            expected[at] = value
        np.testing.assert_allclose(results[tensor], expected, rtol=1e-12)


# one Einsum


def test_a_matmul_is_numpys():
    e = workload("Z[m, n] = A[m, k] * B[k, n]", rank_sizes={"M": 5, "N": 6, "K": 7})
    data = random_inputs(e, 0)
    assert run(e, data)["Z"].tolist() == (data["A"] @ data["B"]).tolist()


def test_a_batched_matmul_with_transposed_ranks_is_numpys():
    e = workload("Z[n, b, m] = A[b, m, k] * B[k, n, b]", rank_sizes={"M": 5, "N": 3, "K": 4, "B": 2})
    data = random_inputs(e, 1)
    assert run(e, data)["Z"].tolist() == np.einsum("bmk,knb->nbm", data["A"], data["B"]).tolist()


def test_a_strided_and_dilated_convolution_is_that_of_plain_loops():
    e = workload("O[m, p] = I[c, H: 2*p + 3*r] * F[c, m, r]", rank_sizes={"M": 2, "P": 4, "R": 3, "C": 2})
    assert shapes(e) == {"I": (2, 13), "F": (2, 2, 3), "O": (2, 4)}
    data = random_inputs(e, 0)
    expected = np.zeros((2, 4))
    for m, p, c, r in product(range(2), range(4), range(2), range(3)):
        expected[m, p] += data["I"][c, 2 * p + 3 * r] * data["F"][c, m, r]
    assert run(e, data)["O"].tolist() == expected.tolist()


def test_negative_coefficients_and_constants_shift_the_index():
    e = einsum("Z[P: p + 2] = A[H: p - r + 3] * B[r]", rank_sizes={"R": 3}, iteration_space_shape={"p": "0 <= p < 4"})
    data = {"A": np.arange(7.0) ** 2, "B": np.array([1.0, 10.0, 100.0])}
    assert_equals_naive(e, data)
    assert compute(e, data)["Z"][:2].tolist() == [0, 0]


def test_elements_that_no_point_writes_are_0_in_every_reduction():
    for reduction in ("sum", "max", "min"):
        e = einsum({"einsum": "Z[H: 2*p + 1] = A[p]", "reduction": reduction}, rank_sizes={"P": 3})
        assert compute(e, {"A": np.array([-1.0, 5.0, 2.0])})["Z"].tolist() == [0, -1, 0, 5, 0, 2]


def test_an_overlapping_output_is_reduced_where_windows_meet():
    for reduction in ("sum", "max", "min"):
        e = einsum({"einsum": "Z[H: p + r] = A[p] * B[r]", "reduction": reduction}, rank_sizes={"P": 4, "R": 3})
        assert_equals_naive(e, {"A": np.array([1.0, -2.0, 3.0, 4.0]), "B": np.array([2.0, -1.0, 5.0])})


@pytest.mark.parametrize(("reduction", "function"), [("sum", np.sum), ("max", np.max), ("min", np.min)])
def test_ranks_that_vanish_are_reduced(reduction, function):
    e = einsum({"einsum": "Z[m] = A[m, n]", "reduction": reduction}, rank_sizes={"M": 3, "N": 4})
    data = np.random.default_rng(0).normal(size=(3, 4)) - 5
    np.testing.assert_allclose(compute(e, {"A": data})["Z"], function(data, axis=1))


def test_a_space_that_starts_late_reads_and_writes_from_there():
    e = einsum("Z[M: m] = A[M: m]", iteration_space_shape={"m": "2 <= m < 5"})
    assert compute(e, {"A": np.arange(5.0)})["Z"].tolist() == [0, 0, 2, 3, 4]


def test_a_copy_copies_and_does_not_add():
    given = {"einsum": "Z[n, m] = A[m, n]", "is_copy_operation": True}
    e = einsum(given, rank_sizes={"M": 2, "N": 3})
    data = np.arange(6.0).reshape(2, 3)
    assert compute(e, {"A": data})["Z"].tolist() == data.T.tolist()
    e = einsum({"einsum": "Z[n, m] = A[m]", "is_copy_operation": True}, rank_sizes={"M": 2, "N": 3})
    assert compute(e, {"A": np.array([3.0, 4.0])})["Z"].tolist() == [[3, 4]] * 3


def test_several_outputs_get_the_same_value():
    accesses = [
        {"name": "A", "projection": ["m", "k"]},
        {"name": "Z", "projection": ["m"], "output": True},
        {"name": "Y", "projection": ["k"], "output": True},
    ]
    e = einsum({"name": "E", "tensor_accesses": accesses}, rank_sizes={"M": 2, "K": 3})
    found = compute(e, {"A": np.arange(6.0).reshape(2, 3)})
    assert found["Z"].tolist() == [3, 12]
    assert found["Y"].tolist() == [3, 5, 7]


def test_every_function_is_that_of_math():
    x, y = 0.75, 1.5
    expected = {
        "exp": math.exp(x), "log": math.log(x), "sqrt": math.sqrt(x), "rsqrt": 1 / math.sqrt(x), "abs": x,
        "tanh": math.tanh(x), "sigmoid": 1 / (1 + math.exp(-x)), "relu": x, "negative": -x, "max": y, "min": x,
        "add": x + y, "subtract": x - y, "multiply": x * y, "divide": x / y, "power": x**y,
        "erf": math.erf(x), "gelu": x * (1 + math.erf(x / math.sqrt(2))) / 2, "sin": math.sin(x), "cos": math.cos(x),
        "floor": 0, "ceil": 1, "round": 1, "sign": 1, "less": 1, "equal": 0, "select": y,
    }  # fmt: skip
    assert expected.keys() == FUNCTIONS.keys()
    for name, value in expected.items():
        arguments = ", ".join(["A[m]", "B[m]", "A[m]"][: FUNCTIONS[name].arity])
        e = einsum(f"Z[m] = {name}({arguments})", rank_sizes={"M": 1})
        assert compute(e, {"A": np.array([x]), "B": np.array([y])})["Z"][0] == pytest.approx(value, rel=1e-12)
    assert compute(einsum("Z[m] = relu(-A[m])", rank_sizes={"M": 1}), {"A": np.array([2.0])})["Z"].tolist() == [0]


def test_dividing_by_zero_gives_infinity_as_numbers_do():
    e = einsum("Z[m] = 1 / A[m]", rank_sizes={"M": 1})
    assert compute(e, {"A": np.array([0.0])})["Z"].tolist() == [math.inf]


def test_a_constant_fills_the_output():
    e = Einsum(
        "E", (TensorAccess("Z", (("M", Affine((("m", 1),))),), True, 8),), (("m", 3), ("k", 4)), Operation(Number(0.5))
    )
    assert compute(e, {})["Z"].tolist() == [2, 2, 2]


def test_integers_are_taken_as_inputs():
    e = einsum("Z[m] = A[m] / 2", rank_sizes={"M": 2})
    assert compute(e, {"A": np.array([1, 2])})["Z"].tolist() == [0.5, 1]


@st.composite
def random_einsums(draw):
    """Affine projections of any sign, with a map expression and a reduction."""
    bounds = tuple((v, draw(st.integers(1, 3))) for v in "pqrs"[: draw(st.integers(1, 4))])
    first = tuple((v, draw(st.integers(1, 3))) for v, _ in bounds if draw(st.integers(0, 4)) == 0)
    low = dict(first)

    def access(tensor, output):
        ranks = []
        for rank in "XYZ"[: draw(st.integers(1, 3))]:
            terms = tuple((v, a) for v, _ in bounds if (a := draw(st.sampled_from([0, 0, 1, 1, 2, 3, -1, -2]))))
            least = sum(a * (low.get(v, 0) + (n - 1 if a < 0 else 0)) for (v, n) in bounds for w, a in terms if v == w)
            ranks.append((rank, Affine(terms, draw(st.integers(0, 2)) - least)))
        return TensorAccess(tensor, tuple(ranks), output, 8)

    inputs = "AB"[: draw(st.integers(1, 2))]
    maps = ["A * B", "A - 2 * B", "max(A, -B)", "A / B"] if inputs == "AB" else ["A", "exp(A)", "A * 3 - 1"]
    operation = parse_operation(draw(st.sampled_from(maps)), inputs, draw(st.sampled_from(["sum", "max", "min"])))
    accesses = (*(access(t, False) for t in inputs), *(access(t, True) for t in "ZY"[: draw(st.integers(1, 2))]))
    return Einsum("E", accesses, bounds, operation, first_values=first)


@given(random_einsums(), st.integers(0, 100), st.sampled_from([1, 3, 7, 10**6]))
def test_any_affine_einsum_is_that_of_plain_loops_in_chunks_of_any_size(e, seed, chunk):
    data = random_inputs(Workload((e,)), seed)
    kept, numeric.CHUNK = numeric.CHUNK, chunk
    try:
        assert_equals_naive(e, data)
    finally:
        numeric.CHUNK = kept


# cascades


def test_a_softmax_cascade_is_a_softmax():
    e = workload(
        "QK[m, p] = Q[m, e] * K[p, e]",
        {"einsum": "GM[m] = QK[m, p]", "reduction": "max"},
        "SN[m, p] = exp(QK[m, p] - GM[m])",
        "SD[m] = SN[m, p]",
        "A[m, p] = SN[m, p] / SD[m]",
        "AV[m, f] = A[m, p] * V[p, f]",
        rank_sizes={"M": 3, "P": 5, "E": 2, "F": 4},
    )
    data = random_inputs(e, 3)
    assert all(0.5 <= x <= 1.5 for values in data.values() for x in values.flat)
    found = run(e, data)
    assert list(found) == ["QK", "GM", "SN", "SD", "A", "AV"]
    weights = np.exp(data["Q"] @ data["K"].T)
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found["AV"], weights @ data["V"])


def test_ranks_are_in_the_order_of_the_first_access_wherever_a_tensor_is_used():
    e = workload("X[m, n] = A[n, m]", "Z[m] = X[N: j, M: m] * A[m, n]", rank_sizes={"M": 2, "N": 3})
    assert shapes(e) == {"A": (3, 2), "X": (2, 3), "Z": (2,)}
    data = {"A": np.arange(6.0).reshape(3, 2)}
    found = run(e, data)
    assert found["X"].tolist() == data["A"].T.tolist()
    expected = [sum(data["A"][j, m] * data["A"][n, m] for j in range(3) for n in range(3)) for m in range(2)]
    assert found["Z"].tolist() == expected


def test_a_tensor_is_as_large_as_its_largest_reader_and_0_where_nobody_wrote():
    bounds = {"h": "0 <= h < 3", "p": "0 <= p < 3", "r": "0 <= r < 2"}
    e = workload("X[h] = A[h]", "Z[p] = X[H: p + r]", iteration_space_shape=bounds)
    assert shapes(e) == {"A": (3,), "X": (4,), "Z": (3,)}
    found = run(e, {"A": np.array([1.0, 2.0, 3.0])})
    assert found["X"].tolist() == [1, 2, 3, 0]
    assert found["Z"].tolist() == [3, 5, 3]


def test_inputs_are_small_integers_where_that_makes_sums_exact():
    exact = workload("X[m] = A[m, k] * 2", "Z[m] = max(X[m], -B[m])", rank_sizes={"M": 9, "K": 9})
    values = np.concatenate([x.ravel() for x in random_inputs(exact, 0).values()])
    assert set(values) == {1, 2, 3, 4}
    for text in ("Z[m] = A[m] / 2", "Z[m] = exp(A[m])", "Z[m] = A[m] * 0.5"):
        assert random_inputs(workload(text, rank_sizes={"M": 9}), 0)["A"].max() < 1.6


def test_inputs_depend_on_the_seed_alone():
    e = workload("Z[m] = A[m]", rank_sizes={"M": 20})
    assert random_inputs(e, 1)["A"].tolist() == random_inputs(e, 1)["A"].tolist()
    assert random_inputs(e, 1)["A"].tolist() != random_inputs(e, 2)["A"].tolist()


# spaces that are not a hyperrectangle


def test_points_beyond_the_bounds_take_no_part():
    e = workload({"name": "E", "einsum": "Z[m] = A[m, k]", "iteration_space_shape": ["0 <= k <= m", "0 <= m < 4"]})
    assert e.einsums[0].cuts == ("m - k >= 0",)
    values = np.where(np.tril(np.ones((4, 4))), np.arange(16.0).reshape(4, 4), np.nan)
    assert run(e, {"A": values})["Z"].tolist() == [0, 9, 27, 54]


def test_a_tensor_ends_where_the_space_does():
    e = workload("Z[p, q] = A[K: 4*p + q]", rank_sizes={"K": 10, "P": 3, "Q": 4})
    assert shapes(e) == {"A": (10,), "Z": (3, 4)}
    assert e.tensor_shape("A") == {"K": 10}
    assert run(e, {"A": np.arange(10.0)})["Z"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 0]]


@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_every_reduction_keeps_to_the_space(reduction):
    text = {"einsum": "Z[m, H: p + r] = A[m, p] * B[r, k]", "reduction": reduction}
    text["iteration_space_shape"] = ["p + r < 5", "p + 2*k mod 3 < 6 and not p = 2"]
    e = workload(text, rank_sizes={"M": 2, "P": 4, "R": 3, "K": 3})
    data = {t: values - 3.5 for t, values in random_inputs(e, 3).items()}
    expected = np.zeros((2, 5))
    found = {}
    for m, p, r, k in product(range(2), range(4), range(3), range(3)):
        if p + r < 5 and p + (2 * k) % 3 < 6 and p != 2:
            found.setdefault((m, p + r), []).append(data["A"][m, p] * data["B"][r, k])
    for at, values in found.items():
        expected[at] = {"sum": sum, "max": max, "min": min}[reduction](values)
    np.testing.assert_allclose(run(e, data)["Z"], expected)


def test_a_copy_keeps_to_the_space():
    text = {"einsum": "C[G: 4*h + f] = A[h, f]", "is_copy_operation": True, "iteration_space_shape": ["4*h + f < 6"]}
    e = workload(text, rank_sizes={"H": 2, "F": 4})
    assert run(e, {"A": np.array([[1, 2, 3, 4], [5, 6, np.nan, np.nan]])})["C"].tolist() == [1, 2, 3, 4, 5, 6]


# what is refused


def test_an_operation_that_is_no_arithmetic_is_refused():
    e = workload("Z[m] = softmax(A[m])", rank_sizes={"M": 2})
    with pytest.raises(SpecError, match=r"Einsum 'Z': 'softmax\(A\)' is not arithmetic that einmap can execute"):
        run(e, {"A": np.zeros(2)})


def test_a_negative_index_is_refused():
    e = workload("Z[p] = A[H: p - 2]", rank_sizes={"P": 4})
    with pytest.raises(SpecError, match="'Z' indexes rank H of tensor 'A' at -2: p - 2"):
        shapes(e)


def test_a_space_that_is_too_large_is_refused_before_anything_is_done():
    e = workload("Z[m] = A[m, k]", rank_sizes={"M": 3000, "K": 10**6})
    with pytest.raises(SpecError, match="'A' has 3,000,000,000 values"):
        run(e, {})
    e = workload("Z[m, n] = A[m, k] * B[k, n]", rank_sizes={"M": 2000, "N": 2000, "K": 2000})
    with pytest.raises(SpecError, match="'Z' has 8,000,000,000 points; at most 2,000,000,000"):
        run(e, {})


def test_inputs_that_do_not_fit_are_refused():
    e = workload("Z[m] = A[m] * B[m]", rank_sizes={"M": 2})
    good = {"A": np.zeros(2), "B": np.zeros(2)}
    with pytest.raises(SpecError, match="no values for the graph input 'B'"):
        run(e, {"A": np.zeros(2)})
    with pytest.raises(SpecError, match=r"'B' has shape \(3,\), the workload needs \(2,\)"):
        run(e, good | {"B": np.zeros(3)})
    with pytest.raises(SpecError, match="'B' must be real numbers, found complex128"):
        run(e, good | {"B": np.zeros(2, dtype=complex)})
    with pytest.raises(SpecError, match="'Z' is not a graph input"):
        run(e, good | {"Z": np.zeros(2)})
    with pytest.raises(SpecError, match="reads 'A', which has no values"):
        compute(e.einsums[0], {})
    with pytest.raises(SpecError, match=r"reads 'A' up to shape \(2,\), its values have \(1,\)"):
        compute(e.einsums[0], {"A": np.zeros(1), "B": np.zeros(2)})


def test_larger_spaces_are_worked_off_in_chunks():
    e = einsum("Z[m, n] = exp(A[m, k] * B[k, n])", rank_sizes={"M": 100, "N": 150, "K": 200})
    data = {"A": np.full((100, 200), 0.5), "B": np.ones((200, 150))}
    tracemalloc.start()
    found = compute(e, data)["Z"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * numeric.CHUNK
    np.testing.assert_allclose(found, 200 * math.exp(0.5))
