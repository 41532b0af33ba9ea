"""`einmap rewrite`: change a mapping, or a cascade, step by step, each step keeping what it computes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.text import Text

from einmap.cli.inputs import Source, semantics_option
from einmap.cli.options import group, output_option, several
from einmap.cli.output import console, print_hint, print_notes
from einmap.cli.writing.results import SCHEMA, Tables
from einmap.cli.writing.target import Target
from einmap.einsum.notation.pretty import pretty_einsums
from einmap.einsum.rewrites.steps import USAGE as OF_CASCADES
from einmap.errors import MappingError, Note
from einmap.frontends.yaml.spec import dump, dump_mapping
from einmap.mapping.mapping import Mapping
from einmap.mapping.rewrite.text import USAGE, rewritten
from einmap.mapping.validate import validate
from einmap.model.cost import Cost
from einmap.model.evaluate import evaluate
from einmap.report.costs.provenance import provenance_document
from einmap.report.costs.rewrite_report import change_report
from einmap.spec.forms.loop_tree import write_mapping
from einmap.spec.forms.rewritten import rewritten as rewritten_cascade
from einmap.spec.forms.write_workload import write_workload
from einmap.spec.raw import to_python
from einmap.spec.shared_inputs import put_in
from einmap.spec.spec import Spec

_CASCADE = tuple(name for name in OF_CASCADES if name not in USAGE)
"""Rewrites of a cascade that `einmap partition` has too."""


@group
class Options:
    """Rewrites of the mapping, and where to write it."""

    steps: list[str] = several(
        "REWRITE",
        "A rewrite; repeatable: " + escape("; ".join(USAGE.values())) + ". "
        "A LOOP is a rank variable (k, or k#2 for the second loop over it) or an address such as nodes[3]. "
        "Of a cascade: " + escape("; ".join(f"{name} {OF_CASCADES[name]}" for name in _CASCADE)) + ".",
        "--do",
    )
    semantics: str | None = semantics_option()
    output: Path | None = output_option("Write the new mapping, as YAML.")


def rewrite_command(options: Options, output: Tables, source: Source) -> None:
    """Rewrite a mapping, or a cascade, so that it computes the same values, and show what that changes.

    Example: einmap rewrite simple matmul simple_matmul --do 'split k 8' --do 'sink Z@GlobalBuffer'

    Example: einmap rewrite attention_core --do 'online_softmax P=16'
    """
    steps = options.steps
    if not steps:
        raise typer.BadParameter("name at least one rewrite, for example 'split k 8'", param_hint="--do")
    target = Target.of(options.output, output.force, source.words)
    files = output.files("einmap.model.cost.Cost", source.words)
    spec = source.load(target, files)
    if any(step.split()[:1] and step.split()[0] in _CASCADE for step in steps):
        _rewrite_cascade(spec, steps, output, target, source)
        return
    tree = _checked_mapping(spec)
    before, problem = _cost_before(spec, options.semantics)
    mapping = _applied(spec, tree, steps)
    every = {"shared_inputs": put_in(spec.raw, spec.workload), "layouts": spec.layouts, "formats": spec.formats}
    made_for = {key: value for key, value in every.items() if value}
    after = evaluate(spec, mapping, options.semantics)
    output.show(
        lambda: _document(spec, steps, before, after, mapping, made_for),
        lambda: change_report(before, after, spec.with_mapping(mapping), mapping, console().width),
    )
    print_notes([*problem, *after.notes])
    if target is not None:
        target.write(_mapping_file(mapping, made_for, source, steps))
        print_hint(f"wrote the mapping to {target.path}")
    files.write(after)


def _rewrite_cascade(spec: Spec, steps: list[str], output: Tables, target: Target | None, source: Source) -> None:
    """Show the cascade after the steps, and write it as a specification. It has no mapping: that was for another one.

    Raises SpecError for steps that cannot be done, and for one that is of a mapping.
    """
    made = spec.with_workload(rewritten_cascade(spec.workload, steps))
    document = {"schema": SCHEMA, "rewrites": steps, "workload": write_workload(made.workload)}
    output.show(lambda: document, lambda: Text(pretty_einsums(made.workload).rstrip()))
    print_notes([*spec.load_notes, *made.bound_workload.notes])
    if spec.raw.get("mapping") is not None:
        print_hint("the mapping is left out: it is for the Einsums that were there before")
    if target is not None:
        target.write(_comment(source, steps) + dump(made))
        print_hint(f"wrote {target.path}")


def _checked_mapping(spec: Spec) -> Mapping:
    if spec.mapping is None:
        raise MappingError("no mapping given; name a file that has `mapping:`")
    archs = spec.archs
    validate(spec.mapping, spec.workload, archs, spec.place_of_node, archs)
    return spec.mapping


def _cost_before(spec: Spec, semantics: str | None) -> tuple[Cost | None, list[Note]]:
    """The cost of the old mapping; None, and a note, where it does not fit: the rewrite may mend that."""
    try:
        return evaluate(spec, semantics=semantics), []
    except MappingError as error:
        return None, [Note(f"the mapping before has no cost: {error.message}", error.at)]


def _applied(spec: Spec, mapping: Mapping, steps: list[str]) -> Mapping:
    for number, step in enumerate(steps):
        try:
            mapping = rewritten(mapping, spec.workload, step)
        except MappingError as error:
            done = f" (addresses are those after {number} rewrite{'s' if number > 1 else ''})" if number else ""
            raise MappingError(f"--do {step!r}: {error.message}{done}", at=error.at, hint=error.hint) from None
    return mapping


def _mapping_file(mapping: Mapping, made_for: dict[str, Any], source: Source, steps: list[str]) -> str:
    return _comment(source, steps) + dump_mapping(mapping, **made_for)


def _comment(source: Source, steps: list[str]) -> str:
    arguments = [*source.command_words, *(word for step in steps for word in ("--do", step))]
    lines = f"Rewritten by: {shlex.join(['einmap', 'rewrite', *arguments])}".splitlines()
    return "".join(f"# {line}\n" for line in lines)


def _document(
    spec: Spec, steps: list[str], before: Cost | None, after: Cost, mapping: Mapping, made_for: dict[str, Any]
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "rewrites": steps,
        "before": before.to_dict() if before else None,
        "after": after.to_dict(),
        "provenance": provenance_document(spec),
        "mapping": {**made_for, **to_python(write_mapping(mapping))},
    }
