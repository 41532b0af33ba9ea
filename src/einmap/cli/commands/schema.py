"""`einmap schema`: the JSON Schema of specification files, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.commands.dump import write_or_print
from einmap.cli.target import Force, Target
from einmap.spec.schema.json_schema import json_schema

Section = Annotated[
    str | None,
    typer.Option(
        "--section", metavar="KEY", help="Only what stands under this top-level key, e.g. arch.", show_default=False
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of printing.")]


def schema_command(section: Section = None, output: Output = None, force: Force = False) -> None:
    """Print the JSON Schema (draft 2020-12) of specification files, which editors check and complete by.

    docs/formats.md says how to use it. Example: einmap schema -o einmap.schema.json
    """
    target = Target.of(output, force)
    write_or_print(json.dumps(json_schema(section), indent=2, allow_nan=False) + "\n", target)
