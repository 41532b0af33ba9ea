"""`einmap schema`: the JSON Schema of input files, for editors, and what each field means, for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from einmap.cli.commands.exchange.dump import write_or_print
from einmap.cli.inputs import OUTPUT
from einmap.cli.output import print_report
from einmap.cli.target import Force, Target
from einmap.errors import SpecError
from einmap.spec.schema.fields import FieldText, example_texts, find_fields
from einmap.spec.schema.json_schema import json_schema

Section = Annotated[
    str | None,
    typer.Option(
        "--section",
        metavar="KEY",
        help="Only what stands under this top-level key, e.g. arch; or machine, for machine files.",
        show_default=False,
    ),
]
Field = Annotated[
    str | None,
    typer.Option(
        "--field",
        metavar="NAME",
        help="Say what a field means instead, e.g. arch.Memory.size, or tile_shape for all of that name.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write there instead of printing.", rich_help_panel=OUTPUT),
]


def schema_command(section: Section = None, field: Field = None, output: Output = None, force: Force = False) -> None:
    """Print the JSON Schema (draft 2020-12) of specification files, which editors check and complete by.

    docs/input-files.md says how to use it in an editor. With --field: what a field means.

    Example: einmap schema -o einmap.schema.json
    """
    if field is not None:
        if section is not None or output is not None:
            raise SpecError("--field prints text about fields; leave out --section and -o")
        print_report(Group(*(described(text, names) for text, names in find_fields(field))))
        return
    target = Target.of(output, force)
    write_or_print(json.dumps(json_schema(section), indent=2, allow_nan=False) + "\n", target)


def described(field: FieldText, names: list[str]) -> RenderableType:
    """What is said of one field, under all its names."""
    rows = [field.description, f"takes    {field.kind}".replace("`", "")]
    rows += [f"unit     {field.unit}"] if field.unit else []
    rows += [f"default  {field.default}".replace("`", "")]
    rows += [f"example  {example}" for example in example_texts(field)]
    heading = Text(", ".join(names), style="bold cyan")
    return Group(heading, *(Padding(Text(row), (0, 0, 0, 2)) for row in rows), Text(""))
