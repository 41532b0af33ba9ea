import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.einsum.cascades_to_partition import after, assert_same_values, checked, workload

from einmap import SpecError, flatten, linearise, split
from einmap.einsum.rewrites.steps import Flatten, Linearise, Split, partition

MATVEC = workload("Z[m] = A[k, m] * B[k]", K=12, M=8)
HEADS = workload("Z[p, d] = AV[h, p, f] * WZ[h, f, d]", H=3, F=4, P=2, D=2)


def test_two_partitions_become_one_rank_of_tuples():
    assert after(MATVEC, "split K=4", "flatten K1,K0") == (
        "K1K0 = 12, M = 8\nZ[m] = A[K1K0: 4*k1 + k0, m] * B[K1K0: 4*k1 + k0]"
    )


def test_concatenated_heads():
    assert after(HEADS, "flatten G=H,F") == ("G = 12, P = 2, D = 2\nZ[p, d] = AV[G: 4*h + f, p] * WZ[G: 4*h + f, d]")
    assert after(HEADS, "flatten G=H,F", "linearise G") == "G = 12, P = 2, D = 2\nZ[p, d] = AV[g, p] * WZ[g, d]"


def test_the_flat_rank_stands_where_the_outermost_stood():
    assert after(HEADS, "flatten G=F,H").endswith("AV[p, G: 3*f + h] * WZ[G: 3*f + h, d]")


def test_tensors_with_some_of_the_ranks_stay():
    text = after(MATVEC, "split K=5", "delay K1", "flatten K1,K0")
    assert "ZT[k1, m] = A[K1K0: 5*k1 + k0, m] * B[K1K0: 5*k1 + k0]   where 5*k1 + k0 < 12" in text


def test_padding_at_the_end_goes():
    assert after(MATVEC, "split K=5", "flatten K1,K0").startswith("K1K0 = 12, ")


def test_padding_between_stays():
    """Tuples k2, k1, k0 of 7*k2 + 3*k1 + k0 < 12 with 3*k1 + k0 < 7: 9 places for each k2, of which 7 are used."""
    assert after(MATVEC, "split K=7,3", "flatten K2,K1,K0").startswith("K2K1K0 = 14, ")


@given(size=st.integers(1, 30), data=st.data())
@settings(max_examples=60, deadline=None)
def test_partition_flatten_linearise_is_the_identity(size, data):
    before = workload("Z[m] = A[k, m] * exp(B[k])", "Y[m] = Z[m] / C[m]", K=size, M=2)
    shape = data.draw(st.integers(1, size))
    done = partition(before, [Split(("K",), (shape,)), Flatten(("K1", "K0")), Linearise("K1K0")])
    assert done.workload == before
    assert_same_values(done)


@given(size=st.integers(2, 30), data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_identity_of_three_partitions_inside_out(size, data):
    before = workload("Z[m] = A[k, m] * B[k]", K=size, M=2)
    outer = data.draw(st.integers(2, size))
    inner = data.draw(st.integers(1, outer - 1))
    steps = [Split(("K",), (outer, inner)), Flatten(("K1", "K0")), Flatten(("K2", "K1K0")), Linearise("K2K1K0", "K")]
    done = partition(before, steps)
    assert done.workload == before
    assert_same_values(done)


def test_other_indices_of_the_sum_become_linear_too():
    conv = workload("O[p] = I[H: 2*p + r] * F[r]", P=10, R=3)
    assert checked(conv, "split P=4", "flatten P1,P0", "linearise P1P0").workload == conv


def test_a_linear_rank_keeps_its_name_unless_it_is_a_partition():
    assert after(HEADS, "flatten H,F", "linearise HF").endswith("Z[p, d] = AV[hf, p] * WZ[hf, d]")
    assert after(HEADS, "flatten H,F", "linearise G=HF").endswith("Z[p, d] = AV[g, p] * WZ[g, d]")


# what is refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((("K",),), "at least two ranks"),
        ((("K", "K"),), "each once"),
        ((("K", "J"),), "no tensor of the workload has a rank 'J'"),
        ((("K", "M"), "M"), "the name M is taken: the workload has a rank M already"),
        ((("K", "M"), "g"), "'g' is not a name of a rank"),
        ((("K", "M"), "IN"), "'in' cannot be a rank variable: it is a word of expressions"),
    ],
)
def test_bad_arguments_of_flatten(arguments, said):
    with pytest.raises(SpecError, match=said):
        flatten(MATVEC, *arguments)


def test_ranks_that_no_tensor_has_together():
    with pytest.raises(SpecError, match="no tensor has the ranks K, N together"):
        flatten(workload("T[k] = A[k]", "Z[n] = B[n]", K=2, N=2), ("K", "N"))


def test_a_rank_variable_that_is_needed_alone():
    flat = flatten(MATVEC, ("K", "M"))
    with pytest.raises(
        SpecError, match=r"'Z' cannot do with the sum 8\*k \+ m alone: rank K of tensor 'B', indexed by k,"
    ):
        linearise(flat, "KM")


def test_a_bound_that_needs_a_rank_variable_alone():
    flat = flatten(split(MATVEC, "K", (7, 3)), ("K2", "K1"))
    with pytest.raises(SpecError, match=r"the bound 3\*k1 \+ k0 < 7 needs k2, k1 one by one"):
        linearise(flat, "K2K1")


def test_sums_that_are_no_tuples():
    with pytest.raises(
        SpecError, match=r"rank variables of 2\*p \+ r in Einsum 'O' are not tuples: its values are repeated"
    ):
        linearise(workload("O[p] = I[H: 2*p + r] * F[r]", P=10, R=3), "H")
    with pytest.raises(SpecError, match="are not tuples"):
        linearise(workload("O[p] = I[H: 4*p + r] * F[r]", P=10, R=3), "H")


def test_names_of_the_linear_rank():
    with pytest.raises(SpecError, match="the name M is taken"):
        linearise(MATVEC, "K", "M")
    with pytest.raises(SpecError, match="'1' is not a name of a rank"):
        linearise(MATVEC, "K", "1")
    both = workload("Z[m] = A[X: l0, l1, m] * C[Y: l]", X=4, L1=2, Y=3, M=2)
    with pytest.raises(SpecError, match=r"Einsum 'Z' has a rank variable l already, which 2\*l0 \+ l1 would become"):
        linearise(flatten(both, ("X", "L1")), "XL1", "L")
