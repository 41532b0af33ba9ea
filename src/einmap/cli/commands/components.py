"""`einmap components`: the models of hardware components."""

from __future__ import annotations

import math
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from einmap.cli.output import print_report
from einmap.components.base import Attribute, ComponentModel
from einmap.components.registry import builtin
from einmap.report.layout import new_table, section_title

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CLASS...]", help="Classes to show with their attributes and sources.", show_default=False),
]


def components_command(names: Names = None) -> None:
    """List the models of components that `component_class` may name; they give costs that are missing.

    With classes: what each model reads, what it gives, and the publication of its figures.

    Example: einmap components SRAM DDR4
    """
    models = builtin()
    print_report(Group(*map(described, map(models.find, names))) if names else listing(list(models)))


def listing(models: list[ComponentModel]) -> RenderableType:
    """All models with their actions."""
    table = new_table("class", "actions", "what it is", left=range(3), whole=(0,))
    for model in models:
        table.add_row(Text(model.name, style="cyan"), Text(", ".join(model.actions)), Text(model.summary))
    return Group(table, Text("Try: einmap components SRAM"))


def described(model: ComponentModel) -> RenderableType:
    """One model: its attributes with units, defaults and the range for which its source holds."""
    table = new_table("attribute", "unit", "without it", "range", "what it is", left=range(5), whole=(0, 1))
    for attribute in model.attributes:
        table.add_row(
            Text(attribute.name), Text(attribute.unit or "-"), Text(_default(attribute)), Text(_range(attribute)),
            Text(attribute.meaning),
        )  # fmt: skip
    also = f" (also {', '.join(model.aliases)})" if model.aliases else ""
    return Group(
        section_title(model.name + also),
        Text(model.summary),
        Text(f"actions: {', '.join(model.actions)}"),
        Text(f"source: {model.source}"),
        table,
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
