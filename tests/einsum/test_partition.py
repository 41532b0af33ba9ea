import pytest
from tests.einsum.cascades_to_partition import after, checked, workload

from einmap import Spec, SpecError, split

MATVEC = workload("Z[m] = A[k, m] * B[k]", K=12, M=8)


def test_both_ranks_of_a_matrix_vector_product():
    assert after(MATVEC, "split K=4", "split M=2") == (
        "K1 = 3, K0 = 4, M1 = 4, M0 = 2\nZ[m1, m0] = A[k1, k0, m1, m0] * B[k1, k0]"
    )


def test_the_last_tile_of_an_imperfect_partition_is_shorter():
    (einsum,) = checked(MATVEC, "split K=5").workload.einsums
    assert einsum.extents == {"k1": 3, "k0": 5, "m": 8}
    assert einsum.cuts == ("5*k1 + k0 < 12",)
    assert einsum.n_points == 12 * 8


def test_a_perfect_partition_is_a_box():
    (einsum,) = split(MATVEC, "K", 4).einsums
    assert einsum.cuts == ()
    assert einsum.n_points is None


def test_parts_are_as_equal_as_can_be():
    assert after(MATVEC, "split K/3").startswith("K1 = 3, K0 = 4, ")
    assert after(MATVEC, "split M/3").startswith("K = 12, M1 = 3, M0 = 3\n")
    assert split(MATVEC, "K", parts=3) == split(MATVEC, "K", 4)


def test_several_tile_shapes_give_several_partitions():
    assert after(MATVEC, "split K=6,2") == ("K2 = 2, K1 = 3, K0 = 2, M = 8\nZ[m] = A[k2, k1, k0, m] * B[k2, k1, k0]")
    assert after(MATVEC, "split K=7,3").endswith("where 3*k1 + k0 < 7 and 7*k2 + 3*k1 + k0 < 12")


@pytest.mark.parametrize("again", ["split K1=3", "split K0=2"])
def test_a_partition_is_partitioned_again(again):
    first = "split K=2" if again == "split K1=3" else "split K=6"
    assert checked(MATVEC, first, again).workload == split(MATVEC, "K", (6, 2))


def test_outer_partitions_are_numbered_anew():
    assert after(MATVEC, "split K=6,3", "split K0=2").endswith(
        "Z[m] = A[k3, k2, k1, k0, m] * B[k3, k2, k1, k0]   where 2*k1 + k0 < 3"
    )
    assert after(MATVEC, "split K=6,3", "split K1=1").startswith("K3 = 2, K2 = 2, K1 = 1, K0 = 3, ")


def test_a_name_that_ends_in_a_digit():
    assert after(workload("Z[m] = A[C1: c, m]", C1=6, M=2), "split C1=2") == (
        "C1_1 = 3, C1_0 = 2, M = 2\nZ[m] = A[C1_1: c1, C1_0: c0, m]"
    )


def test_a_convolution_keeps_the_rank_of_its_window():
    conv = workload("O[p] = I[H: 2*p + r] * F[r]", P=10, R=3)
    assert after(conv, "split P=4") == (
        "H = 21, R = 3, P1 = 3, P0 = 4\nO[p1, p0] = I[H: 8*p1 + 2*p0 + r] * F[r]   where 4*p1 + p0 < 10"
    )
    assert "I[H: 2*p + 2*r1 + r0] * F[r1, r0]" in after(conv, "split R=2")


def test_tiles_of_a_window_are_refused():
    conv = workload("O[p] = I[H: 2*p + r] * F[r]", P=10, R=3)
    with pytest.raises(SpecError, match=r"rank H of tensor 'I' cannot be partitioned: .* indexes it by 2\*p \+ r") as e:
        split(conv, "H", 4)
    assert e.value.hint == "partition the ranks of p, r instead"


def test_a_padded_convolution():
    text = {"einsum": "O[p] = I[H: p + r - 1] * F[r]"}
    assert after(workload(text, P=7, R=3, H=7), "split P=3").endswith(
        "O[p1, p0] = I[H: 3*p1 + p0 + r - 1] * F[r]   where 3*p1 + p0 + r < 8 and 3*p1 + p0 + r >= 1 and 3*p1 + p0 < 7"
    )


CONCATENATED = workload(
    {"einsum": "C[p, G: 4*h + f] = AV[h, p, f]", "is_copy_operation": True},
    "Z[p] = C[p, g] * W[g]",
    H=6,
    F=4,
    P=3,
    G=24,
)


def test_concatenated_ranks_are_taken_apart():
    assert after(CONCATENATED, "split G=4") == (
        "H = 6, P = 3, F = 4, G1 = 6, G0 = 4\n"
        "C[p, G1: h, G0: f] = AV[h, p, f]   (copy)\n"
        "Z[p] = C[p, g1, g0] * W[g1, g0]"
    )


def test_concatenated_ranks_of_partitions():
    text = after(CONCATENATED, "split H=4", "split G=16,4")
    assert "C[p, G2: h1, G1: h0, G0: f] = AV[h1, h0, p, f]" in text
    assert "Z[p] = C[p, g2, g1, g0] * W[g2, g1, g0]   where 16*g2 + 4*g1 + g0 < 24" in text
    with pytest.raises(SpecError, match=r"indexes it by 4\*h \+ f, and a tile of 3"):
        split(CONCATENATED, "G", 3)


def test_concatenated_ranks_of_partitions_of_size_one():
    assert "C[p, G1: h1, G0: 4*h0 + f] = AV[h1, h0, p, f]" in after(CONCATENATED, "split H=1", "split G=4")


def test_equal_ranks_are_partitioned_together_or_alone():
    attention = workload("Q[p] = I[M: p] * W[p]", "QK[m, p] = Q[p] * I[m]", M=5, P=5)
    assert "Q[p1, p0] = I[M1: p1, M0: p0] * W[p1, p0]" in after(attention, "split M,P=2")
    assert "Q[p1, p0] = I[M: 2*p1 + p0] * W[p1, p0]" in after(attention, "split P=2")
    assert "Q[P: 2*p1 + p0] = I[M1: p1, M0: p0] * W[P: 2*p1 + p0]" in after(attention, "split M=2")


def test_equal_ranks_by_different_tile_shapes_are_refused():
    attention = workload("Q[p] = I[M: p] * W[p]", "QK[m, p] = Q[p] * I[m]", M=6, P=6)
    with pytest.raises(SpecError, match=r"'Q' indexes it by 2\*p1 \+ p0, and a tile of 3 of it is not a tile") as e:
        split(split(attention, "P", 2), "M", 3)
    assert e.value.hint == "partition equal ranks together, by the same tile shapes"


def test_only_equal_ranks_are_partitioned_together():
    with pytest.raises(SpecError, match="only equal ranks can be partitioned together, found K = 12, M = 8"):
        split(MATVEC, ("K", "M"), 2)


def test_a_constant_index():
    assert after(workload("Z[m] = A[m, K: 5] + B[m, k]", K=7, M=2), "split K=3").endswith(
        "Z[m] = A[m, K1: 1, K0: 2] + B[m, k1, k0]   where 3*k1 + k0 < 7"
    )


def test_rank_variables_that_do_not_begin_at_zero():
    e = {"einsum": "Z[m] = A[m]", "iteration_space_shape": ["3 <= m < 10"]}
    (einsum,) = checked(workload(e, M=10), "split M=4").workload.einsums
    assert einsum.cuts == ("4*m1 + m0 < 10", "4*m1 + m0 >= 3")
    (einsum,) = checked(workload(e, M=10), "split M=3").workload.einsums
    assert (einsum.extents, einsum.first_values) == ({"m1": 3, "m0": 3}, (("m1", 1),))


def test_bounds_that_are_no_box_are_kept():
    triangle = {"einsum": "Z[m] = A[m, k]", "iteration_space_shape": ["k <= m"]}
    assert after(workload(triangle, M=6, K=6), "split K=4").endswith("where 4*k1 + k0 < 6 and m - 4*k1 - k0 >= 0")
    holes = {"einsum": "Z[m] = A[m, k]", "iteration_space_shape": ["not k mod 3 = 1"]}
    assert "(4 * k1 + k0) % 3" in after(workload(holes, M=6, K=6), "split K=4")


@pytest.mark.parametrize("operation", ["exp(A[k, m]) / B[k]", "max(A[k, m], B[k])", "A[k, m] - 2 * B[k]", "1"])
@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
def test_any_map_and_reduction(operation, reduction):
    text = {"einsum": f"Z[m] = {operation} + C[k]", "reduction": reduction}
    checked(workload(text, K=7, M=3), "split K=3", "split M=2")


def test_every_einsum_of_a_cascade_is_partitioned():
    chain = workload("T[m, k] = A[m, j] * B[j, k]", "Z[m, n] = exp(T[m, k]) * C[k, n]", M=2, J=3, K=7, N=2)
    assert after(chain, "split K=3").splitlines()[1:] == [
        "T[m, k1, k0] = A[m, j] * B[j, k1, k0]   where 3*k1 + k0 < 7",
        "Z[m, n] = exp(T[m, k1, k0]) * C[k1, k0, n]   where 3*k1 + k0 < 7",
    ]


# what is refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("J", 2), "no tensor of the workload has a rank 'J'"),
        (("K", 0), "the tile shape of rank K must be a positive integer, found 0"),
        (("K", -3), "the tile shape of rank K must be a positive integer, found -3"),
        (("K", True), "must be a positive integer, found True"),
        (("K", (4, 4)), "tile shapes of rank K must get smaller from the outside inwards, found 4, 4"),
        (("K", ()), "from the outside inwards, found none"),
        (("K", 13), "a tile shape of 13 is larger than rank K, which has 12 values"),
        (("K",), "a partition needs either a tile shape or a number of parts"),
        ((("K", "K"), 2), "name the ranks to be partitioned, each once"),
        (((), 2), "name the ranks to be partitioned, each once"),
    ],
)
def test_bad_arguments(arguments, said):
    with pytest.raises(SpecError, match=said):
        split(MATVEC, *arguments)


def test_parts_that_no_tile_shape_gives():
    with pytest.raises(SpecError, match="rank K of 12 does not give 5 parts of equal shape: a shape of 3 fills 4") as e:
        split(MATVEC, "K", parts=5)
    assert e.value.hint == "choose 4 parts"
    with pytest.raises(SpecError, match="the number of parts of rank K must be a positive integer, found 0"):
        split(MATVEC, "K", parts=0)
    with pytest.raises(SpecError, match="either a tile shape or a number of parts"):
        split(MATVEC, "K", 4, parts=3)


def test_a_misspelt_rank_is_guessed():
    with pytest.raises(SpecError) as e:
        split(MATVEC, "k", 4)
    assert e.value.hint == "did you mean 'K'? ranks: K, M"


@pytest.mark.parametrize("text", ["Z[m, k0] = A[k, m]", "Z[m, K0: j] = A[k, m]", "Z[m, J: k0] = A[k, m]"])
def test_names_that_are_taken(text):
    with pytest.raises(SpecError, match=r"the name (K0|k0) is taken: the workload has a rank (K0|variable k0) already"):
        split(workload(text, K=4, M=2, K0=3, J=3), "K", 2)


def test_a_rank_variable_must_keep_one_extent():
    wide = {"einsum": "Y[n] = A[K: n]", "iteration_space_shape": ["3 <= n < 8"]}
    both = workload({"einsum": "Z[n] = A[K: n]", "iteration_space_shape": ["0 <= n < 5"]}, wide, K=8)
    with pytest.raises(SpecError, match="rank variable 'n1' would have 1 values in 'Z' but 2 in 'Y'"):
        split(both, "K", 5)


def test_sizes_that_differ_between_tensors_need_a_tile_shape():
    given = {"bits_per_value": {"All": 8}}
    layers = [
        {"einsum": f"Z{i}[m] = A{i}[K: k{c}, m]", "rank_sizes": {"K": n}}
        for i, (c, n) in enumerate([("a", 8), ("b", 5)])
    ]
    both = Spec.from_dict(workload={**given, "einsums": layers, "rank_sizes": {"M": 2}}).workload
    with pytest.raises(SpecError, match="rank K has several sizes, 5, 8"):
        split(both, "K", parts=2)
    assert "K1 = 2, K0 = 4" in after(both, "split K=4")
