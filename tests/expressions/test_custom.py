import sys

import numpy as np
import pytest

from einmap.errors import At, ExpressionError, SpecError
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.evaluator.custom import custom_functions, hidden_built_ins
from einmap.expressions.records import Record
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet, SetInfo


def scope(**functions):
    return Scope().layer(custom_functions(functions))


def value(text, variables=None, **functions):
    return evaluate(text, scope(**functions).layer(variables or {}))


def refusal(text, variables=None, **functions):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, scope(**functions).layer(variables or {}), at=At("f.yaml", 3))
    return str(caught.value)


def test_a_function_is_called_with_the_values_of_its_arguments():
    assert value("2 * area(3, b=n)", {"n": 4}, area=lambda a, b: a * b) == 24
    assert value("map(half, [2, 4])", half=lambda x: x / 2) == [1, 2]


def test_variables_hide_functions_which_hide_built_in_ones():
    assert value("min(3, 4)", min=lambda *_: 7) == 7
    assert value("min + 1", {"min": 3}, min=lambda *_: 7) == 4
    assert hidden_built_ins({"min": max, "mine": max, "pi": max}) == ["min", "pi"]


@pytest.mark.parametrize(
    "argument", ["1", "1.5", "1 < 2", "None", "'text'", "[1, [2]]", "(1, 2)", "{1, 2}", "{'a': [1]}", "range(3)"]
)
def test_plain_values_go_in_and_come_out(argument):
    found = []
    result = value(f"f({argument})", f=lambda x: found.append(x) or x)
    assert found == [result]
    assert type(found[0]) in {int, float, bool, type(None), str, list, tuple, frozenset, dict}


def test_sets_of_tensors_arrive_as_sets_of_names():
    tensors = NameSet(frozenset("AB"), frozenset("ABC"), "tensors", SetInfo.of({}, {}, frozenset()))
    assert value("f(Inputs)", {"Inputs": tensors}, f=sorted) == ["A", "B"]


def test_components_are_no_plain_values():
    text = refusal("f(Buffer)", {"Buffer": Record("Buffer", {"size": 3})}, f=lambda x: 1)
    assert text.startswith("f.yaml:3: f takes numbers, texts, truth values, and lists, dictionaries and sets of them")
    assert value("f(Buffer.size)", {"Buffer": Record("Buffer", {"size": 3})}, f=lambda x: x) == 3


@pytest.mark.parametrize("result", [object(), open, b"x", np.zeros(2), 1j, [object()], {1: object()}])
def test_only_plain_values_come_back(result):
    assert refusal("f()", f=lambda: result).startswith("f.yaml:3: f must give ")


def test_numpy_numbers_that_come_back_are_numbers():
    assert type(value("f()", f=lambda: np.int64(3))) is int


def fails():
    raise ValueError("too small")


def exits():
    sys.exit(3)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (fails, "the function f failed (test_custom.py:"),
        (fails, "ValueError: too small"),
        (exits, "SystemExit: 3"),
        (lambda x: x, "the function f failed: TypeError: "),
    ],
)
def test_what_a_function_raises_is_an_error_of_the_expression(function, problem):
    text = refusal("1 + f()", f=function)
    assert text.startswith("f.yaml:3: ")
    assert problem in text


def test_a_function_that_calls_itself_for_ever_is_an_error():
    def f():
        return f()

    assert "RecursionError" in refusal("f()", f=f)


def test_arrays_are_taken_apart():
    found = value("f(a, 2, c=b)", {"a": np.array([1, 2]), "b": np.array([[10], [20]])}, f=lambda a, b, c: a + b + c)
    assert found.tolist() == [[13, 14], [23, 24]]
    assert "f must give a number here, found 'x'" in refusal("f(a)", {"a": np.array([1])}, f=lambda a: "x")


def test_what_comes_back_may_not_be_endless():
    assert "more than 10000 elements" in refusal("f()", f=lambda: [0] * 10**6)
    assert "more than 10000 bits" in refusal("f()", f=lambda: 1 << 10**6)


@pytest.mark.parametrize("given", [{"a b": min}, {"1": min}, {"lambda": min}, {3: min}, {"f": 3}])
def test_only_functions_with_names_are_taken(given):
    with pytest.raises(SpecError, match=r"cannot be the name of a function|must be callable"):
        custom_functions(given)
