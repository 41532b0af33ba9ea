import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap import SpecError
from einmap.einsum.notation.parse import format_projection, parse_einsum
from einmap.einsum.operation import Apply, Operand
from einmap.einsum.spaces.projection import Affine, parse_affine


def test_a_matmul():
    found = parse_einsum("Z[m, n] = A[m, k] * B[k, n]")
    assert found.output == ("Z", (("M", parse_affine("m")), ("N", parse_affine("n"))))
    assert [name for name, _ in found.inputs] == ["A", "B"]
    assert found.operation.map == Apply("multiply", (Operand("A"), Operand("B")))


def test_white_space_means_nothing():
    assert parse_einsum(" Z [ m,n ]=A[m,k]*B[k ,n] ").output == parse_einsum("Z[m, n] = A[m, k] * B[k, n]").output


def test_an_index_may_name_its_rank():
    found = parse_einsum("O[p] = I[C: 0, H: 2*p + r] * F[r]")
    assert dict(found.inputs)["I"] == (("C", Affine((), 0)), ("H", Affine((("p", 2), ("r", 1)))))


def test_the_right_side_is_the_operation():
    assert parse_einsum("SN[m] = exp(QK[m] - GM[m])").operation.map == Apply(
        "exp", (Apply("subtract", (Operand("QK"), Operand("GM"))),)
    )


@pytest.mark.parametrize("text", ["Z[m] = 2*sqrt(A[m])", "Z[m] = A[m] + B[m]", "Z[m] = f(A[m], B[m])"])
def test_any_operation_may_stand_between_the_tensors(text):
    assert parse_einsum(text).output[0] == "Z"


@pytest.mark.parametrize(
    ("between", "found", "hint"),
    [
        ("A[m, k] x B[k, n]", "'x' in 'A x B'", r"use \*"),
        ("A[m, k] × B[k, n]", "'×' in", r"use \*"),
        ("A[m, k].B[k, n]", r"'A\.B' in", r"use \*"),
        ("A[m, k] @ B[k, n]", "'@' in", r"use \*"),
        ("A[m, k] ^ B[k, n]", r"'\^' in", r"use \*\*"),
        ("A[m, k] ÷ B[k, n]", "'÷' in", "use /"),
        ("A[m, k] B[k, n]", "'A B'", "between two tensors stands one of"),
        ("A[m, k] * * B[k, n]", r"'A \* \* B'", "between two tensors"),
        ("A[m, k] * B[k, n] +", r"'A \* B \+'", "a tensor on both sides"),
        ("A[m, k], B[k, n]", r"'\(A, B\)' in", "operations are"),
        ("A[m, k] * B[k, n] over k", "'over' in", "operations are"),
        ("alpha * A[m, k]", "'alpha' in", "operations are"),
        ("A[m, k] # * B[k, n]", "'#' in", "operations are"),
        ("A[m, k] // B[k, n]", "'//' in", "operations are"),
        ("A[m, k](B[k, n])", r"'A' in 'A\(B\)'", "operations are"),
        ("f(*A[m, k])", r"'\*A' in", "operations are"),
        ("A[m, k] * [B[k, n]]", r"'\[' in 'A \* \[B\[k, n\]\]'", "operations are"),
        ("A[m, k] * True", "'True' in", "operations are"),
        ("A[m, k] * 3j", "'3j' in", "operations are"),
    ],
)
def test_what_is_not_an_operation_between_the_tensors_is_refused_with_a_suggestion(between, found, hint):
    with pytest.raises(SpecError, match=rf"(?s){found}.* is not an operation.*{hint}"):
        parse_einsum(f"Z[m, n] = {between}")


def test_an_operation_may_go_over_several_lines():
    assert parse_einsum("Z[m, n] = A[m, k]\n  * B[k, n]").operation.map is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Z[m]", "exactly one '=', found 0"),
        ("Z[m] = A[m] = B[m]", "found 2"),
        ("Z = A[m]", "left side"),
        ("Z[m] + Y[m] = A[m]", "left side"),
        ("Z[m] = 3", "no tensor on the right side"),
        ("Z[m] = A[2*m]", "explicit rank"),
        ("Z[m] = A[M: M]", "lower-case"),
        ("Z[m] = A[m*n]", "'m\\*n' is not an index"),
        ("Z[m] = A[m; k]", "'m; k' is not an index"),
        ("Z[m] = A[m] * B[m", r"the '\[' at character 16 of .* is never closed"),
        ("Z[m = A[m]", r"the '\[' at character 2 of .* is never closed"),
        ("Z[m] = exp(A[m]", r"the '\(' at character 11 of .* is never closed"),
        ("Z[m] = A[m]) * B[m]", r"the '\)' at character 12 of .* closes nothing"),
        ("Z[m] = exp(A[m)]", r"the '\)' at character 15 of .* closes nothing"),
    ],
)
def test_a_bad_string_is_refused(text, said):
    with pytest.raises(SpecError, match=said):
        parse_einsum(text)


names = st.sampled_from(["m", "n0", "kk", "p_1"])
entries = st.lists(
    st.one_of(
        names,
        st.builds(lambda rank, a, v, c: f"{rank}: {a}*{v} + {c}", st.sampled_from("HWX"), st.integers(1, 3), names, st.integers(0, 4)),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda entry: entry.split(":")[0].upper(),
)  # fmt: skip


@given(entries)
def test_a_projection_is_read_back_as_it_is_written(written):
    projection = parse_einsum(f"Z[m] = A[{', '.join(written)}]").inputs[0][1]
    assert parse_einsum(f"Z[m] = A[{format_projection(projection)}]").inputs[0][1] == projection
