"""Files that mean harm are refused with a place, by counting work: no clock, no memory, nothing executed."""

import pytest
from tests.catalogue.cases import BASE, changed, problems_of
from tests.work import work_below

import einmap
from einmap.errors import EinmapError

SIZE = "    size: width*depth\n"
STRING = '"C[m,n] = A[m,k] * B[k,n]"'
BIG = "9" * 4000


def refusal(text):
    """The only problem of a specification; it has a line."""
    with pytest.raises(EinmapError) as caught:
        einmap.evaluate(einmap.loads(text))
    (problem,) = problems_of(caught.value)
    assert problem.at is not None
    assert problem.at.line is not None
    return problem


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9", "2**3**4**5", "10**100000", "1 << 10**9", "pow(3, 10**9)", "factorial(10**8)", "comb(10**6, 5*10**5)",
        "perm(10**9, 10**8)", "prod(range(1, 10000))", "isqrt(10**100000)", "1e400", "10**2000/3", "exp(1e308)", "round(1, 10**9)",
        "range(10**12)", "len(range(10**18))", "sum(range(10**9))", "'a'*10**9", "[0]*10**9", "[*range(9999)]*9",
        "[i for i in range(9999) for j in range(9999)]", "[[0]*1000 for i in range(1000)]", "map(abs, range(10**9))",
        "{i: i for i in range(10**6)}", "9" * 5000, "int('9'*5000)",
        "().__len__()", "width.real", "Main.name", "''.join", "'{0}'.format(1)", "'%1000000000d' % 1",
        "f'{width}'", "(lambda f: f(f))(lambda f: f(f))", "__import__('math')", "open('file')", "eval('1')",
        "getattr(1, 'real')", "(width := 3)", "spec", "variables.keys",
        "(" * 4000 + "1" + ")" * 4000, "(" * 10000 + "1" + ")" * 10000, "[" * 4000 + "]" * 4000, "-" * 9000 + "1",
        "not " * 2400 + "1", "1" + "+1" * 4000, "1" + "**1" * 3000, "1 if 1 else " * 800 + "1", "a" + ".b" * 3000,
        "x" + "[0]" * 3000, "a" * 20000,
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_an_expression_without_end(expression):
    problem = refusal(changed([(SIZE, f'    size: "{expression}"\n')]))
    assert problem.at.path == 'arch.nodes[2] "Buffer".size'
    assert len(str(problem)) < 1500


@pytest.mark.parametrize(
    "expression",
    [
        "sum([pow(3**6000, 2**63, 7**3500) for i in range(1000)])", "sum([isqrt(3**6000) for i in range(9000)])",
        "sum([gcd(3**6000, 7**3500) for i in range(9000)])", "sum([len(str(3**6000)) for i in range(9000)])",
        "sum([factorial(1000) % 7 for i in range(9000)])", "sum([max([[1]*9000][0]) for i in range(9000)])",
        "sum([0.5 in range(9999) for i in range(9000)])", "sum([fsum(range(9999)) for i in range(9000)])",
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_work_is_paid_by_what_a_call_takes(expression):
    with work_below(2):
        assert "more than 200000 steps" in str(refusal(changed([(SIZE, f'    size: "{expression}"\n')])))


def test_all_expressions_of_a_specification_have_one_account():
    """Each of a thousand memories takes nearly what one expression may take."""
    most = " + ".join(["sum(range(9999))"] * 18)
    memory = (
        f'  - !Memory\n    name: B{{}}\n    size: "{most} + {{}}"\n'
        "    component_class: Dummy\n    tensors: {{keep: Nothing, may_keep: All}}\n"
    )
    before = "  - !Memory\n    name: Buffer\n"
    text = changed([(before, "".join(memory.format(i, i) for i in range(150)) + before)])
    with pytest.raises(EinmapError, match="of the specification take more than 5,000,000 steps together") as caught:
        einmap.evaluate(einmap.loads(text))
    assert len(str(caught.value).splitlines()) == 21
    assert str(caught.value).endswith("more problems")


@pytest.mark.parametrize(
    "text",
    [
        "C[m,n] = " + "*".join(f"A{i}[m,k]" for i in range(5000)),
        "C[m,n] = A[m,k] + " + "x" * 200_000,
        "C[m,n] = " + "(" * 10000 + "A[m,k]" + ")" * 10000,
        "C[m,n] = " + "A" * 9000 + "[",
        "C" + " " * 9000 + "x",
        "C[m] = " + "a " * 4900,
        "C[m] = " + "A[" * 4900,
        "C[M: " + "(" * 2000 + "m" + ")" * 2000 + "] = A[m]",
        "C[M: " + "*".join(["99999999999"] * 400) + "*m] = A[m]",
        f"C[M: {BIG}*m, n] = A[m,k] * B[k,n]",
        f"C[M: {BIG} + m, n] = A[m,k] * B[k,n]",
    ],
    ids=[
        "inputs", "word", "brackets", "name", "blanks", "words", "openings", "deep index", "product", "factor",
        "constant",
    ],
)  # fmt: skip
def test_an_einsum_without_end(text):
    problem = refusal(changed([(STRING, f'"{text}"')]))
    assert problem.at.path == 'workload.einsums[0] "C".einsum'
    assert len(str(problem)) < 1500


@pytest.mark.parametrize(
    "bound",
    [
        f"0 <= m < {BIG}",
        f"-{BIG} <= m < {BIG}",
        "0 <= m < " + "*".join(["9" * 1200] * 5),
        "not " * 2000 + "m < 4",
        "(" * 4000 + "m < 4" + ")" * 4000,
        "0 <= m " + "< 4 " * 5000,
        "0 <= m < 4" + " and m < 4" * 3000,
        "-" * 9000 + "1 < m",
        "0 <= m**m < 4",
        "0 <= m < range(10**12)",
    ],
    ids=lambda text: text[:20],
)
def test_a_bound_without_end(bound):
    shape = f'  iteration_space_shape:\n    m: "{bound}"\n  rank_sizes:\n'
    assert len(str(refusal(changed([("    M: 4\n", ""), ("  rank_sizes:\n", shape)])))) < 1500


@pytest.mark.parametrize(
    "bound", ["0 <= 99999999999999999999*m < 9999999999999999999999999999", "0 <= m < 1099511627776 and m mod 3 = 0"]
)
def test_a_space_with_huge_factors_is_bounded_without_counting_its_points(bound):
    shape = f'  iteration_space_shape:\n    m: "{bound}"\n  rank_sizes:\n'
    einmap.evaluate(einmap.loads(changed([("  rank_sizes:\n", shape)])))


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__len__() }}", "{{ cycler('a') }}", "{{ '{0}'.format(1) }}", "{{ ''|attr('upper') }}",
        "{{ range.name }}", "{{ 9**99**9 }}", "{{ 10**4300 }}", "{{ 'a'*10**9 }}", "{{ factorial(10**8) }}",
        "{% for i in range(10**9) %}1{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(9999) %}1{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ '%1000000000d' % 1 }}", "{{ config.name }}",
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_a_template_that_asks_for_more_than_is_listed_or_never_ends(template):
    assert refusal(changed([("    M: 4\n", f"    M: {template}\n")])).at.line == 30


NINE = ", ".join(["*a{0}"] * 9)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 10_000,
        "arch: " + "[" * 10_000 + "]" * 10_000,
        "".join(" " * level + "a:\n" for level in range(3_000)),
        "x-0: &a0 [1]\n" + "".join(f"x-{i}: &a{i} [{NINE.format(i - 1)}]\n" for i in range(1, 40)),
        "x-0: &a0 {a: 1}\n" + "".join(f"x-{i}: &a{i} {{a: *a{i - 1}, b: *a{i - 1}, c: *a{i - 1}}}\n" for i in range(1, 40)),
        "x-0: &a0 {l: [1]}\n" + "".join(f"x-{i}: &a{i} {{<<<: [{NINE.format(i - 1)}], l: [0]}}\n" for i in range(1, 40)),
        f"variables: {{a: {'9' * 100_000}}}",
        BASE.replace("    M: 4\n", f"    M: 0x{'f' * 100_000}\n"),
        BASE.replace("    name: Buffer\n", f"    name: 0b{'1' * 100_000}\n"),
        "variables: {a: 1e99999999999}",
        'a: "' + "\\n" * 10_000,
        "\t" * 10_000,
        BASE.replace("    M: 4\n", f"    M: {BIG}\n"),
        BASE.replace("      fanout: 2\n", "      fanout: .inf\n"),
        BASE.replace("    All: 8\n", "    All: .nan\n"),
        BASE.replace("variable: n, tile_shape: 1", f"variable: n, tile_shape: {BIG}"),
    ],
    ids=[
        "open lists", "deep lists", "deep dictionaries", "laughs", "laughing dictionaries", "laughing merges", "digits", "hexadecimal",
        "binary", "exponent", "open quote", "tabs", "huge size", "infinite fanout", "no number of bits", "huge tile",
    ],
)  # fmt: skip
def test_yaml_without_end(text):
    assert len(str(refusal(text))) < 1500


@pytest.mark.parametrize("last", ["1", "v0", "1/0"])
def test_variables_that_need_each_other_in_a_long_chain(last):
    chain = "variables:\n" + "".join(f"  v{i}: v{i + 1} + 1\n" for i in range(500)) + f"  v500: {last}\n"
    with pytest.raises(EinmapError, match="more than 50 values need each other") as caught:
        assert einmap.loads(chain).variables
    assert all(one.at.path.startswith("variables.v") for one in problems_of(caught.value))


def test_a_cascade_of_many_einsums_is_read():
    einsums = "".join(f'  - "A{i + 1}[m] = A{i}[m]"\n' for i in range(500))
    text = f"workload:\n  bits_per_value: {{All: 8}}\n  rank_sizes: {{M: 4}}\n  einsums:\n{einsums}"
    assert len(einmap.loads(text).workload.einsums) == 500


@pytest.mark.parametrize("name", ["a b", "1a", "a-b", "", "if", "lambda", "a.b", "a\nb", "é!", "f(1)"])
def test_names_that_expressions_cannot_use(name):
    given = repr(name) if "\n" not in name else '"a\\nb"'
    given = '"' + name + '"' if "'" in name else given
    access = f"    tensor_accesses: [{{name: {given}, projection: [m]}}, {{name: C, projection: [m], output: true}}]\n"
    texts = [
        changed([('    einsum: "C[m,n] = A[m,k] * B[k,n]"\n', access)]),
        changed([("  - name: C\n", f"  - name: {given}\n")]),
        changed([("  - name: C\n", f"  - name: C\n    renames: [{{name: {given}, source: A}}]\n")]),
        changed([("    name: Buffer\n", f"    name: {given}\n")]),
        changed([("    - name: X\n", f"    - name: {given}\n")]),
    ]
    for text in texts:
        assert "identifier" in str(refusal(text))


@pytest.mark.parametrize(
    "name",
    ["All", "Tensors", "Inputs", "Outputs", "Intermediates", "Shared", "Persistent", "Nothing", "Above", "Other"],
)
def test_names_of_sets_are_reserved(name):
    access = f"    tensor_accesses: [{{name: {name}, projection: [m]}}, {{name: C, projection: [m], output: true}}]\n"
    for text in (
        changed([('    einsum: "C[m,n] = A[m,k] * B[k,n]"\n', access)]),
        changed([(STRING, f'"C[m,n] = {name}[m,k] * B[k,n]"')]),
        changed([("  - name: C\n", f"  - name: C\n    renames: {{{name}: A}}\n")]),
        changed([("  einsums: []\n", f"  einsums: [{{name: default, tensor_accesses: {{{name}: A}}}}]\n")]),
    ):
        assert f"{name!r} is a reserved name" in str(refusal(text))


def test_words_of_expressions_are_no_names():
    for einsum in ("C[m,n] = for[m,k] * B[k,n]", "is[m,n] = A[m,k] * B[k,n]"):
        assert "is a word of expressions" in str(refusal(changed([(STRING, f'"{einsum}"')])))
