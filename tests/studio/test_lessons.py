"""Lessons of the studio: each begins unsolved, is solved by its moves, and shows numbers that are computed."""

import json

import pytest

from einmap import load
from einmap.studio.lessons import LESSONS
from einmap.studio.session import Session

SOLVED = {
    "stationary": ["interchange nodes[2] nodes[3] nodes[1]", "hoist B@GlobalBuffer above m"],
    "four_cases": ["hoist B@GlobalBuffer above m#1"],
    "bypass": ["bypass A@GlobalBuffer", "bypass B@GlobalBuffer", "bypass Z@GlobalBuffer"],
}
"""Moves that solve each lesson."""


@pytest.fixture
def of():
    return Session(load("simple", "matmul", "simple_matmul"))


def ask(of, do, **fields):
    return of.handle(json.dumps({"do": do, **fields}))


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_passed_by_its_last_move_and_not_before(of, name):
    state = ask(of, "lesson", name=name)
    assert {row["change"] for row in state["numbers"]} == {""}  # nothing to compare with: it is another product
    lesson = state["lesson"]
    for step in SOLVED[name]:
        assert not lesson["passed"]
        lesson = ask(of, "move", text=step)["lesson"]
    assert lesson["passed"]
    assert not ask(of, "undo")["lesson"]["passed"]
    assert ask(of, "lesson")["lesson"] is None


def test_numbers_of_the_loop_orders_are_those_worked_out_by_hand(of):
    head, *rows = ask(of, "lesson", name="stationary")["lesson"]["table"]
    assert [row[:2] for row in rows] == [["m n k", "Z"], ["m k n", "A"], ["n k m", "B"], ["k m n", "A"]]
    for order, stays, *values, _energy in rows:
        assert values["ABZ".index(stays)] == "64"  # each of 8 x 8 values once
        moved = [value for tensor, value in zip("ABZ", values, strict=True) if tensor != stays]
        assert sorted(moved) == (["512", "512"] if stays == "Z" else ["512", "960"]), (
            order
        )  # 8 x 8 x 8, and 448 of Z back
    assert head[1] == "what stays"


def test_an_unknown_lesson_is_an_error_and_another_mapping_is_not_a_solution(of):
    assert "there is no lesson" in ask(of, "lesson", name="x")["message"]
    ask(of, "lesson", name="bypass")
    state = ask(of, "open", text=ask(Session(load("simple", "matmul", "simple_matmul")), "export", what="spec")["text"])
    assert not state["lesson"]["passed"]


def test_a_mapping_is_exported_as_code_as_a_report_and_as_a_whole(of):
    assert "int main(" in ask(of, "export", what="c")["text"]
    pytest.importorskip("vl_convert")
    assert ask(of, "export", what="html")["text"].lower().startswith("<!doctype html>")
    ask(of, "move", text="split k 8")
    other = Session(LESSONS["bypass"].begin())
    state = ask(other, "open", text=ask(of, "export", what="spec")["text"])
    assert [row["value"] for row in state["numbers"]] == [row["value"] for row in ask(of, "look")["numbers"]]
