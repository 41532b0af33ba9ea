"""Lessons of the studio: each begins unsolved, is solved by its moves, and shows numbers that are computed."""

import json

import pytest

from einmap import load
from einmap.studio.lessons import LESSONS
from einmap.studio.session import Session

SOLVED = {
    "stationary": ["interchange nodes[2] nodes[3] nodes[1]", "hoist B@GlobalBuffer above m"],
    "four_cases": ["hoist B@GlobalBuffer above m#1"],
    "partition": [
        "split k 4",
        "sink nodes[2] below k#1",
        "interchange nodes[1]",
        "hoist B@GlobalBuffer above m",
        "spread k#2 MAC.lanes",
    ],
    "systolic": ["sink IA@InputBuffer below n#1", "interchange nodes[1]", "hoist W@WeightBuffer above m#1"],
    "spread": ["hoist B@GlobalBuffer above m", "hoist A@GlobalBuffer above n", "hoist Z@GlobalBuffer above k"],
    "bypass": ["bypass A@GlobalBuffer", "bypass B@GlobalBuffer", "bypass Z@GlobalBuffer"],
}
"""Moves that solve each lesson."""
RIGHT = {
    "delayed": "reduce-scatter",  # 3/4 of 16 x 16 values; 3/4 of 1024 x 16 where B is gathered
    "parallel": "512",  # twice 3/4 of tokens x 64, against 3/4 of two weights of 64 x 256: equal at 256
    "algorithms": "C",  # 64 x 4096 beside 4096 x 4096: B goes by once, and C is not to come again for each part of k
}
"""Answers, worked out by hand."""


@pytest.fixture
def of():
    return Session(load("simple", "matmul", "simple_matmul"))


def ask(of, do, **fields):
    return of.handle(json.dumps({"do": do, **fields}))


def test_every_lesson_has_a_task_that_is_solved_here():
    assert {*SOLVED, *RIGHT} == {*LESSONS}


@pytest.mark.parametrize("name", SOLVED)
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


def test_to_begin_again_in_a_lesson_gives_the_mapping_of_the_lesson(of):
    own = ask(of, "text")["yaml"]
    ask(of, "lesson", name="stationary")
    begun = ask(of, "text")["yaml"]
    ask(of, "move", text=SOLVED["stationary"][0])
    moved = ask(of, "text")["yaml"]
    state = ask(of, "reset")
    assert (state["lesson"]["name"], ask(of, "text")["yaml"]) == ("stationary", begun)
    ask(of, "undo")
    assert ask(of, "text")["yaml"] == moved
    ask(of, "lesson")
    ask(of, "reset")
    assert ask(of, "text")["yaml"] == own


def test_numbers_of_the_loop_orders_are_those_worked_out_by_hand(of):
    head, *rows = ask(of, "lesson", name="stationary")["lesson"]["tables"][0]
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


@pytest.mark.parametrize("name", ["bypass", "spread"])
def test_other_numbers_of_the_hardware_are_not_a_solution(of, name):
    fields = [f for one in ask(of, "lesson", name=name)["architecture"] for f in one["fields"]]
    for field in fields:
        if "energy" in field["name"]:
            state = ask(of, "set", path=field["path"], value="1e-15")
    assert (state["lesson"]["passed"], state["lesson"]["other"]) == (False, True)
    for step in SOLVED[name]:
        assert not ask(of, "move", text=step)["lesson"]["passed"]
    assert not ask(of, "reset")["lesson"]["other"]


OTHER_WAYS = {
    "stationary": [
        ["interchange nodes[1]", "interchange nodes[2]", "hoist B@GlobalBuffer above m"],  # n, k, m
        ["bypass A@GlobalBuffer", "interchange nodes[2] nodes[3] nodes[1]", "hoist B@GlobalBuffer above m"],
        ["interchange nodes[2] nodes[3] nodes[1]", "split m 4", "hoist B@GlobalBuffer above m#1"],
    ],
    "four_cases": [["reshape m#1 64"], ["sink B@GlobalBuffer below k", "hoist B@nodes[6] above m#1"]],
    "bypass": [["bypass Z@GlobalBuffer", "bypass B@GlobalBuffer", "bypass A@GlobalBuffer"], ["bypass nodes[1]"]],
}
WRONG = {
    "stationary": ["interchange nodes[2] nodes[3] nodes[1]", "hoist A@GlobalBuffer above m"],
    "four_cases": ["bypass B@GlobalBuffer"],
    "bypass": ["sink A@GlobalBuffer below i", "bypass B@GlobalBuffer"],
    "partition": ["hoist B@GlobalBuffer above m"],
    "systolic": ["hoist IA@InputBuffer above m"],
    "spread": ["hoist B@GlobalBuffer above k"],
}
"""Moves that are no solution."""


@pytest.mark.parametrize(("name", "steps"), [(name, steps) for name, ways in OTHER_WAYS.items() for steps in ways])
def test_another_way_is_right_too(of, name, steps):
    ask(of, "lesson", name=name)
    answers = [ask(of, "move", text=step) for step in steps]
    assert answers[-1].get("lesson", answers[-1])["passed"]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_mapping_is_not_passed(of, name):
    ask(of, "lesson", name=name)
    for step in WRONG[name]:
        ask(of, "move", text=step)
    assert not ask(of, "look")["lesson"]["passed"]


def test_a_mapping_is_exported_as_code_as_a_report_and_as_a_whole(of):
    assert "int main(" in ask(of, "export", what="c")["text"]
    pytest.importorskip("vl_convert")
    assert ask(of, "export", what="html")["text"].lower().startswith("<!doctype html>")
    ask(of, "move", text="split k 8")
    other = Session(LESSONS["bypass"].check.begin())
    state = ask(other, "open", text=ask(of, "export", what="spec")["text"])
    assert [row["value"] for row in state["numbers"]] == [row["value"] for row in ask(of, "look")["numbers"]]


@pytest.mark.parametrize("name", RIGHT)
def test_a_question_is_answered_by_the_one_right_choice(of, name):
    before = of.mapping
    lesson = ask(of, "lesson", name=name)["lesson"]
    passed = [text for text in lesson["choices"] if ask(of, "answer", text=text)["lesson"]["passed"]]
    assert passed == [RIGHT[name]]
    assert of.mapping == before
    assert not ask(of, "answer", text="x")["lesson"]["passed"]
    assert ask(of, "lesson", name=name)["lesson"]["answer"] == ""


def tables(of, name):
    return [rows for _, *rows in ask(of, "lesson", name=name)["lesson"]["tables"]]


def test_numbers_of_plans_are_those_worked_out_by_hand(of):
    sent = [row[-1] for row in tables(of, "delayed")[0]]
    assert sent == ["3,072", "6,144", "3,072"]  # 3/4 of 64 x 64, twice in an all-reduce
    assert [row[-1] for row in tables(of, "parallel")[0]] == ["1,536", "24,576", "6,144", "24,576"]
    assert [row[:3] for row in tables(of, "algorithms")[1]] == [["SLC", "1", "C"], ["LCC", "2", "A"], ["L2", "3", "B"]]


def test_numbers_of_mappings_are_those_worked_out_by_hand(of):
    (rows,) = tables(of, "partition")
    # B once; each tile of k has the 16 sums of Z written, and all but the first read
    assert [row[1:4] for row in rows] == [["16", "496", "1"], ["16", "240", "2"], ["16", "112", "4"]]
    (rows,) = tables(of, "systolic")
    assert [row[1:4] for row in rows] == [["2,048", "8,192", "4,096"], ["16,384", "2,048", "4,096"]]
    spread, ties = tables(of, "spread")
    assert spread[0][0] == "48,000"
    assert ties[0][-1] == spread[0][-1] != ties[1][-1] == "1 x"


def test_the_listing_is_that_of_the_mapping_as_it_is(of):
    begun = ask(of, "lesson", name="systolic")["lesson"]["listing"]
    assert begun.index("mvin(InputBuffer_IA") < begun.index("mvin(WeightBuffer_W")
    for step in SOLVED["systolic"]:
        state = ask(of, "move", text=step)
    done = state["lesson"]["listing"]
    assert done.index("mvin(WeightBuffer_W") < done.index("mvin(InputBuffer_IA")
