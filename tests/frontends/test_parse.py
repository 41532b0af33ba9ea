import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.errors import At, EinmapError, SpecError
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.frontends.yaml.parsing.scalars import resolve
from einmap.spec.raw import RawList, RawMap, RawScalar, get_value, to_python


def plain(text):
    return to_python(parse_yaml(text, "f.yaml"))


def failure(text, kind=SpecError):
    with pytest.raises(kind) as caught:
        parse_yaml(text, "f.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("-1_000", -1000),
        ("1e9", 1e9),
        ("1.", 1.0),
        (".5", 0.5),
        ("+12", 12),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("True", True),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("tRUE", "tRUE"),
        ("1__0", "1__0"),
        ("0b12", "0b12"),
        ("0x", "0x"),
        ("12:30", "12:30"),
        ("2001-01-01", "2001-01-01"),
        ("inf", "inf"),
        ("~X", "~X"),
        ("-", "-"),
    ],
)
def test_plain_words_follow_the_yaml_1_2_core_rules(text, value):
    found = resolve(text)
    assert (type(found), found) == (type(value), value)


def test_nan_is_a_number():
    value = resolve(".nan")
    assert isinstance(value, float)
    assert math.isnan(value)


def test_text_keeps_what_was_written():
    scalar = get_value(parse_yaml("a: 1_000", "f.yaml"), ("a",))
    assert isinstance(scalar, RawScalar)
    assert (scalar.value, scalar.text, scalar.quoted) == (1000, "1_000", False)


@pytest.mark.parametrize("text", ['a: "1"', "a: '1'", "a: !!str 1", "a: ! 1"])
def test_quoted_scalars_are_text(text):
    scalar = get_value(parse_yaml(text, "f.yaml"), ("a",))
    assert isinstance(scalar, RawScalar)
    assert (scalar.value, scalar.quoted) == ("1", True)


@pytest.mark.parametrize("text", ["a: |-\n  [b, 1][1]", "a: >-\n  [b,\n  1][1]"])
def test_a_block_of_text_has_no_quotes_so_it_may_be_an_expression(text):
    scalar = get_value(parse_yaml(text, "f.yaml"), ("a",))
    assert isinstance(scalar, RawScalar)
    assert (scalar.value, scalar.quoted) == ("[b, 1][1]", False)


def test_every_node_and_key_knows_its_place():
    tree = parse_yaml("a:\n  b: [1,  2]\n", "f.yaml")
    inner = get_value(tree, ("a",))
    assert isinstance(tree, RawMap)
    assert isinstance(inner, RawMap)
    assert tree.place_of("a") == At("f.yaml", 1, 1)
    assert inner.place_of("b") == At("f.yaml", 2, 3)
    assert get_value(tree, ("a", "b")).at == At("f.yaml", 2, 6)
    assert get_value(tree, ("a", "b", 1)).at == At("f.yaml", 2, 11)


def test_a_byte_order_mark_takes_no_column():
    assert parse_yaml("\ufeffa: 1", "f.yaml") == parse_yaml("a: 1", "f.yaml")


def test_node_tags_are_kept():
    assert parse_yaml("!Memory {size: 1}", "f") == RawMap((("size", RawScalar(1)),), tag="Memory")


def test_a_node_tag_alone_is_a_node_without_fields():
    assert parse_yaml("- !Compute\n", "f") == RawList((RawMap((), tag="Compute"),))


def test_keys_are_text_as_written():
    assert plain("{1: a, true: b, 'x y': c, ~: d}") == {"1": "a", "true": "b", "x y": "c", "~": "d"}


def test_an_alias_repeats_the_latest_anchor_above_it():
    assert plain("[&a 1, *a, &a 2, *a]") == [1, 1, 2, 2]


def test_an_empty_document_is_null():
    assert plain("") is None
    assert plain("# only a comment\n") is None


def test_a_directive_for_an_older_yaml_changes_nothing():
    assert plain("%YAML 1.1\n---\na: yes\nb: 010\n") == {"a": "yes", "b": 10}


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("a: 1\nb: 2\na: 3", 3, "the key 'a' is given twice, first in line 1", "remove or rename"),
        ("{a: 1, 'a': 2}", 1, "first in line 1, column 2", "remove or rename"),
        ("a: 1\nkeep: *x", 2, r"the alias \*x is not defined", "quote the value if it is text"),
        ("a: &x [*x]", 1, "stands inside the node that it names", None),
        ("keep: &x\nb: 1", 1, "the anchor &x stands at nothing", "quote the value"),
        ("keep: !x\nb: 1", 1, "the tag !x is not known", "!Memory; quote the value"),
        ("a: !!set {b}", 1, "the tag !!set is not known", None),
        ("a: !<tag:x> 3", 1, "the tag tag:x is not known", None),
        ("a: !Memory b", 1, "the tag !Memory needs a dictionary, it stands at 'b'", "quote the value"),
        ("a: !Memory [b]", 1, "needs a dictionary, it stands at a list", None),
        ("a: !!int b", 1, "not of the type that its tag !!int says", None),
        ("a:\n\tb: 1", 2, "tabs are not allowed", "indent with spaces"),
        ("a:\n  b: 1\n\tc: 2", 3, "tabs are not allowed", "indent with spaces"),
        ("a: 1\n---\nb: 2", 2, "only one document per file", "file of its own"),
        ("operator: >=\nvalue: 3", 1, "not valid YAML", 'operator: ">="'),
        ("operator: >\nvalue: 3", 1, "starts a block of text", 'operator: ">="'),
        ("a: 1\nb: {operator: >=, value: 3}", 2, "not valid YAML", 'operator: ">="'),
        ("x:\n- O[p] = I[W: p+r] * F[r]", 2, r"is not a key", "quotes around Einsum strings"),
        ("einsum: O[p] = I[W: p+r]", 1, "not valid YAML", "quotes around Einsum strings"),
        ("{einsum: O[p] = I[W: p+r]}", 1, "not valid YAML", "quotes around Einsum strings"),
        ("a: b: c", 1, "not valid YAML", 'text that contains ": "'),
        ("a: @b", 1, "not valid YAML", "text that starts with @"),
        ("a: [1, 2\nb: 3", 2, "not valid YAML", None),
        ("? [1, 2]\n: 3", 1, "cannot be a key", "quote"),
        ("a: 1\nb: \x07", 2, r"U\+0007 is not allowed", "escape"),
        ("a: 1e999", 1, "too large for a float", None),
        ("a: " + "9" * 5000, 1, "cannot read the number 9999", None),
    ],
)
def test_bad_yaml_is_explained(text, line, message, hint):
    error = failure(text)
    assert error.at is not None
    assert (error.at.file, error.at.line) == ("f.yaml", line)
    with pytest.raises(SpecError, match=message):
        raise error
    if hint:
        assert hint in (error.hint or "")


@pytest.mark.parametrize("text", ["!include x.yaml", "!includedir d", "!include [x.yaml]"])
def test_includes_need_a_file_to_stand_in(text):
    assert "needs a path and a file to stand in" in str(failure(f"a: {text}"))


def test_repeated_aliases_cannot_make_an_endless_tree():
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "more than 1,000,000 values" in str(failure("\n".join(lines)))


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 5_000, "{a: " * 5_000, "? " * 5_000])
def test_deep_nesting_is_an_error_not_a_crash(text):
    assert "nested more than 100 deep" in str(failure(text))


def test_aliases_count_for_the_depth():
    deep = "[" * 60 + "]" * 60
    assert "nested more than 100 deep" in str(failure(f"- &a {deep}\n- {'[' * 60}*a{']' * 60}"))


@given(st.text(alphabet=st.sampled_from("ab1 -:[]{},&*!|>'\"%@#?\n\t~<.\\\x00\ufeff\ud800"), max_size=30))
def test_any_text_is_read_or_refused_with_a_place(text):
    try:
        parse_yaml(text, "f.yaml")
    except EinmapError as error:
        assert error.at is not None


@pytest.mark.parametrize("start", ["%YAML 1.3\n---\n", "%YAML a\n---\n", "%TAG ! x\n---\n", "%\n", '"\\UFFFFFFFF"'])
def test_malformed_directives_and_escapes_are_refused_or_ignored(start):
    try:
        parse_yaml(start, "f.yaml")
    except SpecError as error:
        assert error.at is not None


def test_the_builder_is_quick_enough_for_long_lists():
    tree = parse_yaml("- {a: 1, b: [2, 3]}\n" * 1_000, "f.yaml")
    assert isinstance(tree, RawList)
    assert len(tree.items) == 1_000
