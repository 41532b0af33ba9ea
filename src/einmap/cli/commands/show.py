"""`einmap show`: a mapping, an architecture or a workload as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.inputs import OUTPUT, AllowCode, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import print_file, print_hint, print_notes
from einmap.cli.target import Force, Target
from einmap.errors import At, EinmapError, SpecError
from einmap.frontends.files import read_text_file
from einmap.report.drawing.draw import What, draw, what_to_draw
from einmap.report.drawing.svg import MARK
from einmap.spec.spec import Spec

STDOUT = "-"


Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.svg",
        help="Where to write; - is stdout.",
        show_default="here, named after the file",
        rich_help_panel=OUTPUT,
    ),
]
WhatName = Annotated[
    str | None,
    typer.Option(
        metavar="mapping|arch|workload",
        help="What to draw; the default is the mapping, or else the only thing given.",
        show_default=False,
    ),
]
EinsumName = Annotated[
    str | None, typer.Option("--einsum", metavar="NAME", help="Draw what concerns one Einsum.", show_default=False)
]
Costs = Annotated[
    bool,
    typer.Option("--costs", help="Evaluate the mapping, and write into its nodes iterations, tiles, and energy."),
]
ThemeName = Annotated[
    str, typer.Option("--theme", metavar="light|dark", help="Dark text on light ground, or light text on dark ground.")
]


def show_command(
    files: Files,
    *,
    output: Output = None,
    what: WhatName = None,
    einsum: EinsumName = None,
    costs: Costs = False,
    theme: ThemeName = "light",
    force: Force = False,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
) -> None:
    """Draw a mapping as a LoopTree, an architecture as a tree, or a workload as a graph: an SVG file.

    Files that hold a mapping are drawn as that; --costs needs an architecture and a workload beside it.

    Example: einmap show simple two_matvecs simple_two_matvecs_fused --costs -o fused.svg
    """
    target = None
    if output is not None and output != STDOUT:
        _check_name(Path(output))
        target = Target.of(Path(output), force, [*files, *(allow_code or ())])
    with reading_inputs(define, target) as read:
        spec = load_spec(files, define, allow_code, root, top_key)
    name = _name(spec, what_to_draw(spec, what))
    if output is None:
        target = _default_target(Path(f"{name}.svg"), force, read.files)
    picture = draw(spec, what, einsum=einsum, costs=costs, title=name, theme=theme)
    if target is None:
        print_file(picture)
    else:
        target.write(picture)
    print_notes(spec.load_notes)
    if target is not None:
        print_hint(f"wrote {target.path}")


def _name(spec: Spec, what: What) -> str:
    """The name of the file that holds what is drawn, without its ending."""
    file = spec.provenance(what).file
    return Path(file).stem if file else what


def _check_name(path: Path) -> None:
    if path.suffix.lower() != ".svg":
        raise typer.BadParameter(f"{path}: the picture is an SVG, name it {path.stem}.svg", param_hint="--output")


def _default_target(path: Path, force: bool, read: list[Path]) -> Target | None:
    """Under a name that was not asked for nothing but an earlier drawing is replaced."""
    is_drawing = _is_drawing(path)
    if path.exists() and not force and not is_drawing:
        text = "this file is there already, and einmap did not draw it"
        raise SpecError(text, at=At(str(path)), hint="name another one with -o, or replace it with --force")
    target = Target.of(path, force or is_drawing)
    if target is not None:
        target.spare(read)
    return target


def _is_drawing(path: Path) -> bool:
    try:
        return MARK in read_text_file(path)[:1000]
    except EinmapError:
        return False
