"""`einmap evaluate`: what a mapping costs."""

from __future__ import annotations

from typing import Annotated

import typer

from einmap.cli.inputs import AllowCode, AsJson, Define, Files, Root, SemanticsName, TopKey, load_spec, reading_inputs
from einmap.cli.output import console, print_json, print_notes, print_report
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force
from einmap.model.evaluate import evaluate
from einmap.report.cost_report import cost_report
from einmap.report.provenance import cost_document

Strict = Annotated[
    bool, typer.Option("--strict", help="Violated architecture constraints are errors instead of notes.")
]


def evaluate_command(
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
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a mapping: energy, latency, area, traffic and how full memories are.

    The files give an architecture, a workload and a mapping.

    Example: einmap evaluate simple matmul simple_matmul -D M=128
    """
    tables = TableFiles.of(
        "einmap.model.cost.Cost", csv, parquet, table, force=force, inputs=[*files, *(allow_code or ())]
    )
    with reading_inputs(define, *tables.targets):
        spec = load_spec(files, define, allow_code, root, top_key)
    cost = evaluate(spec, semantics=semantics, strict=strict)
    if as_json:
        print_json(cost_document(cost, spec))
    else:
        print_report(cost_report(cost, spec, spec.mapping, console().width))
    print_notes(cost.notes)
    tables.write(cost)
