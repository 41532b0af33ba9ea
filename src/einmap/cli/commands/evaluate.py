"""`einmap evaluate`: what a mapping costs."""

from __future__ import annotations

from einmap.cli.inputs import Source, semantics_option
from einmap.cli.options import flag, group
from einmap.cli.output import console, print_notes
from einmap.cli.writing.results import Output
from einmap.model.evaluate import evaluate
from einmap.report.costs.cost_report import cost_report
from einmap.report.costs.provenance import cost_document


@group
class Options:
    """Rules by which a mapping is evaluated."""

    semantics: str | None = semantics_option()
    strict: bool = flag("Violated architecture constraints are errors instead of notes.")


def evaluate_command(source: Source, options: Options, output: Output) -> None:
    """Evaluate a mapping: energy, latency, area, traffic and how full memories are.

    The files give an architecture, a workload and a mapping.

    Example: einmap evaluate simple matmul simple_matmul -D M=128
    """
    files = output.files("einmap.model.cost.Cost", source.words)
    spec = source.load(files)
    cost = evaluate(spec, semantics=options.semantics, strict=options.strict)
    output.show(lambda: cost_document(cost, spec), lambda: cost_report(cost, spec, spec.mapping, console().width))
    print_notes(cost.notes)
    files.write(cost, "einmap.report.html.pages.cost_page.evaluation_page", cost, spec, spec.mapping, source.names)
