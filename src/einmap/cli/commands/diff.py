"""`einmap diff`: how two mappings, architectures, workloads or specifications differ, and what that costs."""

from __future__ import annotations

from pathlib import Path

from einmap.cli.inputs import Templates, reading_inputs, semantics_option
from einmap.cli.options import argument, group, several
from einmap.cli.output import print_notes
from einmap.cli.writing.results import Tables
from einmap.errors import EinmapError, Note
from einmap.model.cost import Cost
from einmap.model.cost_difference import compare_specs
from einmap.model.evaluate import evaluate
from einmap.report.costs.difference_report import difference_report
from einmap.spec.spec import Spec

NEEDED = ("arch", "workload", "mapping")
"""Sections that a specification needs to be evaluated."""


@group
class Compared:
    """The two files to compare."""

    first: str = argument("A", "A YAML file or a name that `einmap examples` lists.")
    second: str = argument("B", "The same, compared with A.")
    shared: list[str] = several(
        "FILE", "A file or name that belongs to both, e.g. their architecture; repeatable.", "--with", "-w"
    )
    semantics: str | None = semantics_option()


def diff_command(compared: Compared, templates: Templates, output: Tables) -> None:
    """Compare two mappings, architectures, workloads or whole specifications: structure and cost.

    Costs are compared where A and B, each with the --with files, can be evaluated.

    Example: einmap diff simple_matmul_chain_unfused simple_matmul_chain_fused --with simple --with matmul_chain
    """
    names = (compared.first, compared.second)
    inputs: list[str | Path] = [*names, *compared.shared, *templates.allow_code]
    files = output.files("einmap.model.cost_difference.Difference", inputs)
    with reading_inputs(templates.define, files):
        before, after = (templates.spec([name, *compared.shared]) for name in names)
    notes: list[Note] = []
    costs = [_cost(spec, name, compared.semantics, notes) for spec, name in zip((before, after), names, strict=True)]
    both = (costs[0], costs[1]) if costs[0] is not None and costs[1] is not None else None
    difference = compare_specs(before, after, both)
    document = {**difference.to_dict(), "notes": [str(note) for note in notes]}
    output.show(lambda: document, lambda: difference_report(difference))
    print_notes(notes)
    files.write(difference)


def _cost(spec: Spec, name: str, semantics: str | None, notes: list[Note]) -> Cost | None:
    """The cost; None, and a note, where the specification is incomplete or its mapping does not fit it."""
    missing = [key for key in NEEDED if spec.raw.get(key) is None]
    if missing:
        notes.append(Note(f"{name} has no {' and no '.join(missing)}: costs are not compared (--with adds files)"))
        return None
    try:
        return evaluate(spec, semantics=semantics)
    except EinmapError as error:
        notes.append(Note(f"{name} cannot be evaluated, so that costs are not compared: {error}"))
        return None
