"""`einmap partition`: split, flatten and linearise ranks, delay reductions, and print what the workload becomes."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, assert_never

import typer
from rich.markup import escape

from einmap.cli.command import in_order
from einmap.cli.inputs import OUTPUT, AllowCode, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import print_hint, print_notes, print_text
from einmap.cli.target import Force, Target
from einmap.einsum.notation.pretty import pretty_einsums, pretty_loops
from einmap.einsum.rewrites.steps import USAGE, Step, parse_step, partition
from einmap.errors import EinmapError
from einmap.frontends.yaml.spec import dump


class Form(StrEnum):
    """What is printed."""

    EINSUMS = "einsums"
    LOOPS = "loops"
    YAML = "yaml"


def _steps(kind: str, what: str) -> Any:
    text = f"{what}: {escape(USAGE[kind])}. Repeatable."
    return typer.Option(f"--{kind}", metavar="STEP", help=text, show_default=False)


Split = Annotated[list[str] | None, _steps("split", "Partition a rank, by tile shapes or into parts")]
Flatten = Annotated[list[str] | None, _steps("flatten", "Fuse ranks into one")]
Linearise = Annotated[list[str] | None, _steps("linearise", "Give a flattened rank one rank variable")]
Delay = Annotated[list[str] | None, _steps("delay", "Reduce a rank later, from a temporary")]
Parallel = Annotated[
    str | None,
    typer.Option("--parallel", metavar="VARIABLES", help="Rank variables of spatial loops: m1,h1.", show_default=False),
]
Order = Annotated[
    str | None,
    typer.Option("--order", metavar="VARIABLES", help="Loops from the outside in: m1,k1,m0,k0.", show_default=False),
]
Print = Annotated[Form, typer.Option("--print", help="What to print.", rich_help_panel=OUTPUT)]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the specification, as YAML.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


def partition_command(
    ctx: typer.Context,
    files: Files,
    *,
    split: Split = None,
    flatten: Flatten = None,
    linearise: Linearise = None,
    delay: Delay = None,
    form: Print = Form.EINSUMS,
    parallel: Parallel = None,
    order: Order = None,
    output: Output = None,
    force: Force = False,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
) -> None:
    """Partition the ranks of a workload, which goes on to compute the same values, and print it.

    The steps are done in the order in which they are given.

    Example: einmap partition matmul --split K/4 --split M/4 --delay K1 --print loops --parallel k1
    """
    options = {"split": split, "flatten": flatten, "linearise": linearise, "delay": delay}
    if form is not Form.LOOPS and (parallel is not None or order is not None):
        raise typer.BadParameter("loops are shown by --print loops only", param_hint="--parallel or --order")
    words = list(in_order(ctx, options))
    steps = [_read(kind, text) for kind, text in words]
    target = Target.of(output, force, [*files, *(allow_code or ())])
    with reading_inputs(define, target):
        spec = load_spec(files, define, allow_code, root, top_key)
    changed = partition(spec.workload, steps).workload
    # made only where it is asked for, since renames may speak of rank variables that are gone: then it is refused
    made = spec.with_workload(changed) if form is Form.YAML or target is not None else None
    notes = [*spec.load_notes, *(spec if made is None else made).bound_workload.notes]
    match form:
        case Form.EINSUMS:
            print_text(pretty_einsums(changed))
        case Form.LOOPS:
            print_text(pretty_loops(changed, _names(order), _names(parallel)))
        case Form.YAML:
            assert made is not None
            print_text(dump(made).rstrip("\n"))
        case _:
            assert_never(form)
    print_notes(notes)
    if made is not None and spec.raw.get("mapping") is not None:
        print_hint("the mapping is left out: it is for the ranks that were there before")
    if target is not None and made is not None:
        target.write(_comment(files, define or [], words) + dump(made))
        print_hint(f"wrote {output}")


def _read(kind: str, text: str) -> Step:
    try:
        return parse_step(kind, text)
    except EinmapError as error:
        raise typer.BadParameter(f"{error.message}; {error.hint}", param_hint=f"--{kind}") from None


def _names(text: str | None) -> list[str]:
    return [name for name in "".join((text or "").split()).split(",") if name]


def _comment(files: list[str], define: list[str], words: list[tuple[str, str]]) -> str:
    steps = (word for kind, text in words for word in (f"--{kind}", text))
    arguments = [*files, *(word for definition in define for word in ("-D", definition)), *steps]
    lines = f"Partitioned by: {shlex.join(['einmap', 'partition', *arguments])}".splitlines()
    return "".join(f"# {line}\n" for line in lines)
