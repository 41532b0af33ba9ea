"""`einmap census`: the shape of a mapspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from einmap.cli.commands.lab.search import Einsum, Objective, Workers
from einmap.cli.html_report import Figures, Html, ReportFiles, names_of
from einmap.cli.inputs import (
    EFFORT,
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
from einmap.cli.output import print_json, print_report
from einmap.cli.progress_bar import searching
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force

if TYPE_CHECKING:
    from einmap.report.html.parts import Page
    from einmap.search.census import Census

SCHEMA = 1
"""Version of the JSON document."""
Samples = Annotated[
    int, typer.Option(metavar="N", min=1, help="Valid mappings that are looked at.", rich_help_panel=EFFORT)
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the draws.", rich_help_panel=EFFORT)]


def census_command(
    ctx: typer.Context,
    files: Files,
    *,
    samples: Samples = 20_000,
    einsum: Einsum = None,
    metrics: Objective = None,
    semantics: SemanticsName = None,
    seed: Seed = 0,
    workers: Workers = None,
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
    """Show the shape of a mapspace: how many mappings there are, and how valid ones are distributed.

    Mapspaces of no more mappings than samples are covered; of others uniform draws are taken.

    Example: einmap census nvdla vgg16 --einsum conv3_2 --samples 480000
    """
    # Here, not above: other commands do not need it.
    from einmap.report.search.census import census_report
    from einmap.search.census import take_census
    from einmap.search.experiment import Question
    from einmap.search.problem import problem_of

    tables = TableFiles.of(
        "einmap.search.census.Census", csv, parquet, table, force=force, inputs=[*files, *(allow_code or ())]
    )
    report = ReportFiles.of(ctx, html, figures, force, [*files, *(allow_code or ())])
    with reading_inputs(define, *tables.targets) as read:
        spec = load_spec(files, define, allow_code, root, top_key)
    report = report.spared(read.files)
    problem = problem_of(spec, einsum=einsum, metrics=metrics, semantics=semantics, seed=seed)
    question = Question(problem.spec, problem.name, problem.objective, problem.semantics.name, seed)
    with searching() as search:
        census = take_census(question, samples, workers=workers, progress=search.progress)
    if as_json:
        print_json({"schema": SCHEMA, **census.to_dict()})
    else:
        print_report(census_report(census))
    tables.write(census)
    report.write(lambda: _page(census, files))


def _page(census: Census, files: list[str]) -> Page:
    from einmap.report.html.pages.search_pages import census_page

    return census_page(census, " ".join(names_of(files)))
