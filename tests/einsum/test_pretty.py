import pytest
from tests.einsum.cascades_to_partition import workload

from einmap import SpecError, pretty_einsums, pretty_loops, split
from einmap.einsum.notation.pretty import equation, loop_order, reduced

MATVEC = workload("Z[m] = A[k, m] * B[k]", K=10, M=8)


def test_the_loops_of_an_imperfect_partition():
    assert pretty_loops(split(split(MATVEC, "K", 4), "M", 2), parallel=["m1"]).splitlines() == [
        "spatial-for m1 in [0, 4)",
        "  for k1 in [0, 3)",
        "    for m0 in [0, 2)",
        "      for k0 in [0, 4)",
        "        if 4*k1 + k0 < 10: Z[m1, m0] += A[k1, k0, m1, m0] * B[k1, k0]",
    ]


def test_the_order_of_loops():
    (einsum,) = split(split(MATVEC, "K", (4, 2)), "M", 2).einsums
    assert loop_order(einsum) == ("k2", "m1", "k1", "m0", "k0")
    assert loop_order(einsum, ["k1", "x", "m0"]) == ("k1", "m0", "k2", "m1", "k0")


def test_each_einsum_takes_the_loops_that_it_has():
    chain = workload("T[m] = A[k, m]", "Z[m, n] = exp(T[m]) * B[n]", K=2, M=3, N=4)
    assert pretty_loops(chain, order=["n", "k"], parallel=["n"]) == (
        "for k in [0, 2)\n  for m in [0, 3)\n    T[m] += A[k, m]\n\n"
        "spatial-for n in [0, 4)\n  for m in [0, 3)\n    Z[m, n] = exp(T[m]) * B[n]"
    )


@pytest.mark.parametrize(
    ("text", "fields", "statement"),
    [
        ("Z[m] = A[k, m]", {}, "Z[m] += A[k, m]"),
        ("Z[m] = A[k, m]", {"reduction": "max"}, "Z[m] = max(Z[m], A[k, m])"),
        ("Z[m, k] = A[k, m]", {"reduction": "max"}, "Z[m, k] = A[k, m]"),
        ("Z[H: m + k] = A[k, m]", {}, "Z[H: m + k] += A[k, m]"),
        ("Z[m, H: m + k] = A[k, m]", {}, "Z[m, H: m + k] += A[k, m]"),
        ("Z[m, k] = 2 * A[k, m] / B[m]", {}, "Z[m, k] = (2 * A[k, m]) / B[m]"),
        ("Z[K: k, J: m] = A[k, m]", {"is_copy_operation": True}, "Z[k, J: m] = A[k, m]"),
    ],
)
def test_statements(text, fields, statement):
    given = workload({"einsum": text, **fields}, K=2, M=3, J=3)
    assert pretty_loops(given).splitlines()[-1].strip() == statement


def test_loops_begin_at_the_first_value():
    late = workload({"einsum": "Z[m] = A[m]", "iteration_space_shape": ["2 <= m < 7"]})
    assert pretty_loops(late).splitlines()[0] == "for m in [2, 7)"
    assert pretty_einsums(late) == "M = 7\nZ[m] = A[m]   where m >= 2"


def test_remarks():
    named = {"name": "E", "einsum": "Z[m] = A[k, m]", "reduction": "min", "n_instances": 1200}
    assert (
        pretty_einsums(workload(named, K=2, M=3)) == "K = 2, M = 3\nZ[m] = A[k, m]   (min, Einsum E, 1,200 instances)"
    )


def test_sizes_that_differ_between_tensors():
    conv = workload("O[p] = I[P: 2*p] * F[p]", P=7)
    assert pretty_einsums(conv).splitlines()[0] == "P = 7 (I) | 4 (F O)"


def test_a_tensor_is_not_mistaken_for_a_function():
    (einsum,) = workload("exp1[m] = exp(exp2[m]) + e[m]", M=2).einsums
    assert equation(einsum) == "exp1[m] = exp(exp2[m]) + e[m]"
    assert reduced(einsum) == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"order": ["m", "j"]}, "the order: the workload has no rank variable 'j'"),
        ({"order": ["m", "m"]}, "the order: rank variable 'm' is given twice"),
        ({"parallel": ["M"]}, "the parallel loops: the workload has no rank variable 'M'"),
    ],
)
def test_unknown_loops(arguments, said):
    with pytest.raises(SpecError, match=said):
        pretty_loops(MATVEC, **arguments)
