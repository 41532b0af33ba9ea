"""`einmap run`: distribute real data over a mesh, run, and check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from einmap.cli.html_report import Figures, Html, ReportFiles, names_of
from einmap.cli.inputs import AsJson, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import error_console, print_json, print_notes, print_report
from einmap.cli.progress_bar import ProgressBar
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force
from einmap.distribute.backends.check import sample_inputs
from einmap.distribute.backends.checked_extent import EXTENTS, chosen_check
from einmap.distribute.backends.engines import ENGINES, EngineOptions, engine_named
from einmap.distribute.plans.plan import Dtype
from einmap.distribute.read import plan_of
from einmap.progress import Progress
from einmap.report.mesh.distribution import (
    PlanRun,
    extent_line,
    plan_document,
    plan_report,
    run_agrees,
    run_document,
    run_report,
)
from einmap.spec.spec import Spec

if TYPE_CHECKING:
    from einmap.report.html.parts import Page

WRONG = 1
"""Exit status when an output or the communication is wrong."""

ENGINE = "Engine"
"""A panel of the help."""
EngineName = Annotated[
    str, typer.Option("--engine", metavar="|".join(ENGINES), help="What runs the plan.", rich_help_panel=ENGINE)
]
Processes = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Processes on this host, engine jax.", show_default="1", rich_help_panel=ENGINE
    ),
]
Platform = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Devices of the engine jax: cpu makes one for each PE, any takes the best there are.",
        show_default="cpu",
        rich_help_panel=ENGINE,
    ),
]
Hosts = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Hosts that run this command.", show_default="1", rich_help_panel=ENGINE),
]
Host = Annotated[
    int | None, typer.Option(metavar="I", min=0, help="Which of the hosts this one is, from 0.", rich_help_panel=ENGINE)
]
Coordinator = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS:PORT", help="A free port of host 0.", show_default=False, rich_help_panel=ENGINE),
]
MeetingLimit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", help="Time in which all hosts must be there.", show_default="7", rich_help_panel=ENGINE
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", help="Time of the engine jax to compile and run.", show_default="600", rich_help_panel=ENGINE
    ),
]
DtypeName = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="float64|float32",
        help="Type of all values.",
        show_default="distribution.dtype, or float64",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, help="Seed of the random values of the input tensors, and of the sample.")
]
CheckExtent = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="|".join(EXTENTS),
        help="What is computed again to check the outputs: all, values drawn by the seed, or nothing.",
        show_default="whole where that takes little, else sample",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Derive and print the plan only.")]


def run_command(
    ctx: typer.Context,
    files: Files,
    *,
    define: Define = None,
    root: Root = None,
    top_key: TopKey = None,
    engine: EngineName = ENGINES[0],
    processes: Processes = None,
    platform: Platform = None,
    hosts: Hosts = None,
    host: Host = None,
    coordinator: Coordinator = None,
    meeting_limit: MeetingLimit = None,
    time_limit: TimeLimit = None,
    dtype: DtypeName = None,
    seed: Seed = 0,
    check: CheckExtent = None,
    dry_run: DryRun = False,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    html: Html = None,
    figures: Figures = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Partition Einsums over the PEs of a mesh, run them there on random data, and compare with the whole result.

    Prints what each PE computes and what it exchanges. Exit status 1: an output is wrong, or the program of the engine
    jax sends anything else than was predicted.

    Example: einmap run matmul matmul_reduce_scatter -D G=8
    """
    shown = ProgressBar(error_console())
    options = EngineOptions(processes, platform, hosts, host, coordinator, time_limit, meeting_limit)
    runner = engine_named(engine, options, Progress(shown.report))
    report = ReportFiles.of(ctx, html, figures, force, files)
    tables = TableFiles.of("einmap.report.mesh.distribution.PlanRun", csv, parquet, table, force=force, inputs=files)
    with reading_inputs(define, *tables.targets) as read:
        spec = load_spec(files, define, None, root, top_key)
    report = report.spared(read.files)
    plan = plan_of(spec, cast(Dtype | None, dtype))
    checked = chosen_check(plan.workload, "none" if dry_run else check, seed)
    if not dry_run:
        runner.check(plan)
    document = plan_document(plan)
    if not as_json:
        print_report(plan_report(plan))
    agrees, outcome = True, PlanRun(plan)
    if not dry_run:
        inputs = sample_inputs(plan.workload, seed, plan.dtype, whole=checked.extent == "whole")
        with shown, runner:
            run = runner.run(plan, inputs)
            checks = checked.outputs(inputs, run.outputs, plan.dtype)
        agrees, outcome = run_agrees(plan, run, checks), PlanRun(plan, run, checks, extent_line(checked))
        document |= run_document(engine, outcome, checked)
        if not as_json:
            print_report(run_report(engine, outcome))
    if as_json:
        print_json(document)
    print_notes(spec.distribution_notes)
    tables.write(outcome)
    report.write(lambda: _page(outcome, spec, engine, files))
    if not agrees:
        raise typer.Exit(WRONG)


def _page(outcome: PlanRun, spec: Spec, engine: str, files: Sequence[str]) -> Page:
    from einmap.report.html.pages.distribution_page import distribution_page

    return distribution_page(outcome, spec, engine, names_of(files))
