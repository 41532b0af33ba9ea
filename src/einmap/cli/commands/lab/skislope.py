"""`einmap skislope`: the least traffic by capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from einmap.cli.html_report import Figures, Html, ReportFiles, names_of
from einmap.cli.inputs import EFFORT, AllowCode, AsJson, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import print_json, print_report
from einmap.cli.progress_bar import searching
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force

if TYPE_CHECKING:
    from einmap.report.html.parts import Page
    from einmap.search.skislope import SkiSlope

SCHEMA = 1
"""Version of the JSON document."""
OneEinsum = Annotated[
    str | None,
    typer.Option("--einsum", metavar="NAME", help="Only this Einsum, by itself.", show_default=False),
]
Fuse = Annotated[
    bool, typer.Option("--fuse/--no-fuse", help="Whether intermediate tensors may stay in the buffer, tile by tile.")
]

Spacing = Annotated[
    float,
    typer.Option(
        metavar="X",
        help="Ask for capacities of a cascade that are at least X times apart, from the largest down; 1: every corner.",
        rich_help_panel=EFFORT,
    ),
]
FusedLoops = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="The most loops that an Einsum shares with others; one is much faster for long cascades.",
        show_default="any number",
        rich_help_panel=EFFORT,
    ),
]


def skislope_command(
    ctx: typer.Context,
    files: Files,
    *,
    einsum: OneEinsum = None,
    fuse: Fuse = True,
    spacing: Spacing = 1.0,
    max_fused_loops: FusedLoops = None,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    html: Html = None,
    figures: Figures = None,
    force: Force = False,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    as_json: AsJson = False,
) -> None:
    """Show the least traffic to and from main memory as a function of the capacity of one buffer.

    The files give a workload; the machine has two levels, whatever architecture there is. Every row is the smallest
    capacity for its traffic. Ctrl-C ends the walk down to small capacities of a cascade.

    Example: einmap skislope matmul -D M=1024 -D K=1024 -D N=1024
    """
    # Here, not above: other commands do not need it.
    from einmap.report.search.skislope import skislope_report
    from einmap.search.skislope import ski_slope

    tables = TableFiles.of(
        "einmap.search.skislope.SkiSlope", csv, parquet, table, force=force, inputs=[*files, *(allow_code or ())]
    )
    report = ReportFiles.of(ctx, html, figures, force, [*files, *(allow_code or ())])
    with reading_inputs(define, *tables.targets) as read:
        spec = load_spec(files, define, allow_code, root, top_key)
    report = report.spared(read.files)
    with searching() as search:
        most = float("inf") if max_fused_loops is None else max_fused_loops
        curve = ski_slope(
            spec, einsum=einsum, fuse=fuse, spacing=spacing, max_fused_loops=most, progress=search.progress
        )
    if as_json:
        print_json({"schema": SCHEMA, **curve.to_dict()})
    else:
        print_report(skislope_report(curve))
    tables.write(curve)
    report.write(lambda: _page(curve, files))


def _page(curve: SkiSlope, files: list[str]) -> Page:
    from einmap.report.html.pages.search_pages import skislope_page

    return skislope_page(curve, " ".join(names_of(files)))
