"""What calls of templates, expressions and Einsums are drawn from."""

BITS = [
    "x", "1", "'a'", "[1, 2]", "range(9)", "{'a': 1}", "10**9", "9**9**9", "include('a')", "x|int", "x|string|upper",
    "x.real", "x[0]", "x == 1",
]  # fmt: skip
BITS += [
    "x ~ x", "x * 10", "'a' * 10**9", "x is defined", "loop.index", "self", "true", "namespace(a=1)",
    "(1, 2)|join(',')", "-x", "not x",
]  # fmt: skip
BITS += [
    "x|round(400)", "'%99999d' % 1", "x|center(10**9)", "[0] * 10**8", "[[0] * 1000] * 1000", "x.__len__",
    "x|attr('y')", "cos(x)",
]  # fmt: skip
"""Operands of a template."""
BLOCKS = [
    "{{{{ {} }}}}", "{{% if {} %}}1{{% endif %}}", "{{% for i in {} %}}{{{{ i }}}}{{% endfor %}}",
    "{{% set y = {} %}}{{{{ y }}}}",
]  # fmt: skip
BLOCKS += [
    "{{% macro f(a) %}}{{{{ {} }}}}{{% endmacro %}}{{{{ f(1) }}}}",
    "{{% set y %}}{}{{% endset %}}{{{{ y|length }}}}",
    "{{# {} #}}",
    "{{{{ {} ",
]
"""Templates around them."""
PARTS = [
    "width", "depth", "1", "2.5", "3", "'a'", "[1, 2]", "(1, 2)", "All", "~A", "A | B", "Above", "Inputs", "Main",
    "Main.size", "MAC", "m", "len(All)",
]  # fmt: skip
PARTS += [
    "Main.actions", "All.rank_variables", "spec", "10**9", "9**9", "1e308", "inf", "nan", "True", "None", "{'a': 1}",
    "range(5)", "factorial(5)",
]  # fmt: skip
PARTS += [
    "min(1, 2)", "max([])", "sum(range(10))", "ceil(2.5)", "log2(0)", "sqrt(-1)", "[i for i in range(3)]", "x", "f",
    "lambda: 1", "'%s' % 1",
]  # fmt: skip
"""Operands of an expression."""
JOINS = [
    " + ", " * ", " ** ", " / ", " // ", " % ", " - ", " | ", " & ", " < ", " == ", " if 1 else ", " and ", ", ", ".",
    " in ", "(", "[0]", " << ", " ^ ",
]  # fmt: skip
"""What stands between them."""
FIELDS = [
    ("arch", "nodes", 2, "size"), ("arch", "nodes", 1, "spatial", 0, "fanout"), ("arch", "nodes", 2, "tensors", "keep"),
    ("arch", "nodes", 0, "total_latency"), ("arch", "nodes", 2, "enabled"), ("arch", "nodes", 3, "leak_power"), ("variables", "width"),
    ("arch", "nodes", 1, "spatial", 0, "may_reuse"), ("workload", "rank_sizes", "M"), ("workload", "bits_per_value", "All"),
    ("arch", "nodes", 0, "actions"), ("arch", "nodes", 2, "tensors", "tile_shape"), ("workload", "iteration_space_shape"),
]  # fmt: skip
"""Places of expressions in a specification."""
EINSUMS = [
    "C[m,n] = A[m,k] * B[k,n]", "O[n,m,p,q] = I[n,c,H: p+r,W: 2*q+s] * F[m,c,r,s]", "Z[m] = max(A[m,k])", "S[m] = exp(A[m] - B[m]) / D[m]",
    "Y[m] = A[M: 2*m + 1]", "C[m] = A[m] + B[m] * 2.5", "C[m] = A[m,m]", "G[m,n] = X[m,k] * X[n,k]", "D = A[m] * B[m]", "C[M1: m, m] = A[m]",
    "Z[i] = where(A[i], B[i], 0)", "Z[i] = sigmoid(A[i])",
]  # fmt: skip
"""Einsums as text."""
