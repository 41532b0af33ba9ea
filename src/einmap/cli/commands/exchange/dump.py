"""`einmap dump`: files in, one specification out, in either dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.inputs import OUTPUT, AllowCode, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import print_file, print_hint, print_notes
from einmap.cli.target import Force, Target
from einmap.frontends.yaml.spec import dump

Dialect = Annotated[
    str | None,
    typer.Option(
        "--dialect",
        metavar="older|newer",
        help="Write the architecture in the words of this dialect; without it, as it is written.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write there instead of printing.", rich_help_panel=OUTPUT),
]


def dump_command(
    files: Files,
    *,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    dialect: Dialect = None,
    output: Output = None,
    force: Force = False,
) -> None:
    """Write a whole specification as one YAML text: templates rendered, files and merges joined.

    Example: einmap dump tpu_v4i matmul --dialect newer -o newer.yaml
    """
    target = Target.of(output, force, [*files, *(allow_code or ())])
    with reading_inputs(define, target):
        spec = load_spec(files, define, allow_code, root, top_key)
    write_or_print(dump(spec, dialect), target)
    print_notes(spec.load_notes)


def write_or_print(text: str, target: Target | None) -> None:
    """`text` into the file, or to the standard output."""
    if target is None:
        print_file(text)
        return
    target.write(text)
    print_hint(f"wrote {target.path}")
