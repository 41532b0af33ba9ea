"""`einmap import`: a model in ONNX, or files of another tool, as a specification."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.commands.exchange.folder import Folder
from einmap.cli.commands.exchange.formats import ONNX, reader
from einmap.cli.commands.exchange.summary import check_complete, left_out_table, model_summary
from einmap.cli.inputs import INPUT, OUTPUT, Define, Root, definitions, reading_inputs
from einmap.cli.output import print_file, print_hint, print_notes, print_report
from einmap.cli.target import Force, Target
from einmap.errors import SpecError
from einmap.frontends.onnx.read import from_onnx
from einmap.frontends.translation import GIVEN_FILE, Translation
from einmap.frontends.yaml.spec import dump

Given = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILES", help="An ONNX model, FILE.onnx, or with --from the files of another tool.", show_default=False
    ),
]
From = Annotated[
    str,
    typer.Option("--from", metavar="onnx|timeloop|zigzag", help="The format of FILES.", rich_help_panel=INPUT),
]
Batch = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="The first dimension of every input of a model.", show_default="as in the model",
        rich_help_panel=INPUT,
    ),
]  # fmt: skip
Bits = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=1024, help="Bits of every number.", show_default="as the files say",
        rich_help_panel=INPUT,
    ),
]  # fmt: skip
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value", metavar="NAME=VALUE",
        help="Value of an input of a model, by which control flow is known: a number, or a list; repeatable.",
        show_default=False, rich_help_panel=INPUT,
    ),
]  # fmt: skip
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Operators without Einsum form, and all that has no counterpart, are an error.",
        rich_help_panel=INPUT,
    ),
]  # fmt: skip
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="OUT", help="Write there: the workload of a model to a file, others into a folder; "
        "and print what became of them.", show_default="print the specification", rich_help_panel=OUTPUT,
    ),
]  # fmt: skip


def import_files_command(
    files: Given,
    *,
    from_: From = ONNX,
    batch: Batch = None,
    define: Define = None,
    root: Root = None,
    value: Values = None,
    bits: Bits = None,
    strict: Strict = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Read a model in ONNX, or files of another tool, and write them as a specification.

    A model becomes a cascade of Einsums; its weights are not loaded, and nothing of it is executed. -D gives sizes to
    dimensions that it leaves open, by the names that it has for them; --value gives inputs a value, by which an `If`
    takes its branch. Operators without Einsum form end the cascade and begin it again: they are listed
    with counts. Files of another tool become workload.yaml, architecture.yaml and mapping.yaml; what has no
    counterpart is listed.

    Example: einmap import resnet50.onnx --batch 1 -o resnet50.yaml

    Example: einmap import --from timeloop arch.yaml problem.yaml mapping.yaml -o imported
    """
    if from_ == ONNX:
        if len(files) != 1:
            raise SpecError(f"a model is one file, {len(files)} are given", hint="files of other tools need --from")
        known = definitions(value, "--value", "use_cache_branch=1")
        _import_model(files[0], batch, define, known, bits, strict, Target.of(output, force, [str(files[0])]))
        return
    read = reader(from_)
    if batch is not None:
        raise SpecError("--batch is for ONNX models", hint="change the problem's size in its file")
    if value:
        raise SpecError("--value is for ONNX models")
    folder = Folder.of(output, force)
    with reading_inputs(define) as noted:
        result = read(files, define=definitions(define), root=root or (), bits=bits)
    if strict:
        check_complete(result)
    show_translation(result, folder, noted.files)


def show_translation(result: Translation, folder: Folder | None, inputs: list[Path]) -> None:
    """Write the files of a translation and what is left out, or print them as one text."""
    if folder is None:
        parts = {name: text for name, text in result.files.items() if name != GIVEN_FILE}
        print_file("\n".join(parts.values()))
        if GIVEN_FILE in result.files:
            print_hint(f"{GIVEN_FILE}, for einmap map --given, is written with -o DIR alone")
        for entry in result.left_out:
            print_hint(f"{entry.at}: {entry.key} is left out: {entry.reason}")
    else:
        folder.write(result.files, inputs)
        if result.left_out:
            print_report(left_out_table(result.left_out))
        print_hint(f"wrote {', '.join(str(folder.path / name) for name in result.files)}")
    print_notes(result.notes)


def _import_model(
    model: Path,
    batch: int | None,
    define: list[str] | None,
    values: dict[str, object],
    bits: int | None,
    strict: bool,
    target: Target | None,
) -> None:
    with reading_inputs(define, target):
        sizes = definitions(define)
        result = from_onnx(model, dimensions=sizes, batch=batch, bits=bits, strict=strict, values=values)
    text = f"# {model.name}, imported by einmap\n{dump(result.spec)}"
    if target is None:
        print_file(text)
    else:
        target.write(text)
        print_report(model_summary(result))
        print_hint(f"wrote {target.path}")
    print_notes(result.notes)
