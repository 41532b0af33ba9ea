"""`einmap emit`: the loop nest of a mapping as code with explicit data movement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.inputs import OUTPUT, AllowCode, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import print_file, print_hint, print_notes
from einmap.cli.target import Force, Target
from einmap.emit.emit import emit, language_of

Lang = Annotated[
    str,
    typer.Option(
        "--lang",
        metavar="pseudo|python|c",
        help="pseudo: text; python: a function on NumPy arrays; c: a C99 file that checks itself.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the code instead of printing it.", rich_help_panel=OUTPUT
    ),
]


def emit_command(
    files: Files,
    *,
    lang: Lang = "pseudo",
    output: Output = None,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    force: Force = False,
) -> None:
    """Print the loop nest of a mapping as code: buffers, loops, mvin and mvout, compute.

    The code moves exactly what the model counts (preset `exact`), and says so when it runs.

    Example: einmap emit simple matmul simple_matmul --lang c -o matmul.c
    """
    language_of(lang)
    target = Target.of(output, force, [*files, *(allow_code or ())])
    with reading_inputs(define, target):
        spec = load_spec(files, define, allow_code, root, top_key)
    text = emit(spec, lang)
    if target is None:
        print_file(text)
    else:
        target.write(text)
        print_hint(f"wrote {output}")
    print_notes([*spec.load_notes, *spec.bound_workload.notes])
