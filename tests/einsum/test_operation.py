import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap import SpecError
from einmap.einsum.functions import FUNCTIONS
from einmap.einsum.operation import Apply, Number, Operand, format_map, operands, parse_operation, product_of


def test_the_default_is_the_product_of_the_inputs():
    assert product_of(["A", "B", "C"]) == parse_operation("A * B * C", "ABC").__class__(
        Apply("multiply", (Apply("multiply", (Operand("A"), Operand("B"))), Operand("C"))), "sum"
    )


def test_without_inputs_the_default_is_one():
    assert product_of([]).map == Number(1.0)


def test_functions_and_infix_are_read():
    found = parse_operation("exp(QK - GM) / max(A, 2)", ["QK", "GM", "A"]).map
    assert found == Apply(
        "divide",
        (
            Apply("exp", (Apply("subtract", (Operand("QK"), Operand("GM"))),)),
            Apply("max", (Operand("A"), Number(2.0))),
        ),
    )


@pytest.mark.parametrize("text", ["A @ B", "unknown(A)", "exp(A, B)", "A if B else C", "Q", "A.x", "", "A *", "True"])
def test_what_is_no_arithmetic_is_kept_as_text(text):
    operation = parse_operation(text, ["A", "B"])
    assert operation.map is None
    assert str(operation) == text


def test_the_reduction_is_one_of_a_few():
    assert parse_operation("A", ["A"], "max").reduction == "max"
    with pytest.raises(SpecError, match=r"(?s)unknown reduction 'mean'.*sum, max, min"):
        parse_operation("A", ["A"], "mean")


def test_a_deeply_nested_operation_is_kept_as_text():
    assert parse_operation("-" * 5000 + "A", ["A"]).map is None


def test_the_operands_are_the_tensors_that_are_read():
    operation = parse_operation("exp(A - B) * 2", ["A", "B", "C"])
    assert operation.map is not None
    assert operands(operation.map) == {"A", "B"}


def applied(inner):
    return st.sampled_from(sorted(FUNCTIONS)).flatmap(
        lambda name: st.builds(Apply, st.just(name), st.tuples(*[inner] * FUNCTIONS[name].arity))
    )


leaves = st.one_of(
    st.builds(Operand, st.sampled_from("ABC")),
    st.builds(Number, st.floats(0, 1e6, allow_nan=False) | st.integers(0, 9).map(float)),
)


@given(st.recursive(leaves, applied, max_leaves=12))
def test_an_operation_is_read_back_as_it_is_written(expression):
    assert parse_operation(format_map(expression), "ABC").map == expression


@pytest.mark.parametrize("number", ["1e400", "1" + "0" * 400])
def test_a_number_that_no_float_holds_is_refused(number):
    with pytest.raises(SpecError, match="too large"):
        parse_operation(f"A * {number}", ["A"])
