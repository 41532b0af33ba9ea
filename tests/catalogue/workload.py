"""Rows 17 to 58: workload and renames."""

from tests.catalogue.cases import error, legal, warning

EINSUM = '    einsum: "C[m,n] = A[m,k] * B[k,n]"\n'
ONLY = "  - name: C\n" + EINSUM
STRING = '"C[m,n] = A[m,k] * B[k,n]"'
SIZES = "    M: 4\n    K: 4\n    N: 4\n"
AT = 'workload.einsums[0] "C"'


def string(text):
    """The Einsum of the specification replaced."""
    return [(STRING, f'"{text}"')]


def einsums(*texts):
    """Other Einsums, one on each line."""
    return [(ONLY, "".join(f"  - {text}\n" for text in texts))]


def accesses(text):
    """Written out instead of the string."""
    return [
        (
            EINSUM,
            "    tensor_accesses:\n    - {name: B, projection: [k, n]}\n"
            + text
            + "    - {name: C, projection: [m, n], output: true}\n",
        )
    ]


def sizes(text):
    return [("    M: 4\n", f"    {text}\n")]


def shape(text):
    return [("  rank_sizes:\n", f"  iteration_space_shape:\n    {text}\n  rank_sizes:\n")]


def bits(*lines):
    return [("    All: 8\n", "".join(f"    {line}\n" for line in lines))]


def field(text):
    """A field of the Einsum beside its string."""
    return [(EINSUM, EINSUM + "".join(f"    {line}\n" for line in text.splitlines()))]


def extra(text):
    """A field of the workload."""
    return [("  rank_sizes:\n", f"  {text}\n  rank_sizes:\n")]


def size_path(rank):
    return f"workload.rank_sizes.{rank}"


ROWS = [
    error(17, "no equals sign", string("C[m]"), ["exactly one '='", "found 0", "'C[m]'"], f"{AT}.einsum"),
    error(17, "two equals signs", string("C[m]=A[m]=B[m]"), ["exactly one '='", "found 2", "C[m]=A[m]=B[m]"], f"{AT}.einsum"),
    error(18, "upper-case variable", string("C[M]=A[m]"), ["'M'", "lower-case", "M: "], f"{AT}.einsum"),
    error(
        18,
        "upper-case variable in a list",
        accesses("    - {name: A, projection: [M, k]}\n"),
        ["'M'", "'A'", "lower-case", "'m'"],
        f'{AT}.tensor_accesses[1] "A".projection',
        on="[M, k]",
    ),
    error(19, "lower-case rank", string("C[m: m]=A[m]"), ["'m'", "upper-case", "M: m"], f"{AT}.einsum"),
    error(19, "lower-case rank size", sizes("m: 4"), ["'m'", "upper-case", "'M'"], size_path("m")),
    error(
        19,
        "lower-case rank of a projection",
        accesses("    - {name: A, projection: {m: m, K: k}}\n"),
        ["'m'", "'A'", "upper-case", "M: m"],
        f'{AT}.tensor_accesses[1] "A".projection',
        on="{m: m, K: k}",
    ),
    error(20, "upper-case key of a bound", shape("M: 0<=m<4"), ["'M'", "rank variable", "'m'"], "workload.iteration_space_shape.M", on="M: 0<=m<4"),
    error(21, "rank indexed twice", string("C[m,m]=A[m]"), ["'M'", "'C'", "twice"], f"{AT}.einsum"),
    error(22, "tensor read by different ranks", string("C[m]=A[m]*A[m,k]"), ["'A'", "ranks M and M, K", "'C'", "A[m] and A[m, k]"], f"{AT}.einsum"),
    error(22, "tensor read by different ranks, written out", accesses("    - {name: A, projection: [m, k]}\n    - {name: A, projection: {K: k, N: n}}\n"), ["'A'", "ranks M, K and K, N", "'C'", "write out the ranks of both"], f'{AT}.tensor_accesses[2] "A"', on="{name: A, projection: {"),
    error(23, "input and output", string("A[m]=A[m]"), ["'A'", "both input and output", "rename"], f"{AT}.einsum"),
    error(24, "no index", string("C[]=A[m]"), ["empty index", "'C'", "write C[O: 0]"], f"{AT}.einsum"),
    error(24, "empty index", string("C[m,]=A[m]"), ["empty index", "'C'"], f"{AT}.einsum"),
    error(24, "empty projection", accesses("    - {name: A, projection: []}\n"), ["'A'", "no index"], f'{AT}.tensor_accesses[1] "A".projection', on="{name: A"),
    error(25, "expression without rank", string("C[m+k]=A[m]*B[k]"), ["explicit rank", "m+k", "RANK: m+k"], f"{AT}.einsum"),
    error(26, "product of variables", string("C[p]=A[W: p*q]*B[q]"), ["p*q", "affine"], f"{AT}.einsum"),
    error(26, "rounded quotient", string("C[p]=A[W: floor(p/2)]"), ["floor(p/2)", "affine"], f"{AT}.einsum"),
    error(27, "quotient", string("C[p]=A[W: p/2]"), ["p/2", "affine", "integer"], f"{AT}.einsum"),
    error(27, "remainder", string("C[p]=A[W: p mod 4]"), ["p mod 4", "affine", "integer"], f"{AT}.einsum"),
    error(28, "unbounded variable", string("C[m]=A[m,q]"), ["'q'", "'C'", "no bound", "rank_sizes.Q", "iteration_space_shape.q"], AT, on="- name: C"),
    error(29, "size zero", sizes("M: 0"), ["rank M", ">= 1", "found 0"], size_path("M")),
    error(29, "negative size", sizes("M: -4"), ["rank M", ">= 1", "found -4"], size_path("M")),
    error(30, "fractional size", sizes("M: 4.5"), ["rank M", "an integer", "4.5"], size_path("M")),
    error(30, "quotient", sizes("M: K/2"), ["rank M", "K/2", "//"], size_path("M")),
    error(31, "sizes in a circle", [(SIZES, "    M: K//2\n    K: M*2\n    N: 4\n")], ["circular", "K -> M -> K"], on="M: K//2"),
    error(32, "undefined name", sizes("M: 2*x"), ["'x'", "not defined", "variables"], size_path("M")),
    error(33, "foreign variable", shape("m: 0<=q<4"), ["'q'", "not a rank variable", "'C'", "k, m, n"], "workload.iteration_space_shape.m", on="m: 0<=q<4"),
    error(34, "shift in a bound", shape("m: 0<=m<<4"), ["unexpected", "<<"], "workload.iteration_space_shape.m", on="m: 0<=m<<4"),
    error(
        35,
        "index outside its rank",
        [(SIZES, "    P: 4\n    W: 4\n"), (STRING, '"O[p] = I[P: p, W: 7]"')],
        ["index 7", "rank W", "size 4", "empty"],
        AT,
        on="- name: C",
    ),
    error(
        36,
        "ranks differ",
        einsums('"C[m] = A[m]"', '"D[m,n] = C[m,n]"'),
        ["'C'", "['M']", "['M', 'N']", "'D'"],
        "workload.einsums[1]",
        on="D[m,n]",
    ),
    error(
        37,
        "name used twice",
        einsums('{name: C, einsum: "C[m] = A[m]"}', '{name: C, einsum: "D[m] = A[m]"}'),
        ["'C'", "twice", "spec.yaml:36"],
        'workload.einsums[1] "C"',
        on="D[m]",
    ),
    error(37, "reserved name", [("- name: C\n", "- name: Total\n")], ["'Total'", "reserved"], 'workload.einsums[0] "Total"'),
    error(
        38,
        "bounds differ",
        [(SIZES, "    M: 4\n    W: 8\n"), *einsums('"C[m] = A[m]"', '"D[W: m] = B[W: m]"')],
        ["'m'", "4 values", "'C'", "8", "'D'"],
        "workload.einsums[1]",
        on="D[W: m]",
    ),
    error(
        39,
        "reader before writer",
        einsums('"D[m] = C[m]"', '"C[m] = A[m]"'),
        ["'D'", "'C'", "before", "move Einsum 'C' up"],
        "workload.einsums[0]",
        on="D[m]",
    ),
    error(40, "cycle", einsums('"C[m] = A[m]"', '"A[m] = C[m]"'), ["cycle", "C -> A -> C"], "workload.einsums[0]", on='"C[m]'),
    error(
        40,
        "cycle of three",
        einsums('"C[m] = A[m]"', '"B[m] = C[m]"', '"A[m] = B[m]"'),
        ["cycle", "C", "B", "A"],
        "workload.einsums[0]",
        on='"C[m]',
    ),
    error(
        41,
        "two writers",
        einsums('{name: E, einsum: "C[m] = A[m]"}', '{name: F, einsum: "C[m] = B[m]"}'),
        ["'C'", "written by", "'E'", "'F'"],
        'workload.einsums[1] "F"',
        on="name: F",
    ),
    error(42, "bits missing", bits("A: 8", "B: 8"), ["'C'", "bits_per_value", "{All: 8}"], AT, on="- name: C"),
    error(43, "keys overlap", bits("All: 8", "Inputs: 4"), ["'All'", "'Inputs'", "overlap", "{A, B}", "`Other`"], "workload.bits_per_value.Inputs", on="Inputs: 4"),
    error(44, "Other twice", bits("Other: 8", "Other & Inputs: 4"), ["`Other`", "once"], "workload.bits_per_value.Other & Inputs", on="Other & Inputs"),
    error(45, "negative bits", bits("All: -8"), ["> 0", "-8"], "workload.bits_per_value.All"),
    error(45, "no bits", bits("All: 0"), ["> 0", "found 0"], "workload.bits_per_value.All"),
    legal(45, "a fraction of a bit", bits("All: 1.5")),
    legal(45, "an expression", bits('All: "4*2"')),
    error(
        46,
        "bits differ",
        einsums(
            '{name: C, einsum: "C[m] = A[m]"}',
            '{name: D, einsum: "D[m] = C[m]", tensor_accesses: [{name: C, bits_per_value: 4}]}',
        ),
        ["'C'", "8 bits", "4 in 'D'"],
        'workload.einsums[1] "D"',
        on="D[m]",
    ),
    error(47, "copy of two", field("is_copy_operation: true"), ["'C'", "exactly one input", "found 2"], AT, on="- name: C"),
    error(48, "negative instances", extra("n_instances: -2"), ["n_instances", ">= 1", "-2"], "workload.n_instances", on="n_instances"),
    error(48, "negative instances of an Einsum", field("n_instances: -2"), ["n_instances", ">= 1", "-2"], f"{AT}.n_instances", on="n_instances"),
    error(49, "undefined set", extra("persistent_tensors: foo"), ["'foo'", "not defined", "'C'", "A, ", "B, "], "workload.persistent_tensors", on="foo"),
    error(
        50,
        "persistent in one place",
        einsums('{name: C, einsum: "C[m] = A[m]", tensor_accesses: [{name: C, persistent: true}]}', '{name: D, einsum: "D[m] = C[m]"}'),
        ["'C'", "persistent", "'D'"],
        'workload.einsums[1] "D"',
        on="name: D",
    ),
    error(51, "access of another tensor", field("tensor_accesses:\n- {name: Q}"), ["'Q'", "Einsum string"], f'{AT}.tensor_accesses[0] "Q"', on="{name: Q}"),
    error(
        52,
        "projection again",
        field("tensor_accesses:\n- {name: A, projection: [m]}"),
        ["projection", "'A'", "already set"],
        f'{AT}.tensor_accesses[0] "A".projection',
        on="{name: A",
    ),
    error(53, "source undefined", field("renames: {input: Q}"), ["'Q'", "not defined"], f"{AT}.renames.input", on="input: Q"),
    error(
        54,
        "wrong count",
        field("renames:\n- {name: x, source: Inputs, expected_count: 1}"),
        ["'x'", "'C'", "expected 1", "{A, B}"],
        f'{AT}.renames[0] "x"',
        on="name: x",
    ),
    error(55, "renames in a circle", field("renames: {x: y, y: x}"), ["'y'", "not defined", "order"], f"{AT}.renames.x", on="x: y"),
    error(
        56,
        "no such Einsum",
        [("  einsums: []\n", "  einsums:\n  - {name: ZZ, tensor_accesses: {x: A}}\n")],
        ["no Einsum 'ZZ'", "C"],
        'renames.einsums[0] "ZZ"',
        on="ZZ",
    ),
    error(57, "reserved name", field("renames: {All: A}"), ["'All'", "reserved"], f"{AT}.renames.All", on="All: A"),
    error(58, "field of the workload", extra("foo: 1"), ["unknown field 'foo'", "rank_sizes"], "workload.foo", on="foo: 1"),
    error(58, "near miss", [("rank_sizes:", "rank_size:")], ["unknown field 'rank_size'", "did you mean 'rank_sizes'"], "workload.rank_size", on="    M: 4"),
    error(58, "field of an Einsum", field("foo: 1"), ["unknown field 'foo'", "tensor_accesses"], f"{AT}.foo", on="foo: 1"),
    error(
        58,
        "field of an access",
        field("tensor_accesses:\n- {name: A, persistant: true}"),
        ["unknown field 'persistant'", "did you mean 'persistent'"],
        f'{AT}.tensor_accesses[0] "A".persistant',
        on="persistant",
    ),
    error(
        58,
        "field of a rename",
        field("renames:\n- {name: x, source: A, count: 1}"),
        ["unknown field 'count'", "expected_count"],
        f'{AT}.renames[0] "x".count',
        on="count: 1",
    ),
    warning(129, "size of no rank", sizes("M: 4\n    MM: 3"), ["'MM'", "no tensor has this rank", "did you mean 'M'?"], size_path("MM"), on="MM: 3"),
    warning(
        129,
        "size of a rank of another Einsum",
        [(ONLY, ONLY + '    rank_sizes: {Q: 3}\n')],
        ["'Q'", "Einsum 'C' has no such rank"],
        f"{AT}.rank_sizes.Q",
        on="{Q: 3}",
    ),
    warning(129, "bound of no rank variable", shape("q: 0 <= q < 4"), ["'q'", "no Einsum has this rank variable"], "workload.iteration_space_shape.q", on="q: 0 <= q < 4"),
]  # fmt: skip
