"""`einmap schema`: the JSON Schema of input files, for editors, and what each field means, for people."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from einmap.cli.options import force_option, group, option, output_option
from einmap.cli.output import print_report
from einmap.cli.writing.target import Target, write_or_print
from einmap.errors import SpecError
from einmap.spec.schema.fields import FieldText, example_texts, find_fields
from einmap.spec.schema.json_schema import json_schema


@group
class Options:
    """Parts of the schema to show, and where to write them."""

    section: str | None = option(
        "KEY", "Only what stands under this top-level key, e.g. arch; or machine, for machine files."
    )
    field: str | None = option(
        "NAME", "Say what a field means instead, e.g. arch.Memory.size, or tile_shape for all of that name."
    )
    output: Path | None = output_option("Write there instead of printing.")
    force: bool = force_option()


def schema_command(options: Options) -> None:
    """Print the JSON Schema (draft 2020-12) of specification files, which editors check and complete by.

    docs/input-files.md says how to use it in an editor. With --field: what a field means.

    Example: einmap schema -o einmap.schema.json
    """
    if options.field is not None:
        if options.section is not None or options.output is not None:
            raise SpecError("--field prints text about fields; leave out --section and -o")
        print_report(Group(*(described(text, names) for text, names in find_fields(options.field))))
        return
    target = Target.of(options.output, options.force)
    write_or_print(json.dumps(json_schema(options.section), indent=2, allow_nan=False) + "\n", target)


def described(field: FieldText, names: list[str]) -> RenderableType:
    """Description of one field, under all its names."""
    rows = [field.description, f"takes    {field.kind}".replace("`", "")]
    rows += [f"unit     {field.unit}"] if field.unit else []
    rows += [f"default  {field.default}".replace("`", "")]
    rows += [f"example  {example}" for example in example_texts(field)]
    heading = Text(", ".join(names), style="bold cyan")
    return Group(heading, *(Padding(Text(row), (0, 0, 0, 2)) for row in rows), Text(""))
