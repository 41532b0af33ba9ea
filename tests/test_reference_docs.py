"""docs/reference is what the generator writes, it has everything that there is, and its examples load."""

import ast
import builtins
import math
import re
from pathlib import Path

from docs.generate import expression_texts, template_texts
from docs.generate.reference import REFERENCE, outdated, pages
from tests.machines import workload

import einmap
from einmap.einsum.functions import FUNCTIONS
from einmap.einsum.operation import parse_operation
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.evaluator.functions import BUILT_IN
from einmap.expressions.evaluator.operators import BINARY, COMPARE, UNARY
from einmap.expressions.evaluator.syntax import _ALLOWED
from einmap.expressions.scope import Scope
from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.filters import FILTERS
from einmap.frontends.yaml.template.functions import functions
from einmap.frontends.yaml.template.tests import TESTS
from einmap.mapper.problem.options import _mapper_input
from einmap.mapping.nodes import Storage, Temporal
from einmap.matmul.machine.read_machine import load_machine
from einmap.spec.names import RESERVED
from einmap.spec.schema.fields import SECTIONS, fields_of

ROOT = Path(__file__).parents[1]


def test_the_pages_are_what_the_generator_writes():
    assert outdated() == [], "run `make reference`, which writes docs/reference from the input models"


def test_the_generator_gives_equal_pages_each_time():
    assert pages() == pages()


def test_every_field_is_on_a_page():
    text = "".join(file.read_text() for file in REFERENCE.glob("*.md"))
    missing = [
        field.name
        for models in SECTIONS.values()
        for model in models.values()
        for field in fields_of(model)
        if f"- **`{field.name}`** " not in text
    ]
    assert missing == []


def test_pages_are_linked():
    index, readme = (ROOT / "docs" / "README.md").read_text(), (ROOT / "README.md").read_text()
    assert all(f"](reference/{name})" in index for name in pages())
    assert "](docs/reference/" in readme


def test_every_function_operator_and_set_of_expressions_is_told():
    same = {*expression_texts.AS_IN_PYTHON}
    assert {*expression_texts.FUNCTIONS} | {*expression_texts.CONSTANTS} | same == {*BUILT_IN}
    examples = [example for _, _, example in (*expression_texts.OPERATORS, *expression_texts.KEYWORDS)]
    shown = {type(node) for example in examples for node in ast.walk(ast.parse(example, mode="eval"))}
    assert {*BINARY, *UNARY, *COMPARE} <= shown
    abstract = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
    forms = {kind for kind in _ALLOWED if kind not in abstract}
    assert forms - shown == {ast.Set, ast.keyword}  # {A, B}, which the page names, and isclose(a, b, rel_tol=...)
    assert {*expression_texts.SETS} == {*RESERVED}


SAME = (
    *(
        "abs(-3)",
        "bool([])",
        "float(3) / 2",
        "int(2.9)",
        "len([1, 2])",
        "pow(2, 10)",
        "pow(2, 5, 7)",
        "round(2.675, 1)",
        "round(2.5)",
    ),
    *(
        "str(12)",
        "tuple([1, 2])",
        "[i for i in range(2, 8, 3)]",
        "[i for i in enumerate(['a', 'b'], 2)]",
        "acos(0.5)",
        "acosh(2)",
    ),
    *(
        "asin(0.5)",
        "asinh(2)",
        "atan(2)",
        "atan2(-1, 2)",
        "atanh(0.5)",
        "ceil(7 / 2)",
        "comb(5, 2)",
        "copysign(3, -1)",
        "cos(2)",
    ),
    *(
        "cosh(2)",
        "degrees(2)",
        "dist([0, 0], [3, 4])",
        "erf(0.5)",
        "erfc(0.5)",
        "exp(2)",
        "expm1(0.5)",
        "fabs(-3.5)",
        "floor(-3.5)",
    ),
    *(
        "fmod(-7.5, 2)",
        "frexp(9)",
        "fsum([0.1] * 10)",
        "gamma(5.5)",
        "gcd(12, 18)",
        "hypot(3, 4)",
        "isclose(1, 1.1, rel_tol=0.2)",
    ),
    *(
        "isfinite(inf)",
        "isinf(inf)",
        "isnan(nan)",
        "isqrt(17)",
        "ldexp(0.5, 4)",
        "lgamma(5.5)",
        "log(8, 2)",
        "log(8)",
        "log10(1000)",
    ),
    *(
        "log1p(0.5)",
        "log2(1024)",
        "modf(-2.5)",
        "perm(5, 2)",
        "prod([2, 3, 4])",
        "radians(90)",
        "remainder(7.5, 2)",
        "sin(2)",
    ),
    *("sinh(2)", "sqrt(16)", "tan(2)", "tanh(2)", "trunc(-2.5)"),
)


def test_functions_that_the_page_does_not_explain_are_those_of_python():
    assert {re.search(r"(\w+)\(", text)[1] for text in SAME} == {*expression_texts.AS_IN_PYTHON}
    given = {**vars(math), **vars(builtins)}
    assert [text for text in SAME if evaluate(text, Scope()) != eval(text, given)] == []


def test_everything_that_templates_know_is_told():
    assert {*template_texts.FILTERS} == {*FILTERS}
    assert {*template_texts.TESTS} == {*TESTS}
    known = {*functions(Work("a.yaml"))} - {"setenv"}
    assert known == {*BUILT_IN} - {"map", "getcwd"} | {*template_texts.ONLY_IN_TEMPLATES}


PARTS = """
variables: {two: 2}
arch:
  variables: {one: 1}
  nodes:
  - !Memory {name: Main, size: 4096, component_class: Dummy}
  - !Container {name: Array, spatial: [{name: X, fanout: 2}]}
  - !Memory {name: Local, size: 0, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
"""


def test_expressions_may_ask_what_the_page_lists():
    spec = einmap.loads(PARTS).set("workload", einmap.load("matmul").get("workload"))
    for text, _ in expression_texts.COMPONENT_PARTS:
        expression = f"len({text})" if text.endswith("variables") else text
        assert spec.set("arch.nodes[2].size", f"8 + {expression}").arch().leaves["Local"].size_bits >= 8, text


def test_total_latency_may_use_what_the_page_lists():
    spec = einmap.load("simple", "matmul", "simple_matmul")
    whole = {"action2latency": "sum(action2latency.values())", "actions": "actions['read'].n_calls"}
    for text, _ in expression_texts.LATENCY_NAMES:
        if not text.startswith("max_"):
            timed = spec.set("arch.nodes[1].total_latency", f"1 + {whole.get(text, text)}")
            assert einmap.evaluate(timed).latency > 1, text


def test_map_functions_are_written_as_the_page_says():
    page = pages()["map-functions.md"]
    for name, entry in FUNCTIONS.items():
        call = f"{name}({', '.join('xyz'[: entry.arity])})"
        written = re.search(rf"^\| `(?:(.*), )?{re.escape(call)}` \| {re.escape(entry.meaning)} \|", page, re.MULTILINE)
        assert written, name
        meant = parse_operation(call, ["x", "y", "z"]).map
        assert meant is not None
        assert written[1] is None or parse_operation(written[1], ["x", "y"]).map == meant


def snippets(page):
    return re.findall(r"```yaml\n(.*?)```", (REFERENCE / page).read_text(), re.DOTALL)


def test_the_architecture_of_the_page_loads_and_maps(tmp_path):
    (text,) = snippets("architecture.md")
    (tmp_path / "arch.yaml").write_text(text)
    spec = einmap.load(tmp_path / "arch.yaml", "matmul", define={"M": 8, "K": 8, "N": 8})
    assert spec.notes == ()
    best = einmap.map_workload(spec, metrics="energy")
    assert best.optimal
    pair = einmap.load(tmp_path / "arch.yaml", "elementwise")
    assert pair.bound


def test_the_workload_of_the_page_loads(tmp_path):
    (text,) = snippets("workload.md")
    (tmp_path / "workload.yaml").write_text(text)
    spec = einmap.load(tmp_path / "workload.yaml", "simple")
    assert spec.bound
    assert [einsum.name for einsum in spec.workload.einsums] == ["QK", "QM", "QE", "AV"]
    assert str(spec.bound_workload.symbols["AV"]["weight"]) == "{V}"


def test_the_mappings_of_the_page_are_evaluated(tmp_path):
    one, split, given = snippets("mapping.md")
    (tmp_path / "one.yaml").write_text(one)
    (tmp_path / "split.yaml").write_text(split)
    (tmp_path / "given.yaml").write_text(given)
    assert einmap.evaluate(einmap.load("simple", "matmul", tmp_path / "one.yaml")).energy > 0
    pair = workload("M: 8, K: 8, N: 8", "Y[m] = A[m, k] * X[k]", "Z[n] = B[n, m] * Y[m]")
    (tmp_path / "pair.yaml").write_text(pair)
    assert einmap.evaluate(einmap.load("simple", tmp_path / "pair.yaml", tmp_path / "split.yaml")).energy > 0
    spec = einmap.load("simple", "matmul", define={"M": 8, "K": 8, "N": 8})
    nodes = einmap.map_workload(spec, given=tmp_path / "given.yaml").mapping.nodes
    place = next(i for i, node in enumerate(nodes) if isinstance(node, Storage) and node.component == "GlobalBuffer")
    assert any(isinstance(node, Temporal) for node in nodes[place:])


def test_the_options_of_the_page_are_taken():
    (text,) = snippets("options.md")
    spec = einmap.load("simple", "matmul").set("config", {})
    options = einmap.loads(text)
    for key in ("mapper", "model", "config"):
        spec = spec.set(key, options.get(key))
    assert spec.model_options.semantics == "exact"
    assert spec.bound
    assert _mapper_input(spec, {}).max_fused_loops == 1


def test_the_distribution_and_the_machine_of_the_pages_are_read(tmp_path):
    (text,) = snippets("distribution.md")
    (tmp_path / "on_a_mesh.yaml").write_text(text)
    plan = einmap.plan_of(einmap.load("matmul", tmp_path / "on_a_mesh.yaml"))
    assert plan.mesh.n_devices == 4
    (text,) = snippets("machine.md")
    (tmp_path / "machine.yaml").write_text(text)
    assert [level.name for level in load_machine(tmp_path / "machine.yaml").levels] == ["L2", "L1"]
