"""`einmap export`: a workload, architecture and mapping in the format of another tool."""

from __future__ import annotations

from pathlib import Path

from einmap.cli.commands.exchange.folder import Folder
from einmap.cli.commands.exchange.formats import writer
from einmap.cli.commands.exchange.import_files import show_translation
from einmap.cli.commands.exchange.summary import check_complete
from einmap.cli.inputs import Source, reading_inputs
from einmap.cli.options import INPUT, flag, force_option, group, option, output_option


@group
class Options:
    """Format to write, and where to."""

    to: str = option("accelforge|scalesim|timeloop", "The format to write.", default=...)
    strict: bool = flag("What the format cannot say is an error.", panel=INPUT)
    output: Path | None = output_option(
        "Write into this folder, and print what is left out.", "DIR", shown="print all as one text"
    )
    force: bool = force_option()


def export_command(source: Source, options: Options) -> None:
    """Write a workload, architecture and mapping in the format of another tool, and list what it cannot say.

    Example: einmap export simple matmul simple_matmul --to timeloop -o exported
    """
    write = writer(options.to)
    folder = Folder.of(options.output, options.force)
    with reading_inputs(source.define) as noted:
        result = write(source.spec(source.files))
    if options.strict:
        check_complete(result)
    show_translation(result, folder, noted.files)
