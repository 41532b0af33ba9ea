"""The one way from a frame to a table: units, parts of a whole, what is left out, and the same table in each medium."""

from io import StringIO

import pytest

from einmap.report.frames.frame import Frame, columns
from einmap.report.frames.shown import facts, shown, toned
from einmap.report.html.page import fragment
from einmap.report.text.console import SafeConsole
from einmap.report.text.layout import section

FRAME = Frame(
    "parts",
    columns("text name; number energy [J] | share; integer times | copies; truth fits; text reason"),
    (("A", 2e-6, 0.5, 4096, 1, True, None), ("B", 1e-9, 0.0005, 7, 1, False, None)),
)


def test_cells_have_the_units_of_their_columns_and_columns_of_nothing_are_left_out():
    table = shown(FRAME)
    assert table.columns == ["name", "energy", "share", "times", "copies", "fits"]
    assert table.rows == [("A", "2 µJ", "50%", "4,096", "1", "yes"), ("B", "1 nJ", "<1%", "7", "1", "no")]
    assert (table.left, table.whole) == ([0, 5], [1])


def test_chosen_columns_have_titles_one_unit_bars_and_formats():
    titles = {"share": "", "energy [J]": "paid", "copies": "of"}
    table = shown(FRAME, None, titles, scaled=["energy [J]"], bars=["share"], quiet={"copies": 1})
    assert table.columns == ["", "paid\nµJ"]
    assert table.rows == [("50%", "2.00"), ("<1%", "<0.01")]
    assert table.bars == {0: [0.5, 0.0005]}
    assert shown(FRAME, None, {"times": "n"}, formats={"times": "{:.1f}".format}).rows == [("4096.0",), ("7.0",)]
    assert toned(FRAME.column("fits"), {False: "bad"}) == {1: "bad"}
    assert FRAME.only("name", "B").rows == FRAME.rows[1:]


@pytest.mark.parametrize(("unit", "text"), [("J", "3 mJ"), ("s", "3 ms"), ("", "3e-3"), ("part", "<1%")])
def test_a_row_may_name_the_unit_of_its_quantity(unit, text):
    frame = Frame("changes", columns("text unit; number after | ratio"), ((unit, 3e-3, 0.5),))
    assert shown(frame, None, {"after": "", "ratio": ""}).rows == [(text, "0.5")]


HOSTILE = Frame("x", columns("text name; number share"), (("<b>\x1b[31m", 0.25), ("second", 1.0), ("third", 0.0)))


def test_terminal_and_html_show_the_same_table_and_say_what_is_left_out():
    table = shown(HOSTILE, 2, bars=["share"])
    file = StringIO()
    SafeConsole(file=file, width=80, plain=True).print(section("Names", table))
    html = fragment([table])
    for text in (file.getvalue(), html):
        assert "\x1b" not in text
        assert all(part in text for part in ("\\x1b[31m", "25%", "second", "... and 1 more;"))
        assert "third" not in text
    assert "<b>" in file.getvalue()
    assert "&lt;b&gt;" in html and "--part:0.2500" in html and 'scope="row"' in html


def test_one_row_is_shown_as_names_and_values_without_a_head():
    table = facts(FRAME.only("name", "A"))
    assert list(table.rows[1]) == ["energy", "2 µJ"]
    assert "<thead>" not in fragment([table])
