"""`einmap plan`: choose how a workload is distributed over a mesh."""

from __future__ import annotations

from typing import Annotated

import typer

from einmap.cli.commands.mesh.plan_files import Output, PlanFiles, Svg, TimelineSvg, Trace, write_page
from einmap.cli.commands.mesh.plan_options import plan_options, plan_request
from einmap.cli.commands.mesh.shipped import name_shipped
from einmap.cli.html_report import Figures, Html, ReportFiles
from einmap.cli.inputs import AsJson, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import print_json, print_notes, print_report
from einmap.cli.progress_bar import searching
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force
from einmap.distribute.costs.cost_model import PLAN_METRICS
from einmap.distribute.planner.planner import plan_workload
from einmap.report.mesh.planned import planned_document, planned_report

MeshText = Annotated[
    list[str],
    typer.Option(
        "--mesh", metavar="x=8,y=4", help="Axes of the mesh and the PEs along each; repeatable.", show_default=False
    ),
]
ClusterFile = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="File with the key `cluster`, or a shipped one. Without it: equal links of 100 GB/s, PEs of 100 TOP/s.",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory", metavar="16GiB", help="Memory of a PE that no plan exceeds; the default is that of the cluster."
    ),
]
Metric = Annotated[str, typer.Option("--metrics", metavar="|".join(PLAN_METRICS), help="What the plan makes least.")]
Fix = Annotated[
    list[str] | None,
    typer.Option(
        "--fix",
        metavar="'WQ: H=x'",
        help="Where a tensor is kept: its ranks with mesh axes (x*y for two), or replicated; may be given again.",
        show_default=False,
    ),
]
Same = Annotated[
    list[str] | None,
    typer.Option(
        "--same",
        metavar="'O: X'|none",
        help="Result that lies as a graph input does, as in a stack of layers; repeatable.",
        show_default="the ends of n_instances layers",
    ),
]
TimeLimit = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.1,
        help="For the best plan, and as many for those that differ; then the best so far follows.",
    ),
]
WhatIf = Annotated[
    bool,
    typer.Option(
        "--what-if",
        help="Also say what half or twice the memory, twice the bandwidth or half the latency of each axis alters.",
    ),
]
WHAT_IF_SECONDS = 60.0
"""For all plans of `--what-if` together."""


def plan_command(
    ctx: typer.Context,
    files: Files,
    *,
    mesh: MeshText,
    cluster: ClusterFile = None,
    memory: Memory = None,
    metric: Metric = PLAN_METRICS[0],
    fix: Fix = None,
    same: Same = None,
    output: Output = None,
    svg: Svg = None,
    timeline: TimelineSvg = None,
    trace: Trace = None,
    html: Html = None,
    figures: Figures = None,
    time_limit: TimeLimit = 60.0,
    what_if: WhatIf = False,
    define: Define = None,
    root: Root = None,
    top_key: TopKey = None,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Choose how a workload is distributed over a mesh: the best plan, why others lose, where memory binds.

    Placements of all tensors and the spread of every Einsum are chosen together, what is sent between them counted.

    Example: einmap plan feed_forward --mesh x=8 --cluster a100_nodes -o plan.yaml
    """
    given = [*files, *([cluster] if cluster else [])]
    out = PlanFiles.of((output, svg, timeline, trace), force, given)
    report = ReportFiles.of(ctx, html, figures, force, given)
    tables = TableFiles.of("einmap.distribute.plans.plan.Plan", csv, parquet, table, force=force, inputs=given)
    options = plan_options(",".join(mesh), metric, memory, fix or [], same)
    with reading_inputs(define, *out.targets, *tables.targets) as read:
        spec = load_spec(given, define, None, root, top_key)
    report = report.spared(read.files)
    request = plan_request(spec, options, cluster, time_limit, root or ())
    with searching() as running:
        planned = plan_workload(spec.workload, request, running.progress, WHAT_IF_SECONDS if what_if else None)
    if as_json:
        print_json(planned_document(planned))
    else:
        print_report(planned_report(planned))
        name_shipped(planned, spec)
    out.write(planned)
    tables.write(planned.best.plan)
    print_notes(spec.distribution_notes)
    write_page(report, planned, spec, files)
