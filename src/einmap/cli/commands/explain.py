"""`einmap explain`: why a mapping costs what it does."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from einmap.cli.html_report import Figures, Html, ReportFiles, names_of
from einmap.cli.inputs import AllowCode, AsJson, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import console, print_json, print_notes, print_report
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force
from einmap.errors import EinmapError, Note, SpecError, did_you_mean, raise_all
from einmap.model.explanation.energy_terms import EnergyExplanation, explain_energy
from einmap.model.explanation.explain import explain
from einmap.model.explanation.filters import only
from einmap.report.costs.provenance import energy_report
from einmap.report.explanations.explanation import explanation_report
from einmap.report.explanations.explanation_summary import explanation_summary
from einmap.spec.spec import Spec

if TYPE_CHECKING:
    from einmap.model.explanation.values import Explanation
    from einmap.report.html.parts import Page

Einsums = Annotated[
    list[str] | None,
    typer.Option("--einsum", metavar="NAME", help="Everything about this Einsum; repeatable.", show_default=False),
]
Tensors = Annotated[
    list[str] | None,
    typer.Option("--tensor", metavar="NAME", help="Everything about this tensor; repeatable.", show_default=False),
]
Components = Annotated[
    list[str] | None,
    typer.Option(
        "--component", metavar="NAME", help="Everything about this component; repeatable.", show_default=False
    ),
]
Energy = Annotated[
    bool,
    typer.Option(
        "--energy",
        help="Only the energy: each part with the line or publication of its number.",
    ),
]


Everything = Annotated[bool, typer.Option("--all", "--full", help="Every section in place of the summary.")]


def explain_command(
    ctx: typer.Context,
    files: Files,
    *,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    einsum: Einsums = None,
    tensor: Tensors = None,
    component: Components = None,
    energy: Energy = False,
    everything: Everything = False,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    html: Html = None,
    figures: Figures = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Explain a mapping: what limits it, where energy and traffic come from, what would help.

    Begins with a summary; --all, or the name of an Einsum, tensor or component, gives reuse at every storage node, what
    each count is made of, and the lives of buffers.

    Counted as the preset `exact` does; every number is one that `einmap simulate` would count. With --energy the sum
    of `einmap evaluate`, under the preset of the specification.

    Example: einmap explain simple matmul simple_matmul --tensor A
    """
    inputs = [*files, *(allow_code or ())]
    report = ReportFiles.of(ctx, html, figures, force, inputs)
    kind = f"einmap.model.explanation.{'energy_terms.EnergyExplanation' if energy else 'values.Explanation'}"
    tables = TableFiles.of(kind, csv, parquet, table, force=force, inputs=inputs)
    with reading_inputs(define, *tables.targets) as read:
        spec = load_spec(files, define, allow_code, root, top_key)
    report = report.spared(read.files)
    _check_names(spec, einsum or (), tensor or (), component or ())
    if energy:
        terms = _explain_energy(spec, einsum or (), tensor or (), component or (), as_json)
        tables.write(terms)
        report.write(lambda: _energy_page(terms, spec, files))
        return
    explanation = only(explain(spec), einsum or (), tensor or (), component or ())
    if as_json:
        print_json(explanation.to_dict())
    elif everything or einsum or tensor or component:
        print_report(explanation_report(explanation, console().width))
    else:
        print_report(explanation_summary(explanation, console().width))
    notes = [note for note in explanation.notes if note.kind == "warning"]
    if spec.model_options.semantics != "exact":
        notes.append(Note(f"the specification asks for {spec.model_options.semantics}; explained is what exact counts"))
    print_notes(notes)
    tables.write(explanation)
    report.write(lambda: _page(explanation, spec, files))


def _page(explanation: Explanation, spec: Spec, files: list[str]) -> Page:
    from einmap.report.html.pages.cost_page import explanation_page

    assert spec.mapping is not None
    return explanation_page(explanation, spec, spec.mapping, names_of(files))


def _energy_page(explanation: EnergyExplanation, spec: Spec, files: list[str]) -> Page:
    from einmap.model.evaluate import evaluate
    from einmap.report.html.pages.cost_page import energy_page

    return energy_page(explanation, evaluate(spec), spec, names_of(files))


def _explain_energy(
    spec: Spec, einsums: Collection[str], tensors: Collection[str], components: Collection[str], as_json: bool
) -> EnergyExplanation:
    """Print what the energy is made of, and give it."""
    explanation = explain_energy(spec).only(einsums, tensors, components)
    if as_json:
        print_json(explanation.to_dict())
    else:
        print_report(energy_report(explanation))
    print_notes([note for note in explanation.notes if note.kind == "warning"])
    return explanation


def _check_names(spec: Spec, einsums: Collection[str], tensors: Collection[str], components: Collection[str]) -> None:
    """Raise SpecError for names that the specification does not have."""
    problems: list[EinmapError] = []
    options = {
        "--einsum": (einsums, [e.name for e in spec.workload.einsums], "the workload has no such Einsum"),
        "--tensor": (tensors, sorted(spec.workload.users), "the workload has no such tensor"),
        "--component": (components, list(spec.arch().components), "the architecture has no such component"),
    }
    for option, (names, valid, text) in options.items():
        for name in names:
            if name not in valid:
                problems.append(SpecError(f"{option} {name}: {text}", hint=did_you_mean(name, valid, listing="valid")))
    raise_all(problems)
