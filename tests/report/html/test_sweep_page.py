"""The page of a sweep: its sections, what cannot get into it, and that it is the same each time."""

import json

import pytest
from tests.report.html.reports import HOSTILE
from tests.report.html.test_page import Elements

from einmap.report.html.figures import figure_files
from einmap.report.html.page import to_html
from einmap.report.html.pages.sweep_page import sweep_page
from einmap.report.html.parts import Choices, Figure
from einmap.sweep.outcome import Outcome, failure
from einmap.sweep.result import PointResult
from einmap.sweep.store.store import KeptSweep, Outline


def page_of(objectives=("energy", "latency"), text=HOSTILE, failed=1, done=6):
    """Points whose energy falls and whose latency grows, but for one that is beaten; and failed ones."""
    weights = {text: 2.0}
    points = []
    for n in range(done):
        energy, latency, parts = 8.0 / (n + 1), n + 1.0 + 9 * (n == 1), {text: 3.0, "b": 1.0}
        cost = Outcome(
            "done", "proven", energy, latency, 0.0, 1e-6, optimal=True, energy_by_component=parts, mapping=text
        )
        points.append(PointResult(n, {"size": n * 8, "mode": text}, {text: cost}, weights, objectives))
    for n in range(done, done + failed):
        points.append(
            PointResult(n, {"size": n * 8, "mode": text}, {text: failure("crash", text)}, weights, objectives)
        )
    outline = Outline(text, ("size", "mode"), weights, objectives, "map", "energy")
    return sweep_page(KeptSweep(1, outline, len(points)), points)


def test_sections_and_what_is_in_them():
    page = page_of()
    assert [s.key for s in page.sections] == ["summary", "front", "axes", "sensitivity", "points", "failed"]
    front = page.sections[1].parts[0]
    assert isinstance(front, Choices)
    assert len(front.options) == 6  # those of the front first; of six points one is beaten
    marks = front.figure.plot["data"]["values"]
    assert [(row["index"], row["front"]) for row in marks] == [(5, False), *((i, True) for i in range(5))]
    lines = page.sections[2].parts[0]
    assert isinstance(lines, Figure)
    rows = lines.plot["layer"][0]["data"]["values"]
    assert len(rows) == 6 * 4  # two axes, two objectives
    assert {row["at"] for row in rows if row["axis"] == "size"} == {0, 0.2, 0.4, 0.6, 0.8, 1}
    assert all(0 <= row["at"] <= 1 for row in rows)


def test_of_many_points_those_of_the_front_and_some_others_can_be_chosen(monkeypatch):
    monkeypatch.setattr("einmap.report.html.pages.sweep_page.MOST_CHOSEN", 3)
    front = page_of().sections[1].parts[0]
    assert isinstance(front, Choices)
    assert len(front.options) == 3
    indices = [row["index"] for row in front.figure.plot["data"]["values"]]
    assert sorted(index for index in indices if index is not None) == [0, 1, 2]
    assert indices.count(None) == 3


def test_texts_of_others_are_text_and_the_page_is_the_same_each_time():
    text = to_html(page_of())
    assert text == to_html(page_of())
    elements = Elements(text)
    assert "img" not in {tag for tag, _ in elements.found}
    assert len(elements.scripts) == len(Elements(to_html(page_of(text="plain"))).scripts)


@pytest.mark.parametrize("objectives", [("energy",), ("area", "energy"), ("energy", "latency", "area")])
def test_plots_are_drawn_for_any_number_of_objectives(objectives):
    names = [name for name, _ in figure_files(page_of(objectives, text="plain"))]
    assert {"sweep-front.svg", "sweep-axes.svg"} <= {*names}


def test_a_sweep_without_a_finished_point_has_a_page():
    page = page_of(done=0)
    assert [s.key for s in page.sections] == ["summary", "points", "failed"]
    assert json.dumps(to_html(page))
