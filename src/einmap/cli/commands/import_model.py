"""`einmap import`: a model of another program as a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from einmap.cli.inputs import INPUT, OUTPUT, Define, definitions, reading_inputs
from einmap.cli.output import print_file, print_hint, print_notes, print_report
from einmap.cli.target import Force, Target
from einmap.frontends.cascade.imported import Imported
from einmap.frontends.onnx.read import from_onnx
from einmap.frontends.yaml.spec import dump
from einmap.report.layout import new_table, section_title

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX model, FILE.onnx.", show_default=False)]
Batch = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="The first dimension of every input.", show_default="as in the model",
        rich_help_panel=INPUT,
    ),
]  # fmt: skip
Bits = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=1024, help="Bits of every number.", show_default="by the types of the model",
        rich_help_panel=INPUT,
    ),
]  # fmt: skip
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Operators without Einsum form are an error, not barriers.", rich_help_panel=INPUT
    ),
]  # fmt: skip
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the workload there, and print what became of the model.",
        show_default="print the workload", rich_help_panel=OUTPUT,
    ),
]  # fmt: skip


def import_model_command(
    model: Model,
    *,
    batch: Batch = None,
    define: Define = None,
    bits: Bits = None,
    strict: Strict = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Read a model in ONNX and write it as a workload; its weights are not loaded.

    The workload is a cascade of Einsums, and nothing of the model is executed. -D gives sizes to dimensions that the
    model leaves open. Operators without Einsum form end the cascade and begin it again: they are listed with counts.

    Example: einmap import resnet50.onnx --batch 1 -o resnet50.yaml
    """
    target = Target.of(output, force, [str(model)])
    with reading_inputs(define, target):
        result = from_onnx(model, dimensions=definitions(define), batch=batch, bits=bits, strict=strict)
    text = f"# {model.name}, imported by einmap\n{dump(result.spec)}"
    if target is None:
        print_file(text)
    else:
        target.write(text)
        print_report(summary(result))
        print_hint(f"wrote {target.path}")
    print_notes(result.notes)


def summary(result: Imported) -> RenderableType:
    """What became of a model: operators with counts, those without Einsum form, and how large the cascade is."""
    workload = result.spec.workload
    table = new_table("operator", "in the model", "without Einsum form")
    for operator, count in sorted(result.operators.items(), key=lambda entry: (-entry[1], entry[0])):
        barriers = result.barrier_counts.get(operator, 0)
        table.add_row(Text(operator), f"{count:,}", f"{barriers:,}" if barriers else "-")
    macs = result.n_multiply_accumulates
    facts = (
        f"{len(workload.einsums):,} Einsums over {len(workload.tensors):,} tensors; "
        f"{macs:,} multiply-accumulates in contractions, {workload.n_computes:,} operations in all"
    )
    return Group(Text(facts), section_title("Operators"), table)
