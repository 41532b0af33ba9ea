"""Names stay whole in tables that have room for them: other columns wrap between words."""

import pytest

from einmap.report.costs.cost_report import to_text
from einmap.report.text.layout import new_table


def table():
    rows = new_table("", "time", "limited by", "fills most", left=(0, 2, 3))
    rows.add_row("encoder_layer_17_out", "1.54", "MainMemory + GlobalBuffer", "GlobalBuffer <1%")
    return rows


@pytest.mark.parametrize("width", [60, 70, 80])
def test_no_name_is_broken_where_all_longest_words_fit(width):
    text = to_text(table(), width)
    assert "encoder_layer_17_out" in text
    assert text.count("GlobalBuffer") == 2
    assert max(map(len, text.split("\n"))) <= width


def test_a_table_is_laid_out_anew_for_each_width():
    rows = table()
    narrow, wide = to_text(rows, 60), to_text(rows, 100)
    assert wide == to_text(table(), 100)
    assert len(narrow.split("\n")) > len(wide.split("\n"))


def test_names_are_broken_where_nothing_else_helps():
    assert "encoder_layer_17_out" not in to_text(table(), 30)
