"""`--html` and `--figures` of every command that has them: what is written, what is refused."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from tests.frontends.huggingface.configs import PUBLISHED

from einmap.frontends.yaml.spec import example_paths

SMALL = ("-D", "M=16", "-D", "K=8", "-D", "N=16")
CALLS = {
    "evaluate": ("evaluate", "simple", "matmul", "simple_matmul"),
    "explain": ("explain", "simple", "matmul", "simple_matmul"),
    "explain --energy": ("explain", "simple", "matmul", "simple_matmul", "--energy"),
    "map": ("map", "simple", "matmul", *SMALL),
    "run": ("run", "matmul", "matmul_reduce_scatter", "-D", "G=2"),
    "plan-matmul": ("plan-matmul", "256", "256", "512", "--machine", "chiplet_256", "--dtype", "fp8"),
    "search": ("search", "simple", "matmul", "--evaluations", "20", "--seeds", "2", "--workers", "1"),
    "census": ("census", "simple", "matmul", "--samples", "500", "--workers", "1"),
    "skislope": ("skislope", "matmul"),
    "tokens": ("tokens", "config.json", "--on", "h100_node", "--devices", "2", "--batch", "1,8", "--context", "100"),
}
TIMED = ("map", "search", "census")
"""Commands whose report has the time of the search."""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(PUBLISHED["Llama-3.2-1B"][0]))


@pytest.mark.parametrize("name", CALLS)
def test_a_command_writes_its_report_and_prints_what_it_prints_without(run, name):
    plain = run(*CALLS[name])
    done = run(*CALLS[name], "--html", "out.html")
    assert done.status == plain.status == 0
    if name not in TIMED:
        assert done.out == plain.out
    assert "wrote the report to out.html" in done.err
    text = Path("out.html").read_text()
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>")
    words = " ".join("--define" if word == "-D" else word for word in CALLS[name])
    assert f"<code>einmap {words}</code>" in text
    assert str(Path.cwd()) not in text and str(Path(sys.prefix)) not in text
    refused = run(*CALLS[name], "--html", "out.html")
    assert (refused.status, "the file exists" in refused.err, "--force" in refused.err) == (2, True, True)
    assert run(*CALLS[name], "--html", "out.html", "--force").status == 0
    if name not in TIMED:
        assert Path("out.html").read_text() == text


def test_figures_are_written_as_svg_and_png_and_never_over_others(run):
    done = run(*CALLS["evaluate"], "--figures", "figures", "--json")
    assert done.status == 0
    names = {path.name for path in Path("figures").iterdir()}
    assert {"energy-by-component.svg", "roofline.png", "looptree.svg", "looptree.png", "architecture.svg"} <= names
    assert {Path(name).stem for name in names if name.endswith("png")} == {
        Path(name).stem for name in names if name.endswith("svg")
    }
    assert f"wrote {len(names)} figures to figures" in done.err
    for path in Path("figures").iterdir():
        start = path.read_bytes()[:8]
        assert start == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else start.startswith(b"<svg")
        assert b"var(--" not in path.read_bytes()
    refused = run(*CALLS["evaluate"], "--figures", "figures")
    assert (refused.status, "the folder is not empty" in refused.err) == (2, True)
    Path("figures/mine.txt").write_text("mine")
    assert run(*CALLS["evaluate"], "--figures", "figures", "--force").status == 0
    assert Path("figures/mine.txt").read_text() == "mine"


def test_a_file_of_the_specification_is_never_replaced(run):
    for name, file in zip(("simple", "matmul", "simple_matmul"), ("a.yaml", "w.yaml", "m.html"), strict=True):
        shutil.copy(example_paths()[name], file)
    done = run("evaluate", "a.yaml", "w.yaml", "m.html", "--html", "m.html", "--force")
    assert (done.status, "would replace a file of the specification" in done.err) == (2, True)
    Path("figures").mkdir()
    shutil.copy("m.html", "figures/roofline.svg")
    done = run("evaluate", "a.yaml", "w.yaml", "figures/roofline.svg", "--figures", "figures", "--force")
    assert (done.status, "would replace a file of the specification" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--html", "out.txt"), "name it out.html"),
        (("--html", "none/out.html"), "does not exist"),
        (("--figures", "none/figures"), "does not exist"),
        (("--figures", "taken"), "this is not a folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is_done(run, words, message):
    Path("taken").write_text("")
    done = run("evaluate", "missing.yaml", *words)
    assert (done.status, done.out) == (2, "")
    assert message in " ".join(done.err.split())


def test_without_the_library_the_error_says_how_to_install_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = run(*CALLS["evaluate"], "--html", "out.html")
    assert (done.status, done.out) == (2, "")
    assert "this needs vl_convert, which is not installed" in done.err
    assert "pip install 'einmap[html]'" in done.err
    assert not Path("out.html").exists()


def test_a_name_of_a_file_is_text_on_the_page(run):
    name = "<img src=x onerror=alert(1)>.yaml"
    shutil.copy(example_paths()["simple"], name)
    assert run("evaluate", name, "matmul", "simple_matmul", "--html", "out.html").status == 0
    text = Path("out.html").read_text().split('<script type="module">')[0]
    assert "<img" not in text and "&lt;img src=x onerror=alert(1)&gt;" in text
