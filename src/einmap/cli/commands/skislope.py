"""`einmap skislope`: the least traffic by capacity."""

from __future__ import annotations

from typing import Annotated

import typer

from einmap.cli.inputs import EFFORT, AllowCode, AsJson, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import print_json, print_report
from einmap.cli.progress_bar import searching

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


def skislope_command(
    files: Files,
    *,
    einsum: OneEinsum = None,
    fuse: Fuse = True,
    spacing: Spacing = 1.0,
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

    with reading_inputs(define):
        spec = load_spec(files, define, allow_code, root, top_key)
    with searching() as search:
        curve = ski_slope(spec, einsum=einsum, fuse=fuse, spacing=spacing, progress=search.progress)
    if as_json:
        print_json({"schema": SCHEMA, **curve.to_dict()})
    else:
        print_report(skislope_report(curve))
