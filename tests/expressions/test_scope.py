import pickle

import pytest

from einmap.errors import At, ExpressionError
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.evaluator import interpreter
from einmap.expressions.scope import Lazy, Scope, lazy_layer


class Quoted(str):
    __slots__ = ()


def fields(texts, parent=None):
    return lazy_layer(texts, parent or Scope(), lambda name: At(path=f"variables.{name}"))


def refusal(action):
    with pytest.raises(ExpressionError) as problem:
        action()
    return problem.value


def test_inner_layers_hide_outer_ones():
    outer = Scope().layer({"a": 1, "b": 2})
    inner = outer.layer({"b": 3})
    assert (inner.lookup("a"), inner.lookup("b"), outer.lookup("b")) == (1, 3, 2)
    assert inner.names() == {"a", "b"}
    assert inner.get("c") is None


def test_a_layer_does_not_follow_later_changes_of_its_dictionary():
    values = {"a": 1}
    scope = Scope().layer(values)
    values["a"] = 2
    assert scope.lookup("a") == 1


def test_an_unknown_name_comes_with_a_suggestion():
    problem = refusal(lambda: Scope().layer({"size": 1, "area": 2}).lookup("sizzle"))
    assert str(problem) == "name 'sizzle' is not defined\n  hint: did you mean 'size'? known names: area, size"


def test_similar_names_are_only_looked_for_when_somebody_reads_the_hint(monkeypatch):
    asked = []
    monkeypatch.setattr(interpreter, "closest", lambda name, known: asked.append(name))
    problem = refusal(lambda: Scope().layer({"size": 1}).lookup("sizzle"))
    assert not asked
    assert problem.hint == problem.hint == "did you mean 'size'? known names: size"
    assert asked == ["sizzle"]
    again = pickle.loads(pickle.dumps(refusal(lambda: Scope().layer({"size": 1}).lookup("area"))))
    assert str(again) == "name 'area' is not defined\n  hint: known names: size"


def test_places_are_only_looked_for_when_somebody_reads_them():
    asked = []

    def where(name):
        asked.append(name)
        return At("f.yaml", 3, path=name)

    scope = lazy_layer({"size": "1", "area": "1 + none"}, Scope(), where)
    assert scope.lookup("size") == 1
    problem = refusal(lambda: scope.lookup("area"))
    assert not asked
    assert problem.at == problem.at == At("f.yaml", 3, path="area")
    assert asked == ["area"]
    again = pickle.loads(pickle.dumps(refusal(lambda: lazy_layer({"a": "none"}, Scope(), where).lookup("a"))))
    assert again.at == At("f.yaml", 3, path="a")


def test_of_many_names_only_similar_ones_are_listed():
    scope = Scope().layer({f"tensor_{i}": i for i in range(500)})
    problem = refusal(lambda: scope.lookup("tensor_x"))
    assert "of 500 names the most similar: " in str(problem)
    assert len(str(problem)) < 500


def test_fields_may_use_each_other_in_any_order():
    scope = fields({"a": "b * c", "b": "c + 1", "c": 3, "d": "x"}, Scope().layer({"x": 5}))
    assert [scope.lookup(name) for name in "abcd"] == [12, 4, 3, 5]


def test_a_value_is_computed_once_and_only_when_needed():
    computed = []
    scope = Scope().layer({"a": Lazy(lambda: computed.append("a") or 1)})
    assert computed == []
    assert scope.lookup("a") + scope.lookup("a") == 2
    assert computed == ["a"]


def test_a_cycle_is_an_error_that_names_its_fields():
    scope = fields({"a": "b", "b": "1 + c", "c": "a", "d": "a"})
    assert refusal(lambda: scope.lookup("a")).message == "circular dependency a -> b -> c -> a"
    assert refusal(lambda: scope.lookup("d")).message == "circular dependency a -> b -> c -> a"


def test_a_cycle_is_an_error_each_time():
    scope = fields({"size": "area + 7", "area": "size"})
    for _ in range(2):
        assert refusal(lambda: scope.lookup("size")).message == "circular dependency size -> area -> size"


def test_a_field_that_uses_itself_means_the_outer_one():
    assert fields({"a": "a + 1"}, Scope().layer({"a": 4})).lookup("a") == 5
    problem = refusal(lambda: fields({"a": "a + 1"}).lookup("a"))
    assert problem.message == "name 'a' is not defined"


def test_without_leaves_a_name_to_outer_layers():
    scope = Scope().layer({"a": 1}).layer({"a": 2, "b": 3})
    assert scope.without("a").lookup("a") == 1
    assert scope.without("a").lookup("b") == 3


def test_errors_are_placed_at_the_field_that_is_wrong():
    problem = refusal(lambda: evaluate("a * 2", fields({"a": "b", "b": "1 / 0"}), at=At(path="size")))
    assert str(problem) == "variables.b: division by zero in `1 / 0`"


def test_an_undefined_word_may_be_text_without_quotes():
    assert "quote it if it is text" in str(refusal(lambda: fields({"a": "hello"}).lookup("a")))
    assert "quote it" not in str(refusal(lambda: fields({"a": "hello + 1"}).lookup("a")))


def test_quoted_text_stands_for_itself():
    assert fields({"a": Quoted("1 + 1"), "b": "a"}).lookup("b") == "1 + 1"


def test_values_that_are_no_text_stand_for_themselves():
    scope = fields({"a": [1, 2, "b"], "b": 2.0, "c": None})
    assert [scope.lookup(name) for name in "abc"] == [[1, 2, "b"], 2, None]


def test_a_lazy_value_may_refuse():
    def refuse():
        raise ExpressionError("Buffer is not above; only components above can be referenced")

    scope = Scope().layer({"Buffer": Lazy(refuse)})
    problem = refusal(lambda: evaluate("Buffer.size * 2", scope, at=At(path="size")))
    assert str(problem) == "size: Buffer is not above; only components above can be referenced"


def test_a_very_long_chain_of_fields_is_refused_without_a_crash():
    texts = {f"v{i}": f"v{i + 1} + 1" for i in range(2000)} | {"v2000": "1"}
    assert "more than 50 values need each other" in refusal(lambda: fields(texts).lookup("v0")).message
    in_order = fields(texts)
    for name in reversed(texts):
        in_order.lookup(name)
    assert in_order.lookup("v0") == 2001


@pytest.mark.parametrize("text", ["45nm", "2024-01-01", "on the chip"])
def test_text_without_quotes_that_is_no_expression_gets_a_hint(text):
    problem = refusal(lambda: fields({"a": text}).lookup("a"))
    assert "is not an expression" in problem.message
    assert problem.hint.split("; ")[0] == "quote it if it is text"
