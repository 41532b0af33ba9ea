"""What the functions, operators and names of expressions mean, each with an example that the generator evaluates."""

from __future__ import annotations

CONSTANTS = ("pi", "e", "tau", "inf", "nan")
AS_IN_PYTHON = (
    "abs", "bool", "enumerate", "float", "int", "len", "pow", "range", "round", "str", "tuple", "acos", "acosh",
    "asin", "asinh", "atan", "atan2", "atanh", "ceil", "comb", "copysign", "cos", "cosh", "degrees", "dist",
    "erf", "erfc", "exp", "expm1", "fabs", "floor", "fmod", "frexp", "fsum", "gamma", "gcd", "hypot", "isclose",
    "isfinite", "isinf", "isnan", "isqrt", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "modf", "perm",
    "prod", "radians", "remainder", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
"""Built-in functions of Python, and functions of its module `math`, that mean the same here."""
FUNCTIONS = {
    "max": ("a, b, ... or a list", "the largest number", "max([2, 5, 3])"),
    "min": ("a, b, ... or a list", "the smallest number", "min(2, 5, 3)"),
    "sum": ("a, b, ... or a list, start", "the sum, of nothing 0", "sum(1, 2, 3)"),
    "factorial": ("n", "1 * 2 * ... * n, n up to 1000", "factorial(5)"),
    "list": ("x", "the elements as a list; those of a set sorted", "list('ab')"),
    "map": ("function, x, ...", "the function of each element, as a list", "map(log2, [2, 4])"),
    "getcwd": ("", "the folder in which einmap was started", "len(getcwd()) > 0"),
}
"""The other functions: arguments, meaning, and an example."""

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
    "tensors": "the set itself; of a set of rank variables all tensors that one of them indexes",
    "rank_variables": "all rank variables that index its tensors",
    "last_rank_variables": "those of the last rank of each of its tensors, along which neighbours in memory lie",
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
