"""The files of the page: as they are served one by one, and as one module and one style sheet for a notebook."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from einmap.report.html.page import themes

MODULES = ("dom.js", "tree.js", "moves.js", "numbers.js", "play.js", "studio.js")
"""Modules that a page and a notebook share, each after those that it imports."""
_IMPORT = re.compile(r"^import .*? from \"\./[\w.]+\";\n", re.MULTILINE)


@cache
def asset(name: str) -> str:
    """The text of a file of the page; the style sheet has the colours of both themes in it."""
    text = (resources.files("einmap.studio") / "page" / name).read_text(encoding="utf-8")
    return f"{themes('.einmap-studio')}\n{text}" if name == "studio.css" else text


@cache
def bundle(last: str) -> str:
    """All modules as one, `last` the one that exports something; their names do not clash."""
    parts = [asset(name).replace("\nexport ", "\n").removeprefix("export ") for name in MODULES]
    return _IMPORT.sub("", "\n".join([*parts, asset(last)]))
