"""Rows 1 to 16: files, YAML and templates."""

from tests.catalogue.cases import BASE, error, warning

NODE = "  - !Memory {name: Side, size: 1, component_class: Dummy}\n"
INCLUDED = "a:\n  c: 1\n"

ROWS = [
    error(1, "no such file", BASE, ["no file matches 'nofile.yaml'", "searched in", "spec.yaml"], loaded=("nofile.yaml",)),
    error(1, "no such pattern", BASE, ["no file matches 'arch*.yaml'", "searched in"], loaded=("arch*.yaml",)),
    error(1, "near miss", BASE, ["'spce.yaml'", "did you mean 'spec.yaml'"], loaded=("spec.yaml", "spce.yaml")),
    error(2, "empty file", "", ["top level", "dictionary", "empty"]),
    error(2, "only a comment", "# nothing\n", ["top level", "dictionary", "empty"]),
    error(2, "a list", "- arch\n- workload\n", ["top level", "dictionary", "a list"], on="- arch"),
    error(2, "a word", "arch\n", ["top level", "dictionary", "'arch'"], on="arch"),
    error(3, "unknown key", "foo: 1\n" + BASE, ["unknown top-level key 'foo'", "arch", "workload"], on="foo: 1"),
    error(3, "near miss", [("mapping:", "maping:")], ["unknown top-level key 'maping'", "did you mean 'mapping'"]),
    warning(
        4,
        "the same key in two files",
        BASE,
        ["'workload'", "spec.yaml", "other.yaml", "spec.yaml is used"],
        on="workload: {n_instances: 2}",
        file="other.yaml",
        more={"other.yaml": "workload: {n_instances: 2}\n"},
    ),
    error(
        5,
        "key twice",
        [("    size: inf\n", "    size: inf\n    size: 1\n")],
        ["'size'", "twice", "line 11"],
        on="    size: 1",
    ),
    error(6, "undefined template variable", [("M: 4", "M: {{ M }}")], ["template variable M", "not defined", "-D M="]),
    error(6, "undefined in a statement", [("M: 4", "M: {% if BIG %}8{% endif %}")], ["BIG", "not defined", "-D BIG="]),
    error(
        7,
        "assertion",
        '{% set N = 4 %}\n{% assert N < 4, "too many" %}\n' + BASE,
        ["too many"],
        on="{% assert N < 4",
    ),
    error(
        8,
        "included key missing",
        BASE + 'model: {{ include("x.yaml", "a.b") }}\n',
        ["b", "a", "x.yaml", "c"],
        on="model: ",
        extra={"x.yaml": INCLUDED},
    ),
    error(9, "includes itself", BASE + 'model: {{ include("spec.yaml", "model") }}\n', ["cycle", "spec.yaml"]),
    error(
        9,
        "two files include each other",
        BASE + 'model: {{ include("x.yaml", "model") }}\n',
        ["cycle", "spec.yaml", "x.yaml"],
        extra={"x.yaml": 'model: {{ include("spec.yaml", "model") }}\n'},
    ),
    error(10, "number merged", [("    size: inf\n", "    size: inf\n    <<: 3\n")], ["<<", "dictionary", "list of", "3"], on="<<: 3"),
    error(10, "list of numbers merged", [("    size: inf\n", "    size: inf\n    <<: [3]\n")], ["<<", "dictionary", "3"], on="<<: [3]"),
    error(
        11,
        "two merge keys",
        "x-a: &a {area: 1}\nx-b: &b {area: 2}\n" + BASE.replace("    size: inf\n", "    size: inf\n    <<: *a\n    <<<: *b\n"),
        ["one merge key", "<<<", "<<"],
        on="<<<: *b",
    ),
    error(12, "nomerge of a number", [("size: inf", "size: !nomerge 3")], ["!nomerge", "lists and dictionaries", "3"]),
    error(
        13,
        "operator unquoted",
        [("      fanout: 2\n", "      fanout: 2\n      loop_bounds:\n      - expression: m\n        operator: >=\n        value: 1\n")],
        ["quote", 'operator: ">="'],
        on="operator: >=",
    ),
    error(
        13,
        "operator unquoted, block of text",
        [("      fanout: 2\n", "      fanout: 2\n      loop_bounds:\n      - expression: m\n        operator: >\n        value: 1\n")],
        ["quote", 'operator: ">="'],
        on="operator: >",
    ),
    error(
        14,
        "Einsum unquoted",
        [('  - name: C\n    einsum: "C[m,n] = A[m,k] * B[k,n]"\n', "  - O[p] = I[W: p+r] * F[r]\n")],
        ["quote", "Einsum"],
        on="O[p]",
    ),
    error(15, "tab", [("  nodes:\n  - !Memory\n", "\tnodes:\n  - !Memory\n")], ["tabs", "spaces"], on="\tnodes:"),
    error(16, "two documents", BASE + "---\nmodel: {}\n", ["one document"], on="---"),
]  # fmt: skip
