"""Displays in notebooks: registered by name, made of drawings and tables, escaped, and without cost elsewhere."""

import subprocess
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from IPython.core.formatters import DisplayFormatter

import einmap
from einmap.model.explanation.explain import explain
from einmap.report.frames.frame import Column
from einmap.report.frames.kinds import LISTS, ROOMS
from einmap.report.notebook.display import MOST_ROWS
from einmap.report.notebook.register import DISPLAYS, register

VOID = {"br", "path", "rect", "ellipse"}


class Tags(HTMLParser):
    """Elements that are open, all that there were, attributes, and the text."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.attributes, self.text = [], set(), set(), ""

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


ALLOWED = {
    "div", "p", "pre", "code", "figure", "caption", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "svg", "title", "desc",
    "rect", "g", "path", "text", "ellipse",
}  # fmt: skip


@pytest.fixture(scope="module")
def formatter():
    shell = SimpleNamespace(display_formatter=DisplayFormatter())
    einmap.load_ipython_extension(shell)
    register(shell)
    return shell.display_formatter


def displayed(formatter, value):
    data, _ = formatter.format(value)
    parser = Tags()
    parser.feed(data["text/html"])
    assert parser.open == []
    assert parser.names <= ALLOWED
    assert not {name for name in parser.attributes if name.startswith("on") or name in ("href", "src")}
    return parser


@pytest.fixture(scope="module")
def spec():
    return einmap.load("simple", "matmul_chain", "simple_matmul_chain_fused")


def test_a_specification_is_drawn_part_by_part(formatter, spec):
    page = displayed(formatter, spec)
    assert all(word in page.text for word in ("Mapping", "Workload", "Architecture", "T1[m, n1] ="))
    assert "svg" in displayed(formatter, spec.mapping).names
    assert "without architecture" in displayed(formatter, einmap.loads("variables: {a: 1}")).text


def test_costs_and_searches_say_their_numbers_with_units(formatter, spec):
    page = displayed(formatter, einmap.evaluate(spec))
    assert "energy9.86 µJ" in page.text
    assert "latency524 µs" in page.text
    best = einmap.map_workload(spec, metrics="energy")
    page = displayed(formatter, best)
    assert "proven optimal in energy" in page.text
    assert "svg" in page.names
    assert "svg" in displayed(formatter, best.front[0]).names
    front = einmap.map_workload(einmap.load("simba", "matmul"), metrics="energy,latency")
    assert len(front.front) > 1
    assert f"Mapping {len(front.front) - 1}" in displayed(formatter, front).text


def test_plans_show_einsums_and_collectives(formatter):
    page = displayed(formatter, einmap.plan_of(einmap.load("matmul", "matmul_reduce_scatter")))
    assert "mesh x=4: 4 PEs" in page.text
    assert "reduce_scatter" in page.text
    product = einmap.plan_matmul(256, 256, 256, einmap.load_machine("chiplet_256"), dtype="fp8", candidates=4)
    assert "SLC" in displayed(formatter, product).text


def test_every_result_with_tables_has_a_display(formatter, spec):
    assert {*ROOMS} - {*LISTS} <= {*DISPLAYS}
    page = displayed(formatter, explain(spec))
    assert all(f"{name} (" in page.text for name in ("Counts", "Cases", "Lives", "Changes"))


def test_long_tables_are_cut_and_say_so(formatter):
    frame = einmap.Frame("steps", (Column("einsum", "text"),), (("Z",),) * 250)
    page = displayed(formatter, frame)
    assert page.text.count("Z") == MOST_ROWS
    assert "... and 150 more" in page.text


HOSTILE = '</text></svg><script>alert(1)</script>"\u202e<img src=x onerror=alert(1)>\x1b[31m'


def test_hostile_names_stay_text(formatter):
    nodes = [
        {"type": "Storage", "component": HOSTILE, "tensors": [HOSTILE]},
        {"type": "Compute", "einsum": HOSTILE, "component": HOSTILE},
    ]
    spec = einmap.Spec.from_dict({"mapping": {"nodes": nodes}})
    for value in (spec, spec.mapping):
        page = displayed(formatter, value)
        assert "\u202e" not in page.text
        assert "\x1b" not in page.text
        assert "<script>alert(1)" in page.text.replace("\n", "")
    assert (
        "<script>alert(1)</script>"
        in displayed(formatter, einmap.Frame(HOSTILE, (Column(HOSTILE, "text"),), ((HOSTILE,),))).text
    )


def test_a_value_in_error_says_so_without_a_traceback(formatter):
    page = displayed(formatter, einmap.loads("workload: {einsums: ['Z[m] = A[<b>']}"))
    assert "error: " in page.text
    assert "A[<b>" in page.text


def in_ipython(code):
    command = [sys.executable, "-m", "IPython", "--colors=NoColor", "--quick", "--no-banner", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_ipython_knows_the_displays_once_einmap_is_imported_and_nothing_heavy_is_loaded():
    code = (
        "import sys; before = {*sys.modules}; import einmap\n"
        "new = {name for name in {*sys.modules} - before if name.startswith('einmap')}\n"
        "print(len(new), sorted({'numba', 'pydantic', 'ruamel.yaml', 'pandas'} & {*sys.modules}))\n"
        "spec = einmap.load('simple', 'matmul', 'simple_matmul')\n"
        "show = get_ipython().display_formatter.formatters['text/html']; show.enabled = True\n"
        "html = show(spec)\n"
        "print(html[:14], '<svg' in html)\n"
        "%load_ext einmap\n"
        "print('<table' in show(einmap.evaluate(spec)))\n"
    )
    lines = in_ipython(code).splitlines()
    assert lines[-3].endswith("[]")
    assert int(lines[-3].split()[0]) <= 13
    assert lines[-2:] == ["<div><details  True", "True"]
