"""Which types have an HTML display, told to IPython by their names: nothing is imported before it is displayed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from einmap.report.frames.kinds import LISTS, ROOMS

DISPLAYS = {kind: "result_html" for kind in ROOMS if kind not in LISTS} | {
    "einmap.spec.spec.Spec": "spec_html",
    "einmap.mapping.mapping.Mapping": "mapping_html",
    "einmap.mapper.result.result.MapResult": "map_result_html",
    "einmap.mapper.result.result.Found": "solution_html",
    "einmap.distribute.plans.plan.Plan": "plan_html",
    "einmap.report.frames.frame.Frame": "frame_html",
    "einmap.serving.tokens.TokenCosts": "result_html",
}
"""The function of `display` for each type, by the full name of the class."""


def register(shell: Any) -> None:
    """Tell an IPython shell how the types are displayed; doing it twice changes nothing."""
    formatter = shell.display_formatter.formatters["text/html"]
    for kind, function in DISPLAYS.items():
        module, _, name = kind.rpartition(".")
        formatter.for_type_by_name(module, name, _displaying(function))


def register_where_it_runs() -> None:
    """Tell IPython, where this process is one; nothing is imported elsewhere."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None and hasattr(python, "get_ipython") else None
    if shell is not None:
        register(shell)


def _displaying(function: str) -> Callable[[Any], str]:
    def display(value: Any) -> str:
        html: str = getattr(import_module("einmap.report.notebook.display"), function)(value)
        return html

    return display
