import pytest
from tests.einsum.cascades_to_partition import after, checked, workload

from einmap import SpecError, delay_reduction
from einmap.errors import NotSupportedError

MATMUL = workload("Z[m, n] = A[k, m] * B[k, n]", K=8, M=4, N=3)


def test_the_distributed_matmul():
    assert after(MATMUL, "split K/4", "split M/4", "delay K1") == (
        "K1 = 4, K0 = 2, M1 = 4, M0 = 1, N = 3\n"
        "ZT[k1, m1, m0, n] = A[k1, k0, m1, m0] * B[k1, k0, n]\n"
        "Z[m1, m0, n] = ZT[k1, m1, m0, n]"
    )


def test_a_rank_that_is_not_partitioned():
    assert after(MATMUL, "delay K").endswith("ZT[k, m, n] = A[k, m] * B[k, n]\nZ[m, n] = ZT[k, m, n]")


def test_every_einsum_that_reduces_over_the_rank_or_one():
    both = workload("X[m] = A[k, m]", "Y[m] = B[k, m] * X[m]", K=4, M=3)
    assert after(both, "delay K").splitlines()[1:] == [
        "XT[k, m] = A[k, m]", "X[m] = XT[k, m]", "YT[k, m] = B[k, m] * X[m]", "Y[m] = YT[k, m]",
    ]  # fmt: skip
    assert after(both, "delay K@Y").splitlines()[1:] == [
        "X[m] = A[k, m]", "YT[k, m] = B[k, m] * X[m]", "Y[m] = YT[k, m]",
    ]  # fmt: skip
    assert "Part[k, m] = B[k, m] * X[m]" in after(both, "delay Part=K@Y")


@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
@pytest.mark.parametrize("operation", ["A[k, m] * B[k]", "exp(A[k, m]) / (3 + B[k])", "max(A[k, m], B[k])"])
def test_any_map_and_reduction_with_an_imperfect_partition(reduction, operation):
    text = {"einsum": f"Z[m] = {operation}", "reduction": reduction}
    found = after(workload(text, K=7, M=3), "split K=3", "delay K1")
    assert ("(max)" in found.splitlines()[2]) == (reduction == "max")


def test_a_maximum_does_not_meet_the_padding():
    """The second tile of 6 has no second tile of 4: bounds keep the element of the temporary for it, a 0, out."""
    text = {"einsum": "Z[m] = A[k, m] * B[k]", "reduction": "max"}
    found = checked(workload(text, K=10, M=3), "split K=6,4", "delay K2", "delay K1@ZT").workload
    assert found.einsums[1].cuts == ("4*k1 + 6*k2 < 10",)


def test_softmax_parts():
    softmax = workload(
        {"einsum": "GM[p] = QK[m, p]", "reduction": "max"},
        "SN[m, p] = exp(QK[m, p] - GM[p])",
        "SD[p] = SN[m, p]",
        "A[m, p] = SN[m, p] / SD[p]",
        M=7,
        P=3,
    )
    assert after(softmax, "split M=3", "delay M1").splitlines()[1:3] == [
        "GMT[m1, p] = QK[m1, m0, p]   (max)   where 3*m1 + m0 < 7",
        "GM[p] = GMT[m1, p]   (max)",
    ]


def test_the_names_of_einsums():
    named = workload({"name": "E", "einsum": "Z[m] = A[k, m]"}, K=4, M=3)
    assert after(named, "delay K").splitlines()[1:] == [
        "ZT[k, m] = A[k, m]   (Einsum ET)",
        "Z[m] = ZT[k, m]   (Einsum E)",
    ]


def test_the_last_reduction_of_a_scatter_runs_over_its_rank():
    """Each element of H is reduced once, however many p + r fall on it."""
    scatter = workload("Z[H: p + r] = A[k, p] * B[r]", K=3, P=4, R=3, H=6)
    assert after(scatter, "delay K").splitlines()[1:] == ["ZT[k, H: p + r] = A[k, p] * B[r]", "Z[h] = ZT[k, h]"]


@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_scatters_with_gaps(reduction):
    text = {"einsum": "Z[H: 3*p + r + 1] = A[k, p] * B[r]", "reduction": reduction}
    checked(workload(text, K=3, P=4, R=2), "delay K")


def test_instances_and_widths_are_kept():
    einsum = {"einsum": "Z[m] = A[k, m]", "n_instances": 3}
    partial, last = delay_reduction(workload(einsum, K=4, M=3), "K").einsums
    assert (partial.n_instances, last.n_instances) == (3, 3)
    assert partial.by_tensor["ZT"].bits_per_value == 8


# what is refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("J",), "no tensor of the workload has a rank 'J'"),
        (("M",), "no Einsum reduces over rank M: 'Z' keeps m"),
        (("K", "Y"), "the workload has no Einsum 'Y'"),
        (("K", "Z", "9T"), "'9T' is not a name of a tensor"),
        (("K", "Z", "A"), "the name A of the temporary of 'Z' is taken"),
    ],
)
def test_bad_arguments(arguments, said):
    with pytest.raises(SpecError, match=said):
        delay_reduction(MATMUL, *arguments)


def test_an_einsum_without_the_rank():
    chain = workload("T[m] = A[k, m]", "Z[m] = exp(T[m])", K=4, M=3)
    with pytest.raises(SpecError, match="Einsum 'Z' reduces over rank K: it does not have it") as e:
        delay_reduction(chain, "K", "Z")
    assert e.value.hint == "did you mean 'K'? ranks that are reduced: K"


def test_a_window_is_not_delayed_as_such():
    with pytest.raises(SpecError, match=r"no Einsum reduces over rank H: 'O' indexes it by p \+ r"):
        delay_reduction(workload("O[p] = I[H: p + r] * F[r]", P=4, R=3), "H")


def test_a_copy_reduces_nothing():
    with pytest.raises(SpecError, match="no Einsum reduces over rank K"):
        delay_reduction(workload({"einsum": "Z[m] = A[k, m]", "is_copy_operation": True}, K=4, M=3), "K")


def test_several_outputs():
    two = {
        "name": "E",
        "tensor_accesses": [
            {"name": "A", "projection": ["k", "m"]},
            {"name": "Z", "projection": ["m"], "output": True},
            {"name": "Y", "projection": ["m"], "output": True},
        ],
    }
    with pytest.raises(SpecError, match="Einsum 'E' has several outputs, Y, Z"):
        delay_reduction(workload(two, K=4, M=3), "K")


def test_a_temporary_cannot_serve_two_einsums():
    both = workload("X[m] = A[k, m]", "Y[m] = B[k, m]", K=4, M=3)
    with pytest.raises(SpecError, match="the Einsums X, Y reduce over rank K, but there is one name"):
        delay_reduction(both, "K", temporary="T")


def test_the_temporary_would_have_a_rank_twice():
    with pytest.raises(SpecError, match="'Z' has a rank K already, its temporary would have it twice"):
        delay_reduction(workload("Z[K: j] = A[k, j]", K=4, J=3), "K")


def test_a_maximum_over_bounds_with_holes_is_refused():
    odd = {"einsum": "Z[m] = A[j, k, m]", "reduction": "max", "iteration_space_shape": ["(j + k) mod 5 = 1"]}
    with pytest.raises(NotSupportedError, match="takes the max within bounds"):
        delay_reduction(workload(odd, J=3, K=6, M=2), "K")
    odd.pop("reduction")
    checked(workload(odd, J=3, K=6, M=2), "delay K")
