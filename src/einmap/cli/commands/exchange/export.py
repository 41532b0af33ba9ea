"""`einmap export`: a workload, architecture and mapping in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.commands.exchange.folder import Folder
from einmap.cli.commands.exchange.formats import writer
from einmap.cli.commands.exchange.import_files import show_translation
from einmap.cli.commands.exchange.summary import check_complete
from einmap.cli.inputs import INPUT, OUTPUT, AllowCode, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.target import Force

To = Annotated[
    str, typer.Option("--to", metavar="accelforge|timeloop", help="The format to write.", show_default=False)
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="What the format cannot say is an error.", rich_help_panel=INPUT),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Write into this folder, and print what is left out.",
        show_default="print all as one text", rich_help_panel=OUTPUT,
    ),
]  # fmt: skip


def export_command(
    files: Files,
    *,
    to: To,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    strict: Strict = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Write a workload, architecture and mapping in the format of another tool, and list what it cannot say.

    Example: einmap export simple matmul simple_matmul --to timeloop -o exported
    """
    write = writer(to)
    folder = Folder.of(output, force)
    with reading_inputs(define) as noted:
        result = write(load_spec(files, define, allow_code, root, top_key))
    if strict:
        check_complete(result)
    show_translation(result, folder, noted.files)
