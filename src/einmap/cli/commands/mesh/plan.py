"""`einmap plan`: choose how a workload is distributed over a mesh."""

from __future__ import annotations

from typing import Annotated

from einmap.cli.commands.mesh.plan_files import Pictures, PlanFiles
from einmap.cli.commands.mesh.plan_options import plan_options, plan_request
from einmap.cli.commands.mesh.shipped import name_shipped
from einmap.cli.inputs import Source, reading_inputs
from einmap.cli.options import Without, flag, group, option, several
from einmap.cli.output import print_notes
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import Output
from einmap.distribute.costs.cost_model import PLAN_METRICS
from einmap.distribute.planner.planner import plan_workload
from einmap.report.mesh.planned import planned_document, planned_report

WHAT_IF_SECONDS = 60.0
"""For all plans of `--what-if` together."""


@group
class Options:
    """Cluster and objective of the plan, and effort of the search."""

    mesh: list[str] = option("x=8,y=4", "Axes of the mesh and the PEs along each; repeatable.", default=...)
    cluster: str | None = option(
        "FILE",
        "File with the key `cluster`, or a shipped one. Without it: equal links of 100 GB/s, PEs of 100 TOP/s.",
    )
    memory: str | None = option("16GiB", "Memory of a PE that no plan exceeds; the default is that of the cluster.")
    metric: str = option("|".join(PLAN_METRICS), "What the plan makes least.", "--metrics", default=PLAN_METRICS[0])
    fix: list[str] = several(
        "'WQ: H=x'",
        "Where a tensor is kept: its ranks with mesh axes (x*y for two), or replicated; may be given again.",
    )
    same: list[str] = several(
        "'O: X'|none",
        "Result that lies as a graph input does, as in a stack of layers; repeatable.",
        shown="the ends of n_instances layers",
    )
    time_limit: float = option(
        "SECONDS",
        "For the best plan, and as many for those that differ; then the best so far follows.",
        default=60.0,
        min=0.1,
    )
    what_if: bool = flag(
        "Also say what half or twice the memory, twice the bandwidth or half the latency of each axis alters."
    )


def plan_command(
    options: Options, pictures: Pictures, output: Output, source: Annotated[Source, Without({"allow_code"})]
) -> None:
    """Choose how a workload is distributed over a mesh: the best plan, why others lose, where memory binds.

    Placements of all tensors and the spread of every Einsum are chosen together, what is sent between them counted.

    Example: einmap plan feed_forward --mesh x=8 --cluster a100_nodes -o plan.yaml
    """
    cluster = options.cluster
    given = [*source.files, *([cluster] if cluster else [])]
    out = PlanFiles.of(pictures, output.force, given)
    files = output.files("einmap.distribute.plans.plan.Plan", given)
    asked = plan_options(",".join(options.mesh), options.metric, options.memory, options.fix, options.same)
    with reading_inputs(source.define, *out.targets, files):
        spec = source.spec(given)
    request = plan_request(spec, asked, cluster, options.time_limit, source.root)
    with searching() as running:
        seconds = WHAT_IF_SECONDS if options.what_if else None
        planned = plan_workload(spec.workload, request, running.progress, seconds)
    output.show(lambda: planned_document(planned), lambda: planned_report(planned))
    if not output.as_json:
        name_shipped(planned, spec)
    out.write(planned)
    print_notes(spec.distribution_notes)
    files.write(planned.best.plan, "einmap.report.html.pages.plan_page.plan_page", planned, spec, source.names)
