"""`einmap gradient`: the backward pass of a workload, as Einsums."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

from einmap.cli.inputs import Source
from einmap.cli.options import OUTPUT, force_option, group, option
from einmap.cli.output import print_hint, print_notes, print_text
from einmap.cli.writing.target import Target
from einmap.einsum.gradients.gradient import Gradient, gradient
from einmap.einsum.gradients.update import OPTIMIZERS
from einmap.einsum.notation.pretty import pretty_einsums
from einmap.frontends.yaml.spec import dump
from einmap.spec.gradient_roles import with_gradient
from einmap.visible import listed


class Form(StrEnum):
    """The program to print."""

    EINSUMS = "einsums"
    YAML = "yaml"


def _tensors(text: str, **settings: Any) -> Any:
    return option("TENSORS", f"{text}: A,B.", **settings)


@group
class Options:
    """Tensors to differentiate, what the backward pass keeps, and where to write it."""

    of: str = _tensors("Tensors whose gradient is taken, such as a loss; their elements are summed", default=...)
    by: str = _tensors("Tensors by which it is taken, such as weights", default=...)
    recompute: str | None = _tensors("Intermediates that the backward pass computes again")
    constant: str | None = _tensors("Tensors through which no gradient flows")
    optimizer: str | None = option("|".join(OPTIMIZERS), "Append a step of this optimiser for the weights.")
    form: Form = option(None, "What to print.", "--print", default=Form.EINSUMS, panel=OUTPUT)
    output: Path | None = option("FILE", "Write the specification, as YAML.", "-o", "--output", "--out", panel=OUTPUT)
    force: bool = force_option()


def gradient_command(options: Options, source: Source) -> None:
    """Derive the backward pass of a workload: the gradients of a tensor by others, as Einsums, and print it.

    Each Einsum has its part of a training step: forward, input, weight (a backward pass that only gradients of weights
    need), or update.

    Example: einmap gradient feed_forward --of Z --by W1,W2 --optimizer adam -o training.yaml
    """
    target = Target.of(options.output, options.force, source.words)
    spec = source.load(target)
    found = gradient(
        spec.workload,
        _names(options.of),
        _names(options.by),
        recompute=_names(options.recompute),
        constant=_names(options.constant),
        optimizer=options.optimizer,
        at_of=spec.place_of_einsum,
    )
    made = with_gradient(spec, found)
    notes = dict.fromkeys((*spec.load_notes, *spec.bound_workload.notes, *made.bound_workload.notes))
    match options.form:
        case Form.EINSUMS:
            print_text(pretty_einsums(found.workload))
        case Form.YAML:
            print_text(dump(made).rstrip("\n"))
        case _:
            assert_never(options.form)
    print_notes([*notes])
    again = {found.origins[name] for name in found.copies}
    for tensor in _names(options.recompute):
        if spec.workload.producers[tensor] not in again:
            print_hint(f"{tensor} is not computed again: the backward pass does not read it")
    for hint in _hints(found):
        print_hint(hint)
    if target is not None:
        target.write(_comment(options, source) + dump(made))
        print_hint(f"wrote {target.path}")


def _names(text: str | None) -> list[str]:
    return [name for name in "".join((text or "").split()).split(",") if name]


def _hints(found: Gradient) -> list[str]:
    """Facts that the Einsums do not say."""
    kept = listed(found.kept) or "nothing"
    hints = [f"{seed} is an input: ones for the gradient of {of}" for of, seed in found.seeds.items()]
    hints.append(f"kept from the forward pass: {kept}")
    hints += [f"{tensor} is an input: the numbers 0 to {n - 1}" for tensor, n in found.rows.items()]
    if found.update is not None:
        hints += [f"{tensor} is an input of one value" for tensor in found.update.scalars.values()]
    return hints


def _comment(options: Options, source: Source) -> str:
    words = ["--of", options.of, "--by", options.by]
    for name in ("recompute", "constant", "optimizer"):
        value = getattr(options, name)
        words += [f"--{name}", value] if value else []
    lines = f"Made by: {shlex.join(['einmap', 'gradient', *source.command_words, *words])}".splitlines()
    return "".join(f"# {line}\n" for line in lines)
