"""`einmap diff`: how two mappings, architectures, workloads or specifications differ, and what that costs."""

from __future__ import annotations

from typing import Annotated

import typer

from einmap.cli.inputs import AllowCode, AsJson, Define, Root, SemanticsName, TopKey, load_spec, reading_inputs
from einmap.cli.output import print_json, print_notes, print_report
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force
from einmap.errors import EinmapError, Note
from einmap.model.cost import Cost
from einmap.model.evaluate import evaluate
from einmap.report.costs.difference_report import compare_specs, difference_report
from einmap.spec.spec import Spec

NEEDED = ("arch", "workload", "mapping")
"""What a specification needs to be evaluated."""

First = Annotated[str, typer.Argument(metavar="A", help="A YAML file or a name that `einmap examples` lists.")]
Second = Annotated[str, typer.Argument(metavar="B", help="The same, compared with A.")]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        "-w",
        metavar="FILE",
        help="A file or name that belongs to both, e.g. their architecture; repeatable.",
        show_default=False,
    ),
]


def diff_command(
    first: First,
    second: Second,
    *,
    shared: With = None,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    semantics: SemanticsName = None,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare two mappings, architectures, workloads or whole specifications: structure and cost.

    Costs are compared where A and B, each with the --with files, can be evaluated.

    Example: einmap diff simple_matmul_chain_unfused simple_matmul_chain_fused --with simple --with matmul_chain
    """
    common = shared or []
    kind = "einmap.report.costs.difference_report.Difference"
    inputs = [first, second, *common, *(allow_code or ())]
    tables = TableFiles.of(kind, csv, parquet, table, force=force, inputs=inputs)
    with reading_inputs(define, *tables.targets):
        before, after = (load_spec([name, *common], define, allow_code, root, top_key) for name in (first, second))
    notes: list[Note] = []
    costs = [_cost(spec, name, semantics, notes) for spec, name in ((before, first), (after, second))]
    both = (costs[0], costs[1]) if costs[0] is not None and costs[1] is not None else None
    difference = compare_specs(before, after, both)
    if as_json:
        print_json({**difference.to_dict(), "notes": [str(note) for note in notes]})
    else:
        print_report(difference_report(difference))
    print_notes(notes)
    tables.write(difference)


def _cost(spec: Spec, name: str, semantics: str | None, notes: list[Note]) -> Cost | None:
    """The cost; None, and a note, where the specification is incomplete or its mapping does not fit it."""
    missing = [key for key in NEEDED if spec.raw.get(key) is None]
    if missing:
        notes.append(Note(f"{name} has no {' and no '.join(missing)}: costs are not compared (--with adds files)"))
        return None
    try:
        return evaluate(spec, semantics=semantics)
    except EinmapError as error:
        notes.append(Note(f"{name} cannot be evaluated, so that costs are not compared: {error}"))
        return None
