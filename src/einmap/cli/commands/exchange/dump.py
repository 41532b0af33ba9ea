"""`einmap dump`: files in, one specification out, in either dialect."""

from __future__ import annotations

from pathlib import Path

from einmap.cli.inputs import Source
from einmap.cli.options import force_option, group, option, output_option
from einmap.cli.output import print_notes
from einmap.cli.writing.target import Target, write_or_print
from einmap.frontends.yaml.spec import dump


@group
class Options:
    """How the specification is written, and where to."""

    dialect: str | None = option(
        "older|newer", "Write the architecture in the words of this dialect; without it, as it is written."
    )
    output: Path | None = output_option("Write there instead of printing.")
    force: bool = force_option()


def dump_command(source: Source, options: Options) -> None:
    """Write a whole specification as one YAML text: templates rendered, files and merges joined.

    Example: einmap dump tpu_v4i matmul --dialect newer -o newer.yaml
    """
    target = Target.of(options.output, options.force, source.words)
    spec = source.load(target)
    write_or_print(dump(spec, options.dialect), target)
    print_notes(spec.load_notes)
