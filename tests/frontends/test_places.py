import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.frontends.yaml.include import Documents
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.frontends.yaml.parsing.places import Places
from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.page import Page
from einmap.spec.raw import RawMap


def rendered(text, **define):
    return Documents(define).source("f.yaml", None).rendered(text)


def lines(text, **define):
    """For each visible line of the rendered text, the line of the template."""
    found = rendered(text, **define)
    source = found.places.lines
    assert source is not None
    return {line: source[i] for i, line in enumerate(found.text.split("\n")) if line.strip()}


def test_a_text_without_templates_is_its_own_source():
    assert rendered("a: 1\n").places == Places("f.yaml")
    assert str(Places("f.yaml").at(2, 3)) == "f.yaml:2:3"


def test_lines_that_move_are_found_in_the_template():
    text = "a: 1\n{% for i in range(2) %}\nb{{ i }}: 2\n{% endfor %}\n{# a\n#}\nc: 3\n"
    assert lines(text) == {"a: 1": 1, "b0: 2": 3, "b1: 2": 3, "c: 3": 7}


def test_lines_are_found_when_spaces_are_cut():
    text = "{%- set x = 1 -%}\n\na: 1\n{%- for i in range(2) -%}\n\n  {{ i }}: 1\n{% endfor %}\n\nb: {{ x }}"
    assert lines(text)["b: 1"] == 9
    assert set(lines(text).values()) <= {3, 6, 9}


def test_lines_that_begin_with_an_expression_are_found():
    assert lines("x: 1\n{{ name }}: 2\n{{ name }}2: {{ name }}\n", name="n") == {"x: 1": 1, "n: 2": 2, "n2: n": 3}


def test_lines_of_a_macro_have_no_place_in_the_text():
    text = "{% macro m() %}\nb: 1\n{% endmacro %}a: 1{{ m() }}c: 1\n"
    found = rendered(text).places
    assert str(found.at(2, 1)) == "f.yaml (rendered):2:1"
    assert str(found.at(3, 2)) == "f.yaml:3"


def test_text_in_blocks_goes_through_filters_unchanged():
    text = "{% set x %}ab\ncd{% endset %}{{ x | length }} {% macro m() %}ef{% endmacro %}{{ m() | upper }}"
    assert rendered(text).text == "5 EF"


def test_columns_are_given_up_to_what_the_template_puts_in():
    places = rendered("abc: 1\nab: {{ 'cd' }}, e: 1\n").places
    assert str(places.at(1, 6)) == "f.yaml:1:6"
    assert str(places.at(2, 5)) == "f.yaml:2:5"
    assert str(places.at(2, 9)) == "f.yaml:2"
    assert str(places.at(9, 1)) == "f.yaml (rendered):9:1"


@pytest.mark.parametrize("text", ["{{ 1 }}\n  a: [\n", "{% if 1 %}\n\n{% endif %}\na: *b"])
def test_errors_of_yaml_have_the_line_of_the_template(text):
    found = rendered(text)
    with pytest.raises(Exception, match=rf"f\.yaml:{text.rstrip().count(chr(10)) + 1}"):
        parse_yaml(found.text, found.places)


@given(st.lists(st.text("ab: -", max_size=5), min_size=1, max_size=6), st.integers(1, 50))
def test_a_page_names_the_lines_of_constant_text(parts, start):
    text = "\n".join(parts)
    page = Page(Work())
    page.data(text, start)
    places = page.places("\n" * (start - 1) + text, "f.yaml")
    assert page.text() == text
    assert list(places.lines) == list(range(start, start + len(parts)))
    assert all(column == len(part) + 1 for column, part in zip(places.columns, parts, strict=True))


@given(
    st.lists(
        st.sampled_from(
            ["k{}: 1", "{{% if true %}}k{}: 1{{% endif %}}", "{{% for i in [1] %}}\nk{}: 1\n{{% endfor %}}"]
        )
    )
)
def test_every_key_is_placed_where_the_template_has_it(parts):
    text = "\n".join(part.format(i) for i, part in enumerate(parts)) + "\nlast: 1"
    found = rendered(text)
    tree = parse_yaml(found.text, found.places)
    assert isinstance(tree, RawMap)
    for key, at in zip(tree.keys(), tree.key_at, strict=True):
        assert at is not None
        assert f"{key}: 1" in text.split("\n")[(at.line or 0) - 1]
