"""`einmap components`: the models of hardware components."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from einmap.cli.inputs import Templates, reading_inputs
from einmap.cli.options import argument, flag, group
from einmap.cli.output import print_notes, print_report
from einmap.cli.writing.results import Tables
from einmap.components.base import Attribute, ComponentModel
from einmap.components.registry import builtin
from einmap.errors import SpecError
from einmap.report.text.formatting import quantity
from einmap.report.text.layout import Table, laid_out, section_title
from einmap.spec.cost_sources import CostSource, component_modeling_log, cost_sources


@group
class Options:
    """Of what is told."""

    names: list[str] = argument(
        "[CLASS... | show FILE...]", "Classes to show; or `show` and the files of an architecture.", default=[]
    )
    log: bool = flag("With `show`: print what each model did, step by step.")


def components_command(options: Options, templates: Templates, output: Tables) -> None:
    """List the models of components that `component_class` may name; they give costs that are missing.

    With classes: what each model reads, what it gives, and the publication of its figures. With `show` and the files of
    an architecture: what each component costs, and where each number comes from. Costs are those for the first Einsum;
    without a workload for a matrix product.

    Example: einmap components show eyeriss_components -D BITS=16
    """
    names = options.names
    files = output.files("einmap.spec.cost_sources.CostSource", names[1:])
    if names[:1] == ["show"]:
        if not names[1:]:
            raise SpecError("`einmap components show` needs the files of an architecture")
        with reading_inputs(templates.define, files):
            spec = templates.spec(names[1:])
            if spec.raw.get("workload") is None:
                spec = templates.spec([*names[1:], "matmul"])
        einsum = spec.workload.einsums[0].name
        sources, steps = cost_sources(spec, einsum), component_modeling_log(spec, einsum)
        document = {"costs": [asdict(row) for row in sources], "component_modeling_log": steps}
        output.show(lambda: document, lambda: cost_table(sources, steps if options.log else {}))
        files.write(sources)
        print_notes(note for note in spec.notes if note.at is not None and note.at.path.startswith("arch."))
        return
    if output.csv is not None or output.parquet is not None:
        raise typer.BadParameter("tables have the costs of an architecture: einmap components show FILES --csv FILE")
    models = builtin()
    print_report(Group(*map(described, map(models.find, names))) if names else listing(list(models)))


def cost_table(sources: tuple[CostSource, ...], steps: Mapping[str, tuple[str, ...]]) -> RenderableType:
    """The costs of all components with their sources; `steps`: what models did, by component."""
    texts, before = [], ""
    for row in sources:
        what = row.quantity.replace("_", " ") if row.action is None else f"{row.action} {row.quantity}"
        value = quantity(row.value, row.quantity)
        source = "; ".join((row.source, *row.scaling))
        if row.factors:
            source = f"{' '.join((quantity(row.before, row.quantity), *map(str, row.factors)))}; {source}"
        texts.append((row.component if row.component != before else "", what, value, source))
        before = row.component
    table = laid_out(Table(("component", "cost", "", "from"), texts, left=(0, 1, 3), whole=(0, 1, 2)))
    lines = [Text(f"{name}: {step}") for name, done in steps.items() for step in done if step]
    return Group(table, *([section_title("modelling"), *lines] if lines else []))


def listing(models: list[ComponentModel]) -> RenderableType:
    """All models with their actions."""
    texts = [(model.name, ", ".join(model.actions), model.summary) for model in models]
    table = laid_out(Table(("class", "actions", "what it is"), texts, left=range(3), whole=(0,)))
    return Group(table, Text("Try: einmap components SRAM"))


def described(model: ComponentModel) -> RenderableType:
    """One model: its attributes with units, defaults and the range for which its source holds."""
    texts = [(a.name, a.unit or "-", _default(a), _range(a), a.meaning) for a in model.attributes]
    head = ("attribute", "unit", "without it", "range", "what it is")
    also = f" (also {', '.join(model.aliases)})" if model.aliases else ""
    return Group(
        section_title(model.name + also),
        Text(model.summary),
        Text(f"actions: {', '.join(model.actions)}"),
        Text(f"source: {model.source}"),
        laid_out(Table(head, texts, left=range(5), whole=(0, 1))),
        Text(""),
    )


def _default(attribute: Attribute) -> str:
    if attribute.default is None:
        return "not used" if attribute.optional else "an error"
    return attribute.default if isinstance(attribute.default, str) else f"{attribute.default:g}"


def _range(attribute: Attribute) -> str:
    if attribute.choices:
        return ", ".join(attribute.choices)
    if attribute.least <= 0 and math.isinf(attribute.most):
        return "-"
    return f"{attribute.least:g} to {attribute.most:g}"
