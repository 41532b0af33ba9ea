"""`einmap evaluate`: what a mapping costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from einmap.cli.html_report import Figures, Html, ReportFiles, names_of
from einmap.cli.inputs import AllowCode, AsJson, Define, Files, Root, SemanticsName, TopKey, load_spec, reading_inputs
from einmap.cli.output import console, print_json, print_notes, print_report
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force
from einmap.model.evaluate import evaluate
from einmap.report.costs.cost_report import cost_report
from einmap.report.costs.provenance import cost_document
from einmap.spec.spec import Spec

if TYPE_CHECKING:
    from einmap.model.cost import Cost
    from einmap.report.html.parts import Page

Strict = Annotated[
    bool, typer.Option("--strict", help="Violated architecture constraints are errors instead of notes.")
]


def evaluate_command(
    ctx: typer.Context,
    files: Files,
    *,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    semantics: SemanticsName = None,
    strict: Strict = False,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    html: Html = None,
    figures: Figures = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a mapping: energy, latency, area, traffic and how full memories are.

    The files give an architecture, a workload and a mapping.

    Example: einmap evaluate simple matmul simple_matmul -D M=128
    """
    inputs = [*files, *(allow_code or ())]
    report = ReportFiles.of(ctx, html, figures, force, inputs)
    tables = TableFiles.of("einmap.model.cost.Cost", csv, parquet, table, force=force, inputs=inputs)
    with reading_inputs(define, *tables.targets) as read:
        spec = load_spec(files, define, allow_code, root, top_key)
    report = report.spared(read.files)
    cost = evaluate(spec, semantics=semantics, strict=strict)
    if as_json:
        print_json(cost_document(cost, spec))
    else:
        print_report(cost_report(cost, spec, spec.mapping, console().width))
    print_notes(cost.notes)
    tables.write(cost)
    report.write(lambda: _page(cost, spec, files))


def _page(cost: Cost, spec: Spec, files: list[str]) -> Page:
    from einmap.report.html.pages.cost_page import evaluation_page

    assert spec.mapping is not None
    return evaluation_page(cost, spec, spec.mapping, names_of(files))
