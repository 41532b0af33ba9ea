"""`einmap partition`: split, flatten and linearise ranks, delay reductions, and print what the workload becomes."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

import typer
from rich.markup import escape

from einmap.cli.command import in_order
from einmap.cli.inputs import Source
from einmap.cli.options import OUTPUT, force_option, group, option, output_option, several
from einmap.cli.output import print_hint, print_notes, print_text
from einmap.cli.writing.target import Target
from einmap.einsum.notation.pretty import pretty_einsums, pretty_loops
from einmap.einsum.rewrites.steps import USAGE, Step, parse_step, partition
from einmap.errors import EinmapError
from einmap.frontends.yaml.spec import dump


class Form(StrEnum):
    """The program to print."""

    EINSUMS = "einsums"
    LOOPS = "loops"
    YAML = "yaml"


KINDS = {
    "split": "Partition a rank, by tile shapes or into parts",
    "flatten": "Fuse ranks into one",
    "linearise": "Give a flattened rank one rank variable",
    "delay": "Reduce a rank later, from a temporary",
    "online_softmax": "A softmax and its product in one pass over blocks of keys",
    "split_softmax": "The same, blocks apart from each other, corrected at the end",
}
"""The options that are steps, by name."""


def _steps(kind: str) -> Any:
    return several("STEP", f"{KINDS[kind]}: {escape(USAGE[kind])}. Repeatable.")


@group
class Options:
    """Rewrites of the workload, what to print, and where to write it."""

    split: list[str] = _steps("split")
    flatten: list[str] = _steps("flatten")
    linearise: list[str] = _steps("linearise")
    delay: list[str] = _steps("delay")
    online_softmax: list[str] = _steps("online_softmax")
    split_softmax: list[str] = _steps("split_softmax")
    form: Form = option(None, "What to print.", "--print", default=Form.EINSUMS, panel=OUTPUT)
    parallel: str | None = option("VARIABLES", "Rank variables of spatial loops: m1,h1.")
    order: str | None = option("VARIABLES", "Loops from the outside in: m1,k1,m0,k0.")
    output: Path | None = output_option("Write the specification, as YAML.")
    force: bool = force_option()


def partition_command(ctx: typer.Context, options: Options, source: Source) -> None:
    """Partition the ranks of a workload, which goes on to compute the same values, and print it.

    The steps are done in the order in which they are given.

    Example: einmap partition matmul --split K/4 --split M/4 --delay K1 --print loops --parallel k1
    """
    form, order, parallel = options.form, options.order, options.parallel
    if form is not Form.LOOPS and (parallel is not None or order is not None):
        raise typer.BadParameter("loops are shown by --print loops only", param_hint="--parallel or --order")
    words = list(in_order(ctx, {kind: getattr(options, kind) for kind in KINDS}))
    steps = [_read(kind, text) for kind, text in words]
    target = Target.of(options.output, options.force, source.words)
    spec = source.load(target)
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
        target.write(_comment(source, words) + dump(made))
        print_hint(f"wrote {target.path}")


def _read(kind: str, text: str) -> Step:
    try:
        return parse_step(kind, text)
    except EinmapError as error:
        raise typer.BadParameter(f"{error.message}; {error.hint}", param_hint=f"--{kind}") from None


def _names(text: str | None) -> list[str]:
    return [name for name in "".join((text or "").split()).split(",") if name]


def _comment(source: Source, words: list[tuple[str, str]]) -> str:
    arguments = [*source.command_words, *(word for kind, text in words for word in (f"--{kind}", text))]
    lines = f"Partitioned by: {shlex.join(['einmap', 'partition', *arguments])}".splitlines()
    return "".join(f"# {line}\n" for line in lines)
