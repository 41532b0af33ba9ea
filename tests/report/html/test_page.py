"""HTML pages: what is in them, what cannot get into them, and that they are the same for the same input."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.report.html.reports import HOSTILE, evaluation, front, fused

from einmap.errors import At, Note
from einmap.report.costs.cost_report import to_text
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.theme import LIGHT
from einmap.report.drawing.workload import workload_picture
from einmap.report.html import vega
from einmap.report.html.charts import Amount, log_ticks, stacked
from einmap.report.html.colours import ON_PAGE, values
from einmap.report.html.page import LARGE, to_html
from einmap.report.html.parts import (
    Choices,
    Code,
    Drawing,
    Figure,
    Folded,
    Option,
    Page,
    Paragraph,
    Section,
    Tabs,
    Tile,
    Tiles,
)
from einmap.report.html.sections.energy import energy_section
from einmap.report.html.sections.latency import latency_section
from einmap.report.text.layout import Table, section


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.scripts = []
        self.inside = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append((self.found[-1][1].get("type"), data))


@pytest.fixture(scope="module")
def text():
    return to_html(evaluation())


def test_a_page_has_the_sections_of_an_evaluation_in_order(text):
    assert re.findall(r'<section id="(\w+)"', text) == [
        "summary", "looptree", "energy", "latency", "roofline", "occupancy", "usage", "architecture", "workload", "inputs",
    ]  # fmt: skip
    assert "831 nJ" in text and "GlobalBuffer" in text and "<svg xmlns" in text


def test_nothing_is_fetched_and_only_the_two_scripts_run(text):
    elements = Elements(text)
    links = [v for _, attrs in elements.found for k, v in attrs.items() if k in ("src", "href", "action", "data")]
    assert all(link.startswith("#") for link in links)
    assert not {tag for tag, _ in elements.found} & {"link", "iframe", "img", "object", "form", "base"}
    assert not [k for _, attrs in elements.found for k in attrs if k.startswith("on")]
    policy = next(attrs["content"] for _, attrs in elements.found if "http-equiv" in attrs)
    running = [script for kind, script in elements.scripts if kind == "module"]
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in running]
    assert len(hashes) == 2
    assert f"default-src 'none'; script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}';" in policy
    assert re.findall(r"url\(|@import", re.search("<style>(.*?)</style>", text, re.DOTALL)[1]) == []


def test_the_same_input_gives_the_same_text_and_one_of_a_bounded_size(text):
    assert to_html(evaluation()) == text
    assert len(text) < 1_100_000


def test_the_library_can_stand_in_a_page():
    assert not re.search(r"</script|<!--", vega.library(), re.IGNORECASE)
    assert "\r" not in vega.library() and "\0" not in vega.library()


def hostile_page():
    _, spec = fused()
    rows = [Amount(HOSTILE, HOSTILE, 1.0, note=HOSTILE), Amount("B", "b", 2.0)]
    figure = Figure(HOSTILE, HOSTILE, stacked(rows, HOSTILE, HOSTILE, HOSTILE), HOSTILE, HOSTILE)
    drawing = Drawing(
        HOSTILE, HOSTILE, lambda theme: to_svg(workload_picture(spec.workload, title=HOSTILE, theme=theme)), HOSTILE
    )
    table = Table((HOSTILE, HOSTILE), ((HOSTILE, HOSTILE),), bars={1: (0.5,)}, caption=HOSTILE)
    option = Option(HOSTILE, (table, drawing))
    parts = (
        Paragraph(HOSTILE, "bad"),
        Tiles((Tile(HOSTILE, HOSTILE, HOSTILE),)),
        table,
        figure,
        drawing,
        Code(HOSTILE),
        Tabs((option, option)),
        Folded(HOSTILE, (Code(HOSTILE),)),
        Choices(HOSTILE, figure, (option, option)),
    )
    return Page(HOSTILE, HOSTILE, (Section("a", HOSTILE, parts, HOSTILE),), HOSTILE, HOSTILE, (HOSTILE,))


def test_texts_are_never_markup_script_or_invisible():
    text = to_html(hostile_page())
    elements = Elements(text)
    assert not {"img"} & {tag for tag, _ in elements.found}
    assert [attrs.get("type") for tag, attrs in elements.found if tag == "script"].count(None) == 0
    assert len([script for kind, script in elements.scripts if kind == "module"]) == 2
    for kind, script in elements.scripts:
        if kind == "application/json":
            assert "<" not in script
            json.loads(script)
    assert "\u202e" not in text and "\\u202e" in text


def test_a_large_drawing_waits_in_a_template(monkeypatch):
    drawing = Drawing("d", "D", lambda theme: to_svg(workload_picture(fused()[1].workload, theme=theme)))
    page = Page("p", "", (Section("s", "S", (drawing,)),))
    assert 'class="late"' not in to_html(page)
    monkeypatch.setattr("einmap.report.html.page.LARGE", 100)
    assert LARGE > 100 and 'class="late"' in to_html(page)
    assert "<script" not in to_html(page).replace('<script type="application/json" id="settings">', "")


def test_colours_of_drawings_are_names_that_the_page_defines(text):
    used = set(re.findall(r"var\(--([\w-]+)\)", to_svg(workload_picture(fused()[1].workload, theme=ON_PAGE))))
    assert used and used <= set(values(LIGHT))
    everywhere = set(re.findall(r"var\(--([\w-]+)\)", text.split('<script type="module">', maxsplit=1)[0]))
    assert everywhere - set(values(LIGHT)) == {"part", "width"}


def test_a_front_has_a_template_for_each_mapping():
    page, n = front()
    text = to_html(page)
    assert n > 3
    assert text.count("<template>") == n == text.count("<option")
    assert text.count('data-name="front-1"') == 2


def test_notes_name_files_without_their_folders():
    at = At("/home/someone/secret/spec.yaml", 3, 1)
    assert Page.of("", "", (), [Note("look", at)]).notes == ("spec.yaml:3:1: look",)
    assert Page.of("", "", (), [Note("n")] * 300).notes[-1] == "... and 100 more"


def test_ticks_by_powers_of_ten():
    assert log_ticks(0.5, 30) == [0.5, 1, 2, 5, 10, 20]
    assert log_ticks(0.5, 3e6) == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]


def test_a_section_without_numbers_is_left_out():
    cost, _ = fused()
    assert energy_section(replace(cost, energy=0.0)) is None
    assert latency_section(replace(cost, latency=0.0)) is None


def test_a_table_says_the_same_on_a_page_and_on_a_terminal():
    rows = (("A", "90%"), ("B\nb", "-"), ("total", ""))
    table = Table(("", "bits in\nuse"), rows, bars={1: (0.9, 0.0, 0.0)}, marked=(0,), tones={2: "strong"})
    lines = to_text(section("Memories", table), 40).splitlines()
    assert [line.split() for line in lines] == [
        ["Memories"], ["bits", "in"], ["use"], ["A", "90%", "███████████░"], ["B", "-"], ["b"], ["total"],
    ]  # fmt: skip
    text = to_html(Page("", "", (Section("s", "S", (table,)),)))
    assert '<th scope="col">bits in use</th>' in text
    assert '<span class="bar marked" style="--part:0.9000">90%</span>' in text
    assert ('<th scope="row">B; b</th>' in text, '<tr class="strong">' in text) == (True, True)
    assert text.count('class="bar') == 1  # what is not there has no bar
