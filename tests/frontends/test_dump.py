import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap import Spec, dump, load, loads
from einmap.frontends.yaml.dump import WIDTH, to_yaml
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.frontends.yaml.spec import example_paths
from einmap.spec.raw import RawList, RawMap, RawScalar, from_python

MARKS = "~ << O[p] -1 max(1,2) !x &x *x --- ... a: ' \" \\ - ? : , # @ % > | null yes true 010 1e9 .inf 0x"
ODD = [
    "",
    "- a",
    "a: b",
    "a #b",
    "O[p] = I[W: p]",
    "max(1, 2)",
    "a\nb",
    "\t",
    " a",
    "\ufeff",
    "\x85",
    "\U0001f600",
    "k" * 1_100,
    "a: " * 400,
]
WORDS = st.text(max_size=8) | st.sampled_from(ODD + MARKS.split())
SCALARS = st.builds(
    lambda value, text, quoted: RawScalar(value, text, quoted=quoted and isinstance(value, str)),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    WORDS,
    st.booleans(),
)
TAGS = st.sampled_from([None, None, "Memory", "Compute"])


def maps(children):
    pairs = st.dictionaries(WORDS, children, max_size=4).map(lambda fields: tuple(fields.items()))
    return st.builds(RawMap, pairs, tag=TAGS)


def lists(children):
    return st.builds(RawList, st.lists(children, max_size=4).map(tuple))


TREES = st.recursive(SCALARS, lambda children: maps(children) | lists(children), max_leaves=15)


def types(raw):
    """Equality takes 1, 1.0 and True for the same; their types tell them apart."""
    match raw:
        case RawScalar(value=value):
            return type(value)
        case RawList(items=items):
            return [types(item) for item in items]
        case RawMap(items=pairs):
            return [types(value) for _, value in pairs]


@given(TREES)
def test_what_is_written_reads_back_equal(tree):
    again = parse_yaml(to_yaml(tree), "")
    assert again == tree
    assert types(again) == types(tree)


@given(WORDS)
def test_quoted_text_stays_quoted(word):
    again = parse_yaml(to_yaml(RawMap((("a", RawScalar(word, word, quoted=True)),))), "")
    assert again == RawMap((("a", RawScalar(word)),))
    assert isinstance(again, RawMap)
    assert isinstance(again.items[0][1], RawScalar)
    assert again.items[0][1].quoted


@pytest.mark.parametrize("text", ["max(1, 2)", "a[1]", "x if y else z", "~A", "A | B", "-x", "size*2"])
@pytest.mark.parametrize("wrap", ["k: {}", "k:\n  l:\n    m: {}", "k:\n  l:\n    m:\n      - {}"])
def test_unquoted_expressions_stay_unquoted(text, wrap):
    again = to_yaml(parse_yaml(wrap.format(text), ""))
    assert text in again
    assert '"' not in again


def test_small_collections_are_in_one_line():
    text = """\
arch:
  nodes:
    - !Memory
      name: MainMemory
      size: inf
      actions:
        - {name: read, energy: 1e-12}
        - {name: write, energy: 1_000}
    - !Compute {name: MAC, area: 0.0}
mapping:
  nodes:
    - !Storage {component: MainMemory, tensors: [A, B]}
    - name: untagged
      parts:
        - {a: 1}
workload:
  einsums:
    - name: O
      projection: {W: p + r}
      bits:
        All: {x: [1]}
  rank_sizes: {P: 4}
variables: {}
"""
    assert to_yaml(parse_yaml(text, "")) == text


def test_long_collections_are_broken():
    tree = from_python({"a": {"b": list(range(100)), "c": {f"key{n}": n for n in range(40)}}})
    lines = to_yaml(tree).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert parse_yaml("\n".join(lines), "") == tree


def test_numbers_without_a_spelling_get_one():
    values = {"a": [None, True, math.inf, -math.inf, 1e-12, 4.0, 7]}
    assert to_yaml(from_python({"s": values})) == "s:\n  a: [null, true, .inf, -.inf, 1e-12, 4.0, 7]\n"


def test_nan_is_written():
    assert to_yaml(RawScalar(math.nan)) == ".nan\n"


def test_endless_digits_are_written_as_hexadecimal():
    tree = RawScalar(10**20_000)
    assert parse_yaml(to_yaml(tree), "") == tree


@pytest.mark.parametrize("name", sorted(example_paths()))
def test_every_example_reads_back_after_dump(name):
    spec = load(name)
    again = loads(dump(spec))
    assert (again, again.content_hash) == (spec, spec.content_hash)


def test_a_spec_made_in_python_reads_back_even_where_it_looks_like_a_template():
    odd = {"a": "{{ x }}", "b": "{% if %}", "c": "{# z", "{{q}}": 1, "<<": "x", "d": "a\nb", "e": math.inf, "f": None}
    spec = Spec.from_dict({"variables": odd, "workload": {"einsums": ["Z[m] = A[m]"]}})
    assert loads(dump(spec)) == spec
    assert loads(dump(Spec.from_dict({}))) == Spec.from_dict({})
