"""`einmap skislope`: the least traffic by capacity."""

from __future__ import annotations

from einmap.cli.inputs import Source
from einmap.cli.options import EFFORT, flag, group, option
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import SCHEMA, Output


@group
class Options:
    """Which curve, and how fine."""

    einsum: str | None = option("NAME", "Only this Einsum, by itself.")
    fuse: bool = flag(
        "Whether intermediate tensors may stay in the buffer, tile by tile.", "--fuse/--no-fuse", default=True
    )
    spacing: float = option(
        "X",
        "Ask for capacities of a cascade that are at least X times apart, from the largest down; 1: every corner.",
        default=1.0,
        panel=EFFORT,
    )
    max_fused_loops: int | None = option(
        "N",
        "The most loops that an Einsum shares with others; one is much faster for long cascades.",
        shown="any number",
        min=0,
        panel=EFFORT,
    )


def skislope_command(options: Options, output: Output, source: Source) -> None:
    """Show the least traffic to and from main memory as a function of the capacity of one buffer.

    The files give a workload; the machine has two levels, whatever architecture there is. Every row is the smallest
    capacity for its traffic. Ctrl-C ends the walk down to small capacities of a cascade.

    Example: einmap skislope matmul -D M=1024 -D K=1024 -D N=1024
    """
    # Here, not above: other commands do not need it.
    from einmap.report.search.skislope import skislope_report
    from einmap.search.skislope import ski_slope

    files = output.files("einmap.search.skislope.SkiSlope", source.words)
    spec = source.load(files)
    most = float("inf") if options.max_fused_loops is None else options.max_fused_loops
    with searching() as search:
        curve = ski_slope(
            spec,
            einsum=options.einsum,
            fuse=options.fuse,
            spacing=options.spacing,
            max_fused_loops=most,
            progress=search.progress,
        )
    output.show(lambda: {"schema": SCHEMA, **curve.to_dict()}, lambda: skislope_report(curve))
    files.write(curve, "einmap.report.html.pages.search_pages.skislope_page", curve, " ".join(source.names))
