import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.errors import ExpressionError, InvariantError
from einmap.expressions.arithmetic import Record, evaluate, rank_variable_set, tensor_set
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet, SetInfo

TENSORS = frozenset({"A", "B", "Z"})
RANK_VARIABLES = frozenset({"k", "m", "n"})
INFO = SetInfo.of(
    {"A": frozenset({"k", "m"}), "B": frozenset({"k", "n"}), "Z": frozenset({"m", "n"})},
    {"A": 8, "B": 4},
    RANK_VARIABLES,
)


def tensors(*members):
    return NameSet(frozenset(members), TENSORS, "tensors", INFO)


def rank_variables(*members):
    return NameSet(frozenset(members), RANK_VARIABLES, "rank variables", INFO)


SCOPE = Scope().layer(
    {name: tensors(name) for name in TENSORS}
    | {name: rank_variables(name) for name in RANK_VARIABLES}
    | {"All": tensors(*TENSORS), "Inputs": tensors("A", "B"), "Outputs": tensors("Z"), "Nothing": tensors()}
)

some_tensors = st.sets(st.sampled_from(sorted(TENSORS))).map(lambda names: tensors(*names))


@given(some_tensors, some_tensors, some_tensors)
def test_set_operations_obey_the_laws_of_sets(a, b, c):
    assert a & b == b & a and a | b == b | a and a ^ b == b ^ a
    assert a & (b | c) == (a & b) | (a & c)
    assert ~(a | b) == ~a & ~b
    assert ~~a == a
    assert a - b == a & ~b
    assert a ^ b == (a | b) - (a & b)
    assert (a in b) == (a - b == tensors())
    assert len(a) == len(list(a)) == len(a.members)


@given(some_tensors, some_tensors)
def test_rank_variables_of_a_union_are_the_union_of_rank_variables(a, b):
    assert (a | b).rank_variables == a.rank_variables | b.rank_variables


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("Inputs", "AB"), ("~Inputs", "Z"), ("Inputs - A | Outputs", "BZ"), ("A ^ Inputs", "B"), ("Outputs()", "Z"),
        ("Inputs.tensors", "AB"), ("Inputs if len(All) == 3 else All", "AB"), ("A if A in Inputs else Nothing", "A"),
        ("A if A not in Inputs else Nothing", ""), (["A", "Z & All"], "AZ"), ("{A, Z & All}", "AZ"), ([], ""),
    ],
)  # fmt: skip
def test_set_expressions_select_tensors(text, members):
    assert tensor_set(text, SCOPE).members == frozenset(members)


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("~m", "kn"), ("A.rank_variables - k", "m"), ("Outputs().rank_variables", "mn"), (["m", "n"], "mn"),
        ("{m, n}", "mn"), ("[v for v in (m, A.rank_variables)]", "mk"), ("Nothing", ""), ([], ""),
    ],
)  # fmt: skip
def test_set_expressions_select_rank_variables(text, members):
    assert rank_variable_set(text, SCOPE).members == frozenset(members)


def test_iteration_is_sorted():
    assert evaluate("[t for t in All]", SCOPE) == ["A", "B", "Z"]


def test_a_set_holds_when_it_is_not_empty():
    assert evaluate("1 if Nothing else 2", SCOPE) == 2
    assert evaluate("Inputs and Outputs", SCOPE) == tensors("Z")


def test_bits_are_those_of_the_only_tensor():
    assert evaluate("A.bits_per_value * 2", SCOPE) == 16
    assert evaluate("(A & B).bits_per_value if A & B else 0", SCOPE) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Inputs.bits_per_value", "bits_per_value needs exactly one tensor, got {A, B}"),
        ("Nothing.bits_per_value", "empty set: needs exactly one tensor"),
        ("Nothing.bits_per_value", "x.bits_per_value if x else 0"),
        ("Z.bits_per_value", "bits_per_value of Z is not known here"),
        ("A | m", "expected tensors, got rank variables {m}"),
        ("m & A", "expected rank variables, got tensors {A}"),
        ("m in Inputs", "expected tensors, got rank variables {m}"),
        ("m.rank_variables", "expected tensors, got rank variables {m}"),
        ("A | 3", "expected tensors, got 3"),
        ("A.rank_variabels", "did you mean 'rank_variables'?"),
        ("A.members", "a set has no attribute 'members'"),
        ("A + B", "unsupported operand"),
        ("A(1)", "`A(1)`"),
    ],
)
def test_what_sets_cannot_do_is_an_error(text, message):
    with pytest.raises(ExpressionError) as problem:
        evaluate(text, SCOPE)
    assert message in str(problem.value)


@pytest.mark.parametrize(
    ("function", "text", "message"),
    [
        (tensor_set, "m", "expected tensors, got rank variables {m}"),
        (tensor_set, ["A", "m"], "expected tensors, got rank variables {m}"),
        (tensor_set, "len(A)", "expected tensors, got 1 (`len(A)`)"),
        (rank_variable_set, "A", "expected rank variables, got tensors {A}\n  hint: use `.rank_variables`"),
        (tensor_set, "Ax", "name 'Ax' is not defined"),
    ],
)
def test_fields_say_which_kind_of_set_they_need(function, text, message):
    with pytest.raises(ExpressionError) as problem:
        function(text, SCOPE)
    assert message in str(problem.value)


def test_a_component_in_a_set_expression_stands_for_the_tensors_it_holds():
    scope = SCOPE.layer({"Buffer": Record("Buffer", {"tensors": tensors("A"), "size": 8})})
    assert tensor_set("~Buffer", scope).members == {"B", "Z"}
    assert tensor_set("All - Buffer", scope).members == {"B", "Z"}
    assert tensor_set("Buffer", scope).members == {"A"}
    assert tensor_set("Outputs | Buffer.tensors", scope).members == {"A", "Z"}
    assert evaluate("Buffer.size", scope) == 8


def test_sets_of_different_einsums_do_not_mix():
    other = NameSet(frozenset("C"), frozenset("C"), "tensors")
    with pytest.raises(ExpressionError, match="belong to different Einsums"):
        tensors("A") | other
    with pytest.raises(InvariantError, match="outside of its universe"):
        tensors("A").with_members(frozenset("C"))


def test_sets_are_values():
    copy = pickle.loads(pickle.dumps(tensors("A")))
    assert copy == tensors("A") and hash(copy) == hash(tensors("A"))
    assert tensors() != rank_variables()
