from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einmap import SpecError
from einmap.einsum.spaces.projection import Affine, parse_affine
from einmap.einsum.spaces.space import bounds, index_ends, index_values, linear_cut, linked, parse_constraint, within


def space(variables, *texts):
    return bounds(variables, [parse_constraint(text) for text in texts], "Einsum 'E'")


def test_a_box_has_the_bounds_as_written():
    found = space("mn", "0 <= m < 4", "2 <= n <= 9")
    assert dict(found.low) == {"m": 0, "n": 2}
    assert dict(found.high) == {"m": 3, "n": 9}
    assert found.points == 4 * 8
    assert found.is_box


def test_bounds_may_be_offset_and_negative():
    assert dict(space("m", "2 <= m < 4").low) == {"m": 2}
    assert dict(space("m", "-2 <= m < 4").low) == {"m": -2}
    assert space("m", "-2 <= m < 4").points == 6


def test_a_rank_without_size_does_not_bound():
    found = space("pr", "0 <= p < 4", "0 <= r < 3")
    assert found.points == 12


def test_a_rank_that_cuts_corners_makes_the_space_no_box():
    index = within(parse_affine("p + r"), 4)
    found = bounds("pr", [parse_constraint("0 <= p < 4"), parse_constraint("0 <= r < 3"), index], "Einsum 'O'")
    assert (found.points, found.is_box) == (9, False)
    wide = within(parse_affine("p + r"), 6)
    found = bounds("pr", [parse_constraint("0 <= p < 4"), parse_constraint("0 <= r < 3"), wide], "Einsum 'O'")
    assert (found.points, found.is_box) == (12, True)


def test_a_bound_may_follow_from_another_rank():
    found = bounds("pr", [within(parse_affine("p + r"), 10), parse_constraint("0 <= r < 3 and p >= 0")], "E")
    assert dict(found.high) == {"p": 9, "r": 2}
    assert found.points == 27


def test_modulo_or_and_not():
    assert space("p", "0 <= p < 10 and p mod 2 = 0").points == 5
    assert space("p", "0 <= p < 10", "p < 2 or p > 7").points == 4
    assert space("p", "0 <= p < 10", "not p = 3").points == 9


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["0 <= m"], "'m' of Einsum 'E' has no bound"), (["0 <= m < 4", "m > 7"], "empty"),
        (["0 <= m < 4", "0 <= q < 4"], "'q' in the bound"), (["0 <= m < 4", "m mod 2 = 3"], "empty"),
    ],
)  # fmt: skip
def test_a_space_that_cannot_be(texts, said):
    with pytest.raises(SpecError, match=said):
        space("m", *texts)


@pytest.mark.parametrize(
    "text",
    [
        "0 <= m << 4",
        "m ** 2 < 3",
        "f(m) < 3",
        "m != 3",
        "0 <",
        "m < 1.5",
        "m in n",
        # a number is not a truth value, and the other way round
        "m",
        "m + 1",
        "4",
        "0 <= m < 4 and m",
        "not m",
        "(0 <= m) < 4",
        "0 <= m < 4 and (m < 2) + 1 = 1",
        "-(m < 2) = 0",
    ],
)
def test_what_is_no_bound(text):
    with pytest.raises(SpecError, match="no bound of rank variables"):
        parse_constraint(text)


def test_nothing_is_taken_modulo_zero():
    with pytest.raises(SpecError, match="mod"):
        space("m", "0 <= m < 4 and m mod 0 = 1")


def test_an_enormous_space_is_bounded_and_counted_where_two_variables_are_linked():
    found = space("mn", "0 <= m < 100000", "0 <= n < 100000", "m + n < 150000")
    assert found.points == 100000**2 - 50000 * 49999 // 2
    assert not found.is_box
    found = space("mnk", *(f"0 <= {v} < 1000" for v in "mnk"), "m + n + k < 1500")
    assert found.points is None
    assert not found.is_box


linear = st.builds(
    lambda a, b, op, c: f"{a}*p + {b}*q {op} {c}",
    st.integers(-2, 2),
    st.integers(-2, 2),
    st.sampled_from(["<", "<=", ">", ">=", "="]),
    st.integers(-6, 6),
)


@given(st.lists(linear, max_size=3))
def test_the_points_are_those_that_satisfy_every_bound(texts):
    box = ["-4 <= p < 5", "-3 <= q < 6"]
    rules = [text.replace(" = ", " == ") for text in texts]
    points = [
        (p, q)
        for p, q in product(range(-4, 5), range(-3, 6))
        if all(eval(rule, {"p": p, "q": q}) for rule in rules)  # the test's own texts
    ]
    if not points:
        with pytest.raises(SpecError, match="empty"):
            space("pq", *box, *texts)
        return
    found = space("pq", *box, *texts)
    assert found.points == len(points)
    assert dict(found.low) == {"p": min(p for p, _ in points), "q": min(q for _, q in points)}
    assert dict(found.high) == {"p": max(p for p, _ in points), "q": max(q for _, q in points)}
    width = [dict(found.high)[v] - dict(found.low)[v] + 1 for v in "pq"]
    assert found.is_box == (len(points) == width[0] * width[1])


def test_bounds_are_exact_where_floats_are_not():
    found = space("m", f"{10**30 + 1} <= m < {10**30 + 4}")
    assert (dict(found.low), dict(found.high), found.points) == ({"m": 10**30 + 1}, {"m": 10**30 + 3}, 3)
    found = space("mn", f"0 <= m < {2**60 + 1}", "n <= 3*m + 1", f"3*m + 1 < {3 * 2**60 + 2}", "0 <= n", "n < 2")
    assert dict(found.high) == {"m": 2**60, "n": 1}


def test_points_are_counted_exactly_at_large_values():
    start = 10**30
    found = space("mn", f"{start} <= m < {start + 4}", "0 <= n < 4", f"m + n >= {start + 3}")
    assert (found.is_box, found.points) == (False, 10)
    assert found.low == (("m", start), ("n", 0))


def test_a_bound_on_one_side_is_no_bound():
    with pytest.raises(SpecError, match="'m' of Einsum 'E' has no bound"):
        space("m", f"m < {10**400}")


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-9, 9)), max_size=3))
def test_every_point_of_a_space_lies_in_its_bounds(parts):
    texts = ["-4 <= m < 5", "-4 <= n < 5", *(f"{a}*m + {b}*n + {c} >= 0" for a, b, c in parts)]
    inside = [(m, n) for m, n in product(range(-4, 5), repeat=2) if all(a * m + b * n + c >= 0 for a, b, c in parts)]
    if not inside:
        with pytest.raises(SpecError, match="empty"):
            space("mn", *texts)
        return
    found = space("mn", *texts)
    low, high = dict(found.low), dict(found.high)
    assert found.points == len(inside)
    assert (low["m"], high["m"]) == (min(m for m, _ in inside), max(m for m, _ in inside))
    assert (low["n"], high["n"]) == (min(n for _, n in inside), max(n for _, n in inside))


# what cuts off points


def test_cuts_are_what_the_box_does_not_say():
    found = space(["k1", "k0", "m"], "0 <= k1 < 3", "0 <= k0 < 4", "0 <= m < 2", "4*k1 + k0 < 10")
    assert found.cuts == ("4*k1 + k0 < 10",)
    assert found.points == 10 * 2
    assert space("pr", "0 <= p < 4", "0 <= r < 3", "p + r < 6").cuts == ()
    assert space("p", "0 <= p < 10", "p mod 2 = 0").cuts == ("p % 2 == 0",)


@pytest.mark.parametrize(
    "text", ["9 >= 4*p + r", "not 4*p + r > 9", "4*p < 10 - r", "-r > 4*p - 10", "4*p + r < 10 and r < 4"]
)
def test_a_cut_has_one_form_however_it_is_written(text):
    found = space("pr", "0 <= p < 3", "0 <= r < 4", text).cuts
    assert found == (("4*p + r < 10",) if "not" not in text else ("not 4 * p + r > 9",))


def test_only_variables_that_bounds_link_are_enumerated_together():
    """A box of 10**12 points, in three groups that are small."""
    sizes = [f"0 <= {v} < 10000" for v in "mnk"]
    found = space("mnkpr", *sizes, "0 <= p < 3", "0 <= r < 4", "4*p + r < 10", "m + 5 >= 7")
    assert found.points == 9998 * 10000 * 10000 * 10
    assert dict(found.low)["m"] == 2


def test_groups():
    cuts = [parse_constraint(text) for text in ("a + b < 3", "c + d < 3", "d + a < 4", "f < 1")]
    assert [sorted(group) for group in linked("abcdef", cuts)] == [["e"], ["a", "b", "c", "d"], ["f"]]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_ends_of_an_index_are_those_of_the_points(data):
    extents = {v: data.draw(st.integers(1, 4)) for v in "abc"}
    low = {v: data.draw(st.integers(-2, 2)) for v in "abc"}
    index = Affine(tuple((v, a) for v in "abc" if (a := data.draw(st.integers(-3, 3)))), data.draw(st.integers(-5, 5)))
    texts = data.draw(st.lists(st.sampled_from(["a + b < 4", "2*a - c >= 0", "b % 2 == 0", "c < 3"]), max_size=2))
    values = []
    for point in product(*(range(low[v], low[v] + n) for v, n in extents.items())):
        at = dict(zip("abc", point, strict=True))
        if all(eval(text, {}, at) for text in texts):
            values.append(index.constant + sum(a * at[v] for v, a in index.terms))
    if values:
        assert index_ends(index, low, extents, texts) == (min(values), max(values))
        assert sorted(index_values(index, low, extents, texts)) == sorted(values)


@pytest.mark.parametrize(
    ("cut", "parts"),
    [
        ("4*k1 + k0 < 10", ("4*k1 + k0", "< 10")), ("m - n >= -2", ("m - n", ">= -2")), ("p % 2 == 0", None),
        ("not p > 3", None), ("p < 3 or r < 2", None),
    ],
)  # fmt: skip
def test_cuts_that_are_linear(cut, parts):
    found = linear_cut(cut)
    assert (found and (str(found[0]), found[1])) == parts
