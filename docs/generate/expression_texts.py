"""What the functions, operators and names of expressions mean, each with an example that the generator evaluates."""

from __future__ import annotations

CONSTANTS = {
    "pi": "the circle's circumference by its diameter",
    "e": "the base of the natural logarithm",
    "tau": "2 * pi",
    "inf": "infinity: no limit, no time",
    "nan": "not a number; no field takes it",
}

ROUNDING = {
    "ceil": ("x", "the least integer that is not below x", "ceil(7 / 2)"),
    "floor": ("x", "the greatest integer that is not above x", "floor(7 / 2)"),
    "trunc": ("x", "x without its fraction", "trunc(-2.5)"),
    "round": ("x, digits", "x rounded to an integer (halves to the even one), or to so many digits", "round(2.675, 1)"),
    "int": ("x", "x as an integer, its fraction cut off", "int(2.9)"),
    "float": ("x", "x as a float", "float(3) / 2"),
    "bool": ("x", "whether x is not 0 and not empty", "bool([])"),
    "abs": ("x", "x without its sign", "abs(-3)"),
    "fabs": ("x", "as `abs`, as a float", "fabs(-3.5)"),
    "copysign": ("x, y", "x with the sign of y", "copysign(3, -1)"),
}
SUMS = {
    "max": ("a, b, ... or a list", "the largest number", "max([2, 5, 3])"),
    "min": ("a, b, ... or a list", "the smallest number", "min(2, 5, 3)"),
    "sum": ("a, b, ... or a list, start", "the sum, of nothing 0", "sum(2 * i for i in range(4))"),
    "prod": ("a list, start", "the product, of nothing 1", "prod([2, 3, 4])"),
    "fsum": ("a list", "the sum without rounding in between", "fsum([0.1] * 10)"),
    "dist": ("p, q", "the distance of two points, given as lists", "dist([0, 0], [3, 4])"),
    "hypot": ("x, y, ...", "the length of a vector", "hypot(3, 4)"),
}
INTEGERS = {
    "gcd": ("a, b, ...", "the greatest common divisor", "gcd(12, 18)"),
    "factorial": ("n", "1 * 2 * ... * n, n up to 1000", "factorial(5)"),
    "comb": ("n, k", "ways to choose k of n", "comb(5, 2)"),
    "perm": ("n, k", "ways to put k of n in a row", "perm(5, 2)"),
    "isqrt": ("n", "the integer part of the square root", "isqrt(17)"),
    "pow": ("x, y, m", "x ** y, or its remainder by m", "pow(2, 10)"),
    "fmod": ("x, y", "what remains of x after whole y, with the sign of x", "fmod(7.5, 2)"),
    "remainder": ("x, y", "x minus the nearest multiple of y", "remainder(7.5, 2)"),
    "modf": ("x", "fraction and integer part", "modf(2.5)"),
    "frexp": ("x", "m and e with x = m * 2**e", "frexp(8)"),
    "ldexp": ("m, e", "m * 2**e", "ldexp(0.5, 4)"),
}
POWERS = {
    "exp": ("x", "e ** x", "exp(0)"),
    "expm1": ("x", "exp(x) - 1, exact for small x", "expm1(0)"),
    "log": ("x, base", "the logarithm, natural without a base", "log(8, 2)"),
    "log1p": ("x", "log(1 + x), exact for small x", "log1p(0)"),
    "log2": ("x", "the logarithm to base 2", "log2(1024)"),
    "log10": ("x", "the logarithm to base 10", "log10(1000)"),
    "sqrt": ("x", "the square root", "sqrt(16)"),
    "erf": ("x", "the error function", "erf(0)"),
    "erfc": ("x", "1 - erf(x)", "erfc(0)"),
    "gamma": ("x", "the gamma function, (x - 1)! at integers", "gamma(5)"),
    "lgamma": ("x", "the logarithm of the gamma function", "lgamma(1)"),
}
ANGLES = {
    "sin": ("x", "the sine of x radians", "sin(0)"),
    "cos": ("x", "the cosine", "cos(0)"),
    "tan": ("x", "the tangent", "tan(0)"),
    "asin": ("x", "the angle with this sine", "asin(0)"),
    "acos": ("x", "the angle with this cosine", "acos(1)"),
    "atan": ("x", "the angle with this tangent", "atan(0)"),
    "atan2": ("y, x", "the angle of the point (x, y)", "atan2(0, 1)"),
    "sinh": ("x", "the hyperbolic sine", "sinh(0)"),
    "cosh": ("x", "the hyperbolic cosine", "cosh(0)"),
    "tanh": ("x", "the hyperbolic tangent", "tanh(0)"),
    "asinh": ("x", "inverse of `sinh`", "asinh(0)"),
    "acosh": ("x", "inverse of `cosh`", "acosh(1)"),
    "atanh": ("x", "inverse of `tanh`", "atanh(0)"),
    "degrees": ("x", "radians as degrees", "degrees(pi)"),
    "radians": ("x", "degrees as radians", "radians(0)"),
}
CHECKS = {
    "isclose": ("a, b, rel_tol=, abs_tol=", "whether two numbers are nearly equal", "isclose(0.1 + 0.2, 0.3)"),
    "isfinite": ("x", "whether x is a finite number", "isfinite(inf)"),
    "isinf": ("x", "whether x is infinite", "isinf(inf)"),
    "isnan": ("x", "whether x is not a number", "isnan(nan)"),
}
LISTS = {
    "len": ("x", "number of elements of a list, text, dictionary or set", "len([1, 2])"),
    "range": ("stop or start, stop, step", "integers from start up to below stop", "list(range(2, 8, 3))"),
    "list": ("x", "the elements as a list; those of a set sorted", "list('ab')"),
    "tuple": ("x", "the elements as a tuple, a list that cannot be changed", "tuple([1, 2])"),
    "enumerate": ("x, start", "pairs of position and element", "enumerate(['a', 'b'])"),
    "map": ("function, x, ...", "the function of each element", "map(log2, [2, 4])"),
    "str": ("x", "x as text", "str(12)"),
    "getcwd": ("", "the folder in which einmap was started", "len(getcwd()) > 0"),
}
FUNCTIONS = {
    "Rounding and kinds of numbers": ROUNDING,
    "Sums and extremes": SUMS,
    "Integers and parts of numbers": INTEGERS,
    "Powers, logarithms, special functions": POWERS,
    "Angles": ANGLES,
    "Checks": CHECKS,
    "Lists and texts": LISTS,
}
"""By heading: arguments, meaning, and an example."""

REDUCTIONS = {
    "sum": "the sum of all values for one place of the output",
    "max": "the largest of them",
    "min": "the smallest of them",
}

OPERATORS = (
    ("a + b", "sum; joins lists and texts", "[1] + [2]"),
    ("a - b", "difference, of sets too", "7 - 2"),
    ("a * b", "product; repeats a list", "3 * 4"),
    ("a / b", "quotient, with a fraction", "7 / 2"),
    ("a // b", "quotient rounded down", "7 // 2"),
    ("a % b", "remainder", "7 % 2"),
    ("a ** b", "power", "2 ** 10"),
    ("a << b", "bits moved up", "1 << 4"),
    ("a >> b", "bits moved down", "16 >> 2"),
    ("a & b", "common bits; intersection of sets", "6 & 3"),
    ("a | b", "bits of either; union of sets", "6 | 3"),
    ("a ^ b", "bits of one only; symmetric difference of sets. Not a power", "5 ^ 3"),
    ("+a", "a itself", "+3"),
    ("-a", "negation", "-3"),
    ("~a", "bits turned over; complement of a set", "~5"),
    ("a == b", "equal", "2 == 2.0"),
    ("a != b", "not equal", "2 != 3"),
    ("a < b", "below; `1 < a < 4` for both at once", "1 < 2 < 4"),
    ("a <= b", "below or equal", "2 <= 2"),
    ("a > b", "above", "2 > 3"),
    ("a >= b", "above or equal", "3 >= 3"),
    ("a is b", "the same value; for `true`, `false` and empty values only", "None is None"),
    ("a is not b", "not the same value", "1 is not None"),
    ("a in b", "element of a list or text, key of a dictionary, subset of a set", "2 in [1, 2]"),
    ("a not in b", "not in it", "3 not in [1, 2]"),
)

KEYWORDS = (
    ("a if c else b", "a where the condition c holds, else b", "3 if 1 < 2 else 4"),
    ("a and b", "a where that is false or empty, else b", "1 < 2 and 2 < 3"),
    ("a or b", "a where that is true, else b", "0 or 8"),
    ("not a", "whether a is false or empty", "not 0"),
    ("[f(i) for i in x if c]", "a list, of each element for which c holds", "[i * i for i in range(5) if i % 2]"),
    ("f(i) for i in x", "the elements one by one, within a call", "max(i % 3 for i in range(5))"),
    (
        "{f(i) for i in x}, {a, b}",
        "a set; of tensors or rank variables, their union",
        "len({i % 2 for i in [1, 2, 3]})",
    ),
    ("{k: v for k in x}, {k: v}", "a dictionary", "{k: 2 * k for k in [1, 2]}"),
    ("a[i]", "element of a list or text by position, of a dictionary by key", "[16, 32][1]"),
    ("a[i:j]", "part of a list or text", "[1, 2, 3, 4][1:3]"),
    ("a.k", "value of a dictionary by key, field of a component", "{'x': 3}.x"),
    ("d.keys(), d.values(), d.items()", "parts of a dictionary as lists", "{'x': 3}.items()"),
    ("[*a, b]", "the elements of a, in place", "[*range(2), 7]"),
    ("(a, b)", "a tuple, a list that cannot be changed", "(1, 2)"),
    ("True, False, None", "also `true` and `false` alone, in any case", "True"),
    ("0x10, 0b11, 1_000, 2e3", "numbers; a float without fraction is an integer", "1_000 + 2e3"),
)

REFUSED = "`lambda`, `:=`, f-strings, `await`, `yield`, `@`, `**` in calls and dictionaries, names that begin with `__`"

SETS = {
    "All": "all tensors of the Einsum",
    "Tensors": "as `All`",
    "Inputs": "tensors that it reads",
    "Outputs": "tensors that it writes",
    "Intermediates": "tensors that one Einsum of the workload writes and another reads",
    "Shared": "tensors that several Einsums of the workload use",
    "Persistent": "tensors whose access says `persistent: true` (not those of `persistent_tensors`)",
    "Nothing": "none",
    "Above": "tensors that some memory or toll above holds in this mapping; in fields of `tensors` only",
    "Other": "in keys of a dictionary by set of tensors: what no other key has, once",
}
OTHER_SETS = (
    ("A", "the tensor of that name; none where only other Einsums have it"),
    ("weight", "what a rename stands for"),
    ("m", "the rank variable of that name; none where only other Einsums have it"),
    ("GLB, GLB.tensors", "what the memory or toll of that name, which stands above, holds in this mapping; in fields "
                         "of "
     "`tensors` only"),
    ("[A, B], {A, B}", "the union of several sets"),
)  # fmt: skip
SET_PARTS = {
    "tensors": "the set itself",
    "rank_variables": "all rank variables that index its tensors",
    "bits_per_value": "bits of one value, of a set with a single tensor: `weight.bits_per_value if weight else 0`",
}

COMPONENT_PARTS = (
    ("Main.size", "a field that is a number, evaluated, of a component above"),
    ("Main.actions['read'].energy", "of an action `energy` (J), `throughput` (actions/s), `latency` (s), "
                                    "`bits_per_action` "
     "(bits), `name`; scales applied; `actions[0]` by position"),
    ("Array.get_fanout()", "the product of all dimensions of a node above"),
    ("Array.get_fanout_along('X')", "one of them; 1, or a second argument, where there is none of that name"),
    ("arch_variables", "the dictionary `arch.variables`; each by name as well"),
    ("variables", "the dictionary of top-level `variables`; each by name as well"),
    ("spec.workload.rank_sizes['M']", "the size of a rank; also `spec.workload.n_instances`, `spec.variables`"),
)  # fmt: skip
LATENCY_NAMES = (
    ("read_actions", "how often the busiest instance does the action `read`, times `actions_scale`; so for any action"),
    ("read_latency", "the same divided by the throughput, in s; 0 where that is infinite"),
    ("action2latency", "these times by action: `sum(action2latency.values())`"),
    ("actions", "the actions, each with `n_calls` beside the parts above"),
    ("max_hops", "of a network: steps of the longest route of any tensor"),
    ("max_link_traffic", "of a network: actions on its busiest link"),
    ("n_parallel_instances", "that field; other fields of the component go by name, too"),
)
