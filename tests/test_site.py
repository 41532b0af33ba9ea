"""The documentation site is built from docs/ without a warning, and every page is in its contents."""

import html
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def listed_pages():
    return set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "README.md").read_text()))


def plain(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_every_page_is_in_the_table_of_contents():
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    assert pages - listed_pages() == set()


def test_a_page_that_the_generator_would_overwrite_ends_the_build(tmp_path):
    specification = importlib.util.spec_from_file_location("build", DOCS / "site" / "build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    (tmp_path / "search.md").write_text("# Search\n")
    module.DOCS = tmp_path
    with pytest.raises(SystemExit, match=r"search\.md would be overwritten"):
        module.stage(tmp_path / "staged")


@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="Sphinx is not installed: pip install '.[docs]'")
@pytest.mark.parametrize("theme", ["basic", pytest.param("furo", marks=pytest.mark.slow)])
def test_the_site_is_built_without_a_warning(tmp_path, theme):
    """The theme of the site itself takes as long as all the rest; links, headings and the reference are the same."""
    build = [sys.executable, str(DOCS / "site" / "build.py"), str(tmp_path), "-D", f"html_theme={theme}"]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    titles = {page: re.search(r"^# (.*)", (DOCS / page).read_text(), re.M)[1] for page in listed_pages()}
    for page, title in titles.items():
        site_page = (tmp_path / page).with_suffix(".html").read_text()
        heading = re.search(r"<h1>(.*?)<a ", site_page, re.S)
        assert heading and plain(heading[1]) == title.replace("`", ""), page
    assert "einmap.map_workload" in plain((tmp_path / "api.html").read_text())
    assert "https://" not in "".join(
        re.findall(r'(?:src|<link[^>]* href)="([^"]*)"', (tmp_path / "index.html").read_text())
    )
