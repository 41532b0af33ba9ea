import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.work import work_below

from einmap.errors import At, ExpressionError
from einmap.expressions.arithmetic import Record, RecordList, boolean, evaluate, number, safe_function
from einmap.expressions.evaluator.functions import BUILT_IN
from einmap.expressions.scope import Scope

ACTIONS = RecordList(
    (
        Record("read", {"n_calls": 100, "throughput": 10.0, "latency": 0.1}),
        Record("write", {"n_calls": 30, "throughput": 2.0, "latency": 0.5}),
    )
)
SCOPE = Scope().layer(
    {
        "a": 3,
        "b": 0.5,
        "text": "words",
        "table": {"x": 1, "items": 2},
        "latencies": {"read": 10.0, "write": 15.0},
        "actions": ACTIONS,
        "half": safe_function(lambda value: value / 2, "half"),
        "Macro": Record("Macro", {"size": 64, "get_fanout": safe_function(lambda: 12)}),
        "python_function": lambda: 1,
        "np_number": np.float64(2.5),
    }
)


def refusal(text, scope=SCOPE, at=None):
    with pytest.raises(ExpressionError) as problem:
        evaluate(text, scope, at=at)
    return str(problem.value)


# what is a number, a name, an expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (4.0, 4), ("4.0", 4), (" 12 ", 12), ("1e3", 1000), ("-2.5", -2.5), ("1_000", 1000),
        ("007", 7), ("+.5", 0.5),
        ("0x10", 16), ("1024*8", 8192), ("true", True), ("False", False), ("TRUE", True), (True, True),
        ("a", 3), ("a + b", 3.5), ("'a'", "a"), ("text", "words"), ("inf", math.inf), ("2 * pi", 2 * math.pi),
        (None, None), (["a"], ["a"]), ("a *\n  2", 6), ("np_number + 1", 3.5),
    ],
)  # fmt: skip
def test_texts_mean_what_they_say(text, value):
    found = evaluate(text, SCOPE)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("6 ^ 3", 5), ("7 // 2 + 7 % 2 - -1", 5), ("1 << 4 | 1", 17), ("~5 & 0xff", 250), ("2 ** -1", 0.5),
        ("1 < a <= 3", True), ("not a or b", 0.5), ("a == 3 and b != 1", True), ("'x' in table", True),
        ("1 if a > 2 else 1 / 0", 1), ("None is None", True), ("~True", -2), ("'ab' + 'c'", "abc"),
        ("[1] * 3", [1, 1, 1]),
        ("[i * j for i in range(3) for j in [1, 2] if i]", [1, 2, 2, 4]),
        ("{k: v for k, v in latencies.items()}", {"read": 10, "write": 15}),
        ("{i % 2 for i in range(5)}", {0, 1}), ("sum(i for i in (1, 2, 3))", 6), ("[1, *(2, 3)]", [1, 2, 3]),
        ("(1, 2, 3)[-1]", 3), ("[1, 2, 3][1:]", [2, 3]), ("{'x': 5}['x']", 5), ("'abc'[0]", "a"),
        ("table.x", 1), ("table['x']", 1), ("table.items", 2), ("sum(*latencies.values())", 25),
        ("list({3, 1, 2})", [1, 2, 3]), ("list(enumerate('ab', 1))", [(1, "a"), (2, "b")]),
        ("map(ceil, [0.5, 2])", [1, 2]),
        ("max(1, 5, 2)", 5), ("max([1, 5, 2])", 5), ("min(i for i in range(3))", 0), ("sum(4)", 4),
        ("sum()", 0),
        ("sum([1, 2], 3)", 6), ("max(7)", 7), ("prod([2, 3], start=2)", 12), ("log(8, 2)", 3),
        ("round(2.567, 2)", 2.57),
        ("factorial(5) + comb(5, 2) + perm(4)", 154), ("gcd(12, 18)", 6), ("pow(2, 3) + pow(2, 10, 7)", 10),
        ("len(str(12)) + int('3') + float('0.5')", 5.5), ("isclose(1, 1 + 1e-12)", True), ("bool(0)", False),
        ("half(5)", 2.5), ("Macro.size * Macro.get_fanout()", 768), ("min(a, b)", 0.5),
    ],
)  # fmt: skip
def test_expressions_have_the_value_that_python_gives(text, value):
    assert evaluate(text, SCOPE) == value


def test_the_functions_are_those_of_the_format():
    names = """
        ceil comb copysign fabs factorial floor fmod frexp fsum gcd isclose isfinite isinf isnan
        isqrt ldexp modf perm prod remainder trunc exp expm1 log log1p log2 log10 sqrt acos asin
        atan atan2 cos dist hypot sin tan degrees radians acosh asinh atanh cosh sinh tanh erf
        erfc gamma lgamma pi e tau inf nan pow abs round sum range len max min float int str bool
        list tuple enumerate map getcwd
    """
    assert BUILT_IN.keys() == set(names.split())


def test_a_scope_may_give_a_function_name_another_meaning():
    assert evaluate("min + 1", Scope().layer({"min": 3})) == 4


def test_total_latency_may_be_written_in_both_ways():
    assert evaluate("max(a.n_calls / a.throughput for a in actions)", SCOPE) == 15
    assert evaluate("sum(*latencies.values())", SCOPE) == 25
    assert evaluate("3 * actions['read'].latency + actions[1].latency", SCOPE) == pytest.approx(0.8)
    assert evaluate("len(actions)", SCOPE) == 2


def test_a_long_chain_is_not_deep():
    assert evaluate(" + ".join(["1"] * 1000), Scope()) == 1000


# agreement with Python

leaves = st.one_of(st.integers(-20, 20), st.floats(-8, 8).map(lambda x: round(x, 3)), st.sampled_from(["a", "b"]))


def combined(inner):
    pairs = st.tuples(inner, inner)
    arithmetic = [
        "+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "<", "<=", "==", "!=", "and", "or",
    ]  # fmt: skip
    return st.one_of(
        st.builds(lambda x, op: f"({x[0]} {op} {x[1]})", pairs, st.sampled_from(arithmetic)),
        st.builds(lambda x, op: f"({op} {x})", inner, st.sampled_from(["-", "+", "not", "~"])),
        st.builds(lambda x, c: f"({x[0]} if {c} else {x[1]})", pairs, inner),
        st.builds(lambda x, f: f"{f}({x[0]}, {x[1]})", pairs, st.sampled_from(["max", "min"])),
        st.builds(lambda x: f"sum([i * {x[0]} for i in ({x[1]}, 2)])", pairs),
        st.builds(lambda x, y: f"({x[0]} < {x[1]} >= {y})", pairs, inner),
    )


def python_value(text):
    try:
        return eval(text, {"a": 3, "b": 0.5}), None
    except (ArithmeticError, TypeError, ValueError) as problem:
        return None, problem


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(st.recursive(leaves.map(str), combined, max_leaves=12).filter(lambda text: text.count("*" * 2) < 2))
def test_arithmetic_agrees_with_python(text):
    expected, problem = python_value(text)
    is_ours_only = isinstance(expected, complex) or (isinstance(expected, int) and expected.bit_length() > 64)
    try:
        found = evaluate(text, SCOPE)
    except ExpressionError:
        assert problem is not None or is_ours_only
    else:
        assert found == expected or (math.isnan(found) and math.isnan(expected))


@given(st.text(max_size=30) | st.text(alphabet="ab19+-*/()[]{}.,:=_ '\"^~<>!xforinel", max_size=40))
def test_any_text_has_a_value_or_is_refused(text):
    try:
        evaluate(text, SCOPE)
    except ExpressionError as problem:
        assert str(problem)


# errors


def test_errors_say_where():
    message = refusal("1024*foo", at=At("arch.yaml", 3, 5, "arch.nodes.MainMemory.size"))
    assert message.startswith("arch.yaml:3:5: arch.nodes.MainMemory.size: name 'foo' is not defined")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1/0", "division by zero in `1/0`"),
        ("2 + 7 % 0", "division by zero in `7 % 0`"),
        ("0 ** -1", "division by zero in `0 ** -1`"),
        ("lenght([1])", "did you mean 'len'?"),
        ("tabel", "did you mean 'table'?"),
        ("sorted([1])", "name 'sorted' is not defined"),
        ("__import__('math')", "the name '__import__' is not allowed"),
        ("hello world", "`hello world` is not an expression: invalid syntax"),
        ("", "an empty text"),
        ("a = 3", "is not an expression"),
        ("lambda: 1", "lambda is not allowed"),
        ("(x := 1)", "`:=` is not allowed"),
        ("f'{a}'", "an f-string is not allowed"),
        ("1j", "1j is not allowed"),
        ("{**table}", "`**` for a dictionary is not allowed"),
        ("[1] @ [2]", "`@` is not allowed"),
        ("(-8) ** 0.5", "complex"),
        ("2.0 ** 10000", "the result of `2.0 ** 10000` is too large"),
        ("sqrt(-1)", "in `sqrt(-1)`"),
        ("'a' - 1", "unsupported operand type(s)"),
        ("'%s' % a", "a text cannot be divided"),
        ("text.upper()", "`text` ('words') has no attribute 'upper'"),
        ("table.y", "`table` has no key 'y'"),
        ("table['y']", "keys: items, x"),
        ("Macro.sizes", "did you mean 'size'? attributes: get_fanout, size"),
        ("actions['reed'].n_calls", "no element named 'reed'\n  hint: did you mean 'read'?"),
        ("actions[2]", "position 2 of a list of 2"),
        ("[1, 2][5]", "list index out of range in `[1, 2][5]`"),
        ("a[0]", "`a` (3) has no elements"),
        ("a(1)", "`a` (3) is not a function"),
        ("python_function()", "is not a function"),
        ("[i for i in 3]", "int 3 has no elements"),
        ("max([])", "max of nothing"),
        ("max('a', 1)", "max of numbers only, got str 'a'"),
        ("[x for x, y in [(1, 2, 3)]]", "needs 2 values, got 3"),
        ("map(3, [1])", "map needs a function"),
        ("{[1]: 2}", "unhashable"),
        ("log(1, 2, 3)", "in `log(1, 2, 3)`"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    assert message in refusal(text)


HOSTILE = [
    "9**9**9", "range(10**12)", "range(10**30)", "[0]*10**9", "10**9*[0]", "'a'*10**9", "factorial(10**6)",
    "(" * 10**4 + "1" + ")" * 10**4, "-" * 9000 + "1", "().__len__",
    "().__len__().real",
    "1 << 10**10", "(1 << 9000) * (1 << 9000)", "comb(10**6, 5 * 10**5)", "perm(10**6)", "perm(10**6, 10**6)",
    "pow(9, pow(9, 9))", "pow(3, 1 << 5000, 1 << 9000)", "round(5, -10**9)",
    "prod(range(1, 10000))", "9" * 5000,
    "1" + "+1" * 10**5, "[" * 60 + "]" * 60, "[[0] * 10000] * 10000", "'%1000000000d' % 1",
    "[0 for a in range(9999) for b in range(9999)]", "sum(1 for a in range(9999) for b in range(9999))",
    "[[x for x in range(9999)] for y in range(9999)]", "[factorial(1000) for i in range(10000)]",
    "[1.5 in range(10000) for i in range(10000)]", "[*range(9999), *range(9999)]",
    "str(range(10**4)) * 10**6",
    "a" * 20_000, "a" * 9_000, "9" * 9_000 + "x", "9" * 10**6 + "x",
    "int('9' * 9000)", "[list(range(9999)) == list(range(9999)) for i in range(9999)]",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_hostile_expressions_are_refused_at_once(text):
    with work_below(5):
        message = refusal(text)
    assert len(message) < 1000


def test_work_adds_up_over_a_large_expression():
    assert "more than 200000 steps" in refusal("+".join(["sum(range(9999))"] * 60))


# fields with a type


@pytest.mark.parametrize(
    ("text", "limits", "message"),
    [
        ("-1", {"minimum": 0}, "size must be >= 0, found -1"),
        ("a - 5", {"minimum": 0}, "size must be >= 0, found -2 (`a - 5`)"),
        ("b", {"integer": True}, "size must be an integer, found 0.5 (`b`)"),
        ("inf", {"integer": True}, "size must be an integer, found inf"),
        ("inf", {"allow_inf": False}, "size must be finite, found inf"),
        ("nan", {}, "size must be a number, found nan"),
        ("text", {}, "size must be a number, found 'words' (`text`)"),
        ("true", {}, "size must be a number, found true"),
        ([1], {}, "size must be a number, found [1]"),
    ],
)
def test_a_number_within_limits_is_asked_for(text, limits, message):
    with pytest.raises(ExpressionError) as problem:
        number(text, SCOPE, at=At(path="arch"), what="size", **limits)
    assert str(problem.value) == f"arch: {message}"


def test_numbers_within_limits_are_given():
    assert number("a * 2", SCOPE, at=None, what="size", minimum=6, integer=True) == 6
    assert number("inf", SCOPE, at=None, what="size", minimum=0) == math.inf
    assert number("1e20", SCOPE, at=None, what="size", integer=True) == 10**20


def test_a_truth_value_is_asked_for():
    assert boolean("a > 2", SCOPE, at=None, what="enabled") is True
    assert boolean("FALSE", SCOPE, at=None, what="enabled") is False
    for text, message in [("1", "found 1"), ("foo", "'foo' is not defined"), ("text", "found 'words'")]:
        with pytest.raises(ExpressionError) as problem:
            boolean(text, SCOPE, at=None, what="enabled")
        assert message in str(problem.value)
        assert "enabled must be true or false" in str(problem.value)


# arrays: one value for each of many tile shapes

N = np.array([1.0, 4.0, 16.0])
ARRAYS = SCOPE.layer({"n": N, "one": np.array([2.0]), "calls": {"read": N, "write": 2 * N}})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n", N), ("2 * n + a", 2 * N + 3), ("n ** 2 / 4", N**2 / 4), ("max(n, 4)", [4, 4, 16]),
        ("min(3, n, 2)", [1, 2, 2]),
        ("max(c for c in [n, 5 - n])", [4, 4, 16]), ("sum(*calls.values())", 3 * N), ("sum(n)", N),
        ("max(n)", N),
        ("sum(c / 2 for c in calls.values())", 1.5 * N), ("log2(n)", [0, 2, 4]), ("ceil(n / 3)", [1, 2, 6]),
        ("sqrt(n) if a == 3 else n", [1, 2, 4]), ("log(n, 4)", [0, 1, 2]), ("abs(-n)", N),
        ("round(n / 3)", [0, 1, 5]),
        ("a / (n - 1)", [math.inf, 1, 0.2]), ("prod([n, 2])", 2 * N), ("0 * inf * n", [math.nan] * 3),
    ],
)  # fmt: skip
def test_arithmetic_works_on_each_element_of_an_array(text, value):
    np.testing.assert_allclose(evaluate(text, ARRAYS), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 if n > 3 else 2", "`n > 3` is an array of values, which cannot be compared"),
        ("n and 1", "`n` is an array of values"),
        ("not n", "cannot be compared or be a condition"),
        ("[x for x in n]", "it has no elements"),
        ("n[0]", "`n` (an array of values) has no elements to choose from"),
        ("n.shape", "has no attribute 'shape'"),
        ("n / 0", "division by zero in `n / 0`"),
        ("int(one)", "int takes single numbers, not an array"),
        ("fsum([one])", "fsum takes single numbers, not an array"),
        ("gamma(one)", "gamma takes single numbers, not an array"),
        ("len(n)", "it has no elements"),
        ("[1] + n", "an array of values does not combine with a list"),
    ],
)
def test_what_arrays_cannot_do_is_an_error(text, message):
    assert message in refusal(text, ARRAYS)


def test_a_field_is_a_single_number():
    with pytest.raises(ExpressionError, match="size must be a number, found an array of values"):
        number("n", ARRAYS, at=None, what="size")


@pytest.mark.parametrize("value", ["2**5000", 10**400, -(10**400)])
@pytest.mark.parametrize("integer", [True, False])
def test_an_integer_that_no_float_holds_is_too_large(value, integer):
    with pytest.raises(ExpressionError, match="size is too large: an integer of"):
        number(value, Scope(), at=None, what="size", integer=integer)


def test_integers_beyond_the_precision_of_floats_stay_exact():
    assert number(2**200 + 1, Scope(), at=None, what="size", minimum=0, allow_inf=False) == 2**200 + 1


def test_a_lambda_is_refused_with_what_to_write_instead():
    with pytest.raises(ExpressionError) as problem:
        evaluate("(lambda x: x + 1)(3)", Scope())
    assert "lambda is not allowed in an expression" in str(problem.value)
    assert "write a comprehension, or give a function" in str(problem.value)
