"""`einmap show`: a mapping, an architecture or a workload as a picture."""

from __future__ import annotations

from pathlib import Path

import typer

from einmap.cli.inputs import Source, reading_inputs
from einmap.cli.options import flag, force_option, group, option, output_option
from einmap.cli.output import print_file, print_hint, print_notes
from einmap.cli.writing.target import Target
from einmap.errors import At, EinmapError, SpecError
from einmap.frontends.files import read_text_file
from einmap.report.drawing.draw import What, draw, what_to_draw
from einmap.report.drawing.svg import MARK
from einmap.spec.spec import Spec

STDOUT = "-"


@group
class Options:
    """Thing to draw, and where to write it."""

    output: str | None = output_option("Where to write; - is stdout.", "FILE.svg", shown="here, named after the file")
    what: str | None = option(
        "mapping|arch|workload", "What to draw; the default is the mapping, or else the only thing given."
    )
    einsum: str | None = option("NAME", "Draw what concerns one Einsum.")
    costs: bool = flag("Evaluate the mapping, and write into its nodes iterations, tiles, and energy.")
    theme: str = option("light|dark", "Dark text on light ground, or light text on dark ground.", default="light")
    force: bool = force_option()


def show_command(options: Options, source: Source) -> None:
    """Draw a mapping as a LoopTree, an architecture as a tree, or a workload as a graph: an SVG file.

    Files that hold a mapping are drawn as that; --costs needs an architecture and a workload beside it.

    Example: einmap show simple two_matvecs simple_two_matvecs_fused --costs -o fused.svg
    """
    target, output, what = None, options.output, options.what
    if output is not None and output != STDOUT:
        _check_name(Path(output))
        target = Target.of(Path(output), options.force, source.words)
    with reading_inputs(source.define, target) as read:
        spec = source.spec(source.files)
    name = _name(spec, what_to_draw(spec, what))
    if output is None:
        target = _default_target(Path(f"{name}.svg"), options.force, read.files)
    picture = draw(spec, what, einsum=options.einsum, costs=options.costs, title=name, theme=options.theme)
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
