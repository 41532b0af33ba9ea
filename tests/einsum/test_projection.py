import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap import SpecError
from einmap.einsum.spaces.projection import Affine, Relevance, footprint, parse_affine, relevance


@pytest.mark.parametrize(
    ("text", "terms", "constant"),
    [
        ("p", (("p", 1),), 0), ("2*p + r", (("p", 2), ("r", 1)), 0), ("2p - 1", (("p", 2),), -1),
        ("p*2 + 3*(q - r)", (("p", 2), ("q", 3), ("r", -3)), 0), ("7", (), 7), ("p - p", (), 0),
        ("-p + 3", (("p", -1),), 3),
    ],
)  # fmt: skip
def test_an_index_is_a_sum_of_terms(text, terms, constant):
    assert parse_affine(text) == Affine(terms, constant)


@pytest.mark.parametrize(
    "text", ["p*q", "p/2", "floor(p/2)", "p mod 4", "p**2", "1.5*p", "", "p +", "True", "p if q else r"]
)
def test_anything_else_is_refused(text):
    with pytest.raises(SpecError, match="affine"):
        parse_affine(text)


def test_a_deeply_nested_index_is_refused_not_followed():
    with pytest.raises(SpecError, match="affine"):
        parse_affine("(" * 500 + "p" + ")" * 500 + "+1" * 500)


def test_the_extent_of_an_index_is_from_its_smallest_to_its_largest_value():
    assert parse_affine("2*p + r").extent({"p": 4, "r": 3}) == 9
    assert parse_affine("2*p + r + 5").extent({"p": 4, "r": 3}) == 9
    assert parse_affine("p - r").extent({"p": 8, "r": 3}) == 10
    assert parse_affine("3").extent({}) == 1


affine = st.dictionaries(st.sampled_from("pqrs"), st.integers(-4, 4).filter(bool)).flatmap(
    lambda terms: st.builds(Affine, st.just(tuple(terms.items())), st.integers(-5, 5))
)


@given(affine)
def test_an_index_is_read_back_as_it_is_written(index):
    assert parse_affine(str(index)) == index


@given(affine, st.fixed_dictionaries({v: st.integers(1, 4) for v in "pqrs"}))
def test_the_extent_is_that_of_all_values(index, extents):
    values = {index.constant}
    for variable, a in index.terms:
        values = {value + a * i for value in values for i in range(extents[variable])}
    assert index.extent(extents) == max(values) - min(values) + 1


IMAGE = (("C", parse_affine("c")), ("H", parse_affine("2*p + r")), ("W", parse_affine("3*q")))


def test_a_variable_alone_or_scaled_is_fully_relevant():
    assert relevance(IMAGE, "c") is Relevance.FULL
    assert relevance(IMAGE, "q") is Relevance.FULL


def test_a_variable_in_a_sum_is_partially_relevant():
    assert relevance(IMAGE, "p") is Relevance.PARTIAL
    assert relevance(IMAGE, "r") is Relevance.PARTIAL


def test_a_variable_that_does_not_occur_is_irrelevant():
    assert relevance(IMAGE, "m") is Relevance.NONE


def test_the_first_index_with_a_variable_decides():
    assert relevance((("A", parse_affine("p")), ("B", parse_affine("p + q"))), "p") is Relevance.FULL
    assert relevance((("B", parse_affine("p + q")), ("A", parse_affine("p"))), "p") is Relevance.PARTIAL


def test_the_footprint_is_a_box():
    assert footprint(IMAGE, {"c": 2, "p": 2, "r": 3, "q": 2}) == 2 * (2 + 3) * 4
    assert footprint((("A", parse_affine("p")), ("B", parse_affine("p"))), {"p": 3}) == 9
