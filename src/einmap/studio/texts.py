"""Texts and pictures that answer a question about a mapping: what differs, what a number is made of, files to keep."""

from __future__ import annotations

from io import StringIO

from rich.console import RenderableType

from einmap.emit.emit import emit
from einmap.frontends.yaml.spec import dump
from einmap.mapping.difference import tree_changes
from einmap.mapping.mapping import Mapping
from einmap.model.cost import Cost
from einmap.model.cost_difference import compare_specs
from einmap.model.evaluate import evaluate
from einmap.model.explanation.energy_terms import explain_energy
from einmap.model.explanation.explain import explain
from einmap.model.explanation.filters import only
from einmap.report.costs.difference_report import difference_report
from einmap.report.costs.provenance import energy_report
from einmap.report.drawing.arch import arch_picture
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.workload import workload_picture
from einmap.report.explanations.explanation import explanation_report
from einmap.report.html.colours import ON_PAGE
from einmap.report.html.page import to_html
from einmap.report.html.pages.cost_page import evaluation_page
from einmap.report.text.console import SafeConsole
from einmap.spec.spec import Spec

WIDTH = 84
"""Characters of a line of texts that the page shows as they are."""


def compared(there: tuple[Spec, Mapping, Cost | None], here: tuple[Spec, Mapping, Cost | None]) -> str:
    """How a mapping differs from another one, as `einmap diff` says it."""
    (old_spec, old, old_cost), (spec, new, cost) = there, here
    if not tree_changes(old, new) and old_spec == spec:
        return "no difference"
    costs = (old_cost, cost) if old_cost is not None and cost is not None else None
    return _plain(difference_report(compare_specs(old_spec.with_mapping(old), spec.with_mapping(new), costs)))


def explained(spec: Spec, cost: Cost | None, names: tuple[list[str], ...]) -> str:
    """The terms of the energy with their sources, then reuse and counts, as `einmap explain` gives them."""
    spec_terms = explain_energy(spec, cost).only(*names)
    explanation = only(explain(spec, changes=False), *names)
    return f"{_plain(energy_report(spec_terms))}\n\n{_plain(explanation_report(explanation, WIDTH))}"


def exported(spec: Spec, mapping: Mapping, what: str) -> str:
    """The mapping as an HTML report or as code in C; or the specification as YAML."""
    spec = spec.with_mapping(mapping)
    if what == "html":
        return to_html(evaluation_page(evaluate(spec), spec, mapping))
    return emit(spec, "c") if what == "c" else dump(spec)


def drawing(spec: Spec, what: str) -> str:
    """A picture in the colours of the page."""
    if what == "arch":
        return to_svg(arch_picture(spec, theme=ON_PAGE))
    return to_svg(workload_picture(spec.workload, theme=ON_PAGE))


def _plain(report: RenderableType) -> str:
    """A report as text."""
    stream = StringIO()
    SafeConsole(file=stream, width=WIDTH, plain=True).print(report)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).strip("\n")
