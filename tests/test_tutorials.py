"""Every command and program of a tutorial does what its page shows."""

import re
from pathlib import Path

import pytest
from tests.pages import matches, run, write_files

import einmap

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [
    DOCS / "install.md",
    DOCS / "html-report.md",
    DOCS / "pipelines.md",
    DOCS / "sweep.md",
    *sorted(DOCS.glob("tutorial-*.md")),
]
PAGES.remove(DOCS / "tutorial-systolic.md")  # emitted programs: tests/emit/test_emit_docs.py


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_shows_what_happens(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(page).differences == []


def test_the_table_of_counts_of_the_first_tutorial_is_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = write_files(DOCS / "tutorial-first.md")
    cost = einmap.evaluate(einmap.load("first.yaml", "product.yaml", "rows.yaml"))
    counts, totals = cost.count_by("component", "tensor", "action"), cost.count_by("component", "action")
    rows = re.findall(r"^\| (DRAM|Buffer) (read|write)s(?: (\w))? \| ([\d +]+) \|", text, re.MULTILINE)
    assert len(rows) == 5
    for component, action, tensor, values in rows:
        count = counts[component, tensor, action] if tensor else totals[component, action]
        assert count == sum(map(int, values.split("+")))


def test_a_line_of_dots_stands_for_lines_and_times_may_differ():
    assert matches("a\n...\nd\n", "a\nb\nc\nd\n")
    assert matches("found in 1.2 s\n", "found in 0.03 s\n")
    assert not matches("a\n...\nd\n", "a\nb\nc\n")
    assert not matches("8.9 J\n", "8.8 J\n")


def test_what_a_page_shows_wrongly_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "`a.txt`:\n\n```text\n1\n```\n\n```console\n$ cat a.txt\n2\n```\n\n```python\nprint(3)\n```\n\nprints\n\n```\n4\n```\n"
    )
    assert run(page).differences == [(1, "2\n", "1\n"), (3, "4\n", "3\n")]
