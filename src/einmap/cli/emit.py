"""`einmap emit`: the loop nest of a mapping as code with explicit data movement."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.inputs import AllowCode, Define, Files, is_input, load_spec
from einmap.cli.output import print_hint
from einmap.emit.emit import emit, language_of
from einmap.errors import At, SpecError
from einmap.frontends.files import check_target, write_atomically

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
    typer.Option("--output", "-o", metavar="FILE", help="Write the code there instead of printing it."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]


def emit_command(
    files: Files,
    *,
    lang: Lang = "pseudo",
    output: Output = None,
    define: Define = None,
    allow_code: AllowCode = None,
    force: Force = False,
) -> None:
    """Print the loop nest of a mapping as code: buffers, loops, mvin and mvout, compute.

    The code moves exactly what the model counts (preset `exact`), and says so when it runs.

    Example: einmap emit simple matmul simple_matmul --lang c -o matmul.c
    """
    language_of(lang)
    if output is not None:
        _check_output(output, files, force)
    text = emit(load_spec(files, define, allow_code), lang)
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_atomically(output, text)
        print_hint(f"wrote {output}")


def _check_output(output: Path, files: list[str], force: bool) -> None:
    check_target(output)
    if is_input(output, files):
        text = "the output would replace a file of the specification"
        raise SpecError(text, at=At(str(output)), hint="choose another name")
    if output.exists() and not force:
        raise SpecError("the file exists", at=At(str(output)), hint="choose another name, or replace it with --force")
