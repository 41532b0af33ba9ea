"""`einmap explain`: why a mapping costs what it does."""

from __future__ import annotations

from einmap.cli.inputs import Source
from einmap.cli.options import flag, group, several
from einmap.cli.output import console, print_notes
from einmap.cli.writing.results import Output
from einmap.errors import EinmapError, Note, SpecError, did_you_mean, raise_all
from einmap.model.evaluate import evaluate
from einmap.model.explanation.energy_terms import explain_energy
from einmap.model.explanation.explain import explain
from einmap.model.explanation.filters import only
from einmap.report.costs.provenance import energy_report
from einmap.report.explanations.explanation import explanation_report
from einmap.report.explanations.explanation_summary import explanation_summary
from einmap.spec.spec import Spec


@group
class Options:
    """Parts of the cost to explain."""

    einsum: list[str] = several("NAME", "Everything about this Einsum; repeatable.")
    tensor: list[str] = several("NAME", "Everything about this tensor; repeatable.")
    component: list[str] = several("NAME", "Everything about this component; repeatable.")
    energy: bool = flag("Only the energy: each part with the line or publication of its number.")
    everything: bool = flag("Every section in place of the summary.", "--all", "--full")

    @property
    def names(self) -> tuple[list[str], list[str], list[str]]:
        """Einsums, tensors and components that are asked for."""
        return self.einsum, self.tensor, self.component


def explain_command(source: Source, options: Options, output: Output) -> None:
    """Explain a mapping: what limits it, where energy and traffic come from, what would help.

    Begins with a summary; --all, or the name of an Einsum, tensor or component, gives reuse at every storage node, what
    each count is made of, and the lives of buffers.

    Counted as the preset `exact` does; every number is one that `einmap simulate` would count. With --energy the sum
    of `einmap evaluate`, under the preset of the specification.

    Example: einmap explain simple matmul simple_matmul --tensor A
    """
    kind = f"einmap.model.explanation.{'energy_terms.EnergyExplanation' if options.energy else 'values.Explanation'}"
    files = output.files(kind, source.words)
    spec = source.load(files)
    _check_names(spec, options)
    if options.energy:
        terms = explain_energy(spec).only(*options.names)
        output.show(terms.to_dict, lambda: energy_report(terms))
        print_notes([note for note in terms.notes if note.kind == "warning"])
        cost = evaluate(spec) if output.has_page else None
        files.write(terms, "einmap.report.html.pages.cost_page.energy_page", terms, cost, spec, source.names)
        return
    explanation = only(explain(spec), *options.names)
    report = explanation_report if options.everything or any(options.names) else explanation_summary
    output.show(explanation.to_dict, lambda: report(explanation, console().width))
    notes = [note for note in explanation.notes if note.kind == "warning"]
    if spec.model_options.semantics != "exact":
        notes.append(Note(f"the specification asks for {spec.model_options.semantics}; explained is what exact counts"))
    print_notes(notes)
    files.write(
        explanation,
        "einmap.report.html.pages.cost_page.explanation_page",
        explanation,
        spec,
        spec.mapping,
        source.names,
    )


def _check_names(spec: Spec, asked: Options) -> None:
    """Raise SpecError for names that the specification does not have."""
    problems: list[EinmapError] = []
    known = {
        "--einsum": (asked.einsum, [e.name for e in spec.workload.einsums], "the workload has no such Einsum"),
        "--tensor": (asked.tensor, sorted(spec.workload.users), "the workload has no such tensor"),
        "--component": (asked.component, list(spec.arch().components), "the architecture has no such component"),
    }
    for option, (names, valid, text) in known.items():
        for name in names:
            if name not in valid:
                problems.append(SpecError(f"{option} {name}: {text}", hint=did_you_mean(name, valid, listing="valid")))
    raise_all(problems)
