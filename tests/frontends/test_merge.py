import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.errors import SpecError
from einmap.frontends.yaml.dump import to_yaml
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.spec.raw import RawMap, from_python, get_value, to_python

BASES = """
x-a: &a {size: 1, inner: {p: 1, q: 1}, items: [1]}
x-b: &b {size: 2, area: 2, inner: {q: 2, r: 2}, items: [2]}
"""


def merged(body):
    tree = parse_yaml(f"{BASES}new: {body}\n", "f.yaml")
    return to_python(get_value(tree, ("new",)))


def test_a_shallow_merge_adds_missing_keys_only():
    assert merged("{size: 9, inner: {z: 9}, <<: *a}") == {"size": 9, "inner": {"z": 9}, "items": [1]}


def test_the_first_of_several_sources_wins():
    assert merged("{<<: [*a, *b]}") == {"size": 1, "inner": {"p": 1, "q": 1}, "items": [1], "area": 2}


@pytest.mark.parametrize("body", ["{<<<: *a, inner: {q: 9}, items: [9]}", "{inner: {q: 9}, items: [9], <<<: *a}"])
def test_a_deep_merge_is_local_first_wherever_it_stands(body):
    assert merged(body) == {"inner": {"q": 9, "p": 1}, "items": [9, 1], "size": 1}


def test_the_sources_of_a_deep_merge_are_merged_among_themselves():
    assert merged("{<<<: [*a, *b], items: [9]}") == {
        "items": [9, 1, 2],
        "size": 1,
        "inner": {"p": 1, "q": 1, "r": 2},
        "area": 2,
    }


@pytest.mark.parametrize("key", ["<<", "<<<"])
def test_thousands_of_sources_are_merged_at_once(key):
    sources = ", ".join(f"{{k{i}: 1, l: [{i}], m: {{n{i}: 1}}}}" for i in range(4000))
    found = merged(f"{{{key}: [{sources}]}}")
    assert len(found) == 4002
    assert len(found["l"]) == len(found["m"]) == (1 if key == "<<" else 4000)


def test_nomerge_values_stay_as_written():
    assert merged("{<<<: *a, items: !nomerge [9], inner: !nomerge {z: 9}}") == {
        "items": [9],
        "inner": {"z": 9},
        "size": 1,
    }


def test_a_nomerge_value_of_the_source_is_not_concatenated():
    tree = parse_yaml("x: &x {l: !nomerge [1]}\ny: {<<<: *x, l: [2]}\nz: {<<<: *x}\n", "f.yaml")
    assert to_python(tree) == {"x": {"l": [1]}, "y": {"l": [2]}, "z": {"l": [1]}}


def test_nomerge_leaves_no_tag_behind():
    assert "nomerge" not in repr(parse_yaml("a: !nomerge [1]\nb: {c: !nomerge {d: 1}}", "f.yaml"))


def test_the_local_tag_stays():
    node = get_value(parse_yaml("x: &x {size: 1}\nn: !Memory {<<: *x}", "f.yaml"), ("n",))
    assert isinstance(node, RawMap)
    assert node.tag == "Memory"


def test_merged_keys_know_where_they_were_written():
    node = get_value(parse_yaml("x: &x {size: 1}\nn: {<<: *x, area: 2}", "f.yaml"), ("n",))
    assert isinstance(node, RawMap)
    assert [at.line if at else None for at in node.key_at] == [2, 1]


def test_a_quoted_merge_key_is_a_key():
    assert to_python(parse_yaml('{"<<": 3}', "f.yaml")) == {"<<": 3}


@pytest.mark.parametrize("value", ["3", "[3]", "~", "[[{a: 1}]]", "text"])
@pytest.mark.parametrize("key", ["<<", "<<<"])
def test_only_dictionaries_can_be_merged(key, value):
    with pytest.raises(SpecError, match=f"f.yaml:2:.*merge key {key} must be a dictionary or a list of them, got"):
        parse_yaml(f"a: 1\n{key}: {value}", "f.yaml")


@pytest.mark.parametrize("keys", ["<<: *a, <<<: *b", "<<: *a, <<: *b", "<<<: *b, <<: *a"])
def test_only_one_merge_key_is_allowed(keys):
    with pytest.raises(SpecError, match=r"f.yaml:4:.*only one merge key is allowed(.|\n)*\[\*first, \*second\]"):
        merged(f"{{{keys}}}")


@pytest.mark.parametrize("value", ["3", "", '"text"'])
def test_nomerge_is_only_for_lists_and_dictionaries(value):
    with pytest.raises(SpecError, match="!nomerge is only for lists and dictionaries"):
        parse_yaml(f"a: !nomerge {value}", "f.yaml")


TREES = st.recursive(
    st.integers(0, 3), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner)
)
TABLES = st.dictionaries(st.sampled_from("abcd"), TREES, max_size=4)


def deep(*tables, before=True):
    """The local dictionary `tables[0]` with the others as sources of its deep merge."""
    local, *sources = [to_yaml(from_python({"x": table})).splitlines()[0:] for table in tables]
    text = "".join(f"s{i}: &s{i}\n" + "".join(f"  {line}\n" for line in lines) for i, lines in enumerate(sources))
    merge = ["<<<: [" + ", ".join(f"*s{i}" for i in range(len(sources))) + "]"]
    body = [*merge, *local] if before else [*local, *merge]
    text += "new:\n" + "".join(f"  {line}\n" for line in body)
    return to_python(get_value(parse_yaml(text, "f.yaml"), ("new", "x")))


def defined(local, source):
    """The deep merge as its definition says it."""
    if isinstance(local, dict) and isinstance(source, dict):
        both = {key: defined(value, source[key]) if key in source else value for key, value in local.items()}
        return both | {key: value for key, value in source.items() if key not in local}
    if isinstance(local, list) and isinstance(source, list):
        return local + source
    return local


@given(TABLES, TABLES, st.booleans())
def test_a_deep_merge_is_what_its_definition_says(local, source, before):
    assert deep(local, source, before=before) == defined(local, source)


@given(TABLES, TABLES, TABLES)
def test_several_sources_are_merged_among_themselves_first(local, first, second):
    assert deep(local, first, second) == defined(local, defined(first, second))


@given(TABLES)
def test_the_empty_dictionary_changes_nothing_in_a_deep_merge(table):
    assert deep(table, {}) == deep({}, table) == table
