"""`einmap rewrite`: change a mapping step by step, each step keeping what it computes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from einmap.cli.inputs import (
    OUTPUT,
    AllowCode,
    AsJson,
    Define,
    Files,
    Root,
    SemanticsName,
    TopKey,
    load_spec,
    reading_inputs,
)
from einmap.cli.output import console, print_hint, print_json, print_notes, print_report
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force, Target
from einmap.errors import MappingError, Note
from einmap.frontends.yaml.spec import dump_mapping
from einmap.mapping.mapping import Mapping
from einmap.mapping.rewrite.text import USAGE, rewritten
from einmap.mapping.validate import validate
from einmap.model.cost import Cost
from einmap.model.evaluate import evaluate
from einmap.report.costs.provenance import provenance_document
from einmap.report.costs.rewrite_report import change_report
from einmap.spec.forms.loop_tree import write_mapping
from einmap.spec.raw import to_python
from einmap.spec.shared_inputs import put_in
from einmap.spec.spec import Spec

SCHEMA = 1
"""Version of the JSON document."""

Steps = Annotated[
    list[str] | None,
    typer.Option(
        "--do",
        metavar="REWRITE",
        help="A rewrite; repeatable: " + escape("; ".join(USAGE.values())) + ". "
        "A LOOP is a rank variable (k, or k#2 for the second loop over it) or an address such as nodes[3].",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the new mapping, as YAML.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


def rewrite_command(
    files: Files,
    *,
    steps: Steps = None,
    semantics: SemanticsName = None,
    output: Output = None,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    force: Force = False,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite a mapping so that it computes the same values, and show what that changes.

    Example: einmap rewrite simple matmul simple_matmul --do 'split k 8' --do 'sink Z@GlobalBuffer'
    """
    if not steps:
        raise typer.BadParameter("name at least one rewrite, for example 'split k 8'", param_hint="--do")
    inputs = [*files, *(allow_code or ())]
    target = Target.of(output, force, inputs)
    tables = TableFiles.of("einmap.model.cost.Cost", csv, parquet, table, force=force, inputs=inputs)
    with reading_inputs(define, target, *tables.targets):
        spec = load_spec(files, define, allow_code, root, top_key)
    tree = _checked_mapping(spec)
    before, problem = _cost_before(spec, semantics)
    mapping = _applied(spec, tree, steps)
    copies = put_in(spec.raw, spec.workload)
    after = evaluate(spec, mapping, semantics)
    if as_json:
        print_json(_document(spec, steps, before, after, mapping, copies))
    else:
        print_report(change_report(before, after, spec.with_mapping(mapping), mapping, console().width))
    print_notes([*problem, *after.notes])
    if target is not None:
        target.write(_mapping_file(mapping, copies, files, define or [], steps))
        print_hint(f"wrote the mapping to {output}")
    tables.write(after)


def _checked_mapping(spec: Spec) -> Mapping:
    if spec.mapping is None:
        raise MappingError("no mapping given; name a file that has `mapping:`")
    archs = spec.archs
    validate(spec.mapping, spec.workload, archs, spec.place_of_node, archs)
    return spec.mapping


def _cost_before(spec: Spec, semantics: str | None) -> tuple[Cost | None, list[Note]]:
    """The cost of the old mapping; None, and a note, where it does not fit: the rewrite may mend that."""
    try:
        return evaluate(spec, semantics=semantics), []
    except MappingError as error:
        return None, [Note(f"the mapping before has no cost: {error.message}", error.at)]


def _applied(spec: Spec, mapping: Mapping, steps: list[str]) -> Mapping:
    for number, step in enumerate(steps):
        try:
            mapping = rewritten(mapping, spec.workload, step)
        except MappingError as error:
            done = f" (addresses are those after {number} rewrite{'s' if number > 1 else ''})" if number else ""
            raise MappingError(f"--do {step!r}: {error.message}{done}", at=error.at, hint=error.hint) from None
    return mapping


def _mapping_file(
    mapping: Mapping, copies: dict[str, str], files: list[str], define: list[str], steps: list[str]
) -> str:
    arguments = [
        *files,
        *(w for definition in define for w in ("-D", definition)),
        *(w for step in steps for w in ("--do", step)),
    ]
    lines = f"Rewritten by: {shlex.join(['einmap', 'rewrite', *arguments])}".splitlines()
    return "\n".join([*(f"# {line}" for line in lines), dump_mapping(mapping, copies)])


def _document(
    spec: Spec, steps: list[str], before: Cost | None, after: Cost, mapping: Mapping, copies: dict[str, str]
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "rewrites": steps,
        "before": before.to_dict() if before else None,
        "after": after.to_dict(),
        "provenance": provenance_document(spec),
        "mapping": {**({"shared_inputs": copies} if copies else {}), **to_python(write_mapping(mapping))},
    }
