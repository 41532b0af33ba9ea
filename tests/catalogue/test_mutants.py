"""Shipped specifications with a few things changed at random are evaluated or refused; nothing else happens."""

import copy
import functools
import operator
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalogue.cases import BASE, problems_of
from tests.catalogue.meshes import PLANNED, STEPPED, TURNED

import einmap
from einmap.distribute.planner.read_cluster import cluster_of
from einmap.distribute.read import plan_of
from einmap.errors import EinmapError
from einmap.frontends.yaml.spec import example_paths

SIZES = {"M": 64, "K": 64, "N": 64}
PARTS = [
    (["simple", "matmul", "simple_matmul"], SIZES),
    (["simple", "matmul_chain", "simple_matmul_chain_fused"], {"M": 64}),
    (["simple", "two_matvecs", "simple_two_matvecs_fused"], {}),
    (["tpu_v4i", "matmul", "tpu_v4i_matmul"], {"M": 512, "K": 512, "N": 512}),
    (["eyeriss", "resnet50_layer", "eyeriss_conv"], {"LAYER": "conv2_2", "BITS": 16}),
]
SHIPPED = [
    (BASE, {}),
    *(
        ("\n".join(example_paths()[name].read_text(encoding="utf-8") for name in names), define)
        for names, define in PARTS
    ),
]
ODD = [
    "", "~", "0", "-1", "1", "3", "1.5", ".nan", ".inf", "inf", "nan", "1e308", "1e-308", "99999999999999999999", "0x10", "true", "yes",
    "[]", "{}", "[[]]", "[A, B]", "{m: 1}", "''", "' '", '"a b"', "All", "~All", "Nothing", "Above", "Other", "A", "m", "M", "foo",
    "foo.bar", "1/0", "m | A", "len(All)", "All.rank_variables", "Inputs.bits_per_value", "spec", "!Memory {}", "!Compute", "*x",
    "&x 1", "|", ">", "'\\0'", "é", "a: b", "{{ x }}", "{{ 1 }}", "{% if 1 %}", "{#", "Z[m] = A[m]", "C[m,n] = A[m,k] * B[k,n] = D",
    "C[m: m]=A[M: k+2*m]", "Main", "Buffer", "GlobalBuffer", "MainMemory", "MAC", "DRAM", "X", "width", "depth", "size", "size*2",
    "0 <= m < 4", "2**62", "9**9**9", "range(10**9)", "up", "Dummy", "==", "read_actions", "x", "[x, y]", "[x, x]", "{M: x}", "4096", "float64", "2**70", "1e999", "ring", "[1, [2, {a: 3}]]", "-0.0", "1_000", "$", "@",
]  # fmt: skip
SCALAR = re.compile(r"(?<=: )[^,{}\[\]#\n]+(?=[,}\]\n])")


def mutated(text, draw):
    """One line dropped, doubled, moved or re-indented, or one scalar replaced."""
    lines = text.splitlines(keepends=True)
    index = draw(st.integers(0, len(lines) - 1))
    kind = draw(st.sampled_from(["value", "value", "value", "word", "drop", "double", "move", "indent", "character"]))
    match kind:
        case "value":
            scalars = list(SCALAR.finditer(text))
            if scalars:
                found = draw(st.sampled_from(scalars))
                return text[: found.start()] + draw(st.sampled_from(ODD)) + text[found.end() :]
        case "word":
            words = list(re.finditer(r"[A-Za-z_]\w*", text))
            found = draw(st.sampled_from(words))
            other = draw(st.sampled_from(words)).group()
            return text[: found.start()] + other + text[found.end() :]
        case "drop":
            del lines[index]
        case "double":
            lines.insert(draw(st.integers(0, len(lines))), lines[index])
        case "move":
            lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(index))
        case "indent":
            lines[index] = draw(st.sampled_from(["  ", " ", "- "])) + lines[index]
        case "character":
            position = draw(st.integers(0, len(text) - 1))
            return text[:position] + draw(st.characters()) + text[position + 1 :]
    return "".join(lines)


@st.composite
def mutants(draw, shipped=SHIPPED):
    text, define = draw(st.sampled_from(shipped))
    for _ in range(draw(st.integers(1, 3))):
        text = mutated(text, draw) or "\n"
    return text, define


@pytest.mark.parametrize(("text", "define"), SHIPPED)
def test_what_is_shipped_is_good(text, define):
    einmap.evaluate(einmap.loads(text, define=define))


@settings(max_examples=100)
@given(mutants())
def test_a_mutant_is_evaluated_or_refused(mutant):
    text, define = mutant
    try:
        einmap.evaluate(einmap.loads(text, define=define))
    except EinmapError as problem:
        assert all(str(one) and len(str(one)) < 5_000 for one in problems_of(problem))


@settings(max_examples=150)
@given(mutants([(PLANNED, {}), (STEPPED, {})]))
def test_a_mutant_of_a_cluster_and_a_distribution_is_planned_or_refused(mutant):
    text, define = mutant
    try:
        spec = einmap.loads(text, define=define)
        cluster_of(spec)
        plan_of(spec)
    except EinmapError as problem:
        assert all(str(one) and len(str(one)) < 5_000 for one in problems_of(problem))


def places(tree, path=()):
    """The paths of all that is in dictionaries and lists."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("wrong", [None, 7, "word", ["x"], {"x": 1}], ids=str)
@pytest.mark.parametrize("text", [PLANNED, STEPPED, TURNED], ids=["cluster", "steps", "turns"])
def test_another_type_at_any_place_of_a_cluster_and_a_distribution_is_read_or_refused(text, wrong):
    good = einmap.loads(text).to_dict()
    n_refused = 0
    for path in places({key: good[key] for key in ("cluster", "distribution") if key in good}):
        tree = copy.deepcopy(good)
        holder = functools.reduce(operator.getitem, path[:-1], tree)
        holder[path[-1]] = wrong
        for read in (cluster_of, plan_of):
            try:
                read(einmap.Spec.from_dict(tree))
            except EinmapError as problem:
                n_refused += 1
                assert all(str(one) and len(str(one)) < 5_000 for one in problems_of(problem))
    assert n_refused > 10


@given(st.text(max_size=200))
def test_any_text_is_refused(text):
    try:
        einmap.evaluate(einmap.loads("arch: " + text, define={}))
    except EinmapError as problem:
        assert str(problem)
    else:
        raise AssertionError("a specification without workload was evaluated")
