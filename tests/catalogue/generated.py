"""Hostile files that repeat one line very often: the good specification with a great many of something."""

from tests.catalogue.cases import BASE

HEAD = BASE.partition("workload:\n")[0]
LAST = "  - !Temporal {rank_variable: k, tile_shape: 1}\n"
BUFFER = "  - !Memory\n    name: Buffer\n"


def each(text, count, separator=""):
    """The text for each number below `count`, which stands for `#` in it."""
    return separator.join(text.replace("#", str(i)) for i in range(count))


def ranks(count):
    """One Einsum over so many ranks of 2**40."""
    indices = each("r#", count, ",")
    return (
        f"{HEAD}workload:\n  rank_sizes: {{{each(f'R#: {2**40}', count, ', ')}}}\n  bits_per_value: {{All: 8}}\n"
        f'  einsums:\n  - "Z[{indices}] = A[{indices}]"\n'
        "mapping:\n  nodes:\n  - !Storage {component: Main, tensors: [A, Z]}\n"
        f"{each(LAST.replace(': k', ': r#'), count)}  - !Compute {{einsum: Z, component: MAC}}\n"
    )


def errors(count):
    """A chain of Einsums, of which none has a branch: each branch is of one that does not exist."""
    chain = "".join(f'  - "A{i + 1}[m] = A{i}[m]"\n' for i in range(count))
    return (
        f"{HEAD}workload:\n  rank_sizes: {{M: 4}}\n  bits_per_value: {{All: 8}}\n  einsums:\n{chain}"
        "mapping:\n  nodes:\n  - !Split\n    nodes:\n"
        + each("    - !Nested {nodes: [!Compute {einsum: B#x, component: MAC}]}\n", count)
    )


def sized(variables, count):
    """The buffer's size is the sum of so many variables."""
    text = BASE.replace("width*depth", each("v#", count, "+"))
    return text.replace("  width: 8\n", variables, 1)


GENERATED = {
    "05-evaluate-26-ranks-of-2to40.yaml": ranks(26),
    "05-evaluate-400-ranks-of-2to40.yaml": ranks(400),
    "07-loops-1000.yaml": BASE.replace(LAST, LAST * 1000),
    "11-merge-sources-10000.yaml": f"x-b: {{<<: [{each('{k#: 1}', 10_000, ', ')}]}}\n{BASE}",
    "12-expressions-1000.yaml": sized(
        "  width: 8\n" + each('  v#: "sum([1 for i in range(9999) for j in range(9)])+#"\n', 1000), 1000
    ),
    "13-memories-400.yaml": BASE.replace(
        BUFFER,
        each(
            "  - !Memory {name: B#, size: inf, component_class: Dummy, tensors: {keep: Nothing, may_keep: All}}\n", 400
        )
        + BUFFER,
    ),
    "14-errors-700.yaml": errors(700),
    "15-variables-700-undefined.yaml": sized(each("  v#: w#x\n", 700), 600).partition("mapping:\n")[0],
    "base.yaml": BASE,
}
"""Texts by the name of the file."""
