"""The documentation site is built from docs/ without a warning, and every page is in its contents."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def test_every_page_is_in_the_table_of_contents():
    listed = set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "README.md").read_text()))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    assert pages - listed == set()


@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="Sphinx is not installed: pip install '.[docs]'")
def test_the_site_is_built_without_a_warning(tmp_path):
    build = [sys.executable, str(DOCS / "site" / "build.py"), str(tmp_path)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "einmap.map_workload" in re.sub(r"<[^>]+>", "", (tmp_path / "api.html").read_text())
    assert "https://" not in "".join(
        re.findall(r'(?:src|<link[^>]* href)="([^"]*)"', (tmp_path / "index.html").read_text())
    )
